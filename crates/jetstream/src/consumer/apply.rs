//! Doing what a command says.

use std::ops::RangeInclusive;

use store::stream::Filter;

use super::command::{CommandError, Operation, Operations};
use super::settings::keeps_messages;
use super::state::{Await, Cause};
use super::{Applied, Consumer, Context};

impl Consumer {
    /// Applies a command. With `live` this replica changed its state already when it proposed it, and only confirms.
    pub fn apply(
        &mut self,
        ctx: &mut Context<'_>,
        command: &[u8],
        live: bool,
    ) -> Result<Applied, CommandError> {
        let mut operations = Operations::read(command)?;
        let current = operations.generation == self.state.generation;
        let at = operations.at;
        let mut applied = Applied::default();
        while let Some(operation) = operations.next() {
            let operation = operation?;
            // What was done before a reset is undone by it, wherever it stands in the log.
            if !current {
                continue;
            }
            self.acknowledge_applied(ctx, operation, &mut applied);
            if live {
                self.closed_applied(operation);
            } else {
                self.replay(ctx, operation, at);
            }
            if let Operation::GivenUp { sequence } = operation {
                self.given_up_applied(ctx, sequence, (operations.cause.take(), live));
            }
        }
        self.dirty = true;
        if live {
            self.confirm_applied(ctx);
        }
        Ok(applied)
    }

    /// It lasts that messages are done, among them some that waited for letters.
    fn closed_applied(&mut self, operation: Operation) {
        let Some(letters) = self.lead.as_mut().and_then(|lead| lead.letters.as_mut()) else { return };
        let done = match operation {
            Operation::Acked { first, count } => first..=first + (count - 1),
            Operation::AckedUpTo { sequence } => 0..=sequence,
            Operation::Buried { sequence } | Operation::Exhausted { sequence } => sequence..=sequence,
            _ => return,
        };
        letters.closed(done);
    }

    /// It lasts that a message is given up.
    fn given_up_applied(&mut self, ctx: &mut Context<'_>, sequence: u64, how: (Option<Cause>, bool)) {
        match how {
            (_, true) => self.publish_letter(ctx, sequence),
            (Some(cause), false) => {
                self.state.give_up(sequence, cause);
            }
            (None, false) => {}
        }
    }

    /// What the stream may count as done from here on.
    fn acknowledge_applied(&mut self, ctx: &Context<'_>, operation: Operation, applied: &mut Applied) {
        match operation {
            Operation::Acked { first, count } => {
                let range = first..=first + (count - 1);
                range.clone().for_each(|sequence| {
                    self.state.unapplied.remove(&sequence);
                });
                applied.acked.push(range);
            }
            Operation::Buried { sequence } => {
                self.state.count_letter();
                self.state.unapplied.remove(&sequence);
                applied.acked.push(sequence..=sequence);
            }
            Operation::AckedUpTo { sequence } if self.is_unacknowledged() => {
                self.finish_delivered(self.state.applied + 1..=sequence, applied);
            }
            Operation::AckedUpTo { sequence } => {
                let rest = self.state.unapplied.split_off(&sequence.saturating_add(1));
                for done in std::mem::replace(&mut self.state.unapplied, rest) {
                    push_sequence(&mut applied.acked, done);
                }
                if keeps_messages(ctx) {
                    // Those that this replica learns of now; on the leader there are none left.
                    let pending = self.state.pending.range(..=sequence).map(|(pending, _)| *pending);
                    let exhausted = self.state.exhausted.range(..=sequence).map(|(given_up, _)| *given_up);
                    pending.chain(exhausted).for_each(|done| push_sequence(&mut applied.acked, done));
                }
            }
            Operation::GivenUp { sequence } => applied.given_up.push(sequence),
            Operation::Exhausted { sequence } => applied.exhausted.push(sequence),
            Operation::Delivered { first, count, .. } if self.is_unacknowledged() => {
                self.finish_delivered(first..=first + (count - 1), applied);
            }
            _ => {}
        }
    }

    /// Without acknowledgements a delivered message is done. What lies before does not match, or was done earlier.
    fn finish_delivered(&mut self, range: RangeInclusive<u64>, applied: &mut Applied) {
        let (first, last) = (*range.start(), *range.end());
        if last > self.state.applied {
            applied.acked.push(first.max(self.state.applied + 1)..=last);
            self.state.apply_delivery(last);
        }
    }

    /// Brings the state of a replica that did not lead to that of the leader.
    fn replay(&mut self, ctx: &Context<'_>, operation: Operation, at: store::Timestamp) {
        let state = &mut self.state;
        match operation {
            Operation::Delivered { first, count, position } => {
                let tracked = self.settings.ack != api::jetstream::consumer::AckPolicy::None;
                for offset in 0..count {
                    let awaits = match tracked {
                        false => Await::Apply,
                        true if matches!(ctx.store.subject_of(first + offset), Ok(Some(_)) | Err(_)) => {
                            Await::Ack
                        }
                        // It cannot be acknowledged; on the leader its removal ended the wait.
                        true => Await::Nothing,
                    };
                    state.deliver(first + offset, position + offset, at, awaits);
                }
            }
            Operation::Redelivered { sequence, position, deliveries } => {
                state.redeliver(sequence, position, at, deliveries);
            }
            Operation::Acked { first, count } => {
                for sequence in first..first + count {
                    state.finish(sequence);
                    state.exhausted.remove(&sequence);
                }
            }
            Operation::AckedUpTo { sequence } => {
                let done: Vec<u64> = state.pending.range(..=sequence).map(|(done, _)| *done).collect();
                for sequence in done {
                    state.finish(sequence);
                }
                state.exhausted = state.exhausted.split_off(&sequence.saturating_add(1));
            }
            Operation::Moved { sequence, at } => {
                if let Some(pending) = state.pending.get_mut(&sequence) {
                    pending.at = at;
                }
            }
            Operation::Exhausted { sequence } => {
                state.exhaust(sequence);
            }
            Operation::Buried { sequence } => {
                state.finish(sequence);
            }
            // Done with its cause, which is not in the operation.
            Operation::GivenUp { .. } => {}
            Operation::Parked { sequence } => {
                // One that was removed since was passed over all the same; on the leader its removal ended the wait.
                let there = matches!(ctx.store.subject_of(sequence), Ok(Some(_)) | Err(_));
                state.park(sequence, there);
            }
        }
    }

    /// Whether the stream must keep the message for this consumer, as far as applied commands say.
    pub fn needs(&self, sequence: u64, subject: &[u8]) -> bool {
        let state = &self.state;
        if let Filter::Any(_) = &self.settings.filter
            && !self.settings.filter.matches(subject)
        {
            return false;
        }
        if self.is_unacknowledged() {
            return sequence > state.applied && self.will_deliver(sequence);
        }
        if sequence > state.delivered.stream {
            return self.will_deliver(sequence);
        }
        state.pending.contains_key(&sequence)
            || state.exhausted.contains_key(&sequence)
            || state.parked.contains(&sequence)
            || state.unapplied.contains(&sequence)
    }

    /// Whether a message that was not delivered yet will be.
    fn will_deliver(&self, sequence: u64) -> bool {
        match &self.state.chosen {
            Some(chosen) if sequence <= chosen.up_to => chosen.sequences.binary_search(&sequence).is_ok(),
            _ => true,
        }
    }
}

/// Adds a sequence, to the last range if it follows it.
fn push_sequence(ranges: &mut Vec<RangeInclusive<u64>>, sequence: u64) {
    match ranges.last_mut() {
        Some(last) if *last.end() + 1 == sequence => *last = *last.start()..=sequence,
        _ => ranges.push(sequence..=sequence),
    }
}
