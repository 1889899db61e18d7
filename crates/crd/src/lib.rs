//! Custom resource types: what a person writes in a manifest and what the operator answers in `status`.
//!
//! The types carry their own schema, defaults and rules, so the API server refuses a wrong object before the
//! operator sees it. `xtask codegen` writes the definitions and the access rules from here; nothing about
//! either is kept by hand in a YAML file.

// The schema derive writes a hidden public struct next to each type.
#![allow(unreachable_pub)]

pub mod common;
pub mod conditions;
pub mod jetstream;
pub mod nats_autoscaler;
pub mod nats_cluster;
pub mod rbac;

pub use nats_autoscaler::{NatsAutoscaler, NatsAutoscalerSpec, NatsAutoscalerStatus};
pub use nats_cluster::{NatsCluster, NatsClusterSpec, NatsClusterStatus};

/// API group of every kind of ours.
pub const GROUP: &str = "myelin.dev";

/// Field manager of everything the cluster controller writes.
pub const FIELD_MANAGER: &str = "myelin.dev/natscluster";

/// Field manager of what the autoscaler controller writes.
pub const AUTOSCALER_MANAGER: &str = "myelin.dev/natsautoscaler";

/// Finalizer on a cluster: child objects that must not outlive it are removed before it goes.
pub const CLUSTER_FINALIZER: &str = "myelin.dev/cluster";

/// Label on every child object: the name of the cluster it belongs to.
pub const CLUSTER_LABEL: &str = "myelin.dev/cluster";

/// Annotations that a person sets on an object of ours, and those that we set on children.
pub mod annotation {
    /// `"true"`: no writes for this object, status only.
    pub const PAUSED: &str = "myelin.dev/paused";
    /// Any new value: reconcile now. Echoed in `status.lastHandledReconcileAt`.
    pub const RECONCILE_AT: &str = "myelin.dev/reconcile-at";
    /// Any new value: gated restart of all pods.
    pub const RESTART_AT: &str = "myelin.dev/restart-at";
    /// Name of one pod: restart it once without asking the gate.
    pub const FORCE_ROLLOUT: &str = "myelin.dev/force-rollout";
    /// `"true"`: say in the status what would be written, and write nothing.
    pub const DRY_RUN: &str = "myelin.dev/dry-run";
    /// Name of the object: lets a protected stream or consumer be deleted.
    pub const DELETION_OVERRIDE: &str = "myelin.dev/deletion-override";
    /// Which operator instance owns the object.
    pub const CONTROLLER_CLASS: &str = "myelin.dev/controller-class";
    /// On the configuration Secret and on pods: hash of the whole configuration.
    pub const CONFIG_HASH: &str = "myelin.dev/config-hash";
    /// On the configuration Secret and in the pod template: changes when a new process is needed.
    pub const RESTART_HASH: &str = "myelin.dev/restart-hash";
}
