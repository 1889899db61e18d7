//! What is known of one block while the stream is open: counters, deleted slots, and where its index is.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::bitmap::Bitmap;
use super::index::Index;
use crate::Timestamp;
use crate::disk::File;

/// Facts of a block that a checkpoint records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// Names the file; never used twice.
    pub number: u64,
    /// Sequence of its first slot.
    pub base: u64,
    /// Sequence of its last slot.
    pub last: u64,
    pub slots: u32,
    /// Length of the file.
    pub len: u32,
    /// Times of its messages lie in between, those of deleted ones too.
    pub oldest: Timestamp,
    pub newest: Timestamp,
    /// Checksum of the index file, once the block is closed and that is on disk.
    pub index: Option<u64>,
}

/// Where the index of a block is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// With the writer: the block still grows.
    Growing,
    /// In memory until the next checkpoint has written it.
    Memory(Arc<Index>),
    /// In its file, which the facts name by its checksum.
    File,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Block {
    pub facts: Facts,
    pub place: Place,
    /// Messages held, and their size as users see it.
    pub live: u32,
    pub live_bytes: u64,
    pub dead: Bitmap,
    /// Slots deleted since the last checkpoint was captured.
    pub fresh: Vec<u32>,
    /// Slots to be overwritten after the next checkpoint.
    pub erase: Vec<u32>,
    /// Facts differ from those of the last capture.
    pub changed: bool,
    /// The file has writes that no captured job syncs.
    pub unsynced: bool,
    /// Handle of a closed block that wrote what is not synced yet: a sync through another one would not tell of failed writes.
    pub writer: Option<Arc<dyn File>>,
    /// No message that goes with the maximum age is older than this.
    pub aging_from: Cell<Timestamp>,
}

impl Block {
    pub(super) fn new(number: u64, base: u64) -> Self {
        let (oldest, newest) = (Timestamp(i64::MAX), Timestamp(i64::MIN));
        let facts = Facts { number, base, last: base, slots: 0, len: 0, oldest, newest, index: None };
        Self::with_facts(facts, Place::Growing)
    }

    /// A block without messages yet, as far as this knows.
    pub(super) fn with_facts(facts: Facts, place: Place) -> Self {
        Self {
            facts,
            place,
            live: 0,
            live_bytes: 0,
            dead: Bitmap::default(),
            fresh: Vec::new(),
            erase: Vec::new(),
            changed: true,
            unsynced: false,
            writer: None,
            aging_from: Cell::new(facts.oldest),
        }
    }

    /// The first live slot at or after one.
    #[inline]
    pub(super) fn live_from(&self, slot: u32) -> Option<u32> {
        let slot = self.dead.next_clear(slot);
        (slot < self.facts.slots).then_some(slot)
    }

    /// The last live slot at or before one.
    pub(super) fn live_to(&self, slot: u32) -> Option<u32> {
        self.dead.previous_clear(slot.min(self.facts.slots.checked_sub(1)?))
    }

    /// Live slots in a range.
    pub(super) fn count(&self, slots: std::ops::Range<u32>) -> u32 {
        if slots.is_empty() { 0 } else { slots.len() as u32 - self.dead.count(slots) }
    }

    /// Deleted slots since the last capture, as ranges of sequences, ascending.
    pub(super) fn fresh_dead(&self, index: &Index) -> Vec<RangeInclusive<u64>> {
        let mut fresh = self.fresh.clone();
        fresh.sort_unstable();
        runs(fresh.into_iter(), index)
    }

    /// All deleted slots as ranges of sequences, ascending.
    pub(super) fn all_dead(&self, index: &Index) -> Vec<RangeInclusive<u64>> {
        self.dead.runs().map(|run| index.sequence(run.start)..=index.sequence(run.end - 1)).collect()
    }
}

fn runs(slots: impl Iterator<Item = u32>, index: &Index) -> Vec<RangeInclusive<u64>> {
    let mut runs: Vec<RangeInclusive<u64>> = Vec::new();
    let mut previous = None;
    for slot in slots {
        let sequence = index.sequence(slot);
        match runs.last_mut() {
            Some(run) if previous == Some(slot.wrapping_sub(1)) => *run = *run.start()..=sequence,
            _ => runs.push(sequence..=sequence),
        }
        previous = Some(slot);
    }
    runs
}
