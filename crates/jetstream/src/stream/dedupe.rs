//! Deduplication window of a stream: remembers message ids for a time and answers "seen before?".
//!
//! Only the leader asks, but every replica remembers. An id is remembered from the moment its message is proposed; whether that message is
//! durable yet can be told by its sequence. Ids of messages that were refused never come here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use store::Timestamp;

/// Entries checked for expiry at each insertion, so that one publish never pays for a long pause.
const EXPIRE_PER_INSERT: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Seen {
    sequence: u64,
    timestamp: Timestamp,
}

/// The window. `order` holds every entry of `by_id`, and perhaps older times of the same ids.
#[derive(Debug, Default)]
pub(crate) struct Dedupe {
    window: Duration,
    by_id: HashMap<Arc<[u8]>, Seen>,
    order: VecDeque<(Timestamp, Arc<[u8]>)>,
    /// Highest sequence that an id came with, whatever the window; zero if none did.
    newest: u64,
}

impl Dedupe {
    /// Remembers nothing yet, and never will if the window is zero.
    pub(crate) fn new(window: Duration) -> Self {
        Self { window, ..Self::default() }
    }

    /// From now on ids are remembered this long.
    pub(crate) fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Sequence of the message that had this id within the window.
    pub(crate) fn find(&self, id: &[u8], now: Timestamp) -> Option<u64> {
        let seen = self.by_id.get(id)?;
        (now < seen.timestamp.saturating_add(self.window)).then_some(seen.sequence)
    }

    /// No message behind this sequence has an id.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// A message with this sequence had an id that need not be remembered any more.
    pub(crate) fn reach(&mut self, sequence: u64) {
        self.newest = self.newest.max(sequence);
    }

    /// Remembers the id of a message.
    pub(crate) fn insert(&mut self, id: &[u8], sequence: u64, timestamp: Timestamp) {
        self.newest = self.newest.max(sequence);
        if self.window.is_zero() {
            return;
        }
        self.expire(timestamp);
        let id: Arc<[u8]> = id.into();
        self.by_id.insert(id.clone(), Seen { sequence, timestamp });
        self.order.push_back((timestamp, id));
    }

    fn expire(&mut self, now: Timestamp) {
        for _ in 0..EXPIRE_PER_INSERT {
            let Some((timestamp, id)) = self.order.front() else { return };
            if now < timestamp.saturating_add(self.window) {
                return;
            }
            if self.by_id.get(id).is_some_and(|seen| seen.timestamp == *timestamp) {
                self.by_id.remove(id);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_forgotten_after_the_window() {
        let mut dedupe = Dedupe::new(Duration::from_nanos(10));
        dedupe.insert(b"a", 1, Timestamp(100));
        assert_eq!(dedupe.find(b"a", Timestamp(109)), Some(1));
        assert_eq!(dedupe.find(b"a", Timestamp(110)), None);
        dedupe.insert(b"a", 2, Timestamp(111));
        dedupe.insert(b"b", 3, Timestamp(120));
        assert_eq!(dedupe.find(b"a", Timestamp(120)), Some(2));
        dedupe.insert(b"c", 4, Timestamp(200));
        assert_eq!((dedupe.by_id.len(), dedupe.order.len(), dedupe.newest()), (1, 1, 4));
    }

    #[test]
    fn no_window_remembers_nothing() {
        let mut dedupe = Dedupe::new(Duration::ZERO);
        dedupe.insert(b"a", 1, Timestamp(100));
        assert!(dedupe.find(b"a", Timestamp(100)).is_none() && dedupe.order.is_empty());
        assert_eq!(dedupe.newest(), 1);
    }
}
