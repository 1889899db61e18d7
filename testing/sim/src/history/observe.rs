//! What a stream shows when it has nothing in flight, held against what clients know.

use std::collections::{BTreeMap, BTreeSet};

use api::jetstream::consumer::AckPolicy;
use api::jetstream::stream::Retention;
use jetstream::Stream;
use store::stream::Filter;

use super::{ConsumerHistory, History, Rule, StreamHistory, Violation};

/// Operation of a message, from the front of its payload.
pub(crate) fn operation_of(payload: &[u8]) -> Option<u64> {
    let end = payload.iter().position(|byte| *byte == b':')?;
    std::str::from_utf8(&payload[..end]).ok()?.parse().ok()
}

impl History {
    /// Looks at everything that a stream shows.
    pub(crate) fn observe(&mut self, group: u64, stream: &Stream, now: i64) {
        let Some(history) = self.streams.get_mut(&group) else { return };
        let mut found = Vec::new();
        let present = history.read(stream, &mut found);
        if let Some(times) = present {
            let present: BTreeSet<u64> = times.keys().copied().collect();
            history.check_removed(&present, &mut found);
            history.check_last(stream.state().last_sequence, &mut found);
            history.check_held(&present, now, &mut found);
            history.check_lingering(stream, &present, &mut found);
            history.check_ids(&times, &mut found);
            history.present = present;
        }
        if !history.is_tainted {
            history.check_consumers(stream, &mut found);
            history.check_letters(stream, &mut found);
        }
        self.violations.extend(found);
    }
}

impl StreamHistory {
    /// Sequences and times of all messages; `None` if not all can be read, which is a report.
    fn read(&mut self, stream: &Stream, found: &mut Vec<Violation>) -> Option<BTreeMap<u64, i64>> {
        let mut present = BTreeMap::new();
        let mut next = 0;
        loop {
            let message = match stream.store().next(&Filter::All, next) {
                Ok(Some(message)) => message,
                Ok(None) => return Some(present),
                Err(error) if self.is_injected => {
                    let _: store::stream::Error = error;
                    self.reported();
                    let last = stream.state().last_sequence;
                    self.taint(last);
                    return None;
                }
                Err(error) => {
                    let text = format!("{}: reading from {next}: {error}", self.name);
                    found.push(Violation::new(Rule::UncausedDamage, text));
                    return None;
                }
            };
            next = message.sequence + 1;
            present.insert(message.sequence, message.timestamp.0);
            if let Some(text) = self.check_message(message.sequence, &message.subject, &message.payload) {
                found.push(text);
            }
        }
    }

    /// Is this what was published under this sequence?
    pub(crate) fn check_message(
        &mut self,
        sequence: u64,
        subject: &[u8],
        payload: &[u8],
    ) -> Option<Violation> {
        let name = self.name.clone();
        let published = operation_of(payload)
            .and_then(|operation| self.published.get(&operation).map(|published| (operation, published)));
        let Some((operation, published)) = published else {
            let text = format!("{name}: {sequence} holds {:?}", String::from_utf8_lossy(payload));
            return Some(Violation::new(Rule::Content, text));
        };
        if published.payload != payload || published.subject.as_bytes() != subject {
            let text = format!("{name}: message {operation} at {sequence} is not what was published");
            return Some(Violation::new(Rule::Content, text));
        }
        let wrong = self.bind(operation, sequence)?;
        Some(Violation::new(Rule::SequenceReused, wrong))
    }

    fn check_removed(&self, present: &BTreeSet<u64>, found: &mut Vec<Violation>) {
        let seen_gone = |sequence: &u64| *sequence <= self.last && !self.present.contains(sequence);
        for sequence in present {
            if self.removed.contains(sequence) || seen_gone(sequence) {
                let text = format!("{}: {sequence} was gone and is back", self.name);
                found.push(Violation::new(Rule::Returned, text));
            }
            if self.retention == Retention::WorkQueue
                && self.consumers.values().any(|consumer| consumer.confirmed.contains(sequence))
            {
                let text =
                    format!("{}: {sequence} is there after its acknowledgement was confirmed", self.name);
                found.push(Violation::new(Rule::AckForgotten, text));
            }
        }
    }

    fn check_held(&mut self, present: &BTreeSet<u64>, now: i64, found: &mut Vec<Violation>) {
        let held = std::mem::take(&mut self.held);
        for operation in held {
            let Some(sequence) = self.published.get(&operation).and_then(|message| message.sequence) else {
                continue;
            };
            if present.contains(&sequence) {
                self.held.insert(operation);
            } else if !self.may_be_gone(operation, sequence, now) {
                let text = format!("{}: message {operation}, acknowledged as {sequence}, is gone", self.name);
                let rule = if self.is_injected { Rule::SilentDamage } else { Rule::AckedLost };
                if !(self.is_injected && self.is_reported) {
                    found.push(Violation::new(rule, text));
                }
            }
        }
    }

    /// Nothing is on an interest stream that all of its consumers are done with.
    fn check_lingering(&self, stream: &Stream, present: &BTreeSet<u64>, found: &mut Vec<Violation>) {
        let is_known = self.consumers.values().all(ConsumerHistory::is_known);
        if self.retention != Retention::Interest || self.is_injected || !is_known {
            return;
        }
        let there: Vec<_> = self.consumers.iter().filter(|(_, known)| known.is_sure).collect();
        for sequence in present {
            let operation = self.bound.get(sequence).and_then(|operation| self.published.get(operation));
            let Some(message) = operation else { continue };
            let is_done = |(name, known): &(&String, &ConsumerHistory)| {
                let unasked =
                    stream.consumer(name).filter(|known| known.config().ack_policy == AckPolicy::None);
                let passed = unasked.map_or(0, |consumer| consumer.delivered().stream);
                known.is_done_with(*sequence, &message.subject, passed)
            };
            if there.iter().all(is_done) {
                let text = format!("{}: {sequence} is there and nobody needs it", self.name);
                found.push(Violation::new(Rule::Lingers, text));
            }
        }
    }

    /// No id is there twice within its window.
    fn check_ids(&self, times: &BTreeMap<u64, i64>, found: &mut Vec<Violation>) {
        if self.is_tainted {
            return;
        }
        let mut seen = BTreeMap::new();
        for (sequence, at) in times {
            let operation = self.bound.get(sequence);
            let message = operation.and_then(|operation| self.published.get(operation));
            let Some(id) = message.and_then(|message| message.id.as_ref()) else { continue };
            if let Some(before) = seen.insert(id, *at)
                && at.saturating_sub(before) < self.window
            {
                found.push(Violation::new(Rule::Dedupe, format!("{}: id {id} is stored twice", self.name)));
            }
        }
    }

    fn check_last(&mut self, last: u64, found: &mut Vec<Violation>) {
        let acked = self.bound.last_key_value().map_or(0, |(sequence, _)| *sequence);
        let known = self.last.max(acked);
        if last < known && !self.is_tainted {
            let text = format!("{}: the last sequence is {last}, it was {known}", self.name);
            found.push(Violation::new(Rule::SequenceReused, text));
        }
        self.last = last;
    }

    fn check_consumers(&self, stream: &Stream, found: &mut Vec<Violation>) {
        for (name, history) in &self.consumers {
            let consumer = stream.consumer(name);
            if history.is_gone && consumer.is_some() {
                let text = format!("{}: consumer {name} was deleted and is back", self.name);
                found.push(Violation::new(Rule::Returned, text));
            }
            if history.is_sure && consumer.is_none() {
                let text = format!("{}: consumer {name} is gone", self.name);
                found.push(Violation::new(Rule::Catalogue, text));
            }
            if let Some(consumer) = consumer {
                // One that passes over messages of a subject has its floor below them.
                let passes_over = consumer.config().max_ack_pending_per_subject > 0;
                let min = if passes_over { 0 } else { history.floor_min() };
                let floor = consumer.ack_floor().stream;
                if floor < min {
                    let text =
                        format!("{}: consumer {name} has floor {floor}, {min} was confirmed", self.name);
                    found.push(Violation::new(Rule::FloorBack, text));
                }
            }
        }
    }
}
