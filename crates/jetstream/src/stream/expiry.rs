//! Messages whose time has come, and the markers left for subjects that become empty by it (jetstream-api, section 5).
//!
//! The leader decides what is due and which subjects get a marker, and proposes both: first the removal, then the markers as ordinary messages.

use std::time::Duration;

use api::duration::short_text;
use bytes::Bytes;
use hashbrown::HashMap;
use store::Timestamp;
use store::stream::Expiry;

use super::Stream;
use super::flight::{Ack, Flight};
use super::headers::{self, Builder, Known};
use super::ingest::{Plan, Publish};
use crate::command::{Traits, encode_expire};
use crate::effect::Effects;
use crate::outside::Outside;

/// Messages removed by one command.
const EXPIRE_MAX: usize = 1_000;

/// Pause before the next look when the oldest message is too old but must stay, because its header says so.
const HELD_PAUSE: Duration = Duration::from_secs(1);

/// What a leader knows of expiry.
#[derive(Debug, Default)]
pub(crate) struct Expiries {
    in_flight: bool,
    /// Nothing is due before it.
    not_before: Option<Timestamp>,
}

impl Expiries {
    /// The removal in flight is applied.
    pub(crate) fn applied(&mut self) {
        self.in_flight = false;
    }

    /// The configuration changed.
    pub(crate) fn wake(&mut self) {
        self.not_before = None;
    }
}

impl Stream {
    /// When the next message goes.
    pub(crate) fn expiry_timeout(&self) -> Option<Timestamp> {
        if self.expiries.in_flight {
            return None;
        }
        let aged = match (self.rules.max_age, self.store.state().first_timestamp) {
            (Some(age), Some(first)) => {
                let due = first.saturating_add(age);
                Some(self.expiries.not_before.map_or(due, |not_before| due.max(not_before)))
            }
            _ => None,
        };
        let due = [aged, self.store.next_expiry()].into_iter().flatten().min()?;
        // What is held may be due, and is not removed.
        let not_before = self.expiries.not_before.filter(|_| !self.held.is_empty());
        Some(not_before.map_or(due, |not_before| due.max(not_before)))
    }

    /// Proposes the removal of what is due.
    pub(crate) fn expire_messages(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        let now = outside.now();
        if self.expiry_timeout().is_none_or(|due| due > now) || self.facts.config.sealed {
            return;
        }
        let before = self.rules.max_age.map(|age| now.saturating_sub(age));
        let mut due = self.store.expired(now, before, EXPIRE_MAX + self.held.len());
        due.retain(|sequence| !self.held.contains(*sequence));
        due.truncate(EXPIRE_MAX);
        if due.is_empty() {
            self.expiries.not_before = Some(now.saturating_add(HELD_PAUSE));
            return;
        }
        self.expiries.not_before = None;
        self.expiries.in_flight = true;
        let markers = match self.rules.marker_ttl {
            Some(ttl) => self.markers(&due).into_iter().map(|subject| (subject, ttl)).collect(),
            None => Vec::new(),
        };
        encode_expire(&due, &mut effects.proposal);
        self.flights.push(Flight::Removal(None));
        for (subject, ttl) in markers {
            self.propose_marker(effects, now, (subject, ttl));
        }
    }

    /// Subjects, in order of their last message, that have no other messages than those due, unless that last one is a marker itself.
    fn markers(&mut self, due: &[u64]) -> Vec<Bytes> {
        let mut counts: HashMap<Bytes, u64> = HashMap::new();
        for sequence in due {
            if let Ok(Some(subject)) = self.store.subject_of(*sequence) {
                *counts.entry(subject).or_default() += 1;
            }
        }
        let mut last: Vec<(u64, Bytes)> = Vec::new();
        for (subject, count) in counts {
            let Some(state) = self.store.subject_state(&subject) else { continue };
            if state.messages == count && self.flights.subject(&subject).is_none() {
                last.push((state.last, subject));
            }
        }
        last.sort_unstable();
        let is_marker = |sequence: u64| match self.store.load(sequence) {
            Ok(Some(message)) => {
                let known = Known::parse(&message.headers);
                known.marker_reason.is_some() || known.kv_operation == Some(b"PURGE")
            }
            _ => true,
        };
        last.into_iter().filter(|(sequence, _)| !is_marker(*sequence)).map(|(_, subject)| subject).collect()
    }

    fn propose_marker(&mut self, effects: &mut Effects, now: Timestamp, marker: (Bytes, Duration)) {
        let (subject, ttl) = marker;
        let mut built = Builder::new(96);
        built.line(headers::MARKER_REASON, b"MaxAge");
        built.line(headers::TTL, short_text(ttl).as_bytes());
        built.line(headers::ROLLUP, b"sub");
        let publish = Publish { subject, reply: None, headers: built.finish().into(), payload: Bytes::new() };
        let plan = Plan {
            traits: Traits::default(),
            expiry: Expiry::At(now.saturating_add(ttl)),
            headers: None,
            payload: None,
            value: None,
        };
        self.propose(effects, now, (publish, None), (plan, Ack::None));
    }
}
