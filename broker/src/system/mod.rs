//! The server as a participant of its own system account: requests it answers, events it publishes.

mod account_requests;
mod actions;
pub mod events;
mod heartbeat;
mod internal;
mod publish;
mod requests;
mod subscribers;
mod user;

pub use internal::{Delivered, Internal};
pub use publish::publish;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use api::event::{ServerInfo, capability};
use tokio::sync::Semaphore;

use crate::monitor::{now, varz};
use crate::net::flush::DirtySet;
use crate::net::sink::{Account, Sink, Subscription};
use crate::server::{COMPATIBLE_VERSION, Server};

/// Requests that may wait to be answered.
const QUEUE_MAX: usize = 256;
/// Counts of subscribers over all servers that may run at one time.
const COUNTS_MAX: usize = 16;

/// Numbers of what the server says in its system account.
#[derive(Debug)]
pub struct System {
    sequence: AtomicU64,
    events: AtomicU64,
    counts: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            events: AtomicU64::new(0),
            counts: Arc::new(Semaphore::new(COUNTS_MAX)),
        }
    }
}

impl System {
    /// A name for an event: the server's seed and the event's number.
    fn event_id(&self, seed: u64) -> String {
        let mut id = String::with_capacity(22);
        base62(seed, &mut id);
        base62(self.events.fetch_add(1, Relaxed), &mut id);
        id
    }
}

/// Subscribes the server to its requests and starts its regular events.
pub fn start(server: &Arc<Server>) {
    let Some(account) = server.accounts.system() else { return };
    let (internal, queue) = Internal::new(server.next_id(), QUEUE_MAX);
    let sink = Sink::Internal(Arc::new(internal));
    for (number, subject) in requests::subjects(&server.identity.id).iter().enumerate() {
        subscribe(&account, sink.clone(), subject, &number.to_string());
    }
    flush_interest(server);
    tokio::spawn(requests::serve(Arc::clone(server), queue));
    tokio::spawn(heartbeat::run(Arc::clone(server), account));
}

/// Adds a subscription of the server itself. Peers have to be flushed after it.
fn subscribe(account: &Account, sink: Sink, subject: &str, sid: &str) -> Arc<Subscription> {
    let subscription = Arc::new(Subscription::local(sink, subject.as_bytes(), None, sid.as_bytes()));
    let inserted = account.interest.insert(account.name(), &subscription);
    assert!(inserted.is_ok(), "the server subscribes to {subject:?}, which is no subject");
    subscription
}

/// Writes to the peers what they were told of a change of interest.
pub(crate) fn flush_interest(server: &Server) {
    let mut dirty = DirtySet::default();
    server.routes().mark_dirty(&mut dirty);
    dirty.flush();
}

/// This server as the sender of a message that goes now.
pub(crate) fn server_info(server: &Server) -> ServerInfo {
    let options = server.options();
    let cluster = options.cluster.as_ref().map(|_| server.routes().cluster_name());
    let jetstream = server.jetstream.get();
    ServerInfo {
        name: server.identity.name.clone(),
        host: options.listen.address.host.clone(),
        id: server.identity.id.clone(),
        cluster: cluster.unwrap_or_default(),
        domain: jetstream.and_then(|jetstream| jetstream.shared.domain.clone()).unwrap_or_default(),
        version: COMPATIBLE_VERSION.to_owned(),
        jetstream: jetstream.is_some(),
        flags: if jetstream.is_some() { capability::JETSTREAM } else { 0 },
        tags: varz::tags(&options),
        metadata: options.server_metadata.clone(),
        seq: server.system.sequence.fetch_add(1, Relaxed) + 1,
        time: now(),
        ..ServerInfo::default()
    }
}

/// A name for an event of this server.
pub(crate) fn event_id(server: &Server) -> String {
    server.system.event_id(server.seed())
}

/// Eleven digits, enough for every number.
fn base62(mut number: u64, out: &mut String) {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut digits = [b'0'; 11];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    out.extend(digits.iter().map(|digit| char::from(*digit)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_names_of_their_own() {
        let system = System::default();
        let (first, second) = (system.event_id(u64::MAX), system.event_id(u64::MAX));
        assert_eq!((first.len(), second.len()), (22, 22));
        assert_ne!(first, second);
        assert_ne!(System::default().event_id(1), System::default().event_id(2));
    }
}
