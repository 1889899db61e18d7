//! What the operator may do in Kubernetes, as data. `xtask codegen` writes the chart's roles from it.
//!
//! No wildcards, no `pods/exec`, no `escalate` or `bind`. A rule stands here when a line of the operator needs it.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// A set of resources of one API group and what may be done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural names, with subresource where meant.
    pub resources: &'static [&'static str],
    /// Allowed verbs.
    pub verbs: &'static [&'static str],
}

/// Needed in every namespace whose clusters the operator looks after.
pub const WATCHED: &[Access] = &[
    Access { group: crate::GROUP, resources: &["natsclusters"], verbs: &["get", "list", "patch", "watch"] },
    Access { group: crate::GROUP, resources: &["natsclusters/status"], verbs: &["patch"] },
    Access { group: crate::GROUP, resources: &["natsclusters/finalizers"], verbs: &["update"] },
    Access {
        group: crate::jetstream::GROUP,
        resources: &["accounts", "consumers", "keyvalues", "objectstores", "streams"],
        verbs: &["get", "list", "patch", "watch"],
    },
    Access {
        group: crate::jetstream::GROUP,
        resources: &[
            "accounts/status",
            "consumers/status",
            "keyvalues/status",
            "objectstores/status",
            "streams/status",
        ],
        verbs: &["patch"],
    },
    Access {
        group: crate::jetstream::GROUP,
        resources: &[
            "accounts/finalizers",
            "consumers/finalizers",
            "keyvalues/finalizers",
            "objectstores/finalizers",
            "streams/finalizers",
        ],
        verbs: &["update"],
    },
    // Labels of namespaces for grants, whether one is going, and the identity of the cluster.
    Access { group: "", resources: &["namespaces"], verbs: &["get"] },
    Access {
        group: "",
        resources: &["configmaps", "secrets", "serviceaccounts", "services"],
        verbs: &["create", "delete", "get", "list", "patch", "watch"],
    },
    Access { group: "", resources: &["pods"], verbs: &["delete", "get", "list", "patch", "watch"] },
    Access {
        group: "apps",
        resources: &["statefulsets"],
        verbs: &["create", "delete", "get", "list", "patch", "watch"],
    },
    // Growth. Claims are made by Kubernetes and go the way that the cluster's retention says.
    Access { group: "", resources: &["persistentvolumeclaims"], verbs: &["get", "list", "patch", "watch"] },
    Access {
        group: "policy",
        resources: &["poddisruptionbudgets"],
        verbs: &["create", "delete", "get", "list", "patch", "watch"],
    },
    Access { group: crate::GROUP, resources: &["natsautoscalers"], verbs: &["get", "list", "watch"] },
    Access { group: crate::GROUP, resources: &["natsautoscalers/status"], verbs: &["patch"] },
    // Workloads are scaled by this subresource alone; nothing else of them is read or written. Further kinds come from the chart's values.
    Access {
        group: "apps",
        resources: &["deployments/scale", "replicasets/scale", "statefulsets/scale"],
        verbs: &["get", "patch"],
    },
    // Who else scales them.
    Access { group: "autoscaling", resources: &["horizontalpodautoscalers"], verbs: &["list"] },
    Access { group: "keda.sh", resources: &["scaledobjects"], verbs: &["list"] },
    Access { group: "events.k8s.io", resources: &["events"], verbs: &["create", "patch"] },
];

/// Needed in the operator's own namespace: for leader election, and to know which cluster this is where nothing else may be read.
pub const OWN_NAMESPACE: &[Access] = &[
    Access {
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["create", "delete", "get", "update"],
    },
    Access { group: "", resources: &["namespaces"], verbs: &["get"] },
];

/// Needed besides where external metrics are served: to ask what a caller may read. How the API server is known is read by a role of its own
/// in `kube-system`, and the certificate lies in a Secret of the operator's namespace, which [`WATCHED`] covers.
pub const EXTERNAL_METRICS: &[Access] =
    &[Access { group: "authorization.k8s.io", resources: &["subjectaccessreviews"], verbs: &["create"] }];

/// Needed there for [`EXTERNAL_METRICS_SERVICE`] and for no other: who writes into any could answer for any API group.
pub const EXTERNAL_METRICS_AGGREGATION: &[Access] =
    &[Access { group: "apiregistration.k8s.io", resources: &["apiservices"], verbs: &["get", "patch"] }];

/// The APIService by which the API server passes questions for external metrics on.
pub const EXTERNAL_METRICS_SERVICE: &str = "v1beta1.external.metrics.k8s.io";

/// What the controller of HorizontalPodAutoscalers gets: each external metric there is. A question without a name of an object lists.
pub const EXTERNAL_METRICS_READER: &[Access] = &[Access {
    group: "external.metrics.k8s.io",
    resources: &[
        "nats_consumer_ack_pending",
        "nats_consumer_pending",
        "nats_queue_group_pending_bytes",
        "nats_service_utilisation",
        "nats_stream_messages",
    ],
    verbs: &["list"],
}];

/// All rules for external metrics.
#[must_use]
pub fn external_metrics() -> Vec<PolicyRule> {
    let mut aggregation = rules(EXTERNAL_METRICS_AGGREGATION);
    for rule in &mut aggregation {
        rule.resource_names = Some(vec![EXTERNAL_METRICS_SERVICE.to_owned()]);
    }
    [rules(EXTERNAL_METRICS), aggregation].concat()
}

/// Rules as Kubernetes writes them.
#[must_use]
pub fn rules(access: &[Access]) -> Vec<PolicyRule> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    access
        .iter()
        .map(|entry| PolicyRule {
            api_groups: Some(vec![entry.group.to_owned()]),
            resources: Some(owned(entry.resources)),
            verbs: owned(entry.verbs),
            ..PolicyRule::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_by_wildcard_or_beyond_need() {
        for entry in [WATCHED, OWN_NAMESPACE, EXTERNAL_METRICS, EXTERNAL_METRICS_AGGREGATION].concat() {
            for word in entry.resources.iter().chain(entry.verbs).chain([&entry.group]) {
                assert!(!word.contains('*'), "{entry:?}");
                assert!(!["pods/exec", "escalate", "bind", "impersonate"].contains(word), "{entry:?}");
            }
        }
    }

    #[test]
    fn rules_name_one_group_each() {
        let rules = rules(WATCHED);
        assert_eq!(rules.len(), WATCHED.len());
        assert!(rules.iter().all(|rule| rule.api_groups.as_ref().is_some_and(|groups| groups.len() == 1)));
    }

    #[test]
    fn of_all_api_services_one_may_be_written() {
        let rules = external_metrics();
        let aggregation: Vec<_> = rules
            .iter()
            .filter(|rule| rule.resources.iter().flatten().any(|name| name == "apiservices"))
            .collect();
        assert_eq!(aggregation.len(), 1);
        assert_eq!(
            aggregation[0].resource_names.as_deref(),
            Some(&[EXTERNAL_METRICS_SERVICE.to_owned()][..])
        );
    }
}
