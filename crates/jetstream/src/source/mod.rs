//! Mirrors and sources: messages that a stream takes from another one, its origin (jetstream-api, section 16).
//!
//! The leader of the stream has a consumer made at the origin, listens to where it delivers, and hands over what comes, in order and each message
//! once. Whatever goes wrong has one answer: give the consumer up and have another one made, from behind the last message taken on. Gaps in the
//! numbers of deliveries, heartbeats that tell of another number, and silence are such things.
//!
//! The origin sends no more than its window until it hears from us, and it hears from us when what it sent is stored here. So nothing is
//! unbounded, and an origin that removes what is acknowledged loses nothing.

mod delivery;
pub(crate) mod hash;
pub(crate) mod mark;
mod origin;

use std::collections::VecDeque;
use std::time::Duration;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::consumer::{AckPolicy, ConsumerConfig, SequenceInfo};
use api::jetstream::stream::{External, SEQUENCE_MAX, StreamSource, StreamSourceInfo, SubjectTransform};
use bytes::Bytes;
use serde::Deserialize;
use store::Timestamp;
use store::stream::State;
use subject::Transform;

use crate::effect::{Effect, Effects, Send};
use crate::outside::Outside;
use crate::stream::facts::StreamFacts;
use crate::stream::headers;
use delivery::{Control, Delivery};
pub use hash::identity;
use mark::Position;
pub(crate) use origin::index_name;
use origin::{Ask, Level, Start};

/// Letters of generated names.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Length of a generated name.
const NAME_LENGTH: usize = 8;

/// The origin's consumer says so often that it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// An origin that is silent for longer is given up. It gives us up after the same time.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long a consumer may take to be made.
const CREATE_MAX: Duration = Duration::from_secs(30);
/// How long one that is there may take to be set back.
const RESET_MAX: Duration = Duration::from_secs(5);
/// Between two requests of one source passes at least this.
const REQUEST_PAUSE: Duration = Duration::from_secs(2);
/// The first failure adds this to the pause, each further one doubles it.
const BACK_OFF: Duration = Duration::from_secs(2);
/// The longest of these additions.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// Requests are spread over so many nanoseconds, beginning after as many, so that many sources do not ask at once.
const JITTER: u64 = 100_000_000;
/// Heartbeats in a row that tell of the same lost answer before it is called an error.
const STALLED_MAX: u32 = 3;
/// Bytes that may come before the answer to the request. The origin's window begins below it.
const EARLY_BYTES_MAX: usize = 8 << 20;
/// A mirror with fewer messages to come answers for its origin.
const CAUGHT_UP: u64 = 10;

/// What a source is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The stream is a copy of its origin: same sequences, same times.
    Mirror,
    /// Messages are appended to the stream's own.
    Source,
}

/// A message that came over a subscription of a source.
#[derive(Debug, Clone)]
pub struct Sourced {
    /// Its subject.
    pub subject: Bytes,
    /// Where an answer goes; tells of a stored message which it is.
    pub reply: Option<Bytes>,
    /// Header block; empty for none.
    pub headers: Bytes,
    /// Body.
    pub payload: Bytes,
}

/// A stored message of the origin, ready to be stored here.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    /// Which source it came from.
    pub(crate) source: u32,
    pub(crate) kind: Kind,
    /// Sequence in the origin.
    pub(crate) sequence: u64,
    /// When the origin stored it.
    pub(crate) timestamp: Timestamp,
    pub(crate) subject: Bytes,
    pub(crate) headers: Bytes,
    pub(crate) payload: Bytes,
}

/// What a message means for the stream.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing.
    Nothing,
    /// Store it.
    Store(Taken),
    /// A mirror begins behind this sequence, which its stream has not reached.
    Skip(u64),
}

/// What a source sees of its stream and the world.
pub(crate) struct Context<'a> {
    pub(crate) outside: &'a mut dyn Outside,
    pub(crate) effects: &'a mut Effects,
    pub(crate) facts: &'a StreamFacts,
    /// What the store holds.
    pub(crate) state: State,
    /// The last sequence given to a message, stored or not yet.
    pub(crate) last_sequence: u64,
}

/// Where a source is.
#[derive(Debug)]
enum Phase {
    /// It asks at this time.
    Waiting {
        at: Timestamp,
        /// Whatever comes here shows that a lasting consumer is alive.
        probe: Option<u64>,
    },
    /// It has asked; the answer comes to `inbox` until then.
    Asked {
        inbox: u64,
        until: Timestamp,
        level: Level,
        deliver: Bytes,
        /// Messages come here, perhaps before the answer. Not for a lasting consumer, which may still send what it did before.
        early: Option<u64>,
    },
    /// Messages come here.
    Active { inbox: u64, since: Timestamp, check_at: Timestamp },
}

/// An answer that the origin's consumer waits for.
#[derive(Debug)]
struct Owed {
    reply: Bytes,
    /// Number and sequence of the last message before the question.
    number: u64,
    sequence: u64,
    /// It is given when the stream has stored up to here.
    until: u64,
}

/// One source, or the mirror.
#[derive(Debug)]
pub(crate) struct Source {
    id: u32,
    kind: Kind,
    config: StreamSource,
    index: Box<str>,
    transforms: Vec<Option<Transform>>,
    phase: Phase,
    subscriptions: u32,
    /// Name of the consumer that delivers; empty if there is none.
    consumer: Box<str>,
    /// Sequence in the origin of the last message taken.
    sequence: u64,
    /// Number of its delivery.
    number: u64,
    /// Messages still to come.
    lag: u64,
    /// When something came last.
    heard: Option<Timestamp>,
    error: Option<ApiError>,
    failures: u32,
    asked_at: Option<Timestamp>,
    identity: Box<str>,
    /// The origin is another stream of the same name now, and nothing of it is taken yet.
    recreated: bool,
    stalled: Option<(Bytes, u32)>,
    /// What came before the answer to the request.
    early: VecDeque<Sourced>,
    early_bytes: usize,
    owed: Option<Owed>,
    answers_for_origin: bool,
}

/// What matters of the answer to a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    error: Option<ApiError>,
    name: String,
    config: Option<ConsumerConfig>,
    delivered: SequenceInfo,
    num_pending: u64,
}

impl Source {
    /// A source that asks soon. `position` is how far it is.
    pub(crate) fn new(
        ctx: &mut Context<'_>,
        id: u32,
        kind: Kind,
        config: StreamSource,
        position: Option<&Position>,
    ) -> Self {
        let transforms = config.subject_transforms.iter();
        let transforms = transforms
            .map(|pair| Transform::new(pair.source.as_bytes(), pair.destination.as_bytes()).ok())
            .collect();
        let position = position.cloned().unwrap_or_default();
        Self {
            id,
            kind,
            index: index_name(&config).into(),
            transforms,
            config,
            phase: Phase::Waiting { at: ctx.outside.now().saturating_add(jitter(ctx.outside)), probe: None },
            subscriptions: 0,
            consumer: Box::default(),
            sequence: position.sequence,
            number: 0,
            lag: 0,
            heard: None,
            error: None,
            failures: 0,
            asked_at: None,
            identity: position.identity,
            recreated: false,
            stalled: None,
            early: VecDeque::new(),
            early_bytes: 0,
            owed: None,
            answers_for_origin: false,
        }
    }

    /// Its number in the stream.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Name that tells it from the others.
    pub(crate) fn index(&self) -> &str {
        &self.index
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// How it is configured.
    pub(crate) fn config(&self) -> &StreamSource {
        &self.config
    }

    /// When `handle_timeout` is due.
    pub(crate) fn poll_timeout(&self) -> Timestamp {
        match self.phase {
            Phase::Waiting { at, .. } => at,
            Phase::Asked { until, .. } => until,
            Phase::Active { check_at, .. } => check_at,
        }
    }

    /// Something may be due.
    pub(crate) fn handle_timeout(&mut self, ctx: &mut Context<'_>) {
        let now = ctx.outside.now();
        if self.poll_timeout() > now {
            return;
        }
        match self.phase {
            Phase::Waiting { .. } => self.ask(ctx, self.first_level()),
            Phase::Asked { .. } => {
                self.failures += 1;
                self.restart(ctx);
                self.probe(ctx);
            }
            Phase::Active { inbox, since, .. } => {
                let check_at = self.heard.map_or(since, |heard| heard.max(since)).saturating_add(SILENCE_MAX);
                if check_at > now {
                    self.phase = Phase::Active { inbox, since, check_at };
                } else {
                    self.restart(ctx);
                }
            }
        }
    }

    /// A message came over one of its subscriptions.
    pub(crate) fn handle(&mut self, ctx: &mut Context<'_>, inbox: u64, message: Sourced) -> Outcome {
        match &self.phase {
            Phase::Waiting { probe: Some(probe), .. } if *probe == inbox => {
                // It lives, so there is no reason to wait for long.
                self.failures = 0;
                self.restart(ctx);
                Outcome::Nothing
            }
            Phase::Asked { inbox: expected, .. } if *expected == inbox => self.answered(ctx, &message),
            Phase::Asked { early: Some(expected), .. } if *expected == inbox => {
                let bytes = message.headers.len() + message.payload.len();
                if self.early_bytes + bytes <= EARLY_BYTES_MAX {
                    self.early_bytes += bytes;
                    self.early.push_back(message);
                }
                Outcome::Nothing
            }
            Phase::Active { inbox: expected, .. } if *expected == inbox => self.received(ctx, message),
            // Of a subscription that was given up.
            _ => Outcome::Nothing,
        }
    }

    /// What came before the answer to the request, one at a time, once the answer has come.
    pub(crate) fn handle_early(&mut self, ctx: &mut Context<'_>) -> Option<Outcome> {
        let Phase::Active { .. } = self.phase else { return None };
        let message = self.early.pop_front()?;
        Some(self.received(ctx, message))
    }

    /// The stream did not take a message: it has to come once more.
    pub(crate) fn refused(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        self.sequence = self.sequence.min(sequence.saturating_sub(1));
        self.restart(ctx);
    }

    /// The stream has stored up to here: what was asked for because of it is answered.
    pub(crate) fn stored(&mut self, effects: &mut Effects, sequence: u64) {
        let Some(owed) = self.owed.take_if(|owed| owed.until <= sequence) else { return };
        let mut built = headers::Builder::new(64);
        built.number(b"Nats-Last-Consumer", owed.number).number(b"Nats-Last-Stream", owed.sequence);
        let headers = built.finish().into();
        effects.push(Effect::Send(Send { subject: owed.reply, reply: None, headers, payload: Bytes::new() }));
    }

    /// What was received before the last question has its sequences only now.
    pub(crate) fn postpone(&mut self, sequence: u64) {
        if let Some(owed) = &mut self.owed {
            owed.until = owed.until.max(sequence);
        }
    }

    /// Gives up what it listens to. Answers that were owed are not given: what they tell of may not have been stored.
    pub(crate) fn stop(&mut self, ctx: &mut Context<'_>) {
        let inboxes = match &self.phase {
            Phase::Waiting { probe, .. } => [*probe, None],
            Phase::Asked { inbox, early, .. } => [Some(*inbox), *early],
            Phase::Active { inbox, .. } => [Some(*inbox), None],
        };
        ctx.effects.queue.extend(inboxes.into_iter().flatten().map(Effect::Unsubscribe));
        self.early = VecDeque::new();
        self.early_bytes = 0;
        self.owed = None;
        self.stalled = None;
        self.phase = Phase::Waiting { at: ctx.outside.now(), probe: None };
        self.answer_for_origin(ctx, false);
    }

    /// Stops for ever, and tells the origin so: it may keep messages for our consumer.
    pub(crate) fn remove(mut self, ctx: &mut Context<'_>) {
        self.stop(ctx);
        if self.config.consumer.is_some() {
            return;
        }
        let name = if self.consumer.is_empty() {
            origin::consumer_name(ctx.facts, self.kind, &self.config)
        } else {
            self.consumer.into_string()
        };
        let subject =
            origin::api_subject(&self.config, &format!("CONSUMER.DELETE.{}.{name}", self.config.name));
        // Requests without a reply are not served; nobody listens there.
        let reply = Some(reply_subject(ctx.outside));
        let (headers, payload) = (Bytes::new(), Bytes::new());
        ctx.effects.push(Effect::Send(Send { subject, reply, headers, payload }));
    }

    /// How far it is. `position` is what is stored of it.
    pub(crate) fn info(&self, now: Timestamp, position: Option<&Position>) -> StreamSourceInfo {
        let known = position.filter(|position| {
            !self.recreated && (position.identity.is_empty() || position.identity == self.identity)
        });
        let transforms = self.config.subject_transforms.iter().zip(&self.transforms);
        let transforms = transforms.map(|(pair, transform)| SubjectTransform {
            source: pair.source.clone(),
            destination: transform.as_ref().map(|_| pair.destination.clone()).unwrap_or_default(),
        });
        StreamSourceInfo {
            name: self.config.name.clone(),
            external: self.config.external.as_ref().map(|external| External { ..external.clone() }),
            lag: self.lag,
            seq: known.map_or(0, |position| position.sequence),
            active: self.heard.map_or(api::duration::Nanos(-1), |heard| now.saturating_since(heard).into()),
            error: self.error.clone(),
            filter_subject: self.config.filter_subject.clone(),
            subject_transforms: transforms.collect(),
        }
    }

    fn first_level(&self) -> Level {
        if self.kind == Kind::Mirror { Level::Sourcing } else { Level::Identity }
    }

    fn subscribe(&mut self, ctx: &mut Context<'_>, subject: Bytes) -> u64 {
        self.subscriptions += 1;
        let inbox = u64::from(self.id) << 32 | u64::from(self.subscriptions);
        ctx.effects.push(Effect::Subscribe { inbox, subject });
        inbox
    }

    fn ask(&mut self, ctx: &mut Context<'_>, level: Level) {
        self.stop(ctx);
        let now = ctx.outside.now();
        if self.kind == Kind::Mirror {
            self.sequence = ctx.last_sequence;
        }
        let unique = (random_name(ctx.outside), random_name(ctx.outside));
        let ask = Ask {
            facts: ctx.facts,
            kind: self.kind,
            source: &self.config,
            level,
            start: self.start(&ctx.state, ctx.last_sequence),
            identity: &self.identity,
            unique: (&unique.0, &unique.1),
        };
        let (subject, headers, payload) = ask.request();
        let deliver = Bytes::from(ask.deliver_subject());
        let lasting = self.config.consumer.is_some();
        let early = (!lasting).then(|| self.subscribe(ctx, deliver.clone()));
        let reply = reply_subject(ctx.outside);
        let inbox = self.subscribe(ctx, reply.clone());
        let patience = if lasting { RESET_MAX } else { CREATE_MAX };
        self.phase = Phase::Asked { inbox, until: now.saturating_add(patience), level, deliver, early };
        self.asked_at = Some(now);
        self.error = None;
        ctx.effects.push(Effect::Send(Send { subject, reply: Some(reply), headers, payload }));
    }

    /// Where the origin shall begin.
    fn start(&self, state: &State, last_sequence: u64) -> Start {
        let wanted = self.config.opt_start_time;
        if self.kind == Kind::Mirror {
            let untouched = last_sequence == 0 && state.messages == 0;
            return match (untouched, self.config.opt_start_seq, wanted) {
                (false, ..) => Start::Sequence(last_sequence + 1),
                (true, sequence @ 1.., _) => Start::Sequence(sequence),
                (true, 0, Some(time)) => Start::Time(time),
                (true, 0, None) => Start::First,
            };
        }
        if self.sequence > 0 {
            return Start::Sequence(self.sequence + 1);
        }
        if self.config.opt_start_seq > 0 {
            return Start::Sequence(self.config.opt_start_seq);
        }
        // A stream that had messages before has had what is older than its last one.
        let last = state.last_timestamp.map(crate::stream::info::api_time);
        match (wanted, last) {
            (Some(time), Some(last)) if time < last => Start::Time(last),
            (Some(time), _) => Start::Time(time),
            (None, Some(last)) if state.first_sequence > 1 && !self.recreated => Start::Time(last),
            (None, _) => Start::First,
        }
    }

    /// Gives the consumer up and asks for another one after a pause.
    fn restart(&mut self, ctx: &mut Context<'_>) {
        self.stop(ctx);
        let now = ctx.outside.now();
        let allowed = self.asked_at.map_or(now, |asked| asked.saturating_add(REQUEST_PAUSE));
        let at = allowed.max(now).saturating_add(back_off(self.failures)).saturating_add(jitter(ctx.outside));
        self.phase = Phase::Waiting { at, probe: None };
    }

    /// While it waits for long, it listens whether a lasting consumer is alive.
    fn probe(&mut self, ctx: &mut Context<'_>) {
        let Some(consumer) = &self.config.consumer else { return };
        let subject = consumer.deliver_subject.clone().into();
        let inbox = self.subscribe(ctx, subject);
        if let Phase::Waiting { probe, .. } = &mut self.phase {
            *probe = Some(inbox);
        }
    }

    /// The origin answered the request.
    fn answered(&mut self, ctx: &mut Context<'_>, message: &Sourced) -> Outcome {
        let Phase::Asked { inbox: answered, level, deliver, early, .. } = &self.phase else {
            return Outcome::Nothing;
        };
        let (answered, level, early, deliver) = (*answered, *level, *early, deliver.clone());
        let mut answer: Answer = serde_json::from_slice(&message.payload).unwrap_or_default();
        let begun = answer.delivered.stream_seq;
        let (Some(config), None, ..=SEQUENCE_MAX) = (&answer.config, &answer.error, begun) else {
            self.failed(ctx, level, answer.error);
            return Outcome::Nothing;
        };
        let lasting = self.config.consumer.is_some();
        if lasting && config.ack_policy != AckPolicy::FlowControl {
            let error = match self.kind {
                Kind::Mirror => ErrorCode::MIRROR_CONSUMER_REQUIRES_ACK_FC,
                Kind::Source => ErrorCode::SOURCE_CONSUMER_REQUIRES_ACK_FC,
            };
            return self.give_up(ctx, error.into());
        }
        let now = ctx.outside.now();
        ctx.effects.push(Effect::Unsubscribe(answered));
        self.consumer = std::mem::take(&mut answer.name).into();
        self.number = 0;
        self.failures = 0;
        self.error = None;
        self.lag = answer.num_pending;
        match self.kind {
            Kind::Mirror => self.sequence = begun.max(ctx.last_sequence),
            Kind::Source => {
                let identity = headers::find(&message.headers, origin::IDENTITY).unwrap_or_default();
                self.recognize(&String::from_utf8_lossy(identity));
                self.sequence = self.sequence.max(begun);
                self.heard = Some(now);
            }
        }
        let inbox = early.unwrap_or_else(|| self.subscribe(ctx, deliver));
        self.phase = Phase::Active { inbox, since: now, check_at: now.saturating_add(SILENCE_MAX) };
        if self.kind == Kind::Mirror {
            self.caught_up(ctx, answer.num_pending);
            if ctx.last_sequence < begun {
                return Outcome::Skip(begun);
            }
        }
        Outcome::Nothing
    }

    /// Notes which of all streams of its name the origin is.
    fn recognize(&mut self, identity: &str) {
        let another = !identity.is_empty() && !self.identity.is_empty() && *self.identity != *identity;
        if self.recreated || another {
            self.sequence = 0;
        }
        self.identity = identity.into();
        self.recreated = false;
    }

    fn failed(&mut self, ctx: &mut Context<'_>, level: Level, error: Option<ApiError>) {
        let Some(error) = error else {
            let code = match self.kind {
                Kind::Mirror => ErrorCode::MIRROR_CONSUMER_SETUP_FAILED,
                Kind::Source => ErrorCode::SOURCE_CONSUMER_SETUP_FAILED,
            };
            self.give_up(ctx, code.because("invalid consumer create response"));
            return;
        };
        if self.kind == Kind::Source && ErrorCode::CONSUMER_STREAM_IDENTITY_MISMATCH.is(&error) {
            // It was made anew, so it begins anew.
            (self.sequence, self.number) = (0, 0);
            self.identity = Box::default();
            self.recreated = true;
            return self.restart(ctx);
        }
        let too_new = ErrorCode::REQUIRED_API_LEVEL.is(&error) || ErrorCode::INVALID_JSON.is(&error);
        match level {
            Level::Identity if too_new => self.ask(ctx, Level::Sourcing),
            Level::Sourcing if too_new && self.config.consumer.is_none() => self.ask(ctx, Level::Plain),
            _ => {
                self.give_up(ctx, error);
            }
        }
    }

    fn give_up(&mut self, ctx: &mut Context<'_>, error: ApiError) -> Outcome {
        self.failures += 1;
        self.restart(ctx);
        self.error = Some(error);
        Outcome::Nothing
    }

    /// Something came from the consumer.
    fn received(&mut self, ctx: &mut Context<'_>, message: Sourced) -> Outcome {
        self.heard = Some(ctx.outside.now());
        let has_reply = message.reply.as_ref().is_some_and(|reply| !reply.is_empty());
        if let Some(control) = Control::parse(&message.headers, &message.payload, has_reply) {
            self.control(ctx, &control, message.reply.as_ref());
            return Outcome::Nothing;
        }
        let Some(delivery) = message.reply.as_ref().and_then(|reply| Delivery::parse(reply)) else {
            return Outcome::Nothing;
        };
        // Messages of a consumer that was given up may still be on their way.
        if delivery.consumer != self.consumer.as_bytes() || delivery.deliveries > 1 {
            return Outcome::Nothing;
        }
        let in_order = delivery.number == self.number + 1;
        self.lag = delivery.pending.saturating_sub(1);
        if delivery.stream <= self.sequence {
            self.number += u64::from(in_order);
            return Outcome::Nothing;
        }
        if !in_order {
            if delivery.number > self.number {
                self.restart(ctx);
            }
            return Outcome::Nothing;
        }
        self.number = delivery.number;
        self.sequence = delivery.stream;
        self.flows();
        if self.kind == Kind::Mirror {
            self.caught_up(ctx, delivery.pending);
        }
        let (sequence, timestamp) = (delivery.stream, delivery.timestamp);
        Outcome::Store(self.take(&message, sequence, timestamp))
    }

    /// The message as it is stored here.
    fn take(&self, message: &Sourced, sequence: u64, timestamp: Timestamp) -> Taken {
        let mirrored = self.kind == Kind::Mirror;
        let mut headers = without(&message.headers, |name| {
            name.starts_with(b"Nats-Expected-")
                || name.starts_with(b"Nats-Batch-")
                || (!mirrored && name == mark::SOURCE)
        });
        if !mirrored {
            let value = mark::value(&self.index, sequence, &message.subject, &self.identity);
            let mut built = headers::Builder::from(&headers, value.len() + 24);
            built.line(mark::SOURCE, &value);
            headers = built.finish().into();
        }
        let subject =
            self.transforms.iter().flatten().find_map(|transform| transform.apply(&message.subject));
        Taken {
            source: self.id,
            kind: self.kind,
            sequence,
            timestamp,
            subject: subject.map_or_else(|| message.subject.clone(), Bytes::from),
            headers,
            payload: message.payload.clone(),
        }
    }

    /// A message of the consumer itself.
    fn control(&mut self, ctx: &mut Context<'_>, control: &Control<'_>, reply: Option<&Bytes>) {
        match control {
            Control::FlowControl => {
                let Some(reply) = reply.cloned() else { return };
                let (number, sequence, until) = (self.number, self.sequence, ctx.last_sequence);
                self.owed = Some(Owed { reply, number, sequence, until });
            }
            Control::Heartbeat { last, .. } if *last > 0 && *last != self.number => self.restart(ctx),
            Control::Heartbeat { stalled: Some(subject), .. } => self.unstall(ctx, subject),
            Control::Heartbeat { .. } => {
                // It has nothing to deliver.
                self.lag = 0;
                self.flows();
            }
        }
    }

    /// The consumer waits for an answer that it did not get, unless we still owe it.
    fn unstall(&mut self, ctx: &mut Context<'_>, subject: &[u8]) {
        if self.owed.as_ref().is_some_and(|owed| owed.reply == subject) {
            return;
        }
        let times = match &self.stalled {
            Some((known, times)) if known == subject => times + 1,
            _ => 1,
        };
        let subject = Bytes::copy_from_slice(subject);
        self.stalled = Some((subject.clone(), times));
        if times == STALLED_MAX {
            self.error = Some(ErrorCode::SOURCE_CONSUMER_FLOW_CONTROL_STALLED.into());
        }
        let (headers, payload) = (Bytes::new(), Bytes::new());
        ctx.effects.push(Effect::Send(Send { subject, reply: None, headers, payload }));
    }

    /// The consumer is not stalled.
    fn flows(&mut self) {
        let stalled = ErrorCode::SOURCE_CONSUMER_FLOW_CONTROL_STALLED;
        if self.stalled.take().is_some() && self.error.as_ref().is_some_and(|error| stalled.is(error)) {
            self.error = None;
        }
    }

    fn caught_up(&mut self, ctx: &mut Context<'_>, pending: u64) {
        if !self.answers_for_origin && ctx.facts.config.mirror_direct && pending < CAUGHT_UP {
            self.answer_for_origin(ctx, true);
        }
    }

    fn answer_for_origin(&mut self, ctx: &mut Context<'_>, answers: bool) {
        if self.kind == Kind::Mirror && self.answers_for_origin != answers {
            self.answers_for_origin = answers;
            ctx.effects.push(Effect::AnswerForOrigin(answers));
        }
    }
}

/// A block without the lines whose names `drop` wants gone; the other bytes stay as they are.
fn without(block: &Bytes, drop: impl Fn(&[u8]) -> bool) -> Bytes {
    if !headers::lines(block).any(|(name, _)| drop(name)) {
        return block.clone();
    }
    let mut kept = Vec::with_capacity(block.len());
    let mut lines = 0;
    let mut rest = &block[..];
    while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
        let (line, after) = rest.split_at(end + 2);
        let name = memchr::memchr(b':', line).map(|colon| &line[..colon]);
        if !name.is_some_and(&drop) {
            kept.extend_from_slice(line);
            lines += 1;
        }
        rest = after;
    }
    kept.extend_from_slice(rest);
    // Version and end alone are no headers.
    if lines <= 2 { Bytes::new() } else { kept.into() }
}

fn jitter(outside: &mut dyn Outside) -> Duration {
    Duration::from_nanos(JITTER + outside.random() % JITTER)
}

/// What so many failures in a row add to the pause.
fn back_off(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        failures => BACK_OFF.saturating_mul(1 << (failures - 1).min(16)).min(BACK_OFF_MAX),
    }
}

fn random_name(outside: &mut dyn Outside) -> String {
    let mut letter = || ALPHABET[(outside.random() % ALPHABET.len() as u64) as usize];
    (0..NAME_LENGTH).map(|_| char::from(letter())).collect()
}

fn reply_subject(outside: &mut dyn Outside) -> Bytes {
    format!("$JSC.R.{}", random_name(outside)).into()
}
