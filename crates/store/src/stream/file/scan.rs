//! The index of a block made from its file alone: for the block that still grows when a stream is opened, and for one whose index file is no good.
//!
//! What cannot be read is passed over up to the next good record or chunk. Its messages get slots all the same as far as their sequences are
//! known, so that the slots of the others, by which deletions are known, stay what they were.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::block::Facts;
use super::chunk::{HEADER, Header, MAGIC, Packer};
use super::index::{Entry, Index};
use super::record;
use super::shared::{Shared, read};
use crate::Timestamp;
use crate::disk::{self, Open};
use crate::record::Identity;
use crate::stream::Expiry;

/// Bytes that are hashed at most in search of the record behind a damaged one.
const SEARCH_BYTES_MAX: usize = 16 << 20;

/// An index that was made anew.
#[derive(Debug)]
pub(super) struct Scanned {
    pub index: Index,
    /// Sequences of which nothing could be read, and why.
    pub lost: Vec<(RangeInclusive<u64>, String)>,
    /// Length of the file, as far as it counts.
    pub len: u32,
}

/// A piece of the file between two headers.
struct Piece {
    at: u32,
    /// Length behind the header.
    stored: u32,
    header: Option<Header>,
    raw: Result<Bytes, &'static str>,
}

/// Makes the index of a block. A missing file holds nothing.
pub(super) fn block(shared: &Shared, facts: &Facts) -> disk::Result<Scanned> {
    let bytes = match shared.disk.open(&shared.block_path(facts.number), Open::Read) {
        Ok(file) => {
            let length = file.len()?.min(u64::from(facts.len));
            Bytes::from(read(&*file, 0, length as usize)?)
        }
        Err(error) if error.is_not_found() => Bytes::new(),
        Err(error) => return Err(error),
    };
    let pieces = pieces(&shared.packer(facts.number), &bytes, shared.key.is_none());
    // Nobody knows where a block begins that no checkpoint tells of.
    let first = || pieces.iter().find_map(|piece| piece.first(shared.identity)).unwrap_or_default();
    let base = if facts.slots == 0 { first() } else { facts.base };
    let dense = facts.slots > 0 && facts.last - facts.base + 1 == u64::from(facts.slots);
    let index = Index::growing(base);
    let mut scan = Scan { identity: shared.identity, index, next: base, dense, lost: Vec::new() };
    for (number, piece) in pieces.iter().enumerate() {
        let following = pieces[number + 1..].iter().find_map(|piece| piece.first(scan.identity));
        let limit =
            following.unwrap_or_else(|| facts.last.saturating_add(1)).min(facts.last.saturating_add(1));
        scan.piece(piece, limit);
    }
    if facts.slots > 0 && scan.next <= facts.last {
        let reason = format!("{} of {} bytes are there", bytes.len(), facts.len);
        scan.missing(bytes.len() as u32, facts.last + 1, &reason);
    }
    Ok(Scanned { index: scan.index, lost: scan.lost, len: bytes.len() as u32 })
}

/// Cuts a file at the headers that can be read.
fn pieces(packer: &Packer, bytes: &Bytes, may_be_plain: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at + HEADER <= bytes.len() {
        let header = packer.header(at as u32, &bytes[at..]);
        let end = match &header {
            Some(header) => at + HEADER + header.stored as usize,
            None => next_header(packer, bytes, at + 1),
        };
        let stored = bytes.slice((at + HEADER).min(end).min(bytes.len())..end.min(bytes.len()));
        let raw = match &header {
            Some(_) if end > bytes.len() => Err("chunk cut short"),
            Some(header) => packer.unpack(header, stored.clone()),
            None if may_be_plain => Ok(stored.clone()),
            None => Err("chunk header is damaged"),
        };
        pieces.push(Piece { at: at as u32, stored: stored.len() as u32, header, raw });
        at = end;
    }
    pieces
}

/// Where the next readable header begins; the end if there is none.
fn next_header(packer: &Packer, bytes: &[u8], from: usize) -> usize {
    let magic = MAGIC.to_le_bytes();
    let candidates = bytes[from..].windows(magic.len()).enumerate().filter(|(_, window)| *window == magic);
    let mut found = candidates.map(|(offset, _)| from + offset);
    found.find(|at| packer.header(*at as u32, &bytes[*at..]).is_some()).unwrap_or(bytes.len())
}

impl Piece {
    /// Sequence of its first record, if that can be told.
    fn first(&self, identity: Identity) -> Option<u64> {
        let parsed = || record::parse(identity, self.raw.as_ref().ok()?).ok();
        self.header.map(|header| header.first).or_else(|| parsed().map(|parts| parts.sequence))
    }
}

struct Scan {
    identity: Identity,
    index: Index,
    /// The lowest sequence that the next record can have.
    next: u64,
    /// No sequence is missing in the block, so slots of damaged records can be told exactly.
    dense: bool,
    lost: Vec<(RangeInclusive<u64>, String)>,
}

impl Scan {
    /// Takes the records of a piece; those after it begin at `limit`.
    fn piece(&mut self, piece: &Piece, limit: u64) {
        let raw = match &piece.raw {
            Ok(raw) if !raw.is_empty() => raw,
            Ok(_) => return self.missing(piece.at, limit, "chunk is empty"),
            Err(reason) => return self.missing(piece.at, limit, reason),
        };
        self.index.open_chunk(piece.at);
        let mut at = 0;
        while at < raw.len() {
            let reason = match record::parse(self.identity, &raw[at..]) {
                Ok(parts) if (self.next..limit).contains(&parts.sequence) => {
                    if self.dense && parts.sequence > self.next {
                        // Cannot be: records of a dense block follow each other. Take it as it is.
                        self.dense = false;
                    }
                    self.push(&raw[at..], &parts);
                    at += parts.end;
                    continue;
                }
                Ok(parts) => format!("record of {} where {} to {limit} belong", parts.sequence, self.next),
                Err(reason) => reason.to_owned(),
            };
            let (behind, sequence) = self.resume(raw, at, limit);
            self.lose((behind - at) as u32, sequence, &reason);
            at = behind;
        }
        self.index.close_chunk(piece.stored);
        if self.dense && self.next < limit {
            self.missing(piece.at, limit, "records are missing at the end of a chunk");
        }
    }

    fn push(&mut self, bytes: &[u8], parts: &record::Parts) {
        let subject = (!parts.erased).then(|| &bytes[parts.subject..parts.headers]);
        let (sequence, timestamp, expiry) = (parts.sequence, parts.timestamp, parts.expiry);
        self.index.push(Entry { sequence, timestamp, expiry, subject, length: parts.end as u32 });
        self.next = sequence + 1;
    }

    /// The next good record behind `from`, and its sequence; the end and `limit` if there is none.
    fn resume(&self, raw: &[u8], from: usize, limit: u64) -> (usize, u64) {
        let stated = record::u32_at(raw, from).map(|length| from + length as usize);
        let mut budget = SEARCH_BYTES_MAX;
        for at in stated.into_iter().chain(from + 1..raw.len()) {
            let Some(length) = record::u32_at(raw, at) else { continue };
            let length = length as usize;
            if length < record::FIXED || length > raw.len() - at {
                continue;
            }
            let Some(left) = budget.checked_sub(length) else { break };
            budget = left;
            match record::parse(self.identity, &raw[at..]) {
                Ok(parts) if (self.next..limit).contains(&parts.sequence) => return (at, parts.sequence),
                _ => {}
            }
        }
        (raw.len(), limit)
    }

    /// Gives the sequences before `end`, which `length` bytes of the current chunk held, slots without content.
    fn lose(&mut self, length: u32, end: u64, reason: &str) {
        if self.next >= end {
            // Bytes between records that belong to nothing.
            self.index.skip(length);
            return;
        }
        let count = if self.dense { (end - self.next).clamp(1, u64::from(length)) } else { 1 };
        let first = self.next;
        for number in 0..count {
            let length = if number + 1 == count { length - (count as u32 - 1) } else { 1 };
            let (timestamp, expiry) = (Timestamp(0), Expiry::MaxAge);
            self.index.push(Entry { sequence: self.next, timestamp, expiry, subject: None, length });
            self.next += 1;
        }
        self.next = self.next.max(end);
        self.lost.push((first..=end.saturating_sub(1).max(first), reason.to_owned()));
    }

    /// The sequences up to `limit` were in a chunk that is not there or cannot be unpacked.
    fn missing(&mut self, at: u32, limit: u64, reason: &str) {
        if self.next >= limit {
            return;
        }
        self.index.open_chunk(at);
        let count = if self.dense { limit - self.next } else { 1 };
        let length = u32::try_from(count.saturating_mul(record::FIXED as u64)).unwrap_or(u32::MAX / 2);
        self.lose(length, limit, reason);
        // Never the length of what was stored, so that reading it fails.
        self.index.close_chunk(1);
    }
}
