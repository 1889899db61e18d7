//! JetStream: what storing, reading, restarting and sheer number of things cost.
//!
//! All cases use the same stream name and 128-byte messages. What a case reads is stored beforehand and not measured.

mod consume;
mod ephemeral;
mod kv;
mod publish;
mod scale;
mod start;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Settings;
use crate::client::PATIENCE;
use crate::frames::payload;
use crate::measure::{Measure, Target};
use crate::script::{Goal, Script};
use crate::server::{Server, Setup, Stop};
use crate::session::{Frame, Session};

/// The stream of the cases with one stream, and the beginning of the names of all others.
const STREAM: &str = "BENCH";
/// The subject of streams with one subject.
const SUBJECT: &str = "bench.sensor.42";
/// Bytes of a message.
const SIZE: usize = 128;
/// Requests on their way while a case prepares what it measures.
const WINDOW_FILL: usize = 4000;
/// Requests that are built at once: some megabytes.
const SCRIPT_LENGTH: usize = 65_536;
/// Names of one page of an answer of the API.
const PAGES_MAX: usize = 1000;

/// Where a stream keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    File,
    Memory,
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JetStream {
    /// Publishes to one stream with so many unanswered.
    Publish { storage: Storage, window: usize, setup: Setup },
    /// Pull requests of 500 messages, one after the other, each message acknowledged.
    Fetch,
    /// A push consumer with flow control and without acknowledgements, as older clients replay a stream.
    Ordered,
    /// A pull consumer without acknowledgements and requests that overlap, as newer clients do it.
    OrderedPull,
    /// A push consumer, each message acknowledged.
    Push,
    /// A work queue: published, pulled and acknowledged at the same time.
    WorkQueue,
    /// Values of a bucket are written with so many unanswered.
    KvPut { window: usize },
    /// Values of a bucket are read directly with so many unanswered.
    KvGet { window: usize },
    /// A watcher receives the last value of each key.
    KvWatch,
    /// A consumer receives the last message of each of very many subjects.
    LastPerSubject,
    /// Direct requests for the last messages of a thousand subjects each.
    MultiLast,
    /// A restart on one stream with many messages and subjects.
    Start { stop: Stop },
    /// A restart on many streams.
    StartStreams { stop: Stop },
    /// Very many streams.
    Streams,
    /// Very many consumers of one stream.
    Consumers,
    /// Consumers that come and go.
    Ephemeral,
    /// Very many subjects in one stream.
    Subjects,
    /// Every second message of a stream is deleted.
    Interior,
}

impl JetStream {
    /// What the server's configuration has to say.
    pub(super) fn setup(self) -> Setup {
        match self {
            Self::Publish { setup, .. } => setup,
            _ => Setup::JetStream,
        }
    }

    /// Whether the case ends and starts its server.
    pub(super) fn restarts(self) -> bool {
        matches!(self, Self::Start { .. } | Self::StartStreams { .. })
    }

    /// Runs a case that restarts its server.
    pub(super) fn run_restarting(self, server: &mut Server, settings: &Settings) -> Result<Vec<Measure>> {
        match self {
            Self::Start { stop } => start::messages(server, settings, stop),
            Self::StartStreams { stop } => start::streams(server, settings, stop),
            other => other.run(server.target(), settings),
        }
    }

    /// Runs the case against a server that answers.
    pub(super) fn run(self, target: Target, settings: &Settings) -> Result<Vec<Measure>> {
        if !self.restarts() {
            clear(target)?;
        }
        match self {
            Self::Publish { storage, window, .. } => publish::run(target, settings, storage, window),
            Self::Fetch => consume::fetch(target, settings),
            Self::Ordered => consume::ordered(target, settings),
            Self::OrderedPull => consume::ordered_pull(target, settings),
            Self::Push => consume::push(target, settings),
            Self::WorkQueue => consume::work_queue(target, settings),
            Self::KvPut { window } => kv::put(target, settings, window),
            Self::KvGet { window } => kv::get(target, settings, window),
            Self::KvWatch => kv::watch(target, settings),
            Self::LastPerSubject => kv::last_per_subject(target, settings),
            Self::MultiLast => kv::multi_last(target, settings),
            Self::Streams => scale::streams(target, settings),
            Self::Consumers => scale::consumers(target, settings),
            Self::Ephemeral => ephemeral::run(target, settings),
            Self::Subjects => scale::subjects(target, settings),
            Self::Interior => scale::interior(target, settings),
            Self::Start { .. } | Self::StartStreams { .. } => {
                anyhow::bail!("the case restarts its server, which only compare can")
            }
        }
    }
}

/// Deletes what an earlier case left in a server that goes on running.
fn clear(target: Target) -> Result<()> {
    let mut session = Session::connect(target.address)?;
    for _ in 0..PAGES_MAX {
        let answer = session.request("$JS.API.STREAM.NAMES", "{}")?;
        let names = answer["streams"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ours = |name: &&str| name.starts_with(STREAM) || *name == kv::STREAM;
        let ours: Vec<&str> = names.iter().filter_map(Value::as_str).filter(ours).collect();
        if ours.is_empty() {
            return Ok(());
        }
        for name in ours {
            session.request(&format!("$JS.API.STREAM.DELETE.{name}"), "")?;
        }
    }
    anyhow::bail!("streams named {STREAM} come back after they were deleted")
}

/// Creates the stream that most cases use.
fn create_stream(session: &mut Session, storage: Storage, retention: &str) -> Result<()> {
    create(
        session,
        &json!({
            "name": STREAM, "subjects": ["bench.>"], "retention": retention, "num_replicas": 1,
            "storage": if storage == Storage::File { "file" } else { "memory" },
        }),
    )
}

fn create(session: &mut Session, config: &Value) -> Result<()> {
    let name = config["name"].as_str().context("a stream without a name")?;
    session.request(&format!("$JS.API.STREAM.CREATE.{name}"), &config.to_string())?;
    Ok(())
}

fn create_consumer(session: &mut Session, stream: &str, config: &Value) -> Result<()> {
    let name = config["name"].as_str().context("a consumer without a name")?;
    let request = json!({"stream_name": stream, "config": config}).to_string();
    session.request(&format!("$JS.API.CONSUMER.CREATE.{stream}.{name}"), &request)?;
    Ok(())
}

/// Whether this is the acknowledgement of a publish.
fn stored(frame: &Frame<'_>) -> bool {
    frame.payload.starts_with(b"{\"stream\":\"") && frame.headers.is_empty()
}

/// Requests for these subjects, all with the same payload.
fn script(session: &Session, subjects: impl Iterator<Item = String>) -> Script {
    let payload = payload(SIZE);
    let mut script = Script::default();
    for subject in subjects {
        script.push(session.inbox(), &subject, &payload);
    }
    script
}

/// Publishes `count` messages and waits for all acknowledgements.
fn fill(session: &mut Session, count: u64, subject: impl Fn(u64) -> String) -> Result<()> {
    let mut number = 0;
    while number < count {
        let end = count.min(number + SCRIPT_LENGTH as u64);
        let script = script(session, (number..end).map(&subject));
        script.run(session, WINDOW_FILL, Goal::Count(end - number), stored)?;
        number = end;
    }
    Ok(())
}

/// A stream of as many messages as the settings say, all with one subject.
fn filled(target: Target, settings: &Settings) -> Result<(Session, Session)> {
    let mut control = Session::connect(target.address)?;
    let mut data = Session::connect(target.address)?;
    create_stream(&mut control, Storage::File, "limits")?;
    fill(&mut data, settings.messages, |_| SUBJECT.to_owned())?;
    expect_messages(&mut control, STREAM, settings.messages)?;
    Ok((control, data))
}

/// The server must have as many messages as it acknowledged.
fn expect_messages(control: &mut Session, stream: &str, count: u64) -> Result<()> {
    let info = control.request(&format!("$JS.API.STREAM.INFO.{stream}"), "")?;
    ensure!(info["state"]["messages"] == count, "{count} messages were acknowledged: {info}");
    Ok(())
}

/// Waits until a consumer has nothing left to deliver and nothing unacknowledged.
fn await_settled(control: &mut Session, consumer: &str) -> Result<()> {
    let settled = |info: &Value| info["num_ack_pending"] == 0 && info["num_pending"] == 0;
    control.await_answer(&format!("$JS.API.CONSUMER.INFO.{STREAM}.{consumer}"), PATIENCE, settled)?;
    Ok(())
}

/// How long memory may take to come to rest: caches that age, a collector that gives back.
fn rest(settings: &Settings) -> Duration {
    settings.duration * 2
}

/// The figures of a part of a case under names of their own.
fn named(measures: Vec<Measure>, rate: &'static str, each: &'static str) -> Vec<Measure> {
    let rename = |measure: Measure| match measure.name {
        "rate" => Some(Measure { name: rate, ..measure }),
        "CPU each" => Some(Measure { name: each, ..measure }),
        _ => None,
    };
    measures.into_iter().filter_map(rename).collect()
}
