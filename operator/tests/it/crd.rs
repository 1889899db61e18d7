//! The definition at a real API server: what is refused, and in which words.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::objects::{spec, user, with};
use crate::support::world::World;

async fn refusal(world: &World, name: &str, spec: Value) -> String {
    match world.apply(name, spec).await {
        Err(kube::Error::Api(status)) => status.message.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_wrong_spec_is_refused_with_a_sentence_that_says_what_to_do() {
    let world = World::empty().await;
    let good = spec(3);
    for (changes, part) in [
        (json!({ "replicas": 36 }), "should be less than or equal to 35"),
        (json!({ "auth": { "mode": "None" } }), "set auth.allowAnonymous to true"),
        (json!({ "auth": {} }), "add an account with a user to auth.accounts"),
        (
            json!({ "auth": { "accounts": [{ "name": "SYS", "users": [user("a")] }] } }),
            "give the account in auth.accounts another name",
        ),
        (
            json!({ "auth": { "mode": "None", "allowAnonymous": true, "accounts": [{ "name": "A", "users": [user("a")] }] } }),
            "remove accounts, or use mode Config",
        ),
        (json!({ "clients": { "port": 6222 } }), "three different numbers"),
        (json!({ "clients": { "noAuthUser": "app" } }), "set auth.allowAnonymous to true as well"),
        (json!({ "clients": { "tls": {} } }), "name exactly one source"),
        (
            json!({ "clients": { "tls": { "builtin": {}, "secret": { "name": "x" } } } }),
            "name exactly one source",
        ),
        (json!({ "routes": { "tls": { "disabled": true, "builtin": {} } } }), "choose exactly one"),
        (json!({ "routes": { "poolSize": 0 } }), "or to -1 for one without pooling"),
        (json!({ "lameDuck": { "duration": "20s" } }), "at least 30s"),
        (
            json!({ "lameDuck": { "duration": "30s", "gracePeriod": "30s" } }),
            "shorter than lameDuck.duration",
        ),
        (json!({ "lameDuck": { "duration": "soon" } }), "should match"),
        (json!({ "image": { "tag": "1" } }), "name image.repository"),
        (json!({ "image": { "repository": "x" } }), "name a tag or a digest"),
        (json!({ "serviceAccount": { "create": false } }), "name an existing account"),
        (json!({ "service": { "loadBalancerClass": "x" } }), "needs service.type LoadBalancer"),
        (
            json!({ "service": { "externalTrafficPolicy": "Local" } }),
            "needs service.type NodePort or LoadBalancer",
        ),
        (json!({ "jetstreem": { "enabled": true } }), "field not declared in schema"),
        (json!({ "affinity": { "nodeAffinitty": {} } }), "field not declared in schema"),
    ] {
        let text = refusal(&world, "demo", with(good.clone(), changes.clone())).await;
        assert!(text.contains(part), "{changes} -> {text}");
    }
    let text = refusal(&world, "has.dots", good.clone()).await;
    assert!(text.contains("lower-case letters, digits and dashes"), "{text}");
    world.apply("demo", good).await.unwrap();
}

#[tokio::test]
async fn the_cluster_name_never_changes() {
    let world = World::empty().await;
    world.apply("demo", with(spec(1), json!({ "clusterName": "one" }))).await.unwrap();
    let text = refusal(&world, "demo", with(spec(1), json!({ "clusterName": "two" }))).await;
    assert!(text.contains("clusterName cannot change"), "{text}");
    assert!(refusal(&world, "demo", spec(1)).await.contains("clusterName cannot change"));
    world.apply("demo", with(spec(2), json!({ "clusterName": "one" }))).await.unwrap();
}

#[tokio::test]
async fn the_example_manifest_is_accepted() {
    let world = World::empty().await;
    let manifest = include_str!("../../../docs/examples/manifests/nats-cluster.yaml");
    let mut kinds = Vec::new();
    for document in serde_yaml::Deserializer::from_str(manifest) {
        let object: Value = serde::Deserialize::deserialize(document).unwrap();
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap().to_owned();
        let kind = object["kind"].as_str().unwrap().to_owned();
        let parameters = PatchParams {
            field_validation: Some(kube::api::ValidationDirective::Strict),
            ..PatchParams::apply("person")
        };
        match kind.as_str() {
            "NatsCluster" => {
                world
                    .api::<::crd::NatsCluster>()
                    .patch(&name, &parameters, &Patch::Apply(&object))
                    .await
                    .unwrap();
            }
            "Secret" => {
                let api = world.api::<k8s_openapi::api::core::v1::Secret>();
                api.patch(&name, &parameters, &Patch::Apply(&object)).await.unwrap();
            }
            other => panic!("an example of kind {other}"),
        }
        kinds.push(kind);
    }
    assert_eq!(kinds, ["Secret", "NatsCluster"]);
}

#[tokio::test]
async fn amounts_may_be_numbers_and_are_read_back() {
    let world = World::empty().await;
    let resources = json!({ "requests": { "cpu": 1, "memory": "64Mi" } });
    let cluster = world.apply("demo", with(spec(1), json!({ "resources": resources }))).await.unwrap();
    let requests = ::crd::common::quantities(&cluster.spec.resources.unwrap().requests);
    assert_eq!(requests["cpu"].0, "1");
}
