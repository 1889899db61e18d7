//! From apply to delete, and everything that happens to a stream in between.

use ::crd::NatsCluster;
use ::crd::jetstream::{Account, Consumer, KeyValue, ObjectStore, Stream};
use api::jetstream::consumer::ConsumerAction;
use kube::ResourceExt;
use serde_json::json;

use super::{account, apply, consumer, delete, message, stream, until_ready, until_says, world};
use crate::support::broker::Broker;
use crate::support::objects::{spec, with};
use crate::support::until;
use crate::support::world::World;

/// The whole life of a stream with a consumer against one server.
async fn life(broker: &Broker) {
    let mut world = World::empty().await;
    account(&world, "main", broker).await;
    world.start_operator().await;
    let person = broker.person("a");
    let js = person.js();

    apply::<Stream>(&world, "orders", stream("orders", json!({ "metadata": { "team": "blue" } })))
        .await
        .unwrap();
    apply::<Consumer>(&world, "worker", consumer("orders", "worker", json!({}))).await.unwrap();
    let object: Stream = until_ready(&world, "orders").await;
    assert_eq!(object.finalizers(), ["stream.nats.io/finalizer"]);
    let object: Consumer = until_ready(&world, "worker").await;
    assert_eq!(object.finalizers(), ["consumer.nats.io/finalizer"]);
    let info = js.stream("orders").await.unwrap().unwrap();
    assert_eq!(info.config.subjects, ["orders.>"]);
    assert_eq!(info.config.metadata["team"], "blue");
    let owner = &info.config.metadata["myelin.dev/owner"];
    assert!(owner.contains(&format!("/{}/Stream/orders/", world.namespace)), "{owner}");
    assert!(js.consumer("orders", "worker").await.unwrap().is_some());

    // An edit of the spec.
    apply::<Stream>(&world, "orders", stream("orders", json!({ "maxAge": "1h" }))).await.unwrap();
    let object: Stream = until_ready(&world, "orders").await;
    let info = js.stream("orders").await.unwrap().unwrap();
    assert_eq!(info.config.max_age, api::duration::Nanos::from_secs(3600));
    assert!(!info.config.metadata.contains_key("team"), "{:?}", info.config.metadata);
    assert!(object.status.unwrap().report.observed_generation >= Some(2));

    // Somebody else's edit. Nobody looks by the clock here: the server tells of it.
    let mut config = js.stream_fields("orders").await.unwrap();
    config.insert("max_msgs".to_owned(), json!(7));
    js.put_stream("UPDATE", "orders", &config).await.unwrap();
    until("the edit to be undone", async || {
        (js.stream("orders").await.unwrap().unwrap().config.max_msgs == -1).then_some(())
    })
    .await;

    // Deleted by hand: both are back, the consumer after its stream.
    js.delete_stream("orders").await.unwrap();
    until("both to be back", async || js.consumer("orders", "worker").await.ok()?.map(|_| ())).await;
    js.delete_consumer("orders", "worker").await.unwrap();
    until("the consumer to be back", async || js.consumer("orders", "worker").await.unwrap()).await;

    delete::<Consumer>(&world, "worker").await;
    assert!(js.consumer("orders", "worker").await.unwrap().is_none());
    delete::<Stream>(&world, "orders").await;
    assert!(js.stream("orders").await.unwrap().is_none());
    delete::<Account>(&world, "main").await;
}

#[tokio::test]
async fn a_stream_is_kept_as_its_manifest_says_from_apply_to_delete() {
    life(&Broker::start().await).await;
}

#[tokio::test]
async fn the_same_holds_for_the_reference_server() {
    life(&Broker::reference().await).await;
}

#[tokio::test]
async fn buckets_are_the_streams_that_clients_expect() {
    let (world, broker) = world().await;
    let person = broker.person("a");
    apply::<KeyValue>(
        &world,
        "settings",
        json!({ "bucket": "settings", "history": 5, "ttl": "1h", "account": "main" }),
    )
    .await
    .unwrap();
    apply::<ObjectStore>(
        &world,
        "pictures",
        json!({ "bucket": "pictures", "maxBytes": "1Gi", "account": "main" }),
    )
    .await
    .unwrap();
    until_ready::<ObjectStore>(&world, "pictures").await;
    let object: KeyValue = until_ready(&world, "settings").await;
    let bucket = object.status.unwrap().bucket.unwrap();
    assert_eq!((bucket.history, bucket.ttl.as_str()), (5, "1h0m0s"));
    let info = person.js().stream("KV_settings").await.unwrap().unwrap();
    assert_eq!(info.config.subjects, ["$KV.settings.>"]);
    assert_eq!(info.config.max_msgs_per_subject, 5);
    let info = person.js().stream("OBJ_pictures").await.unwrap().unwrap();
    assert_eq!(info.config.max_bytes, 1 << 30);
    person.publish("$KV.settings.colour").await;
    delete::<KeyValue>(&world, "settings").await;
    delete::<ObjectStore>(&world, "pictures").await;
    assert!(person.js().stream("KV_settings").await.unwrap().is_none());
    assert!(person.js().stream("OBJ_pictures").await.unwrap().is_none());
}

#[tokio::test]
async fn a_consumer_waits_for_its_stream_and_says_so() {
    let (world, _broker) = world().await;
    apply::<Consumer>(&world, "early", consumer("late", "early", json!({}))).await.unwrap();
    let object: Consumer = until_says(&world, "early", ("Reconciled", "False", "StreamNotFound")).await;
    assert!(message(&object, "Ready").contains("there is no stream `late`"));
    apply::<Stream>(&world, "late", stream("late", json!({}))).await.unwrap();
    until_ready::<Consumer>(&world, "early").await;
    // Deleted together, the stream first: nobody waits for anybody.
    delete::<Stream>(&world, "late").await;
    delete::<Consumer>(&world, "early").await;
}

#[tokio::test]
async fn an_account_tells_whether_it_can_log_in_and_stays_while_it_is_used() {
    let (world, _broker) = world().await;
    apply::<Stream>(&world, "s", stream("s", json!({}))).await.unwrap();
    until_ready::<Stream>(&world, "s").await;
    let is = async |type_: &str, status: &str| {
        let object = world.api::<Account>().get("main").await.unwrap();
        let conditions = object.status?.report.conditions;
        ::crd::conditions::find(&conditions, type_).filter(|found| found.status == status).cloned()
    };
    let connected = until("the login", async || is("Connected", "True").await).await;
    assert_eq!(connected.reason, "LoginOk");
    let status = world.api::<Account>().get("main").await.unwrap().status.unwrap();
    assert!(status.report.server.unwrap().name.starts_with("broker-"));

    // A new password that is wrong.
    world.secret("login", &[("user", "a"), ("password", "other")]).await;
    let refused = until("the refusal", async || is("Connected", "False").await).await;
    assert!(refused.message.contains("Authorization Violation"), "{}", refused.message);
    assert!(!refused.message.contains("other"), "{}", refused.message);
    world.secret("login", &[("user", "a"), ("password", "secret-a")]).await;
    until("the login", async || is("Connected", "True").await).await;

    world.api::<Account>().delete("main", &kube::api::DeleteParams::default()).await.unwrap();
    let deleting =
        until("the wait", async || is("Ready", "False").await.filter(|ready| ready.reason == "Deleting"))
            .await;
    assert!(deleting.message.contains("1 objects"), "{}", deleting.message);
    delete::<Stream>(&world, "s").await;
    super::until_gone::<Account>(&world, "main").await;
}

#[tokio::test]
async fn a_cluster_of_ours_is_managed_by_its_name() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    let cluster = with(spec(1), json!({ "jetstream": {} }));
    world.apply("demo", cluster).await.unwrap();
    apply::<Stream>(
        &world,
        "orders",
        json!({ "name": "orders", "storage": "file", "clusterRef": { "name": "demo" } }),
    )
    .await
    .unwrap();
    let object: Stream = until_ready(&world, "orders").await;
    let server = object.status.unwrap().report.server.unwrap();
    assert_eq!(server.name, "demo-0");
    // A cluster that is gone takes its streams with it; nothing waits for it.
    world.api::<NatsCluster>().delete("demo", &kube::api::DeleteParams::default()).await.unwrap();
    world.until_gone("demo").await;
    delete::<Stream>(&world, "orders").await;
}

#[tokio::test]
async fn the_example_manifests_make_what_they_name() {
    let world = World::with_servers().await;
    let manifest = include_str!("../../../../docs/examples/manifests/streams.yaml");
    for document in serde_yaml::Deserializer::from_str(manifest) {
        let object: serde_json::Value = serde::Deserialize::deserialize(document).unwrap();
        let name = object.pointer("/metadata/name").and_then(serde_json::Value::as_str).unwrap().to_owned();
        match object["kind"].as_str().unwrap() {
            "Secret" => world.secret(&name, &[("app", "x")]).await,
            "NatsCluster" => {
                world.apply(&name, object["spec"].clone()).await.unwrap();
            }
            "Stream" => {
                apply::<Stream>(&world, &name, object["spec"].clone()).await.unwrap();
            }
            "Consumer" => {
                apply::<Consumer>(&world, &name, object["spec"].clone()).await.unwrap();
            }
            "KeyValue" => {
                apply::<KeyValue>(&world, &name, object["spec"].clone()).await.unwrap();
            }
            "ObjectStore" => {
                apply::<ObjectStore>(&world, &name, object["spec"].clone()).await.unwrap();
            }
            other => panic!("an example of kind {other}"),
        }
    }
    until_ready::<Stream>(&world, "orders").await;
    until_ready::<Consumer>(&world, "orders-worker").await;
    until_ready::<KeyValue>(&world, "settings").await;
    until_ready::<ObjectStore>(&world, "reports").await;
}

#[tokio::test]
async fn every_login_of_an_account_works_and_what_is_missing_is_waited_for() {
    let broker = Broker::reference().await;
    let mut world = World::empty().await;
    world.start_operator().await;
    let seed = broker.seed();
    let missing = json!({ "secret": { "name": "later" }, "seed": "seed" });
    apply::<Account>(&world, "key", json!({ "name": "key", "servers": [broker.url()], "nkey": missing }))
        .await
        .unwrap();
    let spec = json!({ "name": "byKey", "account": "key", "storage": "file" });
    apply::<Stream>(&world, "by-key", spec).await.unwrap();
    let object: Stream = until_says(&world, "by-key", ("Stalled", "True", "SecretMissing")).await;
    assert!(message(&object, "Stalled").contains("Secret `later`"));
    world.secret("later", &[("seed", seed.as_str())]).await;
    until_ready::<Stream>(&world, "by-key").await;
    // The nkey belongs to account B.
    assert!(broker.person("b").js().stream("byKey").await.unwrap().is_some());
    assert!(broker.person("a").js().stream("byKey").await.unwrap().is_none());
}

#[tokio::test]
async fn a_stream_counts_its_consumers_and_names_its_server_within_seconds() {
    // Nobody looks by the clock here. With so many objects they are listed, and a list is believed for a while.
    const STREAMS: usize = 9;
    let (world, broker) = world().await;
    for number in 0..STREAMS {
        let name = format!("s{number}");
        apply::<Stream>(&world, &name, stream(&name, json!({}))).await.unwrap();
    }
    let server = format!("broker-{}", broker.port);
    for number in 0..STREAMS {
        let object: Stream = until_ready(&world, &format!("s{number}")).await;
        assert_eq!(object.status.unwrap().cluster.unwrap().leader, server);
    }
    let counted = async |name: &str, count: i64| {
        let what = format!("{count} consumers of {name}");
        until(&what, async || {
            let status = world.api::<Stream>().get(name).await.unwrap().status?;
            (status.state?.consumers == count).then_some(())
        })
        .await;
    };
    apply::<Consumer>(&world, "c", consumer("s0", "c", json!({}))).await.unwrap();
    counted("s0", 1).await;
    let object: Consumer = until_ready(&world, "c").await;
    assert_eq!(object.status.unwrap().cluster.unwrap().leader, server);

    // By hand, on a stream of which no object manages a consumer.
    let person = broker.person("a");
    let config = json!({ "durable_name": "by-hand", "ack_policy": "explicit" }).as_object().unwrap().clone();
    let action = ConsumerAction::Create;
    person.js().put_consumer("s1", "by-hand", config, action).await.unwrap();
    counted("s1", 1).await;
    person.js().delete_consumer("s1", "by-hand").await.unwrap();
    counted("s1", 0).await;
}
