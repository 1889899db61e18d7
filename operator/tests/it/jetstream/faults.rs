//! What may go wrong on the way: nothing is lost, and nothing is stuck.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::crd::jetstream::{Account, Consumer, KeyValue, Stream};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::DeleteParams;
use operator::apply::Failpoint;
use operator::context::Context;
use operator::leader::Elector;
use operator::metrics::Metrics;
use serde_json::json;

use super::{account, apply, consumer, message, stream, until_ready, until_says, world};
use crate::support::broker::Broker;
use crate::support::world::{World, context, settings};
use crate::support::{apiserver, until};

#[tokio::test]
async fn a_broker_that_was_away_finds_everything_as_it_should_be() {
    let mut broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    let context = context(&world.namespace, None).await;
    let (metrics, failures) = (context.metrics.clone(), Arc::clone(&context));
    world.run_operator(context);
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    broker.kill().await;
    let passes = || metrics.reconciles.with_label_values(&["Stream", "success"]).get();
    let before = passes();
    apply::<Stream>(&world, "s", stream("s", json!({ "maxMsgs": 5 }))).await.unwrap();
    apply::<Consumer>(&world, "c", consumer("s", "c", json!({}))).await.unwrap();
    let object: Stream = until_says(&world, "s", ("Reconciled", "False", "Unreachable")).await;
    assert!(object.status.as_ref().unwrap().created.is_some(), "what was seen last stays in the status");
    assert!(message(&object, "Ready").contains("connect"), "{}", message(&object, "Ready"));
    until_says::<Consumer>(&world, "c", ("Reconciled", "False", "Unreachable")).await;
    // It does not get used to it: however long this goes on, the next try comes. How late at most is a matter of `pass::waiting`
    // and `session::pause_after`, which have tests of their own.
    until("further tries", async || (passes() >= before + 5).then_some(())).await;
    // As many failures as ten minutes bring about and more: by themselves they would look again after up to a minute.
    for name in ["Stream", "Consumer"].into_iter().zip(["s", "c"]) {
        let label = format!("{} {}/{}", name.0, world.namespace, name.1);
        while failures.backoff(&label) < Duration::from_secs(60) {}
    }
    let slow = passes();
    until("tries at their slowest", async || (passes() > slow).then_some(())).await;
    broker.run().await;
    let back = Instant::now();
    until_ready::<Stream>(&world, "s").await;
    until_ready::<Consumer>(&world, "c").await;
    // The connection is tried again every five seconds at the slowest, and tells those who wait for it.
    assert!(back.elapsed() < Duration::from_secs(20), "{:?}", back.elapsed());
    assert_eq!(broker.person("a").js().stream("s").await.unwrap().unwrap().config.max_msgs, 5);
}

#[tokio::test]
async fn an_object_that_is_deleted_while_its_broker_is_away_goes_with_what_it_managed() {
    let (world, mut broker) = world().await;
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    broker.kill().await;
    world.api::<Stream>().delete("s", &DeleteParams::default()).await.unwrap();
    until_says::<Stream>(&world, "s", ("Ready", "False", "Deleting")).await;
    broker.run().await;
    super::until_gone::<Stream>(&world, "s").await;
    assert!(broker.person("a").js().stream("s").await.unwrap().is_none());
}

#[tokio::test]
async fn a_server_that_never_comes_back_does_not_hold_up_the_end_for_ever() {
    let mut broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    let settings = operator::settings::Settings {
        finalizer_timeout: Duration::from_secs(2),
        ..settings(&world.namespace)
    };
    let client = apiserver::operator().await;
    world.run_operator(Arc::new(Context::new(client, settings, Metrics::new().unwrap(), None)));
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    broker.kill().await;
    super::delete::<Stream>(&world, "s").await;
}

#[tokio::test]
async fn an_operator_that_is_killed_between_any_two_writes_is_followed_by_one_that_finishes() {
    let broker = Broker::start().await;
    let person = broker.person("a");
    for stop_before in 1.. {
        let mut world = World::empty().await;
        account(&world, "main", &broker).await;
        let name = format!("s{stop_before}");
        let failpoint = Failpoint::new(stop_before);
        world.run_operator(context(&world.namespace, Some(Arc::clone(&failpoint))).await);
        apply::<Stream>(&world, "s", stream(&name, json!({}))).await.unwrap();
        apply::<Consumer>(&world, "c", consumer(&name, "c", json!({}))).await.unwrap();
        // The first operator comes to its end: all is done, or the next write is the one that it dies before.
        let done = until("the first operator", async || {
            let ready = async || {
                let object = world.api::<Consumer>().get("c").await.unwrap();
                let conditions = object.status?.report.conditions;
                ::crd::conditions::find(&conditions, "Ready")
                    .filter(|ready| ready.status == "True")
                    .map(|_| ())
            };
            match failpoint.writes() >= stop_before {
                true => Some(false),
                false => ready().await.map(|()| true),
            }
        })
        .await;
        world.kill_operator();
        world.start_operator().await;
        until_ready::<Stream>(&world, "s").await;
        until_ready::<Consumer>(&world, "c").await;
        assert!(person.js().consumer(&name, "c").await.unwrap().is_some());
        super::delete::<Stream>(&world, "s").await;
        super::delete::<Consumer>(&world, "c").await;
        assert!(person.js().stream(&name).await.unwrap().is_none());
        if done {
            assert!(stop_before > 5, "only {stop_before} writes were seen");
            return;
        }
    }
}

#[tokio::test]
async fn two_operators_at_once_make_one_stream() {
    let (world, broker) = world().await;
    let mut second = World::beside(&world).await;
    second.start_operator().await;
    for number in 0..5 {
        let name = format!("s{number}");
        apply::<Stream>(&world, &name, stream(&name, json!({}))).await.unwrap();
    }
    for number in 0..5 {
        until_ready::<Stream>(&world, &format!("s{number}")).await;
    }
    let person = broker.person("a");
    assert_eq!(person.js().account().await.unwrap().streams, 5);
    for number in 0..5 {
        super::delete::<Stream>(&world, &format!("s{number}")).await;
    }
    assert_eq!(person.js().account().await.unwrap().streams, 0);
}

#[tokio::test]
async fn an_api_server_that_was_away_finds_everything_as_it_should_be() {
    let broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    let (client, gate) = apiserver::operator_behind_a_gate().await;
    let context = Context::new(client, settings(&world.namespace), Metrics::new().unwrap(), None);
    world.run_operator(Arc::new(context));
    for name in ["edited", "deleted", "lost"] {
        apply::<Stream>(&world, name, stream(name, json!({}))).await.unwrap();
    }
    for name in ["edited", "deleted", "lost"] {
        until_ready::<Stream>(&world, name).await;
    }
    gate.shut();
    apply::<Stream>(&world, "edited", stream("edited", json!({ "maxMsgs": 5 }))).await.unwrap();
    apply::<Stream>(&world, "new", stream("new", json!({}))).await.unwrap();
    world.api::<Stream>().delete("deleted", &DeleteParams::default()).await.unwrap();
    let person = broker.person("a");
    person.js().delete_stream("lost").await.unwrap();
    gate.open();
    super::until_gone::<Stream>(&world, "deleted").await;
    until_ready::<Stream>(&world, "edited").await;
    until_ready::<Stream>(&world, "new").await;
    until("the stream to be back", async || person.js().stream("lost").await.unwrap()).await;
    assert_eq!(person.js().stream("edited").await.unwrap().unwrap().config.max_msgs, 5);
    assert_eq!(person.js().account().await.unwrap().streams, 3);
}

#[tokio::test]
async fn an_operator_that_loses_its_lease_while_it_writes_is_followed_by_one_that_finishes() {
    const STREAMS: usize = 24;
    let broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    let (client, gate) = apiserver::operator_behind_a_gate().await;
    let mut first = Elector::new(client.clone(), &world.namespace, "first", None);
    first.acquire().await;
    world.run_operator(Arc::new(Context::new(
        client,
        settings(&world.namespace),
        Metrics::new().unwrap(),
        None,
    )));
    let mut first_leads = tokio::spawn(async move { first.hold().await });
    let mut beside = World::beside(&world).await;
    let mut second = Elector::new(apiserver::operator().await, &world.namespace, "second", None);

    let person = broker.person("a");
    let made = async || usize::try_from(person.js().account().await.unwrap().streams).unwrap();
    for number in 0..STREAMS {
        let name = format!("s{number}");
        apply::<Stream>(&world, &name, stream(&name, json!({}))).await.unwrap();
        if number == STREAMS / 2 {
            until("the first to be at work", async || (made().await > 0).then_some(())).await;
            gate.shut();
        }
    }
    // The first still has its connection to the broker. It writes nothing there that it cannot look up before.
    let before = made().await;
    tokio::time::timeout(Duration::from_secs(60), second.acquire()).await.unwrap();
    assert!(first_leads.is_finished(), "two leaders");
    (&mut first_leads).await.unwrap();
    assert!(made().await <= before + 1, "{} streams, {before} before", made().await);
    // Who lost the lease ends; that it is slow to does no harm.
    beside.start_operator().await;
    gate.open();
    for number in 0..STREAMS {
        until_ready::<Stream>(&beside, &format!("s{number}")).await;
    }
    assert_eq!(made().await, STREAMS);
    world.kill_operator();
    for number in 0..STREAMS {
        super::delete::<Stream>(&beside, &format!("s{number}")).await;
    }
    assert_eq!(made().await, 0);
}

/// All orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else { return vec![Vec::new()] };
    let shorter = orders(last);
    let with_last =
        |order: Vec<usize>| (0..=last).map(move |at| [&order[..at], &[last], &order[at..]].concat());
    shorter.into_iter().flat_map(with_last).collect()
}

#[tokio::test]
async fn a_login_an_account_a_stream_and_a_consumer_go_in_every_order() {
    let broker = Broker::start().await;
    let orders = orders(4);
    assert_eq!(orders.len(), 24);
    // A namespace keeps sixteen connections, and each Account is one.
    for orders in orders.chunks(12) {
        let mut world = World::empty().await;
        for number in 0..orders.len() {
            let name = format!("x{number}");
            world.secret(&name, &[("user", "a"), ("password", "secret-a")]).await;
            let user = json!({ "secret": { "name": name }, "user": "user", "password": "password" });
            let spec = json!({ "name": name, "servers": [broker.url()], "user": user });
            apply::<Account>(&world, &name, spec).await.unwrap();
            let account = json!({ "account": name });
            apply::<Stream>(&world, &name, stream(&name, account.clone())).await.unwrap();
            apply::<Consumer>(&world, &name, consumer(&name, "c", account)).await.unwrap();
        }
        world.start_operator().await;
        for number in 0..orders.len() {
            until_ready::<Consumer>(&world, &format!("x{number}")).await;
        }
        for (number, order) in orders.iter().enumerate() {
            let (name, parameters) = (format!("x{number}"), DeleteParams::default());
            for part in order {
                match part {
                    0 => drop(world.api::<Secret>().delete(&name, &parameters).await.unwrap()),
                    1 => drop(world.api::<Account>().delete(&name, &parameters).await.unwrap()),
                    2 => drop(world.api::<Stream>().delete(&name, &parameters).await.unwrap()),
                    _ => drop(world.api::<Consumer>().delete(&name, &parameters).await.unwrap()),
                }
            }
        }
        for number in 0..orders.len() {
            let name = format!("x{number}");
            super::until_gone::<Consumer>(&world, &name).await;
            super::until_gone::<Stream>(&world, &name).await;
            super::until_gone::<Account>(&world, &name).await;
        }
        assert_eq!(broker.person("a").js().account().await.unwrap().streams, 0);
    }
}

#[tokio::test]
async fn a_namespace_that_is_deleted_goes_in_whatever_order() {
    let (world, broker) = world().await;
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    apply::<Consumer>(&world, "c", consumer("s", "c", json!({}))).await.unwrap();
    apply::<KeyValue>(&world, "kv", json!({ "bucket": "kv", "account": "main" })).await.unwrap();
    until_ready::<Consumer>(&world, "c").await;
    until_ready::<KeyValue>(&world, "kv").await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
    until("the namespace to be gone", async || {
        namespaces.get_opt(&world.namespace).await.unwrap().is_none().then_some(())
    })
    .await;
    // The connection that was left over served the end, though its Secret may have gone first.
    assert_eq!(broker.person("a").js().account().await.unwrap().streams, 0);
}

#[tokio::test]
async fn a_namespace_whose_operator_comes_late_goes_too() {
    let (mut world, broker) = world().await;
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    world.kill_operator();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
    until("the Secret to be gone", async || {
        world.api::<Secret>().get_opt("login").await.unwrap().is_none().then_some(())
    })
    .await;
    world.start_operator().await;
    until("the namespace to be gone", async || {
        namespaces.get_opt(&world.namespace).await.unwrap().is_none().then_some(())
    })
    .await;
    // Nobody can log in any more: what is on the server stays.
    assert!(broker.person("a").js().stream("s").await.unwrap().is_some());
}

#[tokio::test]
async fn a_wrong_spec_is_told_and_touches_nothing() {
    let (world, broker) = world().await;
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    for (changes, part) in [
        (json!({ "maxAge": "1ms" }), "max age needs to be >= 100ms"),
        (json!({ "subjects": ["a..b"] }), "invalid subject"),
        (json!({ "discardPerSubject": true }), "requires discard new"),
        (json!({ "metadata": { "myelin.dev/owner": "me" } }), "is reserved"),
        (json!({ "account": "none" }), "there is no Account `none`"),
        (json!({ "servers": ["http://x"] }), "is no address"),
    ] {
        apply::<Stream>(&world, "s", stream("s", changes.clone())).await.unwrap();
        let object: Stream = until_says(&world, "s", ("Stalled", "True", "")).await;
        assert!(message(&object, "Ready").contains(part), "{changes}: {}", message(&object, "Ready"));
        assert_eq!(object.status.as_ref().unwrap().report.last_error, message(&object, "Ready"));
    }
    assert_eq!(broker.person("a").js().stream("s").await.unwrap().unwrap().config.subjects, ["s.>"]);
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    let object: Stream = until_ready(&world, "s").await;
    assert_eq!(object.status.unwrap().report.last_error, "");
    // An object that never had anything goes at once, whatever is wrong with it.
    let broken = json!({ "name": "x", "account": "none" });
    apply::<Stream>(&world, "broken", broken).await.unwrap();
    until_says::<Stream>(&world, "broken", ("Stalled", "True", "AccountMissing")).await;
    super::delete::<Stream>(&world, "broken").await;
    super::delete::<Stream>(&world, "s").await;
    super::delete::<Account>(&world, "main").await;
}
