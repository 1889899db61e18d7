//! Changes of who may do what: they reach running servers without a restart.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{World, example};
use crate::client::{Client, Event};
use crate::cluster::NatsCluster;
use crate::wait;

/// The kubelet refreshes files within seconds, and every server is asked in turn.
const RELOAD_LIMIT: Duration = Duration::from_secs(90);
const SERVERS: usize = 3;

pub(super) fn password(world: &World) -> Result<()> {
    let mut cluster = example(world)?;
    let before = cluster.pods()?;
    let old = cluster.password.clone();
    let fresh = format!("{old}, please");
    set_passwords(&cluster, &json!({"app": fresh}))?;
    for ordinal in 0..SERVERS {
        wait::until("the new password is accepted", RELOAD_LIMIT, || {
            cluster.try_login(ordinal, "app", &fresh)?.success()
        })?;
        let refused = cluster.try_login(ordinal, "app", &old)?.failure()?;
        ensure!(refused.contains("Authorization Violation"), "server {ordinal}: {refused}");
    }
    cluster.await_ready(3, RELOAD_LIMIT)?;
    ensure!(cluster.pods()? == before, "a reload touched pods: {before:?} became {:?}", cluster.pods()?);
    cluster.password = fresh;
    cluster.send_across(0, 2)
}

pub(super) fn permissions(world: &World) -> Result<()> {
    let cluster = example(world)?;
    let before = cluster.pods()?;
    let reader = "read only";
    set_passwords(&cluster, &json!({"reader": reader}))?;
    set_reader(&cluster, &json!({"publish": {"deny": [">"]}, "subscribe": {"allow": ["news.>"]}}))?;
    for ordinal in 0..SERVERS {
        wait::until("the reader may not publish", RELOAD_LIMIT, || {
            let refused = cluster.try_login(ordinal, "reader", reader)?.failure()?;
            ensure!(refused.contains("Permissions Violation for Publish to \"login.attempt\""), "{refused}");
            Ok(())
        })?;
    }

    // A client that stays connected loses a right and keeps the others.
    let (_forward, addresses) = cluster.forward_clients(&[cluster.host(1)])?;
    let mut client = Client::connect(&addresses[0], "reader", reader)?;
    client.subscribe("news.local")?;
    let secret = client.subscribe("secret").err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(secret.contains("Permissions Violation for Subscription to \"secret\""), "{secret:?}");
    set_reader(&cluster, &json!({"publish": {"deny": [">"]}, "subscribe": {"allow": ["weather.>"]}}))?;
    let withdrawn = |event: &Event| {
        let text = "Permissions Violation for Subscription to \"news.local\"";
        matches!(event, Event::Error(error) if error.contains(text)) || *event == Event::Closed
    };
    client.await_event(RELOAD_LIMIT, withdrawn)?;
    cluster.await_ready(3, RELOAD_LIMIT)?;
    let mut client = Client::connect(&addresses[0], "reader", reader)?;
    client.subscribe("weather.local")?;
    ensure!(client.subscribe("news.local").is_err(), "a withdrawn right still works");
    ensure!(cluster.pods()? == before, "a reload touched pods: {before:?} became {:?}", cluster.pods()?);
    Ok(())
}

fn set_passwords(cluster: &NatsCluster<'_>, passwords: &serde_json::Value) -> Result<()> {
    let patch = json!({"stringData": passwords}).to_string();
    cluster.kubectl(&["patch", "secret", "demo-users", "--patch", &patch])?;
    Ok(())
}

/// Gives the cluster a second user with these permissions.
fn set_reader(cluster: &NatsCluster<'_>, permissions: &serde_json::Value) -> Result<()> {
    let secret = |key: &str| json!({"name": "demo-users", "key": key});
    let users = json!([
        {"name": "app", "passwordSecretRef": secret("app")},
        {"name": "reader", "passwordSecretRef": secret("reader"), "permissions": permissions},
    ]);
    cluster.patch(&json!({"auth": {"accounts": [{"name": "APP", "users": users}]}}))
}
