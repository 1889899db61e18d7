//! Specs that must not do any harm: refused by the API server, or held up by the operator.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{READY_LIMIT, World, example};
use crate::cluster::condition;

pub(super) fn by_the_api_server(world: &World) -> Result<()> {
    let namespace = "e2e-refused";
    world.kubernetes.create_namespace(namespace)?;
    for (spec, sentence) in wrong_specs() {
        let object = object("wrong", &spec);
        let answer = world.kubernetes.try_apply(namespace, &object)?.failure()?;
        ensure!(answer.contains(sentence), "{spec} was refused with {answer:?} instead of {sentence:?}");
    }
    let open = json!({"auth": {"mode": "None", "allowAnonymous": true}});
    let answer = world.kubernetes.try_apply(namespace, &object(&"long".repeat(11), &open))?.failure()?;
    ensure!(answer.contains("choose a metadata.name of at most 40"), "{answer}");
    let created = ["get", "natsclusters", "--namespace", namespace, "--output=name"];
    let created = world.kubernetes.kubectl(&created)?;
    ensure!(created.is_empty(), "a wrong spec was accepted: {created}");

    let cluster = example(world)?;
    let patch = json!({"spec": {"clusterName": "other"}}).to_string();
    let rename = ["patch", "natscluster", "demo", "--type=merge", "--patch", &patch];
    let answer = cluster.try_kubectl(&rename)?.failure()?;
    ensure!(answer.contains("restore the old value, or create a new NatsCluster"), "{answer}");
    Ok(())
}

fn object(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "myelin.dev/v1alpha1", "kind": "NatsCluster", "metadata": {"name": name}, "spec": spec,
    })
}

/// Wrong specs, and what the answer has to say.
fn wrong_specs() -> Vec<(Value, &'static str)> {
    let open = json!({"mode": "None", "allowAnonymous": true});
    vec![
        (json!({}), "nobody could connect: add an account with a user to auth.accounts"),
        (json!({"auth": {"mode": "None"}}), "set auth.allowAnonymous to true if that is meant"),
        (
            json!({"auth": open, "jetstream": {"enabled": true}}),
            "JetStream does not replicate streams in this version: set replicas to 1, or remove jetstream",
        ),
        (json!({"auth": open, "replica": 3}), r#"unknown field "spec.replica""#),
        (json!({"auth": open, "replicas": 0}), "should be greater than or equal to 1"),
        (json!({"auth": open, "replicas": 36}), "should be less than or equal to 35"),
        (json!({"auth": open, "replicas": "three"}), "must be of type integer"),
        (
            json!({"auth": open, "routes": {"port": 4222}}),
            "give clients.port, routes.port and monitoring.port three different numbers",
        ),
        (
            json!({"auth": open, "lameDuck": {"gracePeriod": "40s"}}),
            "lameDuck.gracePeriod must be shorter than lameDuck.duration",
        ),
        (
            json!({"auth": open, "image": {"repository": "myelin/broker"}}),
            "name a tag or a digest next to image.repository",
        ),
        (
            json!({"auth": open, "clients": {"tls": {"verify": true}}}),
            "name exactly one source of the certificate in clients.tls",
        ),
    ]
}

/// What only the operator can see: the cluster reports it, goes on as it was, and recovers when it is corrected.
pub(super) fn by_the_operator(world: &World) -> Result<()> {
    let cluster = example(world)?;
    let before = cluster.pods()?;
    let sound = cluster.object()?["spec"].clone();
    for (change, back, reason, text) in bad_values() {
        cluster.patch(&change)?;
        cluster.kubectl(&["wait", "natscluster/demo", "--for=condition=Stalled", "--timeout=60s"])?;
        let object = cluster.object()?;
        let (_, found, message) = condition(&object, "Stalled")?;
        ensure!(found == reason, "{change} gave the reason {found}: {message}");
        ensure!(message.contains(text), "{change} gave the message {message:?} instead of {text:?}");
        let (ready, _, _) = condition(&object, "Ready")?;
        ensure!(ready == "False", "a stalled cluster is not ready");
        ensure!(cluster.pods()? == before, "{change} touched pods: {:?}", cluster.pods()?);
        cluster.patch(&back)?;
        cluster.await_ready(3, READY_LIMIT)?;
    }
    ensure!(cluster.object()?["spec"] == sound, "the operator changed the spec");
    ensure!(cluster.pods()? == before, "pods were touched: {:?}", cluster.pods()?);
    cluster.send_across(1, 2).context("the cluster serves on")
}

/// Change, its reversal, the reason and a part of the message.
fn bad_values() -> Vec<(Value, Value, &'static str, &'static str)> {
    let user = |key: &str| json!({"name": "app", "passwordSecretRef": {"name": "demo-users", "key": key}});
    let accounts = |user: Value| json!({"auth": {"accounts": [{"name": "APP", "users": [user]}]}});
    vec![
        (
            json!({"clients": {"maxPayload": "1.5Mi"}}),
            json!({"clients": {"maxPayload": null}}),
            "InvalidSpec",
            "clients.maxPayload: `1.5Mi` is not an amount of bytes: write a whole number or a quantity such as 8Mi",
        ),
        (
            accounts(user("nobody")),
            accounts(user("app")),
            "SecretMissing",
            "secret `demo-users`: has no key `nobody`: add it or correct the name",
        ),
        (
            json!({"additionalConfig": {"leafnodes": {"port": 7422}}}),
            json!({"additionalConfig": null}),
            "InvalidSpec",
            "the servers would refuse this configuration",
        ),
    ]
}
