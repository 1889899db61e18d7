//! Removing clusters and the operator.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::install::objects;
use super::stored::store;
use super::{DEFINITIONS, OPERATOR_NAMESPACE, World, changing, example};
use crate::cluster::NatsCluster;
use crate::wait;

/// Servers without clients leave at once; their objects follow within seconds.
const REMOVE_LIMIT: Duration = Duration::from_secs(90);

/// Nobody would be left to answer the finalizers of clusters, so Helm is stopped before it removes anything.
pub(super) fn uninstall_is_refused(world: &World) -> Result<()> {
    let cluster = example(world)?;
    let kubernetes = &world.kubernetes;
    let namespace = ["--namespace", OPERATOR_NAMESPACE];
    let answer = kubernetes.helm(&[&["uninstall", "myelin"], &namespace[..]].concat())?.failure()?;
    ensure!(answer.contains("e2e-example/demo"), "{answer}");
    ensure!(answer.contains("objects still exist that wait for the operator"), "{answer}");
    let deployment = kubernetes.json(&[&["get", "deployment/myelin-operator"], &namespace[..]].concat())?;
    ensure!(deployment["status"]["readyReplicas"] == 1, "the operator is gone: {}", deployment["status"]);
    cluster.send_across(0, 1)
}

pub(super) fn delete(world: &World) -> Result<()> {
    let clusters = [
        (example(world)?, &["secret/demo-users"][..]),
        (changing(world)?, &["secret/users"]),
        // What is stored stays on its volume, unless the cluster says otherwise.
        (store(world)?, &["secret/store-users", "persistentvolumeclaim/js-store-0"]),
    ];
    for (cluster, kept) in clusters {
        // In any order: streams do not wait for servers that are gone.
        let kinds = "natsclusters,streams,consumers,keyvalues,objectstores";
        cluster.kubectl(&["delete", kinds, "--all", "--timeout=60s"])?;
        let always = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
        let kept: BTreeSet<String> = always.iter().chain(kept).map(|&name| name.to_owned()).collect();
        wait::until("all objects of the cluster are gone", REMOVE_LIMIT, || {
            let left = namespaced_objects(&cluster)?;
            ensure!(left == kept, "instead of {kept:?} there is {left:?}");
            Ok(())
        })?;
        cluster.kubectl(&["delete", "persistentvolumeclaims", "--all", "--timeout=60s"])?;
    }
    Ok(())
}

/// Every object in the namespace of a cluster, events aside.
fn namespaced_objects(cluster: &NatsCluster<'_>) -> Result<BTreeSet<String>> {
    let arguments = ["api-resources", "--namespaced", "--verbs=list", "--output=name"];
    let kinds = cluster.kubernetes.kubectl(&arguments)?;
    let lasting = |kind: &&str| !matches!(*kind, "events" | "events.events.k8s.io" | "endpoints");
    let kinds = kinds.lines().filter(lasting).collect::<Vec<_>>().join(",");
    let list = cluster.kubectl(&["get", &kinds, "--output=name"])?;
    Ok(list.lines().map(str::to_owned).collect())
}

pub(super) fn uninstall(world: &World) -> Result<()> {
    let kubernetes = &world.kubernetes;
    kubernetes.kubectl(&["delete", "natsclusters", "--all", "--all-namespaces", "--timeout=60s"])?;
    for release in ["myelin", "myelin-crds"] {
        let uninstall = ["uninstall", release, "--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout=2m"];
        kubernetes.helm(&uninstall)?.success()?;
    }
    let before = world.before.get().context("the operator was not installed")?;
    // The definitions stay on purpose: with them would go all objects. Their registrations are the API server's own.
    let definitions = DEFINITIONS.iter().map(|name| format!("CustomResourceDefinition <none> {name}"));
    let services = ["v1alpha1.myelin.dev", "v1beta2.jetstream.nats.io"];
    let services = services.iter().map(|name| format!("APIService <none> {name}"));
    let expected: BTreeSet<String> = before.iter().cloned().chain(definitions).chain(services).collect();
    wait::until("everything is as before", REMOVE_LIMIT, || {
        let now = objects(kubernetes)?;
        let left: Vec<&String> = now.difference(&expected).collect();
        let missing: Vec<&String> = expected.difference(&now).collect();
        ensure!(left.is_empty() && missing.is_empty(), "left behind: {left:?}; missing: {missing:?}");
        Ok(())
    })
}
