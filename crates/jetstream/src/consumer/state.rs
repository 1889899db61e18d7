//! What every replica knows of a consumer: where it is, what waits for its acknowledgement, what was given up.
//!
//! The leader changes it at once and proposes the change; a replica changes it when the change is applied. A checkpoint may hold changes
//! whose commands are applied again afterwards, so every change here may come twice: a delivery of a message that was delivered before does
//! not bring it back. What must happen once, at apply, is remembered in `unapplied`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use store::Timestamp;

/// A point in a consumer's work, counted both ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// In deliveries, from 1.
    pub consumer: u64,
    /// In messages of the stream.
    pub stream: u64,
}

/// A delivered message that is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pending {
    /// Number of its first delivery.
    pub(super) position: u64,
    /// When its current wait began.
    pub(super) at: Timestamp,
    /// How often it was delivered.
    pub(super) count: u32,
}

/// Messages chosen when the consumer was made (the last of each subject); after them it goes on in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Those not delivered yet, ascending; without acknowledgements those whose delivery is not applied yet.
    pub(super) sequences: VecDeque<u64>,
    /// Last sequence of the stream at that time.
    pub(super) up_to: u64,
}

impl Chosen {
    /// Those not delivered yet, if the newest delivery was this one.
    pub(super) fn after(&self, delivered: u64) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.sequences.range(self.sequences.partition_point(|chosen| *chosen <= delivered)..).copied()
    }
}

/// What a delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Await {
    /// For its acknowledgement.
    Ack,
    /// For nothing: the message was removed since.
    Nothing,
    /// To be applied: without acknowledgements the message is done with that, and until then the stream must keep it.
    Apply,
}

/// Why a message was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was delivered as often as allowed.
    MaxDeliver,
    /// A client terminated it, with this reason.
    Terminated(Box<str>),
}

/// Messages that were given up and become dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Letters {
    /// Pending messages that are not delivered any more; they are done when their letter is stored.
    pub(super) open: BTreeMap<u64, Cause>,
    /// How many letters were stored since the consumer was made or reset.
    pub(super) stored: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The newest delivery.
    pub(super) delivered: Position,
    pub(super) pending: BTreeMap<u64, Pending>,
    /// How many of them were delivered more than once.
    pub(super) redelivered: u64,
    /// Delivered as often as allowed, with the number of deliveries. The stream keeps them until they are acknowledged or removed.
    pub(super) exhausted: BTreeMap<u64, u32>,
    /// Passed over, because their subject had enough messages pending.
    pub(super) parked: BTreeSet<u64>,
    /// Acknowledged, but the command is not applied yet: still needed as far as the stream is concerned.
    pub(super) unapplied: BTreeSet<u64>,
    /// Without acknowledgements: last delivery that is applied.
    pub(super) applied: u64,
    pub(super) chosen: Option<Box<Chosen>>,
    /// `None` as long as there never was one.
    pub(super) letters: Option<Box<Letters>>,
    /// Counts resets, so that commands from before one are told from those after it.
    pub(super) generation: u64,
}

impl State {
    /// A consumer that will deliver messages from `start` on.
    pub(super) fn starting_at(start: u64, chosen: Option<Chosen>) -> Self {
        let position = Position { consumer: 0, stream: start.saturating_sub(1) };
        Self {
            delivered: position,
            applied: position.stream,
            chosen: chosen.map(Box::new),
            ..Self::default()
        }
    }

    /// A message was delivered for the first time.
    pub(super) fn deliver(&mut self, sequence: u64, position: u64, at: Timestamp, awaits: Await) {
        self.delivered.consumer = self.delivered.consumer.max(position);
        if sequence <= self.delivered.stream && !self.parked.remove(&sequence) {
            return;
        }
        if awaits == Await::Apply {
            self.delivered.stream = self.delivered.stream.max(sequence);
            return;
        }
        self.pass(sequence);
        if awaits == Await::Ack {
            self.pending.insert(sequence, Pending { position, at, count: 1 });
        }
    }

    /// Without acknowledgements: the delivery of a message is applied, and what was chosen up to it is done.
    pub(super) fn apply_delivery(&mut self, sequence: u64) {
        self.applied = self.applied.max(sequence);
        self.choose_after(sequence);
    }

    /// A message was delivered again.
    pub(super) fn redeliver(&mut self, sequence: u64, position: u64, at: Timestamp, count: u32) {
        self.delivered.consumer = self.delivered.consumer.max(position);
        let Some(pending) = self.pending.get_mut(&sequence) else { return };
        pending.at = at;
        if count > pending.count {
            self.redelivered += u64::from(pending.count == 1);
            pending.count = count;
        }
    }

    /// A message is passed over for now. `there`: it is still in the stream, so it waits for its turn.
    pub(super) fn park(&mut self, sequence: u64, there: bool) {
        if sequence > self.delivered.stream {
            self.pass(sequence);
            if there {
                self.parked.insert(sequence);
            }
        }
    }

    /// New messages begin after this one.
    fn pass(&mut self, sequence: u64) {
        self.delivered.stream = self.delivered.stream.max(sequence);
        self.choose_after(sequence);
    }

    /// Of the messages chosen at the start those up to this one are done.
    fn choose_after(&mut self, sequence: u64) {
        let Some(chosen) = &mut self.chosen else { return };
        while chosen.sequences.front().is_some_and(|first| *first <= sequence) {
            chosen.sequences.pop_front();
        }
        if sequence >= chosen.up_to {
            self.chosen = None;
        }
    }

    /// A message needs no delivery any more. `None` if it did not wait for an acknowledgement.
    pub(super) fn finish(&mut self, sequence: u64) -> Option<Pending> {
        let pending = self.pending.remove(&sequence)?;
        if let Some(letters) = &mut self.letters {
            letters.open.remove(&sequence);
        }
        self.redelivered -= u64::from(pending.count > 1);
        Some(pending)
    }

    /// A message was delivered as often as allowed.
    pub(super) fn exhaust(&mut self, sequence: u64) -> Option<Pending> {
        let pending = self.finish(sequence)?;
        self.exhausted.insert(sequence, pending.count);
        Some(pending)
    }

    /// A message is pending again as it was, whatever was done with it since.
    pub(super) fn reopen(&mut self, sequence: u64, pending: Pending) {
        self.exhausted.remove(&sequence);
        self.unapplied.remove(&sequence);
        if self.pending.insert(sequence, pending).is_none() {
            self.redelivered += u64::from(pending.count > 1);
        }
    }

    /// A pending message is not delivered any more, and waits for its letter. False if nothing changed.
    pub(super) fn give_up(&mut self, sequence: u64, cause: Cause) -> bool {
        if !self.pending.contains_key(&sequence) || self.is_given_up(sequence) {
            return false;
        }
        self.letters.get_or_insert_default().open.insert(sequence, cause);
        true
    }

    /// Why a message waits for its letter, if it does.
    pub(super) fn given_up(&self, sequence: u64) -> Option<&Cause> {
        self.letters.as_ref()?.open.get(&sequence)
    }

    pub(super) fn is_given_up(&self, sequence: u64) -> bool {
        self.given_up(sequence).is_some()
    }

    /// Whether any message waits for its letter.
    pub(super) fn has_open_letters(&self) -> bool {
        self.letters.as_ref().is_some_and(|letters| !letters.open.is_empty())
    }

    /// That a letter is stored is applied, whatever became of the message meanwhile. Each command is applied once, so this counts them.
    pub(super) fn count_letter(&mut self) {
        self.letters.get_or_insert_default().stored += 1;
    }

    /// Messages that count as redelivered for people: those that are pending, and those that were given up, unless one delivery is all that a
    /// message gets.
    pub(super) fn redelivered_shown(&self, deliver_max: u32) -> u64 {
        let exhausted = self.exhausted.values().filter(|count| deliver_max != 1 || **count > 1);
        self.redelivered + exhausted.count() as u64
    }

    /// Everything up to here is done. It follows from what is not, so replicas agree whatever the order was in which they learnt it.
    pub(super) fn floor(&self) -> Position {
        let mut floor = match self.pending.first_key_value() {
            Some((sequence, pending)) => {
                Position { consumer: pending.position.saturating_sub(1), stream: sequence - 1 }
            }
            None => self.delivered,
        };
        if let Some(first) = self.parked.first() {
            floor.stream = floor.stream.min(first - 1);
        }
        floor
    }

    /// Whether any message is known beside those that come next.
    pub(super) fn is_holding(&self) -> bool {
        let Self { pending, exhausted, parked, unapplied, chosen, .. } = self;
        let open = [pending.is_empty(), exhausted.is_empty(), parked.is_empty(), unapplied.is_empty()];
        open.contains(&false) || chosen.is_some()
    }

    /// The message left the stream.
    pub(super) fn remove(&mut self, sequence: u64) -> Option<Pending> {
        self.unapplied.remove(&sequence);
        self.exhausted.remove(&sequence);
        self.parked.remove(&sequence);
        if let Some(chosen) = &mut self.chosen
            && let Ok(index) = chosen.sequences.binary_search(&sequence)
        {
            chosen.sequences.remove(index);
        }
        self.finish(sequence)
    }

    /// All messages up to this one left the stream.
    pub(super) fn purge(&mut self, up_to: u64) {
        let next = up_to.saturating_add(1);
        self.pending = self.pending.split_off(&next);
        self.exhausted = self.exhausted.split_off(&next);
        self.parked = self.parked.split_off(&next);
        self.unapplied = self.unapplied.split_off(&next);
        if let Some(letters) = &mut self.letters {
            letters.open = letters.open.split_off(&next);
        }
        self.redelivered = self.pending.values().filter(|pending| pending.count > 1).count() as u64;
        self.applied = self.applied.max(up_to);
        self.pass(up_to);
    }

    /// Starts over: the next message is the first at or after `start`.
    pub(super) fn reset(&mut self, start: u64) {
        let generation = self.generation + 1;
        *self = Self { generation, ..Self::starting_at(start, None) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp(5);

    fn delivered(sequences: &[u64]) -> State {
        let mut state = State::starting_at(1, None);
        for (index, sequence) in sequences.iter().enumerate() {
            state.deliver(*sequence, index as u64 + 1, AT, Await::Ack);
        }
        state
    }

    #[test]
    fn floor_stops_below_the_first_pending_message() {
        let mut state = delivered(&[2, 5, 9]);
        state.finish(5);
        assert_eq!(state.floor(), Position { consumer: 0, stream: 1 });
        state.finish(2);
        assert_eq!(state.floor(), Position { consumer: 2, stream: 8 });
        state.finish(9);
        assert_eq!(state.floor(), Position { consumer: 3, stream: 9 });
    }

    #[test]
    fn delivery_that_is_applied_twice_brings_nothing_back() {
        let mut state = delivered(&[1, 2]);
        state.finish(1);
        let before = state.clone();
        state.deliver(1, 1, AT, Await::Ack);
        state.deliver(2, 2, AT, Await::Ack);
        assert_eq!(state, before);
    }

    #[test]
    fn parked_message_holds_the_floor_and_is_delivered_later() {
        let mut state = delivered(&[1]);
        state.park(2, true);
        state.deliver(3, 2, AT, Await::Ack);
        state.finish(1);
        state.finish(3);
        assert_eq!(state.floor().stream, 1);
        state.deliver(2, 3, AT, Await::Ack);
        assert!(state.pending.contains_key(&2) && state.parked.is_empty());
        assert_eq!(state.delivered, Position { consumer: 3, stream: 3 });
    }

    #[test]
    fn given_up_messages_stay_pending_until_their_letter_is_stored_once() {
        let mut state = delivered(&[1, 2, 3]);
        assert!(state.give_up(2, Cause::MaxDeliver) && !state.give_up(2, Cause::Terminated("x".into())));
        assert!(!state.give_up(4, Cause::MaxDeliver));
        assert!(state.give_up(3, Cause::MaxDeliver));
        assert_eq!((state.given_up(2), state.pending.len()), (Some(&Cause::MaxDeliver), 3));
        state.finish(2);
        state.count_letter();
        state.finish(3);
        let stored = |state: &State| state.letters.as_ref().map(|letters| letters.stored);
        assert_eq!((stored(&state), state.has_open_letters(), state.floor().stream), (Some(1), false, 0));
        let mut state = delivered(&[1]);
        state.give_up(1, Cause::MaxDeliver);
        state.purge(1);
        assert!(!state.has_open_letters());
    }

    #[test]
    fn exhausted_messages_are_remembered_until_they_are_removed() {
        let mut state = delivered(&[1, 2]);
        state.redeliver(1, 3, AT, 2);
        assert_eq!(state.redelivered_shown(2), 1);
        assert!(state.exhaust(1).is_some());
        assert_eq!((state.redelivered, state.redelivered_shown(1), state.floor().stream), (0, 1, 1));
        state.remove(1);
        assert_eq!(state.redelivered_shown(2), 0);
    }
}
