//! The life of a cluster with real servers: create, reload, roll, scale, refuse, delete.

use std::collections::BTreeMap;

use ::crd::{CLUSTER_FINALIZER, NatsCluster, annotation};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use operator::nats::client::{Connection, Error, Target};
use operator::nats::login::Login;
use serde_json::json;

use crate::support::kubelet::BROKEN;
use crate::support::objects::{spec, user, with};
use crate::support::until;
use crate::support::world::{World, message};

/// Server ids by pod: a new id is a new process.
fn processes(cluster: &NatsCluster) -> BTreeMap<String, String> {
    let servers = &cluster.status.as_ref().unwrap().servers;
    servers.iter().map(|server| (server.pod.clone(), server.server_id.clone().unwrap_or_default())).collect()
}

async fn log_in(world: &World, pod: &str, user: &str, password: &str) -> Result<(), Error> {
    let pod = world.pods().await.into_iter().find(|p| p.name_any() == pod).unwrap();
    let ip = pod.status.unwrap().pod_ip.unwrap();
    let target = Target {
        address: format!("{ip}:4222").parse().unwrap(),
        tls: None,
        login: Login::Password { user: user.to_owned(), password: password.to_owned() },
        timeout: std::time::Duration::from_secs(5),
    };
    Connection::open(&target, "_INBOX").await.map(|_| ())
}

async fn event_reasons(world: &World, cluster: &str) -> Vec<String> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let about = |event: &Event| event.regarding.as_ref().is_some_and(|r| r.name.as_deref() == Some(cluster));
    events.iter().filter(|event| about(event)).filter_map(|event| event.reason.clone()).collect()
}

#[tokio::test]
async fn a_cluster_becomes_ready_reloads_a_user_rolls_and_goes() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "first")]).await;
    world.apply("demo", spec(3)).await.unwrap();
    let cluster = world.until_ready("demo").await;

    let status = cluster.status.clone().unwrap();
    assert_eq!((status.replicas, status.ready_replicas), (3, 3));
    assert_eq!(status.servers.len(), 3);
    assert_eq!(
        status.config.as_ref().unwrap().applied_hash.as_ref(),
        Some(&status.config.as_ref().unwrap().hash)
    );
    assert!(!status.version.current.is_empty());
    assert_eq!(cluster.finalizers(), [CLUSTER_FINALIZER]);
    log_in(&world, "demo-1", "app", "first").await.unwrap();
    assert!(matches!(log_in(&world, "demo-1", "app", "wrong").await, Err(Error::Refused(_))));

    reload_of_a_password(&world, processes(&cluster)).await;
    roll_of_a_restart_option(&world).await;

    world.api::<NatsCluster>().delete("demo", &DeleteParams::default()).await.unwrap();
    world.until_gone("demo").await;
    nothing_is_left(&world).await;
    let reasons = event_reasons(&world, "demo").await;
    for reason in [
        "Created",
        "Ready",
        "ConfigReloaded",
        "RolloutStarted",
        "PodRestarting",
        "RolloutFinished",
        "Deleted",
    ] {
        assert!(reasons.iter().any(|r| r == reason), "{reason} among {reasons:?}");
    }
}

/// A password changes in its Secret: every server takes it, and none is a new process.
async fn reload_of_a_password(world: &World, before: BTreeMap<String, String>) {
    let old = world.cluster("demo").await.status.unwrap().config.unwrap().hash;
    world.secret("users", &[("app", "second")]).await;
    until("the new configuration to be applied", async || {
        let config = world.cluster("demo").await.status.unwrap().config.unwrap();
        (config.hash != old && config.applied_hash.as_ref() == Some(&config.hash)).then_some(())
    })
    .await;
    for pod in before.keys() {
        log_in(world, pod, "app", "second").await.unwrap();
        assert!(log_in(world, pod, "app", "first").await.is_err());
    }
    assert_eq!(processes(&world.until_ready("demo").await), before);
}

/// An option that only a new process takes: pods are replaced one at a time, from the highest number down.
async fn roll_of_a_restart_option(world: &World) {
    let before = processes(&world.cluster("demo").await);
    let changed = with(spec(3), json!({ "clients": { "maxPending": "128Mi" } }));
    world.apply("demo", changed).await.unwrap();
    let mut order: Vec<String> = Vec::new();
    until("all pods to be replaced", async || {
        let pods = world.pods().await;
        let away = 3 - pods.iter().filter(|pod| is_ready(pod)).count();
        assert!(away <= 1, "{away} servers away at a time");
        let cluster = world.cluster("demo").await;
        for (pod, process) in processes(&cluster) {
            if !process.is_empty() && before.get(&pod) != Some(&process) && !order.contains(&pod) {
                order.push(pod);
            }
        }
        (order.len() == 3).then_some(())
    })
    .await;
    assert_eq!(order, ["demo-2", "demo-1", "demo-0"]);
    world.until_ready("demo").await;
}

fn is_ready(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

async fn nothing_is_left(world: &World) {
    let of_cluster = ListParams::default().labels("myelin.dev/cluster=demo");
    until("all children to be gone", async || {
        let left = world.api::<StatefulSet>().list(&of_cluster).await.unwrap().items.len()
            + world.api::<Service>().list(&of_cluster).await.unwrap().items.len()
            + world.api::<Secret>().list(&of_cluster).await.unwrap().items.len()
            + world.api::<ConfigMap>().list(&of_cluster).await.unwrap().items.len()
            + world.api::<ServiceAccount>().list(&of_cluster).await.unwrap().items.len()
            + world.api::<PodDisruptionBudget>().list(&of_cluster).await.unwrap().items.len()
            + world.pods().await.len();
        (left == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_broken_image_stops_the_rollout_and_a_corrected_one_resumes_it() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(3)).await.unwrap();
    let before = processes(&world.until_ready("demo").await);

    let image = |name: &str| with(spec(3), json!({ "image": { "repository": name, "tag": "2" } }));
    world.apply("demo", image(BROKEN)).await.unwrap();
    let cluster = world.until_condition("demo", "Stalled", "True", "RolloutStalled").await;
    assert!(message(&cluster, "Stalled").contains("demo-2"), "{}", message(&cluster, "Stalled"));
    assert!(message(&cluster, "Stalled").contains("there is no such image"));
    let now = processes(&cluster);
    assert_eq!((now.get("demo-0"), now.get("demo-1")), (before.get("demo-0"), before.get("demo-1")));

    world.apply("demo", image("good")).await.unwrap();
    let cluster = world.until_ready("demo").await;
    assert_eq!(cluster.status.unwrap().image.running, ["good:2"]);
}

#[tokio::test]
async fn a_cluster_grows_and_shrinks_one_server_at_a_time() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(2)).await.unwrap();
    let before = processes(&world.until_ready("demo").await);

    world.apply("demo", spec(4)).await.unwrap();
    let grown = processes(&world.until_ready("demo").await);
    assert_eq!(grown.len(), 4);
    assert!(
        before.iter().all(|(pod, process)| grown.get(pod) == Some(process)),
        "growing restarted a server"
    );

    world.apply("demo", spec(2)).await.unwrap();
    let mut fewest_asked_for = 4;
    until("two servers to be left", async || {
        let set = world.api::<StatefulSet>().get("demo").await.unwrap();
        let asked = set.spec.unwrap().replicas.unwrap();
        assert!(asked >= fewest_asked_for - 1, "from {fewest_asked_for} to {asked} in one step");
        fewest_asked_for = asked;
        (asked == 2 && world.pods().await.len() == 2).then_some(())
    })
    .await;
    let cluster = world.until_ready("demo").await;
    assert_eq!(processes(&cluster), before);
    assert_eq!(cluster.status.unwrap().scaling, None);
    until("both events", async || {
        let reasons = event_reasons(&world, "demo").await;
        ["ScaledUp", "ScaledDown"].iter().all(|reason| reasons.iter().any(|r| r == reason)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_scale_subresource_changes_the_size() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(1)).await.unwrap();
    world.until_ready("demo").await;
    let patch = json!({ "spec": { "replicas": 2 } });
    let api = world.api::<NatsCluster>();
    api.patch_scale("demo", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until("two servers", async || {
        (world.until_ready("demo").await.status?.ready_replicas == 2).then_some(())
    })
    .await;
    let scale = api.get_scale("demo").await.unwrap();
    assert_eq!(scale.status.unwrap().replicas, 2);
}

#[tokio::test]
async fn a_refused_spec_leaves_the_running_cluster_alone() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(2)).await.unwrap();
    let before = processes(&world.until_ready("demo").await);
    let config = world.api::<Secret>().get("demo-config").await.unwrap();

    for (changes, reason, part) in [
        (json!({ "additionalConfig": { "colour": "red" } }), "InvalidSpec", "colour"),
        (json!({ "additionalConfig": { "port": 1 } }), "InvalidSpec", "set by the operator"),
        (json!({ "clients": { "maxPayload": "65Mi", "maxPending": "1Mi" } }), "InvalidSpec", "max_payload"),
        (
            json!({ "auth": { "accounts": [{ "name": "APP", "users": [user("nobody")] }] } }),
            "SecretMissing",
            "has no key `nobody`",
        ),
    ] {
        world.apply("demo", with(spec(2), changes.clone())).await.unwrap();
        let cluster = world.until_condition("demo", "Stalled", "True", reason).await;
        let text = message(&cluster, "Stalled");
        assert!(text.contains(part), "{changes} -> {text}");
    }
    assert_eq!(processes(&world.cluster("demo").await), before);
    assert_eq!(
        world.api::<Secret>().get("demo-config").await.unwrap().metadata.resource_version,
        config.metadata.resource_version
    );

    // What was missing appears: nobody has to touch the cluster.
    world.secret("users", &[("app", "x"), ("nobody", "y")]).await;
    world.until_ready("demo").await;
    log_in(&world, "demo-0", "nobody", "y").await.unwrap();
}

#[tokio::test]
async fn objects_of_others_are_left_alone_even_when_the_cluster_goes() {
    let world = World::empty().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "demo" },
        "spec": { "ports": [{ "port": 80 }], "selector": { "app": "other" } },
    });
    let services: Api<Service> = world.api();
    services.patch("demo", &PatchParams::apply("somebody"), &Patch::Apply(&service)).await.unwrap();
    let mut world = world;
    world.start_operator().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(1)).await.unwrap();
    let cluster = world.until_condition("demo", "Stalled", "True", "OwnedByOther").await;
    assert!(message(&cluster, "Stalled").contains("Service `demo`"));
    world.api::<NatsCluster>().delete("demo", &DeleteParams::default()).await.unwrap();
    world.until_gone("demo").await;
    assert_eq!(services.get("demo").await.unwrap().spec.unwrap().ports.unwrap()[0].port, 80);
}

#[tokio::test]
async fn manual_replacement_waits_for_a_name() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    let manual = with(spec(2), json!({ "update": { "strategy": "Manual", "settle": "0s" } }));
    world.apply("demo", manual.clone()).await.unwrap();
    let before = processes(&world.until_ready("demo").await);

    world.apply_with("demo", manual.clone(), json!({ (annotation::RESTART_AT): "now" })).await.unwrap();
    let cluster = world.until_condition("demo", "Progressing", "False", "AwaitingApproval").await;
    assert_eq!(processes(&cluster), before);

    let both = json!({ (annotation::RESTART_AT): "now", (annotation::FORCE_ROLLOUT): "demo-0" });
    world.apply_with("demo", manual, both).await.unwrap();
    until("the named pod to be replaced", async || {
        let now = processes(&world.cluster("demo").await);
        let fresh = now.get("demo-0").is_some_and(|id| !id.is_empty() && Some(id) != before.get("demo-0"));
        fresh.then_some(())
    })
    .await;
    assert_eq!(processes(&world.cluster("demo").await).get("demo-1"), before.get("demo-1"));
}

#[tokio::test]
async fn a_paused_cluster_is_reported_and_not_written() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(1)).await.unwrap();
    world.until_ready("demo").await;
    let paused = json!({ (annotation::PAUSED): "true" });
    world.apply_with("demo", spec(2), paused).await.unwrap();
    world.until_condition("demo", "Paused", "True", "Paused").await;
    assert_eq!(world.api::<StatefulSet>().get("demo").await.unwrap().spec.unwrap().replicas, Some(1));
    world.apply("demo", spec(2)).await.unwrap();
    until("two servers", async || {
        (world.until_ready("demo").await.status?.ready_replicas == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_sleeping_cluster_keeps_its_objects_and_wakes() {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(2)).await.unwrap();
    world.until_ready("demo").await;
    let password = world.api::<Secret>().get("demo-operator").await.unwrap().data;

    world.apply("demo", with(spec(2), json!({ "hibernate": true }))).await.unwrap();
    world.until_condition("demo", "Ready", "True", "Hibernating").await;
    assert!(world.pods().await.is_empty());

    world.apply("demo", spec(2)).await.unwrap();
    world.until_ready("demo").await;
    assert_eq!(world.api::<Secret>().get("demo-operator").await.unwrap().data, password);
}
