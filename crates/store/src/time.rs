//! Points in time as the store keeps them.

use std::time::Duration;

/// Nanoseconds since 1970, UTC. Messages carry it and it travels in replicated commands, so every replica sees the same value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time `duration` later; stays at the largest value instead of wrapping.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// The time `duration` earlier; stays at the smallest value instead of wrapping.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// Time passed since `earlier`; zero if that lies ahead.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        let nanos = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }
}
