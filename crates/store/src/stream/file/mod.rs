//! A stream's messages on disk.
//!
//! A directory per stream: **blocks** `<n>.blk` hold messages in chunks and only grow; an **index** `<n>.idx` stands beside each block that grows no
//! more; **`checkpoint`** records what counts: how long each block is, which messages are deleted, the log index that led there, and named
//! items. With encryption, `key` holds the wrapped key of the rest.
//!
//! What is appended and deleted lives in memory and, unsynced, at the ends of blocks until a checkpoint's job has synced the blocks, written
//! the indexes of those that were closed, and appended its record. Only then are blocks removed, rewritten without their dead, or erased messages overwritten.
//! Opening cuts all that the last record does not know.
//!
//! Invariants, checked after random operations by the tests: the counters are the sums over blocks; blocks are in order and share no
//! sequence; the subject index agrees with the messages; a block that is not the last and has no live message is gone.

mod bitmap;
mod block;
mod blocks;
mod cache;
mod checkpoint;
mod chunk;
mod codec;
mod compact;
mod counters;
mod expiry;
mod index;
mod index_file;
mod job;
mod journal;
mod key;
mod names;
mod options;
mod query;
mod record;
mod recover;
mod remove;
mod scan;
mod select;
mod shared;
mod write;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

pub use cache::Cache;
pub use options::{BLOCK_BYTES_DEFAULT, BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Compression, FileOptions};

use blocks::Blocks;
use checkpoint::Checkpoints;

use super::subjects::SubjectIndex;
use super::{
    Append, CheckpointDone, CheckpointJob, Damage, Error, Expiry, Filter, Message, Recovered, Removed, State,
    StreamStore, SubjectState,
};
use crate::Timestamp;
use crate::disk::Disk;

/// Messages of one stream in a directory of its own. See the module.
#[derive(Debug)]
pub struct FileStore {
    blocks: Blocks,
    subjects: SubjectIndex,
    /// Messages with a time of their own to go.
    expiries: BTreeSet<(Timestamp, u64)>,
    messages: u64,
    bytes: u64,
    last_sequence: u64,
    last_timestamp: Option<Timestamp>,
    /// Sequence of the first message, and its time once someone asked.
    first: Cell<Option<(u64, Option<Timestamp>)>>,
    checkpoints: Checkpoints,
    failed: Option<String>,
}

impl FileStore {
    /// Opens the store in a directory at its last checkpoint, or makes an empty one if there is none. No two may be open on one directory.
    ///
    /// Fails if the disk does, or if the key that the stream is encrypted with is not configured. Damage does not fail it: it is told in what was
    /// recovered, and the rest of the stream works.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: FileOptions) -> Result<(Self, Recovered), Error> {
        recover::open(disk, dir, options)
    }

    fn check(&self) -> Result<(), Error> {
        match &self.failed {
            Some(reason) => Err(Error::Failed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Passes a result on; after an error nothing more is changed.
    fn guard<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.failed.get_or_insert_with(|| error.to_string());
        }
        result
    }

    /// Sequence and time of the first message. The time is looked up once per first message.
    fn first(&self) -> (u64, Option<Timestamp>) {
        if self.messages == 0 {
            return (self.last_sequence.saturating_add(1), None);
        }
        if let Some((sequence, Some(timestamp))) = self.first.get() {
            return (sequence, Some(timestamp));
        }
        // Where the disk cannot be read there is no better answer than none.
        let sequence = self.blocks.first_from(0).ok().flatten();
        let sequence = sequence.unwrap_or_else(|| self.last_sequence.saturating_add(1));
        let timestamp = self.time_of(sequence).ok().flatten();
        self.first.set(Some((sequence, timestamp)));
        (sequence, timestamp)
    }

    fn time_of(&self, sequence: u64) -> Result<Option<Timestamp>, Error> {
        let Some((at, index, slot)) = self.blocks.find(sequence)? else { return Ok(None) };
        Ok(self.blocks.record(at, &index, slot)?.map(|(_, parts)| parts.timestamp))
    }
}

impl StreamStore for FileStore {
    fn state(&self) -> State {
        let (first_sequence, first_timestamp) = self.first();
        let span = (self.last_sequence.saturating_add(1)).saturating_sub(first_sequence);
        State {
            messages: self.messages,
            bytes: self.bytes,
            first_sequence,
            first_timestamp,
            last_sequence: self.last_sequence,
            last_timestamp: self.last_timestamp,
            subjects: self.subjects.len() as u64,
            // Where the disk cannot be read the first sequence is not known.
            deleted: if self.messages == 0 { 0 } else { span.saturating_sub(self.messages) },
        }
    }

    fn expect(&self, subjects: &mut dyn Iterator<Item = &[u8]>) {
        self.subjects.expect(subjects);
    }

    fn append(&mut self, message: Append<'_>) -> Result<(), Error> {
        self.check()?;
        let Append { sequence, timestamp, subject, expiry, .. } = message;
        assert!(sequence > self.last_sequence, "append of {sequence} after {}", self.last_sequence);
        let appended = self.blocks.append(&message, &mut self.checkpoints.next_block);
        let size = self.guard(appended)?;
        self.drop_dead_predecessor();
        if self.messages == 0 {
            self.first.set(Some((sequence, Some(timestamp))));
        }
        self.subjects.append(subject, sequence);
        if let Expiry::At(time) = expiry {
            self.expiries.insert((time, sequence));
        }
        self.messages += 1;
        self.bytes += size;
        self.last_sequence = sequence;
        self.last_timestamp = Some(timestamp);
        Ok(())
    }

    fn skip_to(&mut self, last: u64, timestamp: Timestamp) -> Result<(), Error> {
        self.check()?;
        if last > self.last_sequence {
            self.last_sequence = last;
            self.last_timestamp = Some(timestamp);
        }
        Ok(())
    }

    fn load(&self, sequence: u64) -> Result<Option<Message>, Error> {
        match self.blocks.find(sequence)? {
            Some((at, index, slot)) => self.blocks.message(at, &index, slot),
            None => Ok(None),
        }
    }

    fn subject_of(&self, sequence: u64) -> Result<Option<Bytes>, Error> {
        let found = self.blocks.find(sequence)?;
        Ok(found.and_then(|(_, index, slot)| index.subject(slot).map(Bytes::copy_from_slice)))
    }

    fn next(&self, filter: &Filter, from: u64) -> Result<Option<Message>, Error> {
        self.next_message(filter, from)
    }

    fn last(&self, filter: &Filter, up_to: u64) -> Result<Option<u64>, Error> {
        self.last_sequence_of(filter, up_to)
    }

    fn last_per_subject(&self, filter: &Filter, up_to: u64, max: usize) -> Result<Option<Vec<u64>>, Error> {
        self.last_of_each(filter, up_to, max)
    }

    fn count(&self, filter: &Filter, range: RangeInclusive<u64>) -> Result<u64, Error> {
        self.count_in(filter, range)
    }

    fn sequence_at(&self, time: Timestamp) -> Result<u64, Error> {
        self.first_at(time)
    }

    fn subject_state(&self, literal: &[u8]) -> Option<SubjectState> {
        self.subjects.get(literal).map(|state| self.fresh_state(literal, state))
    }

    fn for_each_subject(&self, filter: &Filter, visit: &mut dyn FnMut(&[u8], SubjectState) -> bool) {
        self.subjects.for_each(filter, &mut |_, name, state| visit(name, self.fresh_state(name, state)));
    }

    fn deleted(&self, from: u64, max: usize) -> Vec<RangeInclusive<u64>> {
        self.gaps(from, max)
    }

    fn remove(&mut self, sequence: u64, erase: bool) -> Result<Option<Removed>, Error> {
        self.check()?;
        let removed = self.remove_one(sequence, erase);
        self.guard(removed)
    }

    fn purge(&mut self, filter: &Filter, up_to: u64, removed: &mut dyn FnMut(Removed)) -> Result<(), Error> {
        self.check()?;
        let purged = match filter {
            Filter::All => self.purge_all(up_to, removed),
            Filter::Any(_) => self.purge_matching(filter, up_to, removed),
        };
        self.guard(purged)
    }

    fn expired(&self, now: Timestamp, max_age_before: Option<Timestamp>, max: usize) -> Vec<u64> {
        self.due(now, max_age_before, max)
    }

    fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(time, _)| *time)
    }

    fn begin_checkpoint(
        &mut self,
        applied: u64,
        changes: Vec<(Box<str>, Option<Bytes>)>,
    ) -> Result<CheckpointJob, Error> {
        self.check()?;
        let job = self.capture(applied, changes);
        self.guard(job)
    }

    fn finish_checkpoint(&mut self, done: Result<CheckpointDone, Error>) -> Result<(), Error> {
        let settled = done.and_then(|done| self.settle(&done));
        self.guard(settled)
    }

    fn newest_checkpoint(&self) -> u64 {
        self.checkpoints.journal.sum
    }

    fn wants_checkpoint(&self) -> bool {
        self.is_disordered()
    }

    fn take_damage(&mut self) -> Vec<Damage> {
        self.write_off()
    }
}
