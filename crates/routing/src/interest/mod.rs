//! Interest of one account: the subscriptions of local clients and of peers, and what peers are told of the local ones.
//!
//! **Invariants.** The generation changes with every change of interest, so a cached plan is right as long as the generation it
//! was made at still stands. `announced` counts exactly the local subscriptions in the trie. A peer hears of every change in the
//! order in which it happened, because it is told under the lock that orders the changes; telling a peer only appends to a buffer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;
use subject::{InvalidSubject, Stats, Sublist};

use crate::deliver::{Plan, PlanBuilder};
use crate::imports::{StreamImport, Streams};
use crate::permission::DeliveryFilter;

/// Where a subscription's messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A client, or the server itself, on this server.
    Local,
    /// Something that stands here for another account: a subscription of its own, or the way back to it.
    Import,
    /// A service of another account: for what is published on this server, and nothing that peers have to know.
    Service,
    /// A peer of the cluster, which stands for `weight` members of a queue group or any number of plain subscribers.
    Route,
}

impl Side {
    /// Do peers have to know?
    fn is_announced(self) -> bool {
        matches!(self, Self::Local | Self::Import)
    }
}

/// One subscription. Shared between the trie, the owner's table and cached plans.
#[derive(Debug)]
pub struct Subscription<S> {
    /// Connection that receives.
    pub sink: S,
    /// Local or peer.
    pub side: Side,
    /// Subject, wildcards allowed.
    pub subject: Box<[u8]>,
    /// Queue group.
    pub queue: Option<Box<[u8]>>,
    /// The client's name for it; empty for a peer's.
    pub sid: Box<[u8]>,
    /// What a wildcard subscription must not be given.
    pub filter: Option<DeliveryFilter>,
    weight: AtomicU32,
    delivered: AtomicU64,
    max: AtomicU64,
}

impl<S> Subscription<S> {
    /// A subscription of a local connection.
    pub fn local(sink: S, subject: &[u8], queue: Option<&[u8]>, sid: &[u8]) -> Self {
        Self {
            sink,
            side: Side::Local,
            subject: subject.into(),
            queue: queue.map(Into::into),
            sid: sid.into(),
            filter: None,
            weight: AtomicU32::new(1),
            delivered: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }

    /// What stands for another account: peers are told of it like of any other.
    pub fn import(sink: S, subject: &[u8], queue: Option<&[u8]>, sid: &[u8]) -> Self {
        Self { side: Side::Import, ..Self::local(sink, subject, queue, sid) }
    }

    /// The subscription of a service of another account.
    pub fn service(sink: S, subject: &[u8]) -> Self {
        Self { side: Side::Service, ..Self::local(sink, subject, None, b"") }
    }

    /// A peer's interest; `weight` is its number of queue members.
    pub fn route(sink: S, subject: &[u8], queue: Option<(&[u8], u32)>) -> Self {
        let (queue, weight) = queue.map_or((None, 1), |(name, weight)| (Some(name), weight.max(1)));
        let subscription = Self::local(sink, subject, queue, b"");
        subscription.weight.store(weight, Ordering::Relaxed);
        Self { side: Side::Route, ..subscription }
    }

    /// Keeps denied subjects from a wildcard subscription.
    #[must_use]
    pub fn with_filter(self, filter: Option<DeliveryFilter>) -> Self {
        Self { filter, ..self }
    }

    /// The same subscription under another filter, with its counters.
    #[must_use]
    pub fn refiltered(&self, filter: Option<DeliveryFilter>) -> Self
    where
        S: Clone,
    {
        Self {
            sink: self.sink.clone(),
            side: self.side,
            subject: self.subject.clone(),
            queue: self.queue.clone(),
            sid: self.sid.clone(),
            filter,
            weight: AtomicU32::new(self.weight()),
            delivered: AtomicU64::new(self.delivered()),
            max: AtomicU64::new(self.max()),
        }
    }

    /// Members of the queue group it stands for.
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Messages delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Messages after which it ends by itself; zero for never.
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Asks for the end after `max` messages in all. False if those are delivered already.
    pub fn limit(&self, max: u64) -> bool {
        self.max.store(max, Ordering::Relaxed);
        self.delivered() < max
    }

    /// Counts one message in and says what its number means.
    #[inline]
    pub fn count(&self) -> Count {
        let number = self.delivered.fetch_add(1, Ordering::Relaxed) + 1;
        let max = self.max.load(Ordering::Relaxed);
        if max == 0 || number < max {
            Count::Deliver
        } else if number == max {
            Count::Last
        } else {
            Count::Over
        }
    }

    /// The filter's word on a message.
    #[inline]
    pub fn denies(&self, subject: &[u8]) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.denies(subject))
    }
}

/// Place of a message in the life of its subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// One of many.
    Deliver,
    /// Deliver, then remove the subscription.
    Last,
    /// Beyond the limit: do not deliver.
    Over,
}

/// What a peer is told of local interest. Implemented by the shell over a link's outbound buffer; must not block.
pub trait Announce: Send + Sync {
    /// There are now `count` local subscriptions (queue members where `queue` is given); zero ends the interest.
    fn interest(&self, account: &str, subject: &[u8], queue: Option<&[u8]>, count: u32);
    /// Identity, for removal.
    fn id(&self) -> u64;
}

/// Interest of one account.
pub struct Interest<S> {
    generation: AtomicU64,
    streams: Streams<S>,
    inner: RwLock<Inner<S>>,
}

struct Inner<S> {
    subscriptions: Sublist<Arc<Subscription<S>>>,
    announced: HashMap<Key, u32>,
    peers: Vec<Arc<dyn Announce>>,
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Key {
    subject: Box<[u8]>,
    queue: Option<Box<[u8]>>,
}

impl<S> std::fmt::Debug for Interest<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interest").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl<S> Default for Interest<S> {
    fn default() -> Self {
        let inner = Inner { subscriptions: Sublist::new(), announced: HashMap::new(), peers: Vec::new() };
        // Generation 0 is left to mean "no plan made yet".
        Self { generation: AtomicU64::new(1), streams: Streams::default(), inner: RwLock::new(inner) }
    }
}

impl<S: Clone + PartialEq> Interest<S> {
    /// Changes with every change of interest. Never zero.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Adds a subscription, tells the peers if it is local and they have to know, and follows the streams of other accounts
    /// that it overlaps.
    pub fn insert(&self, account: &str, subscription: &Arc<Subscription<S>>) -> Result<(), InvalidSubject> {
        self.insert_alone(account, subscription)?;
        if subscription.side == Side::Local && self.streams.is_active() {
            self.streams.follow(subscription);
        }
        Ok(())
    }

    /// The same without streams of other accounts.
    pub(crate) fn insert_alone(
        &self,
        account: &str,
        subscription: &Arc<Subscription<S>>,
    ) -> Result<(), InvalidSubject> {
        let mut inner = self.inner.write();
        let queue = subscription.queue.as_deref();
        inner.subscriptions.insert(&subscription.subject, queue, Arc::clone(subscription))?;
        // Before anybody is told: who hears of it and looks must not take an old plan for a new one.
        self.generation.fetch_add(1, Ordering::Release);
        if subscription.side.is_announced() {
            inner.announce(account, subscription, 1);
        }
        Ok(())
    }

    /// Removes a subscription; false if it was gone already.
    pub fn remove(&self, account: &str, subscription: &Arc<Subscription<S>>) -> bool {
        let removed = self.remove_alone(account, subscription);
        if removed && subscription.side == Side::Local && self.streams.is_active() {
            self.streams.leave(subscription);
        }
        removed
    }

    /// The same without streams of other accounts.
    pub(crate) fn remove_alone(&self, account: &str, subscription: &Arc<Subscription<S>>) -> bool {
        let mut inner = self.inner.write();
        let queue = subscription.queue.as_deref();
        let same = |other: &Arc<Subscription<S>>| Arc::ptr_eq(other, subscription);
        let removed = inner.subscriptions.remove(&subscription.subject, queue, same).is_some();
        if removed {
            self.generation.fetch_add(1, Ordering::Release);
            if subscription.side.is_announced() {
                inner.announce(account, subscription, -1);
            }
        }
        removed
    }

    /// Puts `new` in the place of `old`, so that no message falls between them. Both have the same subject and queue, so peers
    /// need not be told. False if the old one was gone already.
    pub fn replace(&self, old: &Arc<Subscription<S>>, new: &Arc<Subscription<S>>) -> bool {
        assert!(
            old.subject == new.subject && old.queue == new.queue,
            "a subscription replaced by another one"
        );
        let mut inner = self.inner.write();
        let queue = old.queue.as_deref();
        let same = |other: &Arc<Subscription<S>>| Arc::ptr_eq(other, old);
        let replaced = inner.subscriptions.remove(&old.subject, queue, same).is_some();
        if replaced {
            let inserted = inner.subscriptions.insert(&new.subject, queue, Arc::clone(new));
            assert!(inserted.is_ok(), "a subject that was in the trie is not valid");
            self.generation.fetch_add(1, Ordering::Release);
        }
        drop(inner);
        if replaced && self.streams.is_active() {
            self.streams.exchange(old, new);
        }
        replaced
    }

    /// Puts other imports of streams in the place of those that were.
    pub(crate) fn set_streams(&self, imports: Vec<Arc<StreamImport<S>>>) {
        self.streams.replace(imports, || {
            let mut originals = Vec::new();
            self.for_each(|subscription| {
                if subscription.side == Side::Local {
                    originals.push(Arc::clone(subscription));
                }
            });
            originals
        });
    }

    /// Sets the weight of a peer's queue interest.
    pub fn set_weight(&self, subscription: &Subscription<S>, weight: u32) {
        // The lock orders it with plans being made; plans keep the sum of weights, so they have to be made again.
        let _inner = self.inner.write();
        subscription.weight.store(weight.max(1), Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Tells a new peer all local interest, and every change from now on.
    pub fn attach(&self, account: &str, peer: Arc<dyn Announce>) {
        let mut inner = self.inner.write();
        for (key, count) in &inner.announced {
            peer.interest(account, &key.subject, key.queue.as_deref(), *count);
        }
        inner.peers.push(peer);
    }

    /// Stops telling a peer.
    pub fn detach(&self, id: u64) {
        self.inner.write().peers.retain(|peer| peer.id() != id);
    }

    /// Everybody who gets a message with this literal subject, with the generation for which that holds.
    pub fn plan(&self, literal: &[u8]) -> (u64, Plan<S>) {
        let mut plan = Plan::default();
        (self.plan_into(literal, &mut plan), plan)
    }

    /// The same into a plan that is there, whatever it was before.
    pub fn plan_into(&self, literal: &[u8], plan: &mut Plan<S>) -> u64 {
        plan.clear();
        let inner = self.inner.read();
        // Read under the lock: a change after it is a new generation.
        let generation = self.generation();
        inner.subscriptions.matching(literal, &mut PlanBuilder::new(plan));
        generation
    }

    /// Does anybody, here or on a peer, want this literal subject?
    pub fn has_interest(&self, literal: &[u8]) -> bool {
        self.inner.read().subscriptions.has_match(literal)
    }

    /// Number of subscriptions, local and of peers.
    pub fn len(&self) -> usize {
        self.inner.read().subscriptions.len()
    }

    /// Is there no interest at all?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters of the trie, for monitoring.
    pub fn stats(&self) -> Stats {
        self.inner.read().subscriptions.stats()
    }

    /// Visits every subscription, in the trie's order. The lock is held meanwhile: copy out, act later.
    pub fn for_each(&self, mut visit: impl FnMut(&Arc<Subscription<S>>)) {
        self.inner.read().subscriptions.for_each(|_, _, subscription| visit(subscription));
    }
}

impl<S> Inner<S> {
    fn announce(&mut self, account: &str, subscription: &Subscription<S>, change: i32) {
        let key = Key { subject: subscription.subject.clone(), queue: subscription.queue.clone() };
        let entry = self.announced.entry(key);
        let count = match &entry {
            hashbrown::hash_map::Entry::Occupied(occupied) => *occupied.get(),
            hashbrown::hash_map::Entry::Vacant(_) => 0,
        };
        let now = count.checked_add_signed(change);
        let Some(now) = now else { unreachable!("more local subscriptions removed than added") };
        if now == 0 {
            if let hashbrown::hash_map::Entry::Occupied(occupied) = entry {
                occupied.remove();
            }
        } else {
            entry.insert(now);
        }
        // A plain interest is announced once; a queue group's weight whenever it changes.
        if subscription.queue.is_some() || count == 0 || now == 0 {
            for peer in &self.peers {
                peer.interest(account, &subscription.subject, subscription.queue.as_deref(), now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
