//! External metrics as the chart sets them up: off, on, and off again without a trace.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::install::CHARTS;
use super::stored::store;
use super::{OPERATOR_NAMESPACE, World};
use crate::cluster::NatsCluster;
use crate::wait;

/// The registration that the chart makes.
const API_SERVICE: &str = "apiservice/v1beta1.external.metrics.k8s.io";
/// The one that asks in a Kubernetes cluster where each controller has an identity of its own.
const CONTROLLER: &str = "--as=system:serviceaccount:kube-system:horizontal-pod-autoscaler";

pub(super) fn are_served(world: &World) -> Result<()> {
    let cluster = store(world)?;
    let kubernetes = &world.kubernetes;
    let before = kubernetes.try_kubectl(&["get", API_SERVICE], "")?.failure()?;
    ensure!(before.contains("NotFound"), "they are served before anybody asked for it: {before}");
    switch(world, true)?;
    kubernetes.kubectl(&["wait", API_SERVICE, "--for=condition=Available", "--timeout=60s"])?;
    cluster.nats(0, &["request", "events.counted", "one more", "--raw"])?;
    let stored: Value = serde_json::from_str(&cluster.nats(0, &["stream", "info", "events", "--json"])?)?;
    let stored =
        stored["state"]["messages"].as_u64().context("a stream without a number of messages")?.to_string();
    wait::until("the controller is told the number", Duration::from_secs(30), || {
        let list: Value = serde_json::from_str(&ask(&cluster, "nats_stream_messages", CONTROLLER)?)?;
        let value = &list["items"][0]["value"];
        ensure!(value.as_str() == Some(&stored), "{value} instead of {stored}");
        Ok(())
    })?;
    let refused = ask(&cluster, "nats_stream_messages", "--as=somebody").err().context("anybody may ask")?;
    ensure!(format!("{refused:#}").contains("forbidden"), "{refused:#}");

    switch(world, false)?;
    wait::until("nothing of it is left", Duration::from_secs(60), || {
        let kinds = "apiservices,services,secrets,clusterroles,clusterrolebindings,rolebindings";
        let left = kubernetes.kubectl(&["get", kinds, "--all-namespaces", "--output=name"])?;
        ensure!(!left.contains("external-metrics") && !left.contains("v1beta1.external.metrics"), "{left}");
        Ok(())
    })
}

/// Asks as somebody else.
fn ask(cluster: &NatsCluster<'_>, metric: &str, who: &str) -> Result<String> {
    let (namespace, selector) = (cluster.namespace, "cluster%3Dstore%2Cstream%3Devents");
    let path = format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?labelSelector={selector}"
    );
    cluster.kubernetes.kubectl(&["get", "--raw", &path, who])
}

/// Changes the one value of the release.
fn switch(world: &World, enabled: bool) -> Result<()> {
    let operator = format!("{CHARTS}/operator");
    let value = format!("--set=externalMetrics.enabled={enabled}");
    let upgrade = ["upgrade", "myelin", &operator, "--reuse-values", &value];
    let namespace = ["--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout=2m"];
    world.kubernetes.helm(&[&upgrade[..], &namespace].concat())?.success()?;
    Ok(())
}
