//! Frames: how a run of bytes stands in a file so that it is recognised again, and nothing else is taken for it.
//!
//! ```text
//! length u32 | guard u32 | checksum u64 | body
//! ```
//!
//! Numbers are little-endian, the length is that of the body and never zero, so space that was never written is no frame. The guard is half of a
//! mix of identity, position and length: with it the length can be believed before the body was read, and a file can be searched for frames in one
//! pass. The checksum is XXH3-64 of the body, started from the whole mix.
//!
//! The identity names the file and its generation, the position the place in it. So a frame that was written to the wrong place or file, or that a
//! recycled file still holds from its earlier life, does not verify.

use twox_hash::XxHash3_64;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 16;

/// Multiplier of the first round of [`mix`], from the finaliser of SplitMix64.
const MIX_FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
/// Multiplier of the second round.
const MIX_SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// What a file is, in its present generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity(u64);

impl Identity {
    /// From the numbers that make the file what it is, such as its sequence and a random stamp. Their order counts.
    #[must_use]
    pub fn new(parts: &[u64]) -> Self {
        Self(parts.iter().fold(parts.len() as u64, |state, part| mix(state ^ part).wrapping_add(*part)))
    }

    /// What guard and checksum of a frame start from.
    #[inline]
    fn seed(self, position: u64, length: u32) -> u64 {
        mix(mix(self.0 ^ position).wrapping_add(u64::from(length)))
    }
}

/// Every bit of the result depends on every bit of the value.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(MIX_FIRST);
    let value = (value ^ (value >> 27)).wrapping_mul(MIX_SECOND);
    value ^ (value >> 31)
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes end before the header does.
    #[error("{have} bytes are no frame")]
    Short {
        /// Bytes there are.
        have: usize,
    },
    /// Space that was never written.
    #[error("nothing was written")]
    Empty,
    /// Not the header of a frame of this file at this position.
    #[error("no frame of this file begins here")]
    Guard,
    /// The header is good and the bytes end before the body does.
    #[error("{have} of {need} bytes of a frame")]
    Cut {
        /// Length of header and body.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The header is good and the body is not.
    #[error("a body of {length} bytes has checksum {computed:016x} instead of {stored:016x}")]
    Checksum {
        /// Length of the body.
        length: usize,
        /// What the header says.
        stored: u64,
        /// What the body has.
        computed: u64,
    },
}

/// Checksum of `bytes` in the file `identity` at `position`, for what is stored without a frame.
#[inline]
#[must_use]
pub fn checksum(identity: Identity, position: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(identity.seed(position, bytes.len() as u32), bytes)
}

/// Appends a frame around `body`, which is not empty and shorter than 4 GiB, to `out`.
pub fn encode(out: &mut Vec<u8>, identity: Identity, position: u64, body: &[u8]) {
    let start = begin(out);
    out.extend_from_slice(body);
    finish(out, start, identity, position);
}

/// Begins a frame at the end of `out`: what is appended until [`finish`] is its body. Returns where it starts.
pub fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

/// Ends the frame that starts at `start` of `out` and will stand at `position` of its file.
pub fn finish(out: &mut [u8], start: usize, identity: Identity, position: u64) {
    let (header, body) = out[start..].split_at_mut(HEADER_BYTES);
    assert!(!body.is_empty() && body.len() <= u32::MAX as usize, "a body of {} bytes", body.len());
    let length = body.len() as u32;
    let seed = identity.seed(position, length);
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..8].copy_from_slice(&(seed as u32).to_le_bytes());
    header[8..].copy_from_slice(&XxHash3_64::oneshot_with_seed(seed, body).to_le_bytes());
}

/// Length of the body, if a frame of this file begins with `bytes` at this position. Reads the header only.
#[inline]
pub fn body_length(bytes: &[u8], identity: Identity, position: u64) -> Result<usize, Fault> {
    let Some((fields, _)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(Fault::Short { have: bytes.len() });
    };
    let length = u32_at(fields, 0);
    if length == 0 {
        return Err(if fields.iter().all(|byte| *byte == 0) { Fault::Empty } else { Fault::Guard });
    }
    if u32_at(fields, 4) != identity.seed(position, length) as u32 {
        return Err(Fault::Guard);
    }
    Ok(length as usize)
}

/// The body of the frame that `bytes` begin with.
#[inline]
pub fn decode(bytes: &[u8], identity: Identity, position: u64) -> Result<&[u8], Fault> {
    let length = body_length(bytes, identity, position)?;
    let need = HEADER_BYTES + length;
    let Some(body) = bytes.get(HEADER_BYTES..need) else {
        return Err(Fault::Cut { need, have: bytes.len() });
    };
    let stored = u64_at(bytes, 8);
    let computed = checksum(identity, position, body);
    if stored != computed {
        return Err(Fault::Checksum { length, stored, computed });
    }
    Ok(body)
}

/// The number at `offset`, which lies inside.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(number)
}

/// The number at `offset`, which lies inside.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, Identity::new(&[7, 1]), 4096, body);
        out
    }

    #[test]
    fn a_frame_gives_its_body_back() {
        for length in [1, 7, 16, 240, 241, 5000] {
            let body = vec![0xa5; length];
            let mut bytes = frame(&body);
            bytes.extend_from_slice(b"what follows");
            assert_eq!(decode(&bytes, Identity::new(&[7, 1]), 4096), Ok(body.as_slice()));
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let good = frame(b"payload of a frame");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad, Identity::new(&[7, 1]), 4096).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn another_place_file_or_generation_is_seen() {
        let bytes = frame(b"payload");
        assert_eq!(decode(&bytes, Identity::new(&[7, 1]), 4104), Err(Fault::Guard));
        assert_eq!(decode(&bytes, Identity::new(&[7, 2]), 4096), Err(Fault::Guard));
        assert_eq!(decode(&bytes, Identity::new(&[1, 7]), 4096), Err(Fault::Guard));
        assert_ne!(Identity::new(&[0]), Identity::new(&[0, 0]));
    }

    #[test]
    fn ends_and_empty_space_have_their_names() {
        let identity = Identity::new(&[7, 1]);
        let bytes = frame(b"payload");
        assert_eq!(decode(&bytes[..15], identity, 4096), Err(Fault::Short { have: 15 }));
        assert_eq!(decode(&bytes[..22], identity, 4096), Err(Fault::Cut { need: 23, have: 22 }));
        assert_eq!(decode(&[0; 64], identity, 4096), Err(Fault::Empty));
        let mut bad = bytes;
        bad[20] ^= 1;
        assert!(matches!(decode(&bad, identity, 4096), Err(Fault::Checksum { length: 7, .. })));
    }
}
