//! Committed commands: what they do to store, consumers and schedules, and what a leader tells afterwards.

use bytes::Bytes;
use store::stream::{Append, Error as StoreError, Filter, Removed};

use api::jetstream::stream::Retention;

use super::Stream;
use super::flight::{Ack, Flight};
use super::headers;
use crate::command::{Command, CommandError, Rollup, Store, commands};
use crate::consumer::{Context, RemoveReason};
use crate::effect::{Effect, Effects};
use crate::outside::Outside;
use crate::request::Response;
use crate::stream::consumers::Consumers;

/// Subjects of messages that the store hears of at once before they are stored one by one.
const EXPECTED: usize = 32;

/// Why a committed command could not be applied. The stream is not to be believed after it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("configuration in a command cannot be read: {0}")]
    Config(#[from] serde_json::Error),
    #[error("command of consumer {id}: {reason}")]
    Consumer { id: u64, reason: String },
}

impl Stream {
    /// Applies an entry of the log. Entries come in order, each once after the checkpoint that the stream was opened from.
    pub fn apply(&mut self, outside: &mut dyn Outside, effects: &mut Effects, index: u64, entry: &Bytes) {
        assert!(index > self.applied, "entry {index} after {}", self.applied);
        if self.failed.is_some() {
            return;
        }
        let mut ahead = commands(entry).map(|command| match command {
            Ok(Command::Store(store)) => store.subject,
            _ => &[],
        });
        for (at, command) in commands(entry).enumerate() {
            if at % EXPECTED == 0 {
                self.store.expect(&mut ahead.by_ref().take(EXPECTED));
            }
            let applied = command
                .map_err(ApplyError::from)
                .and_then(|command| self.apply_command(outside, effects, &command));
            if let Err(error) = applied {
                self.fail(effects, error.to_string());
                return;
            }
            self.handle_ordered_requests(outside, effects);
        }
        self.applied = index;
        self.changed = true;
        self.fresh = false;
        self.settle(outside);
        if self.leading {
            self.schedules.release_held();
            self.ingest_deferred(outside, effects);
            self.settle_sources(outside, effects);
        }
    }

    fn apply_command(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        command: &Command<'_>,
    ) -> Result<(), ApplyError> {
        let flight = if self.leading { self.flights.pop() } else { None };
        match command {
            Command::Store(store) => self.apply_store(outside, effects, (store, flight))?,
            Command::Skip { sequence, timestamp } => self.store.skip_to(*sequence, *timestamp)?,
            Command::Remove { sequence, erase } => {
                let answer = self.apply_remove(outside, effects, (*sequence, *erase))?;
                answer_request(effects, flight, answer.map(|()| Response::Done));
            }
            Command::Expire(sequences) => {
                self.expiries.applied();
                for sequence in sequences.iter() {
                    if !self.held.contains(sequence) {
                        self.remove(outside, effects, (sequence, false, RemoveReason::Limits))?;
                    }
                }
            }
            Command::Purge { filter, below, keep } => {
                let purged = self.apply_purge(outside, effects, (filter, *below, *keep))?;
                answer_request(effects, flight, Ok(Response::Purged(purged)));
            }
            Command::Update { config } => {
                self.apply_update(outside, effects, serde_json::from_slice(config)?)?;
                let info = self.info(outside);
                answer_request(effects, flight, Ok(Response::Stream(Box::new(info))));
            }
            _ => self.apply_consumers(outside, effects, (command, flight))?,
        }
        Ok(())
    }

    fn apply_store(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        command: (&Store<'_>, Option<Flight>),
    ) -> Result<(), ApplyError> {
        let (store, flight) = command;
        let Store { sequence, timestamp, expiry, traits, subject, headers, payload } = *store;
        let republish = self.leading && self.rules.republish.is_some();
        let previous =
            if republish { self.store.subject_state(subject).map_or(0, |state| state.last) } else { 0 };
        let kept =
            self.facts.config.retention != Retention::Interest || self.consumers.is_interested(subject);
        if sequence <= self.opened_at {
            // It is there already, or was lost with damage that was told.
        } else if kept {
            self.store.append(Append { sequence, timestamp, subject, headers, payload, expiry })?;
        } else {
            self.store.skip_to(sequence, timestamp)?;
        }
        if !self.leading {
            self.remember_id(store);
        }
        if !self.positions.is_empty() {
            self.note_source(headers);
        }
        match traits.rollup {
            Rollup::None => {}
            Rollup::Subject => {
                let filter = Filter::Any(vec![subject.into()]);
                self.purge_up_to(outside, effects, (&filter, sequence - 1, RemoveReason::Purged))?;
            }
            Rollup::All => {
                self.purge_up_to(outside, effects, (&Filter::All, sequence - 1, RemoveReason::Purged))?;
            }
        }
        if traits.schedule && kept {
            self.schedules.insert(subject, sequence, (headers, timestamp));
        }
        if traits.scheduler {
            self.apply_scheduler(outside, effects, headers)?;
        }
        self.enforce_limits(outside, effects, subject)?;
        if kept && self.leading {
            self.consumers.appended(subject);
        }
        // Those who listen hear of it before its publisher does.
        if republish {
            self.republish(effects, (store, previous));
        }
        if let Some(Flight::Message(message)) = flight {
            assert!(message.sequence == sequence, "{} in flight, {sequence} applied", message.sequence);
            self.tell_stored(effects, (message.ack, sequence, subject));
        }
        Ok(())
    }

    /// What a leader tells when a message is stored.
    fn tell_stored(&mut self, effects: &mut Effects, message: (Ack, u64, &[u8])) {
        let (ack, sequence, subject) = message;
        if self.facts.config.allow_msg_counter {
            self.counters.stored(subject, sequence);
        }
        self.acknowledge(effects, ack, sequence);
        if self.waiting_sends > 0
            && let Some(messages) = self.after.remove(&sequence)
        {
            self.waiting_sends -= messages.len();
            effects.queue.extend(messages.into_iter().map(Effect::Send));
        }
    }

    /// Remembers the id of a message that another leader took, or this one before it was restarted.
    fn remember_id(&mut self, store: &Store<'_>) {
        self.last_id.clear();
        if !store.traits.id {
            return;
        }
        if let Some(id) = headers::find(store.headers, headers::MESSAGE_ID) {
            self.dedupe.insert(id, store.sequence, store.timestamp);
            self.last_id.extend_from_slice(id);
        }
    }

    /// Removes one message and tells the consumers.
    pub(crate) fn remove(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (u64, bool, RemoveReason),
    ) -> Result<bool, StoreError> {
        let (sequence, erase, reason) = what;
        let Some(removed) = self.store.remove(sequence, erase)? else { return Ok(false) };
        self.schedules.remove(&removed.subject, sequence);
        self.held.forget(sequence);
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.removed(&mut ctx, &removed, reason);
        Ok(true)
    }

    /// Removes all that match up to a sequence and tells the consumers.
    pub(crate) fn purge_up_to(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (&Filter, u64, RemoveReason),
    ) -> Result<(), StoreError> {
        let (filter, up_to, reason) = what;
        let mut gone: Vec<Removed> = Vec::new();
        let tell = !self.consumers.is_empty() || !self.schedules.is_empty();
        self.store.purge(filter, up_to, &mut |removed| {
            if tell {
                gone.push(removed);
            }
        })?;
        gone.sort_unstable_by_key(|removed| removed.sequence);
        for removed in &gone {
            self.schedules.remove(&removed.subject, removed.sequence);
            self.held.forget(removed.sequence);
        }
        let (consumers, mut ctx) = self.split(outside, effects);
        for removed in &gone {
            consumers.removed(&mut ctx, removed, reason);
        }
        if *filter == Filter::All {
            consumers.purged(&mut ctx, up_to);
        }
        Ok(())
    }

    /// The consumers, and the rest of the stream as they may see it.
    pub(crate) fn split<'a>(
        &'a mut self,
        outside: &'a mut dyn Outside,
        effects: &'a mut Effects,
    ) -> (&'a mut Consumers, Context<'a>) {
        let ctx = Context { outside, effects, store: &*self.store, facts: &self.facts };
        (&mut self.consumers, ctx)
    }
}

/// Answers the request that led to a command.
pub(crate) fn answer_request(
    effects: &mut Effects,
    flight: Option<Flight>,
    answer: Result<Response, api::ApiError>,
) {
    if let Some(Flight::Removal(Some(token)) | Flight::Consumers(Some(token))) = flight {
        effects.push(Effect::Reply(token, answer));
    }
}
