//! A stream on a simulated disk, with a log that survives it and a world that the test decides.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use api::jetstream::stream::StreamConfig;
use bytes::Bytes;
use jetstream::consumer::{AckSubject, Acknowledgement, Budget};
use jetstream::effect::{Effect, Effects};
use jetstream::limits::Limits;
use jetstream::stream::facts::Identity;
use jetstream::{Outside, Publish, Request, Stream, Token};
use store::Timestamp;
use store::disk::fault::{FaultDisk, Loss};
use store::stream::{Cache, FileOptions, FileStore};

/// 2026-01-01, so that times in traces are readable.
pub(crate) const START: i64 = 1_767_225_600_000_000_000;

/// The world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) interest: BTreeSet<Vec<u8>>,
    pub(crate) random: u64,
    pub(crate) limits: Limits,
}

impl World {
    pub(crate) fn new() -> Self {
        let interest = BTreeSet::from([b"p".to_vec()]);
        Self { now: START, interest, random: 1, limits: Limits::default() }
    }
}

impl Outside for World {
    fn now(&self) -> Timestamp {
        Timestamp(self.now)
    }

    fn has_group_interest(&self, subject: &[u8], _group: &[u8]) -> bool {
        self.has_interest(subject)
    }

    fn has_interest(&self, subject: &[u8]) -> bool {
        self.interest.contains(subject)
    }

    fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 3
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

/// The stream and everything around it.
pub(crate) struct Bench {
    pub(crate) stream: Stream,
    pub(crate) world: World,
    pub(crate) effects: Effects,
    /// Committed entries by their index.
    pub(crate) log: Vec<(u64, Bytes)>,
    /// Proposed entries that are held back.
    pub(crate) held: Vec<Bytes>,
    pub(crate) holding: bool,
    disk: FaultDisk,
    config: StreamConfig,
    token: u64,
}

fn open(disk: &FaultDisk, config: &StreamConfig) -> Stream {
    let options = FileOptions { block_bytes: 4096, ..FileOptions::new(7, Arc::new(Cache::new(1 << 20))) };
    let (store, recovered) =
        FileStore::open(Arc::new(disk.clone()), Path::new("/stream"), options).expect("store");
    let identity = Identity {
        account: "A".into(),
        name: config.name.as_str().into(),
        group: 7,
        domain: None,
        created: Timestamp(START),
    };
    Stream::new(identity, config.clone(), Box::new(store), recovered).expect("stream")
}

impl Bench {
    pub(crate) fn new(config: StreamConfig) -> Self {
        let disk = FaultDisk::new(1);
        let stream = open(&disk, &config);
        let world = World::new();
        let mut bench = Self {
            stream,
            world,
            effects: Effects::default(),
            log: Vec::new(),
            held: Vec::new(),
            holding: false,
            disk,
            config,
            token: 0,
        };
        bench.stream.lead(&mut bench.world, &mut bench.effects);
        bench
    }

    /// Ends turns until nothing is left to do. What is proposed is committed, unless it is held back.
    pub(crate) fn settle(&mut self) -> Vec<Effect> {
        let mut done = Vec::new();
        loop {
            let mut budget = Budget { messages: 100, bytes: 1 << 20 };
            let more = self.stream.turn(&mut self.world, &mut self.effects, &mut budget);
            done.extend(self.effects.queue.drain(..));
            if !self.effects.proposal.is_empty() {
                self.held.push(self.effects.proposal.split().freeze());
            }
            if self.holding || self.held.is_empty() {
                if !more {
                    return done;
                }
                continue;
            }
            for entry in std::mem::take(&mut self.held) {
                let index = self.log.last().map_or(0, |(index, _)| *index) + 1;
                self.log.push((index, entry.clone()));
                self.stream.apply(&mut self.world, &mut self.effects, index, &entry);
            }
        }
    }

    pub(crate) fn publish(&mut self, subject: &str, headers: Bytes, payload: Bytes, reply: Option<&str>) {
        let publish = Publish {
            subject: Bytes::copy_from_slice(subject.as_bytes()),
            reply: reply.map(|reply| Bytes::copy_from_slice(reply.as_bytes())),
            headers,
            payload,
        };
        self.stream.handle_publish(&mut self.world, &mut self.effects, publish);
    }

    /// A client answers a delivery, whose acknowledgement subject this is.
    pub(crate) fn ack(&mut self, subject: &[u8], reply: Option<&Bytes>, body: &[u8]) {
        let Some(AckSubject { consumer, tokens: Some(tokens), .. }) = AckSubject::parse(subject) else {
            return;
        };
        let Some(consumer) = self.stream.consumer_number(consumer) else { return };
        let ack = Acknowledgement { consumer, tokens, reply, body };
        self.stream.handle_ack(&mut self.world, &mut self.effects, &ack);
    }

    pub(crate) fn request(&mut self, request: Request) {
        self.token += 1;
        self.stream.handle_request(&mut self.world, &mut self.effects, Token(self.token), request);
    }

    /// Lets time pass, with the timeouts in it.
    pub(crate) fn pass(&mut self, nanos: i64) -> Vec<Effect> {
        let end = self.world.now + nanos;
        let mut done = self.settle();
        while let Some(due) = self.stream.poll_timeout().filter(|due| due.0 <= end) {
            self.world.now = self.world.now.max(due.0);
            self.stream.handle_timeout(&mut self.world, &mut self.effects);
            done.extend(self.settle());
        }
        self.world.now = end;
        done
    }

    pub(crate) fn checkpoint(&mut self) {
        let job = self.stream.checkpoint().expect("begin checkpoint");
        self.stream.checkpoint_done(job()).expect("checkpoint");
    }

    /// The process dies, the disk loses what was not synced, and a new process replays the log.
    pub(crate) fn restart(&mut self) {
        self.held.clear();
        self.effects = Effects::default();
        self.disk.crash(Loss::Random);
        self.world.limits = Limits::default();
        let disk = self.disk.clone();
        self.stream = self.replay(&disk);
        self.stream.lead(&mut self.world, &mut self.effects);
    }

    /// A stream from the last checkpoint and the log.
    pub(crate) fn replayed(&mut self) -> Stream {
        let disk = self.disk.fork(self.log.len() as u64);
        disk.crash(Loss::Random);
        self.replay(&disk)
    }

    fn replay(&mut self, disk: &FaultDisk) -> Stream {
        let mut stream = open(disk, &self.config);
        let mut effects = Effects::default();
        for (index, entry) in &self.log {
            if *index > stream.applied() {
                stream.apply(&mut self.world, &mut effects, *index, entry);
            }
        }
        assert!(stream.failure().is_none(), "{:?}", stream.failure());
        stream
    }
}

/// A header block from `name: value` parts.
pub(crate) fn block(lines: &[&str]) -> Bytes {
    if lines.is_empty() {
        return Bytes::new();
    }
    let mut block = String::from("NATS/1.0\r\n");
    for line in lines {
        block.push_str(line);
        block.push_str("\r\n");
    }
    block.push_str("\r\n");
    block.into()
}
