//! Many objects: what they cost when they are made, while nothing happens, and when somebody changes something on the server.
//!
//! The full measurement is run by name and alone, with optimised builds or without:
//! `MYELIN_SCALE=2000,5000 cargo test -p operator --test it -- --ignored --nocapture thousands_of_objects`. It starts the operator in a process
//! of its own, so that its memory can be told from that of the test; `MYELIN_OPERATOR` and `MYELIN_BROKER` name other builds.

use std::net::SocketAddr;
use std::ops::RangeFrom;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::crd::jetstream::{Consumer, Stream};
use futures::{StreamExt, stream};
use kube::Api;
use kube::api::{ListParams, PostParams};
use operator::context::Context;
use operator::metrics::Metrics;
use operator::settings::Settings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::account;
use crate::support::apiserver::Apiserver;
use crate::support::broker::{Broker, Person};
use crate::support::world::{World, settings};
use crate::support::{apiserver, until};

async fn create<K: operator::apply::Object>(world: &World, name: String, spec: Value) {
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name }, "spec": spec,
    });
    let object: K = serde_json::from_value(object).unwrap();
    world.api::<K>().create(&PostParams::default(), &object).await.unwrap();
}

/// Requests that the API server has served, watches and this very question aside. Its own are among them.
async fn requests(world: &World) -> f64 {
    // With the comma, as nearly all of them have no subresource.
    served(world, |labels| !labels.contains(r#",resource="""#) && !labels.contains(r#"verb="WATCH""#)).await
}

/// What it has served that concerns streams and consumers or tells about them: statuses, events, and other writes.
async fn writes(world: &World) -> (f64, f64, f64) {
    let reads = [r#"verb="GET""#, r#"verb="LIST""#, r#"verb="WATCH""#];
    let is_write = |labels: &str| !reads.iter().any(|read| labels.contains(read));
    let is_own =
        |labels: &str| labels.contains(r#"resource="streams""#) || labels.contains(r#"resource="consumers""#);
    let is_status = |labels: &str| labels.contains(r#"subresource="status""#);
    let statuses = served(world, |labels| is_own(labels) && is_write(labels) && is_status(labels)).await;
    let others = served(world, |labels| is_own(labels) && is_write(labels) && !is_status(labels)).await;
    let events = served(world, |labels| labels.contains(r#"resource="events""#) && is_write(labels)).await;
    (statuses, events, others)
}

async fn served(world: &World, wanted: impl Fn(&str) -> bool) -> f64 {
    let text = world.client.request_text(http_request("/metrics")).await.unwrap();
    let counts = text.lines().filter(|line| line.starts_with("apiserver_request_total{") && wanted(line));
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
async fn many_objects_cost_a_few_requests_each_when_they_are_made_and_next_to_none_later() {
    const STREAMS: usize = 50;
    const CONSUMERS: usize = 100;
    const OBJECTS: usize = STREAMS + CONSUMERS;
    let broker = Broker::start().await;
    let mut world = World::empty().await;
    account(&world, "main", &broker).await;
    let (client, requests) = apiserver::operator_that_counts().await;
    let passes_of = |context: &Context| {
        let reconciles = context.metrics.reconciles.clone();
        move || -> usize {
            let of = |kind: &&str| reconciles.with_label_values(&[*kind, "success"]).get();
            usize::try_from(["Stream", "Consumer"].iter().map(of).sum::<u64>()).unwrap()
        }
    };
    let first = Context::new(client.clone(), settings(&world.namespace), Metrics::new().unwrap(), None);
    let passes = passes_of(&first);
    world.run_operator(Arc::new(first));
    create_all(&world, STREAMS, CONSUMERS).await;
    until("all to be ready", async || are_ready(&world, STREAMS, CONSUMERS).await.then_some(())).await;
    let (made, written) = (requests.all(), requests.statuses());
    // A finalizer, a status and an event; a consumer that comes in the moment between the last streams in line and their end waits for its
    // own, with a status, an event and a look before the write. The rest is for watches, rights, logins and numbers that are new.
    assert!(made < 4 * OBJECTS + 100, "{made} requests to the API server to make {OBJECTS} objects");
    assert!(written < 3 * OBJECTS / 2, "{written} statuses to make {OBJECTS} objects");
    assert!(passes() < 20 * OBJECTS, "{} passes to make {OBJECTS} objects", passes());
    world.kill_operator();

    // The next one finds everything as it should be, and looks every second. Numbers that are new wait for their turn to be written, two a
    // second; then there is nothing to write.
    let often = Settings { sync_interval: Duration::from_secs(1), ..settings(&world.namespace) };
    let second = Context::new(client, often, Metrics::new().unwrap(), None);
    let passes = passes_of(&second);
    world.run_operator(Arc::new(second));
    let (mut written, mut settled) = (requests.statuses(), passes() + 3 * OBJECTS);
    until("the numbers of things that nobody uses to rest", async || {
        if requests.statuses() != written {
            (written, settled) = (requests.statuses(), passes() + 3 * OBJECTS);
        }
        (passes() >= settled).then_some(())
    })
    .await;
    let (before, from) = (requests.all(), passes());
    until("more passes", async || (passes() >= from + 10 * OBJECTS).then_some(())).await;
    let made = requests.all() - before;
    assert!(made < 100, "{made} requests to the API server in {} passes", passes() - from);
    assert_eq!(requests.statuses(), written, "a status was written although nothing happened");

    let person = broker.person("a");
    let (before, written) = (requests.all(), requests.statuses());
    for number in 0..5 {
        person.js().delete_stream(&format!("s{number}")).await.unwrap();
    }
    for number in 0..5 {
        let name = format!("s{number}");
        until("the stream to be back", async || person.js().stream(&name).await.unwrap()).await;
    }
    until("its consumers to be back", async || {
        let consumers = person.js().account().await.unwrap().consumers;
        (consumers == i64::try_from(CONSUMERS).unwrap()).then_some(())
    })
    .await;
    until("all to be ready", async || are_ready(&world, STREAMS, CONSUMERS).await.then_some(())).await;
    let (made, written) = (requests.all() - before, requests.statuses() - written);
    // Five streams, and the two consumers that each of them had. One is missed, made and found again, and the numbers of a stream change
    // with its consumers; a look before each write and events come on top, and what the Account asks for meanwhile.
    assert!(written < 4 * 15, "{written} statuses written for fifteen things that were gone");
    assert!(made < 10 * 15 + 50, "{made} requests to the API server for fifteen things that were gone");
}

/// Objects whose state on the server somebody changes in a minute.
const DRIFT: usize = 20;

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

/// An operator in a process of its own, the folder that it reads how to reach the API server from, and where its figures are.
fn operator_apart(server: &Apiserver, world: &World) -> (Child, tempfile::TempDir, SocketAddr) {
    let figures = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.operator_kubeconfig()).unwrap();
    let program =
        std::env::var_os("MYELIN_OPERATOR").unwrap_or_else(|| env!("CARGO_BIN_EXE_myelin-operator").into());
    let operator = Command::new(program)
        .args(["--metrics-addr", &figures.to_string(), "--watch-namespaces", &world.namespace])
        .env("KUBECONFIG", kubeconfig)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    (operator, folder, figures)
}

/// Streams and consumers that an operator has looked at and found ready.
async fn seen_ready(figures: SocketAddr) -> Option<usize> {
    let mut socket = TcpStream::connect(figures).await.ok()?;
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    let is_ready = |line: &&str| {
        line.starts_with("natsop_object_ready{")
            && line.ends_with(" 1")
            && (line.contains(r#"kind="Stream""#) || line.contains(r#"kind="Consumer""#))
    };
    Some(answer.lines().filter(is_ready).count())
}

/// Ends the operator and starts another, which finds everything as it should be: returns how long it took to see that.
async fn start_again(
    server: &Apiserver,
    world: &World,
    mut operator: Child,
    objects: usize,
) -> (Duration, Child, tempfile::TempDir) {
    operator.kill().await.unwrap();
    let (next, folder, figures) = operator_apart(server, world);
    let started = Instant::now();
    until("the next operator to have looked at everything", async || {
        (seen_ready(figures).await? >= objects).then_some(())
    })
    .await;
    (started.elapsed(), next, folder)
}

/// How long a stream that somebody deletes on the server is away.
async fn back_after(person: &Person, name: &str) -> Duration {
    let since = Instant::now();
    person.js().delete_stream(name).await.unwrap();
    until("the stream to be back", async || person.js().stream(name).await.unwrap()).await;
    since.elapsed()
}

/// Somebody changes so many streams on the server.
async fn change_by_hand(person: &Person, numbers: RangeFrom<usize>) {
    for number in numbers.take(DRIFT) {
        let name = format!("s{number}");
        let mut config = person.js().stream_fields(&name).await.unwrap();
        config.insert("description".to_owned(), "by hand".into());
        person.js().put_stream("UPDATE", &name, &config).await.unwrap();
    }
}

/// Requests a second in each of so many minutes.
async fn rates(world: &World, count: usize, mut each: impl AsyncFnMut(usize)) -> Vec<f64> {
    let mut rates = Vec::new();
    let (mut before, mut at) = (requests(world).await, Instant::now());
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.tick().await;
    for minute in 0..count {
        each(minute).await;
        minutes.tick().await;
        let now = requests(world).await;
        rates.push((now - before) / at.elapsed().as_secs_f64());
        (before, at) = (now, Instant::now());
    }
    rates
}

#[tokio::test]
#[ignore = "takes a quarter of an hour; run it by name and alone"]
async fn thousands_of_objects_cost_little_while_nothing_happens() {
    let (streams, consumers) = numbers();
    let broker = Broker::start().await;
    let server = Apiserver::start().await;
    let world = World::on(server.admin().await).await;
    account(&world, "main", &broker).await;
    let alone = rates(&world, 1, async |_| ()).await[0];
    let (operator, _folder, _) = operator_apart(&server, &world);
    let process = operator.id().unwrap();
    let started = Instant::now();
    create_all(&world, streams, consumers).await;
    println!("made in {:?}", started.elapsed());
    let last = Instant::now();
    let person = broker.person("a");
    let there = until("some streams to be there", async || {
        person.js().streams(|_| true).await.unwrap().pop().map(|info| info.config.name)
    });
    let made = back_after(&person, &there.await).await;
    println!("a stream that was deleted by hand while the others were made was back after {made:?}");
    let mut looks = tokio::time::interval(Duration::from_secs(10));
    while !are_ready(&world, streams, consumers).await {
        assert!(started.elapsed() < Duration::from_secs(1_800), "not all are ready");
        looks.tick().await;
    }
    println!("all ready {:?} after the last was made", last.elapsed());
    let settling = back_after(&person, "s6").await;
    println!("one that was deleted when all were ready was back after {settling:?}");
    let (statuses, events, others) = writes(&world).await;
    println!(
        "{:.0} requests for {} objects, of which {statuses:.0} statuses, {events:.0} events, {others:.0} other writes",
        requests(&world).await,
        streams + consumers
    );
    // The first two minutes still have what follows from the last writes.
    let idle = rates(&world, 4, async |_| ()).await;
    let memory = resident_mebibytes(process);
    println!(
        "requests a second, the API server alone {alone:.1}, in each idle minute {idle:.1?}; {memory} MiB"
    );

    let idling = back_after(&person, "s7").await;
    println!("one that was deleted later was back after {idling:?}");
    let drifting =
        rates(&world, 2, async |minute| change_by_hand(&person, 10 + minute * DRIFT..).await).await;
    let after = resident_mebibytes(process);
    println!("requests a second with {DRIFT} changes by hand in each minute: {drifting:.1?}; {after} MiB");
    let before = writes(&world).await;
    let (took, next, _folder) = start_again(&server, &world, operator, streams + consumers).await;
    let now = writes(&world).await;
    let (written, told, others) = (now.0 - before.0, now.1 - before.1, now.2 - before.2);
    let again = resident_mebibytes(next.id().unwrap());
    println!(
        "started again, all seen after {took:?} with {written:.0} statuses, {told:.0} events, {others:.0} other writes; {again} MiB"
    );
    assert!(idle[2..].iter().all(|rate| *rate < 5.0), "{idle:?}");
    assert!(memory < 200 && after < 200 && again < 200, "{memory} MiB, {after} MiB, {again} MiB");
    // Numbers that were still waiting for their turn, two a second.
    let numbers = 2.0f64.mul_add(took.as_secs_f64(), 30.0);
    assert!(written < numbers, "{written} statuses although nothing but numbers was new");
    assert!(told + others < 1.0, "{told} events and {others} writes although nothing had happened");
    for back in [made, settling, idling] {
        assert!(back < Duration::from_secs(10), "{back:?}");
    }
}
