//! A consumer with its stream, as a stream machine would drive it: proposals lie in a log and are applied when the test says so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::jetstream::consumer::ConsumerConfig;
use api::jetstream::stream::{Retention, StreamConfig};
use bytes::{Bytes, BytesMut};
use jetstream::consumer::{AckSubject, Acknowledgement, Applied, Budget, Consumer, Context, RemoveReason};
use jetstream::effect::{Deliver, Effect, Effects};
use jetstream::limits::Limits;
use jetstream::outside::Outside;
use jetstream::stream::facts::{Identity, StreamFacts};
use store::Timestamp;
use store::stream::{Append, Expiry, Filter, MemoryStore, StreamStore};

/// When tests begin.
pub(crate) const START: i64 = 1_000_000_000_000;

/// The world of a test.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    /// Subjects somebody listens to.
    pub(crate) interest: BTreeSet<Vec<u8>>,
    seed: u64,
    limits: Limits,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self { now: Timestamp(START), interest: BTreeSet::new(), seed, limits: Limits::default() }
    }
}

impl Outside for World {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn has_group_interest(&self, subject: &[u8], _group: &[u8]) -> bool {
        self.has_interest(subject)
    }

    fn has_interest(&self, subject: &[u8]) -> bool {
        self.interest.contains(subject)
    }

    fn random(&mut self) -> u64 {
        // splitmix64
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.seed;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// An entry of the log.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Append { subject: Vec<u8>, headers: Bytes, payload: Vec<u8>, at: Timestamp },
    Remove { sequence: u64, reason: RemoveReason },
    PurgeUpTo(u64),
    Update(Arc<ConsumerConfig>),
    Reset(u64),
    Command(Bytes),
}

/// A replica of stream and consumer.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) store: MemoryStore,
    pub(crate) facts: StreamFacts,
    pub(crate) consumer: Consumer,
    pub(crate) effects: Effects,
    /// Entries applied.
    pub(crate) applied: usize,
    /// Sequences reported as not needed any more.
    pub(crate) acked: BTreeSet<u64>,
}

pub(crate) fn facts(retention: Retention) -> StreamFacts {
    let identity =
        Identity { account: "A".into(), name: "S".into(), group: 1, domain: None, created: Timestamp(START) };
    StreamFacts { identity, config: Arc::new(StreamConfig { retention, ..StreamConfig::default() }) }
}

impl Replica {
    /// A stream with what `log` holds before the consumer is made.
    pub(crate) fn new(
        world: &mut World,
        retention: Retention,
        config: &ConsumerConfig,
        log: &[Entry],
    ) -> Self {
        let facts = facts(retention);
        let mut store = MemoryStore::default();
        for entry in log {
            change(&mut store, entry);
        }
        let mut effects = Effects::default();
        let mut ctx = Context { outside: world, effects: &mut effects, store: &store, facts: &facts };
        let consumer =
            Consumer::new(&mut ctx, "c".into(), Arc::new(config.clone()), Timestamp(START)).unwrap();
        Self { store, facts, consumer, effects, applied: log.len(), acked: BTreeSet::new() }
    }

    /// The replica after a restart: its state as in a checkpoint, its store as at that time.
    pub(crate) fn restore(
        retention: Retention,
        state: &[u8],
        log: &[Entry],
        removed: &BTreeSet<u64>,
    ) -> Self {
        let mut store = MemoryStore::default();
        for entry in log {
            change(&mut store, entry);
        }
        for sequence in removed {
            store.remove(*sequence, false).unwrap();
        }
        let consumer = Consumer::restore(state).unwrap();
        let facts = facts(retention);
        let (effects, acked) = (Effects::default(), removed.clone());
        Self { store, facts, consumer, effects, applied: log.len(), acked }
    }

    pub(crate) fn with<T>(
        &mut self,
        world: &mut World,
        call: impl FnOnce(&mut Consumer, &mut Context<'_>) -> T,
    ) -> T {
        let Self { store, facts, consumer, effects, .. } = self;
        let mut ctx = Context { outside: world, effects, store, facts };
        call(consumer, &mut ctx)
    }

    /// Applies the next entry of the log.
    pub(crate) fn apply(&mut self, world: &mut World, entry: &Entry, live: bool) {
        self.applied += 1;
        match entry {
            Entry::Append { .. } => {
                change(&mut self.store, entry);
                self.consumer.handle_appended();
            }
            Entry::Remove { sequence, reason } => self.remove(world, *sequence, *reason),
            Entry::PurgeUpTo(up_to) => {
                change(&mut self.store, entry);
                self.with(world, |consumer, ctx| consumer.handle_purged(ctx, *up_to));
            }
            Entry::Update(config) => {
                self.with(world, |consumer, ctx| consumer.update(ctx, config.clone())).unwrap();
            }
            Entry::Reset(start) => self.with(world, |consumer, ctx| consumer.reset(ctx, *start)),
            Entry::Command(command) => {
                let Applied { acked, .. } =
                    self.with(world, |consumer, ctx| consumer.apply(ctx, command, live)).unwrap();
                for sequence in acked.into_iter().flatten() {
                    self.acked.insert(sequence);
                    self.release(world, sequence);
                }
            }
        }
    }

    fn remove(&mut self, world: &mut World, sequence: u64, reason: RemoveReason) {
        if let Some(removed) = self.store.remove(sequence, false).unwrap() {
            self.with(world, |consumer, ctx| consumer.handle_removed(ctx, &removed, reason));
        }
    }

    /// Removes a message that nobody needs, as a stream with interest does.
    fn release(&mut self, world: &mut World, sequence: u64) {
        if self.facts.config.retention == Retention::Limits {
            return;
        }
        let Some(subject) = self.store.subject_of(sequence).unwrap() else { return };
        if !self.consumer.needs(sequence, &subject) {
            self.remove(world, sequence, RemoveReason::Acked);
        }
    }

    pub(crate) fn state(&self) -> Vec<u8> {
        let mut state = Vec::new();
        self.consumer.encode_state(&mut state);
        state
    }
}

fn change(store: &mut MemoryStore, entry: &Entry) {
    match entry {
        Entry::Append { subject, headers, payload, at } => {
            let sequence = store.state().last_sequence + 1;
            let (timestamp, expiry) = (*at, Expiry::default());
            store.append(Append { sequence, timestamp, subject, headers, payload, expiry }).unwrap();
        }
        Entry::Remove { sequence, .. } => {
            store.remove(*sequence, false).unwrap();
        }
        Entry::PurgeUpTo(up_to) => store.purge(&Filter::All, *up_to, &mut |_| {}).unwrap(),
        Entry::Update(_) | Entry::Reset(_) | Entry::Command(_) => {}
    }
}

/// A leader with its log.
#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) world: World,
    pub(crate) replica: Replica,
    pub(crate) log: Vec<Entry>,
    pub(crate) retention: Retention,
    pub(crate) budget: Budget,
}

impl Harness {
    pub(crate) fn new(seed: u64, retention: Retention, config: &ConsumerConfig, log: Vec<Entry>) -> Self {
        let mut world = World::new(seed);
        let mut replica = Replica::new(&mut world, retention, config, &log);
        replica.with(&mut world, |consumer, ctx| consumer.lead(ctx));
        let budget = Budget { messages: 1_000_000, bytes: u64::MAX };
        Self { world, replica, log, retention, budget }
    }

    pub(crate) fn append_entry(&self, subject: &str, payload: &[u8]) -> Entry {
        Entry::Append {
            subject: subject.into(),
            headers: Bytes::new(),
            payload: payload.into(),
            at: self.world.now,
        }
    }

    pub(crate) fn with<T>(&mut self, call: impl FnOnce(&mut Consumer, &mut Context<'_>) -> T) -> T {
        self.replica.with(&mut self.world, call)
    }

    /// Ends a turn: deliveries, then one command. Gives whether more could be delivered.
    pub(crate) fn turn(&mut self) -> bool {
        let mut budget = self.budget;
        let more = self.with(|consumer, ctx| consumer.deliver(ctx, &mut budget));
        let mut command = BytesMut::new();
        if self.replica.consumer.take_command(&mut command) {
            self.log.push(Entry::Command(command.freeze()));
        }
        more
    }

    /// Applies what lies in the log.
    pub(crate) fn apply_all(&mut self) {
        while self.replica.applied < self.log.len() {
            self.apply_one();
        }
    }

    pub(crate) fn apply_one(&mut self) {
        let Some(entry) = self.log.get(self.replica.applied).cloned() else { return };
        self.replica.apply(&mut self.world, &entry, true);
    }

    /// Turns and applies until nothing moves.
    pub(crate) fn settle(&mut self) {
        while self.turn() || self.replica.applied < self.log.len() || self.replica.consumer.is_ready() {
            self.apply_all();
        }
    }

    /// Goes to the next timeout up to `end`; false if there is none.
    pub(crate) fn step_to(&mut self, end: Timestamp) -> bool {
        let due = self.replica.consumer.poll_timeout().filter(|due| *due <= end);
        self.world.now = self.world.now.max(due.unwrap_or(end));
        if due.is_none() {
            return false;
        }
        self.with(|consumer, ctx| consumer.handle_timeout(ctx));
        self.settle();
        true
    }

    /// Lets time pass, with all timeouts on the way.
    pub(crate) fn advance(&mut self, time: Duration) {
        let end = self.world.now.saturating_add(time);
        while self.step_to(end) {}
    }

    pub(crate) fn pull(&mut self, reply: &str, body: &str) {
        self.world.interest.insert(reply.into());
        let reply = Bytes::copy_from_slice(reply.as_bytes());
        self.with(|consumer, ctx| consumer.handle_pull(ctx, &reply, &[], body.as_bytes()));
    }

    pub(crate) fn ack(&mut self, subject: &[u8], body: &[u8], reply: Option<&str>) {
        let tokens = AckSubject::parse(subject).unwrap().tokens.unwrap();
        let reply = reply.map(|reply| Bytes::copy_from_slice(reply.as_bytes()));
        let ack = Acknowledgement { consumer: 0, tokens, reply: reply.as_ref(), body };
        self.with(|consumer, ctx| consumer.handle_ack(ctx, &ack));
    }

    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        self.replica.effects.queue.drain(..).collect()
    }

    /// Deliveries since the last call. Everything else is dropped.
    pub(crate) fn deliveries(&mut self) -> Vec<Deliver> {
        let delivered = |effect| match effect {
            Effect::Deliver(deliver) => Some(deliver),
            _ => None,
        };
        self.effects().into_iter().filter_map(delivered).collect()
    }
}
