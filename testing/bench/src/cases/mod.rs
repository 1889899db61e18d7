//! The cases: what is sent to a server, and which figures come out.

mod connections;
mod deliver;
mod jetstream;
mod publish;
mod request;
mod subscriptions;

use std::time::Duration;

use anyhow::{Context, Result};

use self::jetstream::{JetStream, Storage};
use crate::measure::{Measure, Target};
use crate::server::{Server, Setup, Stop};

/// The subject of the plain cases: three tokens, as applications have them.
const SUBJECT: &str = "bench.sensor.42";
/// No case that runs for a time stores more than this: half a gigabyte.
const STREAM_MESSAGES_MAX: u64 = 3_000_000;

/// How much of each case is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Length of the measured part of a case that runs for a time.
    pub(crate) duration: Duration,
    /// Idle connections.
    pub(crate) connections: usize,
    /// Subscriptions of the one connection that has many.
    pub(crate) subscriptions: usize,
    /// Messages of the stream that is read, deleted from, or restarted on.
    pub(crate) messages: u64,
    /// Subjects of a stream that has very many.
    pub(crate) subjects: u64,
    /// Keys of a bucket.
    pub(crate) keys: u64,
    /// Streams of a server that has very many.
    pub(crate) streams: u64,
    /// Consumers of a stream that has very many.
    pub(crate) consumers: u64,
}

impl Settings {
    /// Work before the measured part, so that buffers and caches have their size.
    fn warm_up(&self) -> Duration {
        self.duration / 10
    }
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// One connection publishes, nobody listens.
    Publish { size: usize },
    /// One connection publishes to so many others.
    Deliver { size: usize, subscribers: usize },
    /// One request after the other.
    Request,
    /// Connections that do nothing.
    Connections,
    /// Very many subscriptions on one connection.
    Subscriptions,
    /// Something with streams.
    JetStream(JetStream),
}

/// A stream publish of a table row.
const fn stored(storage: Storage, window: usize, setup: Setup) -> Case {
    Case::JetStream(JetStream::Publish { storage, window, setup })
}

/// Cases that have nothing to do with streams, by name, in the order of the table.
pub(crate) const CORE: [(&str, Case); 10] = [
    ("publish-16", Case::Publish { size: 16 }),
    ("publish-128", Case::Publish { size: 128 }),
    ("publish-1024", Case::Publish { size: 1024 }),
    ("deliver-16", Case::Deliver { size: 16, subscribers: 1 }),
    ("deliver-128", Case::Deliver { size: 128, subscribers: 1 }),
    ("deliver-1024", Case::Deliver { size: 1024, subscribers: 1 }),
    ("fan-out-5", Case::Deliver { size: 128, subscribers: 5 }),
    ("request", Case::Request),
    ("connections", Case::Connections),
    ("subscriptions", Case::Subscriptions),
];

/// Cases with streams, by name, in the order of the table.
pub(crate) const JETSTREAM: [(&str, Case); 28] = [
    ("js-publish-1", stored(Storage::File, 1, Setup::JetStream)),
    ("js-publish-256", stored(Storage::File, 256, Setup::JetStream)),
    ("js-publish-4000", stored(Storage::File, 4000, Setup::JetStream)),
    ("js-publish-1-synced", stored(Storage::File, 1, Setup::Synced)),
    ("js-publish-256-synced", stored(Storage::File, 256, Setup::Synced)),
    ("js-publish-4000-synced", stored(Storage::File, 4000, Setup::Synced)),
    ("js-memory-4000", stored(Storage::Memory, 4000, Setup::JetStream)),
    ("js-fetch", Case::JetStream(JetStream::Fetch)),
    ("js-ordered", Case::JetStream(JetStream::Ordered)),
    ("js-ordered-pull", Case::JetStream(JetStream::OrderedPull)),
    ("js-push", Case::JetStream(JetStream::Push)),
    ("js-work-queue", Case::JetStream(JetStream::WorkQueue)),
    ("kv-put-1", Case::JetStream(JetStream::KvPut { window: 1 })),
    ("kv-put-256", Case::JetStream(JetStream::KvPut { window: 256 })),
    ("kv-get-1", Case::JetStream(JetStream::KvGet { window: 1 })),
    ("kv-get-256", Case::JetStream(JetStream::KvGet { window: 256 })),
    ("kv-watch", Case::JetStream(JetStream::KvWatch)),
    ("js-last-per-subject", Case::JetStream(JetStream::LastPerSubject)),
    ("js-multi-last", Case::JetStream(JetStream::MultiLast)),
    ("js-start", Case::JetStream(JetStream::Start { stop: Stop::Clean })),
    ("js-start-killed", Case::JetStream(JetStream::Start { stop: Stop::Kill })),
    ("js-start-streams", Case::JetStream(JetStream::StartStreams { stop: Stop::Clean })),
    ("js-start-streams-killed", Case::JetStream(JetStream::StartStreams { stop: Stop::Kill })),
    ("js-streams", Case::JetStream(JetStream::Streams)),
    ("js-consumers", Case::JetStream(JetStream::Consumers)),
    ("js-ephemeral", Case::JetStream(JetStream::Ephemeral)),
    ("js-subjects", Case::JetStream(JetStream::Subjects)),
    ("js-interior", Case::JetStream(JetStream::Interior)),
];

/// All cases.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Case)> {
    CORE.into_iter().chain(JETSTREAM)
}

/// The cases of this name: `core` and `jetstream` are all of a kind.
pub(crate) fn find(name: &str) -> Result<Vec<(&'static str, Case)>> {
    match name {
        "core" => return Ok(CORE.to_vec()),
        "jetstream" => return Ok(JETSTREAM.to_vec()),
        _ => {}
    }
    let names = || all().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let found = all().find(|(known, _)| *known == name);
    Ok(vec![found.with_context(|| format!("unknown case {name}; known: core, jetstream, {}", names()))?])
}

impl Case {
    /// What the server's configuration has to say.
    pub(crate) fn setup(self) -> Setup {
        if let Self::JetStream(case) = self { case.setup() } else { Setup::Plain }
    }

    /// Whether the case ends and starts its server, so that it needs one of its own.
    pub(crate) fn restarts(self) -> bool {
        matches!(self, Self::JetStream(case) if case.restarts())
    }

    /// Runs the case against a server of its own.
    pub(crate) fn run_own(self, server: &mut Server, settings: &Settings) -> Result<Vec<Measure>> {
        match self {
            Self::JetStream(case) if case.restarts() => case.run_restarting(server, settings),
            other => other.run(server.target(), settings),
        }
    }

    /// Runs the case against a server that answers.
    pub(crate) fn run(self, target: Target, settings: &Settings) -> Result<Vec<Measure>> {
        match self {
            Self::Publish { size } => publish::run(target, settings, size),
            Self::Deliver { size, subscribers } => deliver::run(target, settings, size, subscribers),
            Self::Request => request::run(target, settings),
            Self::Connections => connections::run(target, settings),
            Self::Subscriptions => subscriptions::run(target, settings),
            Self::JetStream(case) => case.run(target, settings),
        }
    }
}
