//! Messages that wait to be delivered again, in the order in which they came to wait.

use std::collections::{BTreeMap, VecDeque};

/// Places of messages that left the queue otherwise than from its front are dropped when there are this many times the places in use.
const STALE_FACTOR: usize = 2;
/// Places below which that never happens.
const STALE_MIN: usize = 64;

/// A queue that knows what is in it. A message that is in it already keeps its place. An empty one holds no memory.
#[derive(Debug, Default)]
pub(super) struct Queue(Option<Box<Order>>);

#[derive(Debug, Default)]
struct Order {
    /// Sequences with the number of their turn. One that left, or came again with another number, is passed over.
    places: VecDeque<(u64, u64)>,
    numbers: BTreeMap<u64, u64>,
    next: u64,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |order| order.numbers.len())
    }

    pub(super) fn contains(&self, sequence: u64) -> bool {
        self.0.as_ref().is_some_and(|order| order.numbers.contains_key(&sequence))
    }

    /// Puts a message behind all others.
    pub(super) fn push(&mut self, sequence: u64) {
        self.0.get_or_insert_default().push(sequence);
    }

    /// The message whose turn it is.
    pub(super) fn first(&mut self) -> Option<u64> {
        self.0.as_mut()?.first()
    }

    /// Takes a message out. False if it is not there.
    pub(super) fn remove(&mut self, sequence: u64) -> bool {
        let Some(order) = &mut self.0 else { return false };
        let removed = order.numbers.remove(&sequence).is_some();
        if order.numbers.is_empty() {
            self.clear();
        }
        removed
    }

    /// Takes out all messages up to this one.
    pub(super) fn remove_up_to(&mut self, sequence: u64) {
        let Some(order) = &mut self.0 else { return };
        order.numbers = order.numbers.split_off(&sequence.saturating_add(1));
        if order.numbers.is_empty() {
            self.clear();
        }
    }

    /// Takes out everything.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

impl Order {
    fn push(&mut self, sequence: u64) {
        if self.numbers.contains_key(&sequence) {
            return;
        }
        if self.places.len() >= STALE_MIN.max(self.numbers.len() * STALE_FACTOR) {
            self.places.retain(|(sequence, number)| self.numbers.get(sequence) == Some(number));
        }
        self.numbers.insert(sequence, self.next);
        self.places.push_back((sequence, self.next));
        self.next += 1;
    }

    fn first(&mut self) -> Option<u64> {
        while let Some((sequence, number)) = self.places.front() {
            if self.numbers.get(sequence) == Some(number) {
                return Some(*sequence);
            }
            self.places.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &mut Queue) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(first) = queue.first() {
            assert!(queue.remove(first));
            all.push(first);
        }
        all
    }

    #[test]
    fn order_is_that_of_coming() {
        let mut queue = Queue::default();
        for sequence in [5, 2, 9, 2, 7] {
            queue.push(sequence);
        }
        assert!(queue.contains(2) && !queue.contains(1) && queue.len() == 4);
        assert!(queue.remove(5) && !queue.remove(5));
        queue.push(5);
        assert_eq!(all(&mut queue), [2, 9, 7, 5]);
        assert!(queue.0.is_none() && queue.len() == 0);
    }

    #[test]
    fn purge_takes_out_what_lies_before() {
        let mut queue = Queue::default();
        for sequence in [5, 2, 9, 7] {
            queue.push(sequence);
        }
        queue.remove_up_to(5);
        assert_eq!(all(&mut queue), [9, 7]);
    }

    #[test]
    fn places_are_bounded_by_what_is_queued() {
        let mut queue = Queue::default();
        queue.push(1);
        for _ in 0..10_000 {
            queue.push(2);
            queue.remove(2);
        }
        let places = queue.0.as_ref().map(|order| order.places.len());
        assert!(places.is_some_and(|places| places <= STALE_MIN), "{places:?}");
        assert_eq!(all(&mut queue), [1]);
    }
}
