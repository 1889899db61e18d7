//! What is stored: it outlives pods, and what somebody deletes on the server is put back.

use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{READY_LIMIT, World};
use crate::cluster::NatsCluster;
use crate::wait;

/// The server of streams with what it keeps.
const MANIFEST: &str = "docs/examples/manifests/streams.yaml";
/// What was deleted on the server is there again within this time. A look around comes only once a minute.
const BACK_LIMIT: Duration = Duration::from_secs(10);

/// The cluster of the example with streams.
pub(super) fn store(world: &World) -> Result<NatsCluster<'_>> {
    let cluster = NatsCluster {
        kubernetes: &world.kubernetes,
        namespace: "e2e-stored",
        name: "store",
        user: "app".to_owned(),
        password: "change-me-please".to_owned(),
    };
    world.kubernetes.create_namespace(cluster.namespace)?;
    if cluster.kubectl(&["get", "natscluster", "--output=name"])?.is_empty() {
        cluster.kubectl(&["apply", "--filename", MANIFEST])?;
    }
    cluster.await_ready(1, READY_LIMIT)?;
    let kinds = "streams,consumers,keyvalues,objectstores";
    cluster.kubectl(&["wait", kinds, "--all", "--for=condition=Ready", "--timeout=60s"])?;
    Ok(cluster)
}

pub(super) fn outlives_its_pod(world: &World) -> Result<()> {
    let cluster = store(world)?;
    let answer = json(&cluster, &["request", "events.kept", "still there", "--raw"])?;
    let sequence = answer["seq"].as_u64().with_context(|| format!("no acknowledgement: {answer}"))?;
    cluster.nats(0, &["kv", "put", "settings", "colour", "green"])?;
    let before = cluster.pods()?;
    let deleted = Instant::now();
    cluster.kubectl(&["delete", "pod", "store-0"])?;
    wait::until("the server is back", READY_LIMIT, || {
        let now = cluster.pods()?;
        ensure!(now.len() == 1 && now[0].ready && now[0].uid != before[0].uid, "there is {now:?}");
        Ok(())
    })?;
    let number = sequence.to_string();
    let message = wait::until("the message is there", Duration::from_secs(20), || {
        cluster.nats(0, &["stream", "get", "events", &number])
    })?;
    ensure!(message.contains("events.kept") && message.contains("still there"), "{message}");
    let value = cluster.nats(0, &["kv", "get", "settings", "colour", "--raw"])?;
    ensure!(value.trim() == "green", "{value}");
    let state = json(&cluster, &["stream", "info", "events", "--json"])?["state"].clone();
    ensure!(state["last_seq"] == sequence, "{state}");
    writeln!(stdout(), "read back {:.1} s after the pod was deleted", deleted.elapsed().as_secs_f64())?;
    Ok(())
}

pub(super) fn is_put_back(world: &World) -> Result<()> {
    let cluster = store(world)?;
    let config = |name: &str| -> Result<Value> {
        let mut config = json(&cluster, &["stream", "info", name, "--json"])?["config"].clone();
        ensure!(config["name"] == name, "{config}");
        // The server adds what it is and can do.
        config["metadata"] = config["metadata"]["myelin.dev/owner"].clone();
        Ok(config)
    };
    for name in ["events", "KV_settings", "OBJ_reports"] {
        let before = config(name)?;
        let deleted = Instant::now();
        cluster.nats(0, &["stream", "rm", name, "--force"])?;
        let after = wait::until("the stream is back", BACK_LIMIT, || config(name))?;
        writeln!(stdout(), "{name} was back after {:.1} s", deleted.elapsed().as_secs_f64())?;
        ensure!(after == before, "it was {before} and is {after}");
    }
    cluster.nats(0, &["consumer", "rm", "orders", "worker", "--force"])?;
    wait::until("the consumer is back", BACK_LIMIT, || {
        let info = json(&cluster, &["consumer", "info", "orders", "worker", "--json"])?;
        ensure!(info["config"]["max_deliver"] == 5, "{info}");
        Ok(())
    })?;
    wait::until("the objects say so", BACK_LIMIT, || {
        let object =
            cluster.kubernetes.json(&["get", "stream", "events", "--namespace", cluster.namespace])?;
        let (status, reason, message) = crate::cluster::condition(&object, "Ready")?;
        ensure!(status == "True", "{reason}: {message}");
        Ok(())
    })
}

/// What the official client prints, as JSON.
fn json(cluster: &NatsCluster<'_>, arguments: &[&str]) -> Result<Value> {
    let text = cluster.nats(0, arguments)?;
    serde_json::from_str(&text).with_context(|| format!("nats {arguments:?} printed no JSON: {text}"))
}
