//! Installing the operator by Helm.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use super::{BROKER_IMAGE, DEFINITIONS, OPERATOR_NAMESPACE, World};
use crate::kubernetes::Kubernetes;
use crate::wait;

pub(super) const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts");

pub(super) fn install(world: &World) -> Result<()> {
    let kubernetes = &world.kubernetes;
    kubernetes.create_namespace(OPERATOR_NAMESPACE)?;
    wait::until("the cluster has its own objects", Duration::from_secs(30), || own_objects(kubernetes))?;
    world.before.set(objects(kubernetes)?).map_err(|_| anyhow!("the operator is installed once"))?;

    let namespace = ["--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout=2m"];
    let crds = format!("{CHARTS}/operator-crds");
    kubernetes.helm(&[&["install", "myelin-crds", &crds], &namespace[..]].concat())?.success()?;
    let definitions: Vec<String> = DEFINITIONS.iter().map(|name| format!("crd/{name}")).collect();
    let definitions: Vec<&str> = definitions.iter().map(String::as_str).collect();
    let established = ["--for=condition=Established", "--timeout=30s"];
    kubernetes.kubectl(&[&["wait"], &definitions[..], &established].concat())?;
    let operator = format!("{CHARTS}/operator");
    let image = format!("defaults.natsImage={BROKER_IMAGE}");
    let values = ["--set=crds.install=false", "--set=image.tag=dev", "--set", &image];
    kubernetes.helm(&[&["install", "myelin", &operator], &values[..], &namespace[..]].concat())?.success()?;
    check_operator(kubernetes)
}

/// The operator leads and writes one JSON document per line.
fn check_operator(kubernetes: &Kubernetes) -> Result<()> {
    wait::until("the operator leads", Duration::from_secs(30), || {
        let lease = ["get", "lease", "myelin-operator", "--namespace", OPERATOR_NAMESPACE];
        let holder = kubernetes.json(&lease)?["spec"]["holderIdentity"].clone();
        ensure!(
            holder.as_str().is_some_and(|holder| holder.starts_with("myelin-operator-")),
            "{holder} leads"
        );
        Ok(())
    })?;
    let logs =
        kubernetes.kubectl(&["logs", "deployment/myelin-operator", "--namespace", OPERATOR_NAMESPACE])?;
    ensure!(!logs.trim().is_empty(), "the operator wrote no log");
    for line in logs.lines() {
        let entry: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        ensure!(entry["level"].is_string(), "no level: {line}");
    }
    Ok(())
}

/// Objects that controllers make a moment after the start.
fn own_objects(kubernetes: &Kubernetes) -> Result<()> {
    let namespace = ["--namespace", OPERATOR_NAMESPACE];
    kubernetes.kubectl(&[&["get", "serviceaccount/default"], &namespace[..]].concat())?;
    kubernetes.kubectl(&[&["get", "configmap/kube-root-ca.crt"], &namespace[..]].concat())?;
    Ok(())
}

/// Kind, namespace and name of every object, except those in namespaces of Kubernetes and of the tests, and what comes
/// and goes by itself.
pub(super) fn objects(kubernetes: &Kubernetes) -> Result<BTreeSet<String>> {
    let kinds = kubernetes.kubectl(&["api-resources", "--verbs=list", "--output=name"])?;
    let passing =
        |kind: &&str| !matches!(*kind, "events" | "events.events.k8s.io" | "componentstatuses" | "endpoints");
    let kinds = kinds.lines().filter(passing).collect::<Vec<_>>().join(",");
    let columns = "--output=custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name";
    let list = kubernetes.kubectl(&["get", &kinds, "--all-namespaces", "--no-headers", columns])?;
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(list.lines().map(line).filter(|line| !line.contains(" e2e-") && !line.contains(" kube-")).collect())
}
