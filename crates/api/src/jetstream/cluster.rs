//! Replicas of a stream, a consumer or the catalogue.

use serde::{Deserialize, Serialize};

use super::policy;
use super::stream::{Placement, Retention};
use crate::duration::Nanos;
use crate::optional::is_zero;
use crate::time::Time;

/// Who keeps a stream or consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterInfo {
    /// Name of the cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    /// The group that replicates it.
    #[serde(skip_serializing_if = "is_zero")]
    pub raft_group: String,
    /// Name of the server that leads.
    #[serde(skip_serializing_if = "is_zero")]
    pub leader: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_since: Option<Time>,
    /// Replication runs in the system account.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_account: bool,
    /// The account that replication runs in.
    #[serde(skip_serializing_if = "is_zero")]
    pub traffic_account: String,
    /// The others.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: Vec<PeerInfo>,
    /// Where it should be, while it is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<DesiredClusterInfo>,
}

/// One of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerInfo {
    /// Name of the server.
    pub name: String,
    /// It has everything.
    pub current: bool,
    /// It was not seen lately.
    #[serde(skip_serializing_if = "is_zero")]
    pub offline: bool,
    /// Time since it was seen.
    pub active: Nanos,
    /// Entries it lacks.
    #[serde(skip_serializing_if = "is_zero")]
    pub lag: u64,
    /// Identity of the server in groups.
    pub peer: String,
    /// It joins or leaves.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: bool,
}

/// Where a stream or consumer should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DesiredClusterInfo {
    /// Since when.
    pub created: Time,
    /// Name of the cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    /// Who should keep it.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: Vec<DesiredPeerInfo>,
    /// What it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<DesiredOrigin>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DesiredStatus>,
}

/// One of those that should keep it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DesiredPeerInfo {
    /// Name of the server.
    pub name: String,
    /// It was not seen lately.
    #[serde(skip_serializing_if = "is_zero")]
    pub offline: bool,
    /// Identity of the server in groups.
    pub peer: String,
}

/// What a stream was before its change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DesiredOrigin {
    /// How many servers kept it.
    pub replicas: i64,
    /// Which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// What let messages leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

policy! {
    /// What a change waits for.
    MigrationStep {
        /// The leader of the catalogue.
        Meta = "meta",
        /// A change of membership.
        Membership = "membership",
        /// The installation of a snapshot.
        Snapshot = "snapshot",
        /// Replicas that lack messages.
        Catchup = "catchup",
        /// Servers that are away.
        Quorum = "quorum",
        /// Another stream or consumer that goes first.
        Blocked = "blocked",
        /// Nothing, because it is no more.
        Unavailable = "unavailable",
    }
}

/// How far a change is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DesiredStatus {
    /// In words.
    pub description: String,
    /// What it waits for.
    #[serde(rename = "type")]
    pub step: MigrationStep,
    /// What stops it.
    #[serde(rename = "err", skip_serializing_if = "is_zero")]
    pub error: String,
}
