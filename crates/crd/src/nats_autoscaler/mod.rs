//! `NatsAutoscaler`: as many workers as there is work, judged by what the servers say.

#![expect(clippy::duplicated_attributes, reason = "printer columns share the names of their attributes")]

pub mod schedule;
pub mod source;
pub mod status;
pub mod validate;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Duration;
use schedule::Schedule;
use source::Source;
pub use status::NatsAutoscalerStatus;

/// Most replicas that may be asked for.
pub const REPLICAS_MAX: i32 = 10_000;

/// As many workers as there is work.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "myelin.dev",
    version = "v1alpha1",
    kind = "NatsAutoscaler",
    plural = "natsautoscalers",
    shortname = "nas",
    category = "nats",
    namespaced,
    status = "NatsAutoscalerStatus",
    derive = "PartialEq",
    doc = "As many workers as there is work.",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.scaleTargetRef.name"),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.minReplicas"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.maxReplicas"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.currentReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredReplicas"),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Active")].status"#
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="ScalingActive")].reason"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.scaleTargetRef == oldSelf.scaleTargetRef")
        .message("scaleTargetRef cannot change: restore the old value, or create a new NatsAutoscaler"),
    validation = Rule::new("self.minReplicas <= self.maxReplicas")
        .message("minReplicas must not be above maxReplicas"),
    validation = Rule::new("!has(self.idleReplicas) || self.idleReplicas <= self.minReplicas")
        .message("idleReplicas must not be above minReplicas"),
    validation = Rule::new("(self.minReplicas > 0 && (!has(self.idleReplicas) || self.idleReplicas > 0)) || self.sources.all(s, has(s.consumer) || has(s.workqueue))")
        .message("queue groups and services lose requests while nobody is there: set minReplicas and idleReplicas to 1 or more, or use consumer and workqueue sources only"),
    validation = Rule::new("self.pollInterval.matches('[hdw]') ? false : duration(self.pollInterval) >= duration('1s') && duration(self.pollInterval) <= duration('5m')")
        .message("pollInterval must be between 1s and 5m"),
    validation = Rule::new("self.activationInterval.matches('[hdw]') ? false : duration(self.activationInterval) >= duration('1s') && duration(self.activationInterval) <= duration('30s')")
        .message("activationInterval must be between 1s and 30s"),
    validation = Rule::new("!has(self.preferIdlePods) || !self.preferIdlePods || (self.scaleTargetRef.apiVersion == 'apps/v1' && self.scaleTargetRef.kind in ['Deployment', 'ReplicaSet'])")
        .message("preferIdlePods: only ReplicaSets, and Deployments by them, let pods go in an order: leave it out, or scale one of these"),
    validation = Rule::new("!has(self.preferIdlePods) || !self.preferIdlePods || self.sources.exists(s, has(s.clusterRef))")
        .message("preferIdlePods: what is on its way is seen from the system account, so it needs a source with a clusterRef"),
    validation = Rule::new("!has(self.schedule) || self.schedule.all(s, !has(s.maxReplicas) || !has(s.minReplicas) || s.minReplicas <= s.maxReplicas)")
        .message("schedule: minReplicas must not be above maxReplicas")
)]
pub struct NatsAutoscalerSpec {
    /// What is scaled, in this namespace.
    pub scale_target_ref: TargetRef,
    /// Least replicas while there is work.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 10_000))]
    pub min_replicas: i32,
    /// Most replicas.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_replicas: i32,
    /// Replicas when there was no work for the time of cooldown. minReplicas when unset; 0 is none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub idle_replicas: Option<i32>,
    /// What the work is judged by.
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub sources: Vec<Source>,
    /// How several sources make one number.
    #[serde(default)]
    pub combine: Combine,
    /// How often sources are looked at.
    #[serde(default = "default_poll_interval")]
    pub poll_interval: Duration,
    /// How often sources are looked at while nobody works.
    #[serde(default = "default_activation_interval")]
    pub activation_interval: Duration,
    /// Time without work after which idleReplicas are enough.
    #[serde(default = "default_cooldown")]
    pub cooldown: Duration,
    /// How fast the number of replicas may change.
    #[serde(default)]
    pub behavior: Behavior,
    /// What to do while a source cannot be read.
    #[serde(default)]
    pub fallback: Fallback,
    /// Other limits at certain times. Of those in force the first counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub schedule: Vec<Schedule>,
    /// Before there are fewer replicas, tell Kubernetes to whose pods least is on its way: those go first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub prefer_idle_pods: bool,
    /// Leave the target alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// While paused, this many replicas. As many as there are when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub paused_replicas: Option<i32>,
}

const fn one() -> i32 {
    1
}

fn default_poll_interval() -> Duration {
    Duration::seconds(5)
}

fn default_activation_interval() -> Duration {
    Duration::seconds(2)
}

fn default_cooldown() -> Duration {
    Duration::seconds(300)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// What is scaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Its API group and version.
    #[serde(default = "apps")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9]+((alpha|beta)[0-9]+)?$")
    )]
    pub api_version: String,
    /// Its kind: one that can be scaled, and that the operator may scale.
    #[schemars(length(max = 63), regex(pattern = r"^[A-Z][A-Za-z0-9]*$"))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

fn apps() -> String {
    "apps/v1".to_owned()
}

impl TargetRef {
    /// API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }

    /// Whether another reference means the same object, perhaps in another version of the API.
    #[must_use]
    pub fn is(&self, api_version: &str, kind: &str, name: &str) -> bool {
        (self.group(), self.kind.as_str(), self.name.as_str()) == (group(api_version), kind, name)
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// How several sources make one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Combine {
    /// The largest.
    #[default]
    Max,
    /// Their sum: one worker serves one source at a time.
    Sum,
}

/// How fast the number of replicas may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Growing. At once, by 4 pods or 100 percent in 15 seconds.
    #[serde(default = "default_up")]
    pub scale_up: Rules,
    /// Shrinking. After 300 seconds without a larger need, by 50 percent in 60 seconds.
    #[serde(default = "default_down")]
    pub scale_down: Rules,
    /// Percent that the need may differ from what there is before anything changes.
    #[serde(default = "default_tolerance")]
    #[schemars(range(min = 0, max = 100))]
    pub tolerance_percent: i32,
}

impl Default for Behavior {
    fn default() -> Self {
        Self { scale_up: default_up(), scale_down: default_down(), tolerance_percent: default_tolerance() }
    }
}

const fn default_tolerance() -> i32 {
    10
}

fn default_up() -> Rules {
    let policy = |type_, value| Policy { type_, value, period: Duration::seconds(15) };
    Rules {
        stabilization_window: Duration::seconds(0),
        policies: vec![policy(PolicyType::Pods, 4), policy(PolicyType::Percent, 100)],
        select: Select::Max,
    }
}

fn default_down() -> Rules {
    Rules {
        stabilization_window: Duration::seconds(300),
        policies: vec![Policy { type_: PolicyType::Percent, value: 50, period: Duration::seconds(60) }],
        select: Select::Max,
    }
}

/// How fast the number may change in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.stabilizationWindow.matches('[dw]') ? false : duration(self.stabilizationWindow) <= duration('1h')")
    .message("stabilizationWindow must be at most 1h"))]
pub struct Rules {
    /// The most careful need within this time counts.
    #[serde(default = "no_time")]
    pub stabilization_window: Duration,
    /// Steps. Without any there is no bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub policies: Vec<Policy>,
    /// Which policy counts.
    #[serde(default)]
    pub select: Select,
}

fn no_time() -> Duration {
    Duration::seconds(0)
}

/// Which policy counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Select {
    /// The one that allows the largest change.
    #[default]
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: no change in this direction.
    Disabled,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.period.matches('[hdw]') ? false : duration(self.period) >= duration('1s') && duration(self.period) <= duration('30m')")
    .message("period must be between 1s and 30m"))]
pub struct Policy {
    /// Unit of the value.
    #[serde(rename = "type")]
    pub type_: PolicyType,
    /// How much.
    #[schemars(range(min = 1, max = 10_000))]
    pub value: i32,
    /// In which time.
    pub period: Duration,
}

/// Unit of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyType {
    /// Pods.
    Pods,
    /// Percent of what there was at the beginning of the period.
    Percent,
}

/// What to do while a source cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// Looks without an answer before anything is done.
    #[serde(default = "default_failures")]
    #[schemars(range(min = 1, max = 1_000))]
    pub after_failures: i32,
    /// At least this many replicas then. As many as there are when unset: what is not known is not zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub replicas: Option<i32>,
}

impl Default for Fallback {
    fn default() -> Self {
        Self { after_failures: default_failures(), replicas: None }
    }
}

const fn default_failures() -> i32 {
    3
}

impl NatsAutoscaler {
    /// An annotation of the object.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether a person asked for status only.
    #[must_use]
    pub fn paused(&self) -> bool {
        self.annotation(crate::annotation::PAUSED) == Some("true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_spec_has_the_documented_defaults() {
        let spec: NatsAutoscalerSpec = serde_json::from_value(serde_json::json!({
            "scaleTargetRef": {"kind": "Deployment", "name": "workers"}, "maxReplicas": 10,
            "sources": [{"clusterRef": {"name": "nats"},
                         "consumer": {"stream": "ORDERS", "consumer": "workers", "backlogPerReplica": {"target": 100}}}],
        }))
        .unwrap();
        assert_eq!((spec.min_replicas, spec.idle_replicas), (1, None));
        assert_eq!(spec.poll_interval, Duration::seconds(5));
        assert_eq!(spec.behavior.scale_up.policies.len(), 2);
        assert_eq!(spec.behavior.scale_down.stabilization_window, Duration::seconds(300));
        assert_eq!(spec.fallback, Fallback { after_failures: 3, replicas: None });
        assert_eq!(validate::validate(&spec), Ok(()));
    }

    #[test]
    fn only_like_needs_are_added_up() {
        let spec = |second: serde_json::Value| -> NatsAutoscalerSpec {
            serde_json::from_value(serde_json::json!({
                "scaleTargetRef": {"kind": "Deployment", "name": "workers"}, "maxReplicas": 10, "combine": "Sum",
                "sources": [{"clusterRef": {"name": "nats"}, "workqueue": {"stream": "A", "target": 1}}, second],
            }))
            .unwrap()
        };
        let like =
            serde_json::json!({"clusterRef": {"name": "nats"}, "workqueue": {"stream": "B", "target": 9}});
        assert_eq!(validate::validate(&spec(like)), Ok(()));
        let unlike = serde_json::json!({"clusterRef": {"name": "nats"},
            "consumer": {"stream": "B", "consumer": "c", "drainTime": {}}});
        assert_eq!(
            validate::validate(&spec(unlike.clone())),
            Err(validate::SpecError::Unlike { one: "workqueue", other: "consumer.drainTime" })
        );
        assert_eq!(validate::validate(&NatsAutoscalerSpec { combine: Combine::Max, ..spec(unlike) }), Ok(()));
    }
}
