//! What the operator reports about an autoscaler.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// State of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatsAutoscalerStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Findings by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Replicas that the target asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// Replicas that it should ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// What the sources said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub sources: Vec<SourceStatus>,
    /// When the number of replicas was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// The latest changes of it, oldest first: steps in a time go on being counted by the next operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub recent_scales: Vec<RecentScale>,
    /// When there was work last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_active_time: Option<Time>,
    /// The last value of the annotation `myelin.dev/reconcile-at` that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

/// A change of the number of replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentScale {
    /// When.
    pub time: Time,
    /// Replicas that were added, or taken away when it is below zero.
    pub by: i32,
}

/// What a source said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// What it is.
    pub name: String,
    /// Messages, bytes, or percent, as the source counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
    /// Messages or requests that come in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<i64>,
    /// Messages that a replica does in a second, as far as that was learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_rate: Option<i64>,
    /// Replicas that it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// Replicas above which a consumer gives nobody a message, because `max_ack_pending` of them are not acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub useful_replicas: Option<i32>,
    /// When it was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read: Option<Time>,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
