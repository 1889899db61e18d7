//! The example of the documentation, and messages through it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{World, example};
use crate::cluster::NatsCluster;
use crate::wait;

pub(super) fn becomes_ready(world: &World) -> Result<()> {
    let cluster = example(world)?;
    cluster.check_mesh(3)?;
    check_columns(&cluster)?;
    for name in ["nc", "nats"] {
        let list = cluster.kubectl(&["get", name, "--output=name"])?;
        ensure!(list.trim() == "natscluster.myelin.dev/demo", "kubectl get {name} lists {list:?}");
    }
    // The namespace really admits restricted pods only: servers and operator are such.
    let privileged = ["run", "intruder", "--image=myelin/broker:dev", "--privileged", "--restart=Never"];
    let refused = cluster.try_kubectl(&privileged)?.failure()?;
    ensure!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
    Ok(())
}

/// The columns that kubectl prints say what the servers say themselves.
fn check_columns(cluster: &NatsCluster<'_>) -> Result<()> {
    let table = cluster.kubectl(&["get", "natscluster", "demo", "--output=wide"])?;
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let header = lines.next().context("an empty table")?;
    let row = lines.next().context("a table without a row")?;
    let expected =
        ["NAME", "READY", "RUNNING", "DESIRED", "VERSION", "STATUS", "AGE", "CONFIG", "IMAGE", "JETSTREAM"];
    ensure!(header == expected, "{table}");
    let varz = cluster.monitoring(0, "varz")?;
    let version = varz["version"].as_str().context("varz without a version")?;
    let config = varz["metadata"]["k8s-config-hash"].as_str().context("varz without the hash")?;
    ensure!(row.len() >= 9, "{table}");
    ensure!(row[..6] == ["demo", "True", "3", "3", version, "Idle"], "{table}");
    // The last column is empty: the example keeps no streams.
    ensure!(row[7..] == [config, super::BROKER_IMAGE], "{table} does not have {config}");
    Ok(())
}

pub(super) fn message_crosses(world: &World) -> Result<()> {
    let cluster = example(world)?;
    cluster.send_across(0, 1)?;
    cluster.send_across(2, 0)
}

pub(super) fn request_is_answered(world: &World) -> Result<()> {
    let cluster = example(world)?;
    let mut responder = cluster.start_nats(2, &["reply", "ask.for.help", "help is on its way"])?;
    let answer = wait::until("a request is answered", Duration::from_secs(30), || {
        responder.check_running()?;
        let answer = cluster.nats(1, &["request", "ask.for.help", "please", "--raw", "--timeout=2s"])?;
        ensure!(!answer.is_empty(), "there is no responder yet");
        Ok(answer)
    })?;
    ensure!(answer.trim() == "help is on its way", "the answer was {answer:?}");
    drop(responder);
    // Nobody is there to answer any more, and the client learns so at once.
    wait::until("a request finds nobody", Duration::from_secs(20), || {
        let request = ["request", "ask.for.help", "please", "--raw", "--timeout=10s"];
        let output = cluster.try_nats(1, &request)?.whole_success()?;
        ensure!(output.contains("No responders are available"), "{output}");
        Ok(())
    })
}
