//! Streams: their configuration, their state, and where their messages come from.

mod origin;
mod update;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cluster::ClusterInfo;
use super::policy;
use crate::ApiError;
use crate::duration::Nanos;
use crate::go;
use crate::optional::{is_zero, null_is_zero};
use crate::time::Time;

pub use update::{update_request, validate_update};
pub use validate::{
    DUPLICATE_WINDOW_DEFAULT, REPLICAS_MAX, SEQUENCE_MAX, create_request, validate_create, with_defaults,
};

policy! {
    /// What lets a message leave a stream.
    #[serde(rename = "server.RetentionPolicy")]
    Retention {
        /// Only the limits of the stream.
        Limits = "limits",
        /// Acknowledgement by every consumer whose filter matches.
        Interest = "interest",
        /// Acknowledgement by the one consumer whose filter matches.
        WorkQueue = "workqueue",
    }
}

policy! {
    /// What a full stream does with a new message.
    #[serde(rename = "server.DiscardPolicy")]
    Discard {
        /// Makes room by removing the oldest.
        Old = "old",
        /// Refuses the new one.
        New = "new",
    }
}

policy! {
    /// Where messages are kept.
    #[serde(rename = "server.StorageType")]
    Storage {
        /// On disk.
        File = "file",
        /// In memory.
        Memory = "memory",
    }
}

policy! {
    /// How blocks of a file store are packed.
    #[serde(rename = "server.StoreCompression")]
    Compression {
        /// As they are.
        None = "none",
        /// With S2.
        S2 = "s2",
    }
}

policy! {
    /// When a stored message counts as stored.
    #[serde(rename = "server.PersistModeType")]
    PersistMode {
        /// Before it is acknowledged.
        #[serde(alias = "")]
        Default = "default",
        /// Some time after it is acknowledged.
        Async = "async",
    }
}

/// What a stream is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "StreamConfig")]
pub struct StreamConfig {
    /// Name within the account.
    pub name: String,
    /// Text for people.
    #[serde(skip_serializing_if = "is_zero")]
    pub description: String,
    /// Subjects whose messages are stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub subjects: Vec<String>,
    /// What lets a message leave.
    pub retention: Retention,
    /// Most consumers; below one without limit.
    #[serde(deserialize_with = "go::int")]
    pub max_consumers: i64,
    /// Most messages; below one without limit.
    pub max_msgs: i64,
    /// Most bytes; below one without limit.
    pub max_bytes: i64,
    /// Longest life of a message; zero without limit.
    pub max_age: Nanos,
    /// Most messages of one subject; below one without limit.
    pub max_msgs_per_subject: i64,
    /// Most bytes of one message with its headers; below one without limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_msg_size: i32,
    /// What a full stream does.
    pub discard: Discard,
    /// Where messages are kept.
    pub storage: Storage,
    /// How many servers keep them.
    #[serde(deserialize_with = "go::int")]
    pub num_replicas: i64,
    /// Publishes are not acknowledged.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_ack: bool,
    /// How long message ids are remembered.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicate_window: Nanos,
    /// Which servers may keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The stream this one is a copy of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<StreamSource>,
    /// Streams this one takes messages from.
    #[serde(skip_serializing_if = "is_zero")]
    pub sources: Vec<StreamSource>,
    /// How blocks are packed.
    pub compression: Compression,
    /// Sequence of the first message; zero stands for one.
    #[serde(skip_serializing_if = "is_zero")]
    pub first_seq: u64,
    /// Subjects are changed by this before anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_transform: Option<SubjectTransform>,
    /// Stored messages are published again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub republish: Option<Republish>,
    /// Messages may be read from any replica.
    pub allow_direct: bool,
    /// Messages of the origin may be read from this mirror.
    pub mirror_direct: bool,
    /// A subject at its limit refuses new messages.
    #[serde(skip_serializing_if = "is_zero")]
    pub discard_new_per_subject: bool,
    /// Nothing may come in or go out.
    pub sealed: bool,
    /// Messages may not be deleted.
    pub deny_delete: bool,
    /// Messages may not be purged.
    pub deny_purge: bool,
    /// A header of a message may remove older ones.
    pub allow_rollup_hdrs: bool,
    /// Defaults and bounds of consumers.
    pub consumer_limits: ConsumerLimits,
    /// A header may bound the life of a message.
    pub allow_msg_ttl: bool,
    /// Life of the marker left when the last message of a subject is gone; zero for no marker.
    #[serde(skip_serializing_if = "is_zero")]
    pub subject_delete_marker_ttl: Nanos,
    /// Messages are counters.
    #[serde(skip_serializing_if = "is_zero")]
    pub allow_msg_counter: bool,
    /// Messages may come in batches of which all or none is stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub allow_atomic: bool,
    /// Messages may be schedules.
    #[serde(skip_serializing_if = "is_zero")]
    pub allow_msg_schedules: bool,
    /// When a message counts as stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub persist_mode: PersistMode,
    /// Messages may come in batches with one acknowledgement.
    #[serde(skip_serializing_if = "is_zero")]
    pub allow_batched: bool,
    /// Names and values of the owner's choice.
    #[serde(skip_serializing_if = "is_zero")]
    pub metadata: BTreeMap<String, String>,
}

/// Another stream that messages come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "StreamSource")]
pub struct StreamSource {
    /// Name of the stream.
    pub name: String,
    /// First sequence wanted.
    #[serde(skip_serializing_if = "is_zero")]
    pub opt_start_seq: u64,
    /// Time of the first message wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_start_time: Option<Time>,
    /// Subjects wanted; empty for all.
    #[serde(skip_serializing_if = "is_zero")]
    pub filter_subject: String,
    /// Subjects wanted and what they become.
    #[serde(skip_serializing_if = "is_zero")]
    pub subject_transforms: Vec<SubjectTransform>,
    /// Where the stream is, when it is not in the account itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// The consumer to read through, when it is made by the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<SourceConsumer>,
}

/// A stream of another account or domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "ExternalStream")]
pub struct External {
    /// Prefix of its API.
    pub api: String,
    /// Prefix of the subject its messages are delivered to.
    pub deliver: String,
}

/// A consumer made by the owner for a mirror or source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "StreamConsumerSource")]
pub struct SourceConsumer {
    /// Its name.
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    /// Where it delivers to.
    #[serde(skip_serializing_if = "is_zero")]
    pub deliver_subject: String,
}

/// What subjects become.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "SubjectTransformConfig")]
pub struct SubjectTransform {
    /// Subjects concerned.
    #[serde(rename = "src")]
    pub source: String,
    /// What they become.
    #[serde(rename = "dest")]
    pub destination: String,
}

/// Where stored messages are published again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "RePublish")]
pub struct Republish {
    /// Subjects concerned.
    #[serde(rename = "src", skip_serializing_if = "is_zero")]
    pub source: String,
    /// Where they go.
    #[serde(rename = "dest")]
    pub destination: String,
    /// Without the payload.
    #[serde(skip_serializing_if = "is_zero")]
    pub headers_only: bool,
}

/// Which servers may keep a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "Placement")]
pub struct Placement {
    /// Those of this cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster: String,
    /// Those with all of these tags.
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
    /// The one that should lead.
    #[serde(skip_serializing_if = "is_zero")]
    pub preferred: String,
}

impl Placement {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.tags.is_empty() && self.preferred.is_empty()
    }
}

/// Defaults and bounds of the consumers of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "StreamConsumerLimits")]
pub struct ConsumerLimits {
    /// Longest time an idle consumer may live.
    #[serde(skip_serializing_if = "is_zero")]
    pub inactive_threshold: Nanos,
    /// Most messages that may wait for their acknowledgement.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_ack_pending: i64,
}

/// What a stream holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "StreamState")]
pub struct StreamState {
    /// Messages.
    pub messages: u64,
    /// Their bytes, with the overhead the store counts for each.
    pub bytes: u64,
    /// Sequence of the oldest; one after the last when there is none.
    pub first_seq: u64,
    /// Its time.
    pub first_ts: Time,
    /// Sequence of the newest ever.
    pub last_seq: u64,
    /// Its time.
    pub last_ts: Time,
    /// Subjects that have messages.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub num_subjects: i64,
    /// Messages of each subject, when asked for.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_is_zero")]
    pub subjects: BTreeMap<String, u64>,
    /// Sequences without a message between first and last.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub num_deleted: i64,
    /// These sequences, when asked for.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_is_zero")]
    pub deleted: Vec<u64>,
    /// What was lost to damage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostMessages>,
    /// Consumers.
    #[serde(deserialize_with = "go::int")]
    pub consumer_count: i64,
}

/// Messages that a damaged store could not read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "LostStreamData")]
pub struct LostMessages {
    /// Their sequences.
    #[serde(deserialize_with = "null_is_zero")]
    pub msgs: Vec<u64>,
    /// Their bytes.
    pub bytes: u64,
}

/// Everything about a stream.
// Some members have no default, so that a response without them is seen to be without this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInfo {
    /// What it is.
    pub config: StreamConfig,
    /// When it was made.
    pub created: Time,
    /// What it holds.
    pub state: StreamState,
    /// Domain of the server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub domain: String,
    /// Its replicas, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterInfo>,
    /// How far the mirror is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<StreamSourceInfo>,
    /// How far each source is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sources: Vec<StreamSourceInfo>,
    /// Streams with the same messages, best for the asking client first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub alternates: Vec<StreamAlternate>,
    /// When this was written.
    #[serde(default)]
    pub ts: Time,
}

/// How far a mirror or source is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamSourceInfo {
    /// Name of the other stream.
    pub name: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// Messages still to come.
    pub lag: u64,
    /// Last sequence taken from it.
    #[serde(skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// Time since something came; -1 for never.
    pub active: Nanos,
    /// Why nothing comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
    /// Subjects wanted.
    #[serde(skip_serializing_if = "is_zero")]
    pub filter_subject: String,
    /// Subjects wanted and what they become.
    #[serde(skip_serializing_if = "is_zero")]
    pub subject_transforms: Vec<SubjectTransform>,
}

/// A stream with the same messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamAlternate {
    /// Its name.
    pub name: String,
    /// Its domain.
    #[serde(skip_serializing_if = "is_zero")]
    pub domain: String,
    /// Its cluster.
    pub cluster: String,
}

/// A message as a stream holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredMessage {
    /// Its subject.
    pub subject: String,
    /// Its sequence.
    pub seq: u64,
    /// Its header block.
    #[serde(with = "crate::binary", skip_serializing_if = "is_zero")]
    pub hdrs: Vec<u8>,
    /// Its payload.
    #[serde(with = "crate::binary", skip_serializing_if = "is_zero")]
    pub data: Vec<u8>,
    /// When it was stored.
    pub time: Time,
}

/// Acknowledgement of a publish.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PubAck {
    /// Why the message was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
    /// The stream.
    pub stream: String,
    /// Sequence of the message.
    pub seq: u64,
    /// Domain of the server.
    #[serde(skip_serializing_if = "is_zero")]
    pub domain: String,
    /// The message was there already.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicate: bool,
    /// Value of the counter.
    #[serde(rename = "val", skip_serializing_if = "is_zero")]
    pub value: String,
    /// The batch it ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub batch: String,
    /// Messages of the batch.
    #[serde(skip_serializing_if = "is_zero")]
    pub count: u64,
}
