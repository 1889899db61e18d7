//! Messages that go: one, many, or all that were lost.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::FileStore;
use super::block::Place;
use super::checkpoint::Garbage;
use super::counters;
use super::index::Index;
use super::select::Query;
use crate::stream::{Damage, Error, Expiry, Filter, Removed};

/// A block that still grows is given up when all in it is deleted and it has grown to this part of its size.
const GIVE_UP_DIVISOR: u32 = 4;

impl FileStore {
    pub(super) fn remove_one(&mut self, sequence: u64, erase: bool) -> Result<Option<Removed>, Error> {
        let Some((at, index, slot)) = self.blocks.find(sequence)? else { return Ok(None) };
        let gone = Gone::of(&index, slot);
        drop(index);
        self.bury(at, slot, &gone);
        if erase {
            self.blocks.list[at].erase.push(slot);
        }
        self.tidy(at)?;
        Ok(gone.removed())
    }

    /// Takes a live slot out of all books.
    fn bury(&mut self, at: usize, slot: u32, gone: &Gone) {
        let block = &mut self.blocks.list[at];
        let was_live = block.dead.insert(slot);
        assert!(was_live, "slot {slot} of block {} was deleted before", block.facts.number);
        block.fresh.push(slot);
        block.live -= 1;
        block.live_bytes -= gone.size;
        self.messages -= 1;
        self.bytes -= gone.size;
        if let Some(subject) = &gone.subject {
            counters::remove(&mut self.subjects, subject, gone.sequence);
        }
        if let Expiry::At(time) = gone.expiry {
            self.expiries.remove(&(time, gone.sequence));
        }
        if self.first.get().is_some_and(|(first, _)| first == gone.sequence) {
            self.first.set(None);
        }
    }

    /// Drops the block at a position if it has become useless. Was it?
    fn tidy(&mut self, at: usize) -> Result<bool, Error> {
        let block = &self.blocks.list[at];
        if block.live > 0 {
            return Ok(false);
        }
        if matches!(block.place, Place::Growing) {
            if block.facts.len < self.blocks.shared.options.block_bytes / GIVE_UP_DIVISOR {
                return Ok(false);
            }
            self.blocks.close()?;
        }
        self.drop_block(at);
        Ok(true)
    }

    /// Takes a block without live messages out; its files go after the next checkpoint.
    pub(super) fn drop_block(&mut self, at: usize) {
        let Some(block) = self.blocks.list.remove(at) else { return };
        let number = block.facts.number;
        let chunks = match &block.place {
            Place::Memory(index) => index.chunks.len() as u32,
            _ => block.facts.slots,
        };
        self.blocks.forget(number, chunks);
        self.checkpoints.dropped.push(Garbage { number, wipe: !block.erase.is_empty() });
    }

    /// A block that was all dead while it grew goes when the next one has begun.
    #[inline]
    pub(super) fn drop_dead_predecessor(&mut self) {
        if let Some(at) = self.blocks.list.len().checked_sub(2)
            && self.blocks.list[at].live == 0
        {
            self.drop_block(at);
        }
    }

    pub(super) fn purge_all(&mut self, up_to: u64, removed: &mut dyn FnMut(Removed)) -> Result<(), Error> {
        while let Some(block) = self.blocks.list.front() {
            if block.facts.base > up_to || self.messages == 0 {
                break;
            }
            let whole = block.facts.last <= up_to;
            self.purge_block(0, Query::Filter(&Filter::All), up_to, removed)?;
            // Of a block that goes on beyond, all that lives may be gone as well.
            let dropped = self.tidy(0)?;
            if !whole || !dropped {
                break;
            }
        }
        self.last_sequence = self.last_sequence.max(up_to);
        Ok(())
    }

    /// Removes what a query lets through from one block.
    fn purge_block(
        &mut self,
        at: usize,
        query: Query<'_>,
        up_to: u64,
        removed: &mut dyn FnMut(Removed),
    ) -> Result<(), Error> {
        if self.blocks.list[at].live == 0 {
            return Ok(());
        }
        let mut gone: Vec<(u32, Gone)> = Vec::new();
        {
            let (block, index) = (&self.blocks.list[at], self.blocks.index(at)?);
            let selection = self.blocks.selection(at, &index, query);
            let end = index.slots_to(up_to);
            let mut from = 0;
            while let Some(slot) = selection.first(block, &index, from..end) {
                gone.push((slot, Gone::of(&index, slot)));
                from = slot + 1;
            }
        }
        for (slot, gone) in gone {
            self.bury(at, slot, &gone);
            if let Some(message) = gone.removed() {
                removed(message);
            }
        }
        Ok(())
    }

    pub(super) fn purge_matching(
        &mut self,
        filter: &Filter,
        up_to: u64,
        removed: &mut dyn FnMut(Removed),
    ) -> Result<(), Error> {
        let (mut first, mut last) = (u64::MAX, 0);
        self.subjects.for_each_id(filter, &mut |_, state| {
            first = first.min(counters::bound(state.first));
            last = last.max(counters::bound(state.last));
            true
        });
        let up_to = up_to.min(last);
        if first > up_to {
            return Ok(());
        }
        let mut at = self.blocks.position_from(first);
        while self.blocks.list.get(at).is_some_and(|block| block.facts.base <= up_to) {
            self.purge_block(at, Query::Filter(filter), up_to, removed)?;
            if !self.tidy(at)? {
                at += 1;
            }
        }
        Ok(())
    }

    /// Hands out noted damage, after what was lost has been taken out of the books, so that counters and answers agree from here on.
    pub(super) fn write_off(&mut self) -> Vec<Damage> {
        let damage = self.blocks.take_damage();
        for sequences in damage.iter().filter_map(|damage| damage.sequences.clone()) {
            self.write_off_range(&sequences);
        }
        damage
    }

    fn write_off_range(&mut self, sequences: &RangeInclusive<u64>) {
        let mut at = self.blocks.position_from(*sequences.start());
        while self.blocks.list.get(at).is_some_and(|block| block.facts.base <= *sequences.end()) {
            let mut gone: Vec<(u32, Gone)> = Vec::new();
            if let Ok(index) = self.blocks.index(at) {
                let end = index.slots_to(*sequences.end());
                let mut from = index.slot_from(*sequences.start());
                while let Some(slot) = self.blocks.list[at].live_from(from).filter(|slot| *slot < end) {
                    gone.push((slot, Gone::of(&index, slot)));
                    from = slot + 1;
                }
            }
            for (slot, gone) in gone {
                self.bury(at, slot, &gone);
            }
            // A block that cannot be closed stays until the disk works again.
            if !matches!(self.tidy(at), Ok(true)) {
                at += 1;
            }
        }
    }

    pub(super) fn gaps(&self, from: u64, max: usize) -> Vec<RangeInclusive<u64>> {
        let mut gaps = Vec::new();
        if self.messages == 0 || max == 0 {
            return gaps;
        }
        let mut expected = from.max(self.first().0);
        for at in self.blocks.position_from(expected)..self.blocks.list.len() {
            let block = &self.blocks.list[at];
            // Unreadable indexes have been noted; their block counts as a gap.
            let Ok(index) = self.blocks.index(at) else { continue };
            let mut slot = index.slot_from(expected);
            while let Some(live) = block.live_from(slot) {
                let sequence = index.sequence(live);
                if sequence > expected {
                    gaps.push(expected..=sequence - 1);
                    if gaps.len() == max {
                        return gaps;
                    }
                }
                // Live slots up to the next deleted one follow each other only if no sequence is missing between them.
                let end = if index.is_dense() {
                    block.dead.next_set(live).unwrap_or(block.facts.slots)
                } else {
                    live + 1
                };
                expected = index.sequence(end - 1) + 1;
                slot = end;
            }
        }
        if expected <= self.last_sequence {
            gaps.push(expected..=self.last_sequence);
        }
        gaps
    }
}

/// What is to be known of a message that goes.
struct Gone {
    sequence: u64,
    subject: Option<Bytes>,
    size: u64,
    expiry: Expiry,
}

impl Gone {
    fn of(index: &Index, slot: u32) -> Self {
        Self {
            sequence: index.sequence(slot),
            subject: index.subject(slot).map(Bytes::copy_from_slice),
            size: index.size(slot),
            expiry: index.expiry(slot),
        }
    }

    fn removed(self) -> Option<Removed> {
        self.subject.map(|subject| Removed { sequence: self.sequence, subject, bytes: self.size })
    }
}
