//! What is tested, in this order. Scenarios of one cluster build on each other; each also runs alone, then it makes its
//! cluster itself.

mod example;
mod external_metrics;
mod install;
mod refuse;
mod reload;
mod remove;
mod roll;
mod scale;
mod stored;
mod walkthrough;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cluster::NatsCluster;
use crate::kubernetes::Kubernetes;

/// Where the operator is installed.
pub(crate) const OPERATOR_NAMESPACE: &str = "myelin-system";
/// The definitions that the charts bring.
pub(crate) const DEFINITIONS: [&str; 7] = [
    "natsclusters.myelin.dev",
    "natsautoscalers.myelin.dev",
    "streams.jetstream.nats.io",
    "consumers.jetstream.nats.io",
    "keyvalues.jetstream.nats.io",
    "objectstores.jetstream.nats.io",
    "accounts.jetstream.nats.io",
];
/// The image of the broker, and another name for it.
pub(crate) const BROKER_IMAGE: &str = "myelin/broker:dev";
/// A cluster that starts or changes must be ready within this time.
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(120);

/// What scenarios share.
pub(crate) struct World {
    pub(crate) kubernetes: Kubernetes,
    /// Every object that there was before the operator was installed.
    pub(crate) before: OnceCell<BTreeSet<String>>,
}

/// One test.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&World) -> Result<()>,
}

/// The first: everything else needs the operator.
pub(crate) const INSTALL: Scenario = Scenario { name: "helm_installs_the_operator", run: install::install };

/// All others, in order.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a_wrong_spec_is_refused_with_a_sentence", run: refuse::by_the_api_server },
    Scenario { name: "the_example_becomes_ready_and_shows_true_columns", run: example::becomes_ready },
    Scenario { name: "a_message_crosses_pods", run: example::message_crosses },
    Scenario { name: "a_request_is_answered_across_pods", run: example::request_is_answered },
    Scenario { name: "a_stored_message_outlives_its_pod", run: stored::outlives_its_pod },
    Scenario { name: "a_stream_deleted_by_hand_is_back_within_seconds", run: stored::is_put_back },
    Scenario { name: "a_controller_may_ask_for_external_metrics", run: external_metrics::are_served },
    Scenario { name: "the_walkthrough_prints_what_is_documented", run: walkthrough::as_documented },
    Scenario { name: "a_bad_value_stalls_and_touches_nothing", run: refuse::by_the_operator },
    Scenario { name: "a_new_password_is_reloaded_without_a_restart", run: reload::password },
    Scenario { name: "new_permissions_are_reloaded_without_a_restart", run: reload::permissions },
    Scenario { name: "scales_from_three_to_five_to_three", run: scale::up_and_down },
    Scenario { name: "a_new_image_rolls_without_losing_a_message", run: roll::new_image },
    Scenario { name: "a_broken_image_stops_the_rollout_at_one_server", run: roll::broken_image },
    Scenario { name: "uninstalling_stops_while_clusters_exist", run: remove::uninstall_is_refused },
    Scenario { name: "deleting_a_cluster_removes_its_objects", run: remove::delete },
    Scenario { name: "uninstalling_leaves_nothing", run: remove::uninstall },
];

/// The cluster of the manifest that the documentation shows, in a namespace that admits restricted pods only.
pub(crate) fn example(world: &World) -> Result<NatsCluster<'_>> {
    let (namespace, name) = ("e2e-example", "demo");
    world.kubernetes.create_namespace(namespace)?;
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/manifests/nats-cluster.yaml");
    let exists =
        world.kubernetes.kubectl(&["get", "natscluster", "--namespace", namespace, "--output=name"])?;
    if exists.is_empty() {
        world.kubernetes.kubectl(&["apply", "--namespace", namespace, "--filename", manifest])?;
    }
    let template = "--output=go-template={{.data.app | base64decode}}";
    let password =
        world.kubernetes.kubectl(&["get", "secret", "demo-users", "--namespace", namespace, template])?;
    let cluster =
        NatsCluster { kubernetes: &world.kubernetes, namespace, name, user: "app".to_owned(), password };
    let condition = ["wait", "natscluster/demo", "--for=condition=Ready", "--timeout=120s"];
    cluster.kubectl(&condition)?;
    Ok(cluster)
}

/// A cluster for what takes servers away: its clients have less time to leave, so that this takes less.
pub(crate) fn changing(world: &World) -> Result<NatsCluster<'_>> {
    let (namespace, name) = ("e2e-changing", "nats");
    let cluster = NatsCluster {
        kubernetes: &world.kubernetes,
        namespace,
        name,
        user: "load".to_owned(),
        password: "secret of the load".to_owned(),
    };
    world.kubernetes.create_namespace(namespace)?;
    let exists = cluster.kubectl(&["get", "natscluster", "--output=name"])?;
    if exists.is_empty() {
        world.kubernetes.apply(namespace, &users(&[("load", &cluster.password)]))?;
        world.kubernetes.apply(namespace, &changing_object())?;
        cluster.await_ready(3, READY_LIMIT)?;
    }
    Ok(cluster)
}

fn changing_object() -> Value {
    json!({
        "apiVersion": "myelin.dev/v1alpha1",
        "kind": "NatsCluster",
        "metadata": {"name": "nats"},
        "spec": {
            "replicas": 3,
            "auth": {"accounts": [{"name": "LOAD", "users": [user("load")]}]},
            "lameDuck": {"gracePeriod": "3s"},
            "update": {"settle": "4s"},
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        },
    })
}

/// A user whose password lies in the Secret that [`users`] makes.
pub(crate) fn user(name: &str) -> Value {
    json!({"name": name, "passwordSecretRef": {"name": "users", "key": name}})
}

/// The Secret with passwords of users.
pub(crate) fn users(passwords: &[(&str, &str)]) -> Value {
    let data: Value = passwords.iter().map(|(user, password)| (*user, Value::from(*password))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "users"}, "stringData": data})
}
