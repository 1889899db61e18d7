//! The clients that went last, for `connz?state=closed`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use api::monitor::SubDetail;
use parking_lot::Mutex;
use protocol::error::CloseReason;

use super::connz::Snapshot;
use crate::net::client::Client;

/// The last clients that went, oldest first, up to a bound. Of each only what is shown is kept, not the connection itself.
#[derive(Debug)]
pub struct ClosedClients {
    max: usize,
    clients: Mutex<VecDeque<Arc<Snapshot>>>,
    total: AtomicU64,
}

impl ClosedClients {
    /// Room for `max` clients (`max_closed_clients`).
    pub fn new(max: usize) -> Self {
        Self { max, clients: Mutex::default(), total: AtomicU64::new(0) }
    }

    /// A client went now; `lost` is what [`super::connz::lost`] said of it.
    pub fn add(&self, client: &Client, lost: Box<[SubDetail]>) {
        self.total.fetch_add(1, Relaxed);
        if self.max > 0 {
            self.keep(Snapshot { lost, ..Snapshot::closed(client, super::now()) });
        }
    }

    /// A connection went before it was served; it has a number, an address and the time when it was accepted.
    pub fn add_unserved(&self, (cid, peer, accepted): (u64, SocketAddr, i64), reason: CloseReason) {
        self.total.fetch_add(1, Relaxed);
        if self.max == 0 {
            return;
        }
        let start = super::time(accepted);
        let stop = Some(super::now());
        let reason = reason.as_str();
        self.keep(Snapshot { cid, peer, start, last_activity: start, stop, reason, ..Snapshot::default() });
    }

    fn keep(&self, snapshot: Snapshot) {
        let mut clients = self.clients.lock();
        if clients.len() >= self.max {
            clients.pop_front();
        }
        clients.push_back(Arc::new(snapshot));
    }

    /// All that are remembered, oldest first.
    pub fn all(&self) -> Vec<Arc<Snapshot>> {
        self.clients.lock().iter().cloned().collect()
    }

    /// Clients that ever went.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_are_remembered() {
        let closed = ClosedClients::new(3);
        for cid in 1..=5 {
            closed.keep(Snapshot { cid, ..Snapshot::default() });
        }
        let kept: Vec<u64> = closed.all().iter().map(|snapshot| snapshot.cid).collect();
        assert_eq!(kept, [3, 4, 5]);
    }
}
