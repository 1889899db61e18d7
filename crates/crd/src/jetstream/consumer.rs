//! `Consumer`.

#![expect(clippy::duplicated_attributes, reason = "printer columns share the names of their attributes")]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::AssetOptions;
use super::span::Span;
use super::status::ConsumerStatus;

/// A durable consumer of a stream.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "jetstream.nats.io",
    version = "v1beta2",
    kind = "Consumer",
    plural = "consumers",
    singular = "consumer",
    shortname = "jsc",
    category = "nats",
    category = "jetstream",
    namespaced,
    status = "ConsumerStatus",
    derive = "PartialEq",
    doc = "A durable consumer of a stream.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'Ready')].reason",
        description = "The current state of the consumer."
    ),
    printcolumn(
        name = "Stream",
        type_ = "string",
        json_path = ".spec.streamName",
        description = "The name of the JetStream Stream."
    ),
    printcolumn(
        name = "Consumer",
        type_ = "string",
        json_path = ".spec.durableName",
        description = "The name of the JetStream Consumer."
    ),
    printcolumn(
        name = "Ack Policy",
        type_ = "string",
        json_path = ".spec.ackPolicy",
        description = "The ack policy."
    ),
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.state.pending"),
    printcolumn(name = "Ack Pending", type_ = "integer", json_path = ".status.state.ackPending"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.cluster.leader", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.streamName) || (has(self.streamName) && self.streamName == oldSelf.streamName)")
        .message("streamName cannot change: restore it, or create a new Consumer"),
    validation = Rule::new("!has(oldSelf.durableName) || (has(self.durableName) && self.durableName == oldSelf.durableName)")
        .message("durableName cannot change: restore it, or create a new Consumer"),
    validation = Rule::new("!has(oldSelf.name) || (has(self.name) && self.name == oldSelf.name)")
        .message("name cannot change: restore it, or create a new Consumer"),
    validation = Rule::new("(has(self.updateStrategy) && self.updateStrategy != 'InPlace') || ((!has(self.deliverPolicy) || !has(oldSelf.deliverPolicy) || self.deliverPolicy == oldSelf.deliverPolicy) && (!has(self.ackPolicy) || !has(oldSelf.ackPolicy) || self.ackPolicy == oldSelf.ackPolicy) && (!has(self.replayPolicy) || !has(oldSelf.replayPolicy) || self.replayPolicy == oldSelf.replayPolicy) && (!has(self.memStorage) || !has(oldSelf.memStorage) || self.memStorage == oldSelf.memStorage))")
        .message("deliverPolicy, ackPolicy, replayPolicy and memStorage cannot change in place: restore them, or set updateStrategy to Recreate")
)]
pub struct ConsumerSpec {
    /// Name of its stream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stream_name: String,
    /// Name of the consumer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1), regex(pattern = r"^[^.*>]+$"))]
    pub durable_name: String,
    /// Another word for durableName.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = r"^[^.*>]*$"))]
    pub name: String,
    /// Text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where it begins.
    #[serde(default)]
    pub deliver_policy: DeliverPolicy,
    /// The sequence it begins at, with deliverPolicy byStartSequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub opt_start_seq: Option<i64>,
    /// The time it begins at, with deliverPolicy byStartTime.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub opt_start_time: String,
    /// Where a push consumer delivers to; empty for a pull consumer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deliver_subject: String,
    /// Queue group of the receivers of a push consumer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deliver_group: String,
    /// How messages are acknowledged.
    #[serde(default)]
    pub ack_policy: AckPolicy,
    /// How long an acknowledgement is waited for. The default 1ns stands for 30s.
    #[serde(default = "unset_ack_wait")]
    pub ack_wait: Span,
    /// Most deliveries of one message; -1 without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub max_deliver: Option<i64>,
    /// How long the acknowledgement of each delivery is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backoff: Vec<Span>,
    /// Subject wanted; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    /// Subjects wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter_subjects: Vec<String>,
    /// How fast messages are delivered.
    #[serde(default)]
    pub replay_policy: ReplayPolicy,
    /// Percentage of acknowledgements that are reported.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample_freq: String,
    /// Most pull requests that may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<i64>,
    /// Most bits a second of a push consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit_bps: Option<i64>,
    /// Most messages that may wait for their acknowledgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ack_pending: Option<i64>,
    /// Stop deliveries until their receiver answers.
    #[serde(default)]
    pub flow_control: bool,
    /// Deliver without the payload.
    #[serde(default)]
    pub headers_only: bool,
    /// Longest silence of a push consumer.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub heartbeat_interval: Span,
    /// Most messages of one pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_batch: Option<i64>,
    /// Longest life of a pull request.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub max_request_expires: Span,
    /// Most bytes of one pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_max_bytes: Option<i64>,
    /// How long it lives without a client.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub inactive_threshold: Span,
    /// Deliver nothing until this time.
    #[serde(default)]
    pub pause_until: String,
    /// Which of the waiting clients is served: none, overflow, pinned_client or prioritized.
    #[serde(default)]
    pub priority_policy: String,
    /// How long a silent client stays pinned.
    #[serde(default)]
    pub pinned_ttl: Span,
    /// Groups of clients that are served by priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priority_groups: Vec<String>,
    /// How many servers keep its state; as many as keep the stream when 0 or unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Keep its state in memory.
    #[serde(default)]
    pub mem_storage: bool,
    /// Where messages go that are given up. Needs servers that know it, and ackPolicy explicit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dead_letter_subject: String,
    /// Most messages of one subject that may wait for their acknowledgement. Needs servers that know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_ack_pending_per_subject: Option<i64>,
    /// Names and values of your choice. Names that begin with myelin.dev/ are the operator's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// With updateStrategy Recreate: go on after what was acknowledged rather than begin again.
    #[serde(default = "yes")]
    pub preserve_position: bool,
    /// How to reach the servers, and how to treat what is there.
    #[serde(flatten)]
    pub options: AssetOptions,
}

/// Where a consumer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DeliverPolicy {
    /// At the oldest message.
    #[default]
    All,
    /// At the newest.
    Last,
    /// After the newest.
    New,
    /// At a sequence.
    ByStartSequence,
    /// At a time.
    ByStartTime,
    /// With the newest message of each subject.
    LastPerSubject,
}

/// How messages are acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AckPolicy {
    /// Not at all.
    #[default]
    None,
    /// With all before.
    All,
    /// One by one.
    Explicit,
    /// With all before, by the answers to flow control.
    FlowControl,
}

/// How fast messages are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayPolicy {
    /// As fast as they are taken.
    #[default]
    Instant,
    /// With the pauses they came with.
    Original,
}

/// What the schema of older manifests puts in when nothing is said.
fn unset_ack_wait() -> Span {
    Span::from("1ns")
}

const fn yes() -> bool {
    true
}

impl ConsumerSpec {
    /// Name of the consumer on the server.
    #[must_use]
    pub fn consumer_name(&self) -> &str {
        if self.durable_name.is_empty() { &self.name } else { &self.durable_name }
    }
}

impl Default for ConsumerSpec {
    /// What the API server makes of a spec that says nothing.
    fn default() -> Self {
        Self {
            stream_name: String::new(),
            durable_name: String::new(),
            name: String::new(),
            description: String::new(),
            deliver_policy: DeliverPolicy::default(),
            opt_start_seq: None,
            opt_start_time: String::new(),
            deliver_subject: String::new(),
            deliver_group: String::new(),
            ack_policy: AckPolicy::default(),
            ack_wait: unset_ack_wait(),
            max_deliver: None,
            backoff: Vec::new(),
            filter_subject: String::new(),
            filter_subjects: Vec::new(),
            replay_policy: ReplayPolicy::default(),
            sample_freq: String::new(),
            max_waiting: None,
            rate_limit_bps: None,
            max_ack_pending: None,
            flow_control: false,
            headers_only: false,
            heartbeat_interval: Span::default(),
            max_request_batch: None,
            max_request_expires: Span::default(),
            max_request_max_bytes: None,
            inactive_threshold: Span::default(),
            pause_until: String::new(),
            priority_policy: String::new(),
            pinned_ttl: Span::default(),
            priority_groups: Vec::new(),
            replicas: None,
            mem_storage: false,
            dead_letter_subject: String::new(),
            max_ack_pending_per_subject: None,
            metadata: BTreeMap::new(),
            preserve_position: true,
            options: AssetOptions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_that_says_nothing_has_the_defaults() {
        let spec: ConsumerSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec, ConsumerSpec::default());
    }
}
