//! Pods that go first when there are to be fewer.

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use operator::autoscaler::idle::COST;
use serde_json::json;

use crate::autoscaler::{
    Plain, address, apply, consumer, deploy, make_stream_and_consumer, quick, until_replicas, world,
};
use crate::support::kubelet::BROKEN;
use crate::support::until;
use crate::support::world::World;

/// Messages of a flood and their length: more than all that a kernel keeps, and less than servers keep for a connection.
const FLOOD: (usize, usize) = (40, 1_000_000);

/// A pod of the target at an address, with a cost that somebody wrote once.
async fn make_a_pod(world: &World, name: &str, ip: &str, cost: &str) {
    let pods = world.api::<Pod>();
    let pod = json!({
        "metadata": { "name": name, "labels": { "app": "workers" }, "annotations": { COST: cost } },
        "spec": {
            "serviceAccountName": "workers", "automountServiceAccountToken": false,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{ "name": "w", "image": BROKEN, "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
            } }],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    until("a pod that has a status", async || {
        pods.get(name).await.unwrap().status?.container_statuses.map(|_| ())
    })
    .await;
    let status = json!({ "status": { "podIP": ip, "podIPs": [{ "ip": ip }] } });
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

async fn cost(world: &World, name: &str) -> i32 {
    world.api::<Pod>().get(name).await.unwrap().annotations()[COST].parse().unwrap()
}

/// What the event about fewer pods says.
async fn told_of_the_change(world: &World) -> String {
    until("the event", async || {
        let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let down = events.into_iter().find(|event| event.reason.as_deref() == Some("ScaledDown"));
        down.and_then(|event| event.note)
    })
    .await
}

#[tokio::test]
async fn pods_with_nothing_on_its_way_to_them_are_the_cheapest() {
    let world = world().await;
    let server = address(&world).await;
    make_stream_and_consumer(&world).await;
    let account = serde_json::from_value(json!({ "metadata": { "name": "workers" } })).unwrap();
    world.api::<ServiceAccount>().create(&PostParams::default(), &account).await.unwrap();
    make_a_pod(&world, "busy", "127.78.0.1", "0").await;
    make_a_pod(&world, "idle", "127.78.0.2", "77").await;
    let mut idle = Plain::connect_from("127.78.0.2", &server).await;
    idle.settle().await;
    let mut busy = Plain::connect_from("127.78.0.1", &server).await;
    busy.write("SUB flood 1\r\n").await;
    busy.settle().await;
    let mut publisher = Plain::connect_from("127.78.0.3", &server).await;
    let message = format!("PUB flood {}\r\n{}\r\n", FLOOD.1, "x".repeat(FLOOD.1));
    for _ in 0..FLOOD.0 {
        publisher.write(&message).await;
    }
    publisher.settle().await;

    deploy(&world, 2).await;
    let settings = json!({ "preferIdlePods": true, "minReplicas": 1, "cooldown": "0s" });
    apply(&world, "scaler", quick(consumer(), settings)).await.unwrap();
    until_replicas(&world, 1).await;
    assert!(cost(&world, "busy").await > 1_000_000, "{}", cost(&world, "busy").await);
    assert_eq!(cost(&world, "idle").await, 0);
    assert_eq!(told_of_the_change(&world).await, "Deployment workers from 2 to 1: no work");
}

#[tokio::test]
async fn that_nobody_knows_who_is_idle_holds_up_no_change() {
    let mut world = World::empty().await;
    world.start_operator().await;
    deploy(&world, 5).await;
    let mut source = consumer();
    source["clusterRef"]["name"] = json!("ghost");
    let settings = json!({ "preferIdlePods": true, "minReplicas": 1, "maxReplicas": 3 });
    apply(&world, "scaler", quick(source, settings)).await.unwrap();
    until_replicas(&world, 3).await;
    let told = told_of_the_change(&world).await;
    let problem = "which pods are idle is not known: there is no NatsCluster `ghost`";
    assert!(told.starts_with("Deployment workers from 5 to 3: ") && told.contains(problem), "{told}");
}
