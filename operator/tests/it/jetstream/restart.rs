//! The API server and its etcd are killed and come back, and watches expire: nothing is lost, nothing is stuck, nothing is made twice.

use std::sync::Arc;

use ::crd::jetstream::{Account, Consumer, Stream};
use futures::StreamExt;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use operator::context::Context;
use operator::metrics::Metrics;
use serde_json::json;
use tokio::sync::watch;

use super::{account, apply, consumer, stream, until_ready};
use crate::support::apiserver::Apiserver;
use crate::support::broker::Broker;
use crate::support::until;
use crate::support::world::{World, context, settings};

/// Streams that a person makes while the server is killed.
const STREAMS: usize = 24;
/// Each is changed so many steps after it was made, and every other one deleted so many steps after that.
const LATER: usize = 4;
/// Steps before which the server is killed: while objects come, change, and go.
const KILLS: [usize; 3] = [3, 12, 26];

/// Does the same again until the server confirms it, as `kubectl` in a loop would.
async fn insist<T>(mut ask: impl AsyncFnMut() -> kube::Result<T>) -> T {
    until("the API server to confirm", async || ask().await.ok()).await
}

async fn insist_on_deletion<K: operator::apply::Object>(world: &World, name: &str) {
    insist(async || match world.api::<K>().delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(|_| ()),
    })
    .await;
}

const fn is_deleted(number: usize) -> bool {
    number.is_multiple_of(2)
}

/// Makes, changes and deletes, and tells at which step it is.
async fn work(world: &World, step: &watch::Sender<usize>) {
    for at in 0..STREAMS + 2 * LATER {
        step.send_replace(at);
        if at < STREAMS {
            let name = format!("s{at}");
            insist(async || apply::<Stream>(world, &name, stream(&name, json!({}))).await).await;
            insist(async || apply::<Consumer>(world, &name, consumer(&name, "c", json!({}))).await).await;
        }
        if let Some(number) = at.checked_sub(LATER).filter(|number| *number < STREAMS) {
            let name = format!("s{number}");
            let changed = json!({ "maxMsgs": number + 1 });
            insist(async || apply::<Stream>(world, &name, stream(&name, changed.clone())).await).await;
        }
        if let Some(number) = at.checked_sub(2 * LATER).filter(|number| is_deleted(*number)) {
            insist_on_deletion::<Stream>(world, &format!("s{number}")).await;
            insist_on_deletion::<Consumer>(world, &format!("s{number}")).await;
        }
    }
}

#[tokio::test]
async fn an_api_server_that_is_killed_while_objects_come_change_and_go_loses_and_doubles_nothing() {
    let broker = Broker::start().await;
    let mut server = Apiserver::start().await;
    let mut world = World::on(server.admin().await).await;
    account(&world, "main", &broker).await;
    let client = server.operator().await;
    world.run_operator(Arc::new(Context::new(
        client,
        settings(&world.namespace),
        Metrics::new().unwrap(),
        None,
    )));
    apply::<Stream>(&world, "keeper", stream("keeper", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "keeper").await;
    let person = broker.person("a");
    person.publish("keeper.x").await;

    let (step, mut at) = watch::channel(0);
    let kills = async {
        for kill in KILLS {
            at.wait_for(|at| *at >= kill).await.unwrap();
            server.kill();
            server.restart().await;
        }
    };
    tokio::join!(work(&world, &step), kills);

    for number in 0..STREAMS {
        let name = format!("s{number}");
        if is_deleted(number) {
            super::until_gone::<Stream>(&world, &name).await;
            super::until_gone::<Consumer>(&world, &name).await;
            continue;
        }
        let object: Stream = until_ready(&world, &name).await;
        until_ready::<Consumer>(&world, &name).await;
        let config = person.js().stream(&name).await.unwrap().unwrap().config;
        assert_eq!(config.max_msgs, i64::try_from(number).unwrap() + 1);
        let owner = &config.metadata["myelin.dev/owner"];
        assert!(owner.ends_with(&object.uid().unwrap()), "{owner}");
        assert!(person.js().consumer(&name, "c").await.unwrap().is_some());
    }
    until_ready::<Stream>(&world, "keeper").await;
    assert_eq!(person.js().stream("keeper").await.unwrap().unwrap().state.messages, 1);
    assert_eq!(person.js().account().await.unwrap().streams, i64::try_from(STREAMS / 2).unwrap() + 1);
}

/// Whether a watch from a version is refused because what came after it is forgotten.
async fn has_expired(world: &World, version: &str) -> bool {
    let api = world.api::<Stream>();
    let events = api.watch(&WatchParams::default().timeout(5), version).await;
    let first = match events {
        Ok(events) => events.boxed().next().await,
        Err(error) => Some(Err(error)),
    };
    match first {
        Some(Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status))) => status.code == 410,
        _ => false,
    }
}

async fn newest_version(world: &World) -> String {
    let list = world.api::<Stream>().list(&ListParams::default()).await.unwrap();
    list.metadata.resource_version.unwrap()
}

/// Takes an object away without its controller.
async fn tear_out(world: &World, name: &str) {
    let api = world.api::<Stream>();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    let bare = json!({ "metadata": { "finalizers": null } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&bare)).await.unwrap();
    super::until_gone::<Stream>(world, name).await;
}

#[tokio::test]
async fn a_watch_that_expired_begins_anew_and_what_went_meanwhile_is_seen_to_be_gone() {
    let broker = Broker::start().await;
    let mut server = Apiserver::start().await;
    let mut world = World::on(server.admin().await).await;
    for name in ["main", "second"] {
        account(&world, name, &broker).await;
    }
    let (client, gate) = server.operator_behind_a_gate().await;
    let metrics = Metrics::new().unwrap();
    let figures = metrics.clone();
    world.run_operator(Arc::new(Context::new(client, settings(&world.namespace), metrics, None)));
    for name in ["edited", "deleted", "torn", "again"] {
        let account = if name == "torn" { "second" } else { "main" };
        apply::<Stream>(&world, name, stream(name, json!({ "account": account }))).await.unwrap();
    }
    for name in ["edited", "deleted", "torn", "again"] {
        until_ready::<Stream>(&world, name).await;
    }
    let known = newest_version(&world).await;
    gate.shut();
    apply::<Stream>(&world, "edited", stream("edited", json!({ "maxMsgs": 5 }))).await.unwrap();
    world.api::<Stream>().delete("deleted", &DeleteParams::default()).await.unwrap();
    tear_out(&world, "torn").await;
    tear_out(&world, "again").await;
    apply::<Stream>(&world, "again", stream("again", json!({ "maxMsgs": 7 }))).await.unwrap();
    assert!(!has_expired(&world, &known).await);
    server.compact(&newest_version(&world).await).await;
    server.kill();
    server.restart().await;
    assert!(has_expired(&world, &known).await, "the operator could go on from where it was");
    gate.open();

    super::until_gone::<Stream>(&world, "deleted").await;
    until_ready::<Stream>(&world, "edited").await;
    until_ready::<Stream>(&world, "again").await;
    let person = broker.person("a");
    let messages = async |name: &str| person.js().stream(name).await.unwrap().unwrap().config.max_msgs;
    assert_eq!((messages("edited").await, messages("again").await), (5, 7));
    assert!(person.js().stream("deleted").await.unwrap().is_none());
    // Of what nobody saw go nothing is left: no figures, nobody who uses its Account, nobody who makes its stream again.
    until("the figures to be gone", async || {
        let text = String::from_utf8(figures.text().unwrap()).unwrap();
        assert!(text.contains(r#"name="again""#), "{text}");
        (!text.contains(r#"name="torn""#)).then_some(())
    })
    .await;
    super::delete::<Account>(&world, "second").await;
    person.js().delete_stream("torn").await.unwrap();
    person.js().delete_stream("again").await.unwrap();
    until("the other stream to be back", async || person.js().stream("again").await.unwrap()).await;
    assert!(person.js().stream("torn").await.unwrap().is_none());
}

#[tokio::test]
async fn a_status_of_what_is_gone_is_not_written_to_its_successor() {
    let world = World::empty().await;
    let writer = context(&world.namespace, None).await.writer.clone();
    let status = json!({ "observedGeneration": 1, "conditions": [] });
    let first = apply::<Stream>(&world, "orders", stream("orders", json!({}))).await.unwrap();
    writer.status_of(&first, "test", &status).await.unwrap();
    let written = world.api::<Stream>().get("orders").await.unwrap().status.unwrap();
    assert_eq!(serde_json::to_value(&written).unwrap()["observedGeneration"], 1);

    super::delete::<Stream>(&world, "orders").await;
    writer.status_of(&first, "test", &status).await.unwrap();
    assert!(world.api::<Stream>().get_opt("orders").await.unwrap().is_none());
    let second = apply::<Stream>(&world, "orders", stream("orders", json!({}))).await.unwrap();
    assert_eq!(second.metadata.generation, first.metadata.generation, "a reader cannot tell them apart");
    writer.status_of(&first, "test", &status).await.unwrap();
    assert!(world.api::<Stream>().get("orders").await.unwrap().status.is_none());
}
