//! A disk that is slow: told once in a while, counted always.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Work on the disk that takes longer is slow.
pub const SLOW: Duration = Duration::from_secs(1);
/// Slow work is told of at most once in this time, so that a slow disk does not fill it with words as well.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Work of one kind, and how much of it was slow.
#[derive(Debug)]
pub struct Watch {
    /// What the work is.
    what: &'static str,
    count: AtomicU64,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    untold: u64,
}

/// Slow work that is worth a line now.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    /// Slow ones that were not told of before, this one included.
    times: u64,
}

impl Watch {
    /// Nothing was slow yet.
    pub fn new(what: &'static str) -> Self {
        Self { what, count: AtomicU64::new(0), told: Mutex::default() }
    }

    /// The work took this long.
    pub fn took(&self, took: Duration, now: Instant) {
        if let Some(Report { times }) = self.note(took, now) {
            tracing::warn!(
                "JetStream: the disk is slow: {} took {:.1}s, {times} took more than {}s since this was told last",
                self.what,
                took.as_secs_f64(),
                SLOW.as_secs()
            );
        }
    }

    fn note(&self, took: Duration, now: Instant) -> Option<Report> {
        if took <= SLOW {
            return None;
        }
        self.count.fetch_add(1, Relaxed);
        let mut told = self.told.lock();
        told.untold += 1;
        if told.at.is_some_and(|at| now.saturating_duration_since(at) < TELL_EVERY) {
            return None;
        }
        told.at = Some(now);
        Some(Report { times: std::mem::take(&mut told.untold) })
    }

    /// How often it was slow.
    pub fn slow(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_work_is_told_of_once_a_minute_and_counted_each_time() {
        let watch = Watch::new("a sync of the log");
        let (start, more) = (crate::clock::now(), SLOW + Duration::from_millis(1));
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watch.note(SLOW, at(0)), None);
        assert_eq!(watch.slow(), 0);
        assert_eq!(watch.note(more, at(0)), Some(Report { times: 1 }));
        assert_eq!(watch.note(more, at(30)), None);
        assert_eq!(watch.note(more, at(59)), None);
        assert_eq!(watch.note(more, at(60)), Some(Report { times: 3 }));
        assert_eq!(watch.note(SLOW, at(200)), None);
        assert_eq!(watch.note(more, at(201)), Some(Report { times: 1 }));
        assert_eq!(watch.slow(), 5);
    }
}
