//! From the spec of a Consumer to a configuration.

use api::Time;
use api::duration::Nanos;
use api::jetstream::account::Limits;
use api::jetstream::consumer::{
    AckPolicy, ConsumerConfig, DeliverPolicy, PriorityPolicy, ReplayPolicy, validate_create,
};
use api::jetstream::stream::StreamConfig;
use crd::jetstream::ConsumerSpec;
use crd::jetstream::consumer as spec;

use super::{SpecProblem, any_server, checked_name, metadata, nanos, problem, time};

/// What older schemas put in for a wait that nobody asked for: nobody means to get every message again at once.
const UNSET_ACK_WAIT: &str = "1ns";

/// A consumer as its spec says, before its stream is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredConsumer {
    /// Its stream.
    pub stream: String,
    /// What it should be.
    pub config: ConsumerConfig,
    /// Until when nothing is to be delivered; kept apart because servers change it by a request of its own.
    pub pause_until: Option<Time>,
    /// Go on where it was when it is made anew.
    pub preserve_position: bool,
}

impl DesiredConsumer {
    /// Checked against its stream, and filled in as a server would.
    ///
    /// # Errors
    /// When no server would take it.
    pub fn complete(&self, stream: &StreamConfig, limits: &Limits) -> Result<ConsumerConfig, SpecProblem> {
        validate_create(&self.config, stream, &any_server(), limits, false)
            .map_err(|error| SpecProblem::Refused(error.description))
    }
}

/// The consumer that a spec asks for.
///
/// # Errors
/// When no server would take it.
pub fn consumer(spec: &ConsumerSpec) -> Result<DesiredConsumer, SpecProblem> {
    let stream = checked_name("streamName", &spec.stream_name)?;
    let name = checked_name("durableName", spec.consumer_name())?;
    if !spec.name.is_empty() && !spec.durable_name.is_empty() && spec.name != spec.durable_name {
        return Err(problem("name", "differs from durableName: remove one of them"));
    }
    let config = ConsumerConfig {
        durable_name: name.clone(),
        name,
        description: spec.description.clone(),
        deliver_policy: deliver_policy(spec.deliver_policy),
        opt_start_seq: spec.opt_start_seq.and_then(|sequence| u64::try_from(sequence).ok()).unwrap_or(0),
        opt_start_time: time("optStartTime", &spec.opt_start_time)?,
        ack_policy: ack_policy(spec.ack_policy),
        ack_wait: ack_wait(spec)?,
        max_deliver: spec.max_deliver.unwrap_or(0),
        backoff: spec.backoff.iter().map(|wait| nanos("backoff", wait)).collect::<Result<_, _>>()?,
        replay_policy: match spec.replay_policy {
            spec::ReplayPolicy::Instant => ReplayPolicy::Instant,
            spec::ReplayPolicy::Original => ReplayPolicy::Original,
        },
        rate_limit_bps: positive(spec.rate_limit_bps),
        sample_freq: sampling(&spec.sample_freq)?,
        max_waiting: spec.max_waiting.unwrap_or(0),
        max_ack_pending: spec.max_ack_pending.unwrap_or(0),
        flow_control: spec.flow_control,
        headers_only: spec.headers_only,
        max_batch: spec.max_request_batch.unwrap_or(0),
        max_expires: nanos("maxRequestExpires", &spec.max_request_expires)?,
        max_bytes: spec.max_request_max_bytes.unwrap_or(0),
        deliver_subject: spec.deliver_subject.clone(),
        deliver_group: spec.deliver_group.clone(),
        idle_heartbeat: nanos("heartbeatInterval", &spec.heartbeat_interval)?,
        inactive_threshold: nanos("inactiveThreshold", &spec.inactive_threshold)?,
        num_replicas: spec.replicas.unwrap_or(0),
        mem_storage: spec.mem_storage,
        dead_letter_subject: spec.dead_letter_subject.clone(),
        max_ack_pending_per_subject: spec.max_ack_pending_per_subject.unwrap_or(0),
        metadata: metadata(&spec.metadata)?,
        priority_groups: spec.priority_groups.clone(),
        priority_policy: priority_policy(&spec.priority_policy)?,
        priority_timeout: nanos("pinnedTtl", &spec.pinned_ttl)?,
        ..filters(spec)?
    };
    Ok(DesiredConsumer {
        stream,
        config,
        pause_until: time("pauseUntil", &spec.pause_until)?.filter(|until| !until.is_zero()),
        preserve_position: spec.preserve_position,
    })
}

/// A list of one is the same as one, and servers show it so.
fn filters(spec: &ConsumerSpec) -> Result<ConsumerConfig, SpecProblem> {
    let mut config = ConsumerConfig::default();
    match (spec.filter_subject.as_str(), spec.filter_subjects.as_slice()) {
        ("", [only]) => config.filter_subject.clone_from(only),
        ("", several) => config.filter_subjects = several.to_vec(),
        (one, []) => one.clone_into(&mut config.filter_subject),
        (_, _) => {
            return Err(problem(
                "filterSubjects",
                "cannot stand beside filterSubject: put all into filterSubjects",
            ));
        }
    }
    Ok(config)
}

fn ack_wait(spec: &ConsumerSpec) -> Result<Nanos, SpecProblem> {
    if spec.ack_wait.0 == UNSET_ACK_WAIT { Ok(Nanos::ZERO) } else { nanos("ackWait", &spec.ack_wait) }
}

/// Servers take any text, clients write a percentage.
fn sampling(text: &str) -> Result<String, SpecProblem> {
    if text.is_empty() {
        return Ok(String::new());
    }
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<u8>() {
        Ok(0) => Ok(String::new()),
        Ok(percent @ 1..=100) => Ok(format!("{percent}%")),
        _ => Err(problem("sampleFreq", "is no percentage: write a number from 0 to 100")),
    }
}

fn positive(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

const fn deliver_policy(policy: spec::DeliverPolicy) -> DeliverPolicy {
    match policy {
        spec::DeliverPolicy::All => DeliverPolicy::All,
        spec::DeliverPolicy::Last => DeliverPolicy::Last,
        spec::DeliverPolicy::New => DeliverPolicy::New,
        spec::DeliverPolicy::ByStartSequence => DeliverPolicy::ByStartSequence,
        spec::DeliverPolicy::ByStartTime => DeliverPolicy::ByStartTime,
        spec::DeliverPolicy::LastPerSubject => DeliverPolicy::LastPerSubject,
    }
}

const fn ack_policy(policy: spec::AckPolicy) -> AckPolicy {
    match policy {
        spec::AckPolicy::None => AckPolicy::None,
        spec::AckPolicy::All => AckPolicy::All,
        spec::AckPolicy::Explicit => AckPolicy::Explicit,
        spec::AckPolicy::FlowControl => AckPolicy::FlowControl,
    }
}

fn priority_policy(text: &str) -> Result<PriorityPolicy, SpecProblem> {
    match text {
        "" | "none" => Ok(PriorityPolicy::None),
        "overflow" => Ok(PriorityPolicy::Overflow),
        "pinned_client" => Ok(PriorityPolicy::PinnedClient),
        "prioritized" => Ok(PriorityPolicy::Prioritized),
        _ => Err(problem("priorityPolicy", "is none of none, overflow, pinned_client and prioritized")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(mut spec: Value) -> Result<ConsumerConfig, String> {
        for (key, value) in [("streamName", "orders"), ("durableName", "worker")] {
            if spec.get(key).is_none() {
                spec[key] = json!(value);
            }
        }
        let spec: ConsumerSpec = serde_json::from_value(spec).unwrap();
        let stream = StreamConfig { name: "orders".to_owned(), num_replicas: 1, ..StreamConfig::default() };
        let desired = consumer(&spec).map_err(|problem| problem.to_string())?;
        desired.complete(&stream, &Limits::UNLIMITED).map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_default_wait_of_a_nanosecond_is_no_wish() {
        let config = read(json!({ "ackPolicy": "explicit" })).unwrap();
        assert_eq!(config.ack_wait, Nanos::from_secs(30));
        assert_eq!((config.max_ack_pending, config.max_waiting, config.max_deliver), (1000, 512, -1));
        let config =
            read(json!({ "ackPolicy": "explicit", "backoff": ["1s", "5s"], "maxDeliver": 3 })).unwrap();
        assert_eq!((config.ack_wait, config.backoff.len()), (Nanos::from_secs(1), 2));
        assert_eq!(
            read(json!({ "ackPolicy": "explicit", "ackWait": "5s" })).unwrap().ack_wait,
            Nanos::from_secs(5)
        );
    }

    #[test]
    fn one_filter_is_one_filter_however_it_is_written() {
        let one = read(json!({ "filterSubject": "a" })).unwrap();
        assert_eq!(one, read(json!({ "filterSubjects": ["a"] })).unwrap());
        assert_eq!(read(json!({ "filterSubjects": ["a", "b"] })).unwrap().filter_subjects.len(), 2);
    }

    #[test]
    fn both_names_are_the_same_name() {
        let config = read(json!({ "name": "worker" })).unwrap();
        assert_eq!((config.durable_name.as_str(), config.name.as_str()), ("worker", "worker"));
        assert_eq!(read(json!({ "sampleFreq": "50" })).unwrap().sample_freq, "50%");
    }

    #[test]
    fn a_pinned_client_without_a_bound_keeps_the_usual_one() {
        let config = read(
            json!({ "priorityPolicy": "pinned_client", "priorityGroups": ["a"], "ackPolicy": "explicit" }),
        )
        .unwrap();
        assert_eq!(config.priority_timeout, Nanos::from_secs(120));
        assert_eq!(config.priority_groups, ["a"]);
    }

    #[test]
    fn what_no_server_takes_is_refused_with_what_to_change() {
        for (spec, part) in [
            (json!({ "durableName": "a b" }), "is no name"),
            (json!({ "streamName": "a.b" }), "is no name"),
            (json!({ "streamName": "x\r\nSUB > 1" }), "is no name"),
            (json!({ "name": "other" }), "differs from durableName"),
            (json!({ "filterSubject": "a", "filterSubjects": ["b"] }), "put all into filterSubjects"),
            (json!({ "deliverPolicy": "byStartTime" }), "start time is not set"),
            (json!({ "deliverPolicy": "lastPerSubject" }), "filter subject is not set"),
            (json!({ "optStartTime": "now" }), "is not a time"),
            (json!({ "sampleFreq": "often" }), "is no percentage"),
            (json!({ "priorityPolicy": "best" }), "is none of"),
            (json!({ "heartbeatInterval": "1s" }), "push"),
            (json!({ "deliverSubject": "a.*" }), "wildcards"),
            (json!({ "deadLetterSubject": "dead.*", "ackPolicy": "explicit" }), "wildcards"),
            (json!({ "deadLetterSubject": "dead.a" }), "explicit"),
            (json!({ "ackPolicy": "explicit", "backoff": ["1s", "2s"], "maxDeliver": 1 }), "max deliver"),
        ] {
            let text = read(spec.clone()).unwrap_err();
            assert!(text.contains(part), "{spec} -> {text}");
        }
    }
}
