//! Messages whose dead letter is not stored yet. Limits neither count nor remove them, so that nothing is lost on its way to the other stream.
//!
//! What is here changes with applied commands only, so that all replicas remove the same messages at the same place of the log.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::stream::{Error as StoreError, Filter};

use super::Stream;
use crate::consumer::Applied;
use crate::effect::Effects;
use crate::outside::Outside;

/// One message.
#[derive(Debug)]
struct Message {
    subject: Bytes,
    size: u64,
    /// Consumers whose letters about it are open.
    consumers: BTreeSet<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    messages: BTreeMap<u64, Message>,
    bytes: u64,
}

impl Held {
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn contains(&self, sequence: u64) -> bool {
        self.messages.contains_key(&sequence)
    }

    /// Does any consumer but this one hold it?
    pub(crate) fn is_held_but_by(&self, consumer: Option<u64>, sequence: u64) -> bool {
        let message = self.messages.get(&sequence);
        message.is_some_and(|message| message.consumers.iter().any(|holder| Some(*holder) != consumer))
    }

    /// Bytes of all.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many there are of a subject.
    pub(crate) fn of_subject(&self, subject: &[u8]) -> u64 {
        self.messages.values().filter(|message| message.subject == subject).count() as u64
    }

    /// The message has left the stream.
    pub(crate) fn forget(&mut self, sequence: u64) {
        if let Some(message) = self.messages.remove(&sequence) {
            self.bytes -= message.size;
        }
    }

    /// A consumer does not hold it any more. Its subject, if nobody does.
    fn release(&mut self, consumer: u64, sequence: u64) -> Option<Bytes> {
        let message = self.messages.get_mut(&sequence)?;
        if !message.consumers.remove(&consumer) || !message.consumers.is_empty() {
            return None;
        }
        let subject = message.subject.clone();
        self.forget(sequence);
        Some(subject)
    }

    /// Messages that a consumer holds.
    fn of_consumer(&self, consumer: u64) -> Vec<u64> {
        let held = self.messages.iter().filter(|(_, message)| message.consumers.contains(&consumer));
        held.map(|(sequence, _)| *sequence).collect()
    }
}

impl Stream {
    /// Holds what waits for letters by a checkpoint.
    pub(super) fn restore_held(&mut self) -> Result<(), StoreError> {
        let open: Vec<(u64, u64)> = self
            .consumers
            .iter_with_ids()
            .flat_map(|(id, consumer)| consumer.open_letters().map(move |sequence| (id, sequence)))
            .collect();
        for (id, sequence) in open {
            self.hold(id, sequence)?;
        }
        Ok(())
    }

    fn hold(&mut self, consumer: u64, sequence: u64) -> Result<(), StoreError> {
        if let Some(held) = self.held.messages.get_mut(&sequence) {
            held.consumers.insert(consumer);
            return Ok(());
        }
        let Some(message) = self.store.load(sequence)? else { return Ok(()) };
        let size = self.rules.stored_size(&message.subject, &message.headers, &message.payload);
        self.held.bytes += size;
        let held = Message { subject: message.subject, size, consumers: BTreeSet::from([consumer]) };
        self.held.messages.insert(sequence, held);
        Ok(())
    }

    /// A command of a consumer has given messages up, or is done with some.
    pub(crate) fn apply_letters(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (u64, &Applied),
    ) -> Result<(), StoreError> {
        let (id, applied) = what;
        for sequence in &applied.given_up {
            self.hold(id, *sequence)?;
        }
        if self.held.is_empty() {
            return Ok(());
        }
        let mut done = applied.exhausted.clone();
        for range in &applied.acked {
            done.extend(self.held.messages.range(range.clone()).map(|(sequence, _)| *sequence));
        }
        self.release(outside, effects, (id, done))
    }

    /// A consumer is gone, or begins again: it waits for no letters.
    pub(crate) fn release_consumer(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        id: u64,
    ) -> Result<(), StoreError> {
        let done = self.held.of_consumer(id);
        self.release(outside, effects, (id, done))
    }

    /// The limits count these messages again.
    fn release(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (u64, Vec<u64>),
    ) -> Result<(), StoreError> {
        let (id, sequences) = what;
        let subjects: Vec<Bytes> =
            sequences.into_iter().filter_map(|sequence| self.held.release(id, sequence)).collect();
        for subject in &subjects {
            self.enforce_limits(outside, effects, subject)?;
        }
        if !subjects.is_empty() {
            self.expiries.wake();
        }
        Ok(())
    }

    /// The first message from here on that limits may remove.
    pub(crate) fn first_free(&self, filter: &Filter, from: u64) -> Result<Option<u64>, StoreError> {
        let mut sequence = from;
        while self.held.contains(sequence) {
            let Some(next) = self.store.next(filter, sequence + 1)? else { return Ok(None) };
            sequence = next.sequence;
        }
        Ok(Some(sequence))
    }
}
