//! Chunks: what a block file is made of. Each holds whole records that were written together, plain, compressed, encrypted, or both.
//!
//! ```text
//! magic u32 | stored length u32 | unpacked length u32 | records u32 | first sequence u64 | form u32 | checksum u32 | stored bytes
//! ```
//!
//! The checksum covers the header and starts from stream, block and offset. What is stored is guarded by the checksums of the records, and by the
//! cipher if there is one.

use std::sync::Arc;

use bytes::Bytes;

use super::options::Compression;
use super::record::{u32_at, u64_at};
use crate::crypt::{self, FileKey, SEAL_BYTES};
use crate::record::{Identity, checksum};

/// Length of a header.
pub(super) const HEADER: usize = 32;
/// First bytes of every chunk.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"MyCk");
/// No unpacked chunk is longer: no message is.
pub(super) const RAW_MAX: usize = 1 << 30;

const COMPRESSED: u32 = 1;
const ENCRYPTED: u32 = 2;
/// Part of a header that its checksum covers, and that an encrypted chunk authenticates.
const COVERED: usize = HEADER - 4;

/// What packs and unpacks the chunks of one block.
#[derive(Debug, Clone)]
pub(super) struct Packer {
    /// Start of the checksums of headers.
    identity: Identity,
    compression: Compression,
    key: Option<Arc<FileKey>>,
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Length of what follows the header.
    pub stored: u32,
    /// Length when unpacked.
    pub raw: u32,
    pub records: u32,
    /// Sequence of the first record.
    pub first: u64,
    form: u32,
}

impl Packer {
    pub(super) fn new(stream: u64, block: u64, compression: Compression, key: Option<Arc<FileKey>>) -> Self {
        Self { identity: Identity::new(&[stream, block]), compression, key }
    }

    fn checksum(&self, at: u32, header: &[u8]) -> u32 {
        checksum(self.identity, u64::from(at), &header[..COVERED]) as u32
    }

    /// Makes a chunk, to stand at this offset, of records that stand behind `HEADER` free bytes. A plain chunk is completed in place and nothing
    /// is returned; else the chunk is what is returned.
    pub(super) fn pack(
        &self,
        at: u32,
        buffer: &mut [u8],
        records: u32,
        first: u64,
    ) -> Result<Option<Vec<u8>>, crypt::Error> {
        let raw = buffer.len() - HEADER;
        let mut packed = match self.compression {
            Compression::None => None,
            Compression::S2 => compress(&buffer[HEADER..]),
        };
        let compressed = if packed.is_some() { COMPRESSED } else { 0 };
        let encrypted = if self.key.is_some() { ENCRYPTED } else { 0 };
        let mut stored = packed.as_ref().map_or(raw, |packed| packed.len() - HEADER);
        if self.key.is_some() {
            stored += SEAL_BYTES;
        }
        let form = compressed | encrypted;
        let header = Header { stored: stored as u32, raw: raw as u32, records, first, form };
        if let Some(key) = &self.key {
            let mut sealed = vec![0; HEADER];
            put_header(&header, &mut sealed);
            let place = sealed[..COVERED].to_vec();
            key.seal(&place, &packed.as_deref().unwrap_or(buffer)[HEADER..], &mut sealed)?;
            packed = Some(sealed);
        }
        let chunk = packed.as_deref_mut().unwrap_or(buffer);
        put_header(&header, chunk);
        let sum = self.checksum(at, chunk);
        chunk[COVERED..HEADER].copy_from_slice(&sum.to_le_bytes());
        Ok(packed)
    }

    /// The header at the start of `bytes`, which stand at this offset, if there is a whole one.
    pub(super) fn header(&self, at: u32, bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER)?;
        if u32_at(bytes, 0)? != MAGIC || u32_at(bytes, COVERED)? != self.checksum(at, bytes) {
            return None;
        }
        let [stored, raw, records, form] = [4, 8, 12, 24].map(|at| u32_at(bytes, at));
        Some(Header { stored: stored?, raw: raw?, records: records?, first: u64_at(bytes, 16)?, form: form? })
    }

    /// The records of a chunk with this header.
    pub(super) fn unpack(&self, header: &Header, stored: Bytes) -> Result<Bytes, &'static str> {
        if header.raw as usize > RAW_MAX || header.form & !(COMPRESSED | ENCRYPTED) != 0 {
            return Err("impossible chunk");
        }
        let mut raw = stored;
        if header.form & ENCRYPTED != 0 {
            let key = self.key.as_ref().ok_or("encrypted chunk in a stream without a key")?;
            let mut place = [0; COVERED];
            put_header(header, &mut place);
            raw = key.open(&place, &raw).map(Bytes::from).map_err(|_| "encrypted chunk does not open")?;
        }
        if header.form & COMPRESSED != 0 {
            raw = decompress(&raw, header.raw as usize)?;
        }
        if raw.len() == header.raw as usize { Ok(raw) } else { Err("length of a chunk differs") }
    }
}

fn put_header(header: &Header, out: &mut [u8]) {
    out[..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[4..8].copy_from_slice(&header.stored.to_le_bytes());
    out[8..12].copy_from_slice(&header.raw.to_le_bytes());
    out[12..16].copy_from_slice(&header.records.to_le_bytes());
    out[16..24].copy_from_slice(&header.first.to_le_bytes());
    out[24..28].copy_from_slice(&header.form.to_le_bytes());
}

/// Room for a header and the compressed bytes; `None` if they would not be shorter.
fn compress(raw: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0; HEADER + snap::raw::max_compress_len(raw.len())];
    let length = snap::raw::Encoder::new().compress(raw, &mut out[HEADER..]).ok()?;
    out.truncate(HEADER + length);
    (length < raw.len()).then_some(out)
}

fn decompress(stored: &[u8], expected: usize) -> Result<Bytes, &'static str> {
    if snap::raw::decompress_len(stored) != Ok(expected) {
        return Err("compressed chunk is damaged");
    }
    let raw = snap::raw::Decoder::new().decompress_vec(stored);
    raw.map(Bytes::from).map_err(|_| "compressed chunk is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypt::{Cipher, Keyring, MasterKey, SeededEntropy};

    fn key() -> Arc<FileKey> {
        let entropy = Arc::new(SeededEntropy::new(1));
        Arc::new(Keyring::new(Cipher::Aes256Gcm, MasterKey::new(b"secret"), None, entropy).create("s").0)
    }

    #[test]
    fn chunk_comes_back_in_every_form() {
        let forms = [
            (Compression::None, None),
            (Compression::S2, None),
            (Compression::None, Some(key())),
            (Compression::S2, Some(key())),
        ];
        for (compression, key) in forms {
            let packer = Packer::new(1, 2, compression, key.clone());
            let mut buffer = vec![0; HEADER];
            buffer.extend_from_slice(&b"again and ".repeat(50));
            let packed = packer.pack(64, &mut buffer, 3, 9).unwrap();
            let chunk = packed.unwrap_or_else(|| buffer.clone());
            let header = packer.header(64, &chunk).unwrap();
            assert_eq!((header.records, header.first, header.raw), (3, 9, 500));
            assert_eq!(header.form == 0, compression == Compression::None && key.is_none());
            assert_eq!(chunk.windows(5).any(|window| window == b"again"), key.is_none());
            assert_eq!(header.stored as usize, chunk.len() - HEADER);
            let back = packer.unpack(&header, Bytes::copy_from_slice(&chunk[HEADER..])).unwrap();
            assert_eq!(&back[..], &buffer[HEADER..]);
            assert_eq!(Packer::new(1, 3, compression, key).header(64, &chunk), None);
            assert_eq!(packer.header(65, &chunk), None);
            for bit in 0..HEADER * 8 {
                let mut damaged = chunk.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(packer.header(64, &damaged), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn what_does_not_shrink_stays_plain() {
        let packer = Packer::new(1, 2, Compression::S2, None);
        let mut buffer = vec![0; HEADER];
        buffer.extend(0..=255u8);
        assert_eq!(packer.pack(0, &mut buffer, 1, 1), Ok(None));
        assert!(packer.header(0, &buffer).unwrap().form == 0);
    }
}
