//! `/jsz`: JetStream of one server, and the parts of it that other pages show.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::page::Page;
use crate::duration::{Nanos, nanos};
use crate::jetstream::account::ApiStats;
use crate::jetstream::cluster::{ClusterInfo, PeerInfo};
use crate::jetstream::consumer::ConsumerInfo;
use crate::jetstream::stream::{StreamConfig, StreamSourceInfo, StreamState};
use crate::optional::is_zero;
use crate::query::{Query, QueryError};
use crate::time::Time;

/// JetStream of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Jsz {
    /// What all accounts use.
    #[serde(flatten)]
    pub stats: JetStreamStats,
    /// Identity of the answering server.
    pub server_id: String,
    /// When the page was made.
    pub now: Time,
    /// The server has no JetStream.
    #[serde(skip_serializing_if = "is_zero")]
    pub disabled: bool,
    /// How it is configured.
    pub config: JetStreamConfig,
    /// What it allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<JetStreamLimits>,
    /// Streams of all accounts.
    pub streams: i64,
    /// Those of them that this server leads, when groups were asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub streams_leader: i64,
    /// Consumers of all accounts.
    pub consumers: i64,
    /// Those of them that this server leads, when groups were asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub consumers_leader: i64,
    /// Messages of all streams.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The catalogue, in a cluster.
    #[serde(rename = "meta_cluster", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaClusterInfo>,
    /// The accounts asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub account_details: Vec<JetStreamAccount>,
    /// Accounts with JetStream.
    pub total: i64,
    /// Memory that it works with; only this server tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_memory: Option<WorkingMemory>,
}

/// Memory for caches and for what waits for clients, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkingMemory {
    /// The bound of all of it.
    pub max: u64,
    /// What caches take.
    pub caches: u64,
    /// What the requests and messages take that wait.
    pub waiting: u64,
    /// Pull requests that wait.
    pub pull_requests: u64,
    /// Messages that wait for their acknowledgement.
    pub ack_pending: u64,
    /// Pull requests that were refused because there was no memory.
    pub refused: u64,
    /// Times that a consumer stopped to deliver because there was no memory.
    pub held: u64,
}

/// What JetStream uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JetStreamStats {
    /// Bytes of streams in memory.
    pub memory: u64,
    /// Bytes of streams on disk.
    pub storage: u64,
    /// Bytes in memory that streams may grow to; on the page of an account all ones stand for no limit.
    pub reserved_memory: u64,
    /// Bytes on disk that streams may grow to; on the page of an account all ones stand for no limit.
    pub reserved_storage: u64,
    /// Accounts with JetStream.
    pub accounts: i64,
    /// Streams and consumers with more than one replica.
    pub ha_assets: i64,
    /// Requests.
    pub api: ApiStats,
}

/// How JetStream is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JetStreamConfig {
    /// Most bytes of streams in memory.
    pub max_memory: i64,
    /// Most bytes of streams on disk.
    pub max_storage: i64,
    /// Where streams are stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub store_dir: String,
    /// How often disks are made to write.
    #[serde(with = "nanos", skip_serializing_if = "is_zero")]
    pub sync_interval: Duration,
    /// Disks write before each acknowledgement.
    #[serde(skip_serializing_if = "is_zero")]
    pub sync_always: bool,
    /// Domain of the server.
    #[serde(skip_serializing_if = "is_zero")]
    pub domain: String,
    /// Groups may compress their traffic.
    #[serde(skip_serializing_if = "is_zero")]
    pub compress_ok: bool,
    /// Replicas are on servers that differ in this tag.
    #[serde(skip_serializing_if = "is_zero")]
    pub unique_tag: String,
    /// Unknown members of requests are refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub strict: bool,
}

/// What a server allows; zero stands for its default, which is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JetStreamLimits {
    /// Messages of one pull request.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_request_batch: i64,
    /// Messages of one consumer waiting for their acknowledgement.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_ack_pending: i64,
    /// Streams and consumers with more than one replica.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_ha_assets: i64,
    /// How long message ids may be remembered.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_duplicate_window: Nanos,
    /// Open batches of one stream.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch_inflight_per_stream: i64,
    /// Open batches.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch_inflight_total: i64,
    /// Messages of one batch.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch_size: i64,
    /// Life of a batch after its last message.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch_timeout: Nanos,
    /// Consumers of a stream when neither stream nor account say.
    #[serde(skip_serializing_if = "is_zero")]
    pub default_max_consumers: i64,
}

/// The servers that keep the catalogue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetaClusterInfo {
    /// Name of the cluster.
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    /// Name of the server that leads.
    #[serde(skip_serializing_if = "is_zero")]
    pub leader: String,
    /// Its identity in groups.
    #[serde(skip_serializing_if = "is_zero")]
    pub peer: String,
    /// The others.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: Vec<PeerInfo>,
    /// How many there are.
    pub cluster_size: i64,
    /// How many are needed to decide.
    pub quorum_needed: i64,
    /// Fewer than that decide now.
    #[serde(skip_serializing_if = "is_zero")]
    pub rescue: bool,
    /// Requests that wait.
    pub pending: i64,
    /// Those of them that change something.
    pub pending_requests: i64,
    /// Those of them that only ask.
    pub pending_infos: i64,
    /// Snapshots of the catalogue.
    pub snapshot: Option<MetaSnapshotStats>,
}

/// Snapshots of the catalogue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetaSnapshotStats {
    /// Entries since the last one.
    pub pending_entries: u64,
    /// Their bytes.
    pub pending_size: u64,
    /// When it was taken.
    pub last_time: Time,
    /// How long that took.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_duration: Nanos,
}

/// JetStream of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JetStreamAccount {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: String,
    /// What it uses.
    #[serde(flatten)]
    pub stats: JetStreamStats,
    /// Its streams, when asked for.
    #[serde(rename = "stream_detail", skip_serializing_if = "is_zero")]
    pub streams: Vec<StreamDetail>,
}

/// A stream on the page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamDetail {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Time,
    /// Its replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterInfo>,
    /// What it is, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<StreamConfig>,
    /// What it holds.
    pub state: StreamState,
    /// Its consumers, when asked for.
    #[serde(rename = "consumer_detail", skip_serializing_if = "is_zero")]
    pub consumers: Vec<ConsumerInfo>,
    /// Consumers of mirrors and sources, when asked for.
    #[serde(rename = "direct_consumer_detail", skip_serializing_if = "is_zero")]
    pub direct_consumers: Vec<ConsumerInfo>,
    /// How far the mirror is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<StreamSourceInfo>,
    /// How far each source is.
    #[serde(skip_serializing_if = "is_zero")]
    pub sources: Vec<StreamSourceInfo>,
    /// The group that replicates it, when asked for.
    #[serde(rename = "stream_raft_group", skip_serializing_if = "is_zero")]
    pub raft_group: String,
    /// The groups that replicate its consumers, when asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub consumer_raft_groups: Vec<RaftGroupDetail>,
}

/// The group of a consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RaftGroupDetail {
    /// The consumer.
    pub name: String,
    /// Its group.
    #[serde(skip_serializing_if = "is_zero")]
    pub raft_group: String,
}

/// JetStream on the general page of a server and in its periodic figures. Empty without JetStream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JetStreamVarz {
    /// How it is configured; periodic figures leave the folder out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<JetStreamConfig>,
    /// What it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<JetStreamStats>,
    /// The catalogue, in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaClusterInfo>,
    /// What it allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<JetStreamLimits>,
}

/// What a request for the page asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JszOptions {
    /// Only this account; without one of this name, none is listed unless accounts are asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub account: String,
    /// List accounts.
    #[serde(skip_serializing_if = "is_zero")]
    pub accounts: bool,
    /// List their streams.
    #[serde(skip_serializing_if = "is_zero")]
    pub streams: bool,
    /// List the consumers of these.
    #[serde(skip_serializing_if = "is_zero")]
    pub consumer: bool,
    /// List consumers of mirrors and sources too.
    #[serde(skip_serializing_if = "is_zero")]
    pub direct_consumer: bool,
    /// Show configurations.
    #[serde(skip_serializing_if = "is_zero")]
    pub config: bool,
    /// Answer only if this server leads the catalogue.
    #[serde(skip_serializing_if = "is_zero")]
    pub leader_only: bool,
    /// Accounts to skip.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: i64,
    /// Most accounts to list.
    #[serde(skip_serializing_if = "is_zero")]
    pub limit: i64,
    /// Show groups.
    #[serde(skip_serializing_if = "is_zero")]
    pub raft: bool,
    /// List only streams that this server leads.
    #[serde(skip_serializing_if = "is_zero")]
    pub stream_leader_only: bool,
}

impl JszOptions {
    /// Reads the options from a query.
    ///
    /// # Errors
    /// When a value has the wrong form.
    pub fn from_query(query: &Query<'_>) -> Result<Self, QueryError> {
        Ok(Self {
            accounts: query.boolean("accounts")?,
            streams: query.boolean("streams")?,
            consumer: query.boolean("consumers")?,
            direct_consumer: query.boolean("direct-consumers")?,
            config: query.boolean("config")?,
            offset: query.signed("offset")?,
            limit: query.signed("limit")?,
            leader_only: query.boolean("leader-only")?,
            raft: query.boolean("raft")?,
            stream_leader_only: query.boolean("stream-leader-only")?,
            account: query.text("acc").to_owned(),
        })
    }

    /// The options with what they imply: consumers are listed with their streams, and streams with their accounts.
    pub fn implied(mut self) -> Self {
        self.streams |= self.consumer;
        self.accounts |= self.streams && self.account.is_empty();
        self
    }

    /// The accounts to list.
    pub fn page(&self) -> Page {
        Page::new(self.offset, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::decode_options;

    #[test]
    fn query_and_body_have_names_of_their_own() {
        let query = Query::parse(
            "acc=A&accounts=1&streams=1&consumers=1&direct-consumers=1&config=1&leader-only=1&offset=2&limit=3\
             &raft=1&stream-leader-only=1",
        );
        let body = br#"{"account":"A","accounts":true,"streams":true,"consumer":true,"direct_consumer":true,
            "config":true,"leader_only":true,"offset":2,"limit":3,"raft":true,"stream_leader_only":true}"#;
        assert_eq!(JszOptions::from_query(&query), Ok(decode_options(body).unwrap()));
        assert_eq!(
            JszOptions::from_query(&Query::parse("limit=x")).unwrap_err().to_string(),
            "Error decoding int for 'limit': strconv.Atoi: parsing \"x\": invalid syntax"
        );
    }

    #[test]
    fn what_is_listed_implies_what_it_is_listed_under() {
        let options = JszOptions { consumer: true, ..JszOptions::default() }.implied();
        assert!(options.streams && options.accounts);
        let options =
            JszOptions { consumer: true, account: "A".to_owned(), ..JszOptions::default() }.implied();
        assert!(options.streams && !options.accounts);
        assert_eq!(JszOptions::default().implied(), JszOptions::default());
        assert_eq!(JszOptions::default().page().limit, 1024);
    }
}
