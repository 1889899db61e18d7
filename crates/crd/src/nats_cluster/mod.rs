//! `NatsCluster`: one routed cluster of servers.
//!
//! A field stands here only when the operator acts on it. What a later version will know is left out, so that
//! Kubernetes refuses it today.

pub mod auth;
pub mod jetstream;
pub mod listeners;
pub mod pod;
pub mod sizes;
pub mod status;
pub mod validate;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, PodSecurityContext, SecurityContext, Toleration, TopologySpreadConstraint,
};
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::common::Resources;
use crate::jetstream::account::AllowedNamespaces;
use auth::Auth;
use jetstream::{JetStream, Storage};
use listeners::{Clients, Monitoring, Routes, Service};
use pod::{DeletionPolicy, Disruption, Image, LameDuck, Metadata, ServiceAccount, Update};
pub use status::NatsClusterStatus;

/// Most servers in one cluster.
pub const REPLICAS_MAX: i32 = 35;

/// A cluster of NATS servers.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "myelin.dev",
    version = "v1alpha1",
    kind = "NatsCluster",
    plural = "natsclusters",
    shortname = "nc",
    category = "nats",
    namespaced,
    status = "NatsClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A cluster of NATS servers.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.readyReplicas", description = "servers that are ready"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas", description = "servers asked for"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version.current"),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Progressing")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Config", type_ = "string", json_path = ".status.config.appliedHash", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.image.desired", priority = 1),
    printcolumn(name = "JetStream", type_ = "string", json_path = r#".status.conditions[?(@.type=="JetStreamHealthy")].reason"#, priority = 1),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 40")
        .message("choose a metadata.name of at most 40 lower-case letters, digits and dashes that starts with a letter: Services and pods are named after it")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)")
        .message("clusterName cannot change once the cluster exists: restore the old value, or create a new NatsCluster"),
    validation = Rule::new("self.clients.port != self.routes.port && self.clients.port != self.monitoring.port && self.routes.port != self.monitoring.port")
        .message("give clients.port, routes.port and monitoring.port three different numbers"),
    validation = Rule::new("self.auth.mode != 'Config' || (has(self.auth.accounts) && self.auth.accounts.exists(a, has(a.users) && size(a.users) > 0))")
        .message("nobody could connect: add an account with a user to auth.accounts, or let everybody in with auth.mode None and auth.allowAnonymous true"),
    validation = Rule::new("!has(self.clients.noAuthUser) || self.auth.allowAnonymous")
        .message("clients.noAuthUser lets clients in without a password: set auth.allowAnonymous to true as well, or remove noAuthUser"),
    validation = Rule::new("!has(self.jetstream) || !self.jetstream.enabled || self.replicas == 1")
        .message("JetStream does not replicate streams in this version: set replicas to 1, or remove jetstream"),
    validation = Rule::new("!has(oldSelf.jetstream) || !has(self.jetstream) || has(self.storage.ephemeral) == has(oldSelf.storage.ephemeral)")
        .message("storage cannot change between a volume and ephemeral space while there is JetStream, because messages would be lost: remove jetstream first, or create a new NatsCluster"),
    validation = Rule::new("!has(oldSelf.jetstream) || !has(self.jetstream) || has(self.storage.ephemeral) || has(oldSelf.storage.ephemeral) || quantity(has(self.storage.volume) ? self.storage.volume.size : '10Gi').compareTo(quantity(has(oldSelf.storage.volume) ? oldSelf.storage.volume.size : '10Gi')) >= 0")
        .message("a volume cannot shrink: set storage.volume.size to the old size or more (10Gi when it was unset)"),
    validation = Rule::new("!has(oldSelf.jetstream) || !has(self.jetstream) || has(self.storage.ephemeral) || has(oldSelf.storage.ephemeral) || (has(self.storage.volume) && has(self.storage.volume.storageClassName) ? self.storage.volume.storageClassName : '') == (has(oldSelf.storage.volume) && has(oldSelf.storage.volume.storageClassName) ? oldSelf.storage.volume.storageClassName : '')")
        .message("storage.volume.storageClassName cannot change while there is JetStream: restore the old value, or create a new NatsCluster"),
    validation = Rule::new("!has(oldSelf.jetstream) || !has(oldSelf.jetstream.encryption) || !has(self.jetstream) || has(self.jetstream.encryption)")
        .message("jetstream.encryption cannot be removed, because what is stored could not be read any more: restore it")
)]
pub struct NatsClusterSpec {
    /// Number of servers.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 35))]
    pub replicas: i32,

    /// Name that the servers give each other. The name of the object when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub cluster_name: Option<String>,

    /// Image of the server. The operator's default when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,

    /// Put before the pod name to form the server name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32), regex(pattern = r"^[A-Za-z0-9_-]*$"))]
    pub server_name_prefix: String,

    /// What clients connect to.
    #[serde(default)]
    pub clients: Clients,

    /// What servers of the cluster connect to.
    #[serde(default)]
    pub routes: Routes,

    /// Health and figures over HTTP.
    #[serde(default)]
    pub monitoring: Monitoring,

    /// Streams. None unless the section is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<JetStream>,

    /// Where servers keep streams.
    #[serde(default)]
    pub storage: Storage,

    /// Who may connect.
    #[serde(default)]
    pub auth: Auth,

    /// Namespaces whose streams, consumers and buckets may name this cluster. Only this one when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,

    /// The Service in front of the client port.
    #[serde(default)]
    pub service: Service,

    /// Labels and annotations for the pods.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub pod_template: Metadata,

    /// Compute resources of a server. One core and 1Gi when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// Which nodes and neighbours the pods want.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Labels that a node must carry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the pods accept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,

    /// How the pods spread. Over nodes and zones where possible when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// Priority class of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// Runtime class of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,

    /// How long a pod may take to stop. lameDuck.duration and half a minute, at least a minute, when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub termination_grace_period_seconds: Option<i64>,

    /// Service account of the pods. Its token is never mounted.
    #[serde(default)]
    pub service_account: ServiceAccount,

    /// Replaces the restricted security context of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,

    /// Replaces the restricted security context of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_security_context: Option<SecurityContext>,

    /// How many servers a node drain may take away at a time.
    #[serde(default)]
    pub disruption: Disruption,

    /// How servers are replaced when a change needs new processes.
    #[serde(default)]
    pub update: Update,

    /// How a stopping server sends its clients away.
    #[serde(default)]
    pub lame_duck: LameDuck,

    /// Server options that have no field here. Merged last over the rendered configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub additional_config: Option<Map<String, Value>>,

    /// Lets additionalConfig replace options that the operator sets.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_overrides: bool,

    /// Stop all servers and keep every object.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hibernate: bool,

    /// What happens to certificates and generated passwords when the cluster is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// Schema of an object whose fields the server judges, not Kubernetes.
fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

const fn default_replicas() -> i32 {
    3
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl NatsCluster {
    /// Name that the servers give each other.
    #[must_use]
    pub fn cluster_name(&self) -> &str {
        self.spec.cluster_name.as_deref().or(self.metadata.name.as_deref()).unwrap_or_default()
    }

    /// Number of servers that should run.
    #[must_use]
    pub const fn desired_replicas(&self) -> i32 {
        if self.spec.hibernate { 0 } else { self.spec.replicas }
    }

    /// The settings of JetStream; `None` when servers keep no streams.
    #[must_use]
    pub fn jetstream(&self) -> Option<&JetStream> {
        self.spec.jetstream.as_ref().filter(|jetstream| jetstream.enabled)
    }

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
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn an_empty_spec_has_the_documented_defaults() {
        let spec: NatsClusterSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec.replicas, 3);
        assert_eq!(spec.clients.port, 4222);
        assert_eq!(spec.routes.port, 6222);
        assert_eq!(spec.monitoring.port, 8222);
        assert!(!spec.auth.allow_anonymous);
    }

    #[test]
    fn the_schema_has_defaults_for_sections_and_refuses_unknown_fields() {
        let crd = serde_json::to_value(NatsCluster::crd()).unwrap();
        let spec = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
        assert_eq!(spec.pointer("/properties/clients/default/port"), Some(&4222.into()));
        assert_eq!(
            spec.pointer("/properties/replicas/maximum").and_then(Value::as_f64),
            Some(f64::from(REPLICAS_MAX))
        );
        // Only the free-form configuration may keep what the schema does not know.
        assert_eq!(count(&crd, "x-kubernetes-preserve-unknown-fields"), 1);
    }

    fn count(value: &Value, key: &str) -> usize {
        match value {
            Value::Object(map) => {
                map.iter().map(|(name, inner)| usize::from(name == key) + count(inner, key)).sum()
            }
            Value::Array(items) => items.iter().map(|inner| count(inner, key)).sum(),
            _ => 0,
        }
    }

    #[test]
    fn a_hibernating_cluster_wants_no_servers() {
        let mut cluster = NatsCluster::new("demo", NatsClusterSpec { replicas: 3, ..Default::default() });
        assert_eq!(cluster.desired_replicas(), 3);
        cluster.spec.hibernate = true;
        assert_eq!(cluster.desired_replicas(), 0);
        assert_eq!(cluster.cluster_name(), "demo");
    }
}
