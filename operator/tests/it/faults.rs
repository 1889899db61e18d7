//! The operator is killed between any two of its writes, meets conflicts, and is started again: the end is the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::crd::NatsCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use operator::apply::Failpoint;
use operator::cluster::reconcile::reconcile;
use operator::error::Error;
use serde_json::{Value, json};

use crate::support::objects::{spec, with};
use crate::support::until;
use crate::support::world::{World, context};

/// Writes of the longest pass; a bound for the loop, checked at its end.
const WRITES_MAX: u64 = 40;

/// One pass by an operator that has just started. True when it was stopped by its failpoint.
async fn pass(world: &World, name: &str, failpoint: Option<Arc<Failpoint>>) -> bool {
    let context = context(&world.namespace, failpoint).await;
    let Some(cluster) = world.api::<NatsCluster>().get_opt(name).await.unwrap() else {
        return false;
    };
    match reconcile(Arc::new(cluster), context).await {
        Ok(_) => false,
        Err(Error::Stopped(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// The cluster's objects without what differs between any two clusters: random material, times, versions.
async fn shape(world: &World) -> BTreeMap<String, Value> {
    let list = ListParams::default().labels("myelin.dev/cluster");
    let mut shapes = BTreeMap::new();
    for secret in world.api::<Secret>().list(&list).await.unwrap() {
        let keys: Vec<String> = secret.data.iter().flatten().map(|(key, _)| key.clone()).collect();
        shapes.insert(format!("Secret {}", secret.name_any()), json!([keys, owners(&secret)]));
    }
    for map in world.api::<ConfigMap>().list(&list).await.unwrap() {
        shapes.insert(format!("ConfigMap {}", map.name_any()), json!(owners(&map)));
    }
    for service in world.api::<Service>().list(&list).await.unwrap() {
        let ports = service.spec.as_ref().map(|spec| spec.ports.clone());
        shapes.insert(format!("Service {}", service.name_any()), json!([ports, owners(&service)]));
    }
    for account in world.api::<ServiceAccount>().list(&list).await.unwrap() {
        shapes.insert(format!("ServiceAccount {}", account.name_any()), json!(owners(&account)));
    }
    for budget in world.api::<PodDisruptionBudget>().list(&list).await.unwrap() {
        shapes.insert(
            format!("PodDisruptionBudget {}", budget.name_any()),
            json!([budget.spec, owners(&budget)]),
        );
    }
    for set in world.api::<StatefulSet>().list(&list).await.unwrap() {
        let mut spec = serde_json::to_value(&set.spec).unwrap();
        // Follows from the configuration, and with it from generated passwords.
        spec["template"]["metadata"]["annotations"].take();
        shapes.insert(format!("StatefulSet {}", set.name_any()), json!([spec, owners(&set)]));
    }
    shapes
}

fn owners<K: ResourceExt>(object: &K) -> Vec<String> {
    object.owner_references().iter().map(|owner| format!("{} {}", owner.kind, owner.name)).collect()
}

/// What must hold between the written parts, whatever was generated.
async fn is_consistent(world: &World) {
    let config = world.api::<Secret>().get("demo-config").await.unwrap();
    let set = world.api::<StatefulSet>().get("demo").await.unwrap();
    let template = set.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
    assert_eq!(config.annotations()["myelin.dev/restart-hash"], template["myelin.dev/restart-hash"]);
    let text = operator::objects::secrets::text(&config, "nats.conf").unwrap();
    assert!(text.contains(&config.annotations()["myelin.dev/config-hash"]), "{text}");
    let status = world.cluster("demo").await.status.unwrap();
    assert_eq!(status.config.unwrap().hash, config.annotations()["myelin.dev/config-hash"]);
}

async fn prepared() -> World {
    let world = World::empty().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(2)).await.unwrap();
    world
}

/// Passes without a fault, until two in a row find the same objects.
async fn converge(world: &World) -> BTreeMap<String, Value> {
    let mut before = BTreeMap::new();
    for _ in 0..5 {
        pass(world, "demo", None).await;
        let now = shape(world).await;
        if now == before {
            return now;
        }
        before = now;
    }
    panic!("no convergence: {before:#?}");
}

#[tokio::test]
async fn killed_between_any_two_writes_of_creation_the_end_is_the_same() {
    let reference = prepared().await;
    let expected = converge(&reference).await;
    is_consistent(&reference).await;
    assert_eq!(expected.len(), 10, "{expected:#?}");

    for number in 1..WRITES_MAX {
        let world = prepared().await;
        if !pass(&world, "demo", Some(Failpoint::new(number))).await {
            assert!(number > 10, "a creation of only {number} writes");
            return;
        }
        assert_eq!(converge(&world).await, expected, "killed before write {number}");
        is_consistent(&world).await;
    }
    panic!("a creation of more than {WRITES_MAX} writes");
}

#[tokio::test]
async fn killed_between_any_two_writes_of_a_change_that_needs_a_restart_the_restart_is_not_lost() {
    for number in 1..WRITES_MAX {
        let world = prepared().await;
        converge(&world).await;
        let before = world.api::<Secret>().get("demo-config").await.unwrap();
        world.apply("demo", with(spec(2), json!({ "clients": { "maxPending": "128Mi" } }))).await.unwrap();
        let stopped = pass(&world, "demo", Some(Failpoint::new(number))).await;
        converge(&world).await;
        is_consistent(&world).await;
        let after = world.api::<Secret>().get("demo-config").await.unwrap();
        let key = "myelin.dev/restart-hash";
        assert_ne!(after.annotations()[key], before.annotations()[key], "killed before write {number}");
        if !stopped {
            return;
        }
    }
    panic!("a change of more than {WRITES_MAX} writes");
}

#[tokio::test]
async fn killed_between_any_two_writes_of_deletion_everything_goes() {
    for number in 1..WRITES_MAX {
        let world = prepared().await;
        converge(&world).await;
        world.api::<NatsCluster>().delete("demo", &DeleteParams::default()).await.unwrap();
        let stopped = pass(&world, "demo", Some(Failpoint::new(number))).await;
        until("the cluster and its objects to be gone", async || {
            pass(&world, "demo", None).await;
            let gone = world.api::<NatsCluster>().get_opt("demo").await.unwrap().is_none();
            (gone && shape(&world).await.is_empty()).then_some(())
        })
        .await;
        if !stopped {
            return;
        }
    }
    panic!("a deletion of more than {WRITES_MAX} writes");
}

#[tokio::test]
async fn a_write_on_an_outdated_object_is_refused_and_a_pass_looks_again() {
    let world = prepared().await;
    let outdated = world.cluster("demo").await;
    world.apply("demo", spec(3)).await.unwrap();
    let context = context(&world.namespace, None).await;
    match context.writer.set_finalizer(&outdated, true).await {
        Err(error @ Error::Kube(_)) => assert_eq!(error.reconciled_reason(), "Conflict"),
        other => panic!("{other:?}"),
    }
    reconcile(Arc::new(outdated), context).await.unwrap();
    assert_eq!(world.api::<StatefulSet>().get("demo").await.unwrap().spec.unwrap().replicas, Some(3));
}

#[tokio::test]
async fn a_pass_without_a_change_writes_nothing_new() {
    let world = prepared().await;
    converge(&world).await;
    let versions = async || {
        let list = ListParams::default().labels("myelin.dev/cluster");
        let secrets = world.api::<Secret>().list(&list).await.unwrap().items;
        let services = world.api::<Service>().list(&list).await.unwrap().items;
        let sets = world.api::<StatefulSet>().list(&list).await.unwrap().items;
        let mut versions: Vec<(String, Option<String>)> = Vec::new();
        versions.extend(secrets.iter().map(|o| (format!("Secret {}", o.name_any()), o.resource_version())));
        versions.extend(services.iter().map(|o| (format!("Service {}", o.name_any()), o.resource_version())));
        // The StatefulSet's own controller writes its status, so only the generation tells.
        versions.extend(sets.iter().map(|o| (o.name_any(), o.metadata.generation.map(|g| g.to_string()))));
        versions
    };
    let before = versions().await;
    pass(&world, "demo", None).await;
    assert_eq!(versions().await, before);
}

#[tokio::test]
async fn an_operator_that_is_killed_in_the_middle_of_a_rollout_is_followed_by_one_that_finishes_it() {
    let mut world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(3)).await.unwrap();
    world.until_ready("demo").await;
    let before: Vec<Option<String>> = world.pods().await.iter().map(ResourceExt::uid).collect();

    world.apply("demo", with(spec(3), json!({ "clients": { "maxPending": "128Mi" } }))).await.unwrap();
    until("the first pod to be replaced", async || {
        let replaced = world.pods().await.iter().any(|pod| !before.contains(&pod.uid()));
        replaced.then_some(())
    })
    .await;
    world.kill_operator();
    world.start_operator().await;
    let cluster = world.until_ready("demo").await;
    assert!(world.pods().await.iter().all(|pod| !before.contains(&pod.uid())));
    assert_eq!(cluster.status.unwrap().rollout, None);
}
