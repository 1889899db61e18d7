//! One stream: what its leader checks, what its replicas apply, and what it answers.
//!
//! The methods come in four kinds. Getters change nothing. `handle_*` are what happens outside; only the leader gets them, and what must last goes
//! out as a proposal. `apply` takes back what the group has committed and is the only place that changes the store. `poll_timeout` says when
//! `handle_timeout` wants to be called; `turn` lets consumers deliver. All wishes go into `Effects`, which the shell empties after each call.
//!
//! Replay gives the same state: `apply` looks at the command, the store, the configuration and the consumers, never at the world. What the world
//! sees of it (answers, republished messages) only a leader tells.

mod ack;
mod apply;
mod batch;
mod checkpoint;
mod consumer_request;
mod consumers;
mod counter;
mod dedupe;
mod direct;
mod expiry;
pub mod facts;
mod flight;
mod get;
pub(crate) mod headers;
mod held;
pub(crate) mod info;
mod ingest;
mod purge;
mod republish;
mod request;
pub mod restore;
mod retention;
mod rules;
mod schedule;
mod sourced;
mod ttl;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::stream::{Retention, StreamConfig};
use store::stream::{Error as StoreError, State, StreamStore};
use store::{Timestamp, stream};

use crate::command::Command;
use crate::consumer::{Budget, Consumer};
use crate::effect::{Effect, Effects, Send};
use crate::outside::Outside;
use crate::request::{Request, Token};
use crate::source::mark::Positions;
use ack::PubAcks;
pub use ack::publish_error;
use batch::Batches;
pub use consumer_request::Incoming;
use consumers::Consumers;
use counter::Counters;
use dedupe::Dedupe;
use direct::Direct;
use expiry::Expiries;
use facts::{Identity, StreamFacts};
use flight::Flights;
use held::Held;
pub use ingest::Publish;
use rules::Rules;
use schedule::Schedules;
use sourced::Sources;

/// A stream with its consumers.
#[derive(Debug)]
pub struct Stream {
    facts: StreamFacts,
    /// What follows from the configuration.
    rules: Rules,
    store: Box<dyn StreamStore>,
    consumers: Consumers,
    schedules: Schedules,
    acks: PubAcks,
    /// Log index of the newest entry applied.
    applied: u64,
    /// The store is not to be believed any more.
    failed: Option<String>,
    /// What is proposed does not get anywhere any more. The store can be read.
    stopped: Option<String>,
    leading: bool,
    flights: Flights,
    /// Messages that wait for a removal in flight, and requests behind them.
    deferred: VecDeque<Deferred>,
    /// Pauses whose command is in flight: whom to answer, which consumer, until when.
    pauses: Vec<(Token, u64, api::Time)>,
    /// What is sent when a message in flight is stored, by its sequence.
    after: BTreeMap<u64, Vec<Send>>,
    waiting_sends: usize,
    dedupe: Dedupe,
    /// How far there are ids, as the last checkpoint has it.
    ids_saved: Option<u64>,
    /// Id of the newest message taken; empty if it had none.
    last_id: Vec<u8>,
    counters: Counters,
    batches: Batches,
    expiries: Expiries,
    held: Held,
    direct: Direct,
    /// Where messages come from while this replica leads.
    sources: Sources,
    /// How far they are, by what is stored.
    positions: Positions,
    usage: Charged,
    /// The configuration or the facts changed since the last checkpoint.
    dirty: bool,
    /// A command was applied since the last checkpoint.
    changed: bool,
    /// Nothing was ever applied.
    fresh: bool,
    /// It was told where to begin when it was last opened, or was emptied or restored, so it has a first sequence even if it never had a message.
    begun: bool,
    /// Last sequence of the store when it was opened: what is replayed is above, unless the store lost its checkpoint and kept its blocks.
    opened_at: u64,
}

/// Something that waits until a removal in flight is applied.
#[derive(Debug)]
enum Deferred {
    Publish(Publish),
    Request(Token, Box<Request>),
}

/// What this stream has added to the counters of account and server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Charged {
    bytes: u64,
    consumers: i64,
}

/// What opening a stream can stumble over.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A named value of the checkpoint cannot be read.
    #[error("item {name:?} of the checkpoint cannot be read: {reason}")]
    Item {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

impl Stream {
    /// A stream from its store and what the store's last checkpoint holds beside the messages. The configuration counts for a stream without a
    /// checkpoint only; it is shared with the caller as long as the stream has the same. The shell replays the log after it, then lets it lead.
    pub fn new(
        identity: Identity,
        config: impl Into<Arc<StreamConfig>>,
        store: Box<dyn StreamStore>,
        recovered: stream::Recovered,
    ) -> Result<Self, OpenError> {
        let fresh = recovered.applied == 0 && recovered.items.is_empty();
        let config = config.into();
        let saved = checkpoint::config(&recovered.items)?.filter(|saved| *saved != *config);
        let config = saved.map_or(config, Arc::new);
        let rules = Rules::new(&config);
        let window = config.duplicate_window.duration();
        let mut stream = Self {
            acks: PubAcks::new(&identity),
            facts: StreamFacts { identity, config },
            flights: Flights::new(store.state().last_sequence),
            opened_at: store.state().last_sequence,
            store,
            rules,
            consumers: Consumers::default(),
            schedules: Schedules::default(),
            applied: recovered.applied,
            failed: None,
            stopped: None,
            leading: false,
            deferred: VecDeque::new(),
            pauses: Vec::new(),
            after: BTreeMap::new(),
            waiting_sends: 0,
            dedupe: Dedupe::new(window),
            ids_saved: None,
            last_id: Vec::new(),
            counters: Counters::default(),
            batches: Batches::default(),
            expiries: Expiries::default(),
            held: Held::default(),
            direct: Direct::default(),
            sources: Sources::default(),
            positions: Positions::default(),
            usage: Charged::default(),
            dirty: fresh,
            changed: false,
            fresh,
            begun: false,
        };
        if fresh && stream.facts.config.first_seq > 1 {
            let below = stream.facts.config.first_seq - 1;
            stream.store.purge(&stream::Filter::All, below, &mut |_| {})?;
        }
        stream.restore(&recovered.items, !recovered.damage.is_empty())?;
        stream.restore_held()?;
        Ok(stream)
    }

    /// Account, name, configuration.
    pub fn facts(&self) -> &StreamFacts {
        &self.facts
    }

    /// Configuration in force.
    pub fn config(&self) -> &Arc<StreamConfig> {
        &self.facts.config
    }

    /// What the store holds.
    pub fn state(&self) -> State {
        self.store.state()
    }

    /// Messages, for reading only.
    pub fn store(&self) -> &dyn StreamStore {
        &*self.store
    }

    /// Log index of the newest entry applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Entries up to this index hold nothing more for the stream: those of Raft itself are not handed to it, but a checkpoint covers them.
    pub fn cover(&mut self, index: u64) {
        self.applied = self.applied.max(index);
    }

    /// Does this replica lead?
    pub fn is_leading(&self) -> bool {
        self.leading
    }

    /// Why the store is not to be believed any more, if it is not.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Its consumers, in the order of their making.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.consumers.iter()
    }

    /// The consumer of that name.
    pub fn consumer(&self, name: &str) -> Option<&Consumer> {
        self.consumers.find(name).and_then(|id| self.consumers.get(id))
    }

    /// Number of the consumer of that name. Its acknowledgements come under it.
    pub fn consumer_number(&self, name: &str) -> Option<u64> {
        self.consumers.find(name)
    }

    pub(crate) fn replicas(&self) -> usize {
        usize::try_from(self.facts.config.num_replicas).unwrap_or(1).max(1)
    }

    /// From now on this replica leads: everything committed so far is applied.
    pub fn lead(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        self.leading = true;
        self.flights = Flights::new(self.store.state().last_sequence);
        self.counters = Counters::default();
        self.settle(outside);
        self.begun |= self.facts.config.first_seq > 0;
        self.propose_first(effects);
        self.propose_beginning(effects);
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.lead(&mut ctx);
        self.start_sources(outside, effects);
        // What a consumer with state in memory had delivered is not known any more.
        let lost = self.consumers.volatile();
        self.propose_unused(effects, lost);
    }

    /// The first command of a stream is its own configuration: the catalogue may have a later one by the time the log is replayed, and what was
    /// removed by the rules of this one must not come back under the rules of that one.
    fn propose_first(&mut self, effects: &mut Effects) {
        // A stream that was made from an archive has a checkpoint before it leads.
        if self.fresh
            && self.store.state().messages == 0
            && let Ok(config) = serde_json::to_vec(&*self.facts.config)
        {
            Command::Update { config: &config }.encode(&mut effects.proposal);
            // Nobody waits for it and it changes nothing, like a command of a consumer.
            self.flights.push(flight::Flight::Consumer);
        }
    }

    /// An update may have told an empty stream to begin later than it does. It takes that up when it is opened the next time.
    fn propose_beginning(&mut self, effects: &mut Effects) {
        let (state, first) = (self.store.state(), self.facts.config.first_seq);
        if state.messages == 0 && first > state.last_sequence + 1 {
            Command::Purge { filter: b"", below: first, keep: 0 }.encode(&mut effects.proposal);
            self.flights.raise(first - 1);
            self.flights.push(flight::Flight::Removal(None));
        }
    }

    /// It has a first sequence from now on, whatever becomes of its messages.
    fn begin(&mut self) {
        self.dirty |= !self.begun;
        self.begun = true;
    }

    /// This replica leads no longer. Whoever waits hears nothing: what is in flight may still be committed.
    pub fn follow(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        self.leading = false;
        self.flights = Flights::new(self.store.state().last_sequence);
        self.deferred.clear();
        self.pauses.clear();
        self.after.clear();
        self.waiting_sends = 0;
        self.batches.close(outside);
        self.expiries = Expiries::default();
        self.direct = Direct::default();
        self.schedules.forget_fired();
        self.stop_sources(outside, effects);
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.follow(&mut ctx);
    }

    /// The server is about to end: clients that wait for messages are told, while they can be.
    pub fn take_leave(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.take_leave(&mut ctx);
    }

    /// The stream is deleted: its consumers tell those who wait, and its part of the counters is given back. The shell drops it then.
    pub fn delete(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        self.batches.close(outside);
        let leading = self.leading;
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.delete_all(&mut ctx, leading);
        self.remove_sources(outside, effects);
        self.charge(outside, Charged::default());
        self.leading = false;
    }

    /// When `handle_timeout` is due.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if !self.leading || self.failed.is_some() {
            return None;
        }
        let own = [
            self.expiry_timeout(),
            self.schedules.poll_timeout(),
            self.batches.poll_timeout(),
            self.sources.poll_timeout(),
        ];
        own.into_iter().flatten().chain(self.consumers.poll_timeout()).min()
    }

    /// Time has come for something.
    pub fn handle_timeout(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        if !self.leading || self.failed.is_some() {
            return;
        }
        self.expire_messages(outside, effects);
        self.fire_schedules(outside, effects);
        self.expire_batches(outside, effects);
        self.time_sources(outside, effects);
        let (consumers, mut ctx) = self.split(outside, effects);
        let unused = consumers.handle_timeout(&mut ctx);
        self.propose_unused(effects, unused);
    }

    /// Ends a turn: lets consumers deliver and long answers go on, both within the budget, and proposes what consumers did. True if there is more
    /// to do.
    pub fn turn(&mut self, outside: &mut dyn Outside, effects: &mut Effects, budget: &mut Budget) -> bool {
        if !self.leading || self.failed.is_some() {
            return false;
        }
        self.tell_damage(effects);
        let more_direct = self.continue_direct(effects, budget);
        let (consumers, mut ctx) = self.split(outside, effects);
        let more = consumers.deliver(&mut ctx, budget);
        self.propose_states(effects);
        // Where acknowledgements remove messages, somebody may wait for the room.
        let removes = self.facts.config.retention != Retention::Limits && !self.flights.is_empty();
        effects.awaited |= removes || self.flights.is_awaited();
        more || more_direct
    }

    /// Proposes what consumers did.
    fn propose_states(&mut self, effects: &mut Effects) {
        if self.stopped.is_some() {
            return self.consumers.drop_commands();
        }
        let flights = &mut self.flights;
        let proposed = || flights.push(flight::Flight::Consumer);
        effects.awaited |= self.consumers.take_commands(&mut effects.proposal, proposed);
    }

    /// Messages that could not be read back are lost, and that is told.
    fn tell_damage(&mut self, effects: &mut Effects) {
        for damage in self.store.take_damage() {
            effects.push(Effect::Damaged(format!("stream {:?}: {damage}", self.facts.name())));
        }
    }

    /// Brings the shared counters in line with what the store holds.
    pub(crate) fn settle(&mut self, outside: &dyn Outside) {
        let charged = Charged { bytes: self.store.state().bytes, consumers: self.consumers.len() as i64 };
        if charged != self.usage {
            self.charge(outside, charged);
        }
    }

    fn charge(&mut self, outside: &dyn Outside, now: Charged) {
        let limits = outside.limits();
        let storage = self.facts.config.storage;
        let replicas = self.replicas();
        let before = self.usage;
        let tier = limits.account_usage.tier(replicas);
        tier.used.replace(storage, before.bytes * replicas as u64, now.bytes * replicas as u64);
        limits.server_usage.used.replace(storage, before.bytes, now.bytes);
        if now.consumers != before.consumers {
            tier.consumers.fetch_add(now.consumers - before.consumers, Relaxed);
            limits.server_usage.consumers.fetch_add(now.consumers - before.consumers, Relaxed);
        }
        self.usage = now;
    }

    /// The store failed: nothing is believed and nothing accepted any more.
    pub(crate) fn fail(&mut self, effects: &mut Effects, reason: String) {
        let name = self.facts.name();
        effects.push(Effect::Damaged(format!("stream {name:?}: {reason}")));
        let error = ErrorCode::STREAM_STORE_FAILED.because(&reason);
        self.failed = Some(reason);
        self.refuse_requests(effects, &error);
        self.refuse_deferred(effects, &error);
    }

    /// What it proposes does not get anywhere any more: it takes no changes, and whoever waits for what is in flight to be read hears why. Whether that is
    /// stored nobody knows, so publishers of it hear nothing.
    pub fn stop_changes(&mut self, effects: &mut Effects, reason: &str) {
        self.stopped = Some(reason.to_owned());
        self.refuse_requests(effects, &ErrorCode::STREAM_OFFLINE_REASON.because(reason));
        self.refuse_deferred(effects, &ErrorCode::STREAM_STORE_FAILED.because(reason));
    }

    fn refuse_deferred(&mut self, effects: &mut Effects, error: &ApiError) {
        for deferred in std::mem::take(&mut self.deferred) {
            if let Deferred::Publish(publish) = deferred {
                self.refuse(effects, publish.reply, error);
            }
        }
    }
}
