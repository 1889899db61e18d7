//! Streams of their own that apply the same log as the server's and never crash: what the server has after a recovery must be what they have.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use api::jetstream::stream::{Retention, Storage, StreamConfig};
use bytes::Bytes;
use jetstream::Stream;
use jetstream::consumer::Position;
use jetstream::effect::Effects;
use jetstream::stream::facts::Identity;
use store::disk::fault::FaultDisk;
use store::stream::{Cache, FileOptions, FileStore, Filter, MemoryStore, Recovered, StreamStore};

use crate::history::{Rule, Violation};
use crate::world::{START, World};

/// Memory for what a replica reads.
const CACHE_BYTES: usize = 1 << 20;

/// One stream as the log alone makes it.
struct Replica {
    identity: Identity,
    /// The configuration that the stream was created with.
    config: StreamConfig,
    stream: Stream,
    world: World,
    /// Entries with commands, by index.
    entries: Vec<(u64, Bytes)>,
    /// A checkpoint of the server held deliveries and acknowledgements whose command was lost: consumers are ahead of the log.
    is_behind: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Witness {
    /// Compares nothing: a planted fault has to be found without it.
    is_blind: bool,
    replicas: BTreeMap<u64, Replica>,
    /// Groups that may have lost something to damage.
    damaged: Vec<u64>,
    violations: Vec<Violation>,
    /// The server's disk: what is read without power proves nothing.
    disk: Option<FaultDisk>,
}

impl Replica {
    fn new(identity: &Identity, config: &StreamConfig) -> Option<Self> {
        // Sizes as users see them depend on the kind of store, and limits on sizes.
        let (store, recovered): (Box<dyn StreamStore>, _) = match config.storage {
            Storage::Memory => (Box::new(MemoryStore::new()), Recovered::default()),
            Storage::File => {
                let disk = Arc::new(FaultDisk::new(identity.group));
                let options = FileOptions::new(identity.group, Arc::new(Cache::new(CACHE_BYTES)));
                let (store, recovered) = FileStore::open(disk, Path::new("/witness"), options).ok()?;
                (Box::new(store), recovered)
            }
        };
        let stream = Stream::new(identity.clone(), config.clone(), store, recovered);
        Some(Self {
            identity: identity.clone(),
            config: config.clone(),
            stream: stream.ok()?,
            world: World::new(START, identity.group),
            entries: Vec::new(),
            is_behind: false,
        })
    }

    fn last(&self) -> u64 {
        self.entries.last().map_or(0, |(index, _)| *index)
    }

    fn apply(&mut self, index: u64, payload: &Bytes) {
        let mut effects = Effects::default();
        self.stream.apply(&mut self.world, &mut effects, index, payload);
        self.entries.push((index, payload.clone()));
    }
}

impl Witness {
    /// One that compares, or not.
    pub(crate) fn new(is_blind: bool) -> Self {
        Self { is_blind, ..Self::default() }
    }

    /// The server lives on this disk from now on.
    pub(crate) fn watch(&mut self, disk: &FaultDisk) {
        self.disk = Some(disk.clone());
    }

    fn has_power(&self) -> bool {
        self.disk.as_ref().is_none_or(|disk| !disk.is_down())
    }

    /// The server opens a stream.
    pub(crate) fn open(&mut self, identity: &Identity, config: &StreamConfig, durable: bool) {
        // Until something is applied a stream is what the catalogue says.
        let known = self.replicas.get(&identity.group);
        if self.is_blind || (durable && known.is_some_and(|known| !known.entries.is_empty())) {
            return;
        }
        if let Some(replica) = Replica::new(identity, config) {
            self.replicas.insert(identity.group, replica);
        }
    }

    /// The server destroys a stream.
    pub(crate) fn destroy(&mut self, group: u64) {
        self.replicas.remove(&group);
    }

    /// The server applies an entry, for the first time or again.
    pub(crate) fn applied(&mut self, group: u64, index: u64, payload: &Bytes) {
        let Some(replica) = self.replicas.get_mut(&group) else { return };
        if index > replica.last() {
            return replica.apply(index, payload);
        }
        let known = replica.entries.iter().find(|(known, _)| *known == index);
        if known.is_none_or(|(_, known)| known != payload) {
            let text = format!("group {group}: entry {index} is not the one that was committed");
            self.violations.push(Violation::new(Rule::Replay, text));
        }
    }

    /// Damage may take something from this group; what it has after the next start is taken as it is.
    pub(crate) fn expect_damage(&mut self, group: u64) {
        self.damaged.push(group);
    }

    /// A stream has replayed its log and is about to lead.
    pub(crate) fn recovered(&mut self, group: u64, stream: &Stream) {
        if !self.has_power() {
            return;
        }
        let is_damaged = self.damaged.contains(&group);
        let Some(replica) = self.replicas.get_mut(&group) else { return };
        if stream.applied() < replica.last() {
            if !is_damaged {
                let text = format!(
                    "group {group}: applied up to {} after the start, {} was committed before",
                    stream.applied(),
                    replica.last()
                );
                self.violations.push(Violation::new(Rule::AckedLost, text));
            }
            // An earlier state is as good as another, if it is one.
            let Some(mut earlier) = Replica::new(&replica.identity, &replica.config) else { return };
            let entries = std::mem::take(&mut replica.entries);
            for (index, entry) in entries.iter().filter(|(index, _)| *index <= stream.applied()) {
                earlier.apply(*index, entry);
            }
            *replica = earlier;
        }
        if stream.failure().is_some() {
            // It has said so; what it holds is not believed.
            return;
        }
        if replica.entries.is_empty()
            && let Some(fresh) = Replica::new(&replica.identity, stream.config())
        {
            // A checkpoint of a stream without commands holds the configuration of that time.
            *replica = fresh;
        }
        replica.is_behind |=
            consumers(stream, &replica.stream).is_some() && is_ahead(stream, &replica.stream);
        if replica.is_behind && stream.config().retention == Retention::Interest {
            // What the consumers have done decides what the stream holds.
            self.replicas.remove(&group);
            return;
        }
        if let Some(difference) = difference(stream, replica) {
            if !is_damaged {
                let text = format!("group {group} is not what its log makes it: {difference}");
                self.violations.push(Violation::new(Rule::Replay, text));
            }
            self.replicas.remove(&group);
        }
    }

    /// Compares a stream that has nothing in flight.
    pub(crate) fn compare(&mut self, group: u64, stream: &Stream) {
        let Some(replica) = self.replicas.get(&group).filter(|_| self.has_power()) else { return };
        if let Some(difference) = difference(stream, replica) {
            let text = format!("group {group} differs from its log while it runs: {difference}");
            self.violations.push(Violation::new(Rule::Replay, text));
            self.replicas.remove(&group);
        }
    }

    /// What was found, once.
    pub(crate) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }
}

/// The first thing in which two replicas differ.
fn difference(ours: &Stream, replica: &Replica) -> Option<String> {
    let other = &replica.stream;
    let (state, expected) = (ours.state(), other.state());
    if state != expected {
        return Some(format!("{state:?}, the log gives {expected:?}"));
    }
    if ours.config() != other.config() {
        return Some(format!("configuration {:?}, the log gives {:?}", ours.config(), other.config()));
    }
    let mut next = 0;
    loop {
        let pair = (ours.store().next(&Filter::All, next), other.store().next(&Filter::All, next));
        let (Ok(mine), Ok(theirs)) = pair else { return Some(format!("at sequence {next}: {pair:?}")) };
        if mine != theirs {
            return Some(format!("message {mine:?}, the log gives {theirs:?}"));
        }
        let Some(message) = mine else { break };
        next = message.sequence + 1;
    }
    if replica.is_behind { None } else { consumers(ours, other) }
}

/// Has a consumer done more than the log says, and none less? A checkpoint may hold what its leader had proposed.
fn is_ahead(ours: &Stream, other: &Stream) -> bool {
    let mut pairs = ours.consumers().filter_map(|mine| Some((mine, other.consumer(mine.name())?)));
    let place = |consumer: &jetstream::consumer::Consumer| (consumer.delivered(), consumer.ack_floor());
    let is_not_less = |((mine, floor), (theirs, other)): &((Position, Position), (Position, Position))| {
        mine.stream >= theirs.stream && mine.consumer >= theirs.consumer && floor.stream >= other.stream
    };
    pairs.all(|(mine, theirs)| is_not_less(&(place(mine), place(theirs))))
}

fn consumers(ours: &Stream, other: &Stream) -> Option<String> {
    let states = |stream: &Stream| -> Vec<(String, Vec<u8>)> {
        let encode = |consumer: &jetstream::consumer::Consumer| {
            let mut state = Vec::new();
            consumer.encode_state(&mut state);
            (consumer.name().to_owned(), state)
        };
        stream.consumers().map(encode).collect()
    };
    let (mine, theirs) = (states(ours), states(other));
    if mine.len() != theirs.len() {
        return Some(format!("{} consumers, the log gives {}", mine.len(), theirs.len()));
    }
    let pair = mine.iter().zip(&theirs).find(|(mine, theirs)| mine != theirs)?;
    let ((name, mine), (other, theirs)) = pair;
    let same = mine.iter().zip(theirs).take_while(|(mine, theirs)| mine == theirs).count();
    let (mine, theirs) = (&mine[same..], &theirs[same..]);
    Some(format!("state of consumer {name} from byte {same} on: {mine:?}, the log gives {other} {theirs:?}"))
}
