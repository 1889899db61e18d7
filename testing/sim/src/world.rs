//! What the machines see of the world.

use jetstream::Outside;
use jetstream::limits::Limits;
use store::Timestamp;

use crate::random::Random;

/// 2026-01-01, in nanoseconds.
pub(crate) const START: i64 = 1_767_225_600_000_000_000;
/// A second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// Time, chance and limits. Somebody listens to every subject.
#[derive(Debug)]
pub(crate) struct World {
    /// Now.
    pub(crate) now: i64,
    random: Random,
    limits: Limits,
}

impl World {
    /// A world of its own, with counters of its own.
    #[must_use]
    pub(crate) fn new(now: i64, seed: u64) -> Self {
        Self { now, random: Random::new(seed), limits: Limits::default() }
    }
}

impl Outside for World {
    fn now(&self) -> Timestamp {
        Timestamp(self.now)
    }

    fn has_group_interest(&self, subject: &[u8], _group: &[u8]) -> bool {
        self.has_interest(subject)
    }

    fn has_interest(&self, _: &[u8]) -> bool {
        true
    }

    fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}
