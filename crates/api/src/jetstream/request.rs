//! Bodies of requests.
//!
//! The names of the types on the wire appear in error texts, so each carries the one that clients know.

use serde::{Deserialize, Serialize};

use super::consumer::{ConsumerAction, ConsumerConfig};
use super::stream::{Placement, StreamConfig, StreamState};
use crate::duration::Nanos;
use crate::go;
use crate::optional::is_zero;
use crate::time::Time;

/// A request to create or update a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "StreamConfigRequest")]
pub struct StreamRequest {
    /// What the stream should be.
    #[serde(flatten)]
    pub config: StreamConfig,
    /// Refuse what would otherwise be put right.
    #[serde(skip_serializing_if = "is_zero")]
    pub pedantic: bool,
    /// The storage was named and not left to the default: then what is reserved is looked at before anything else.
    #[serde(skip)]
    pub storage_given: bool,
}

/// Names or infos of streams, a page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamNamesRequest")]
pub struct StreamNames {
    /// Entries to skip.
    #[serde(deserialize_with = "go::int")]
    pub offset: i64,
    /// Only streams with a subject that matches.
    #[serde(skip_serializing_if = "is_zero")]
    pub subject: String,
}

/// Infos of streams, a page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamListRequest")]
pub struct StreamList {
    /// Entries to skip.
    #[serde(deserialize_with = "go::int")]
    pub offset: i64,
    /// Only streams with a subject that matches.
    #[serde(skip_serializing_if = "is_zero")]
    pub subject: String,
}

/// Everything about a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamInfoRequest")]
pub struct StreamInfoDetails {
    /// Subjects to skip.
    #[serde(deserialize_with = "go::int")]
    pub offset: i64,
    /// List the sequences without a message.
    #[serde(skip_serializing_if = "is_zero")]
    pub deleted_details: bool,
    /// Count the messages of subjects that match.
    #[serde(skip_serializing_if = "is_zero")]
    pub subjects_filter: String,
}

/// Names or infos of consumers, a page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiConsumersRequest")]
pub struct Consumers {
    /// Entries to skip.
    #[serde(deserialize_with = "go::int")]
    pub offset: i64,
}

/// Remove many messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamPurgeRequest")]
pub struct Purge {
    /// Those before this sequence; zero for all.
    #[serde(skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// Only those with a matching subject.
    #[serde(skip_serializing_if = "is_zero")]
    pub filter: String,
    /// All but so many.
    #[serde(skip_serializing_if = "is_zero")]
    pub keep: u64,
}

/// Remove one message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiMsgDeleteRequest")]
pub struct MsgDelete {
    /// Its sequence.
    pub seq: u64,
    /// Its bytes need not be overwritten.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_erase: bool,
}

/// Read messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiMsgGetRequest")]
pub struct MsgGet {
    /// The one with this sequence, or the first from here on.
    #[serde(skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// The newest of a subject.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_by_subj: String,
    /// The next of a subject.
    #[serde(skip_serializing_if = "is_zero")]
    pub next_by_subj: String,
    /// Most messages.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub batch: i64,
    /// Most bytes.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_bytes: i64,
    /// The first from this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The newest of each of these subjects.
    #[serde(skip_serializing_if = "is_zero")]
    pub multi_last: Vec<String>,
    /// As they were at this sequence.
    #[serde(skip_serializing_if = "is_zero")]
    pub up_to_seq: u64,
    /// As they were at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_time: Option<Time>,
    /// Without the headers that tell where a message comes from.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_hdr: bool,
}

/// Send a copy of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamSnapshotRequest")]
pub struct Snapshot {
    /// Where the chunks go.
    pub deliver_subject: String,
    /// Without consumers.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_consumers: bool,
    /// Bytes of a chunk.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub chunk_size: i64,
    /// Most bytes on their way.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub window_size: i64,
    /// Check every message first.
    #[serde(rename = "jsck", skip_serializing_if = "is_zero")]
    pub check_messages: bool,
}

/// Make a stream from a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamRestoreRequest")]
pub struct Restore {
    /// What it should be.
    pub config: StreamConfig,
    /// What it holds.
    pub state: StreamState,
}

/// Take a stream from a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamRemovePeerRequest")]
pub struct RemovePeer {
    /// Name or identity of the server.
    pub peer: String,
}

/// Move a stream from a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiStreamEvacuatePeerRequest")]
pub struct EvacuatePeer {
    /// Name or identity of the server.
    pub peer: String,
}

/// Let another server lead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiLeaderStepdownRequest")]
pub struct LeaderStepdown {
    /// Which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// Forget a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiMetaServerRemoveRequest")]
pub struct ServerRemove {
    /// Its name.
    #[serde(rename = "peer")]
    pub server: String,
    /// Its identity in groups.
    #[serde(skip_serializing_if = "is_zero")]
    pub peer_id: String,
}

/// Move everything from a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiMetaServerEvacuateRequest")]
pub struct ServerEvacuate {
    /// Its name.
    #[serde(rename = "peer", skip_serializing_if = "is_zero")]
    pub server: String,
    /// Its identity in groups.
    #[serde(skip_serializing_if = "is_zero")]
    pub peer_id: String,
}

/// Let fewer servers decide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiMetaRescueRequest")]
pub struct MetaRescue {
    /// How many are enough.
    #[serde(deserialize_with = "go::int")]
    pub quorum_needed: i64,
}

/// Move a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiMetaServerStreamMoveRequest")]
pub struct StreamMove {
    /// Away from this server.
    #[serde(skip_serializing_if = "is_zero")]
    pub server: String,
    /// To this cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster: String,
    /// Within this domain.
    #[serde(skip_serializing_if = "is_zero")]
    pub domain: String,
    /// To servers with these tags.
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
}

/// Create or update a consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "CreateConsumerRequest")]
pub struct CreateConsumerRequest {
    /// Its stream.
    pub stream_name: String,
    /// What it should be.
    pub config: ConsumerConfig,
    /// What the request may do.
    pub action: ConsumerAction,
    /// Refuse what would otherwise be put right.
    #[serde(skip_serializing_if = "is_zero")]
    pub pedantic: bool,
}

/// Stop or resume deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiConsumerPauseRequest")]
pub struct Pause {
    /// Until then; the zero time resumes them.
    pub pause_until: Time,
}

/// Let another client be pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiConsumerUnpinRequest")]
pub struct Unpin {
    /// Of this group.
    pub group: String,
}

/// Set a consumer back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiConsumerResetRequest")]
pub struct Reset {
    /// To this sequence; zero for the last acknowledged one.
    #[serde(skip_serializing_if = "is_zero")]
    pub seq: u64,
}

/// Ask a pull consumer for messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiConsumerGetNextRequest")]
pub struct Pull {
    /// How long the request may wait.
    #[serde(skip_serializing_if = "is_zero")]
    pub expires: Nanos,
    /// Most messages.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub batch: i64,
    /// Most bytes.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub max_bytes: i64,
    /// Only what is there.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_wait: bool,
    /// Longest silence.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle_heartbeat: Nanos,
    /// Priority group of the client.
    #[serde(skip_serializing_if = "is_zero")]
    pub group: String,
    /// Only while so many messages are still to deliver.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_pending: i64,
    /// Only while so many messages wait for their acknowledgement.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ack_pending: i64,
    /// The id the client was pinned with.
    #[serde(skip_serializing_if = "is_zero")]
    pub id: String,
    /// Lower ones go first.
    #[serde(deserialize_with = "go::int", skip_serializing_if = "is_zero")]
    pub priority: i64,
}

/// Options of a direct read whose subject names the message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "JSApiMsgGetRequest")]
pub struct DirectGetLast {
    /// Without the headers that tell where a message comes from.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_hdr: bool,
}

/// Delay of a negative acknowledgement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "ConsumerNakOptions")]
pub struct NakOptions {
    /// How long to wait.
    pub delay: Nanos,
}
