//! Blocks that are mostly dead are written anew without their dead, several neighbours into one.
//!
//! The copy becomes part of the stream when the store takes it over, and of the next checkpoint; until that is on disk the originals stay.

use std::sync::Arc;

use bytes::Bytes;

use super::bitmap::Bitmap;
use super::block::{Block, Facts, Place};
use super::blocks::Blocks;
use super::chunk::{HEADER, Packer};
use super::index::{Entry, Index};
use super::index_file;
use super::job::write_new;
use super::record;
use super::shared::{Shared, block_name, read};
use super::write::CHUNK_BYTES;
use crate::Timestamp;
use crate::disk::{File, Open};
use crate::stream::{Damage, Error};

/// A block is written anew when less than one part in this many of its file or of its messages is alive.
const LIVE_DIVISOR: u64 = 2;
/// A block of less than one part in this many of the usual size joins a neighbour that is written anew.
const SMALL_DIVISOR: u64 = 4;
/// Blocks that are made into one at most: bounds what one job reads.
const SOURCES_MAX: usize = 32;

/// A block to be written anew.
#[derive(Debug)]
pub(super) struct Source {
    pub facts: Facts,
    pub index: Arc<Index>,
    dead: Bitmap,
}

/// What is to be written, neighbours in order.
#[derive(Debug)]
pub(super) struct Plan {
    /// Number of the new block.
    number: u64,
    sources: Vec<Source>,
}

/// A block that was written anew.
#[derive(Debug)]
pub(super) struct Compacted {
    pub facts: Facts,
    pub index: Arc<Index>,
    pub sources: Vec<Source>,
}

/// Chooses blocks to be written anew, if any are worth it.
pub(super) fn plan(blocks: &Blocks, number: u64) -> Result<Option<Plan>, Error> {
    let size = u64::from(blocks.shared.options.block_bytes);
    let closed = |block: &Block| !matches!(block.place, Place::Growing) && block.live > 0;
    let wasteful = |block: &Block| {
        block.live_bytes.saturating_mul(LIVE_DIVISOR) < u64::from(block.facts.len)
            || u64::from(block.live) * LIVE_DIVISOR < u64::from(block.facts.slots)
    };
    let small = |block: &Block| u64::from(block.facts.len) < size / SMALL_DIVISOR;
    let fits = |base: u64, live: u64, next: &Block| {
        live + next.live_bytes <= size && next.facts.last - base < u64::from(u32::MAX)
    };
    let starts = |at: usize| {
        let block = &blocks.list[at];
        // One that finds no place beside it would be copied alone, again and again.
        let joins =
            |next: &Block| closed(next) && small(next) && fits(block.facts.base, block.live_bytes, next);
        closed(block)
            && (!block.erase.is_empty()
                || wasteful(block) && block.facts.slots > block.live
                || small(block) && blocks.list.get(at + 1).is_some_and(joins))
    };
    let Some(start) = (0..blocks.list.len()).find(|at| starts(*at)) else { return Ok(None) };
    let base = blocks.list[start].facts.base;
    let (mut end, mut live) = (start, 0);
    while let Some(block) = blocks.list.get(end) {
        let wanted = end == start || wasteful(block) || small(block);
        let has_room = end == start || fits(base, live, block);
        if !closed(block) || !wanted || !has_room || end - start == SOURCES_MAX {
            break;
        }
        live += block.live_bytes;
        end += 1;
    }
    let mut sources = Vec::with_capacity(end - start);
    for at in start..end {
        let block = &blocks.list[at];
        let index = blocks.index(at)?.to_shared();
        sources.push(Source { facts: block.facts, index, dead: block.dead.clone() });
    }
    Ok(Some(Plan { number, sources }))
}

/// Why a copy was not made.
enum Stop {
    Damage(Damage),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Writes the new block with its index. Nothing is written for good if a message cannot be read or the disk is full; the originals stay.
pub(super) fn run(shared: &Shared, plan: Plan) -> Result<(Option<Compacted>, Vec<Damage>), Error> {
    let number = plan.number;
    let damage = match copy(shared, &plan) {
        Ok((facts, index)) => {
            let compacted = Compacted { facts, index: Arc::new(index), sources: plan.sources };
            return Ok((Some(compacted), Vec::new()));
        }
        Err(Stop::Damage(damage)) => vec![damage],
        Err(Stop::Failed(Error::Disk(error))) if error.is_full() => Vec::new(),
        Err(Stop::Failed(error)) => return Err(error),
    };
    shared.remove(&shared.block_path(number))?;
    shared.remove(&shared.index_path(number))?;
    Ok((None, damage))
}

fn copy(shared: &Shared, plan: &Plan) -> Result<(Facts, Index), Stop> {
    let Some(base) = plan.sources.iter().find_map(first_live) else {
        let reason = format!("block {} would be empty", plan.number);
        return Err(Stop::Failed(Error::Failed { reason }));
    };
    let (oldest, newest) = (Timestamp(i64::MAX), Timestamp(i64::MIN));
    let facts =
        Facts { number: plan.number, base, last: base, slots: 0, len: 0, oldest, newest, index: None };
    let mut out = Out {
        packer: shared.packer(plan.number),
        file: shared.create(&shared.block_path(plan.number))?,
        index: Index::growing(base),
        facts,
        buffer: Vec::new(),
        first: 0,
    };
    for source in &plan.sources {
        copy_source(shared, source, &mut out)?;
    }
    out.flush()?;
    out.file.sync()?;
    let (bytes, sum) = index_file::seal(shared, plan.number, &out.index)?;
    write_new(shared, &shared.index_path(plan.number), &bytes)?;
    shared.disk.sync_dir(&shared.dir)?;
    out.facts.index = Some(sum);
    Ok((out.facts, out.index))
}

fn first_live(source: &Source) -> Option<u64> {
    let slot = source.dead.next_clear(0);
    (slot < source.index.slots()).then(|| source.index.sequence(slot))
}

fn copy_source(shared: &Shared, source: &Source, out: &mut Out) -> Result<(), Stop> {
    let (index, number) = (&*source.index, source.facts.number);
    let packer = shared.packer(number);
    let lost = |sequences, reason: &str| {
        Stop::Damage(Damage {
            file: block_name(number),
            sequences: Some(sequences),
            reason: reason.to_owned(),
        })
    };
    let file = shared.disk.open(&shared.block_path(number), Open::Read)?;
    for (chunk, reference) in index.chunks.iter().enumerate() {
        let slots = index.chunk_slots(chunk as u32);
        let mut slot = source.dead.next_clear(slots.start);
        if slot >= slots.end {
            continue;
        }
        let stored = Bytes::from(read(&*file, u64::from(reference.at), HEADER + reference.stored as usize)?);
        let raw = super::blocks::unpack(&packer, &stored, index.chunk_length(chunk as u32), reference);
        let raw =
            raw.map_err(|reason| lost(index.sequence(slots.start)..=index.sequence(slots.end - 1), reason))?;
        while slot < slots.end {
            let sequence = index.sequence(slot);
            let (position, length) = index.place(slot);
            let start = (position - reference.raw) as usize;
            let bytes = &raw[start..start + length as usize];
            let parts =
                record::parse(shared.identity, bytes).map_err(|reason| lost(sequence..=sequence, reason))?;
            if parts.sequence != sequence || parts.erased {
                return Err(lost(sequence..=sequence, "another record in its place"));
            }
            out.push(bytes, &parts)?;
            slot = source.dead.next_clear(slot + 1);
        }
    }
    Ok(())
}

/// The block that is being written.
struct Out {
    packer: Packer,
    file: Arc<dyn File>,
    index: Index,
    facts: Facts,
    buffer: Vec<u8>,
    /// Slot of the first record in the buffer.
    first: u32,
}

impl Out {
    fn push(&mut self, bytes: &[u8], parts: &record::Parts) -> Result<(), Stop> {
        if self.buffer.len() + bytes.len() > CHUNK_BYTES {
            self.flush()?;
        }
        if self.buffer.is_empty() {
            self.buffer.resize(HEADER, 0);
            self.first = self.index.slots();
            self.index.open_chunk(self.facts.len);
        }
        self.buffer.extend_from_slice(&bytes[..parts.end]);
        self.index.push(Entry {
            sequence: parts.sequence,
            timestamp: parts.timestamp,
            expiry: parts.expiry,
            subject: Some(&bytes[parts.subject..parts.headers]),
            length: parts.end as u32,
        });
        self.facts.last = parts.sequence;
        self.facts.slots += 1;
        self.facts.oldest = self.facts.oldest.min(parts.timestamp);
        self.facts.newest = self.facts.newest.max(parts.timestamp);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stop> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (records, first) = (self.index.slots() - self.first, self.index.sequence(self.first));
        let packed = self.packer.pack(self.facts.len, &mut self.buffer, records, first);
        let packed = packed.map_err(|error| Error::Failed { reason: error.to_string() })?;
        let chunk = packed.as_deref().unwrap_or(&self.buffer);
        self.file.write_at(chunk, u64::from(self.facts.len))?;
        self.facts.len += chunk.len() as u32;
        self.index.close_chunk((chunk.len() - HEADER) as u32);
        self.buffer.clear();
        Ok(())
    }
}
