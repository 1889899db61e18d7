//! The checkpoint file: records one after the other, the first a base that stands for itself, the others what changed since the one before.
//!
//! ```text
//! magic u32 | length u32 | number u64 | checksum u64 | body
//! ```
//!
//! Numbers count up by one. The checksum covers length, number and body. **Every record stands twice**, so a flipped bit or a torn sector costs one copy
//! and not what was deleted. A base of an encrypted stream begins with the stream's wrapped key; bodies are sealed.
//!
//! The file is replaced by a new base when the changes outgrow the last one.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::block::Facts;
use super::checkpoint::Garbage;
use super::codec::{Malformed, Reader, put_bytes, put_varint};
use super::record::{u32_at, u64_at};
use crate::Timestamp;
use crate::record::{Identity, checksum};

const MAGIC: u32 = u32::from_le_bytes(*b"MyCp");
/// Length of what precedes a body.
const HEADER: usize = 24;
const VERSION: u8 = 1;
const BASE: u8 = 1;
/// Changes may always grow to this before the file is replaced, however small its base is.
const CHANGES_MIN: u64 = 16 << 10;

/// Where the file is while the store is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Journal {
    /// Length of the file; nothing behind it counts.
    pub len: u64,
    /// Length of the base.
    pub base: u64,
    /// Number of the next record.
    pub next: u64,
    /// Checksum of the last one, which no other record of the stream has: the name of the checkpoint.
    pub sum: u64,
}

impl Journal {
    /// Is it time for a new base?
    pub(super) fn is_outgrown(&self) -> bool {
        self.base == 0 || self.len - self.base > self.base + CHANGES_MIN
    }
}

/// Sequences by block.
pub(super) type Sequences = Vec<(u64, Vec<RangeInclusive<u64>>)>;

/// What a checkpoint says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// It says all, not only what changed.
    pub base: bool,
    /// Log index that it covers.
    pub applied: u64,
    pub last_sequence: u64,
    pub last_timestamp: Option<Timestamp>,
    /// Number that the next new block gets.
    pub next_block: u64,
    /// Blocks that are no more, and whether they are overwritten before they are removed.
    pub dropped: Vec<Garbage>,
    /// Blocks that are new or changed.
    pub blocks: Vec<Facts>,
    /// Messages that are deleted.
    pub dead: Sequences,
    /// Deleted messages whose bytes this checkpoint's job overwrites.
    pub erase: Sequences,
    /// Named values; `None` removes.
    pub items: Vec<(Box<str>, Option<Bytes>)>,
}

/// A record of the file, still packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub number: u64,
    pub sum: u64,
    pub body: Vec<u8>,
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Ascending numbers.
    pub frames: Vec<Frame>,
    /// Where the last good one begins.
    pub last: u64,
    /// Behind the last good one.
    pub len: u64,
    /// Length of the first, with its copy.
    pub first: u64,
    /// A record is missing: it and its copy could not be read.
    pub damaged: bool,
    /// Something before the last good one could not be read: a record that a copy stands for, or the torn first half of the last one.
    pub worn: bool,
}

/// Appends a record and its copy. Returns its checksum.
pub(super) fn put_frame(identity: Identity, number: u64, body: &[u8], out: &mut Vec<u8>) -> u64 {
    let (start, sum) = (out.len(), checksum(identity, number, body));
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(body);
    out.extend_from_within(start..);
    sum
}

fn frame_at(identity: Identity, bytes: &[u8]) -> Option<(Frame, usize)> {
    let (magic, length) = (u32_at(bytes, 0)?, u32_at(bytes, 4)? as usize);
    let (number, sum) = (u64_at(bytes, 8)?, u64_at(bytes, 16)?);
    let end = HEADER.checked_add(length)?;
    let body = bytes.get(HEADER..end)?;
    (magic == MAGIC && sum == checksum(identity, number, body))
        .then(|| (Frame { number, sum, body: body.to_vec() }, end))
}

/// Finds the records in a file's content.
pub(super) fn frames(identity: Identity, bytes: &[u8]) -> Frames {
    let mut found = Frames::default();
    let (mut at, mut passed_over) = (0, false);
    while at < bytes.len() {
        let Some((frame, length)) = frame_at(identity, &bytes[at..]) else {
            passed_over = true;
            let magic = MAGIC.to_le_bytes();
            let next = bytes[at + 1..].windows(magic.len()).position(|window| window == magic);
            let Some(next) = next else { break };
            at += 1 + next;
            continue;
        };
        at += length;
        found.worn |= std::mem::take(&mut passed_over);
        let last = found.frames.last().map(|frame| frame.number);
        if last != Some(frame.number) {
            found.last = (at - length) as u64;
        }
        if last.is_none_or(|last| last < frame.number) {
            found.damaged |= last.is_some_and(|last| last + 1 != frame.number);
            found.frames.push(frame);
        }
        found.len = at as u64;
        if found.frames.len() == 1 {
            found.first = found.len;
        }
    }
    found
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, if self.base { BASE } else { 0 }];
        for number in [self.applied, self.last_sequence, self.next_block] {
            put_varint(&mut out, number);
        }
        out.push(u8::from(self.last_timestamp.is_some()));
        if let Some(time) = self.last_timestamp {
            out.extend_from_slice(&time.0.to_le_bytes());
        }
        put_varint(&mut out, self.dropped.len() as u64);
        for Garbage { number, wipe } in &self.dropped {
            put_varint(&mut out, *number);
            out.push(u8::from(*wipe));
        }
        put_varint(&mut out, self.blocks.len() as u64);
        self.blocks.iter().for_each(|facts| put_facts(&mut out, facts));
        put_sequences(&mut out, &self.dead);
        put_sequences(&mut out, &self.erase);
        put_varint(&mut out, self.items.len() as u64);
        for (name, value) in &self.items {
            put_bytes(&mut out, name.as_bytes());
            out.push(u8::from(value.is_some()));
            put_bytes(&mut out, value.as_deref().unwrap_or_default());
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return Err(Malformed);
        }
        let mut record = Self { base: reader.u8()? & BASE != 0, ..Self::default() };
        for field in [&mut record.applied, &mut record.last_sequence, &mut record.next_block] {
            *field = reader.varint()?;
        }
        if reader.u8()? != 0 {
            record.last_timestamp = Some(Timestamp(reader.i64()?));
        }
        for _ in 0..reader.count(2)? {
            let (number, wipe) = (reader.varint()?, reader.u8()? != 0);
            record.dropped.push(Garbage { number, wipe });
        }
        for _ in 0..reader.count(21)? {
            record.blocks.push(facts(&mut reader)?);
        }
        record.dead = sequences(&mut reader)?;
        record.erase = sequences(&mut reader)?;
        for _ in 0..reader.count(3)? {
            let name = std::str::from_utf8(reader.bytes()?).map_err(|_| Malformed)?.into();
            let is_some = reader.u8()? != 0;
            let value = reader.bytes()?;
            record.items.push((name, is_some.then(|| Bytes::copy_from_slice(value))));
        }
        if reader.is_empty() { Ok(record) } else { Err(Malformed) }
    }
}

fn put_facts(out: &mut Vec<u8>, facts: &Facts) {
    let span = facts.last - facts.base;
    for number in [facts.number, facts.base, span, u64::from(facts.slots), u64::from(facts.len)] {
        put_varint(out, number);
    }
    out.extend_from_slice(&facts.oldest.0.to_le_bytes());
    out.extend_from_slice(&facts.newest.0.to_le_bytes());
    out.push(u8::from(facts.index.is_some()));
    if let Some(sum) = facts.index {
        out.extend_from_slice(&sum.to_le_bytes());
    }
}

fn facts(reader: &mut Reader<'_>) -> Result<Facts, Malformed> {
    let (number, base, span) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let (slots, len) = (reader.varint_u32()?, reader.varint_u32()?);
    let (oldest, newest) = (Timestamp(reader.i64()?), Timestamp(reader.i64()?));
    let index = if reader.u8()? != 0 { Some(reader.u64()?) } else { None };
    let last = base.checked_add(span).ok_or(Malformed)?;
    Ok(Facts { number, base, last, slots, len, oldest, newest, index })
}

fn put_sequences(out: &mut Vec<u8>, sequences: &Sequences) {
    put_varint(out, sequences.len() as u64);
    for (block, runs) in sequences {
        put_varint(out, *block);
        put_varint(out, runs.len() as u64);
        let mut from = 0;
        for run in runs {
            put_varint(out, run.start() - from);
            put_varint(out, run.end() - run.start());
            from = *run.end();
        }
    }
}

fn sequences(reader: &mut Reader<'_>) -> Result<Sequences, Malformed> {
    let mut sequences = Sequences::new();
    for _ in 0..reader.count(2)? {
        let (block, count) = (reader.varint()?, reader.count(2)?);
        let (mut runs, mut from) = (Vec::with_capacity(count), 0u64);
        for _ in 0..count {
            let start = from.checked_add(reader.varint()?).ok_or(Malformed)?;
            let end = start.checked_add(reader.varint()?).ok_or(Malformed)?;
            runs.push(start..=end);
            from = end;
        }
        sequences.push((block, runs));
    }
    Ok(sequences)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        let facts = |number, index| Facts {
            number,
            base: 10,
            last: 300,
            slots: 9,
            len: 4000,
            oldest: Timestamp(-1),
            newest: Timestamp(i64::MAX),
            index,
        };
        Record {
            base: true,
            applied: 77,
            last_sequence: 300,
            last_timestamp: Some(Timestamp(5)),
            next_block: 4,
            dropped: vec![Garbage { number: 1, wipe: true }, Garbage { number: 200, wipe: false }],
            blocks: vec![facts(2, None), facts(3, Some(u64::MAX))],
            dead: vec![(2, vec![10..=10, 12..=40]), (3, vec![])],
            erase: vec![(3, vec![299..=300])],
            items: vec![
                ("a".into(), Some(Bytes::from_static(b"x"))),
                ("b".into(), None),
                ("".into(), Some(Bytes::new())),
            ],
        }
    }

    #[test]
    fn record_comes_back_and_cut_ones_are_refused() {
        let bytes = sample().encode();
        assert_eq!(Record::decode(&bytes), Ok(sample()));
        for length in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..length]), Err(Malformed), "{length}");
        }
    }

    #[test]
    fn one_flipped_bit_anywhere_loses_no_record() {
        let identity = Identity::new(&[1]);
        let mut file = Vec::new();
        for number in 0..3 {
            put_frame(identity, number, format!("body {number}").as_bytes(), &mut file);
        }
        let numbers = |bytes: &[u8]| {
            frames(identity, bytes).frames.iter().map(|frame| frame.number).collect::<Vec<_>>()
        };
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(numbers(&damaged), [0, 1, 2], "bit {bit}");
        }
        let whole = frames(identity, &file);
        assert!(!whole.damaged && whole.len == file.len() as u64 && whole.first == file.len() as u64 / 3);
        assert_eq!(frames(Identity::new(&[2]), &file).frames, []);
    }

    #[test]
    fn torn_end_is_no_damage_and_a_hole_is() {
        let identity = Identity::new(&[1]);
        let mut file = Vec::new();
        let mut ends = Vec::new();
        for number in 0..3 {
            put_frame(identity, number, b"body", &mut file);
            ends.push(file.len());
        }
        let torn = frames(identity, &file[..ends[1] + 20]);
        assert!(!torn.damaged && torn.len == ends[1] as u64 && torn.frames.len() == 2);
        file[ends[0]..ends[1]].fill(0);
        let holed = frames(identity, &file);
        assert!(holed.damaged && holed.frames.len() == 2);
    }
}
