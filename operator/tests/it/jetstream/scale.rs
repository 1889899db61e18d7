//! Many objects: what they cost while nothing happens.
//!
//! The full measurement is run by name, alone, with optimised builds or without:
//! `MYELIN_SCALE=2000,5000 cargo test -p operator --test it -- --ignored --nocapture thousands_of_objects`. It starts the operator in a process
//! of its own, so that its memory can be told from that of the test.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::crd::jetstream::{Consumer, Stream};
use futures::{StreamExt, stream};
use kube::Api;
use kube::api::{ListParams, PostParams};
use operator::context::Context;
use operator::metrics::Metrics;
use operator::settings::Settings;
use serde_json::{Value, json};

use super::account;
use crate::support::broker::Broker;
use crate::support::world::{World, settings};
use crate::support::{apiserver, until};

async fn create<K: operator::apply::Object>(world: &World, name: String, spec: Value) {
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name }, "spec": spec,
    });
    let object: K = serde_json::from_value(object).unwrap();
    world.api::<K>().create(&PostParams::default(), &object).await.unwrap();
}

/// Requests that the API server has served, watches and this very question aside.
async fn requests(world: &World) -> f64 {
    let request = http_request("/metrics");
    let text = world.client.request_text(request).await.unwrap();
    let counts = text.lines().filter(|line| {
        line.starts_with("apiserver_request_total{")
            && line.contains(r#"group="jetstream.nats.io""#)
            && !line.contains(r#"verb="WATCH""#)
    });
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn http_request(path: &str) -> hyper::Request<Vec<u8>> {
    hyper::Request::get(path).body(Vec::new()).unwrap()
}

fn resident_mebibytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

async fn count_ready<K>(api: &Api<K>) -> usize
where
    K: operator::jetstream::asset::Asset,
{
    let parameters = ListParams::default();
    let objects = api.list(&parameters).await.unwrap();
    objects.items.iter().filter(|object| super::says(*object, "Ready", "True", "Ready")).count()
}

async fn create_all(world: &World, streams: usize, consumers: usize) {
    let numbers = stream::iter(0..streams).for_each_concurrent(16, |number| {
        let spec = json!({ "name": format!("s{number}"), "storage": "memory", "account": "main" });
        create::<Stream>(world, format!("s{number}"), spec)
    });
    numbers.await;
    let numbers = stream::iter(0..consumers).for_each_concurrent(16, |number| {
        let of = format!("s{}", number % streams);
        let spec = json!({ "streamName": of, "durableName": format!("c{number}"), "ackPolicy": "explicit", "account": "main" });
        create::<Consumer>(world, format!("c{number}"), spec)
    });
    numbers.await;
}

async fn are_ready(world: &World, streams: usize, consumers: usize) -> bool {
    count_ready(&world.api::<Stream>()).await == streams
        && count_ready(&world.api::<Consumer>()).await == consumers
}

#[tokio::test]
async fn passes_in_which_nothing_happens_cost_the_api_server_next_to_nothing() {
    const STREAMS: usize = 20;
    const CONSUMERS: usize = 40;
    const OBJECTS: u64 = 60;
    let broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    let (client, requests) = apiserver::operator_that_counts().await;
    let settings = Settings { sync_interval: Duration::from_secs(1), ..settings(&world.namespace) };
    let metrics = Metrics::new().unwrap();
    let reconciles = metrics.reconciles.clone();
    world.run_operator(Arc::new(Context::new(client, settings, metrics, None)));
    create_all(&world, STREAMS, CONSUMERS).await;
    until("all to be ready", async || are_ready(&world, STREAMS, CONSUMERS).await.then_some(())).await;
    let passes = || -> u64 {
        ["Stream", "Consumer"]
            .iter()
            .map(|kind| reconciles.with_label_values(&[*kind, "success"]).get())
            .sum()
    };
    // The passes that follow from the last writes have to end first.
    let settled = passes() + 3 * OBJECTS;
    until("passes", async || (passes() >= settled).then_some(())).await;
    let (before, from) = (requests.load(Ordering::Relaxed), passes());
    until("more passes", async || (passes() >= from + 10 * OBJECTS).then_some(())).await;
    let made = requests.load(Ordering::Relaxed) - before;
    assert!(made < 60, "{made} requests to the API server in {} passes", passes() - from);
}

/// Numbers of streams and consumers to measure with.
fn numbers() -> (usize, usize) {
    let text = std::env::var("MYELIN_SCALE").unwrap_or_else(|_| "2000,5000".to_owned());
    let read = || {
        let (streams, consumers) = text.split_once(',')?;
        Some((streams.parse().ok()?, consumers.parse().ok()?))
    };
    read().unwrap_or_else(|| {
        panic!("MYELIN_SCALE={text}: expected the numbers of streams and consumers, such as 2000,5000")
    })
}

#[tokio::test]
#[ignore = "takes a quarter of an hour; run it by name and alone"]
async fn thousands_of_objects_cost_little_while_nothing_happens() {
    let (streams, consumers) = numbers();
    let broker = Broker::start().await;
    let world = World::empty().await;
    account(&world, "main", &broker).await;
    let folder = tempfile::TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, apiserver::operator_kubeconfig()).unwrap();
    let operator = tokio::process::Command::new(env!("CARGO_BIN_EXE_myelin-operator"))
        .args(["--metrics-addr", "127.0.0.1:0", "--watch-namespaces", &world.namespace])
        .env("KUBECONFIG", kubeconfig)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let process = operator.id().unwrap();
    create_all(&world, streams, consumers).await;
    let started = Instant::now();
    let mut looks = tokio::time::interval(Duration::from_secs(10));
    while !are_ready(&world, streams, consumers).await {
        assert!(started.elapsed() < Duration::from_secs(1_800), "not all are ready");
        looks.tick().await;
    }
    println!("all ready {:?} after the last was made", started.elapsed());
    // The passes that follow from the last writes have to end first.
    let mut rates = Vec::new();
    let (mut before, mut at) = (requests(&world).await, Instant::now());
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.tick().await;
    for _ in 0..4 {
        minutes.tick().await;
        let now = requests(&world).await;
        rates.push((now - before) / at.elapsed().as_secs_f64());
        (before, at) = (now, Instant::now());
    }
    let memory = resident_mebibytes(process);
    println!("requests a second in each minute: {rates:.1?}; {memory} MiB");
    assert!(rates[2..].iter().all(|rate| *rate < 5.0), "{rates:?}");
    assert!(memory < 200, "{memory} MiB");
}
