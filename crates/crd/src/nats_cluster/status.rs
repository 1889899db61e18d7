//! What the operator reports about a cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// State of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatsClusterStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Findings by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Servers that exist.
    #[serde(default)]
    pub replicas: i32,
    /// Servers that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Label selector of the pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Name that the servers give each other.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Versions that run.
    #[serde(default)]
    pub version: Versions,
    /// Images that are wanted and that run.
    #[serde(default)]
    pub image: Images,
    /// Where to connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
    /// The servers, by ordinal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 70))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub servers: Vec<Server>,
    /// What JetStream holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<JetStreamStatus>,
    /// Volumes of the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 70))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["claim".into()]))]
    pub volumes: Vec<Volume>,
    /// A replacement of servers that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// A change of size that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// The configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigStatus>,
    /// Certificates in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["listener".into()]))]
    pub certificates: Vec<Certificate>,
    /// The last value of the annotation `myelin.dev/reconcile-at` that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

/// Versions that run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// The version of the servers, or all of them with commas between.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current: String,
    /// Number of servers by version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub running: BTreeMap<String, i32>,
}

/// Images that are wanted and that run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Image that every server should run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub desired: String,
    /// Images that servers run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 35))]
    pub running: Vec<String>,
}

/// Where to connect from inside the Kubernetes cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// Address for clients.
    pub client: String,
    /// Address of health and figures.
    pub monitoring: String,
    /// Addresses that the load balancer gave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub external: Vec<String>,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Name of the server.
    pub name: String,
    /// Number of the pod.
    pub ordinal: i32,
    /// Name of the pod.
    pub pod: String,
    /// Node that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Identity of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// Version that it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether Kubernetes holds the pod ready.
    #[serde(default)]
    pub ready: bool,
    /// Whether the process was sent away.
    #[serde(default)]
    pub lame_duck: bool,
    /// When the pod started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Hash of the configuration that the process proved to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Client connections at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<i64>,
    /// Route connections at the last look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<i64>,
}

/// A replacement of servers that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Revision that pods are replaced with.
    pub revision: String,
    /// Pods on that revision.
    pub updated: i32,
    /// Pod that is being replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// What the next step waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Why it does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A change of size that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// Servers at the start.
    pub from: i32,
    /// Servers asked for.
    pub to: i32,
    /// Pod that is leaving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<String>,
}

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// Hash of the configuration that servers should run.
    pub hash: String,
    /// Hash of the configuration that every server proved to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_hash: Option<String>,
    /// Options whose change needs new processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub restart_fields: Vec<String>,
    /// When servers last took a new configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload: Option<Time>,
    /// Why a server refused a configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload_error: Option<String>,
    /// Since when servers have not yet taken the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_since: Option<Time>,
}

/// A certificate in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Listener that shows it.
    pub listener: String,
    /// Secret that holds it.
    pub secret: String,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
}

/// What JetStream holds. Bytes move in steps of a hundredth of their limit, so that a busy cluster is not written all the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct JetStreamStatus {
    /// Number of streams.
    #[serde(default)]
    pub streams: i64,
    /// Number of consumers.
    #[serde(default)]
    pub consumers: i64,
    /// Bytes of streams in files.
    #[serde(default)]
    pub storage: Usage,
    /// Bytes of streams in memory.
    #[serde(default)]
    pub memory: Usage,
}

/// Bytes in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Bytes that are used.
    #[serde(default)]
    pub used: i64,
    /// Bytes that may be used.
    #[serde(default)]
    pub limit: i64,
}

/// The volume of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Name of its claim.
    pub claim: String,
    /// Size that is asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requested: String,
    /// Size that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// `Bound`, `Pending`, `Resizing`, `FileSystemPending` or `Lost`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
}
