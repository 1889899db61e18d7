//! Index of a closed block as a file of its own, so that opening a stream reads no messages.
//!
//! ```text
//! magic u32 | version u8 | block u64 | base u64 | slots | end | sparse u8 | relative sequences, if sparse | positions | subjects
//! | names | chunks | own expiries | checksum u64
//! ```
//!
//! Numbers without a type are of variable length; the arrays hold 32-bit numbers. Names are in the order of their bytes. The checksum covers all
//! before it, starts from stream and block, and stands in the checkpoint too: an index that is left from another life of the
//! block is not believed. A missing or damaged file costs a scan of its block, nothing else.

use super::block::Facts;
use super::codec::{Malformed, Reader, put_bytes, put_u32s, put_varint};
use super::index::{ChunkRef, Index, Parts, UNKNOWN};
use super::names::Names;
use super::shared::{Shared, index_name};
use crate::Timestamp;
use crate::record::Identity;
use crate::stream::{Error, Expiry};

const MAGIC: u32 = u32::from_le_bytes(*b"MyIx");
const VERSION: u8 = 1;
/// An expiry that never comes, in place of a time.
const NEVER: i64 = i64::MIN;

fn checksum(identity: Identity, block: u64, bytes: &[u8]) -> u64 {
    crate::record::checksum(identity, block, bytes)
}

/// The file's content and its checksum.
pub(super) fn encode(identity: Identity, block: u64, index: &Index) -> (Vec<u8>, u64) {
    let slots = index.slots() as usize;
    let mut out = Vec::with_capacity(64 + slots * 12 + index.names.len() as usize * 16);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.push(VERSION);
    out.extend_from_slice(&block.to_le_bytes());
    out.extend_from_slice(&index.base.to_le_bytes());
    put_varint(&mut out, slots as u64);
    put_varint(&mut out, u64::from(index.end()));
    let (relative, positions) = index.parts();
    out.push(u8::from(!relative.is_empty()));
    put_u32s(&mut out, relative.iter().copied());
    put_u32s(&mut out, positions.iter().copied());
    let order = index.names.in_order();
    let mut rank = vec![0u32; order.len()];
    for (place, id) in order.iter().enumerate() {
        rank[*id as usize] = place as u32;
    }
    let ranked = index.subject_ids().iter().map(|id| rank.get(*id as usize).copied().unwrap_or(UNKNOWN));
    put_u32s(&mut out, ranked);
    put_varint(&mut out, order.len() as u64);
    for id in order {
        put_bytes(&mut out, index.names.get(id));
    }
    put_chunks(&mut out, index);
    let sum = checksum(identity, block, &out);
    out.extend_from_slice(&sum.to_le_bytes());
    (out, sum)
}

fn put_chunks(out: &mut Vec<u8>, index: &Index) {
    put_varint(out, index.chunks.len() as u64);
    for chunk in &index.chunks {
        put_u32s(out, [chunk.at, chunk.stored, chunk.raw, chunk.slot]);
        out.extend_from_slice(&chunk.oldest.0.to_le_bytes());
        out.extend_from_slice(&chunk.newest.0.to_le_bytes());
    }
    put_varint(out, index.own().len() as u64);
    for (slot, expiry) in index.own() {
        let time = match expiry {
            Expiry::At(time) => time.0,
            Expiry::Never | Expiry::MaxAge => NEVER,
        };
        put_u32s(out, [*slot]);
        out.extend_from_slice(&time.to_le_bytes());
    }
}

/// The checksum at the end of a file, without a look at the rest.
fn stored_checksum(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let (body, sum) = bytes.split_last_chunk()?;
    Some((body, u64::from_le_bytes(*sum)))
}

/// Reads an index back, if it is whole and the one with the expected checksum.
pub(super) fn decode(
    identity: Identity,
    block: u64,
    expected: u64,
    bytes: &[u8],
) -> Result<Index, &'static str> {
    let (body, sum) = stored_checksum(bytes).ok_or("index cut short")?;
    if sum != expected {
        return Err("index is not the one of the checkpoint");
    }
    if sum != checksum(identity, block, body) {
        return Err("index checksum differs");
    }
    read(block, body).map_err(|_| "index content is malformed")
}

/// The file's content as it is stored, and the checksum by which the checkpoint knows it.
pub(super) fn seal(shared: &Shared, block: u64, index: &Index) -> Result<(Vec<u8>, u64), Error> {
    let (plain, sum) = encode(shared.identity, block, index);
    Ok((shared.seal(&index_name(block), plain)?, sum))
}

/// Reads the index of a block from the file's content as it is stored.
pub(super) fn open(shared: &Shared, facts: &Facts, stored: Vec<u8>) -> Result<Index, &'static str> {
    let expected = facts.index.ok_or("index of a block that was not closed")?;
    let plain = shared.unseal(&index_name(facts.number), stored).ok_or("index does not decrypt")?;
    let index = decode(shared.identity, facts.number, expected, &plain)?;
    if index.slots() == facts.slots {
        Ok(index)
    } else {
        Err("index has another number of slots than the checkpoint")
    }
}

fn read(block: u64, body: &[u8]) -> Result<Index, Malformed> {
    let mut reader = Reader::new(body);
    if reader.u32()? != MAGIC || reader.u8()? != VERSION || reader.u64()? != block {
        return Err(Malformed);
    }
    let base = reader.u64()?;
    let slots = reader.count(8)?;
    let end = reader.varint_u32()?;
    let sparse = reader.u8()? == 1;
    let relative = reader.u32s(if sparse { slots } else { 0 })?;
    let positions = reader.u32s(slots)?;
    let subjects = reader.u32s(slots)?;
    let count = reader.count(1)?;
    let names: Names = (0..count).map(|_| reader.bytes()).collect::<Result<_, _>>()?;
    let parts = Parts { base, relative, positions, end, subjects };
    if !parts.are_sound(count as u32) {
        return Err(Malformed);
    }
    let mut index = Index::from_parts(parts, names);
    let (chunks, own) = read_chunks(&mut reader)?;
    index.complete(chunks, own);
    Ok(index)
}

type ChunksAndOwn = (Vec<ChunkRef>, Vec<(u32, Expiry)>);

fn read_chunks(reader: &mut Reader<'_>) -> Result<ChunksAndOwn, Malformed> {
    let count = reader.count(32)?;
    let mut chunks = Vec::with_capacity(count);
    for _ in 0..count {
        chunks.push(ChunkRef {
            at: reader.u32()?,
            stored: reader.u32()?,
            raw: reader.u32()?,
            slot: reader.u32()?,
            oldest: Timestamp(reader.i64()?),
            newest: Timestamp(reader.i64()?),
        });
    }
    let count = reader.count(12)?;
    let mut own = Vec::with_capacity(count);
    for _ in 0..count {
        let (slot, time) = (reader.u32()?, reader.i64()?);
        own.push((slot, if time == NEVER { Expiry::Never } else { Expiry::At(Timestamp(time)) }));
    }
    if chunks.first().is_none_or(|chunk| chunk.slot != 0) || !reader.is_empty() {
        return Err(Malformed);
    }
    Ok((chunks, own))
}

#[cfg(test)]
mod tests {
    use super::super::index::Entry;
    use super::*;

    fn sample() -> Index {
        let mut index = Index::growing(10);
        for chunk in 0..3u64 {
            index.open_chunk(chunk as u32 * 500);
            for at in 0..5 {
                let sequence = 10 + chunk * 7 + at;
                let subject = format!("s.{}", 9 - sequence % 4);
                let expiry = [Expiry::MaxAge, Expiry::At(Timestamp(4)), Expiry::Never][at as usize % 3];
                let timestamp = Timestamp(sequence.cast_signed());
                index.push(Entry {
                    sequence,
                    timestamp,
                    expiry,
                    subject: Some(subject.as_bytes()),
                    length: 60,
                });
            }
            index.close_chunk(300);
        }
        index
    }

    #[test]
    fn index_comes_back() {
        let index = sample();
        let (bytes, sum) = encode(Identity::new(&[5]), 3, &index);
        let back = decode(Identity::new(&[5]), 3, sum, &bytes).unwrap();
        assert_eq!(back.slots(), 15);
        for slot in 0..15 {
            assert_eq!(back.sequence(slot), index.sequence(slot));
            assert_eq!(back.place(slot), index.place(slot));
            assert_eq!(back.subject(slot), index.subject(slot));
            assert_eq!(back.expiry(slot), index.expiry(slot));
        }
        assert_eq!(back.chunks, index.chunks);
        for name in ["s.6", "s.9"] {
            let span = |index: &Index| index.names.find(name.as_bytes()).map(|id| index.names.span(id));
            assert!(span(&back).is_some() && span(&back) == span(&index));
        }
    }

    #[test]
    fn damage_and_other_blocks_are_refused() {
        let (bytes, sum) = encode(Identity::new(&[5]), 3, &sample());
        assert!(
            decode(Identity::new(&[5]), 4, sum, &bytes).is_err()
                && decode(Identity::new(&[6]), 3, sum, &bytes).is_err()
        );
        assert!(decode(Identity::new(&[5]), 3, sum ^ 1, &bytes).is_err());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode(Identity::new(&[5]), 3, sum, &damaged).is_err(), "byte {at}");
            assert!(decode(Identity::new(&[5]), 3, sum, &bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
