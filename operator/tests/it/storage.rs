//! Streams of a cluster: kept over restarts, on volumes that grow, under a StatefulSet that is made anew around running servers.

use std::sync::Arc;

use ::crd::NatsCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use operator::apply::Failpoint;
use operator::cluster::reconcile::reconcile;
use operator::error::Error;
use operator::nats::client::{Connection, Target};
use operator::nats::login::Login;
use serde_json::{Value, json};

use crate::support::kubelet::bind_claim;
use crate::support::objects::{spec, with};
use crate::support::until;
use crate::support::world::{World, context, message};

/// Writes of the longest pass.
const WRITES_MAX: u64 = 40;

/// Classes whose volumes can and cannot grow.
const GROWING: &str = "growing";
const FIXED: &str = "fixed";

async fn classes(world: &World) {
    let api: Api<StorageClass> = Api::all(world.client.clone());
    for (name, grows) in [(GROWING, true), (FIXED, false)] {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
            "provisioner": "stand-in.example/folder", "allowVolumeExpansion": grows,
        });
        api.patch(name, &PatchParams::apply("person").force(), &Patch::Apply(&class)).await.unwrap();
    }
}

/// One server with streams on a volume.
fn store(class: &str, size: &str, jetstream: Value) -> Value {
    let storage = json!({ "volume": { "size": size, "storageClassName": class } });
    with(spec(1), json!({ "jetstream": jetstream, "storage": storage }))
}

async fn connect(world: &World) -> Connection {
    let pod = world.pods().await.into_iter().find(|pod| pod.name_any() == "demo-0").unwrap();
    let ip = pod.status.unwrap().pod_ip.unwrap();
    let target = Target {
        address: format!("{ip}:4222").parse().unwrap(),
        tls: None,
        login: Login::Password { user: "app".to_owned(), password: "x".to_owned() },
        timeout: std::time::Duration::from_secs(10),
    };
    Connection::open(&target, "_INBOX").await.unwrap()
}

async fn ask(connection: &mut Connection, subject: &str, request: Value) -> Value {
    let body = if request.is_null() { String::new() } else { request.to_string() };
    serde_json::from_slice(&connection.request(subject, body.as_bytes()).await.unwrap()).unwrap()
}

async fn keep_a_message(world: &World) {
    let mut connection = connect(world).await;
    let made = ask(
        &mut connection,
        "$JS.API.STREAM.CREATE.ORDERS",
        json!({ "name": "ORDERS", "subjects": ["orders.>"] }),
    )
    .await;
    assert!(made["error"].is_null(), "{made}");
    let stored = ask(&mut connection, "orders.first", json!({ "number": 1 })).await;
    assert_eq!(stored["seq"], 1, "{stored}");
}

async fn read_it_back(world: &World) {
    let mut connection = connect(world).await;
    let read = ask(&mut connection, "$JS.API.STREAM.MSG.GET.ORDERS", json!({ "seq": 1 })).await;
    assert_eq!(read["message"]["subject"], "orders.first", "{read}");
}

async fn claim(world: &World) -> PersistentVolumeClaim {
    world.api::<PersistentVolumeClaim>().get("js-demo-0").await.unwrap()
}

fn process(cluster: &NatsCluster) -> Option<String> {
    cluster.status.as_ref().unwrap().servers[0].server_id.clone()
}

#[tokio::test]
async fn a_message_is_read_back_after_its_pod_was_deleted_and_the_key_stays_in_secrets() {
    let world = World::with_servers().await;
    classes(&world).await;
    world.secret("users", &[("app", "x")]).await;
    world.secret("store-key", &[("key", "a very secret key")]).await;
    let encryption = json!({ "encryption": { "keySecretRef": { "name": "store-key" } } });
    world.apply("demo", store(GROWING, "1Gi", encryption)).await.unwrap();
    let before = world.until_ready("demo").await;
    keep_a_message(&world).await;

    world.api::<Pod>().delete("demo-0", &DeleteParams::default()).await.unwrap();
    let cluster = until("another process with its stream", async || {
        let cluster = world.cluster("demo").await;
        let status = cluster.status.clone()?;
        let new = status.servers.first()?.server_id.is_some() && process(&cluster) != process(&before);
        (new && status.jetstream.as_ref()?.streams == 1).then_some(cluster)
    })
    .await;
    world.until_condition("demo", "JetStreamHealthy", "True", "AllCurrent").await;
    read_it_back(&world).await;

    let status = cluster.status.clone().unwrap();
    assert_eq!(status.volumes.len(), 1);
    assert_eq!(status.volumes[0].state, "Bound");
    let limit = status.jetstream.unwrap().storage.limit;
    assert_eq!(limit, (1 << 30) / 100 * 85);
    let text = |value: Value| value.to_string();
    let set = world.api::<StatefulSet>().get("demo").await.unwrap();
    for shown in [text(json!(cluster)), text(json!(set)), text(json!(world.pods().await))] {
        assert!(!shown.contains("a very secret key"));
    }
    let config = world.api::<Secret>().get("demo-config").await.unwrap();
    let config = operator::objects::secrets::text(&config, "nats.conf").unwrap();
    assert!(config.contains("encryption_key: \"a very secret key\""));
}

#[tokio::test]
async fn a_volume_grows_under_a_running_server() {
    let world = World::with_servers().await;
    classes(&world).await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", store(GROWING, "1Gi", json!({}))).await.unwrap();
    let before = world.until_ready("demo").await;
    keep_a_message(&world).await;
    let (pod, set) =
        (world.pods().await[0].uid(), world.api::<StatefulSet>().get("demo").await.unwrap().uid());

    world.apply("demo", store(GROWING, "2Gi", json!({}))).await.unwrap();
    let cluster = until("the server to use the larger volume", async || {
        let cluster = world.cluster("demo").await;
        let limit = cluster.status.as_ref()?.jetstream.as_ref()?.storage.limit;
        (limit == (2_i64 << 30) / 100 * 85).then_some(cluster)
    })
    .await;
    assert_eq!(process(&cluster), process(&before), "no restart for it");
    let cluster = world.until_ready("demo").await;
    assert_eq!(cluster.status.unwrap().volumes[0].capacity.as_deref(), Some("2Gi"));
    world.until_condition("demo", "StorageExpanded", "True", "UpToDate").await;
    let fresh = world.api::<StatefulSet>().get("demo").await.unwrap();
    assert_ne!(fresh.uid(), set, "the StatefulSet was made anew");
    let template = fresh.spec.unwrap().volume_claim_templates.unwrap().remove(0);
    let asked = template.spec.unwrap().resources.unwrap().requests.unwrap();
    assert_eq!(asked["storage"].0, "2Gi");
    assert_eq!(world.pods().await[0].uid(), pod, "the pod stayed");
    read_it_back(&world).await;
}

#[tokio::test]
async fn a_volume_that_cannot_grow_is_told_and_nothing_is_touched() {
    let world = World::with_servers().await;
    classes(&world).await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", store(FIXED, "1Gi", json!({}))).await.unwrap();
    let before = world.until_ready("demo").await;
    let set = world.api::<StatefulSet>().get("demo").await.unwrap().uid();

    world.apply("demo", store(FIXED, "2Gi", json!({}))).await.unwrap();
    let cluster = world.until_condition("demo", "StorageExpanded", "False", "NotSupported").await;
    let text = message(&cluster, "StorageExpanded");
    assert!(text.contains("js-demo-0 cannot grow to 2Gi"), "{text}");
    let cluster = world.until_ready("demo").await;
    assert_eq!(process(&cluster), process(&before));
    assert_eq!(world.api::<StatefulSet>().get("demo").await.unwrap().uid(), set);
    assert_eq!(cluster.status.unwrap().jetstream.unwrap().storage.limit, (1 << 30) / 100 * 85);
}

#[tokio::test]
async fn streams_come_to_a_cluster_that_had_none() {
    let world = World::with_servers().await;
    classes(&world).await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", spec(1)).await.unwrap();
    let before = world.until_ready("demo").await;
    assert_eq!(before.status.as_ref().unwrap().jetstream, None);

    world.apply("demo", store(GROWING, "1Gi", json!({}))).await.unwrap();
    world.until_condition("demo", "JetStreamHealthy", "True", "AllCurrent").await;
    let cluster = world.until_ready("demo").await;
    assert_ne!(process(&cluster), process(&before));
    keep_a_message(&world).await;

    // Without them again the volume stays, and so do the messages on it.
    world.apply("demo", spec(1)).await.unwrap();
    world.until_condition("demo", "JetStreamHealthy", "Unknown", "Disabled").await;
    world.until_ready("demo").await;
    world.apply("demo", store(GROWING, "1Gi", json!({}))).await.unwrap();
    world.until_condition("demo", "JetStreamHealthy", "True", "AllCurrent").await;
    world.until_ready("demo").await;
    read_it_back(&world).await;
}

#[tokio::test]
async fn space_that_ends_with_its_pod_needs_no_claim_and_no_password() {
    let world = World::with_servers().await;
    let open = json!({
        "replicas": 1, "auth": { "mode": "None", "allowAnonymous": true }, "jetstream": {},
        "storage": { "ephemeral": { "sizeLimit": "1Gi" } }, "update": { "settle": "0s" },
    });
    world.apply("demo", open).await.unwrap();
    let cluster = world.until_ready("demo").await;
    assert!(cluster.status.unwrap().volumes.is_empty());
    assert!(world.api::<PersistentVolumeClaim>().list(&Default::default()).await.unwrap().items.is_empty());
    keep_a_message(&world).await;
}

#[tokio::test]
async fn what_would_lose_messages_is_refused() {
    let world = World::empty().await;
    let changed = |changes: Value| {
        with(store(GROWING, "2Gi", json!({ "encryption": { "keySecretRef": { "name": "k" } } })), changes)
    };
    let good = changed(json!({}));
    let storage = |volume: Value| json!({ "storage": { "volume": volume } });
    let refusal = async |spec: Value| match world.apply("demo", spec).await {
        Err(kube::Error::Api(status)) => status.message.clone(),
        other => panic!("{other:?}"),
    };
    let cases = [
        (json!({ "replicas": 3 }), "set replicas to 1, or remove jetstream"),
        (json!({ "storage": { "volume": {}, "ephemeral": {} } }), "choose one of"),
        (storage(json!({ "size": "1.5Gi" })), "should match"),
        (json!({ "jetstream": { "fileStore": { "syncInterval": "never" } } }), "should match"),
    ];
    for (changes, part) in cases {
        let text = refusal(changed(changes.clone())).await;
        assert!(text.contains(part), "{changes} -> {text}");
    }
    world.apply("demo", good.clone()).await.unwrap();
    let transitions = [
        (json!({ "storage": { "ephemeral": {} } }), "messages would be lost"),
        (storage(json!({ "size": "1Gi", "storageClassName": GROWING })), "a volume cannot shrink"),
        (storage(json!({ "size": "2Gi", "storageClassName": "other" })), "storageClassName cannot change"),
        (json!({ "jetstream": {} }), "encryption cannot be removed"),
    ];
    for (changes, part) in transitions {
        let text = refusal(changed(changes.clone())).await;
        assert!(text.contains(part), "{changes} -> {text}");
    }
    // `kubectl scale` goes another way to the same rule.
    let scale = json!({ "spec": { "replicas": 3 } });
    let scaled =
        world.api::<NatsCluster>().patch_scale("demo", &PatchParams::default(), &Patch::Merge(&scale)).await;
    assert!(scaled.unwrap_err().to_string().contains("set replicas to 1"));
    world
        .apply("demo", changed(storage(json!({ "size": "3000Mi", "storageClassName": GROWING }))))
        .await
        .unwrap();
}

#[tokio::test]
async fn sizes_that_do_not_fit_stall_with_what_to_do() {
    let mut world = World::empty().await;
    world.secret("users", &[("app", "x")]).await;
    world.start_operator().await;
    let too_much = json!({ "fileStore": { "maxSize": "1Gi" } });
    world.apply("demo", store(GROWING, "1Gi", too_much)).await.unwrap();
    let cluster = world.until_condition("demo", "Stalled", "True", "InvalidSpec").await;
    assert!(message(&cluster, "Stalled").contains("make storage.volume.size larger"));
    let encrypted = json!({ "encryption": { "keySecretRef": { "name": "nowhere" } } });
    world.apply("demo", store(GROWING, "1Gi", encrypted)).await.unwrap();
    let cluster = world.until_condition("demo", "Stalled", "True", "SecretMissing").await;
    assert!(message(&cluster, "Stalled").contains("nowhere"));
}

/// One pass by an operator that has just started. True when it was stopped by its failpoint.
async fn pass(world: &World, failpoint: Option<Arc<Failpoint>>) -> bool {
    let context = context(&world.namespace, failpoint).await;
    let Some(cluster) = world.api::<NatsCluster>().get_opt("demo").await.unwrap() else {
        return false;
    };
    match reconcile(Arc::new(cluster), context).await {
        Ok(_) => false,
        Err(Error::Stopped(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// A cluster whose claim is bound, without an operator.
async fn prepared() -> World {
    let world = World::empty().await;
    classes(&world).await;
    world.secret("users", &[("app", "x")]).await;
    world.apply("demo", store(GROWING, "1Gi", json!({}))).await.unwrap();
    pass(&world, None).await;
    let claims = world.api::<PersistentVolumeClaim>();
    let claim = until("a claim", async || claims.get_opt("js-demo-0").await.unwrap()).await;
    bind_claim(&claims, &claim).await.unwrap();
    until("a pod", async || (world.pods().await.len() == 1).then_some(())).await;
    world
}

#[tokio::test]
async fn killed_between_any_two_writes_of_growth_the_volume_grows_and_the_pod_stays() {
    for number in 1..WRITES_MAX {
        let world = prepared().await;
        let pod = world.pods().await[0].uid();
        world.apply("demo", store(GROWING, "2Gi", json!({}))).await.unwrap();
        let stopped = pass(&world, Some(Failpoint::new(number))).await;
        until("a StatefulSet of the new size", async || {
            pass(&world, None).await;
            let set = world.api::<StatefulSet>().get_opt("demo").await.unwrap()?;
            let template = set.spec?.volume_claim_templates?.pop()?;
            let size = template.spec?.resources?.requests?.remove("storage")?;
            (set.metadata.deletion_timestamp.is_none() && size.0 == "2Gi").then_some(())
        })
        .await;
        let claim = claim(&world).await.spec.unwrap().resources.unwrap().requests.unwrap();
        assert_eq!(claim["storage"].0, "2Gi");
        assert_eq!(world.pods().await[0].uid(), pod, "killed before write {number}");
        if !stopped {
            return;
        }
    }
    panic!("a growth of more than {WRITES_MAX} writes");
}

#[tokio::test]
async fn a_cluster_that_is_deleted_while_its_statefulset_is_made_anew_takes_its_pods_with_it() {
    let world = prepared().await;
    let before = world.api::<StatefulSet>().get("demo").await.unwrap().uid();
    world.apply("demo", store(GROWING, "2Gi", json!({}))).await.unwrap();
    until("the old StatefulSet to be gone", async || {
        let set = world.api::<StatefulSet>().get_opt("demo").await.unwrap();
        if set.as_ref().is_some_and(|set| set.uid() == before && set.metadata.deletion_timestamp.is_none()) {
            pass(&world, None).await;
        }
        set.is_none().then_some(())
    })
    .await;
    assert_eq!(world.pods().await.len(), 1);
    world.api::<NatsCluster>().delete("demo", &DeleteParams::default()).await.unwrap();
    until("the cluster and its pods to be gone", async || {
        pass(&world, None).await;
        let gone = world.api::<NatsCluster>().get_opt("demo").await.unwrap().is_none();
        (gone && world.pods().await.is_empty()).then_some(())
    })
    .await;
    assert!(world.api::<StatefulSet>().get_opt("demo").await.unwrap().is_none());
    // The volume stays, as its retention says.
    assert_eq!(claim(&world).await.metadata.deletion_timestamp, None);
}
