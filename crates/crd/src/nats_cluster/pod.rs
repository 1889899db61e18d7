//! How servers run as pods: image, labels, replacement, stopping.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Duration;

/// When the node fetches an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl PullPolicy {
    /// The word that Kubernetes uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// Image of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.repository) || has(self.tag) || has(self.digest)")
    .message("name a tag or a digest next to image.repository"))]
#[x_kube(validation = Rule::new("has(self.repository) || (!has(self.tag) && !has(self.digest))")
    .message("name image.repository next to the tag or digest"))]
pub struct Image {
    /// Registry and name. The operator's default image when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub repository: Option<String>,
    /// Tag of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"))]
    pub tag: Option<String>,
    /// Digest of the image, `sha256:...`. Wins over the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71), regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// When the node fetches the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
    /// Secrets with registry credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub pull_secrets: Vec<LocalObjectReference>,
}

impl Image {
    /// The image as a node names it, when the object names one.
    #[must_use]
    pub fn reference(&self) -> Option<String> {
        let repository = self.repository.as_deref()?;
        match (&self.digest, &self.tag) {
            (Some(digest), _) => Some(format!("{repository}@{digest}")),
            (None, Some(tag)) => Some(format!("{repository}:{tag}")),
            (None, None) => Some(repository.to_owned()),
        }
    }
}

/// Labels and annotations for pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Labels. Those that the operator sets win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations. Those that the operator sets win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// Service account of the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.create || has(self.name)")
    .message("name an existing account in serviceAccount.name, or set serviceAccount.create to true"))]
pub struct ServiceAccount {
    /// Create one named after the cluster, or after `name`.
    #[serde(default = "default_true")]
    pub create: bool,
    /// Name of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Annotations for a created account.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}

impl Default for ServiceAccount {
    fn default() -> Self {
        Self { create: true, name: None, annotations: BTreeMap::new() }
    }
}

const fn default_true() -> bool {
    true
}

/// Who decides how many servers may be away at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionMode {
    /// The operator: one server while all others are well, none otherwise.
    #[default]
    Managed,
    /// `maxUnavailable`, always.
    Static,
    /// Nobody: no disruption budget.
    Off,
}

/// How many servers a node drain may take away at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Who decides.
    #[serde(default)]
    pub mode: DisruptionMode,
    /// Servers that may be away at a time.
    #[serde(default = "default_max_unavailable")]
    #[schemars(range(min = 0, max = 35))]
    pub max_unavailable: i32,
}

impl Default for Disruption {
    fn default() -> Self {
        Self { mode: DisruptionMode::Managed, max_unavailable: default_max_unavailable() }
    }
}

const fn default_max_unavailable() -> i32 {
    1
}

/// How servers are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategy {
    /// One at a time, when all others are well.
    #[default]
    Gated,
    /// A person names each pod by the annotation `myelin.dev/force-rollout`.
    Manual,
    /// One at a time without asking how the others are.
    Immediate,
}

/// How servers are replaced when a change needs new processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// How servers are replaced.
    #[serde(default)]
    pub strategy: UpdateStrategy,
    /// How long a new pod may take to become ready before the rollout counts as stalled.
    #[serde(default = "default_ready_timeout")]
    pub ready_timeout: Duration,
    /// How long a new pod must have been ready before the next one is touched.
    #[serde(default = "default_settle")]
    pub settle: Duration,
}

impl Default for Update {
    fn default() -> Self {
        Self {
            strategy: UpdateStrategy::Gated,
            ready_timeout: default_ready_timeout(),
            settle: default_settle(),
        }
    }
}

fn default_ready_timeout() -> Duration {
    Duration("15m".to_owned())
}

fn default_settle() -> Duration {
    Duration::seconds(10)
}

/// How a stopping server sends its clients away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.duration.matches('[dw]') || duration(self.duration) >= duration('30s')")
        .message("lameDuck.duration must be at least 30s"),
    validation = Rule::new("self.duration.matches('[dw]') || self.gracePeriod.matches('[dw]') || duration(self.gracePeriod) < duration(self.duration)")
        .message("lameDuck.gracePeriod must be shorter than lameDuck.duration")
)]
pub struct LameDuck {
    /// Over how long clients are closed, at least 30s.
    #[serde(default = "default_lame_duck_duration")]
    pub duration: Duration,
    /// How long clients are told before the first is closed.
    #[serde(default = "default_grace_period")]
    pub grace_period: Duration,
}

impl Default for LameDuck {
    fn default() -> Self {
        Self { duration: default_lame_duck_duration(), grace_period: default_grace_period() }
    }
}

fn default_lame_duck_duration() -> Duration {
    Duration::seconds(30)
}

fn default_grace_period() -> Duration {
    Duration::seconds(10)
}

/// What happens to certificates and generated passwords when the cluster is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They go with the cluster.
    #[default]
    Delete,
    /// The certificate authority and the operator's password stay for a cluster of the same name.
    Retain,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_wins_over_a_tag() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let mut image =
            Image { repository: Some("r/x".to_owned()), tag: Some("1".to_owned()), ..Image::default() };
        assert_eq!(image.reference().as_deref(), Some("r/x:1"));
        image.digest = Some(digest.clone());
        assert_eq!(image.reference(), Some(format!("r/x@{digest}")));
        image.repository = None;
        assert_eq!(image.reference(), None);
    }
}
