//! What the policies of an object allow and forbid.

use std::sync::Arc;

use ::crd::jetstream::{Consumer, KeyValue, Stream};
use api::jetstream::consumer::AckPolicy;
use api::jetstream::stream::Storage;
use kube::api::DeleteParams;
use operator::context::Context;
use operator::metrics::Metrics;
use operator::settings::Settings;
use serde_json::{Value, json};

use super::{
    account, apply, apply_with, consumer, delete, message, stream, until_gone, until_ready, until_says, world,
};
use crate::support::broker::Broker;
use crate::support::world::{World, settings};
use crate::support::{apiserver, until};

async fn refusal<K: operator::apply::Object>(world: &World, name: &str, spec: Value) -> String {
    match apply::<K>(world, name, spec).await {
        Err(kube::Error::Api(status)) => status.message.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_exists_is_adopted_as_the_policy_says() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    let js = person.js();
    for name in ["one", "two", "three"] {
        let config =
            json!({ "name": name, "subjects": [format!("{name}.>")], "max_msgs": 7, "num_replicas": 1 });
        js.put_stream("CREATE", name, &config).await.unwrap();
    }
    person.publish("one.a").await;
    apply::<Stream>(&world, "one", stream("one", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "one").await;
    let info = js.stream("one").await.unwrap().unwrap();
    assert_eq!((info.config.max_msgs, info.state.messages), (-1, 1));
    assert!(info.config.metadata.contains_key("myelin.dev/owner"));

    for (name, policy) in [("two", "Never"), ("three", "IfMatching")] {
        apply::<Stream>(&world, name, stream(name, json!({ "adoptionPolicy": policy }))).await.unwrap();
        let object: Stream = until_says(&world, name, ("Stalled", "True", "OwnedByOther")).await;
        assert!(message(&object, "Ready").contains("adoptionPolicy"), "{}", message(&object, "Ready"));
        assert_eq!(js.stream(name).await.unwrap().unwrap().config.max_msgs, 7);
        // It was never ours, so it stays.
        delete::<Stream>(&world, name).await;
        assert!(js.stream(name).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn two_objects_do_not_fight_over_one_stream() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    apply::<Stream>(&world, "first", stream("shared", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "first").await;
    apply::<Stream>(&world, "second", stream("shared", json!({ "maxMsgs": 5 }))).await.unwrap();
    let object: Stream = until_says(&world, "second", ("Stalled", "True", "OwnedByOther")).await;
    assert!(message(&object, "Stalled").contains("Stream `first`"), "{}", message(&object, "Stalled"));
    assert_eq!(person.js().stream("shared").await.unwrap().unwrap().config.max_msgs, -1);
    delete::<Stream>(&world, "second").await;
    assert!(person.js().stream("shared").await.unwrap().is_some());
    delete::<Stream>(&world, "first").await;
    assert!(person.js().stream("shared").await.unwrap().is_none());
}

#[tokio::test]
async fn objects_of_another_kind_or_cluster_are_owners_as_well() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    apply::<KeyValue>(&world, "bucket", json!({ "bucket": "b", "account": "main" })).await.unwrap();
    until_ready::<KeyValue>(&world, "bucket").await;
    apply::<Stream>(&world, "bucket", stream("KV_b", json!({}))).await.unwrap();
    let object: Stream = until_says(&world, "bucket", ("Stalled", "True", "OwnedByOther")).await;
    assert!(message(&object, "Stalled").contains("KeyValue `bucket`"), "{}", message(&object, "Stalled"));

    // An operator of another Kubernetes cluster that uses the same account, with objects of the same names.
    let mut other = World::empty().await;
    account(&other, "main", &broker).await;
    let settings = Settings { cluster_id: Some("elsewhere".to_owned()), ..settings(&other.namespace) };
    let client = apiserver::operator().await;
    other.run_operator(Arc::new(Context::new(client, settings, Metrics::new().unwrap(), None)));
    apply::<KeyValue>(&other, "bucket", json!({ "bucket": "b", "history": 5, "account": "main" }))
        .await
        .unwrap();
    until_says::<KeyValue>(&other, "bucket", ("Stalled", "True", "OwnedByOther")).await;
    delete::<KeyValue>(&other, "bucket").await;
    delete::<Stream>(&world, "bucket").await;
    let config = person.js().stream("KV_b").await.unwrap().unwrap().config;
    assert_eq!((config.max_msgs_per_subject, config.subjects), (1, vec!["$KV.b.>".to_owned()]));
}

/// What tells who owns a stream, and when an object was last told that it does not.
async fn stalled_since(world: &World) -> Value {
    let object: Stream = until_says(world, "s", ("Stalled", "True", "OwnedByOther")).await;
    let conditions = object.status.unwrap().report.conditions;
    let stalled = ::crd::conditions::find(&conditions, "Stalled").unwrap();
    serde_json::to_value(&stalled.last_transition_time).unwrap()
}

#[tokio::test]
async fn of_two_operators_that_make_one_stream_at_once_one_has_it_and_the_other_says_so() {
    let (one, broker) = world().await;
    let mut two = World::empty().await;
    account(&two, "main", &broker).await;
    two.start_operator().await;
    let person = broker.person("a");
    let spec = |limit: i64| stream("both", json!({ "maxMsgs": limit }));
    let (first, second) =
        tokio::join!(apply::<Stream>(&one, "s", spec(1)), apply::<Stream>(&two, "s", spec(2)));
    first.and(second).unwrap();
    let first_has_it = until("one to have it", async || {
        for (world, is_first) in [(&one, true), (&two, false)] {
            let object = world.api::<Stream>().get("s").await.unwrap();
            if super::says(&object, "Ready", "True", "Ready") {
                return Some(is_first);
            }
        }
        None
    })
    .await;
    let (winner, loser, limit) = if first_has_it { (&one, &two, 1) } else { (&two, &one, 2) };
    let since = stalled_since(loser).await;
    let made = person.js().stream("both").await.unwrap().unwrap();
    assert_eq!(made.config.max_msgs, limit);

    // Every change by hand wakes both, and only its owner corrects it.
    for number in 0..5 {
        let mut config = person.js().stream_fields("both").await.unwrap();
        config.insert("description".to_owned(), format!("by hand {number}").into());
        person.js().put_stream("UPDATE", "both", &config).await.unwrap();
        until("the owner to correct it", async || {
            let info = person.js().stream("both").await.unwrap().unwrap();
            assert_eq!((info.created, info.config.max_msgs), (made.created, limit));
            assert_eq!(info.config.metadata["myelin.dev/owner"], made.config.metadata["myelin.dev/owner"]);
            info.config.description.is_empty().then_some(())
        })
        .await;
    }
    assert_eq!(stalled_since(loser).await, since);

    // When the owner goes, the other is told by the server and makes its own.
    delete::<Stream>(winner, "s").await;
    until_ready::<Stream>(loser, "s").await;
    let info = person.js().stream("both").await.unwrap().unwrap();
    assert_eq!(info.config.max_msgs, 3 - limit);
}

#[tokio::test]
async fn nothing_is_written_while_an_object_only_looks_pauses_or_asks_for_a_plan() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    let js = person.js();
    let observe = stream("seen", json!({ "mode": "Observe" }));
    apply::<Stream>(&world, "seen", observe).await.unwrap();
    let object: Stream = until_says(&world, "seen", ("Synced", "False", "WouldChange")).await;
    assert!(object.metadata.finalizers.is_none());
    let plan = object.status.unwrap().report.plan.unwrap();
    assert_eq!(plan.action, "Create");
    let config = json!({ "name": "seen", "subjects": ["seen.>"], "max_msgs": 7, "num_replicas": 1 });
    js.put_stream("CREATE", "seen", &config).await.unwrap();
    let object: Stream = until_ready(&world, "seen").await;
    let status = object.status.unwrap();
    assert_eq!(status.report.plan.unwrap().changes, ["max_msgs: 7 -> -1"]);
    assert_eq!(status.state.unwrap().messages, 0);
    delete::<Stream>(&world, "seen").await;
    assert!(js.stream("seen").await.unwrap().is_some());

    for key in ["myelin.dev/paused", "myelin.dev/dry-run"] {
        let held = json!({ key: "true" });
        apply_with::<Stream>(&world, "held", stream("held", json!({})), held.clone()).await.unwrap();
        until_says::<Stream>(&world, "held", ("Synced", "False", "WouldChange")).await;
        assert!(js.stream("held").await.unwrap().is_none());
        apply::<Stream>(&world, "held", stream("held", json!({}))).await.unwrap();
        until_ready::<Stream>(&world, "held").await;
        // What is held back on the way out waits, too.
        apply_with::<Stream>(&world, "held", stream("held", json!({ "maxMsgs": 5 })), held.clone())
            .await
            .unwrap();
        let object: Stream = until_says(&world, "held", ("Synced", "False", "WouldChange")).await;
        assert_eq!(object.status.unwrap().report.plan.unwrap().changes, ["max_msgs: -1 -> 5"]);
        world.api::<Stream>().delete("held", &DeleteParams::default()).await.unwrap();
        until("the end to wait", async || {
            let object = world.api::<Stream>().get("held").await.unwrap();
            object.status?.report.last_error.contains("nothing is written").then_some(())
        })
        .await;
        assert!(js.stream("held").await.unwrap().is_some());
        let patch = json!({ "metadata": { "annotations": { key: null } } });
        let parameters = kube::api::PatchParams::default();
        world.api::<Stream>().patch("held", &parameters, &kube::api::Patch::Merge(&patch)).await.unwrap();
        until_gone::<Stream>(&world, "held").await;
        assert!(js.stream("held").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn what_must_not_be_changed_or_deleted_is_not() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    let js = person.js();
    apply::<Stream>(&world, "kept", stream("kept", json!({ "preventDelete": true, "preventUpdate": true })))
        .await
        .unwrap();
    until_ready::<Stream>(&world, "kept").await;
    let changed = stream("kept", json!({ "preventDelete": true, "preventUpdate": true, "maxMsgs": 5 }));
    apply::<Stream>(&world, "kept", changed).await.unwrap();
    let object: Stream = until_says(&world, "kept", ("Synced", "False", "DriftIgnored")).await;
    assert!(message(&object, "Synced").contains("preventUpdate"), "{}", message(&object, "Synced"));
    assert_eq!(js.stream("kept").await.unwrap().unwrap().config.max_msgs, -1);
    delete::<Stream>(&world, "kept").await;
    let info = js.stream("kept").await.unwrap().unwrap();
    assert!(!info.config.metadata.contains_key("myelin.dev/owner"), "{:?}", info.config.metadata);

    let protected = || stream("full", json!({ "deletionProtection": "NonEmpty" }));
    apply::<Stream>(&world, "full", protected()).await.unwrap();
    until_ready::<Stream>(&world, "full").await;
    person.publish("full.a").await;
    world.api::<Stream>().delete("full", &DeleteParams::default()).await.unwrap();
    let object: Stream = until_says(&world, "full", ("Stalled", "True", "Protected")).await;
    assert!(message(&object, "Stalled").contains("myelin.dev/deletion-override: full"));
    assert!(js.stream("full").await.unwrap().is_some());
    let patch = json!({ "metadata": { "annotations": { "myelin.dev/deletion-override": "full" } } });
    let parameters = kube::api::PatchParams::default();
    world.api::<Stream>().patch("full", &parameters, &kube::api::Patch::Merge(&patch)).await.unwrap();
    until_gone::<Stream>(&world, "full").await;
    assert!(js.stream("full").await.unwrap().is_none());
}

#[tokio::test]
async fn changes_that_servers_do_not_make_are_refused_or_made_anew() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    let js = person.js();
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    assert!(
        refusal::<Stream>(&world, "s", stream("s", json!({ "storage": "memory" })))
            .await
            .contains("updateStrategy")
    );
    assert!(
        refusal::<Stream>(&world, "s", stream("renamed", json!({}))).await.contains("name cannot change")
    );

    apply::<Stream>(&world, "s", stream("s", json!({ "retention": "workqueue" }))).await.unwrap();
    let object: Stream = until_says(&world, "s", ("Stalled", "True", "ImmutableChange")).await;
    assert!(message(&object, "Stalled").contains("retention policy"), "{}", message(&object, "Stalled"));
    person.publish("s.a").await;
    let anew = |strategy: &str| stream("s", json!({ "storage": "memory", "updateStrategy": strategy }));
    apply::<Stream>(&world, "s", anew("RecreateIfEmpty")).await.unwrap();
    until_says::<Stream>(&world, "s", ("Stalled", "True", "ImmutableChange")).await;
    assert_eq!(js.stream("s").await.unwrap().unwrap().state.messages, 1);
    apply::<Stream>(&world, "s", anew("Recreate")).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    let info = js.stream("s").await.unwrap().unwrap();
    assert_eq!((info.config.storage, info.state.messages), (Storage::Memory, 0));
}

#[tokio::test]
async fn a_consumer_that_is_made_anew_goes_on_where_it_was() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    let js = person.js();
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    apply::<Consumer>(&world, "c", consumer("s", "c", json!({}))).await.unwrap();
    until_ready::<Consumer>(&world, "c").await;
    for _ in 0..5 {
        person.publish("s.a").await;
    }
    // Three messages are taken and acknowledged.
    for sequence in 1..=3 {
        person.take("s", "c").await;
        let info = js.consumer("s", "c").await.unwrap().unwrap();
        assert_eq!(info.delivered.stream_seq, sequence);
    }
    let acknowledged = js.consumer("s", "c").await.unwrap().unwrap();
    assert_eq!(acknowledged.ack_floor.stream_seq, 0);
    assert!(
        refusal::<Consumer>(&world, "c", consumer("s", "c", json!({ "ackPolicy": "all" })))
            .await
            .contains("updateStrategy")
    );
    let anew = consumer("s", "c", json!({ "ackPolicy": "none", "updateStrategy": "Recreate" }));
    apply::<Consumer>(&world, "c", anew).await.unwrap();
    until_ready::<Consumer>(&world, "c").await;
    let info = js.consumer("s", "c").await.unwrap().unwrap();
    // Nothing was acknowledged, so it begins again.
    assert_eq!((info.config.as_ref().unwrap().ack_policy, info.num_pending), (AckPolicy::None, 5));
    // Without acknowledgements what was delivered counts as acknowledged.
    for _ in 0..3 {
        person.take("s", "c").await;
    }
    let back = consumer("s", "c", json!({ "updateStrategy": "Recreate" }));
    apply::<Consumer>(&world, "c", back.clone()).await.unwrap();
    until_ready::<Consumer>(&world, "c").await;
    let info = js.consumer("s", "c").await.unwrap().unwrap();
    let config = info.config.unwrap();
    assert_eq!((config.ack_policy, config.opt_start_seq, info.num_pending), (AckPolicy::Explicit, 4, 2));
    // And it stays like this.
    let edited = consumer("s", "c", json!({ "updateStrategy": "Recreate", "description": "x" }));
    apply::<Consumer>(&world, "c", edited).await.unwrap();
    until_ready::<Consumer>(&world, "c").await;
    assert_eq!(js.consumer("s", "c").await.unwrap().unwrap().created, info.created);
}

#[tokio::test]
async fn deliveries_are_paused_and_go_on() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    let js = person.js();
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    apply::<Consumer>(&world, "c", consumer("s", "c", json!({}))).await.unwrap();
    until_ready::<Consumer>(&world, "c").await;
    let paused = consumer("s", "c", json!({ "pauseUntil": "2099-01-01T00:00:00Z" }));
    apply::<Consumer>(&world, "c", paused).await.unwrap();
    until("the pause", async || js.consumer("s", "c").await.unwrap()?.paused.then_some(())).await;
    until_ready::<Consumer>(&world, "c").await;
    apply::<Consumer>(&world, "c", consumer("s", "c", json!({}))).await.unwrap();
    until("the end of the pause", async || (!js.consumer("s", "c").await.unwrap()?.paused).then_some(()))
        .await;
    until_ready::<Consumer>(&world, "c").await;
}

#[tokio::test]
async fn an_option_that_a_server_drops_is_told() {
    let own = json!({ "deadLetterSubject": "dead.letters", "maxAckPendingPerSubject": 1 });
    let (world, broker) = world().await;
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    apply::<Consumer>(&world, "c", consumer("s", "c", own.clone())).await.unwrap();
    until_ready::<Consumer>(&world, "c").await;
    let config = broker.person("a").js().consumer("s", "c").await.unwrap().unwrap().config.unwrap();
    assert_eq!(
        (config.dead_letter_subject.as_str(), config.max_ack_pending_per_subject),
        ("dead.letters", 1)
    );

    let broker = Broker::reference().await;
    account(&world, "main", &broker).await;
    apply::<Stream>(&world, "t", stream("t", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "t").await;
    apply::<Consumer>(&world, "d", consumer("t", "d", own)).await.unwrap();
    let object: Consumer = until_says(&world, "d", ("Stalled", "True", "")).await;
    assert!(
        message(&object, "Ready").contains("deadLetterSubject")
            || message(&object, "Ready").contains("dead_letter_subject"),
        "{}",
        message(&object, "Ready")
    );
}
