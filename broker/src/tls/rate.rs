//! `connection_rate_limit`: how many handshakes may begin per second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time over which handshakes are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(1);

/// Counts handshakes in windows that begin with the first handshake after the window before.
#[derive(Debug)]
pub(super) struct RateLimit {
    max: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ends: Option<Instant>,
    admitted: u32,
    /// Sent away since the last report.
    rejected: u64,
}

/// May the handshake begin?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Admitted,
    /// `first` since the last report.
    Rejected {
        first: bool,
    },
}

impl RateLimit {
    pub(super) fn new(max: u32) -> Self {
        Self { max, state: Mutex::default() }
    }

    pub(super) fn admit(&self, now: Instant) -> Verdict {
        let mut state = self.state.lock();
        if state.ends.is_none_or(|ends| now >= ends) {
            state.ends = Some(now + WINDOW);
            state.admitted = 0;
        }
        if state.admitted < self.max {
            state.admitted += 1;
            return Verdict::Admitted;
        }
        state.rejected += 1;
        Verdict::Rejected { first: state.rejected == 1 }
    }

    /// How many were sent away since this was asked last.
    pub(super) fn take_rejected(&self) -> u64 {
        std::mem::take(&mut self.state.lock().rejected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn only_so_many_begin_within_a_second() {
        let (limit, start) = (RateLimit::new(2), clock::now());
        let verdicts = [0, 100, 200, 999].map(|millis| limit.admit(start + Duration::from_millis(millis)));
        let rejected = |first| Verdict::Rejected { first };
        assert_eq!(verdicts, [Verdict::Admitted, Verdict::Admitted, rejected(true), rejected(false)]);
        assert_eq!(limit.admit(start + WINDOW), Verdict::Admitted);
    }

    #[test]
    fn the_rejected_are_counted_until_reported() {
        let (limit, now) = (RateLimit::new(0), clock::now());
        assert_eq!(limit.admit(now), Verdict::Rejected { first: true });
        assert_eq!(limit.admit(now), Verdict::Rejected { first: false });
        assert_eq!((limit.take_rejected(), limit.take_rejected()), (2, 0));
        assert_eq!(limit.admit(now), Verdict::Rejected { first: true });
    }
}
