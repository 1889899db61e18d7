//! Which streams and consumers there are, for the threads that have to find their shard.
//!
//! The shards own the machines; this is only the way to them. A shard changes its own entries, connections and the API read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use api::jetstream::consumer::ConsumerConfig;
use api::jetstream::stream::{Storage, StreamConfig};
use arc_swap::ArcSwap;
use hashbrown::HashMap;
use jetstream::limits::{AccountUsage, Limits};
use parking_lot::{Mutex, RwLock};

use super::accounts::ApiInterest;
use super::inbox::Inbox;
use super::letters::{Announced, letters_of};
use super::watch::Watchers;
use crate::net::sink::{Account, Subscription};

/// One consumer of a stream.
#[derive(Debug, Clone)]
pub struct ConsumerEntry {
    /// Its number in the stream.
    pub number: u64,
    /// Configuration in force.
    pub config: Arc<ConsumerConfig>,
}

/// One stream of an account.
#[derive(Debug)]
pub struct StreamEntry {
    /// Its name.
    pub name: Box<str>,
    /// Its group, which names it in its shard and on disk.
    pub group: u64,
    /// Inbox of its shard.
    pub inbox: Arc<Inbox>,
    /// The account it is in.
    pub account: Arc<AccountEntry>,
    /// Its consumers by name. They change by [`Self::put_consumer`] and [`Self::drop_consumer`].
    pub consumers: RwLock<HashMap<Box<str>, ConsumerEntry>>,
    /// Configuration in force.
    pub config: ArcSwap<StreamConfig>,
    /// Interest that brings it its messages.
    pub subscriptions: Mutex<Vec<Arc<Subscription>>>,
    /// Number of its sink among the connections.
    pub sink: u64,
    /// What tells it from another stream of its name.
    pub identity: Box<str>,
    /// It is a mirror that has caught up and answers direct gets for its origin.
    pub answers_for_origin: AtomicBool,
}

impl StreamEntry {
    /// There is a consumer of this name now, or it is another one.
    pub fn put_consumer(&self, name: Box<str>, entry: ConsumerEntry) {
        let writes = letters_of(&entry.config).is_some();
        let before = self.consumers.write().insert(name, entry);
        let wrote = before.is_some_and(|before| letters_of(&before.config).is_some());
        self.account.count_writers(wrote, writes);
    }

    /// There is no consumer of this name any more.
    pub fn drop_consumer(&self, name: &str) {
        let before = self.consumers.write().remove(name);
        let wrote = before.is_some_and(|before| letters_of(&before.config).is_some());
        self.account.count_writers(wrote, false);
    }
}

impl Drop for StreamEntry {
    fn drop(&mut self) {
        for known in self.consumers.get_mut().values() {
            self.account.count_writers(letters_of(&known.config).is_some(), false);
        }
    }
}

/// Counters of API requests.
#[derive(Debug, Default)]
pub struct ApiCounters {
    /// Requests.
    pub total: AtomicU64,
    /// Requests answered with an error.
    pub errors: AtomicU64,
    /// Requests that wait for their answer.
    pub inflight: AtomicU64,
}

/// JetStream of one account. It stays when a reload takes JetStream from the account, so that what it has is there when another one gives it
/// back.
#[derive(Debug)]
pub struct AccountEntry {
    /// The account.
    pub account: Arc<Account>,
    /// Its streams by name.
    pub streams: RwLock<HashMap<Box<str>, Arc<StreamEntry>>>,
    /// Its use of storage, shared with the machines.
    pub usage: Arc<AccountUsage>,
    /// Limits in force.
    pub limits: ArcSwap<Limits>,
    /// Deliver subjects that consumers wait for.
    pub watchers: Arc<Watchers>,
    /// Its API requests.
    pub api: ApiCounters,
    /// Consumers that write dead letters, so that who makes a stream need not look for them.
    letter_writers: AtomicUsize,
    /// Changes that may lead dead letters elsewhere and are not in force.
    pub(super) announced: Announced,
    /// Interest in requests.
    pub(super) interest: Mutex<ApiInterest>,
    enabled: AtomicBool,
}

impl AccountEntry {
    /// A mirror that answers direct gets for the stream of that name.
    pub fn mirror_of(&self, origin: &[u8]) -> Option<Arc<StreamEntry>> {
        let streams = self.streams.read();
        let answers = |stream: &&Arc<StreamEntry>| {
            stream.answers_for_origin.load(Ordering::Relaxed)
                && stream.config.load().mirror.as_ref().is_some_and(|mirror| mirror.name.as_bytes() == origin)
        };
        streams.values().find(answers).cloned()
    }

    /// An account without JetStream.
    pub(super) fn new(account: Arc<Account>, watchers: Arc<Watchers>) -> Self {
        Self {
            account,
            streams: RwLock::default(),
            usage: Arc::default(),
            limits: ArcSwap::default(),
            watchers,
            api: ApiCounters::default(),
            letter_writers: AtomicUsize::new(0),
            announced: Announced::default(),
            interest: Mutex::default(),
            enabled: AtomicBool::new(false),
        }
    }

    /// May a consumer of any stream write dead letters?
    pub(super) fn has_letter_writers(&self) -> bool {
        self.letter_writers.load(Ordering::Acquire) > 0
    }

    /// A consumer did or did not write dead letters, and does or does not now.
    fn count_writers(&self, wrote: bool, writes: bool) {
        match (wrote, writes) {
            (false, true) => self.letter_writers.fetch_add(1, Ordering::AcqRel),
            (true, false) => self.letter_writers.fetch_sub(1, Ordering::AcqRel),
            _ => return,
        };
    }

    /// Has the account JetStream now?
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Gives it JetStream or takes it. True if that changes anything.
    pub(super) fn set_enabled(&self, enabled: bool) -> bool {
        self.enabled.swap(enabled, Ordering::AcqRel) != enabled
    }

    /// Bytes promised to streams with `max_bytes`, once for each replica.
    pub fn reserved(&self, storage: Storage) -> u64 {
        let streams = self.streams.read();
        let promised = streams.values().map(|stream| {
            let config = stream.config.load();
            let replicas = u64::try_from(config.num_replicas).unwrap_or(1).max(1);
            let bytes = u64::try_from(config.max_bytes).unwrap_or(0);
            if config.storage == storage { bytes.saturating_mul(replicas) } else { 0 }
        });
        promised.fold(0, u64::saturating_add)
    }

    /// The stream of that name.
    pub fn stream(&self, name: &[u8]) -> Option<Arc<StreamEntry>> {
        let name = std::str::from_utf8(name).ok()?;
        self.streams.read().get(name).cloned()
    }

    /// All streams, by name.
    pub fn sorted(&self) -> Vec<Arc<StreamEntry>> {
        let mut streams: Vec<_> = self.streams.read().values().cloned().collect();
        streams.sort_by(|a, b| a.name.cmp(&b.name));
        streams
    }
}

/// All accounts, with JetStream and without.
#[derive(Debug, Default)]
pub struct Directory {
    accounts: RwLock<HashMap<Box<str>, Arc<AccountEntry>>>,
}

impl Directory {
    /// The account of that name, if it has JetStream.
    pub fn account(&self, name: &str) -> Option<Arc<AccountEntry>> {
        self.entry(name).filter(|entry| entry.is_enabled())
    }

    /// The account of that name, even if it has no JetStream.
    pub fn entry(&self, name: &str) -> Option<Arc<AccountEntry>> {
        self.accounts.read().get(name).cloned()
    }

    /// Adds an account.
    pub fn insert(&self, entry: Arc<AccountEntry>) {
        let name = entry.account.name().into();
        self.accounts.write().insert(name, entry);
    }

    /// All accounts that have JetStream, by name.
    pub fn accounts(&self) -> Vec<Arc<AccountEntry>> {
        let mut accounts = self.entries();
        accounts.retain(|entry| entry.is_enabled());
        accounts
    }

    /// All accounts, by name.
    pub fn entries(&self) -> Vec<Arc<AccountEntry>> {
        let mut accounts: Vec<_> = self.accounts.read().values().cloned().collect();
        accounts.sort_by(|a, b| a.account.name().cmp(b.account.name()));
        accounts
    }
}
