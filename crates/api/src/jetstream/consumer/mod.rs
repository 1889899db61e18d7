//! Consumers: their configuration and their state.

mod admit;
mod features;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cluster::ClusterInfo;
use super::policy;
use super::stream::{Retention, StreamConfig};
use crate::duration::Nanos;
use crate::go;
use crate::optional::is_zero;
use crate::time::Time;

pub use admit::{
    Admission, Consumers, CreateSubject, StreamView, admit, create_request, upgrade_sourcing, validate_update,
};
pub use validate::{
    ACK_PENDING_DEFAULT, ACK_WAIT_DEFAULT, FLOW_CONTROL_HEARTBEAT, INACTIVE_THRESHOLD_DEFAULT,
    PRIORITY_TIMEOUT_DEFAULT, WAITING_DEFAULT, validate_create, with_defaults,
};

policy! {
    /// Where a consumer begins.
    #[serde(rename = "server.DeliverPolicy")]
    DeliverPolicy {
        /// At the oldest message.
        #[serde(alias = "undefined")]
        All = "all",
        /// At the newest message.
        Last = "last",
        /// After the newest message.
        New = "new",
        /// At a sequence.
        ByStartSequence = "by_start_sequence",
        /// At a time.
        ByStartTime = "by_start_time",
        /// With the newest message of each subject.
        LastPerSubject = "last_per_subject",
    }
}

policy! {
    /// How messages are acknowledged.
    #[serde(rename = "server.AckPolicy")]
    AckPolicy {
        /// Not at all.
        None = "none",
        /// With all before.
        All = "all",
        /// One by one.
        Explicit = "explicit",
        /// With all before, by the answers to flow control.
        FlowControl = "flow_control",
    }
}

policy! {
    /// How fast messages are delivered.
    #[serde(rename = "server.ReplayPolicy")]
    ReplayPolicy {
        /// As fast as they are taken.
        Instant = "instant",
        /// With the pauses they came with.
        Original = "original",
    }
}

policy! {
    /// Which of the waiting clients is served.
    #[serde(rename = "server.PriorityPolicy")]
    PriorityPolicy {
        /// Whoever asked first.
        None = "none",
        /// Those whose conditions are met.
        Overflow = "overflow",
        /// One, until it goes.
        PinnedClient = "pinned_client",
        /// Those with the lowest number first.
        Prioritized = "prioritized",
    }
}

policy! {
    /// What a request to create a consumer may do.
    #[serde(rename = "server.ConsumerAction")]
    ConsumerAction {
        /// Make it, or change the one there is.
        CreateOrUpdate = "",
        /// Only make it.
        Create = "create",
        /// Only change it.
        Update = "update",
    }
}

/// What a consumer is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "ConsumerConfig")]
pub struct ConsumerConfig {
    /// Name of a consumer that outlives its clients.
    #[serde(skip_serializing_if = "is_zero")]
    pub durable_name: String,
    /// Name within the stream.
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    /// Text for people.
    #[serde(skip_serializing_if = "is_zero")]
    pub description: String,
    /// Where it begins.
    pub deliver_policy: DeliverPolicy,
    /// The sequence it begins at.
    #[serde(skip_serializing_if = "is_zero")]
    pub opt_start_seq: u64,
    /// The time it begins at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_start_time: Option<Time>,
    /// How messages are acknowledged.
    pub ack_policy: AckPolicy,
    /// How long an acknowledgement is waited for.
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_wait: Nanos,
    /// Most deliveries of one message; below one without limit.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_deliver: i64,
    /// How long the acknowledgement of each delivery is waited for.
    #[serde(skip_serializing_if = "is_zero")]
    pub backoff: Vec<Nanos>,
    /// Subject wanted; empty for all.
    #[serde(skip_serializing_if = "is_zero")]
    pub filter_subject: String,
    /// Subjects wanted.
    #[serde(skip_serializing_if = "is_zero")]
    pub filter_subjects: Vec<String>,
    /// How fast messages are delivered.
    pub replay_policy: ReplayPolicy,
    /// Most bits a second.
    #[serde(skip_serializing_if = "is_zero")]
    pub rate_limit_bps: u64,
    /// Percentage of acknowledgements that are reported.
    #[serde(skip_serializing_if = "is_zero")]
    pub sample_freq: String,
    /// Most pull requests that may wait.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_waiting: i64,
    /// Most messages that may wait for their acknowledgement; -1 without limit.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_ack_pending: i64,
    /// Deliveries stop until their receiver answers.
    #[serde(skip_serializing_if = "is_zero")]
    pub flow_control: bool,
    /// Messages come without their payload.
    #[serde(skip_serializing_if = "is_zero")]
    pub headers_only: bool,
    /// Most messages of one pull request.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_batch: i64,
    /// Longest life of a pull request.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_expires: Nanos,
    /// Most bytes of one pull request.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_bytes: i64,
    /// Where a push consumer delivers to; empty for a pull consumer.
    #[serde(skip_serializing_if = "is_zero")]
    pub deliver_subject: String,
    /// Queue group of the receivers.
    #[serde(skip_serializing_if = "is_zero")]
    pub deliver_group: String,
    /// Longest silence.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle_heartbeat: Nanos,
    /// How long it lives without a client; zero for ever.
    #[serde(skip_serializing_if = "is_zero")]
    pub inactive_threshold: Nanos,
    /// How many servers keep its state; zero for those of the stream.
    #[serde(deserialize_with = "go::int")]
    pub num_replicas: i64,
    /// Its state is kept in memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub mem_storage: bool,
    /// It belongs to a mirror or source.
    #[serde(skip_serializing_if = "is_zero")]
    pub direct: bool,
    /// It belongs to a mirror or source that understands durable ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub sourcing: bool,
    /// Names and values of the owner's choice.
    #[serde(skip_serializing_if = "is_zero")]
    pub metadata: BTreeMap<String, String>,
    /// Nothing is delivered until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_until: Option<Time>,
    /// Groups of clients that are served by priority.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority_groups: Vec<String>,
    /// Which of them is served.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority_policy: PriorityPolicy,
    /// How long a silent client stays pinned.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority_timeout: Nanos,
    /// Where messages go that are given up: delivered as often as allowed, or terminated. Empty for nowhere. Not an option of the reference.
    #[serde(skip_serializing_if = "is_zero")]
    pub dead_letter_subject: String,
    /// Most messages of one subject that may wait for their acknowledgement; zero without limit. Not an option of the reference.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_ack_pending_per_subject: i64,
}

impl ConsumerConfig {
    /// Whether clients must ask for messages.
    pub fn is_pull(&self) -> bool {
        self.deliver_subject.is_empty()
    }

    /// The name, which is that of a durable one when it has no other.
    pub fn effective_name(&self) -> &str {
        if self.name.is_empty() { &self.durable_name } else { &self.name }
    }

    /// Whether it belongs to a mirror or source and counts in no limit.
    pub fn is_internal(&self) -> bool {
        self.direct || self.sourcing
    }

    /// How many servers keep its state, given the stream.
    pub fn replicas(&self, stream: &StreamConfig) -> i64 {
        let follows = self.num_replicas == 0 || self.num_replicas > stream.num_replicas;
        let ephemeral = self.durable_name.is_empty() && self.num_replicas == 0;
        match follows {
            true if ephemeral && stream.retention == Retention::Limits => 1,
            true => stream.num_replicas,
            false => self.num_replicas,
        }
    }

    /// All subjects wanted; none stands for all.
    pub fn filters(&self) -> &[String] {
        if self.filter_subject.is_empty() {
            &self.filter_subjects
        } else {
            std::slice::from_ref(&self.filter_subject)
        }
    }
}

/// Everything about a consumer.
// Some members have no default, so that a response without them is seen to be without this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerInfo {
    /// Its stream.
    pub stream_name: String,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Time,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConsumerConfig>,
    /// The newest delivery.
    #[serde(default)]
    pub delivered: SequenceInfo,
    /// Everything up to here is acknowledged.
    #[serde(default)]
    pub ack_floor: SequenceInfo,
    /// Messages waiting for their acknowledgement.
    #[serde(default)]
    pub num_ack_pending: i64,
    /// Those of them that were delivered more than once.
    #[serde(default)]
    pub num_redelivered: i64,
    /// Pull requests waiting.
    #[serde(default)]
    pub num_waiting: i64,
    /// Messages still to deliver.
    #[serde(default)]
    pub num_pending: u64,
    /// Its replicas, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterInfo>,
    /// Someone listens to its deliveries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub push_bound: bool,
    /// Deliveries are stopped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paused: bool,
    /// How long they still are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pause_remaining: Nanos,
    /// When this was written.
    #[serde(default)]
    pub ts: Time,
    /// State of its priority groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority_groups: Vec<PriorityGroupState>,
    /// Its dead letters, if it has a subject for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<DeadLetterState>,
    /// Its subjects, if there is a limit for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subjects_ack_pending: Option<SubjectsAckPending>,
}

/// What became of the messages that a consumer gave up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeadLetterState {
    /// Letters that a stream has confirmed since the consumer was made or reset.
    pub stored: u64,
    /// Messages that are given up and whose letter no stream has confirmed. They count as waiting for their acknowledgement.
    pub pending: u64,
    /// Why the newest attempt failed, until one succeeds.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_error: String,
}

/// Subjects of a consumer that are limited one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubjectsAckPending {
    /// Subjects with messages that wait for their acknowledgement.
    pub subjects: u64,
    /// Messages that were passed over because their subject had no place. They count as pending, not as delivered.
    pub held_back: u64,
}

/// A point in the deliveries of a consumer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "SequenceInfo")]
pub struct SequenceInfo {
    /// Counted in deliveries.
    pub consumer_seq: u64,
    /// Counted in messages of the stream.
    pub stream_seq: u64,
    /// When it was last moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_active: Option<Time>,
}

/// State of a priority group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityGroupState {
    /// Its name.
    pub group: String,
    /// The client that is pinned.
    #[serde(skip_serializing_if = "is_zero")]
    pub pinned_client_id: String,
    /// Since when.
    pub pinned_ts: Time,
}
