//! The disruption budget: how many servers a node drain may take away.

use crd::NatsCluster;
use crd::nats_cluster::pod::DisruptionMode;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::identity::Identity;

/// The budget, or none when the cluster wants none. `all_well`: every server is ready and nothing is under way.
#[must_use]
pub fn disruption_budget(
    identity: &Identity,
    cluster: &NatsCluster,
    all_well: bool,
) -> Option<PodDisruptionBudget> {
    let settings = &cluster.spec.disruption;
    let max_unavailable = match settings.mode {
        DisruptionMode::Off => return None,
        DisruptionMode::Static => settings.max_unavailable,
        // With one server a budget of zero would block node drains for ever.
        DisruptionMode::Managed if all_well || cluster.desired_replicas() <= 1 => settings.max_unavailable,
        DisruptionMode::Managed => 0,
    };
    Some(PodDisruptionBudget {
        metadata: identity.owned(identity.name.clone()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(max_unavailable)),
            selector: Some(LabelSelector {
                match_labels: Some(identity.selector()),
                ..LabelSelector::default()
            }),
            // A pod that never becomes ready must not block a drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}
