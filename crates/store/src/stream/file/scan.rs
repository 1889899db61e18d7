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

/// Sequences of which nothing can be read.
#[derive(Debug)]
pub(super) struct Lost {
    pub sequences: RangeInclusive<u64>,
    pub reason: String,
    /// Every message that was among them has its slot in the index. Else any of them may have been one.
    pub is_exact: bool,
}

/// An index that was made anew.
#[derive(Debug)]
pub(super) struct Scanned {
    pub index: Index,
    pub lost: Vec<Lost>,
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
    lost: Vec<Lost>,
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
        let (slots, lost) = (self.index.slots(), self.lost.len());
        let mut at = 0;
        while at < raw.len() {
            let reason = match record::parse(self.identity, &raw[at..]) {
                Ok(parts) if (self.next..limit).contains(&parts.sequence) => {
                    if self.dense && parts.sequence > self.next {
                        // Records of a dense block follow each other: one that should be in between is in no byte of it.
                        self.dense = false;
                        let between = self.next..=parts.sequence - 1;
                        self.tell(between, "records are missing inside a chunk", false);
                    }
                    self.push(&raw[at..], &parts);
                    at += parts.end;
                    continue;
                }
                Ok(parts) => format!("record of {} where {} to {limit} belong", parts.sequence, self.next),
                Err(reason) => reason.to_owned(),
            };
            let (behind, sequence) = self.resume(raw, at, limit);
            self.lose(&raw[at..behind], sequence, &reason);
            at = behind;
        }
        self.index.close_chunk(piece.stored);
        let slots = self.index.slots() - slots;
        if piece.header.is_none_or(|header| header.records != slots) {
            self.lost[lost..].iter_mut().for_each(|lost| lost.is_exact = false);
        }
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
        let good = |at: usize| {
            let parts = record::parse(self.identity, raw.get(at..)?).ok()?;
            (self.next..limit).contains(&parts.sequence).then_some((at, parts.sequence))
        };
        let stated = record::u32_at(raw, from).and_then(|length| good(from + length as usize));
        // A length that is damaged may lead past good records to another one; only one sequence says that there are none.
        if let Some(stated) = stated.filter(|(_, sequence)| *sequence == self.next + 1) {
            return stated;
        }
        let mut budget = SEARCH_BYTES_MAX;
        for at in from + 1..raw.len() {
            let Some(length) = record::u32_at(raw, at) else { break };
            let length = length as usize;
            if length < record::FIXED || length > raw.len() - at {
                continue;
            }
            let Some(left) = budget.checked_sub(length) else { break };
            budget = left;
            if let Some(found) = good(at) {
                return found;
            }
        }
        stated.unwrap_or((raw.len(), limit))
    }

    /// Gives the sequences before `end`, which these bytes of the current chunk held, slots without content.
    fn lose(&mut self, bytes: &[u8], end: u64, reason: &str) {
        let length = bytes.len() as u32;
        if self.next >= end {
            // Bytes between records that belong to nothing.
            self.index.skip(length);
            return;
        }
        let (first, claims) = (self.next, self.claims(bytes, end));
        for (sequence, length) in claims.iter().flatten() {
            self.push_lost(*sequence, *length);
        }
        if claims.is_none() {
            self.fill(length, end);
        }
        self.tell(first..=end - 1, reason, claims.is_some());
    }

    /// What the fixed parts of damaged records say of themselves, sequence and length of each, if that fits together: each ends where the next
    /// begins, the last at the end of the bytes, and their sequences are such as can be there.
    fn claims(&self, bytes: &[u8], end: u64) -> Option<Vec<(u64, u32)>> {
        let (mut claims, mut next, mut at) = (Vec::new(), self.next, 0);
        while at < bytes.len() {
            let (length, sequence) = record::claim(&bytes[at..])?;
            if !(next..end).contains(&sequence) {
                return None;
            }
            claims.push((sequence, length));
            next = sequence + 1;
            at += length as usize;
        }
        (!self.dense || claims.len() as u64 == end - self.next).then_some(claims)
    }

    /// Gives the sequences before `end` slots that share so many bytes: all of them if none is missing in the block, else the first stands for all.
    fn fill(&mut self, length: u32, end: u64) {
        let count = if self.dense { (end - self.next).clamp(1, u64::from(length)) } else { 1 };
        for number in 1..=count {
            let length = if number == count { length - (count as u32 - 1) } else { 1 };
            self.push_lost(self.next, length);
        }
    }

    fn push_lost(&mut self, sequence: u64, length: u32) {
        let (timestamp, expiry) = (Timestamp(0), Expiry::MaxAge);
        self.index.push(Entry { sequence, timestamp, expiry, subject: None, length });
        self.next = sequence + 1;
    }

    /// Notes what is lost, and goes on behind it.
    fn tell(&mut self, sequences: RangeInclusive<u64>, reason: &str, is_exact: bool) {
        self.next = sequences.end() + 1;
        self.lost.push(Lost { sequences, reason: reason.to_owned(), is_exact });
    }

    /// The sequences up to `limit` were in a chunk that is not there or cannot be unpacked.
    fn missing(&mut self, at: u32, limit: u64, reason: &str) {
        if self.next >= limit {
            return;
        }
        self.index.open_chunk(at);
        let count = if self.dense { limit - self.next } else { 1 };
        let (first, length) = (self.next, count.saturating_mul(record::FIXED as u64));
        self.fill(u32::try_from(length).unwrap_or(u32::MAX / 2), limit);
        self.tell(first..=limit - 1, reason, false);
        // Never the length of what was stored, so that reading it fails.
        self.index.close_chunk(1);
    }
}
