//! What an origin is asked for: the consumer of a mirror or source, its name, and the request that makes it or sets it back.

use api::Time;
use api::duration::Nanos;
use api::jetstream::consumer::{AckPolicy, ConsumerConfig, DeliverPolicy};
use api::jetstream::request::CreateConsumerRequest;
use api::jetstream::stream::StreamSource;
use bytes::Bytes;

use super::{HEARTBEAT, Kind, SILENCE_MAX, hash};
use crate::stream::facts::StreamFacts;
use crate::stream::headers::Builder;

const API: &str = "$JS.API";
const API_LEVEL: &[u8] = b"Nats-Required-Api-Level";
/// Header that names the stream an origin must still be.
pub(crate) const IDENTITY: &[u8] = b"Nats-Stream-Identity";
/// No acknowledgement is waited for, so this is as good as never.
const ACK_WAIT: Nanos = Nanos(22 * 3_600_000_000_000);

/// What the origin is expected to understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// That it may have been made anew.
    Identity,
    /// Lasting consumers of mirrors and sources.
    Sourcing,
    /// Nothing of that.
    Plain,
}

/// Where an origin begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// At its first message.
    First,
    /// At this sequence.
    Sequence(u64),
    /// At this time.
    Time(Time),
}

/// Who asks whom, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) facts: &'a StreamFacts,
    pub(super) kind: Kind,
    pub(super) source: &'a StreamSource,
    pub(super) level: Level,
    pub(super) start: Start,
    /// What the origin was when it was heard of last; empty if it never was.
    pub(super) identity: &'a str,
    /// Random characters: for the deliver subject, and for the name where the other end does not make it unique.
    pub(super) unique: (&'a str, &'a str),
}

/// Name that tells a source from all others of its stream. It is in stored headers.
pub(crate) fn index_name(source: &StreamSource) -> String {
    let mut name = source.name.clone();
    if let Some(external) = &source.external {
        name.push(':');
        name.push_str(&hash::short(&external.api));
    }
    if let Some(consumer) = &source.consumer {
        name.push_str(":C=");
        name.push_str(&hash::short(&consumer.name));
    }
    let or_all = |subject: &str| if subject.is_empty() { ">".to_owned() } else { subject.to_owned() };
    if source.subject_transforms.is_empty() {
        return format!("{name} {} >", or_all(&source.filter_subject));
    }
    let transforms = &source.subject_transforms;
    let filters: Vec<String> = transforms.iter().map(|pair| or_all(&pair.source)).collect();
    let destinations: Vec<String> = transforms.iter().map(|pair| or_all(&pair.destination)).collect();
    format!("{name} {} {}", filters.join("\u{c}"), destinations.join("\u{c}"))
}

/// Name of the consumer that this stream wants; the origin appends to it unless it keeps messages for it.
pub(crate) fn consumer_name(facts: &StreamFacts, kind: Kind, source: &StreamSource) -> String {
    let mut id = format!("{} {}", facts.name(), facts.account());
    if let Some(domain) = facts.domain() {
        id.push(' ');
        id.push_str(domain);
    }
    let id = hash::short(&id);
    if kind == Kind::Mirror {
        return format!("JS_MIRROR_{id}");
    }
    // Two sources of one stream need two names.
    let same = facts.config.sources.iter().filter(|other| other.name == source.name).count();
    let id = if same > 1 { format!("{id} {}", index_name(source)) } else { id };
    format!("JS_SRC_{}", hash::short(&id))
}

/// Subject of an API of the origin.
pub(super) fn api_subject(source: &StreamSource, rest: &str) -> Bytes {
    let prefix = source.external.as_ref().map_or(API, |external| external.api.as_str());
    format!("{prefix}.{rest}").replace("..", ".").into()
}

impl Ask<'_> {
    /// Where messages shall go.
    pub(super) fn deliver_subject(&self) -> String {
        if let Some(consumer) = &self.source.consumer {
            return consumer.deliver_subject.clone();
        }
        let letter = if self.kind == Kind::Mirror { 'M' } else { 'S' };
        let external = self.source.external.as_ref().filter(|external| !external.deliver.is_empty());
        let prefix = external.map_or("$JS", |external| external.deliver.as_str());
        format!("{prefix}.{letter}.{}", self.unique.0).replace("..", ".")
    }

    /// Subject, header block and body of the request.
    pub(super) fn request(&self) -> (Bytes, Bytes, Bytes) {
        let headers = self.headers();
        if let Some(consumer) = &self.source.consumer {
            let rest = format!("CONSUMER.RESET.{}.{}", self.source.name, consumer.name);
            return (api_subject(self.source, &rest), headers, Bytes::new());
        }
        let config = self.config();
        let rest = if config.filter_subject.is_empty() {
            format!("CONSUMER.CREATE.{}", self.source.name)
        } else {
            format!("CONSUMER.CREATE.{}.{}.{}", self.source.name, config.name, config.filter_subject)
        };
        let request = CreateConsumerRequest {
            stream_name: self.source.name.clone(),
            config,
            ..CreateConsumerRequest::default()
        };
        let Ok(body) = serde_json::to_vec(&request) else { unreachable!("plain data has a JSON form") };
        (api_subject(self.source, &rest), headers, body.into())
    }

    fn headers(&self) -> Bytes {
        if self.level == Level::Plain || (self.kind == Kind::Mirror && self.source.consumer.is_some()) {
            return Bytes::new();
        }
        let mut built = Builder::new(96);
        if self.level == Level::Identity {
            built.line(API_LEVEL, b"5").line(IDENTITY, self.identity.as_bytes());
        } else {
            built.line(API_LEVEL, b"4");
        }
        built.finish().into()
    }

    fn config(&self) -> ConsumerConfig {
        let facts = self.facts;
        let mut name = consumer_name(facts, self.kind, self.source);
        if self.level == Level::Plain {
            name = format!("{name}_{}", self.unique.1);
        }
        let prefix = if self.kind == Kind::Mirror { "_nats.mirror" } else { "_nats.src" };
        let mut metadata = std::collections::BTreeMap::from([
            (format!("{prefix}.stream"), facts.name().to_owned()),
            (format!("{prefix}.acc"), facts.account().to_owned()),
        ]);
        if let Some(domain) = facts.domain() {
            metadata.insert(format!("{prefix}.domain"), domain.to_owned());
        }
        let mut config = ConsumerConfig {
            name,
            deliver_subject: self.deliver_subject(),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::None,
            ack_wait: ACK_WAIT,
            max_deliver: 1,
            idle_heartbeat: HEARTBEAT.into(),
            flow_control: true,
            direct: true,
            sourcing: self.level != Level::Plain,
            inactive_threshold: SILENCE_MAX.into(),
            metadata,
            ..ConsumerConfig::default()
        };
        match self.start {
            Start::First => {}
            Start::Sequence(sequence) => {
                config.deliver_policy = DeliverPolicy::ByStartSequence;
                config.opt_start_seq = sequence;
            }
            Start::Time(time) => {
                config.deliver_policy = DeliverPolicy::ByStartTime;
                config.opt_start_time = Some(time);
            }
        }
        match self.source.subject_transforms.as_slice() {
            [] => config.filter_subject.clone_from(&self.source.filter_subject),
            [one] => config.filter_subject.clone_from(&one.source),
            more => config.filter_subjects = more.iter().map(|pair| pair.source.clone()).collect(),
        }
        config
    }
}
