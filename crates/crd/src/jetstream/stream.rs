//! `Stream`.

#![expect(clippy::duplicated_attributes, reason = "printer columns share the names of their attributes")]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::AssetOptions;
use super::parts::{Placement, Republish, Source, Storage, SubjectTransform};
use super::span::{Sequence, Span};
use super::status::StreamStatus;
use crate::common::Size;

/// A stream on a NATS server.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "jetstream.nats.io",
    version = "v1beta2",
    kind = "Stream",
    plural = "streams",
    singular = "stream",
    shortname = "jss",
    category = "nats",
    category = "jetstream",
    namespaced,
    status = "StreamStatus",
    derive = "PartialEq",
    doc = "A stream on a NATS server.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'Ready')].reason",
        description = "The current state of the stream."
    ),
    printcolumn(
        name = "Stream Name",
        type_ = "string",
        json_path = ".spec.name",
        description = "The name of the JetStream Stream."
    ),
    printcolumn(
        name = "Subjects",
        type_ = "string",
        json_path = ".spec.subjects",
        description = "The subjects this Stream produces."
    ),
    printcolumn(name = "Messages", type_ = "integer", json_path = ".status.state.messages"),
    printcolumn(name = "Bytes", type_ = "integer", json_path = ".status.state.bytes"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Consumers", type_ = "integer", json_path = ".status.state.consumers", priority = 1),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.cluster.leader", priority = 1),
    printcolumn(name = "Retention", type_ = "string", json_path = ".spec.retention", priority = 1),
    printcolumn(name = "Storage", type_ = "string", json_path = ".spec.storage", priority = 1),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.name) || (has(self.name) && self.name == oldSelf.name)")
        .message("name cannot change: restore the old name, or create a new Stream"),
    validation = Rule::new("!has(oldSelf.sealed) || !oldSelf.sealed || (has(self.sealed) && self.sealed)")
        .message("a sealed stream cannot be opened again: restore sealed, or create a new Stream"),
    validation = Rule::new("(has(self.updateStrategy) && self.updateStrategy != 'InPlace') || !has(self.storage) || !has(oldSelf.storage) || self.storage == oldSelf.storage")
        .message("storage cannot change in place: restore it, or set updateStrategy to Recreate, which loses the messages")
)]
pub struct StreamSpec {
    /// Name of the stream on the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1), regex(pattern = r"^[^.*>]*$"))]
    pub name: String,
    /// Text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Subjects whose messages are stored. The name of the stream when there are none and no mirror or sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// What lets a message leave.
    #[serde(default)]
    pub retention: Retention,
    /// Most consumers; -1 without limit.
    #[serde(default = "unlimited")]
    #[schemars(range(min = -1))]
    pub max_consumers: i64,
    /// Most messages; -1 without limit.
    #[serde(default = "unlimited")]
    #[schemars(range(min = -1))]
    pub max_msgs: i64,
    /// Most bytes, as a number or a quantity such as 10Gi; -1 without limit.
    #[serde(default = "unlimited_size")]
    pub max_bytes: Size,
    /// What a full stream does with a new message.
    #[serde(default)]
    pub discard: Discard,
    /// Refuse a new message whose subject has maxMsgsPerSubject.
    #[serde(default)]
    pub discard_per_subject: bool,
    /// Longest life of a message; empty without limit.
    #[serde(default)]
    pub max_age: Span,
    /// Most messages of one subject; 0 without limit.
    #[serde(default)]
    pub max_msgs_per_subject: i64,
    /// Most bytes of one message; -1 without limit.
    #[serde(default = "unlimited")]
    #[schemars(range(min = -1))]
    pub max_msg_size: i64,
    /// Where messages are kept.
    #[serde(default)]
    pub storage: Storage,
    /// How many servers keep them.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub replicas: i64,
    /// Do not acknowledge what is stored.
    #[serde(default)]
    pub no_ack: bool,
    /// How long message ids are remembered. Two minutes, or maxAge if that is less, when unset.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub duplicate_window: Span,
    /// Which servers may keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The stream that this one is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Source>,
    /// Streams that this one takes messages from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// Nothing may come in or go out any more. Only for a stream that exists.
    #[serde(default)]
    pub sealed: bool,
    /// Refuse to delete messages.
    #[serde(default)]
    pub deny_delete: bool,
    /// Refuse to purge.
    #[serde(default)]
    pub deny_purge: bool,
    /// Let a header of a message remove older ones.
    #[serde(default)]
    pub allow_rollup: bool,
    /// How blocks on disk are packed.
    #[serde(default)]
    pub compression: Compression,
    /// Sequence of the first message. Only for a new stream.
    #[serde(default)]
    pub first_sequence: Sequence,
    /// Change subjects before anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_transform: Option<SubjectTransform>,
    /// Publish stored messages again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub republish: Option<Republish>,
    /// Let any replica answer reads.
    #[serde(default)]
    pub allow_direct: bool,
    /// Let this mirror answer reads of its origin.
    #[serde(default)]
    pub mirror_direct: bool,
    /// Let a header bound the life of a message.
    #[serde(default)]
    pub allow_msg_ttl: bool,
    /// Leave a marker of this life when the last message of a subject is gone.
    #[serde(default)]
    pub subject_delete_marker_ttl: Span,
    /// Messages are counters.
    #[serde(default)]
    pub allow_msg_counter: bool,
    /// Let messages come in batches of which all or none is stored.
    #[serde(default)]
    pub allow_atomic_publish: bool,
    /// Let messages come in batches with one acknowledgement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_batch_publish: bool,
    /// Let messages be schedules.
    #[serde(default)]
    pub allow_msg_schedules: bool,
    /// When a message counts as stored: default or async.
    #[serde(default)]
    pub persist_mode: String,
    /// Defaults and bounds of consumers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_limits: Option<ConsumerLimits>,
    /// Names and values of your choice. Names that begin with myelin.dev/ are the operator's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// How to reach the servers, and how to treat what is there.
    #[serde(flatten)]
    pub options: AssetOptions,
}

/// Defaults and bounds of consumers of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerLimits {
    /// Longest time that an idle consumer may live.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub inactive_threshold: Span,
    /// Most messages that may wait for their acknowledgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ack_pending: Option<i64>,
}

/// What lets a message leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Retention {
    /// Only the limits.
    #[default]
    Limits,
    /// Acknowledgement by every consumer.
    Interest,
    /// Acknowledgement by the one consumer.
    WorkQueue,
}

/// What a full stream does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discard {
    /// Makes room.
    #[default]
    Old,
    /// Refuses.
    New,
}

/// How blocks are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Nothing was said: as they are.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// As they are.
    None,
    /// With S2.
    S2,
}

const fn unlimited() -> i64 {
    -1
}

const fn unlimited_size() -> Size {
    Size::Bytes(-1)
}

const fn one() -> i64 {
    1
}

impl Default for StreamSpec {
    /// What the API server makes of a spec that says nothing.
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            subjects: Vec::new(),
            retention: Retention::default(),
            max_consumers: -1,
            max_msgs: -1,
            max_bytes: unlimited_size(),
            discard: Discard::default(),
            discard_per_subject: false,
            max_age: Span::default(),
            max_msgs_per_subject: 0,
            max_msg_size: -1,
            storage: Storage::default(),
            replicas: 1,
            no_ack: false,
            duplicate_window: Span::default(),
            placement: None,
            mirror: None,
            sources: Vec::new(),
            sealed: false,
            deny_delete: false,
            deny_purge: false,
            allow_rollup: false,
            compression: Compression::default(),
            first_sequence: Sequence::default(),
            subject_transform: None,
            republish: None,
            allow_direct: false,
            mirror_direct: false,
            allow_msg_ttl: false,
            subject_delete_marker_ttl: Span::default(),
            allow_msg_counter: false,
            allow_atomic_publish: false,
            allow_batch_publish: false,
            allow_msg_schedules: false,
            persist_mode: String::new(),
            consumer_limits: None,
            metadata: BTreeMap::new(),
            options: AssetOptions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_that_says_nothing_has_the_defaults() {
        let spec: StreamSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec, StreamSpec::default());
    }
}
