//! What a checkpoint holds beside the messages: configuration, numbers, consumers.
//!
//! Message ids are not among it: the window is rebuilt from the headers of stored messages, and the replayed log adds the rest. So ids of messages
//! that were removed before the last checkpoint are forgotten by a restart, as in the reference. How far there are ids is among it, so that a
//! stream without any is not read at all.

use api::jetstream::stream::StreamConfig;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use store::stream::{CheckpointDone, CheckpointJob, Error as StoreError, Filter, Items};

use super::headers::Known;
use super::{OpenError, Stream};
use crate::consumer::Consumer;

const CONFIG: &str = "config";
const FACTS: &str = "facts";
const SCHEDULES: &str = "schedules";
const SOURCES: &str = "sources";
/// Highest sequence that an id came with; eight bytes, little endian.
const IDS: &str = "ids";
/// In front of the name of a consumer.
const CONSUMER: &str = "consumer/";

/// Version of the items that are not JSON.
const VERSION: u8 = 1;

/// The configuration in a checkpoint, if there is one.
pub(super) fn config(items: &Items) -> Result<Option<StreamConfig>, OpenError> {
    let Some(bytes) = items.get(CONFIG) else { return Ok(None) };
    serde_json::from_slice(bytes).map(Some).map_err(|error| unreadable(CONFIG, error))
}

fn unreadable(name: &str, reason: impl ToString) -> OpenError {
    OpenError::Item { name: name.to_owned(), reason: reason.to_string() }
}

impl Stream {
    /// Name of the newest checkpoint that is on stable storage; zero if there is none.
    pub fn newest_checkpoint(&self) -> u64 {
        self.store.newest_checkpoint()
    }

    /// Would a checkpoint hold anything but the index of the log that the last one lacks?
    pub fn lacks_checkpoint(&self) -> bool {
        self.changed || self.dirty || self.store.wants_checkpoint()
    }

    /// Collects what changed since the last checkpoint. The job may run anywhere; its result goes to `checkpoint_done`.
    pub fn checkpoint(&mut self) -> Result<CheckpointJob, StoreError> {
        let mut changes: Vec<(Box<str>, Option<Bytes>)> = Vec::new();
        if self.dirty {
            if let Ok(config) = serde_json::to_vec(&*self.facts.config) {
                changes.push((CONFIG.into(), Some(config.into())));
            }
            let mut facts = BytesMut::new();
            facts.put_u8(VERSION);
            facts.put_u64_le(self.consumers.next_id());
            facts.put_u8(u8::from(self.begun));
            changes.push((FACTS.into(), Some(facts.freeze())));
        }
        self.consumers.changes(|id, consumer| {
            let mut item = Vec::new();
            item.put_u64_le(id);
            consumer.encode_state(&mut item);
            changes.push((item_name(consumer.name()), Some(item.into())));
        });
        for name in self.consumers.take_deleted() {
            if self.consumers.find(&name).is_none() {
                changes.push((item_name(&name), None));
            }
        }
        if let Some(schedules) = self.schedules.changes() {
            changes.push((SCHEDULES.into(), Some(schedules)));
        }
        if let Some(positions) = self.positions.changes() {
            changes.push((SOURCES.into(), positions));
        }
        let ids = self.dedupe.newest();
        if self.ids_saved != Some(ids) {
            changes.push((IDS.into(), Some(Bytes::copy_from_slice(&ids.to_le_bytes()))));
        }
        let job = self.store.begin_checkpoint(self.applied, changes)?;
        self.dirty = false;
        self.changed = false;
        self.ids_saved = Some(ids);
        Ok(job)
    }

    /// Takes the result of a checkpoint's job.
    pub fn checkpoint_done(&mut self, done: Result<CheckpointDone, StoreError>) -> Result<(), StoreError> {
        self.store.finish_checkpoint(done)
    }

    /// Takes over what a checkpoint holds, and reads from the messages what it does not. Of a store that is damaged, the checkpoint may be older
    /// than its messages.
    pub(super) fn restore(&mut self, items: &Items, damaged: bool) -> Result<(), OpenError> {
        if let Some(mut facts) = items.get(FACTS).cloned() {
            if facts.len() < 9 || facts.get_u8() != VERSION {
                return Err(unreadable(FACTS, "unknown version"));
            }
            self.consumers.set_next_id(facts.get_u64_le());
            // Checkpoints of earlier versions do not tell.
            self.begun = facts.try_get_u8().is_ok_and(|begun| begun > 0);
        }
        for (name, item) in items.range(Box::from(CONSUMER)..) {
            if !name.starts_with(CONSUMER) {
                break;
            }
            let restored = restore_consumer(item);
            let (id, consumer) = restored.map_err(|reason| unreadable(name, reason))?;
            self.consumers.insert_restored(id, consumer);
        }
        if let Some(item) = items.get(SCHEDULES)
            && !self.schedules.restore(item.clone())
        {
            return Err(unreadable(SCHEDULES, "ends too early"));
        }
        if let Some(item) = items.get(SOURCES)
            && !self.positions.restore(item.clone())
        {
            return Err(unreadable(SOURCES, "ends too early"));
        }
        self.find_positions()?;
        let ids = items.get(IDS).and_then(|item| item.first_chunk().copied()).map(u64::from_le_bytes);
        self.restore_ids(ids.filter(|_| !damaged))?;
        self.ids_saved = ids;
        Ok(())
    }

    /// Reads ids within the window from the headers of stored messages, up to the last that has one if it is known.
    pub(super) fn restore_ids(&mut self, newest: Option<u64>) -> Result<(), StoreError> {
        let state = self.store.state();
        if let Some(message) = self.store.next(&Filter::All, state.last_sequence)? {
            self.last_id = Known::parse(&message.headers).message_id.unwrap_or_default().to_vec();
        }
        let window = self.facts.config.duplicate_window.duration();
        let (Some(last), false) = (state.last_timestamp, window.is_zero()) else { return Ok(()) };
        let end = newest.unwrap_or(state.last_sequence);
        let mut next = self.store.sequence_at(last.saturating_sub(window))?;
        while next <= end
            && let Some(message) = self.store.next(&Filter::All, next)?
        {
            next = message.sequence + 1;
            if let Some(id) = Known::parse(&message.headers).message_id {
                self.dedupe.insert(id, message.sequence, message.timestamp);
            }
        }
        self.dedupe.reach(newest.unwrap_or(0));
        Ok(())
    }
}

fn item_name(consumer: &str) -> Box<str> {
    format!("{CONSUMER}{consumer}").into()
}

/// A consumer's number and the rest.
fn restore_consumer(item: &[u8]) -> Result<(u64, Consumer), String> {
    let (id, state) = item.split_first_chunk().ok_or("too short")?;
    let consumer = Consumer::restore(state).map_err(|error| error.to_string())?;
    Ok((u64::from_le_bytes(*id), consumer))
}
