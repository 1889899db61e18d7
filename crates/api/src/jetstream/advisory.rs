//! Advisories and metrics: what JetStream tells about its work.

use serde::{Deserialize, Serialize};

use super::cluster::PeerInfo;
use super::policy;
use super::stream::StreamState;
use crate::event::ClientInfo;
use crate::optional::{is_zero, null_is_zero};
use crate::time::Time;

policy! {
    /// What happened to a stream or consumer.
    Action {
        /// It was made.
        Create = "create",
        /// It was deleted.
        Delete = "delete",
        /// It was changed.
        Modify = "modify",
    }
}

policy! {
    /// Why a batch will not be stored.
    BatchAbandonReason {
        /// Nothing came for too long.
        Timeout = "timeout",
        /// It has too many messages.
        Large = "large",
        /// A message is missing.
        Incomplete = "incomplete",
        /// A client asked for what this server can not do.
        Unsupported = "unsupported",
    }
}

/// An advisory with its head: type, id and time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Advisory<T> {
    /// [`Kind::TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// Identity of the advisory.
    pub id: String,
    /// When it happened.
    pub timestamp: Time,
    /// What happened.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Kind> Advisory<T> {
    /// The advisory with its type filled in.
    pub fn new(id: String, timestamp: Time, body: T) -> Self {
        Self { kind: T::TYPE.to_owned(), id, timestamp, body }
    }
}

/// What an advisory may tell.
pub trait Kind: Serialize {
    /// Type of the advisory.
    const TYPE: &'static str;
}

/// What an advisory tells, and its type.
macro_rules! advisory {
    ($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Kind for $name {
            const TYPE: &'static str = concat!("io.nats.jetstream.", $kind);
        }
    };
}

advisory! {
    /// A client used the API.
    ApiAudit = "advisory.v1.api_audit" {
        /// The server that tells.
        server: String,
        /// Who asked.
        client: ClientInfo,
        /// Subject of the request.
        subject: String,
        /// Its body.
        #[serde(skip_serializing_if = "is_zero")]
        request: String,
        /// What was answered.
        response: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// Requests were dropped.
    ApiLimitReached = "advisory.v1.api_limit_reached" {
        /// The server that tells.
        server: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
        /// How many.
        dropped: i64,
    }
}

advisory! {
    /// A stream was made, changed or deleted.
    StreamAction = "advisory.v1.stream_action" {
        /// The stream.
        stream: String,
        /// What happened to it.
        action: Action,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A consumer was made or deleted.
    ConsumerAction = "advisory.v1.consumer_action" {
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// What happened to it.
        action: Action,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// Deliveries were stopped or resumed.
    ConsumerPause = "advisory.v1.consumer_pause" {
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// They are stopped.
        paused: bool,
        /// Until then.
        pause_until: Time,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A client was pinned.
    ConsumerGroupPinned = "advisory.v1.consumer_group_pinned" {
        /// The account, when this is told to the system account.
        #[serde(skip_serializing_if = "is_zero")]
        account: String,
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
        /// The group.
        group: String,
        /// The id the client was given.
        pinned_id: String,
    }
}

advisory! {
    /// A client is pinned no more.
    ConsumerGroupUnpinned = "advisory.v1.consumer_group_unpinned" {
        /// The account, when this is told to the system account.
        #[serde(skip_serializing_if = "is_zero")]
        account: String,
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
        /// The group.
        group: String,
        /// Why.
        reason: String,
    }
}

advisory! {
    /// A message was delivered as often as it may be.
    MaxDeliveries = "advisory.v1.max_deliver" {
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// Sequence of the message.
        stream_seq: u64,
        /// How often it was delivered.
        deliveries: u64,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A message was refused by its receiver.
    MessageNaked = "advisory.v1.nak" {
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// Sequence of the delivery.
        consumer_seq: u64,
        /// Sequence of the message.
        stream_seq: u64,
        /// How often it was delivered.
        deliveries: u64,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A message will not be delivered again.
    MessageTerminated = "advisory.v1.terminated" {
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// Sequence of the delivery.
        consumer_seq: u64,
        /// Sequence of the message.
        stream_seq: u64,
        /// How often it was delivered.
        deliveries: u64,
        /// Why.
        #[serde(skip_serializing_if = "is_zero")]
        reason: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A message was acknowledged.
    ConsumerAck = "metric.v1.consumer_ack" {
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// Sequence of the delivery.
        consumer_seq: u64,
        /// Sequence of the message.
        stream_seq: u64,
        /// Nanoseconds between delivery and acknowledgement.
        ack_time: i64,
        /// How often it was delivered.
        deliveries: u64,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A copy of a stream is being sent.
    SnapshotCreate = "advisory.v1.snapshot_create" {
        /// The stream.
        stream: String,
        /// What the stream holds.
        state: StreamState,
        /// Who asked.
        client: ClientInfo,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A copy of a stream was sent.
    SnapshotComplete = "advisory.v1.snapshot_complete" {
        /// The stream.
        stream: String,
        /// When it began.
        start: Time,
        /// When it ended.
        end: Time,
        /// Who asked.
        client: ClientInfo,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
        /// Why it failed.
        #[serde(skip_serializing_if = "is_zero")]
        error: String,
    }
}

advisory! {
    /// A stream is being made from a copy.
    RestoreCreate = "advisory.v1.restore_create" {
        /// The stream.
        stream: String,
        /// Who asked.
        client: ClientInfo,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A stream was made from a copy.
    RestoreComplete = "advisory.v1.restore_complete" {
        /// The stream.
        stream: String,
        /// When it began.
        start: Time,
        /// When it ended.
        end: Time,
        /// Bytes received.
        bytes: i64,
        /// Who asked.
        client: ClientInfo,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A stream has a new leader.
    StreamLeaderElected = "advisory.v1.stream_leader_elected" {
        /// The account, when this is told to the system account.
        #[serde(skip_serializing_if = "is_zero")]
        account: String,
        /// The stream.
        stream: String,
        /// Name of the server that leads.
        leader: String,
        /// The others.
        #[serde(deserialize_with = "null_is_zero")]
        replicas: Vec<PeerInfo>,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// Too few servers keep a stream.
    StreamQuorumLost = "advisory.v1.stream_quorum_lost" {
        /// The account, when this is told to the system account.
        #[serde(skip_serializing_if = "is_zero")]
        account: String,
        /// The stream.
        stream: String,
        /// The others.
        #[serde(deserialize_with = "null_is_zero")]
        replicas: Vec<PeerInfo>,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

/// The letter of a message that was given up is not stored; it is tried again. Told once, until a letter is stored again. The reference has no
/// such advisory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeadLetterFailed {
    /// The stream.
    pub stream: String,
    /// The consumer.
    pub consumer: String,
    /// Sequence of the message.
    pub stream_seq: u64,
    /// Where the letter goes.
    pub dead_letter_subject: String,
    /// What the other stream said, or that none did.
    pub error: String,
    /// Domain of the server.
    #[serde(skip_serializing_if = "is_zero")]
    pub domain: String,
}

impl Kind for DeadLetterFailed {
    const TYPE: &'static str = "io.myelin.jetstream.advisory.v1.dead_letter_failed";
}

advisory! {
    /// A batch will not be stored.
    StreamBatchAbandoned = "advisory.v1.stream_batch_abandoned" {
        /// The account, when this is told to the system account.
        #[serde(skip_serializing_if = "is_zero")]
        account: String,
        /// The stream.
        stream: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
        /// Its id.
        batch: String,
        /// Why.
        reason: BatchAbandonReason,
    }
}

advisory! {
    /// A consumer has a new leader.
    ConsumerLeaderElected = "advisory.v1.consumer_leader_elected" {
        /// The account, when this is told to the system account.
        #[serde(skip_serializing_if = "is_zero")]
        account: String,
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// Name of the server that leads.
        leader: String,
        /// The others.
        #[serde(deserialize_with = "null_is_zero")]
        replicas: Vec<PeerInfo>,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// Too few servers keep a consumer.
    ConsumerQuorumLost = "advisory.v1.consumer_quorum_lost" {
        /// The account, when this is told to the system account.
        #[serde(skip_serializing_if = "is_zero")]
        account: String,
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
        /// The others.
        #[serde(deserialize_with = "null_is_zero")]
        replicas: Vec<PeerInfo>,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// The catalogue has a new leader.
    DomainLeaderElected = "advisory.v1.domain_leader_elected" {
        /// Name of the server that leads.
        leader: String,
        /// The others.
        #[serde(deserialize_with = "null_is_zero")]
        replicas: Vec<PeerInfo>,
        /// Cluster of the server.
        cluster: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A disk is full.
    ServerOutOfSpace = "advisory.v1.server_out_of_space" {
        /// The server that tells.
        server: String,
        /// Its identity.
        server_id: String,
        /// The stream.
        #[serde(skip_serializing_if = "is_zero")]
        stream: String,
        /// Cluster of the server.
        cluster: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// A server was forgotten.
    ServerRemoved = "advisory.v1.server_removed" {
        /// The server that tells.
        server: String,
        /// Its identity.
        server_id: String,
        /// Cluster of the server.
        cluster: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}

advisory! {
    /// Fewer servers decide.
    MetaRescue = "advisory.v1.meta_rescue" {
        /// The server that tells.
        server: String,
        /// Its identity.
        server_id: String,
        /// How many were needed.
        prev_quorum: i64,
        /// How many are needed.
        new_quorum: i64,
        /// Cluster of the server.
        cluster: String,
        /// Domain of the server.
        #[serde(skip_serializing_if = "is_zero")]
        domain: String,
    }
}
