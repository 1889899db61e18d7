//! Memory for what clients let wait: pull requests, and messages that wait for their acknowledgement.
//!
//! Each consumer that leads says at the end of its turn how much it has; the sum for the server decides whether consumers that have more than
//! [`PULLS_FREE`] and [`ACKS_FREE`] get still more. So a client that hoards stops itself, and the others go on with little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::limits::ServerUsage;

/// Requests that a consumer may always have.
pub(crate) const PULLS_FREE: usize = 16;
/// Acknowledgements that a consumer may always wait for.
pub(crate) const ACKS_FREE: usize = 128;
/// Pause before a consumer that was stopped for want of memory tries again.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Memory for what consumers that lead hold because of clients: requests that wait, and messages that wait for their acknowledgement.
#[derive(Debug, Default)]
pub struct Waiting {
    bytes: AtomicU64,
    pulls: AtomicU64,
    acks: AtomicU64,
    /// Requests refused because it was used up.
    pub refused: AtomicU64,
    /// Times that a consumer stopped to deliver because it was used up.
    pub held: AtomicU64,
}

impl Waiting {
    /// Bytes, roughly.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Requests that wait.
    pub fn pulls(&self) -> u64 {
        self.pulls.load(Relaxed)
    }

    /// Messages that wait for their acknowledgement.
    pub fn acks(&self) -> u64 {
        self.acks.load(Relaxed)
    }
}

/// Memory that one acknowledgement takes while it is waited for: its place in the state of the consumer, and its deadline.
const ACK_BYTES: u64 = 96;
/// Memory that a request takes while it waits, without its reply subject.
const PULL_BYTES: u64 = 256;

/// What one consumer has of [`Waiting`]; given back when this goes.
#[derive(Debug)]
pub(crate) struct Charge {
    usage: Arc<ServerUsage>,
    bytes: u64,
    pulls: u32,
    acks: u32,
}

impl Charge {
    /// Nothing yet.
    pub(crate) fn new(usage: &Arc<ServerUsage>) -> Self {
        Self { usage: Arc::clone(usage), bytes: 0, pulls: 0, acks: 0 }
    }

    /// The consumer has so many requests with reply subjects of so many bytes together, and waits for so many acknowledgements.
    pub(crate) fn set(&mut self, pulls: usize, replies_bytes: usize, acks: usize) {
        let (pulls, acks) = (pulls.min(u32::MAX as usize) as u32, acks.min(u32::MAX as usize) as u32);
        let bytes = u64::from(pulls) * PULL_BYTES + replies_bytes as u64 + u64::from(acks) * ACK_BYTES;
        if (self.bytes, self.pulls, self.acks) == (bytes, pulls, acks) {
            return;
        }
        let waiting = &self.usage.waiting;
        replace(&waiting.bytes, self.bytes, bytes);
        replace(&waiting.pulls, u64::from(self.pulls), u64::from(pulls));
        replace(&waiting.acks, u64::from(self.acks), u64::from(acks));
        (self.bytes, self.pulls, self.acks) = (bytes, pulls, acks);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0, 0, 0);
    }
}

fn replace(sum: &AtomicU64, before: u64, after: u64) {
    match after.checked_sub(before) {
        Some(0) => {}
        Some(more) => drop(sum.fetch_add(more, Relaxed)),
        None => drop(sum.fetch_sub(before - after, Relaxed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Limits, ServerLimits};

    #[test]
    fn what_a_consumer_has_is_counted_while_it_has_it() {
        let limits = Limits {
            server: ServerLimits { waiting_bytes_max: 1_000, ..ServerLimits::default() },
            ..Limits::default()
        };
        let waiting = &limits.server_usage.waiting;
        let (mut one, mut other) = (Charge::new(&limits.server_usage), Charge::new(&limits.server_usage));
        one.set(2, 30, 0);
        other.set(0, 0, 3);
        assert_eq!((waiting.pulls(), waiting.acks()), (2, 3));
        assert_eq!(waiting.bytes(), 2 * PULL_BYTES + 30 + 3 * ACK_BYTES);
        assert!(!limits.waiting_exceeded());
        other.set(0, 0, 5);
        assert!(limits.waiting_exceeded());
        one.set(1, 10, 0);
        assert!(!limits.waiting_exceeded());
        drop(other);
        assert_eq!((waiting.pulls(), waiting.acks(), waiting.bytes()), (1, 0, PULL_BYTES + 10));
        drop(one);
        assert_eq!((waiting.pulls(), waiting.bytes()), (0, 0));
    }
}
