//! The read buffer of a connection: small while idle, large under load, never larger than one frame needs.

/// Size of an idle connection's buffer.
const SIZE_MIN: usize = 512;
/// Size up to which load alone grows it; a larger frame grows it further.
const SIZE_MAX: usize = 64 * 1024;
/// Reads that fill less than half before the buffer is halved.
const SHORT_READS_MAX: u32 = 2;

/// Bytes read and not yet consumed, at the front of a buffer.
#[derive(Debug)]
pub struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    short_reads: u32,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { bytes: vec![0; SIZE_MIN], start: 0, end: 0, short_reads: 0 }
    }
}

impl ReadBuffer {
    /// What is there to parse.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// `count` bytes are done with.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end, "consumed more than was read");
    }

    /// Room to read into; never empty. The unparsed rest has moved to the front.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() {
            // One frame larger than the buffer: it doubles only as bytes really arrive, so a size announced costs nothing.
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// `count` bytes were read into `space`.
    pub fn read(&mut self, count: usize) {
        self.end += count;
        assert!(self.end <= self.bytes.len(), "read beyond the buffer");
        if self.end == self.bytes.len() {
            self.short_reads = 0;
            if self.bytes.len() < SIZE_MAX {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        } else if self.end < self.bytes.len() / 2 {
            self.short_reads += 1;
        }
    }

    /// All that could be parsed is parsed: give memory back if the load is gone.
    pub fn settle(&mut self) {
        if self.start < self.end {
            return;
        }
        (self.start, self.end) = (0, 0);
        if self.short_reads > SHORT_READS_MAX && self.bytes.len() > SIZE_MIN {
            self.short_reads = 0;
            self.bytes.truncate(self.bytes.len() / 2);
            self.bytes.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(buffer: &mut ReadBuffer, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let space = buffer.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            buffer.read(count);
            rest = &rest[count..];
        }
    }

    #[test]
    fn a_frame_larger_than_the_buffer_is_kept_whole() {
        let mut buffer = ReadBuffer::default();
        let frame: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        feed(&mut buffer, &frame);
        assert_eq!(buffer.filled(), frame);
        assert!(buffer.bytes.len() <= 2 * 262_144);
    }

    #[test]
    fn it_shrinks_again_when_reads_are_short() {
        let mut buffer = ReadBuffer::default();
        feed(&mut buffer, &[1; 100_000]);
        buffer.consume(100_000);
        buffer.settle();
        for _ in 0..100 {
            feed(&mut buffer, b"PING\r\n");
            buffer.consume(6);
            buffer.settle();
        }
        assert_eq!(buffer.bytes.len(), SIZE_MIN);
    }

    #[test]
    fn the_unparsed_rest_survives_moves_and_growth() {
        let mut buffer = ReadBuffer::default();
        feed(&mut buffer, &[b'x'; SIZE_MIN - 3]);
        buffer.consume(SIZE_MIN - 6);
        feed(&mut buffer, b"abc");
        assert_eq!(buffer.filled(), b"xxxabc");
    }
}
