//! What the operator says about these kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Entries of a list in a status; the rest is left out.
pub const LIST_MAX: usize = 32;

/// What every status has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Generation of the spec that the last pass saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// What would be changed, or was changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Why the last pass failed. Gone after one that did not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// Hash of the configuration that was last applied.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_applied_hash: String,
    /// The annotation reconcile-at as it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The server that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
}

/// Conditions that another controller wrote in a form of its own are passed over rather than in the way.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let values: Vec<Value> = Option::deserialize(deserializer)?.unwrap_or_default();
    Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

/// The next step, with its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// `Create`, `Update`, `Recreate`, `Adopt`, `Pause`, `Resume` or `None`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// Why it is the next step, or why it is not taken.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Differences, each as `field: present -> wanted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// A server as it introduced itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Level of its JetStream API.
    #[serde(default)]
    pub api_level: i64,
    /// Name of its cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
}

/// Replicas of a stream or consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replication {
    /// Name of the server that leads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub leader: String,
    /// The others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
}

/// A replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// Name of the server.
    #[serde(default)]
    pub name: String,
    /// It has everything.
    #[serde(default)]
    pub current: bool,
    /// It was not seen lately.
    #[serde(default)]
    pub offline: bool,
    /// Entries it lacks.
    #[serde(default)]
    pub lag: i64,
}

/// What a stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamState {
    /// Messages.
    #[serde(default)]
    pub messages: i64,
    /// Their bytes.
    #[serde(default)]
    pub bytes: i64,
    /// Sequence of the oldest.
    #[serde(default)]
    pub first_seq: i64,
    /// Sequence of the newest.
    #[serde(default)]
    pub last_seq: i64,
    /// Time of the oldest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_time: String,
    /// Time of the newest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_time: String,
    /// Subjects that have messages.
    #[serde(default)]
    pub subjects: i64,
    /// Consumers.
    #[serde(default)]
    pub consumers: i64,
    /// Sequences without a message.
    #[serde(default)]
    pub deleted: i64,
    /// Messages lost to damage.
    #[serde(default)]
    pub lost: i64,
}

/// How far a mirror or source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceState {
    /// Name of the other stream.
    #[serde(default)]
    pub name: String,
    /// Messages still to come.
    #[serde(default)]
    pub lag: i64,
    /// Something came within the last minute.
    #[serde(default)]
    pub active: bool,
    /// Why nothing comes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Status of a Stream, KeyValue or ObjectStore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamStatus {
    /// What every status has.
    #[serde(flatten)]
    pub report: Report,
    /// Name of the stream on the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stream_name: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// What it holds. Refreshed about once a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StreamState>,
    /// Its replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Replication>,
    /// How far the mirror is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<SourceState>,
    /// How far each source is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceState>,
    /// What a bucket holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<BucketState>,
}

/// What a bucket holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BucketState {
    /// Values, older ones included.
    #[serde(default)]
    pub values: i64,
    /// Their bytes.
    #[serde(default)]
    pub bytes: i64,
    /// Values kept of each key.
    #[serde(default)]
    pub history: i64,
    /// Life of a value; empty for ever.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ttl: String,
}

/// Status of a Consumer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerStatus {
    /// What every status has.
    #[serde(flatten)]
    pub report: Report,
    /// Name of its stream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stream_name: String,
    /// Name of the consumer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub consumer_name: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// How far it is. Refreshed about once a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ConsumerState>,
    /// Its replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Replication>,
    /// Where it goes on when it is made anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_at: Option<i64>,
}

/// How far a consumer is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerState {
    /// Messages still to deliver.
    #[serde(default)]
    pub pending: i64,
    /// Messages that wait for their acknowledgement.
    #[serde(default)]
    pub ack_pending: i64,
    /// Those of them that were delivered more than once.
    #[serde(default)]
    pub redelivered: i64,
    /// Pull requests that wait.
    #[serde(default)]
    pub waiting: i64,
    /// Sequence of the stream that was delivered last.
    #[serde(default)]
    pub delivered: i64,
    /// Everything up to this sequence of the stream is acknowledged.
    #[serde(default)]
    pub ack_floor: i64,
    /// Deliveries are stopped.
    #[serde(default)]
    pub paused: bool,
    /// Somebody listens to its deliveries.
    #[serde(default)]
    pub push_bound: bool,
    /// The client that is pinned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pinned_client: String,
}

/// Status of an Account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountStatus {
    /// What every status has.
    #[serde(flatten)]
    pub report: Report,
    /// What the account uses of JetStream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<AccountUsage>,
    /// Objects that connect through this one, as far as they fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependants: Vec<String>,
}

/// What an account uses of JetStream; -1 stands for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountUsage {
    /// Bytes of streams in memory.
    #[serde(default)]
    pub memory: i64,
    /// Bytes of streams on disk.
    #[serde(default)]
    pub storage: i64,
    /// Streams.
    #[serde(default)]
    pub streams: i64,
    /// Consumers.
    #[serde(default)]
    pub consumers: i64,
    /// Most bytes of streams in memory.
    #[serde(default)]
    pub max_memory: i64,
    /// Most bytes of streams on disk.
    #[serde(default)]
    pub max_storage: i64,
    /// Most streams.
    #[serde(default)]
    pub max_streams: i64,
    /// Most consumers of a stream.
    #[serde(default)]
    pub max_consumers: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_another_controller_are_not_in_the_way() {
        let status: StreamStatus = serde_json::from_str(
            r#"{"observedGeneration":2,"conditions":[
                {"type":"Ready","status":"True","reason":"Ready","message":"","lastTransitionTime":"2024-01-02T03:04:05.123456789Z"},
                {"type":"Odd","status":"True"}]}"#,
        )
        .unwrap();
        assert_eq!(status.report.observed_generation, Some(2));
        assert_eq!(status.report.conditions.len(), 1);
        assert!(serde_json::from_str::<StreamStatus>(r#"{"conditions":null}"#).is_ok());
    }
}
