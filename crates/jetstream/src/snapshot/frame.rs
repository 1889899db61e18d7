//! The framing around blocks: an identifier, then frames with a kind, a length and mostly a checksum.

use bytes::{Buf, BytesMut};

use super::Error;
use super::block::{self, CONTENT_BYTES_MAX};
use super::crc;

/// Content of one block that is written. Snappy looks no further back than this, so more would win nothing.
const BLOCK_BYTES: usize = 64 << 10;
/// Kind and length in front of each frame.
const HEADER: usize = 4;
/// Checksum in front of each content.
const SUM: usize = 4;
/// Longest frame with content: a block that could not be made smaller, with what S2 and Snappy add at worst.
const FRAME_BYTES_MAX: usize = SUM + 32 + CONTENT_BYTES_MAX + CONTENT_BYTES_MAX / 6;

const PACKED: u8 = 0x00;
const PLAIN: u8 = 0x01;
/// Kinds from here on may be passed over.
const SKIPPABLE: u8 = 0x80;
const IDENTIFIER: u8 = 0xff;
const S2: &[u8] = b"S2sTwO";
const SNAPPY: &[u8] = b"sNaPpY";

/// Writes content as frames.
#[derive(Debug, Default)]
pub struct Packer {
    content: Vec<u8>,
    begun: bool,
}

impl Packer {
    /// Takes content; whole blocks are appended to `out` as frames.
    pub fn write(&mut self, mut content: &[u8], out: &mut Vec<u8>) {
        while self.content.len() + content.len() >= BLOCK_BYTES {
            let (now, rest) = content.split_at(BLOCK_BYTES - self.content.len());
            self.content.extend_from_slice(now);
            self.flush(out);
            content = rest;
        }
        self.content.extend_from_slice(content);
    }

    /// Appends a frame with what was taken and is not in one.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            put_header(IDENTIFIER, S2.len(), out);
            out.extend_from_slice(S2);
        }
        if self.content.is_empty() {
            return;
        }
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        out.extend_from_slice(&crc::masked(&self.content).to_le_bytes());
        block::encode(&self.content, out);
        let mut kind = PACKED;
        if out.len() - start - HEADER - SUM >= self.content.len() {
            kind = PLAIN;
            out.truncate(start + HEADER + SUM);
            out.extend_from_slice(&self.content);
        }
        let length = (out.len() - start - HEADER) as u32;
        out[start..start + HEADER].copy_from_slice(&(length << 8 | u32::from(kind)).to_le_bytes());
        self.content.clear();
    }
}

fn put_header(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&((length as u32) << 8 | u32::from(kind)).to_le_bytes());
}

/// Reads content from frames, cut anywhere.
#[derive(Debug, Default)]
pub struct Unpacker {
    input: BytesMut,
    /// Bytes of a frame that is passed over which have not come yet.
    skip: usize,
    begun: bool,
}

impl Unpacker {
    /// Takes bytes. Those that wait are fewer than a frame and what was given last, if `next` is called until it wants more.
    pub fn push(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.input.extend_from_slice(&bytes[skipped..]);
    }

    /// Appends the content of the next frame. False if it needs more bytes first.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        while let Some(header) = self.input.first_chunk::<HEADER>() {
            let word = u32::from_le_bytes(*header);
            let (kind, length) = (word as u8, (word >> 8) as usize);
            if !self.begun && kind != IDENTIFIER {
                return Err(frame_error(format!("it begins with a frame of kind {kind:#04x}")));
            }
            if kind >= SKIPPABLE && kind != IDENTIFIER {
                self.pass_over(length);
                continue;
            }
            check(kind, length)?;
            if self.input.len() < HEADER + length {
                return Ok(false);
            }
            let frame = self.input.split_to(HEADER + length);
            let body = &frame[HEADER..];
            if kind == IDENTIFIER {
                if body != S2 && body != SNAPPY {
                    return Err(frame_error(format!(
                        "unknown identifier {:?}",
                        String::from_utf8_lossy(body)
                    )));
                }
                self.begun = true;
                continue;
            }
            content(kind, body, out)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Does it wait for the rest of nothing?
    pub fn is_empty(&self) -> bool {
        self.input.is_empty() && self.skip == 0
    }

    fn pass_over(&mut self, length: usize) {
        self.input.advance(HEADER);
        let there = length.min(self.input.len());
        self.input.advance(there);
        self.skip = length - there;
    }
}

fn frame_error(reason: String) -> Error {
    Error::Frame { reason }
}

/// Can there be a frame like this?
fn check(kind: u8, length: usize) -> Result<(), Error> {
    let possible = match kind {
        IDENTIFIER => length..=length.min(S2.len()),
        PACKED => SUM..=FRAME_BYTES_MAX,
        PLAIN => SUM..=SUM + CONTENT_BYTES_MAX,
        _ => return Err(frame_error(format!("unknown frame of kind {kind:#04x}"))),
    };
    if possible.contains(&length) {
        return Ok(());
    }
    Err(frame_error(format!("frame of kind {kind:#04x} with {length} bytes")))
}

fn content(kind: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    let Some((sum, stored)) = body.split_first_chunk::<SUM>() else { unreachable!("the length was checked") };
    if kind == PACKED {
        block::decode(stored, out)?;
    } else {
        out.extend_from_slice(stored);
    }
    if crc::masked(&out[start..]) != u32::from_le_bytes(*sum) {
        return Err(Error::Block { size: stored.len(), reason: "its checksum is another one" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(content: &[u8]) -> Vec<u8> {
        let (mut packer, mut out) = (Packer::default(), Vec::new());
        content.chunks(1000).for_each(|part| packer.write(part, &mut out));
        packer.flush(&mut out);
        out
    }

    fn unpack(bytes: &[u8], cut: usize) -> Result<Vec<u8>, Error> {
        let (mut unpacker, mut out) = (Unpacker::default(), Vec::new());
        for part in bytes.chunks(cut) {
            unpacker.push(part);
            while unpacker.next(&mut out)? {}
        }
        assert!(unpacker.is_empty());
        Ok(out)
    }

    fn random(length: usize) -> Vec<u8> {
        let mut state = 0x2545_F491_4F6C_DD1Du64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn content_comes_back_whatever_the_cuts() {
        let mut content = b"subject subject subject".repeat(5000);
        content.extend(random(100_000));
        let packed = pack(&content);
        assert!(packed.len() < content.len());
        for cut in [1, 7, 4096, packed.len()] {
            assert_eq!(unpack(&packed, cut).unwrap(), content, "{cut}");
        }
        assert_eq!(unpack(&pack(b""), 3).unwrap(), b"");
    }

    #[test]
    fn snappy_readers_understand_it() {
        let content = b"subject subject subject".repeat(5000);
        let mut packed = pack(&content);
        packed[4..10].copy_from_slice(SNAPPY);
        let mut read = Vec::new();
        std::io::Read::read_to_end(&mut snap::read::FrameDecoder::new(&packed[..]), &mut read).unwrap();
        assert_eq!(read, content);
        assert_eq!(unpack(&packed, 100).unwrap(), content);
    }

    #[test]
    fn frames_of_other_kinds() {
        let mut bytes = pack(b"one");
        bytes.extend_from_slice(&[0x99, 5, 0, 0, 1, 2, 3, 4, 5]);
        bytes.extend_from_slice(&pack(b"two"));
        for cut in [1, 5, 100] {
            assert_eq!(unpack(&bytes, cut).unwrap(), b"onetwo");
        }
        bytes.extend_from_slice(&[0x02, 0, 0, 0]);
        assert_eq!(
            unpack(&bytes, 9).unwrap_err().to_string(),
            "damaged S2 stream: unknown frame of kind 0x02"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let said = |bytes: &[u8]| unpack(bytes, 100).unwrap_err().to_string();
        assert_eq!(said(&[0, 9, 0, 0, 0]), "damaged S2 stream: it begins with a frame of kind 0x00");
        assert_eq!(said(b"\xff\x06\0\0S2sTwX"), "damaged S2 stream: unknown identifier \"S2sTwX\"");
        assert_eq!(said(b"\xff\x07\0\0S2sTwOo"), "damaged S2 stream: frame of kind 0xff with 7 bytes");
        assert_eq!(
            said(b"\xff\x06\0\0S2sTwO\x00\xff\xff\xff"),
            "damaged S2 stream: frame of kind 0x00 with 16777215 bytes"
        );
        let mut bytes = pack(b"content that is long enough to be a literal");
        *bytes.last_mut().unwrap() ^= 1;
        assert!(said(&bytes).ends_with("its checksum is another one"));
    }

    /// Every single bit of an archive turned: it is read as before, or refused, and never takes more memory than a block.
    #[test]
    fn turned_bits_are_noticed() {
        let content = b"subject subject subject".repeat(40);
        let packed = pack(&content);
        for bit in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (mut unpacker, mut out) = (Unpacker::default(), Vec::new());
            unpacker.push(&damaged);
            let read = loop {
                match unpacker.next(&mut out) {
                    Ok(true) => {}
                    Ok(false) => break out,
                    Err(_) => break Vec::new(),
                }
            };
            assert!(read.is_empty() || read == content, "bit {bit}");
        }
    }

    /// Random operations with right lengths and checksums missing: blocks are read or refused, without reaching outside.
    #[test]
    fn random_blocks_never_reach_outside() {
        let bytes = random(200_000);
        for (number, block) in bytes.chunks(50).enumerate() {
            let mut block = block.to_vec();
            block.splice(..2, [0xff, 0x01]);
            let mut out = vec![7; number % 3];
            let before = out.len();
            if block::decode(&block, &mut out).is_ok() {
                assert_eq!(out.len(), before + 255);
            }
            assert!(out.len() <= before + 255 && out[..before].iter().all(|byte| *byte == 7));
        }
    }
}
