//! A shard: a thread that owns streams with their consumers and groups, and works in turns.
//!
//! A turn takes a part of what waits in the inbox, lets the machines work, hands their commands to their groups, applies what is committed,
//! and pays once for what can be shared: one batch to the log, one flush per receiver.

pub mod call;
mod direct;
mod finish;
mod handle;
pub mod hosted;
pub mod open;
pub mod outgoing;
mod rest;
mod settle;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use jetstream::Request;
use multiraft::{GroupId, Node, NodeConfig, PeerId, Ticket};
use store::Timestamp;
use store::stream::{CheckpointDone, Error as StoreError};

pub use call::{Call, Respond};
pub use hosted::Hosted;
pub use open::StreamSpec;
pub use outgoing::{Outbound, Outgoing};

use super::Shared;
use super::catalogue::{CatalogueRequest, Keeper};
use super::inbox::{Ack, Inbound, Inbox};
use super::log_thread::{Batch, Record};
use crate::clock;

/// Bytes that may be on their way to the log before clients' messages are held back.
const UNSYNCED_BYTES_MAX: u64 = 64 << 20;

/// A part of the log that was asked for, by group and ticket.
pub type Persisted = (GroupId, Ticket);

/// What nobody waits for may wait so long for company on its way to the log: one sync then does for many acknowledgements of messages.
const COMPANY_WITHIN: Duration = Duration::from_millis(2);
/// Unless it is more than this.
const LONELY_BYTES_MAX: u64 = 1 << 20;

/// A turn with more inputs than this leaves the log to its thread: there is work to do meanwhile.
const IN_PLACE_INPUTS: usize = 8;

/// Something that happens to a shard.
#[derive(Debug)]
pub enum Input {
    /// A message for a stream.
    Publish {
        /// Its group.
        group: u64,
        /// The message.
        message: Inbound,
    },
    /// A message that found no room: its publisher is told.
    Refuse {
        /// Group of the stream.
        group: u64,
        /// Where the publisher waits.
        reply: Bytes,
    },
    /// `CONSUMER.MSG.NEXT`.
    Pull {
        /// Group of the stream.
        group: u64,
        /// The request.
        message: Inbound,
    },
    /// An acknowledgement.
    Ack {
        /// Group of the stream.
        group: u64,
        /// The acknowledgement.
        ack: Ack,
    },
    /// An answer to a flow control request.
    FlowControl {
        /// Group of the stream.
        group: u64,
        /// The answer.
        message: Inbound,
    },
    /// `DIRECT.GET`.
    DirectGet {
        /// Group of the stream.
        group: u64,
        /// The request.
        message: Inbound,
    },
    /// Something for a mirror or source.
    Sourced {
        /// Group of the stream.
        group: u64,
        /// Number of the subscription that it came over.
        inbox: u64,
        /// The message.
        message: Inbound,
    },
    /// A request that the stream answers itself.
    Request {
        /// Group of the stream.
        group: u64,
        /// The request.
        request: Box<Request>,
        /// What to do with the answer.
        respond: Respond,
    },
    /// An info or list for monitoring: of what is there now, whatever is on its way to the log.
    Glance {
        /// Group of the stream.
        group: u64,
        /// The request.
        request: Box<Request>,
        /// What to do with the answer.
        respond: Respond,
    },
    /// Interest in a watched subject changed.
    Interest {
        /// Group of the stream whose consumer watches it.
        group: u64,
        /// The subject.
        subject: Bytes,
    },
    /// What was written is on stable storage.
    Persisted {
        /// What.
        persisted: Vec<Persisted>,
        /// Bytes of it.
        bytes: u64,
    },
    /// The log has failed; nothing that waits for it will be acknowledged.
    LogFailed(Arc<str>),
    /// A checkpoint's job is over.
    CheckpointDone {
        /// Group of the stream.
        group: u64,
        /// What came of it.
        result: Result<CheckpointDone, StoreError>,
    },
    /// Take a checkpoint of this stream, because the log wants its space back.
    Checkpoint {
        /// Group of the stream.
        group: u64,
    },
    /// The account of this stream has JetStream again.
    Serve {
        /// Its group.
        group: u64,
    },
    /// The account of this stream has no JetStream any more: nothing comes in or goes out until it has.
    Park {
        /// Its group.
        group: u64,
    },
    /// Host this stream from now on.
    Open(Box<StreamSpec>),
    /// Stop hosting it and destroy what it has on disk.
    Destroy {
        /// Its group.
        group: u64,
        /// Called when it is gone.
        done: Call<Outgoing>,
    },
    /// A change of the catalogue; shard 0 only.
    Catalogue(Box<CatalogueRequest>),
    /// Look at every hosted stream, for monitoring.
    Inspect(Call<Shard>),
    /// The server is about to end: tell clients that wait for messages, and say when they are told.
    TakeLeave(SyncSender<()>),
    /// Put everything on stable storage and end.
    Stop,
}

impl Input {
    /// Bytes that it counts for among what clients have waiting.
    pub fn size(&self) -> usize {
        match self {
            Self::Publish { message, .. }
            | Self::Pull { message, .. }
            | Self::FlowControl { message, .. }
            | Self::DirectGet { message, .. }
            | Self::Sourced { message, .. } => message.size(),
            Self::Ack { ack, .. } => ack.size(),
            _ => 0,
        }
    }
}

/// A shard's state; lives on its thread.
pub struct Shard {
    pub(super) number: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) node: Node,
    /// Boxed: the table has empty places, and moves all when it grows.
    pub(super) hosted: HashMap<u64, Box<Hosted>>,
    /// The catalogue, on shard 0.
    pub(super) keeper: Option<Keeper>,
    pub(super) outgoing: Outgoing,
    /// Groups that something happened to in this turn.
    pub(super) touched: Vec<u64>,
    /// Groups whose streams have more to deliver than one turn's budget.
    pub(super) unfinished: Vec<u64>,
    pub(super) deadlines: BTreeSet<(Timestamp, u64)>,
    /// For the log thread at the end of the turn.
    pub(super) records: Vec<Record>,
    pub(super) record_bytes: u64,
    /// Somebody waits for them to last.
    pub(super) awaited: bool,
    /// When they go to the log anyway.
    pub(super) records_due: Option<Timestamp>,
    pub(super) persisted: Vec<Persisted>,
    pub(super) unsynced_bytes: u64,
    /// Jobs of checkpoints that are out.
    pub(super) jobs: usize,
    /// This turn is so small that the shard may as well write the log itself.
    pub(super) small_turn: bool,
    pub(super) log_failed: Option<Arc<str>>,
    pub(super) now: Timestamp,
    pub(super) stopping: bool,
}

impl Shard {
    /// An empty shard; its peer number in groups is that of this server.
    pub fn new(number: usize, shared: Arc<Shared>, keeper: Option<Keeper>) -> Self {
        let seed = shared.server.seed() ^ (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            number,
            inbox: Arc::clone(&shared.inboxes[number]),
            node: Node::new(NodeConfig::new(THIS_SERVER, seed)),
            hosted: HashMap::new(),
            keeper,
            outgoing: Outgoing::new(Arc::clone(&shared.server), seed),
            touched: Vec::new(),
            unfinished: Vec::new(),
            deadlines: BTreeSet::new(),
            records: Vec::new(),
            record_bytes: 0,
            awaited: false,
            records_due: None,
            persisted: Vec::new(),
            unsynced_bytes: 0,
            jobs: 0,
            small_turn: false,
            log_failed: None,
            now: Timestamp(0),
            stopping: false,
            shared,
        }
    }

    /// Works until it is told to stop.
    pub fn run(mut self) {
        self.tell_time();
        self.start_keeper();
        self.settle();
        let mut inputs = VecDeque::new();
        while !self.stopping {
            let hold_back = self.unsynced_bytes > UNSYNCED_BYTES_MAX;
            self.inbox.take(&mut inputs, self.deadline(), hold_back);
            self.tell_time();
            self.small_turn = inputs.len() <= IN_PLACE_INPUTS;
            for input in inputs.drain(..) {
                self.handle(input);
            }
            self.fire_deadlines();
            self.shared.age_caches(self.now);
            for group in std::mem::take(&mut self.unfinished) {
                self.touch(group);
            }
            self.settle();
        }
        self.finish();
    }

    /// Reads the clock once a turn. It never runs backwards, so that what a turn decides is not undone by a step of the system's clock.
    fn tell_time(&mut self) {
        self.now = self.now.max(Timestamp(clock::unix_nanos()));
    }

    /// When it has to work again even if nothing arrives.
    fn deadline(&self) -> Option<Instant> {
        if !self.unfinished.is_empty() {
            return Some(clock::now());
        }
        let hosted = self.deadlines.first().map(|(at, _)| *at);
        let at = hosted.into_iter().chain(self.shared.next_age()).chain(self.records_due).min()?;
        Some(clock::now() + at.saturating_since(self.now))
    }

    fn fire_deadlines(&mut self) {
        while let Some((at, group)) = self.deadlines.first().copied()
            && at <= self.now
        {
            self.deadlines.pop_first();
            let now = self.now;
            let Some(hosted) = self.hosted.get_mut(&group) else { continue };
            hosted.deadline = None;
            hosted.with(&mut self.outgoing, now, |stream, outside, effects| {
                stream.handle_timeout(outside, effects)
            });
            self.touch(group);
        }
    }

    /// Notes that the machine of a group has to be looked at before the turn ends.
    fn touch(&mut self, group: u64) {
        if let Some(hosted) = self.hosted.get_mut(&group)
            && !std::mem::replace(&mut hosted.touched, true)
        {
            self.touched.push(group);
        }
    }

    /// Nobody waits for what is to be written, and it is not time yet.
    fn may_wait(&mut self) -> bool {
        if self.awaited || self.stopping || self.record_bytes > LONELY_BYTES_MAX {
            return false;
        }
        let now = self.now;
        now < *self.records_due.get_or_insert_with(|| now.saturating_add(COMPANY_WITHIN))
    }

    /// Has written what is to be written: by the log thread, or at once if somebody waits and nothing else is to be done meanwhile. True if it is
    /// on stable storage.
    fn send_records(&mut self) -> bool {
        if self.records.is_empty() || self.may_wait() {
            return false;
        }
        self.records_due = None;
        let awaited = std::mem::take(&mut self.awaited);
        let batch = Batch {
            shard: self.number,
            records: std::mem::take(&mut self.records),
            persisted: std::mem::take(&mut self.persisted),
            bytes: std::mem::take(&mut self.record_bytes),
        };
        let log = &self.shared.log;
        let in_place = awaited && self.small_turn && self.unfinished.is_empty() && self.inbox.is_empty();
        let Some(claim) = in_place.then(|| log.claim()).flatten() else {
            self.unsynced_bytes += batch.bytes;
            log.write(batch);
            return false;
        };
        let written = claim.write(&batch);
        drop(claim);
        if written {
            self.confirm(batch.persisted);
        }
        written
    }

    /// Tells groups what of their log is on stable storage.
    fn confirm(&mut self, persisted: Vec<Persisted>) {
        for (group, ticket) in persisted {
            self.node.persisted(group, ticket);
        }
    }

    /// Streams hosted here.
    pub fn hosted(&self) -> impl Iterator<Item = &Hosted> {
        self.hosted.values().map(|hosted| &**hosted)
    }

    /// The stream of a group, if it is hosted here.
    pub fn stream(&self, group: u64) -> Option<&jetstream::Stream> {
        self.hosted.get(&group).map(|hosted| &hosted.stream)
    }

    /// The way out for answers.
    pub fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    /// Time of this turn.
    pub fn now(&self) -> Timestamp {
        self.now
    }
}

/// Number of this server among the peers of its groups. Every group has one member, this one.
pub const THIS_SERVER: PeerId = PeerId(1);
