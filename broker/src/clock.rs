//! The only place that reads time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time that never goes back, for deadlines and intervals.
#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since 1970, for people.
pub fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
