//! What leaves a stream by its own rules: limits, interest, work done, and new rules after an update.

use std::sync::Arc;

use api::jetstream::stream::{Discard, Retention, StreamConfig};
use store::stream::{Error as StoreError, Filter};

use super::Stream;
use super::rules::Rules;
use crate::consumer::{Applied, RemoveReason};
use crate::effect::Effects;
use crate::outside::Outside;

/// A limit that is one.
fn limit(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|limit| *limit > 0)
}

impl Stream {
    /// Removes what is too much after a message was stored under this subject.
    pub(crate) fn enforce_limits(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        subject: &[u8],
    ) -> Result<(), StoreError> {
        if let Some(max) = limit(self.facts.config.max_msgs_per_subject) {
            self.enforce_subject(outside, effects, (subject, max))?;
        }
        self.enforce_totals(outside, effects)
    }

    fn enforce_subject(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (&[u8], u64),
    ) -> Result<(), StoreError> {
        let (subject, max) = what;
        // What is held does not count.
        let max = match self.held.is_empty() {
            true => max,
            false => max.saturating_add(self.held.of_subject(subject)),
        };
        while let Some(state) = self.store.subject_state(subject).filter(|state| state.messages > max) {
            let first = match self.held.contains(state.first) {
                false => Some(state.first),
                true => self.first_free(&Filter::Any(vec![subject.into()]), state.first)?,
            };
            let Some(first) = first else { return Ok(()) };
            self.remove(outside, effects, (first, false, RemoveReason::Limits))?;
        }
        Ok(())
    }

    fn enforce_totals(&mut self, outside: &mut dyn Outside, effects: &mut Effects) -> Result<(), StoreError> {
        let config = &self.facts.config;
        if config.discard == Discard::New {
            return Ok(());
        }
        let (messages_max, bytes_max) = (limit(config.max_msgs), limit(config.max_bytes));
        if messages_max.is_none() && bytes_max.is_none() {
            return Ok(());
        }
        loop {
            let state = self.store.state();
            let messages = state.messages.saturating_sub(self.held.len() as u64);
            let bytes = state.bytes.saturating_sub(self.held.bytes());
            let over =
                messages_max.is_some_and(|max| messages > max) || bytes_max.is_some_and(|max| bytes > max);
            if !over || messages == 0 {
                return Ok(());
            }
            let Some(first) = self.first_free(&Filter::All, state.first_sequence)? else { return Ok(()) };
            if !self.remove(outside, effects, (first, false, RemoveReason::Limits))? {
                // The store does not find its first message: it cannot be read, and asking again would not end.
                return Ok(());
            }
        }
    }

    /// A new configuration is in force.
    pub(crate) fn apply_update(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        config: StreamConfig,
    ) -> Result<(), StoreError> {
        // What was charged was charged by the rules of the old one.
        let charged = self.usage;
        self.charge(outside, super::Charged::default());
        let before = Arc::clone(&self.facts.config);
        if *before != config {
            self.facts.config = Arc::new(config);
        }
        self.charge(outside, charged);
        self.rules = Rules::new(&self.facts.config);
        self.dedupe.set_window(self.facts.config.duplicate_window.duration());
        self.expiries.wake();
        self.dirty = true;
        if before.retention != self.facts.config.retention {
            let (consumers, mut ctx) = self.split(outside, effects);
            consumers.retention_changed(&mut ctx);
            self.sweep(outside, effects, (&Filter::All, None))?;
        }
        if let Some(max) = limit(self.facts.config.max_msgs_per_subject) {
            let mut full: Vec<Box<[u8]>> = Vec::new();
            self.store.for_each_subject(&Filter::All, &mut |subject, state| {
                if state.messages > max {
                    full.push(subject.into());
                }
                true
            });
            for subject in &full {
                self.enforce_subject(outside, effects, (subject, max))?;
            }
        }
        self.enforce_totals(outside, effects)?;
        self.update_sources(outside, effects)
    }

    /// On an interest stream: must this message stay? `without` is a consumer that does not wait for a letter about it any more; with another filter
    /// it may want none of its subject, and waits for the letter all the same.
    fn is_needed(&self, sequence: u64, subject: &[u8], without: Option<u64>) -> bool {
        self.held.is_held_but_by(without, sequence) || self.consumers.needs(sequence, subject)
    }

    /// Removes what a consumer was the last one to need.
    pub(crate) fn remove_acked(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (u64, &Applied),
    ) -> Result<(), StoreError> {
        let (id, applied) = what;
        let retention = self.facts.config.retention;
        if retention == Retention::Limits {
            return Ok(());
        }
        for range in &applied.acked {
            let state = self.store.state();
            let first = (*range.start()).max(state.first_sequence);
            let last = (*range.end()).min(state.last_sequence);
            for sequence in first..=last {
                let Some(subject) = self.store.subject_of(sequence)? else { continue };
                if retention == Retention::WorkQueue || !self.is_needed(sequence, &subject, Some(id)) {
                    self.remove(outside, effects, (sequence, false, RemoveReason::Acked))?;
                }
            }
        }
        Ok(())
    }

    /// On an interest stream: removes what nobody needs among what the filter lets through, perhaps after a consumer is gone.
    pub(crate) fn sweep(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (&Filter, Option<u64>),
    ) -> Result<(), StoreError> {
        let (filter, gone) = what;
        if self.facts.config.retention != Retention::Interest {
            return Ok(());
        }
        let mut from = self.store.state().first_sequence;
        while let Some(message) = self.store.next(filter, from)? {
            if !self.is_needed(message.sequence, &message.subject, gone) {
                self.remove(outside, effects, (message.sequence, false, RemoveReason::Acked))?;
            }
            from = message.sequence + 1;
        }
        Ok(())
    }
}
