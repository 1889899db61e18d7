//! Autoscalers against a real API server and real servers: workloads grow with the work, shrink after it, and stay while nothing is known.

use std::sync::Arc;
use std::time::Duration;

use ::crd::conditions;
use ::crd::{NatsAutoscaler, NatsCluster};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use operator::apply::Failpoint;
use operator::autoscaler::reconcile::{NUMBERS_INTERVAL, State, reconcile};
use operator::error::Error;
use operator::nats::client::{Connection, Target};
use operator::nats::login::Login;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::objects::{spec, with};
use crate::support::until;
use crate::support::world::{World, context};

/// Looks that an autoscaler has time for before a test believes that nothing happens.
const STILL: Duration = Duration::from_secs(6);

/// A world with one server that keeps streams.
pub(super) async fn world() -> World {
    let world = World::with_servers().await;
    world.secret("users", &[("app", "x")]).await;
    let streams = json!({ "jetstream": {}, "storage": { "ephemeral": { "sizeLimit": "1Gi" } } });
    world.apply("demo", with(spec(1), streams)).await.unwrap();
    world.until_ready("demo").await;
    world
}

pub(super) fn workload(kind: &str, replicas: i32) -> Value {
    let labels = json!({ "app": "workers" });
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "workers" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "w", "image": "w" }] } },
        },
    });
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!("workers");
    }
    object
}

pub(super) async fn deploy(world: &World, replicas: i32) {
    let object = workload("Deployment", replicas);
    let parameters = PatchParams::apply("person").force();
    world.api::<Deployment>().patch("workers", &parameters, &Patch::Apply(&object)).await.unwrap();
}

pub(super) async fn replicas(world: &World) -> i32 {
    world.api::<Deployment>().get("workers").await.unwrap().spec.unwrap().replicas.unwrap()
}

pub(super) async fn until_replicas(world: &World, wanted: i32) {
    until(&format!("{wanted} replicas"), async || (replicas(world).await == wanted).then_some(())).await;
}

/// Looks for as long as several decisions take, and fails when it finds something.
async fn never(what: &str, look: impl AsyncFnMut() -> Option<()>) {
    never_within(STILL, what, look).await;
}

async fn never_within(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<()>) {
    let mut looks = tokio::time::interval(crate::support::LOOK);
    let found = tokio::time::timeout(limit, async {
        loop {
            looks.tick().await;
            if look().await.is_some() {
                return;
            }
        }
    });
    assert!(found.await.is_err(), "{what}");
}

/// The target keeps its size.
async fn stays(world: &World, wanted: i32) {
    never("replicas changed", async || (replicas(world).await != wanted).then_some(())).await;
}

/// An autoscaler that looks every second and does not wait before it shrinks.
pub(super) fn quick(source: Value, changes: Value) -> Value {
    let base = json!({
        "scaleTargetRef": { "kind": "Deployment", "name": "workers" }, "minReplicas": 0, "maxReplicas": 6,
        "sources": [source], "pollInterval": "1s", "activationInterval": "1s", "cooldown": "2s",
        "behavior": { "scaleDown": { "stabilizationWindow": "0s" } },
    });
    with(base, changes)
}

pub(super) fn consumer() -> Value {
    json!({ "clusterRef": { "name": "demo" },
            "consumer": { "stream": "ORDERS", "consumer": "workers", "backlogPerReplica": { "target": 10 } } })
}

pub(super) async fn apply(world: &World, name: &str, spec: Value) -> kube::Result<NatsAutoscaler> {
    let object = json!({
        "apiVersion": "myelin.dev/v1alpha1", "kind": "NatsAutoscaler", "metadata": { "name": name }, "spec": spec,
    });
    let parameters = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::apply("person")
    };
    world.api::<NatsAutoscaler>().patch(name, &parameters, &Patch::Apply(&object)).await
}

pub(super) async fn until_condition(
    world: &World,
    name: &str,
    type_: &str,
    status: &str,
    reason: &str,
) -> NatsAutoscaler {
    let mut last = None;
    let mut looks = tokio::time::interval(crate::support::LOOK);
    let found = tokio::time::timeout(crate::support::PATIENCE, async {
        loop {
            looks.tick().await;
            let object = world.api::<NatsAutoscaler>().get(name).await.unwrap();
            let found = object.status.as_ref().and_then(|s| conditions::find(&s.conditions, type_)).cloned();
            if found.is_some_and(|c| {
                c.status == status
                    && c.reason == reason
                    && c.observed_generation == object.metadata.generation
            }) {
                return object;
            }
            last = Some(object);
        }
    })
    .await;
    found.unwrap_or_else(|_| {
        panic!("no {type_}={status} {reason}: {:#?}", last.and_then(|object| object.status))
    })
}

pub(super) async fn address(world: &World) -> String {
    let pod = world.pods().await.into_iter().find(|pod| pod.name_any() == "demo-0").unwrap();
    format!("{}:4222", pod.status.unwrap().pod_ip.unwrap())
}

pub(super) async fn ask(world: &World, subject: &str, request: Value) -> Value {
    let target = Target {
        address: address(world).await.parse().unwrap(),
        tls: None,
        login: Login::Password { user: "app".to_owned(), password: "x".to_owned() },
        timeout: Duration::from_secs(10),
    };
    let mut connection = Connection::open(&target, "_INBOX").await.unwrap();
    let body = if request.is_null() { String::new() } else { request.to_string() };
    let answer = connection.request(subject, body.as_bytes()).await.unwrap();
    serde_json::from_slice(&answer).unwrap()
}

pub(super) async fn make_stream_and_consumer(world: &World) {
    let stream = json!({ "name": "ORDERS", "subjects": ["orders.>"] });
    let made = ask(world, "$JS.API.STREAM.CREATE.ORDERS", stream).await;
    assert!(made["error"].is_null(), "{made}");
    let config = json!({ "durable_name": "workers", "ack_policy": "explicit", "deliver_policy": "all" });
    let request = json!({ "stream_name": "ORDERS", "config": config });
    let made = ask(world, "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.workers", request).await;
    assert!(made["error"].is_null(), "{made}");
}

pub(super) async fn publish(world: &World, messages: u32) {
    let mut client = Plain::connect(&address(world).await).await;
    for number in 0..messages {
        client.write(&format!("PUB orders.{number} 1\r\nx\r\n")).await;
    }
    client.settle().await;
}

/// A client of the plain protocol.
pub(super) struct Plain {
    stream: BufReader<TcpStream>,
}

impl Plain {
    /// A client whose connection comes from an address of its own.
    pub(super) async fn connect_from(local: &str, address: &str) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{local}:0").parse().unwrap()).unwrap();
        let stream = socket.connect(address.parse().unwrap()).await.unwrap();
        Self::log_in(stream, "app", "x").await
    }

    async fn connect(address: &str) -> Self {
        Self::connect_as(address, "app", "x").await
    }

    pub(super) async fn connect_as(address: &str, user: &str, password: &str) -> Self {
        Self::log_in(TcpStream::connect(address).await.unwrap(), user, password).await
    }

    async fn log_in(stream: TcpStream, user: &str, password: &str) -> Self {
        let mut client = Self { stream: BufReader::new(stream) };
        client.line().await;
        let login = json!({ "user": user, "pass": password, "verbose": false, "pedantic": false });
        client.write(&format!("CONNECT {login}\r\n")).await;
        client.settle().await;
        client
    }

    pub(super) async fn write(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Returns when the server has worked through everything, with the lines that came meanwhile.
    pub(super) async fn settle(&mut self) -> Vec<String> {
        self.write("PING\r\n").await;
        let mut before = Vec::new();
        loop {
            match self.line().await {
                line if line == "PONG" => return before,
                line => before.push(line),
            }
        }
    }

    /// Reads whatever comes, for as long as it comes.
    pub(super) async fn drain(mut self) {
        tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await.unwrap();
    }

    /// Answers requests for figures of a service, each time as if `busy` seconds and as many requests had passed since the last one.
    async fn serve(mut self, id: &str, busy: f64) {
        self.write("SUB $SRV.STATS.billing 1\r\n").await;
        let started = tokio::time::Instant::now();
        loop {
            let line = self.line().await;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["PING"] => self.write("PONG\r\n").await,
                ["MSG", _, _, reply, length] => {
                    let reply = reply.to_owned();
                    let mut payload = vec![0; length.parse::<usize>().unwrap() + 2];
                    self.stream.read_exact(&mut payload).await.unwrap();
                    let spent = started.elapsed().as_secs_f64() * busy;
                    let stats = json!({ "name": "billing", "id": id, "endpoints": [{
                        "name": "default", "num_requests": (spent * 10.0) as i64, "processing_time": (spent * 1e9) as i64,
                    }] });
                    let text = stats.to_string();
                    self.write(&format!("PUB {reply} {}\r\n{text}\r\n", text.len())).await;
                }
                [""] => return,
                _ => {}
            }
        }
    }
}

async fn event_reasons(world: &World) -> Vec<String> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let about =
        |event: &Event| event.regarding.as_ref().is_some_and(|r| r.kind.as_deref() == Some("NatsAutoscaler"));
    events.iter().filter(|event| about(event)).filter_map(|event| event.reason.clone()).collect()
}

#[tokio::test]
async fn a_burst_wakes_workers_and_they_go_when_it_is_done() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    deploy(&world, 0).await;
    apply(&world, "scaler", quick(consumer(), json!({}))).await.unwrap();
    until_condition(&world, "scaler", "Active", "False", "NoWork").await;
    assert_eq!(replicas(&world).await, 0);

    publish(&world, 35).await;
    until_replicas(&world, 4).await;
    let object = until_condition(&world, "scaler", "Active", "True", "Work").await;
    let status = object.status.unwrap();
    assert_eq!(status.sources[0].name, "consumer ORDERS > workers");
    assert_eq!((status.sources[0].value, status.sources[0].desired), (Some(35), Some(4)));

    publish(&world, 200).await;
    until_replicas(&world, 6).await;

    ask(&world, "$JS.API.STREAM.PURGE.ORDERS", Value::Null).await;
    until_replicas(&world, 0).await;
    let object = until_condition(&world, "scaler", "ScalingActive", "True", "ScaledToZero").await;
    assert_eq!(object.status.as_ref().unwrap().desired_replicas, Some(0));
    until_condition(&world, "scaler", "Ready", "True", "Ready").await;
    let reasons = event_reasons(&world).await;
    for reason in ["ScaledUp", "ScaledDown"] {
        assert!(reasons.iter().any(|r| r == reason), "{reason} among {reasons:?}");
    }
}

#[tokio::test]
async fn what_is_not_known_takes_nobody_away() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 25).await;
    deploy(&world, 0).await;
    apply(&world, "scaler", quick(consumer(), json!({}))).await.unwrap();
    until_replicas(&world, 3).await;

    // The consumer goes, then the stream with it.
    ask(&world, "$JS.API.CONSUMER.DELETE.ORDERS.workers", Value::Null).await;
    let object = until_condition(&world, "scaler", "MetricsAvailable", "False", "SourceMissing").await;
    assert!(object.status.unwrap().sources[0].error.as_ref().unwrap().contains("no consumer workers"));
    stays(&world, 3).await;

    // All servers go.
    let asleep = with(
        spec(1),
        json!({ "jetstream": {}, "hibernate": true, "storage": { "ephemeral": { "sizeLimit": "1Gi" } } }),
    );
    world.apply("demo", asleep).await.unwrap();
    let object = until_condition(&world, "scaler", "MetricsAvailable", "False", "SourceStale").await;
    assert!(object.status.unwrap().sources[0].error.as_ref().unwrap().contains("nothing was read since"));
    stays(&world, 3).await;
    until_condition(&world, "scaler", "ScalingActive", "True", "Hold").await;

    // The cluster is gone for good.
    world.api::<NatsCluster>().delete("demo", &DeleteParams::default()).await.unwrap();
    until_condition(&world, "scaler", "MetricsAvailable", "False", "ClusterMissing").await;
    assert_eq!(replicas(&world).await, 3);
    let fallback = quick(consumer(), json!({ "fallback": { "afterFailures": 2, "replicas": 5 } }));
    apply(&world, "scaler", fallback).await.unwrap();
    until_replicas(&world, 5).await;
}

#[tokio::test]
async fn a_status_is_written_when_it_says_something_new() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 25).await;
    deploy(&world, 3).await;
    let source =
        json!({ "clusterRef": { "name": "demo" }, "workqueue": { "stream": "ORDERS", "target": 10 } });
    apply(&world, "scaler", quick(source, json!({}))).await.unwrap();
    until_condition(&world, "scaler", "ScalingActive", "True", "WithinTolerance").await;
    let api = world.api::<NatsAutoscaler>();
    let version = async || api.get("scaler").await.unwrap().resource_version();
    let before = version().await;
    // The sources are read some thirty times, and each time say the same.
    never_within(NUMBERS_INTERVAL + STILL, "a status was written that says nothing new", async || {
        (version().await != before).then_some(())
    })
    .await;
    publish(&world, 1).await;
    until("the number of messages", async || {
        (api.get("scaler").await.unwrap().status?.sources[0].value == Some(26)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nobody_else_may_scale_the_target() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 35).await;
    deploy(&world, 1).await;
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "other" },
        "spec": { "maxReplicas": 3, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "workers" } },
    });
    let hpas = world.api::<HorizontalPodAutoscaler>();
    hpas.patch("other", &PatchParams::apply("person"), &Patch::Apply(&hpa)).await.unwrap();
    apply(&world, "scaler", quick(consumer(), json!({}))).await.unwrap();
    let object = until_condition(&world, "scaler", "ScalingActive", "False", "Conflicted").await;
    let ready = conditions::find(&object.status.as_ref().unwrap().conditions, "Ready").unwrap().clone();
    assert!(ready.message.contains("HorizontalPodAutoscaler `other`"), "{}", ready.message);
    stays(&world, 1).await;

    // Without the other it goes on; a change of the spec lets it look at once.
    hpas.delete("other", &DeleteParams::default()).await.unwrap();
    apply(&world, "scaler", quick(consumer(), json!({ "maxReplicas": 3 }))).await.unwrap();
    until_replicas(&world, 3).await;

    // Of two of ours the older one scales.
    apply(&world, "younger", quick(consumer(), json!({ "maxReplicas": 2 }))).await.unwrap();
    let object = until_condition(&world, "younger", "ScalingActive", "False", "Conflicted").await;
    let message = conditions::find(&object.status.unwrap().conditions, "Ready").unwrap().message.clone();
    assert!(message.contains("NatsAutoscaler `scaler`, which is older"), "{message}");
    assert_eq!(replicas(&world).await, 3);
    world.api::<NatsAutoscaler>().delete("younger", &DeleteParams::default()).await.unwrap();

    keda_object(&world).await;
    apply(&world, "scaler", quick(consumer(), json!({ "maxReplicas": 5 }))).await.unwrap();
    let object = until_condition(&world, "scaler", "ScalingActive", "False", "Conflicted").await;
    let message = conditions::find(&object.status.unwrap().conditions, "Ready").unwrap().message.clone();
    assert!(message.contains("ScaledObject `theirs`"), "{message}");
    assert_eq!(replicas(&world).await, 3);
}

/// KEDA's definition, as far as it matters, and an object of it.
async fn keda_object(world: &World) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "scaledobjects.keda.sh" },
        "spec": {
            "group": "keda.sh", "scope": "Namespaced",
            "names": { "plural": "scaledobjects", "singular": "scaledobject", "kind": "ScaledObject" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    });
    let object = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": { "name": "theirs" },
        "spec": { "scaleTargetRef": { "name": "workers" } },
    });
    make_of_kind(world, &definition, &object).await;
}

/// Makes a kind of which a definition has one version, waits until it is served, and makes an object of it.
pub(crate) async fn make_of_kind(world: &World, definition: &Value, object: &Value) -> Api<DynamicObject> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (spec, parameters) = (&definition["spec"], PatchParams::apply("person").force());
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let name = text(&definition["metadata"]["name"]);
    definitions.patch(&name, &parameters, &Patch::Apply(definition)).await.unwrap();
    let names = &spec["names"];
    let (version, kind) = (text(&spec["versions"][0]["name"]), text(&names["kind"]));
    let kind = GroupVersionKind::gvk(&text(&spec["group"]), &version, &kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &text(&names["plural"]));
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let name = text(&object["metadata"]["name"]);
    until("the kind to be served", async || api.patch(&name, &parameters, &Patch::Apply(object)).await.ok())
        .await;
    api
}

#[tokio::test]
async fn members_of_a_queue_group_follow_its_traffic() {
    let world = world().await;
    let address = address(&world).await;
    let source = json!({ "clusterRef": { "name": "demo" },
                         "queueGroup": { "subject": "work.*", "queue": "crew", "messageRatePerMember": 10 } });
    deploy(&world, 1).await;
    apply(&world, "scaler", quick(source, json!({ "minReplicas": 1 }))).await.unwrap();
    // Nobody is there: that is no number, so nothing changes.
    let object = until_condition(&world, "scaler", "MetricsAvailable", "False", "SourceMissing").await;
    assert!(object.status.unwrap().sources[0].error.as_ref().unwrap().contains("has no members"));

    let mut members = Vec::new();
    for _ in 0..2 {
        let mut member = Plain::connect(&address).await;
        member.write("SUB work.* crew 7\r\n").await;
        member.settle().await;
        members.push(member);
    }
    until_condition(&world, "scaler", "MetricsAvailable", "True", "Read").await;
    assert_eq!(replicas(&world).await, 1);
    // Some 40 messages a second take four members of ten each.
    let traffic = tokio::spawn({
        let address = address.clone();
        async move {
            let mut publisher = Plain::connect(&address).await;
            let mut turns = tokio::time::interval(Duration::from_millis(25));
            loop {
                turns.tick().await;
                publisher.write("PUB work.x 1\r\nx\r\n").await;
            }
        }
    });
    until("more members", async || (replicas(&world).await >= 3).then_some(())).await;
    traffic.abort();
    until_replicas(&world, 1).await;
    drop(members);
}

#[tokio::test]
async fn instances_of_a_service_follow_how_busy_they_are() {
    let world = world().await;
    let address = address(&world).await;
    let source = json!({ "clusterRef": { "name": "demo" }, "service": { "name": "billing", "utilizationPercent": 50 } });
    deploy(&world, 1).await;
    // A time that is measured at both ends of a network wavers, on a busy machine a good deal: the target is far from the next number of
    // replicas, what is below it does not count at once, and what is above it is cut.
    let still = json!({ "minReplicas": 1, "maxReplicas": 4, "pollInterval": "3s",
                        "behavior": { "scaleDown": { "stabilizationWindow": "10m" } } });
    apply(&world, "scaler", quick(source, still)).await.unwrap();
    until_condition(&world, "scaler", "MetricsAvailable", "False", "SourceMissing").await;
    // Two instances that are busy nine tenths of their time do the work of 1.8, which are 3.6 half busy ones.
    let instances: Vec<_> = ["one", "two"]
        .map(|id| {
            let address = address.clone();
            tokio::spawn(async move { Plain::connect(&address).await.serve(id, 0.9).await })
        })
        .into();
    until_replicas(&world, 4).await;
    let object = until_condition(&world, "scaler", "MetricsAvailable", "True", "Read").await;
    let value = object.status.unwrap().sources[0].value.unwrap();
    assert!((45..=180).contains(&value), "{value} percent");
    for instance in instances {
        instance.abort();
    }
    until_condition(&world, "scaler", "MetricsAvailable", "False", "SourceMissing").await;
    stays(&world, 4).await;
}

#[tokio::test]
async fn messages_of_a_stream_scale_a_statefulset() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    let sets = world.api::<StatefulSet>();
    sets.patch("workers", &PatchParams::apply("person"), &Patch::Apply(&workload("StatefulSet", 0)))
        .await
        .unwrap();
    let target = json!({ "scaleTargetRef": { "kind": "StatefulSet", "name": "workers" } });
    let source = json!({ "clusterRef": { "name": "demo" }, "workqueue": { "stream": "ORDERS", "filter": "orders.1*", "target": 1 } });
    apply(&world, "scaler", quick(source, target)).await.unwrap();
    until_condition(&world, "scaler", "Active", "False", "NoWork").await;
    publish(&world, 12).await;
    // `1*` is a word of its own and no wildcard, so it is nobody's subject.
    never("a set of another size", async || {
        (sets.get("workers").await.unwrap().spec.unwrap().replicas != Some(0)).then_some(())
    })
    .await;
    let source = json!({ "clusterRef": { "name": "demo" }, "workqueue": { "stream": "ORDERS", "filter": "orders.*", "target": 4 } });
    let target = json!({ "scaleTargetRef": { "kind": "StatefulSet", "name": "workers" } });
    apply(&world, "scaler", quick(source, target)).await.unwrap();
    until("three replicas", async || {
        (sets.get("workers").await.unwrap().spec.unwrap().replicas == Some(3)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_target_that_is_missing_and_a_pause_are_told() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 35).await;
    apply(&world, "scaler", quick(consumer(), json!({ "paused": true, "pausedReplicas": 2 }))).await.unwrap();
    until_condition(&world, "scaler", "ScalingActive", "False", "TargetMissing").await;
    deploy(&world, 0).await;
    until_replicas(&world, 2).await;
    until_condition(&world, "scaler", "Ready", "True", "Paused").await;
    apply(&world, "scaler", quick(consumer(), json!({}))).await.unwrap();
    until_replicas(&world, 4).await;
    let elsewhere = json!({ "clusterRef": { "name": "demo", "account": "NOBODY" }, "workqueue": { "stream": "S", "target": 1 } });
    apply(&world, "scaler", quick(elsewhere, json!({}))).await.unwrap();
    let object = until_condition(&world, "scaler", "MetricsAvailable", "False", "InvalidSpec").await;
    assert!(object.status.unwrap().sources[0].error.as_ref().unwrap().contains("no account of this name"));
    let nowhere =
        json!({ "cron": "0 8 * * *", "duration": "1h", "timeZone": "Mars/Olympus", "minReplicas": 1 });
    apply(&world, "scaler", quick(consumer(), json!({ "schedule": [nowhere] }))).await.unwrap();
    until_condition(&world, "scaler", "Stalled", "True", "InvalidSpec").await;
    let unlike =
        json!({ "clusterRef": { "name": "demo" }, "workqueue": { "stream": "ORDERS", "target": 1 } });
    let added = json!({ "combine": "Sum", "sources": [consumer(), unlike] });
    apply(&world, "scaler", quick(consumer(), added)).await.unwrap();
    let object = until_condition(&world, "scaler", "Stalled", "True", "InvalidSpec").await;
    let message = conditions::find(&object.status.unwrap().conditions, "Ready").unwrap().message.clone();
    assert!(message.contains("consumer.backlogPerReplica beside workqueue"), "{message}");
    assert_eq!(replicas(&world).await, 4);
}

#[tokio::test]
async fn an_operator_that_is_killed_between_any_two_writes_is_followed_by_one_that_goes_on() {
    let mut world = world().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 35).await;
    world.kill_operator();
    for number in 1..10 {
        deploy(&world, 1).await;
        let name = format!("scaler-{number}");
        let mut object = apply(&world, &name, quick(consumer(), json!({}))).await.unwrap();
        let mut stopped = false;
        for failpoint in [Some(Failpoint::new(number)), None] {
            let state = State::new(context(&world.namespace, failpoint).await);
            match reconcile(Arc::new(object), state).await {
                Ok(_) => {}
                Err(Error::Stopped(_)) => stopped = true,
                Err(error) => panic!("{error}"),
            }
            object = world.api::<NatsAutoscaler>().get(&name).await.unwrap();
        }
        assert_eq!(replicas(&world).await, 4, "killed before write {number}");
        assert_eq!(object.status.unwrap().desired_replicas, Some(4));
        world.api::<NatsAutoscaler>().delete(&name, &DeleteParams::default()).await.unwrap();
        if !stopped {
            return;
        }
    }
    panic!("a look of more writes than there are");
}

#[tokio::test]
async fn a_wrong_spec_is_refused_with_a_sentence_that_says_what_to_do() {
    let world = World::empty().await;
    let group = || json!({ "clusterRef": { "name": "demo" }, "queueGroup": { "subject": "a", "queue": "q", "messageRatePerMember": 1 } });
    let both = json!({ "clusterRef": { "name": "demo" }, "service": { "name": "s", "requestsPerSecond": 1 },
                       "workqueue": { "stream": "S", "target": 1 } });
    let cases = [
        (json!({ "minReplicas": 7 }), "minReplicas must not be above maxReplicas"),
        (json!({ "idleReplicas": 1 }), "idleReplicas must not be above minReplicas"),
        (json!({ "sources": [] }), "should have at least 1 items"),
        (json!({ "sources": [both] }), "exactly one of consumer, workqueue, queueGroup and service"),
        (json!({ "sources": [group()] }), "lose requests while nobody is there"),
        (
            json!({ "minReplicas": 1, "sources": [{ "account": "a", "queueGroup": group()["queueGroup"] }] }),
            "needs a clusterRef",
        ),
        (
            json!({ "sources": [{ "workqueue": { "stream": "S", "target": 1 } }] }),
            "exactly one of clusterRef, accountRef and account",
        ),
        (
            json!({ "sources": [{ "account": "a", "consumer": { "stream": "S", "consumer": "c" } }] }),
            "exactly one of backlogPerReplica, drainTime and pullUtilizationPercent",
        ),
        (
            json!({ "preferIdlePods": true, "scaleTargetRef": { "kind": "StatefulSet", "name": "x" } }),
            "preferIdlePods: only ReplicaSets",
        ),
        (
            json!({ "preferIdlePods": true, "sources": [{ "account": "a", "workqueue": { "stream": "S", "target": 1 } }] }),
            "preferIdlePods: what is on its way is seen from the system account",
        ),
        (json!({ "pollInterval": "10m" }), "between 1s and 5m"),
        (json!({ "activationInterval": "100ms" }), "between 1s and 30s"),
        (json!({ "scaleTargetRef": { "kind": "daemonsets", "name": "x" } }), "should match"),
        (json!({ "scaleTargetRef": { "kind": "Job", "apiVersion": "batch", "name": "x" } }), "should match"),
        (json!({ "behavior": { "scaleUp": { "stabilizationWindow": "2h" } } }), "at most 1h"),
        (
            json!({ "schedule": [{ "cron": "0 8 * * *", "duration": "1h" }] }),
            "a schedule sets minReplicas, maxReplicas or both",
        ),
    ];
    for (changes, part) in cases {
        match apply(&world, "scaler", quick(consumer(), changes.clone())).await {
            Err(kube::Error::Api(status)) => {
                assert!(status.message.contains(part), "{changes} -> {}", status.message)
            }
            other => panic!("{changes} -> {other:?}"),
        }
    }
    apply(&world, "scaler", quick(consumer(), json!({}))).await.unwrap();
    let other = json!({ "scaleTargetRef": { "kind": "Deployment", "name": "other" } });
    let refused = apply(&world, "scaler", quick(consumer(), other)).await.unwrap_err().to_string();
    assert!(refused.contains("scaleTargetRef cannot change"), "{refused}");
}
