//! The clients that went last, for `connz?state=closed`.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock;
use crate::net::client::Client;

/// A client that went.
#[derive(Debug, Clone)]
pub struct ClosedClient {
    /// The connection; it holds no socket any more.
    pub client: Arc<Client>,
    /// When it went, in nanoseconds since 1970.
    pub stopped_unix: i64,
}

/// The last clients that went, oldest first, up to a bound.
#[derive(Debug)]
pub struct ClosedClients {
    max: usize,
    clients: Mutex<VecDeque<ClosedClient>>,
    total: std::sync::atomic::AtomicU64,
}

impl ClosedClients {
    /// Room for `max` clients (`max_closed_clients`).
    pub fn new(max: usize) -> Self {
        Self { max, clients: Mutex::default(), total: std::sync::atomic::AtomicU64::new(0) }
    }

    /// A client went now.
    pub fn add(&self, client: &Arc<Client>) {
        self.total.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if self.max == 0 {
            return;
        }
        let mut clients = self.clients.lock();
        if clients.len() >= self.max {
            clients.pop_front();
        }
        clients.push_back(ClosedClient { client: Arc::clone(client), stopped_unix: clock::unix_nanos() });
    }

    /// All that are remembered, oldest first.
    pub fn all(&self) -> Vec<ClosedClient> {
        self.clients.lock().iter().cloned().collect()
    }

    /// Clients that ever went.
    pub fn total(&self) -> u64 {
        self.total.load(std::sync::atomic::Ordering::Relaxed)
    }
}
