//! A limit on pending messages for each subject: who is in flight, and who waits for a place.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hashbrown::HashMap;
use store::Timestamp;
use store::stream::Message;

use super::command::Operation;
use super::settings::Settings;
use super::{Consumer, Context};
use crate::effect::Effect;

/// Messages that a consumer passes over because their subject is busy; beyond, it waits.
pub(super) const PARKED_MAX: usize = 65_536;

/// Messages by subject. Empty without a limit.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pending: HashMap<Bytes, usize>,
    /// Passed over, by subject. The first of each is next.
    parked: BTreeMap<Bytes, BTreeSet<u64>>,
    /// Passed over, but there is a place now.
    freed: BTreeSet<u64>,
}

impl Keys {
    /// Subjects with pending messages.
    pub(super) fn subjects_pending(&self) -> usize {
        self.pending.len()
    }

    /// The first message whose subject has a place again.
    pub(super) fn freed(&self) -> Option<u64> {
        self.freed.first().copied()
    }

    pub(super) fn forget_freed(&mut self, sequence: u64) {
        self.freed.remove(&sequence);
    }

    pub(super) fn delivered(&mut self, settings: &Settings, subject: &Bytes, sequence: u64) {
        self.freed.remove(&sequence);
        if settings.pending_per_subject_max == usize::MAX {
            return;
        }
        *self.pending.entry(subject.clone()).or_default() += 1;
        self.unpark(subject, sequence);
        self.free(settings, subject);
    }

    fn unpark(&mut self, subject: &Bytes, sequence: u64) {
        if let Some(parked) = self.parked.get_mut(subject) {
            parked.remove(&sequence);
            if parked.is_empty() {
                self.parked.remove(subject);
            }
        }
    }

    /// The next passed over message of the subject may go, if there is a place.
    fn free(&mut self, settings: &Settings, subject: &Bytes) {
        let pending = self.pending.get(subject).copied().unwrap_or_default();
        let places = settings.pending_per_subject_max.saturating_sub(pending);
        if let Some(parked) = self.parked.get(subject) {
            self.freed.extend(parked.iter().take(places));
        }
    }

    /// A pending message of the subject is done.
    pub(super) fn finished(&mut self, settings: &Settings, subject: &Bytes) {
        if let Some(count) = self.pending.get_mut(subject) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(subject);
            }
        }
        self.free(settings, subject);
    }

    /// A message that was passed over left the stream.
    pub(super) fn removed(&mut self, settings: &Settings, subject: &Bytes, sequence: u64) {
        self.freed.remove(&sequence);
        self.unpark(subject, sequence);
        self.free(settings, subject);
    }
}

impl Consumer {
    /// Whether the subject of a new message has no place left. Those passed over earlier go first.
    pub(super) fn is_crowded(&self, subject: &Bytes) -> bool {
        let max = self.settings.pending_per_subject_max;
        let Some(lead) = &self.lead else { return false };
        if max == usize::MAX || lead.keys.freed().is_some() {
            return false;
        }
        lead.keys.pending.get(subject).is_some_and(|count| *count >= max)
            || lead.keys.parked.contains_key(subject)
    }

    /// Passes a message over until its subject has a place.
    pub(super) fn park(&mut self, ctx: &mut Context<'_>, message: &Message) {
        let now: Timestamp = ctx.outside.now();
        let Some(lead) = &mut self.lead else { return };
        lead.taken(&self.state, message.sequence);
        self.state.park(message.sequence, true);
        lead.keys.parked.entry(message.subject.clone()).or_default().insert(message.sequence);
        if lead.replicated {
            lead.record(Operation::Parked { sequence: message.sequence }, now);
        }
        self.dirty = true;
    }

    /// A pending message is done: its subject has a place more.
    pub(super) fn free_key(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        if self.settings.pending_per_subject_max == usize::MAX {
            return;
        }
        match ctx.store.subject_of(sequence) {
            Ok(Some(subject)) => {
                if let Some(lead) = &mut self.lead {
                    lead.keys.finished(&self.settings, &subject);
                }
            }
            // It was removed, and `handle_removed` has told us.
            Ok(None) => {}
            Err(error) => ctx.effects.push(Effect::Damaged(error.to_string())),
        }
    }

    /// Finds the subjects of all messages that are pending or passed over.
    pub(super) fn count_keys(&mut self, ctx: &mut Context<'_>) {
        let Some(lead) = &mut self.lead else { return };
        lead.keys = Keys::default();
        if self.settings.pending_per_subject_max == usize::MAX {
            // Without a limit everything that was passed over may go.
            lead.keys.freed = self.state.parked.clone();
            return;
        }
        for sequence in self.state.pending.keys() {
            if let Ok(Some(subject)) = ctx.store.subject_of(*sequence) {
                *lead.keys.pending.entry(subject).or_default() += 1;
            }
        }
        for sequence in &self.state.parked {
            if let Ok(Some(subject)) = ctx.store.subject_of(*sequence) {
                lead.keys.parked.entry(subject).or_default().insert(*sequence);
            }
        }
        let subjects: Vec<Bytes> = lead.keys.parked.keys().cloned().collect();
        for subject in &subjects {
            lead.keys.free(&self.settings, subject);
        }
    }
}
