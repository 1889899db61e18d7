//! A store that forgets.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use store::Timestamp;
use store::stream::{
    Append, CheckpointDone, CheckpointJob, Damage, Error, Filter, Message, Removed, State, StreamStore,
    SubjectState,
};

use super::Plant;

/// Passes everything on but what its fault concerns.
#[derive(Debug)]
pub(crate) struct BrokenStore {
    plant: Plant,
    inner: Box<dyn StreamStore>,
    /// The log is being replayed.
    replaying: Arc<AtomicBool>,
    /// Removals that were forgotten; one that is tried again happens, so that limits can be kept at last.
    forgotten: BTreeSet<u64>,
}

impl BrokenStore {
    /// A store with this fault; the store itself if the fault is none of a store.
    pub(crate) fn wrap(
        plant: Plant,
        inner: Box<dyn StreamStore>,
        replaying: Arc<AtomicBool>,
    ) -> Box<dyn StreamStore> {
        match plant {
            Plant::RemovalsForgotten | Plant::DoneKept | Plant::IdsForgotten => {
                Box::new(Self { plant, inner, replaying, forgotten: BTreeSet::new() })
            }
            _ => inner,
        }
    }

    fn forgets_removals(&self) -> bool {
        self.plant == Plant::RemovalsForgotten && self.replaying.load(Relaxed)
    }
}

impl StreamStore for BrokenStore {
    fn state(&self) -> State {
        self.inner.state()
    }

    fn expect(&self, subjects: &mut dyn Iterator<Item = &[u8]>) {
        self.inner.expect(subjects);
    }

    fn append(&mut self, message: Append<'_>) -> Result<(), Error> {
        // Ids are read from headers: those that are replayed are lost with them.
        let headers = if self.plant == Plant::IdsForgotten { b"" } else { message.headers };
        self.inner.append(Append { headers, ..message })
    }

    fn skip_to(&mut self, last: u64, timestamp: Timestamp) -> Result<(), Error> {
        self.inner.skip_to(last, timestamp)
    }

    fn load(&self, sequence: u64) -> Result<Option<Message>, Error> {
        self.inner.load(sequence)
    }

    fn subject_of(&self, sequence: u64) -> Result<Option<Bytes>, Error> {
        self.inner.subject_of(sequence)
    }

    fn next(&self, filter: &Filter, from: u64) -> Result<Option<Message>, Error> {
        self.inner.next(filter, from)
    }

    fn last(&self, filter: &Filter, up_to: u64) -> Result<Option<u64>, Error> {
        self.inner.last(filter, up_to)
    }

    fn last_per_subject(&self, filter: &Filter, up_to: u64, max: usize) -> Result<Option<Vec<u64>>, Error> {
        self.inner.last_per_subject(filter, up_to, max)
    }

    fn count(&self, filter: &Filter, range: RangeInclusive<u64>) -> Result<u64, Error> {
        self.inner.count(filter, range)
    }

    fn sequence_at(&self, time: Timestamp) -> Result<u64, Error> {
        self.inner.sequence_at(time)
    }

    fn subject_state(&self, literal: &[u8]) -> Option<SubjectState> {
        self.inner.subject_state(literal)
    }

    fn for_each_subject(&self, filter: &Filter, visit: &mut dyn FnMut(&[u8], SubjectState) -> bool) {
        self.inner.for_each_subject(filter, visit);
    }

    fn deleted(&self, from: u64, max: usize) -> Vec<RangeInclusive<u64>> {
        self.inner.deleted(from, max)
    }

    fn remove(&mut self, sequence: u64, erase: bool) -> Result<Option<Removed>, Error> {
        let keeps = self.plant == Plant::DoneKept && !self.replaying.load(Relaxed);
        if (keeps || self.forgets_removals()) && self.forgotten.insert(sequence) {
            return Ok(None);
        }
        self.inner.remove(sequence, erase)
    }

    fn purge(&mut self, filter: &Filter, up_to: u64, removed: &mut dyn FnMut(Removed)) -> Result<(), Error> {
        if self.forgets_removals() { Ok(()) } else { self.inner.purge(filter, up_to, removed) }
    }

    fn expired(&self, now: Timestamp, max_age_before: Option<Timestamp>, max: usize) -> Vec<u64> {
        self.inner.expired(now, max_age_before, max)
    }

    fn next_expiry(&self) -> Option<Timestamp> {
        self.inner.next_expiry()
    }

    fn begin_checkpoint(
        &mut self,
        applied: u64,
        changes: Vec<(Box<str>, Option<Bytes>)>,
    ) -> Result<CheckpointJob, Error> {
        self.inner.begin_checkpoint(applied, changes)
    }

    fn finish_checkpoint(&mut self, done: Result<CheckpointDone, Error>) -> Result<(), Error> {
        self.inner.finish_checkpoint(done)
    }

    fn newest_checkpoint(&self) -> u64 {
        self.inner.newest_checkpoint()
    }

    fn wants_checkpoint(&self) -> bool {
        self.inner.wants_checkpoint()
    }

    fn take_damage(&mut self) -> Vec<Damage> {
        self.inner.take_damage()
    }
}
