//! Manifests of the shapes that NACK's repository has as examples, applied as they are, and what they make on the reference server.
//!
//! What is expected was recorded from NACK 0.24, which made the same objects on the same server (except `rides`, and `foo` without
//! `--control-loop`, which follow from the others); where ours differs on purpose, both values stand here. The table of these differences is in `docs/reference/streams.md`.

use ::crd::jetstream::{Account, Consumer, Stream};
use operator::context::Context;
use operator::metrics::Metrics;
use operator::settings::Settings;
use serde_json::{Map, Value, json};
use std::sync::Arc;

use super::{account, apply, merged, message, until_ready, until_says};
use crate::support::apiserver;
use crate::support::broker::{Broker, Person};
use crate::support::world::{World, settings};

/// What its consumers wait for an acknowledgement: the default of its schema, nanoseconds.
const NACK_ACK_WAIT: u64 = 1;

/// A stream as the server shows it, with differences from one that asks for nothing.
fn shown_stream(changes: Value) -> Value {
    let base = json!({
        "allow_direct": false, "allow_rollup_hdrs": false, "consumer_limits": {}, "deny_delete": false, "deny_purge": false,
        "discard": "old", "max_age": 0, "max_bytes": -1, "max_consumers": -1, "max_msg_size": -1, "max_msgs": -1,
        "max_msgs_per_subject": -1, "mirror_direct": false, "num_replicas": 1, "retention": "limits", "sealed": false,
        "storage": "file",
    });
    merged(base, changes)
}

/// What a configuration asks for: without what each controller and server writes for itself, and without members that say of a feature
/// that it is not used, which servers write or leave out.
fn bare(mut config: Map<String, Value>) -> Value {
    config.remove("metadata");
    let unused = [json!(false), json!({}), json!("0001-01-01T00:00:00Z")];
    config.retain(|key, value| !unused.contains(value) && (key != "compression" || value != "none"));
    Value::Object(config)
}

fn bare_value(config: Value) -> Value {
    let Value::Object(config) = config else { panic!("an object") };
    bare(config)
}

/// An operator with an Account for objects that name none, as NACK is started with a server for them.
async fn world_with_a_default(broker: &Broker) -> World {
    let mut world = World::empty().await;
    account(&world, "main", broker).await;
    let default_account = Some((world.namespace.clone(), "main".to_owned()));
    let settings = Settings { default_account, ..settings(&world.namespace) };
    let client = apiserver::operator().await;
    world.run_operator(Arc::new(Context::new(client, settings, Metrics::new().unwrap(), None)));
    world
}

async fn streams(world: &World, person: &Person) {
    let window = 120_000_000_000_u64;
    let external =
        json!({ "externalApiPrefix": "FOO.JS.API", "externalDeliverPrefix": "FOO.DELIVER.SYNC.MIRRORS" });
    let cases = [
        (
            json!({ "name": "mystream", "subjects": ["orders.*"], "storage": "file", "maxAge": "1h", "replicas": 1 }),
            json!({ "subjects": ["orders.*"], "max_age": 3_600_000_000_000_u64, "duplicate_window": window }),
        ),
        (
            json!({ "name": "mystream-mirror", "storage": "file", "mirror": merged(json!({ "name": "my-publish-subj" }), external) }),
            json!({ "mirror": {
                "name": "my-publish-subj", "external": { "api": "FOO.JS.API", "deliver": "FOO.DELIVER.SYNC.MIRRORS" },
            } }),
        ),
        (
            json!({ "name": "mystream-placement", "storage": "file", "placement": { "tags": ["NODE_0"] } }),
            json!({ "subjects": ["mystream-placement"], "placement": { "tags": ["NODE_0"] }, "duplicate_window": window }),
        ),
        (
            json!({ "name": "mystream-sources", "storage": "file", "sources": [{ "name": "m1" }, { "name": "m2" }] }),
            json!({ "sources": [{ "name": "m1" }, { "name": "m2" }] }),
        ),
        (
            json!({ "name": "foo", "subjects": ["foo", "foo.>"], "storage": "file", "replicas": 1 }),
            json!({ "subjects": ["foo", "foo.>"], "duplicate_window": window }),
        ),
        (
            json!({ "name": "rides", "subjects": ["rides.>"], "storage": "memory", "replicas": 1 }),
            json!({ "subjects": ["rides.>"], "storage": "memory", "duplicate_window": window }),
        ),
    ];
    for (spec, changes) in cases {
        let name = spec["name"].as_str().unwrap().to_owned();
        apply::<Stream>(world, &name, spec).await.unwrap();
        until_ready::<Stream>(world, &name).await;
        let made = bare(person.js().stream_fields(&name).await.unwrap());
        assert_eq!(made, bare_value(merged(shown_stream(changes), json!({ "name": name }))), "{name}");
    }
}

async fn consumers(world: &World, person: &Person) {
    let never = "0001-01-01T00:00:00Z";
    let cases = [
        (
            json!({
                "streamName": "mystream", "durableName": "my-pull-consumer", "deliverPolicy": "all",
                "filterSubject": "orders.received", "maxDeliver": 20, "ackPolicy": "explicit",
            }),
            json!({
                "ack_policy": "explicit", "ack_wait": NACK_ACK_WAIT, "deliver_policy": "all", "filter_subject": "orders.received",
                "max_ack_pending": 1000, "max_deliver": 20, "max_waiting": 512,
            }),
            json!(30_000_000_000_u64),
        ),
        (
            json!({
                "streamName": "mystream", "durableName": "my-push-consumer", "deliverSubject": "my-push-consumer.orders",
                "deliverPolicy": "last", "ackPolicy": "none", "replayPolicy": "instant", "description": "my consumer description",
                "flowControl": true, "heartbeatInterval": "1s",
            }),
            json!({
                "ack_policy": "none", "ack_wait": NACK_ACK_WAIT, "deliver_policy": "last",
                "deliver_subject": "my-push-consumer.orders", "description": "my consumer description", "flow_control": true,
                "idle_heartbeat": 1_000_000_000, "max_deliver": -1,
            }),
            Value::Null,
        ),
        (
            json!({ "streamName": "foo", "durableName": "bar", "ackPolicy": "explicit" }),
            json!({
                "ack_policy": "explicit", "ack_wait": NACK_ACK_WAIT, "deliver_policy": "all", "max_ack_pending": 1000,
                "max_deliver": -1, "max_waiting": 512,
            }),
            json!(30_000_000_000_u64),
        ),
    ];
    for (spec, nacks, ack_wait) in cases {
        let name = spec["durableName"].as_str().unwrap().to_owned();
        let of = spec["streamName"].as_str().unwrap().to_owned();
        apply::<Consumer>(world, &name, spec).await.unwrap();
        until_ready::<Consumer>(world, &name).await;
        let common = json!({
            "name": name, "durable_name": name, "num_replicas": 0, "pause_until": never, "replay_policy": "instant",
        });
        let mut expected = merged(nacks, common);
        match ack_wait {
            Value::Null => drop(expected.as_object_mut().unwrap().remove("ack_wait")),
            wait => expected["ack_wait"] = wait,
        }
        assert_eq!(
            bare(person.js().consumer_fields(&of, &name).await.unwrap()),
            bare_value(expected),
            "{name}"
        );
    }
}

#[tokio::test]
async fn manifests_that_nack_ships_make_what_nack_makes() {
    let broker = Broker::reference().await;
    let world = world_with_a_default(&broker).await;
    let person = broker.person("a");
    streams(&world, &person).await;
    consumers(&world, &person).await;
}

/// The stream and consumer of its example with mutual TLS, and what it makes of them.
async fn foo_and_bar(world: &World) {
    let stream = json!({ "name": "foo", "subjects": ["foo", "foo.>"], "storage": "file", "replicas": 1, "account": "a" });
    apply::<Stream>(world, "foo", stream).await.unwrap();
    let consumer =
        json!({ "streamName": "foo", "durableName": "bar", "ackPolicy": "explicit", "account": "a" });
    apply::<Consumer>(world, "bar", consumer).await.unwrap();
}

/// The Account of that example.
async fn account_with_certificate(world: &World, url: &str) {
    let tls =
        json!({ "secret": { "name": "nack-a-tls" }, "ca": "ca.crt", "cert": "tls.crt", "key": "tls.key" });
    apply::<Account>(world, "a", json!({ "name": "a", "servers": [url], "tls": tls })).await.unwrap();
}

#[tokio::test]
async fn manifests_that_nack_ships_with_mutual_tls_make_what_nack_makes() {
    let broker = Broker::with_certificates().await;
    let mut world = World::empty().await;
    let shown = broker.identity.as_ref().unwrap();
    let entries = [("ca.crt", &shown.authority), ("tls.crt", &shown.certificate), ("tls.key", &shown.key)];
    world.secret("nack-a-tls", &entries.map(|(name, text)| (name, text.as_str()))).await;
    account_with_certificate(&world, &broker.url()).await;
    world.start_operator().await;
    foo_and_bar(&world).await;
    until_ready::<Stream>(&world, "foo").await;
    until_ready::<Consumer>(&world, "bar").await;
    let person = broker.person("a");
    let made = bare(person.js().stream_fields("foo").await.unwrap());
    let window = 120_000_000_000_u64;
    let stream = json!({ "name": "foo", "subjects": ["foo", "foo.>"], "duplicate_window": window });
    assert_eq!(made, bare_value(shown_stream(stream)));
    let made = bare(person.js().consumer_fields("foo", "bar").await.unwrap());
    let consumer = json!({
        "name": "bar", "durable_name": "bar", "ack_policy": "explicit", "ack_wait": 30_000_000_000_u64,
        "deliver_policy": "all", "max_ack_pending": 1000, "max_deliver": -1, "max_waiting": 512, "num_replicas": 0,
        "replay_policy": "instant",
    });
    assert_eq!(made, bare_value(consumer));
}

#[tokio::test]
async fn manifests_that_nack_ships_with_secrets_and_paths_are_accepted_and_say_what_is_missing() {
    let broker = Broker::reference().await;
    let world = world_with_a_default(&broker).await;
    account_with_certificate(&world, "nats://nats:4222").await;
    foo_and_bar(&world).await;
    let object: Stream = until_says(&world, "foo", ("Stalled", "True", "SecretMissing")).await;
    assert!(message(&object, "Ready").contains("nack-a-tls"), "{}", message(&object, "Ready"));
    until_says::<Consumer>(&world, "bar", ("Stalled", "True", "SecretMissing")).await;
    let paths = json!({
        "name": "mystream", "servers": ["nats://acme.org:4222"], "creds": "/etc/jsc-creds/my.creds",
        "tls": {
            "clientCert": "/etc/certs/client/foo/client-cert.pem", "clientKey": "/etc/certs/client/foo/client-key.pem",
            "rootCas": ["/etc/certs/ca/foo/ca-cert.pem"],
        },
    });
    apply::<Stream>(&world, "mystream", paths).await.unwrap();
    until_says::<Stream>(&world, "mystream", ("Stalled", "True", "FilePathNotAllowed")).await;
}
