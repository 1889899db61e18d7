//! An account: a subject space of its own with its interest, limits and counters.

mod mappings;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

pub use mappings::{Mapped, Mappings};
use parking_lot::RwLock;

use crate::imports::{Responses, StreamImport};
use crate::interest::Interest;

/// Name of the account of clients that authenticate into no other.
pub const GLOBAL: &str = "$G";
/// Name of the system account when the configuration names no other.
pub const SYSTEM: &str = "$SYS";

/// Limits of an account; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Client connections on this server.
    pub connections_max: Option<u32>,
    /// Subscriptions of one connection.
    pub subscriptions_max: Option<u32>,
    /// Bytes of one message, headers included.
    pub payload_max: Option<usize>,
}

/// Messages and bytes that crossed the account's border on this server, by direction and kind of peer.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Messages published by clients.
    pub received_messages: AtomicU64,
    /// Bytes published by clients.
    pub received_bytes: AtomicU64,
    /// Messages delivered to clients.
    pub sent_messages: AtomicU64,
    /// Bytes delivered to clients.
    pub sent_bytes: AtomicU64,
    /// Messages that came over routes.
    pub route_received_messages: AtomicU64,
    /// Bytes that came over routes.
    pub route_received_bytes: AtomicU64,
    /// Messages that went to routes.
    pub route_sent_messages: AtomicU64,
    /// Bytes that went to routes.
    pub route_sent_bytes: AtomicU64,
    /// Clients closed because they were too slow.
    pub slow_consumers: AtomicU64,
}

/// One account on this server. Lives as long as the configuration names it; shared by all its connections.
#[derive(Debug)]
pub struct Account<S> {
    name: Box<str>,
    is_system: bool,
    /// Who subscribes to what, here and on peers.
    pub interest: Interest<S>,
    /// Replies that are owed to accounts that asked.
    pub responses: Responses<S>,
    /// Counters for monitoring.
    pub traffic: Traffic,
    connections: AtomicU32,
    connections_total: AtomicU64,
    connections_max: AtomicI64,
    subscriptions_max: AtomicI64,
    payload_max: AtomicI64,
    mappings: RwLock<Option<Arc<Mappings>>>,
}

/// How an absent limit is kept in an atomic.
const UNLIMITED: i64 = -1;

impl<S> Account<S> {
    /// An account without connections and interest.
    #[must_use]
    pub fn new(name: &str, is_system: bool, limits: Limits) -> Self {
        let account = Self {
            name: name.into(),
            is_system,
            interest: Interest::default(),
            responses: Responses::default(),
            traffic: Traffic::default(),
            connections: AtomicU32::new(0),
            connections_total: AtomicU64::new(0),
            connections_max: AtomicI64::new(UNLIMITED),
            subscriptions_max: AtomicI64::new(UNLIMITED),
            payload_max: AtomicI64::new(UNLIMITED),
            mappings: RwLock::default(),
        };
        account.set_limits(limits);
        account
    }

    /// Name as configured.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is this the server's system account?
    pub fn is_system(&self) -> bool {
        self.is_system
    }

    /// Replaces the limits, as a reload does; what exceeds them now is the caller's to close.
    pub fn set_limits(&self, limits: Limits) {
        self.connections_max.store(limits.connections_max.map_or(UNLIMITED, i64::from), Relaxed);
        self.subscriptions_max.store(limits.subscriptions_max.map_or(UNLIMITED, i64::from), Relaxed);
        let payload = limits.payload_max.map_or(UNLIMITED, |max| i64::try_from(max).unwrap_or(i64::MAX));
        self.payload_max.store(payload, Relaxed);
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        Limits {
            connections_max: u32::try_from(self.connections_max.load(Relaxed)).ok(),
            subscriptions_max: u32::try_from(self.subscriptions_max.load(Relaxed)).ok(),
            payload_max: usize::try_from(self.payload_max.load(Relaxed)).ok(),
        }
    }

    /// What is published to some subjects goes to others; `None` if nothing does.
    pub fn mappings(&self) -> Option<Arc<Mappings>> {
        self.mappings.read().clone()
    }

    /// Puts other mappings in force. Connections look at them when they are bound.
    pub fn set_mappings(&self, mappings: Mappings) {
        *self.mappings.write() = (!mappings.is_empty()).then(|| Arc::new(mappings));
    }

    /// Puts other imports of streams in the place of those that were.
    pub fn set_streams(&self, imports: Vec<Arc<StreamImport<S>>>)
    where
        S: Clone + PartialEq,
    {
        self.interest.set_streams(imports);
    }

    /// Counts a new connection in, unless the account is full.
    pub fn try_connect(&self) -> bool {
        let max = self.connections_max.load(Relaxed);
        let admitted = self.connections.fetch_update(Relaxed, Relaxed, |count| {
            (max == UNLIMITED || i64::from(count) < max).then_some(count + 1)
        });
        if admitted.is_ok() {
            self.connections_total.fetch_add(1, Relaxed);
        }
        admitted.is_ok()
    }

    /// Counts a connection out that `try_connect` had counted in.
    pub fn disconnect(&self) {
        let before = self.connections.fetch_sub(1, Relaxed);
        assert!(before > 0, "account {} has fewer connections than closed", self.name);
    }

    /// Connections now.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// Connections since the start.
    pub fn connections_total(&self) -> u64 {
        self.connections_total.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_admitted_up_to_the_limit() {
        let limits = Limits { connections_max: Some(2), ..Limits::default() };
        let account = Account::<u32>::new("A", false, limits);
        assert!(account.try_connect());
        assert!(account.try_connect());
        assert!(!account.try_connect());
        account.disconnect();
        assert!(account.try_connect());
        assert_eq!((account.connections(), account.connections_total()), (2, 3));
    }

    #[test]
    fn a_limit_of_zero_admits_nobody_and_none_everybody() {
        let account =
            Account::<u32>::new("A", false, Limits { connections_max: Some(0), ..Limits::default() });
        assert!(!account.try_connect());
        account.set_limits(Limits::default());
        assert!(account.try_connect());
        assert_eq!(account.limits(), Limits::default());
    }
}
