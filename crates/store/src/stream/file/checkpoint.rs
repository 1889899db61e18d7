//! Checkpoints seen from the store: what is captured at the start, and what is taken over at the end. `job` is the part in between.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::FileStore;
use super::block::{Block, Place};
use super::blocks::Blocks;
use super::cache::{Cached, Part};
use super::chunk::HEADER;
use super::compact;
use super::index::Index;
use super::job::{Outcome, Wipe, Work};
use super::journal::{Journal, Record, Sequences};
use super::record;
use crate::stream::{CheckpointDone, CheckpointJob, Error, Items};

/// Where a job leaves what it did beside the checkpoint.
pub(super) type Mailbox = Arc<Mutex<Option<Outcome>>>;

/// A block whose files go after the next checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbage {
    pub number: u64,
    /// It holds erased messages, so it is overwritten before it is removed.
    pub wipe: bool,
}

/// What the store keeps for its checkpoints.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    pub next_block: u64,
    /// Blocks dropped since the last capture.
    pub dropped: Vec<Garbage>,
    pub items: Items,
    pub journal: Journal,
    /// The next record has to be a base whatever the length of the file.
    pub renew: bool,
    /// Of the job that is out.
    pub out: Option<Mailbox>,
}

impl FileStore {
    /// Captures the state and makes the job that puts it on disk.
    pub(super) fn capture(
        &mut self,
        applied: u64,
        changes: Vec<(Box<str>, Option<Bytes>)>,
    ) -> Result<CheckpointJob, Error> {
        assert!(self.checkpoints.out.is_none(), "a second checkpoint of {:?}", self.blocks.shared.dir);
        self.close_for_erasure()?;
        self.blocks.flush()?;
        for (name, value) in &changes {
            match value {
                Some(value) => self.checkpoints.items.insert(name.clone(), value.clone()),
                None => self.checkpoints.items.remove(name),
            };
        }
        let base = self.checkpoints.renew || self.checkpoints.journal.is_outgrown();
        let plan = compact::plan(&self.blocks, self.checkpoints.next_block)?;
        self.checkpoints.next_block += u64::from(plan.is_some());
        let (dead, erase, wipes) = self.capture_deleted(base)?;
        let garbage = std::mem::take(&mut self.checkpoints.dropped);
        let record = Record {
            base,
            applied,
            last_sequence: self.last_sequence,
            last_timestamp: self.last_timestamp,
            next_block: self.checkpoints.next_block,
            dropped: garbage.clone(),
            blocks: self.capture_facts(base),
            dead,
            erase,
            items: if base { self.every_item() } else { changes },
        };
        let mailbox = Mailbox::default();
        self.checkpoints.out = Some(mailbox.clone());
        let work = Work {
            shared: self.blocks.shared.clone(),
            journal: self.checkpoints.journal,
            record,
            sync: capture_files(&mut self.blocks),
            indexes: closed_indexes(&self.blocks),
            garbage,
            wipes,
            plan,
        };
        self.checkpoints.renew = false;
        Ok(Box::new(move || {
            let outcome = work.run()?;
            *mailbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            Ok(CheckpointDone { applied })
        }))
    }

    /// Does the state differ from that of the newest checkpoint in more than its numbers and items, or did that one leave something undone?
    pub(super) fn is_disordered(&self) -> bool {
        let Checkpoints { dropped, renew, .. } = &self.checkpoints;
        let is_in_order = |block: &Block| {
            !block.changed && !block.unsynced && block.fresh.is_empty() && block.erase.is_empty()
        };
        *renew || !dropped.is_empty() || !self.blocks.list.iter().all(is_in_order)
    }

    fn every_item(&self) -> Vec<(Box<str>, Option<Bytes>)> {
        let held = self.checkpoints.items.iter();
        held.map(|(name, value)| (name.clone(), Some(value.clone()))).collect()
    }

    /// Erased messages in packed chunks go by writing their block anew, for which it must not grow any more.
    fn close_for_erasure(&mut self) -> Result<(), Error> {
        let Some(block) = self.blocks.list.back() else { return Ok(()) };
        if block.erase.is_empty() || !matches!(block.place, Place::Growing) {
            return Ok(());
        }
        self.blocks.flush()?;
        let Some(block) = self.blocks.list.back() else { return Ok(()) };
        let Some(growing) = &self.blocks.growing else { return Ok(()) };
        if block.erase.iter().any(|slot| plain_place(&growing.index, *slot).is_none()) {
            self.blocks.close()?;
            let at = self.blocks.list.len() - 1;
            if self.blocks.list[at].live == 0 {
                self.drop_block(at);
            }
        }
        Ok(())
    }

    /// Deleted messages to be recorded, erased ones, and where those lie.
    fn capture_deleted(&mut self, all: bool) -> Result<(Sequences, Sequences, Vec<Wipe>), Error> {
        let (mut dead, mut erase, mut wipes) = (Sequences::new(), Sequences::new(), Vec::new());
        for at in 0..self.blocks.list.len() {
            let block = &self.blocks.list[at];
            let nothing = block.fresh.is_empty() && block.erase.is_empty();
            if nothing && (!all || block.dead.is_clear()) {
                continue;
            }
            let number = block.facts.number;
            let index = self.blocks.index(at)?;
            let runs = if all { block.all_dead(&index) } else { block.fresh_dead(&index) };
            if !runs.is_empty() {
                dead.push((number, runs));
            }
            if !block.erase.is_empty() {
                let sequences = block.erase.iter().map(|slot| index.sequence(*slot));
                erase.push((number, sequences.map(|sequence| sequence..=sequence).collect()));
            }
            let mut wipe = Wipe { number, places: Vec::new() };
            let mut packed = Vec::new();
            for slot in &block.erase {
                match plain_place(&index, *slot) {
                    Some((offset, length)) => wipe.places.push((index.sequence(*slot), offset, length)),
                    None => packed.push(*slot),
                }
            }
            drop(index);
            if !wipe.places.is_empty() {
                wipes.push(wipe);
            }
            let block = &mut self.blocks.list[at];
            block.fresh.clear();
            // Those stay until the block has been written anew.
            block.erase = packed;
        }
        erase.iter_mut().for_each(|(_, runs)| runs.sort_unstable_by_key(|run| *run.start()));
        Ok((dead, erase, wipes))
    }

    fn capture_facts(&mut self, all: bool) -> Vec<super::block::Facts> {
        let blocks = self.blocks.list.iter_mut();
        // A block without a written message is nothing to come back to.
        let captured = blocks.filter(|block| (all || block.changed) && block.facts.len > 0);
        captured
            .map(|block| {
                block.changed = false;
                block.facts
            })
            .collect()
    }

    /// Takes over what a job did.
    pub(super) fn settle(&mut self, done: &CheckpointDone) -> Result<(), Error> {
        let mailbox = self.checkpoints.out.take();
        let outcome =
            mailbox.and_then(|mailbox| mailbox.lock().unwrap_or_else(PoisonError::into_inner).take());
        let Some(outcome) = outcome else {
            let reason = format!("checkpoint {} is done that was not begun", done.applied);
            return Err(Error::Failed { reason });
        };
        self.checkpoints.journal = outcome.journal;
        for (number, sum) in outcome.indexed {
            let Some(block) = self.blocks.list.iter_mut().find(|block| block.facts.number == number) else {
                continue;
            };
            block.facts.index = Some(sum);
            if let Place::Memory(index) = std::mem::replace(&mut block.place, Place::File) {
                let key = self.blocks.shared.key(number, Part::Index);
                self.blocks.shared.cache().put(key, Cached::Index(index));
            }
        }
        outcome.damage.into_iter().for_each(|damage| self.blocks.note(damage));
        if let Some(compacted) = outcome.compacted {
            self.exchange(&compacted);
        }
        Ok(())
    }

    /// Puts a block that was written anew in the place of those it was made of.
    fn exchange(&mut self, compacted: &compact::Compacted) {
        let index = &compacted.index;
        let mut block = Block::with_facts(compacted.facts, Place::File);
        block.live = index.slots();
        block.live_bytes = (0..index.slots()).map(|slot| index.size(slot)).sum();
        for source in &compacted.sources {
            match self.blocks.list.iter().position(|block| block.facts.number == source.facts.number) {
                Some(at) => {
                    let old = self.blocks.list.remove(at);
                    let Some(old) = old else { continue };
                    let gone = old.fresh.iter().map(|slot| source.index.sequence(*slot));
                    gone.filter_map(|sequence| index.find(sequence))
                        .for_each(|slot| bury(&mut block, index, slot));
                    let erased = old.erase.iter().map(|slot| source.index.sequence(*slot));
                    block.erase.extend(erased.filter_map(|sequence| index.find(sequence)));
                    let number = old.facts.number;
                    self.blocks.forget(number, source.index.chunks.len() as u32);
                    self.checkpoints.dropped.push(Garbage { number, wipe: !old.erase.is_empty() });
                }
                // All that was in it has been deleted meanwhile.
                None => {
                    let slots = index.slot_from(source.facts.base)..index.slots_to(source.facts.last);
                    slots.for_each(|slot| bury(&mut block, index, slot));
                }
            }
        }
        let number = block.facts.number;
        if block.live == 0 {
            self.checkpoints.dropped.push(Garbage { number, wipe: !block.erase.is_empty() });
            return;
        }
        let at = self.blocks.list.partition_point(|other| other.facts.base < block.facts.base);
        self.blocks.list.insert(at, block);
        let key = self.blocks.shared.key(number, Part::Index);
        self.blocks.shared.cache().put(key, Cached::Index(index.clone()));
    }
}

fn bury(block: &mut Block, index: &Index, slot: u32) {
    if block.dead.insert(slot) {
        block.fresh.push(slot);
        block.live -= 1;
        block.live_bytes -= index.size(slot);
    }
}

/// Files with writes that are to be synced. Those of blocks that grow no more are let go.
fn capture_files(blocks: &mut Blocks) -> Vec<Arc<dyn crate::disk::File>> {
    let mut files = Vec::new();
    for block in blocks.list.iter_mut().filter(|block| block.unsynced) {
        block.unsynced = false;
        let growing = blocks.growing.as_ref().and_then(|growing| growing.file.clone());
        let file = if matches!(block.place, Place::Growing) { growing } else { block.writer.take() };
        files.extend(file);
    }
    files
}

/// Blocks that were closed and whose index is not on disk yet.
fn closed_indexes(blocks: &Blocks) -> Vec<(u64, Arc<Index>)> {
    let closed = blocks.list.iter().filter_map(|block| match &block.place {
        Place::Memory(index) => Some((block.facts.number, index.clone())),
        Place::Growing | Place::File => None,
    });
    closed.collect()
}

/// Offset and length of a record in its file, if its chunk is plain, so that it can be overwritten. A slot that was given to a lost message may be
/// too short for a record.
fn plain_place(index: &Index, slot: u32) -> Option<(u64, u32)> {
    let number = index.chunk_of(slot);
    let chunk = index.chunks[number as usize];
    let (position, length) = index.place(slot);
    let offset = u64::from(chunk.at) + HEADER as u64 + u64::from(position - chunk.raw);
    let is_plain = chunk.stored == index.chunk_length(number);
    (is_plain && length as usize >= record::FIXED).then_some((offset, length))
}
