//! One S2 block: literals and copies of what came before, as in Snappy, and copies that use the last distance again.
//!
//! Written are Snappy blocks, which are S2 blocks that never use the last distance again. Read is both, with every length and distance checked.

use super::Error;

/// Most bytes that a block may hold when it is unpacked; S2 writers stop at this.
pub(super) const CONTENT_BYTES_MAX: usize = 4 << 20;

/// Appends a block with this content.
pub(super) fn encode(content: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + snap::raw::max_compress_len(content.len()), 0);
    let Ok(length) = snap::raw::Encoder::new().compress(content, &mut out[start..]) else {
        unreachable!("the output has room for the longest result, and content is shorter than 4 GiB")
    };
    out.truncate(start + length);
}

/// Reads a block's operations.
struct Source<'a> {
    bytes: &'a [u8],
    /// Of the whole block, for errors.
    size: usize,
}

impl Source<'_> {
    fn error(&self, reason: &'static str) -> Error {
        Error::Block { size: self.size, reason }
    }

    /// A number of `count` bytes, at most four, lowest first.
    fn number(&mut self, count: usize) -> Result<usize, Error> {
        let Some((bytes, rest)) = self.bytes.split_at_checked(count) else {
            return Err(self.error("it ends within a number"));
        };
        self.bytes = rest;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
    }

    /// Length of the content, in front of everything.
    fn content_length(&mut self) -> Result<usize, Error> {
        let mut value = 0usize;
        for shift in [0, 7, 14, 21] {
            let byte = self.number(1)?;
            value |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let fits = value <= CONTENT_BYTES_MAX;
                return if fits { Ok(value) } else { Err(self.error("its content is too long")) };
            }
        }
        Err(self.error("its content is too long"))
    }

    /// Length of a literal, whose tag's upper bits are `code`.
    fn literal_length(&mut self, code: usize) -> Result<usize, Error> {
        let length = if code < 60 { code } else { self.number(code - 59)? };
        Ok(length + 1)
    }

    /// Length of a copy that uses the last distance again.
    fn repeat_length(&mut self, code: usize) -> Result<usize, Error> {
        Ok(match code {
            5 => self.number(1)? + 8,
            6 => self.number(2)? + (1 << 8) + 4,
            7 => self.number(3)? + (1 << 16) + 4,
            code => code + 4,
        })
    }
}

/// Appends the content of a block.
pub(super) fn decode(block: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut source = Source { bytes: block, size: block.len() };
    let length = source.content_length()?;
    let start = out.len();
    let end = start + length;
    out.reserve(length);
    let mut distance = 0;
    while let Some((tag, rest)) = source.bytes.split_first() {
        let tag = usize::from(*tag);
        source.bytes = rest;
        let copied = match tag & 3 {
            0 => {
                let length = source.literal_length(tag >> 2)?;
                let Some((literal, rest)) = source.bytes.split_at_checked(length) else {
                    return Err(source.error("it ends within a literal"));
                };
                if literal.len() > end - out.len() {
                    return Err(source.error("it holds more than it says"));
                }
                out.extend_from_slice(literal);
                source.bytes = rest;
                continue;
            }
            1 => {
                let code = tag >> 2 & 7;
                match (tag & 0xe0) << 3 | source.number(1)? {
                    0 => source.repeat_length(code)?,
                    far => {
                        distance = far;
                        code + 4
                    }
                }
            }
            width => {
                distance = source.number(if width == 2 { 2 } else { 4 })?;
                (tag >> 2) + 1
            }
        };
        if distance == 0 || distance > out.len() - start {
            return Err(source.error("a copy reaches before its start"));
        }
        if copied > end - out.len() {
            return Err(source.error("it holds more than it says"));
        }
        copy(out, distance, copied);
    }
    if out.len() < end {
        return Err(source.error("it holds less than it says"));
    }
    Ok(())
}

/// Appends `length` bytes that begin `distance` bytes before the end; they may reach into themselves.
fn copy(out: &mut Vec<u8>, distance: usize, mut length: usize) {
    let from = out.len() - distance;
    while length > 0 {
        let there = (out.len() - from).min(length);
        out.extend_from_within(from..from + there);
        length -= there;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(block: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = b"before".to_vec();
        decode(block, &mut out)?;
        assert_eq!(&out[..6], b"before");
        Ok(out.split_off(6))
    }

    #[test]
    fn what_is_written_comes_back() {
        let text = b"the quick brown fox jumps over the lazy dog, the quick brown fox".repeat(300);
        for content in [&b""[..], b"a", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &text] {
            let mut block = Vec::new();
            encode(content, &mut block);
            assert_eq!(unpack(&block).unwrap(), content);
        }
    }

    #[test]
    fn copies_with_the_last_distance() {
        // "ab", four bytes from two before, then each kind of length with the same distance.
        let mut block = vec![0x80 | 0x72, 0x83, 0x08, 4, b'a', b'b', 0x01, 2];
        block.extend_from_slice(&[1, 0]);
        block.extend_from_slice(&[5 << 2 | 1, 0, 2]);
        block.extend_from_slice(&[6 << 2 | 1, 0, 1, 0]);
        block.extend_from_slice(&[7 << 2 | 1, 0, 0, 0, 1]);
        let lengths = 2 + 4 + 4 + (2 + 8) + (1 + 256 + 4) + (65_536 + 65_536 + 4);
        let head: Vec<u8> =
            vec![lengths as u8 & 0x7f | 0x80, (lengths >> 7) as u8 | 0x80, (lengths >> 14) as u8];
        block.splice(..3, head);
        let content = unpack(&block).unwrap();
        assert_eq!(content.len(), lengths);
        assert!(content.chunks(2).all(|pair| b"ab".starts_with(pair)));
    }

    #[test]
    fn nonsense_is_refused() {
        for (block, reason) in [
            (&[][..], "it ends within a number"),
            (&[0xff, 0xff, 0xff, 0xff, 0x01], "its content is too long"),
            (&[0x81, 0x80, 0x80, 0x02], "its content is too long"),
            (&[5, 4, b'a'], "it ends within a literal"),
            (&[1, 4, b'a', b'b'], "it holds more than it says"),
            (&[2, 0, b'a'], "it holds less than it says"),
            (&[9, 0, b'a', 1, 2], "a copy reaches before its start"),
            (&[9, 1, 0], "a copy reaches before its start"),
            (&[4, 0, b'a', 1, 1], "it holds more than it says"),
            (&[4, 0, b'a', 2, 1], "it ends within a number"),
            (&[4, 0xf0], "it ends within a number"),
        ] {
            assert_eq!(unpack(block).unwrap_err(), Error::Block { size: block.len(), reason }, "{block:?}");
        }
    }
}
