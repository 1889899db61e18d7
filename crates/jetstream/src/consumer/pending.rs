//! Counting what is still to deliver, and finding what waited too long.
//!
//! Both hold only what the leader can work out again from the state.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use store::Timestamp;
use store::stream::{Error, Filter, StreamStore};

use super::queue::Queue;
use super::settings::Settings;
use super::state::State;

/// The heap of deadlines is made anew when it has grown to this many times the pending messages.
const STALE_FACTOR: usize = 2;
/// Entries below which that never happens.
const STALE_MIN: usize = 1_024;

/// Number of messages to deliver, exact at any time. Messages up to `through` are counted, the rest is counted when somebody asks.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    count: u64,
    through: u64,
}

impl Remaining {
    /// Nothing is counted; counting begins at `next`.
    pub(super) fn from(next: u64) -> Self {
        Self { count: 0, through: next.saturating_sub(1) }
    }

    /// How many there are.
    pub(super) fn get(&mut self, store: &dyn StreamStore, filter: &Filter) -> Result<u64, Error> {
        let last = store.state().last_sequence;
        if last > self.through {
            self.count += store.count(filter, self.through + 1..=last)?;
            self.through = last;
        }
        Ok(self.count)
    }

    /// A message with this sequence was taken for delivery.
    pub(super) fn taken(&mut self, sequence: u64) {
        if sequence <= self.through {
            self.count = self.count.saturating_sub(1);
        } else {
            // All before it were taken or do not match.
            self.through = sequence;
            self.count = 0;
        }
    }

    /// A message that matches left the store before it was delivered.
    pub(super) fn removed(&mut self, sequence: u64) {
        if sequence <= self.through {
            self.count = self.count.saturating_sub(1);
        }
    }
}

/// Deadlines of pending messages. An entry may be stale; it never comes later than the true deadline, and what the state says counts.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(Timestamp, u64)>>,
}

/// What to do about a message whose wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// It may be delivered again.
    Redeliver(u64),
    /// It was delivered as often as allowed.
    GiveUp(u64),
}

impl Deadlines {
    /// The message waits until then.
    pub(super) fn push(&mut self, deadline: Timestamp, sequence: u64) {
        self.heap.push(Reverse((deadline, sequence)));
    }

    /// When to look next.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Forgets entries of messages that are long done, when they are too many.
    pub(super) fn trim(&mut self, state: &State, settings: &Settings) {
        if self.heap.len() > STALE_MIN.max(state.pending.len() * STALE_FACTOR) {
            self.rebuild(state, settings);
        }
    }

    /// Takes all deadlines from the state.
    pub(super) fn rebuild(&mut self, state: &State, settings: &Settings) {
        let deadline = |(sequence, pending): (&u64, &super::state::Pending)| {
            let wait = settings.wait(pending.count)?;
            Some(Reverse((Timestamp(pending.at.0.saturating_add(wait)), *sequence)))
        };
        self.heap = state.pending.iter().filter_map(deadline).collect();
    }

    /// The next message whose wait is over at `now` and which is not queued already.
    pub(super) fn pop(
        &mut self,
        now: Timestamp,
        state: &State,
        settings: &Settings,
        queued: &Queue,
    ) -> Option<Overdue> {
        while let Some(Reverse((deadline, sequence))) = self.heap.peek().copied()
            && deadline <= now
        {
            self.heap.pop();
            let Some(pending) = state.pending.get(&sequence) else { continue };
            if state.is_given_up(sequence) {
                continue;
            }
            let Some(wait) = settings.wait(pending.count) else { continue };
            let due = Timestamp(pending.at.0.saturating_add(wait));
            if due > now {
                self.push(due, sequence);
            } else if pending.count >= settings.deliver_max {
                return Some(Overdue::GiveUp(sequence));
            } else if !queued.contains(sequence) {
                return Some(Overdue::Redeliver(sequence));
            }
        }
        if self.heap.is_empty() {
            self.heap = BinaryHeap::new();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use api::duration::Nanos;
    use api::jetstream::consumer::{AckPolicy, ConsumerConfig};

    use super::*;
    use crate::consumer::state::Await;

    fn settings() -> Settings {
        let config = ConsumerConfig {
            ack_policy: AckPolicy::Explicit,
            ack_wait: Nanos(100),
            max_deliver: 2,
            ..ConsumerConfig::default()
        };
        Settings::new(&config)
    }

    #[test]
    fn stale_deadlines_are_put_right_when_they_come() {
        let (settings, mut state) = (settings(), State::starting_at(1, None));
        let mut deadlines = Deadlines::default();
        for sequence in 1..=3 {
            state.deliver(sequence, sequence, Timestamp(0), Await::Ack);
            deadlines.push(Timestamp(100), sequence);
        }
        state.finish(1);
        state.redeliver(2, 4, Timestamp(50), 2);
        let mut pop = |now| deadlines.pop(Timestamp(now), &state, &settings, &Queue::default());
        assert_eq!(pop(99), None);
        assert_eq!(pop(100), Some(Overdue::Redeliver(3)));
        assert_eq!(pop(149), None);
        assert_eq!(pop(150), Some(Overdue::GiveUp(2)));
        assert_eq!(pop(1_000), None);
    }

    #[test]
    fn deadlines_are_bounded_by_what_is_pending() {
        let (settings, state) = (settings(), State::starting_at(1, None));
        let mut deadlines = Deadlines::default();
        for (count, kept) in [(STALE_MIN, STALE_MIN), (STALE_MIN + 1, 0)] {
            deadlines.heap.clear();
            (0..count as u64).for_each(|sequence| deadlines.push(Timestamp(1), sequence));
            deadlines.trim(&state, &settings);
            assert_eq!(deadlines.heap.len(), kept);
        }
    }

    #[test]
    fn remaining_messages_are_counted_when_somebody_asks() {
        use store::stream::{Append, Expiry, MemoryStore};
        let mut store = MemoryStore::default();
        let append = |store: &mut MemoryStore, sequence, subject: &[u8]| {
            let (timestamp, expiry) = (Timestamp(1), Expiry::default());
            store
                .append(Append { sequence, timestamp, subject, headers: b"", payload: b"", expiry })
                .unwrap();
        };
        let filter = Filter::Any(vec![b"a".as_slice().into()]);
        for (sequence, subject) in [(1, b"a"), (2, b"b"), (3, b"a")] {
            append(&mut store, sequence, subject);
        }
        let mut remaining = Remaining::from(1);
        assert_eq!(remaining.get(&store, &filter).unwrap(), 2);
        remaining.taken(1);
        append(&mut store, 4, b"a");
        // Not counted yet, so its removal needs no correction.
        store.remove(4, false).unwrap();
        remaining.removed(4);
        assert_eq!(remaining.get(&store, &filter).unwrap(), 1);
        store.remove(3, false).unwrap();
        remaining.removed(3);
        append(&mut store, 5, b"a");
        remaining.taken(5);
        assert_eq!(remaining.get(&store, &filter).unwrap(), 0);
    }
}
