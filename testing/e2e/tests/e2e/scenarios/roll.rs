//! Replacing servers while clients work.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::scale::check_events;
use super::{BROKER_IMAGE, READY_LIMIT, World, changing};
use crate::cluster::{NatsCluster, condition};
use crate::command::Background;
use crate::load::{Load, Login};
use crate::wait;

const NEW_IMAGE: &str = "myelin/broker:dev2";
/// Three servers, each with the time its clients get, its start and its time to settle.
const ROLL_LIMIT: Duration = Duration::from_secs(180);

pub(super) fn new_image(world: &World) -> Result<()> {
    let cluster = changing(world)?;
    world.kubernetes.tag_image(BROKER_IMAGE, NEW_IMAGE)?;
    let before = cluster.pods()?;
    let mut hosts = vec![cluster.service()];
    hosts.extend((0..before.len()).map(|ordinal| cluster.host(ordinal)));
    let (_forward, addresses) = cluster.forward_clients(&hosts)?;
    let login = Login { user: cluster.user.clone(), password: cluster.password.clone() };
    // The official client, whose wait before an attempt grows, is to be there at the end as well.
    let mut official =
        Background::start(&mut cluster.nats_at(&cluster.service(), &["subscribe", "roll.over", "--raw"]))?;
    let load = Load::start(&addresses[0], &addresses[1..], &login)?;
    await_progress(&load, 100)?;

    cluster.patch(&json!({"image": {"repository": "myelin/broker", "tag": "dev2"}}))?;
    await_roll(&cluster)?;
    await_progress(&load, 100)?;
    let outcome = load.finish()?;
    let (lost, confirmed) = (outcome.lost.len(), outcome.confirmed);
    ensure!(lost == 0, "{lost} of {confirmed} confirmed messages are lost: {outcome:?}");
    ensure!(outcome.publisher_reconnects >= 1, "the publisher's server was not replaced");
    ensure!(outcome.subscriber_reconnects.iter().all(|count| *count >= 1), "{outcome:?}");

    wait::until("the official client came back", Duration::from_secs(60), || {
        official.check_running()?;
        cluster.nats(0, &["publish", "roll.over", "still there"])?;
        let lines = official.lines();
        ensure!(lines.iter().any(|line| line == "still there"), "it has {lines:?}");
        Ok(())
    })?;

    let after = cluster.pods()?;
    for (old, new) in before.iter().zip(&after) {
        ensure!(old.name == new.name && old.uid != new.uid, "{old:?} was not replaced");
        ensure!(new.image == NEW_IMAGE && new.restarts == 0, "{new:?}");
    }
    let started: Vec<&String> = after.iter().rev().map(|pod| &pod.started).collect();
    ensure!(started.is_sorted(), "servers are replaced from the last to the first: {after:?}");
    wait::until("the new servers form a mesh", READY_LIMIT, || cluster.check_mesh(3))?;
    check_events(&cluster, &["RolloutStarted", "PodRestarting", "RolloutFinished"])
}

fn await_progress(load: &Load, messages: u64) -> Result<()> {
    let goal = load.confirmed() + messages;
    wait::until("messages are confirmed", Duration::from_secs(30), || {
        let confirmed = load.confirmed();
        ensure!(confirmed >= goal, "{confirmed} of {goal} messages are");
        Ok(())
    })
}

/// Waits for the new image on every server and sees to it that at most one is away at any look.
fn await_roll(cluster: &NatsCluster<'_>) -> Result<()> {
    let mut fewest = usize::MAX;
    wait::until("every server has the new image", ROLL_LIMIT, || {
        let pods = cluster.pods()?;
        fewest = fewest.min(pods.iter().filter(|pod| pod.ready).count());
        let new = pods.iter().filter(|pod| pod.ready && pod.image == NEW_IMAGE).count();
        ensure!(new == 3, "{new} of 3 servers have it");
        Ok(())
    })?;
    ensure!(fewest >= 2, "only {fewest} servers were ready at a time");
    cluster.await_ready(3, READY_LIMIT)
}

/// An image that is not there takes one server away and no other, and a corrected spec brings that one back.
pub(super) fn broken_image(world: &World) -> Result<()> {
    let cluster = changing(world)?;
    let before = cluster.pods()?;
    let good = cluster.object()?["spec"]["image"].clone();
    cluster.patch(&json!({"image": {"repository": "myelin/broker", "tag": "missing"}}))?;
    cluster.kubectl(&["wait", "natscluster/nats", "--for=condition=Stalled", "--timeout=120s"])?;
    let object = cluster.object()?;
    let (_, reason, message) = condition(&object, "Stalled")?;
    ensure!(reason == "RolloutStalled", "{reason}: {message}");
    ensure!(message.starts_with("nats-2 does not become ready: "), "{message}");
    let (available, _, text) = condition(&object, "Available")?;
    ensure!(available == "True" && text == "2 of 3 servers are ready", "{text}");
    ensure!(cluster.pods()?[..2] == before[..2], "other servers were touched: {:?}", cluster.pods()?);
    cluster.send_across(0, 1)?;

    cluster.patch(&json!({"image": good}))?;
    cluster.await_ready(3, READY_LIMIT)?;
    ensure!(cluster.pods()?[..2] == before[..2], "other servers were touched: {:?}", cluster.pods()?);
    cluster.send_across(2, 1)
}
