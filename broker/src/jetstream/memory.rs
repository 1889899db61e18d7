//! The memory that JetStream works with (`max_working_memory`): caches, and what waits for clients.
//!
//! What waits takes its room from the caches, down to their least share; when it has everything else, consumers take no more
//! ([`jetstream::limits::Waiting`]).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use api::monitor;
use store::Timestamp;

use super::Shared;

/// Share of caches when nothing waits: one part of so many.
const CACHE_PART_MOST: u64 = 4;
/// Share that caches keep, whatever waits.
const CACHE_PART_LEAST: u64 = 8;
/// Caches grow and shrink in steps of one part of so many, so that this is rare.
const STEP_PART: u64 = 64;
/// The end of a shortage is told when less than this is used of what there is for what waits.
const RELIEF_PERCENT: u64 = 90;

/// Length of an age of the caches: what is not used for five of them goes, and to read it again costs little soon after.
const AGE: Duration = Duration::from_secs(1);

/// The bound, and whether it is reached.
#[derive(Debug)]
pub struct WorkingMemory {
    bytes_max: AtomicU64,
    is_short: AtomicBool,
    /// When the next age of the caches begins.
    age_at: AtomicI64,
}

/// How much of the working memory there is for what waits for clients, in bytes.
pub fn waiting_max(bytes_max: u64) -> u64 {
    bytes_max - bytes_max / CACHE_PART_LEAST
}

impl WorkingMemory {
    /// So many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max: AtomicU64::new(bytes_max),
            is_short: AtomicBool::new(false),
            age_at: AtomicI64::new(0),
        }
    }

    /// Another bound, from now on.
    pub fn resize(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    /// The bound, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Relaxed)
    }

    /// Room for caches beside so many bytes that wait.
    pub fn cache_max(&self, waiting: u64) -> usize {
        let all = self.bytes_max();
        let free = all.saturating_sub(waiting).clamp(all / CACHE_PART_LEAST, all / CACHE_PART_MOST);
        let step = (all / STEP_PART).max(1);
        usize::try_from(free / step * step).unwrap_or(usize::MAX)
    }

    /// Does another age of the caches begin? Says so to one of those who ask.
    fn begin_age(&self, now: Timestamp) -> bool {
        let at = self.age_at.load(Relaxed);
        let next = now.saturating_add(AGE).0;
        at <= now.0 && self.age_at.compare_exchange(at, next, Relaxed, Relaxed).is_ok()
    }

    /// Notes how much waits. `Some` if that begins or ends a shortage.
    fn note(&self, waiting: u64) -> Option<bool> {
        let (max, was_short) = (waiting_max(self.bytes_max()), self.is_short.load(Relaxed));
        let is_short = if was_short { waiting > max / 100 * RELIEF_PERCENT } else { waiting >= max };
        let changed = is_short != was_short && self.is_short.swap(is_short, Relaxed) == was_short;
        changed.then_some(is_short)
    }
}

impl Shared {
    /// Gives caches the room that is left. Called at the end of every turn of a shard.
    pub fn balance_memory(&self) {
        let waiting = self.usage.waiting.bytes();
        let cache_max = self.memory.cache_max(waiting);
        if cache_max != self.cache.bytes_max() {
            self.cache.resize(cache_max);
        }
        match self.memory.note(waiting) {
            None => {}
            Some(false) => tracing::info!("JetStream has working memory again"),
            Some(true) => tracing::warn!(
                "JetStream: {} pull requests and {} messages that wait for their ack take {waiting} bytes of the {} of \
                 max_working_memory: consumers deliver no more than they get acks for, and more pull requests are refused",
                self.usage.waiting.pulls(),
                self.usage.waiting.acks(),
                self.memory.bytes_max()
            ),
        }
    }

    /// Drops what caches hold without use for some seconds. Called in every turn of a shard.
    pub fn age_caches(&self, now: Timestamp) {
        if self.memory.begin_age(now) {
            self.cache.age();
        }
    }

    /// When that has to be done again even if there is no other turn until then.
    pub fn next_age(&self) -> Option<Timestamp> {
        (self.cache.bytes() > 0).then(|| Timestamp(self.memory.age_at.load(Relaxed)))
    }

    /// What the working memory is used for.
    pub fn working_memory(&self) -> monitor::WorkingMemory {
        let waiting = &self.usage.waiting;
        monitor::WorkingMemory {
            max: self.memory.bytes_max(),
            caches: self.cache.bytes() as u64,
            waiting: waiting.bytes(),
            pull_requests: waiting.pulls(),
            ack_pending: waiting.acks(),
            refused: waiting.refused.load(Relaxed),
            held: waiting.held.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_have_what_is_left_within_their_shares() {
        let memory = WorkingMemory::new(6400);
        assert_eq!(waiting_max(6400), 5600);
        for (waiting, expected) in
            [(0, 1600), (4800, 1600), (4900, 1500), (5000, 1400), (5600, 800), (9999, 800)]
        {
            assert_eq!(memory.cache_max(waiting), expected, "{waiting}");
        }
        memory.resize(3);
        assert_eq!(memory.cache_max(0), 0);
    }

    #[test]
    fn an_age_begins_once_a_second_whoever_asks() {
        let memory = WorkingMemory::new(6400);
        let at = |millis: i64| Timestamp(1_000_000_000 + millis * 1_000_000);
        let began = [0, 0, 999, 1000, 1000, 9000, 9999].map(|millis| memory.begin_age(at(millis)));
        assert_eq!(began, [true, false, false, true, false, true, false]);
    }

    #[test]
    fn a_shortage_is_told_when_it_begins_and_when_it_is_over() {
        let memory = WorkingMemory::new(6400);
        let told = [5599, 5600, 5599, 5041, 5040, 5599, 5600].map(|waiting| memory.note(waiting));
        assert_eq!(told, [None, Some(true), None, None, Some(false), None, Some(true)]);
    }
}
