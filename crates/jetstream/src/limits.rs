//! Limits of server and account, and the shared counters of what is used.
//!
//! Limits are a snapshot that the shell hands in for each call. Counters are shared by all streams of an account and of the server, which
//! live on different threads, so they are atomics. A stream that checks and then adds may race with another one; the excess is bounded by one
//! message for each thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use api::jetstream::feature::Features;
use api::jetstream::stream::Storage;

pub use crate::waiting::Waiting;

/// Most replicas of a stream, hence the number of tiers.
pub const REPLICAS_MAX: usize = 5;

/// Open atomic batches of one stream, unless configured.
const ATOMIC_PER_STREAM_DEFAULT: usize = 50;
/// Open atomic batches of the server, unless configured.
const ATOMIC_TOTAL_DEFAULT: i64 = 1_000;
/// Messages of one atomic batch, unless configured.
const ATOMIC_MESSAGES_DEFAULT: u64 = 1_000;
/// Open fast batches of one stream.
const FAST_PER_STREAM_DEFAULT: usize = 1_000;
/// Open fast batches of the server.
const FAST_TOTAL_DEFAULT: i64 = 50_000;
/// Life of a batch after its last message, unless configured.
const BATCH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Limits in force for one account on one server.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Of the server.
    pub server: ServerLimits,
    /// Of the account.
    pub account: AccountLimits,
    /// What the server uses.
    pub server_usage: Arc<ServerUsage>,
    /// What the account uses.
    pub account_usage: Arc<AccountUsage>,
}

/// Limits of one server. `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of memory streams.
    pub memory_bytes_max: u64,
    /// Bytes of file streams.
    pub storage_bytes_max: u64,
    /// Longest duplicate window of a stream.
    pub duplicate_window_max: Option<Duration>,
    /// `max_ack_pending` of a consumer.
    pub ack_pending_max: Option<i64>,
    /// `max_request_batch` of a consumer.
    pub request_batch_max: Option<i64>,
    /// `max_consumers` of a stream that does not say.
    pub consumers_default: Option<i64>,
    /// Memory for what waits for clients, in bytes.
    pub waiting_bytes_max: u64,
    /// Batches.
    pub batch: BatchLimits,
    /// Options beyond the reference that all servers know which may hold a replica of a stream.
    pub features: Features,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            memory_bytes_max: u64::MAX,
            storage_bytes_max: u64::MAX,
            duplicate_window_max: None,
            ack_pending_max: None,
            request_batch_max: None,
            consumers_default: None,
            waiting_bytes_max: u64::MAX,
            batch: BatchLimits::default(),
            features: Features::OWN,
        }
    }
}

impl ServerLimits {
    /// Bytes of streams of this storage.
    pub fn bytes_max(&self, storage: Storage) -> u64 {
        match storage {
            Storage::File => self.storage_bytes_max,
            Storage::Memory => self.memory_bytes_max,
        }
    }
}

/// Limits of batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchLimits {
    /// Open atomic batches of one stream.
    pub atomic_per_stream: usize,
    /// Open atomic batches of the server.
    pub atomic_total: i64,
    /// Messages of one atomic batch.
    pub atomic_messages: u64,
    /// Open fast batches of one stream.
    pub fast_per_stream: usize,
    /// Open fast batches of the server.
    pub fast_total: i64,
    /// Life of a batch after its last message.
    pub timeout: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            atomic_per_stream: ATOMIC_PER_STREAM_DEFAULT,
            atomic_total: ATOMIC_TOTAL_DEFAULT,
            atomic_messages: ATOMIC_MESSAGES_DEFAULT,
            fast_per_stream: FAST_PER_STREAM_DEFAULT,
            fast_total: FAST_TOTAL_DEFAULT,
            timeout: BATCH_TIMEOUT_DEFAULT,
        }
    }
}

/// Limits of one account: the same for all streams, or one set for each number of replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountLimits {
    /// For all streams together.
    Flat(TierLimits),
    /// By number of replicas less one; `None` forbids streams with that many.
    Tiered(Box<[Option<TierLimits>; REPLICAS_MAX]>),
}

impl Default for AccountLimits {
    fn default() -> Self {
        Self::Flat(TierLimits::default())
    }
}

impl AccountLimits {
    /// Limits for a stream with this many replicas, if it may exist.
    pub fn tier(&self, replicas: usize) -> Option<&TierLimits> {
        match self {
            Self::Flat(limits) => Some(limits),
            Self::Tiered(tiers) => tiers.get(replicas.max(1) - 1)?.as_ref(),
        }
    }

    /// Are there limits by number of replicas?
    pub fn is_tiered(&self) -> bool {
        matches!(self, Self::Tiered(_))
    }
}

/// One set of limits of an account. Negative is no limit, as in the documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierLimits {
    /// Bytes of memory streams.
    pub memory_bytes_max: i64,
    /// Bytes of file streams.
    pub storage_bytes_max: i64,
    /// Streams.
    pub streams_max: i64,
    /// Consumers of one stream.
    pub consumers_max: i64,
    /// `max_ack_pending` of a consumer.
    pub ack_pending_max: i64,
    /// `max_bytes` of one memory stream; zero is no limit too.
    pub memory_stream_bytes_max: i64,
    /// `max_bytes` of one file stream; zero is no limit too.
    pub storage_stream_bytes_max: i64,
    /// A stream must have `max_bytes`.
    pub bytes_required: bool,
}

impl Default for TierLimits {
    fn default() -> Self {
        Self {
            memory_bytes_max: -1,
            storage_bytes_max: -1,
            streams_max: -1,
            consumers_max: -1,
            ack_pending_max: -1,
            memory_stream_bytes_max: -1,
            storage_stream_bytes_max: -1,
            bytes_required: false,
        }
    }
}

impl TierLimits {
    /// Bytes of streams of this storage; negative is no limit.
    pub fn bytes_max(&self, storage: Storage) -> i64 {
        match storage {
            Storage::File => self.storage_bytes_max,
            Storage::Memory => self.memory_bytes_max,
        }
    }

    /// `max_bytes` of one stream of this storage; below one is no limit.
    pub fn stream_bytes_max(&self, storage: Storage) -> i64 {
        match storage {
            Storage::File => self.storage_stream_bytes_max,
            Storage::Memory => self.memory_stream_bytes_max,
        }
    }
}

/// Bytes by kind of storage.
#[derive(Debug, Default)]
pub struct Bytes {
    memory: AtomicU64,
    storage: AtomicU64,
}

impl Bytes {
    fn of(&self, storage: Storage) -> &AtomicU64 {
        match storage {
            Storage::File => &self.storage,
            Storage::Memory => &self.memory,
        }
    }

    /// How many.
    pub fn get(&self, storage: Storage) -> u64 {
        self.of(storage).load(Relaxed)
    }

    /// Replaces what one user had (`before`) by what it has now.
    pub fn replace(&self, storage: Storage, before: u64, after: u64) {
        if after >= before {
            self.of(storage).fetch_add(after - before, Relaxed);
        } else {
            self.of(storage).fetch_sub(before - after, Relaxed);
        }
    }
}

/// What all streams of one server use.
#[derive(Debug, Default)]
pub struct ServerUsage {
    /// Held by messages.
    pub used: Bytes,
    /// Promised to streams with `max_bytes`.
    pub reserved: Bytes,
    /// Streams.
    pub streams: AtomicI64,
    /// Consumers.
    pub consumers: AtomicI64,
    /// Open atomic batches.
    pub atomic_batches: AtomicI64,
    /// Open fast batches.
    pub fast_batches: AtomicI64,
    /// Memory for what waits for clients.
    pub waiting: Waiting,
}

/// What the streams of one account with the same number of replicas use.
#[derive(Debug, Default)]
pub struct TierUsage {
    /// Held by messages.
    pub used: Bytes,
    /// Promised to streams with `max_bytes`.
    pub reserved: Bytes,
    /// Streams.
    pub streams: AtomicI64,
    /// Consumers.
    pub consumers: AtomicI64,
}

/// What one account uses. Bytes are counted once for each replica.
#[derive(Debug, Default)]
pub struct AccountUsage {
    tiers: [TierUsage; REPLICAS_MAX],
}

impl AccountUsage {
    /// The part of streams with this many replicas.
    pub fn tier(&self, replicas: usize) -> &TierUsage {
        &self.tiers[replicas.clamp(1, REPLICAS_MAX) - 1]
    }

    /// Bytes held, over all tiers.
    pub fn used(&self, storage: Storage) -> u64 {
        self.tiers.iter().map(|tier| tier.used.get(storage)).sum()
    }

    /// Bytes promised, over all tiers.
    pub fn reserved(&self, storage: Storage) -> u64 {
        self.tiers.iter().map(|tier| tier.reserved.get(storage)).sum()
    }

    /// Streams, over all tiers.
    pub fn streams(&self) -> i64 {
        self.tiers.iter().map(|tier| tier.streams.load(Relaxed)).sum()
    }

    /// Consumers, over all tiers.
    pub fn consumers(&self) -> i64 {
        self.tiers.iter().map(|tier| tier.consumers.load(Relaxed)).sum()
    }
}

impl Limits {
    /// Would `size` more bytes of a stream with this many replicas exceed what the account may hold?
    pub fn account_exceeded(&self, storage: Storage, replicas: usize, size: u64) -> bool {
        let Some(tier) = self.account.tier(replicas) else { return true };
        let Ok(max) = u64::try_from(tier.bytes_max(storage)) else { return false };
        let used = if self.account.is_tiered() {
            self.account_usage.tier(replicas).used.get(storage)
        } else {
            self.account_usage.used(storage)
        };
        used.saturating_add(size.saturating_mul(replicas as u64)) > max
    }

    /// Is the memory for what waits used up?
    pub fn waiting_exceeded(&self) -> bool {
        self.server_usage.waiting.bytes() >= self.server.waiting_bytes_max
    }

    /// Would `size` more bytes exceed what the server may hold?
    pub fn server_exceeded(&self, storage: Storage, size: u64) -> bool {
        let max = self.server.bytes_max(storage);
        max != u64::MAX && self.server_usage.used.get(storage).saturating_add(size) > max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_limit_counts_replicas_and_all_tiers() {
        let mut limits = Limits::default();
        limits.account_usage.tier(1).used.replace(Storage::File, 0, 100);
        limits.account_usage.tier(3).used.replace(Storage::File, 0, 300);
        assert!(!limits.account_exceeded(Storage::File, 3, 1 << 40));
        limits.account = AccountLimits::Flat(TierLimits { storage_bytes_max: 430, ..TierLimits::default() });
        assert!(!limits.account_exceeded(Storage::File, 3, 10));
        assert!(limits.account_exceeded(Storage::File, 3, 11));
        limits.account_usage.tier(3).used.replace(Storage::File, 300, 0);
        assert!(!limits.account_exceeded(Storage::File, 1, 330));
        assert!(limits.account_exceeded(Storage::File, 1, 331));
    }

    #[test]
    fn tier_without_limits_forbids() {
        let mut tiers = [const { None }; REPLICAS_MAX];
        tiers[0] = Some(TierLimits { memory_bytes_max: 5, ..TierLimits::default() });
        let limits = Limits { account: AccountLimits::Tiered(Box::new(tiers)), ..Limits::default() };
        assert!(!limits.account_exceeded(Storage::Memory, 1, 5));
        assert!(limits.account_exceeded(Storage::Memory, 1, 6));
        assert!(limits.account_exceeded(Storage::Memory, 3, 0));
    }
}
