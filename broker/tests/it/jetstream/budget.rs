//! Working memory is bounded: who hoards requests or messages is held back, and everybody else goes on.

use serde_json::{Value, json};
use testkit::jetstream::{JetStream, ack_subject, is_status};
use testkit::{Builder, Server, eventually_ok};

use crate::target;

/// Bytes of working memory; seven eighths of it are for what waits.
const MEMORY: u64 = 2 << 20;
const WAITING_MAX: u64 = MEMORY / 8 * 7;
/// What a stream may deliver in one turn comes on top.
const TURN_BYTES: u64 = 2048 * 96;
/// More than fits.
const MANY: usize = 100_000;

async fn start(memory: u64) -> Server {
    let config =
        format!("server_name: js\njetstream {{ store_dir: \"%DIR%/js\", max_working_memory: {memory} }}");
    Builder::new(&target()).config(&config).monitoring().start().await
}

/// What the page says of working memory; with very much to do the shards may be too busy to tell at first.
async fn memory(server: &Server) -> Value {
    eventually_ok("the page", async || {
        let page = server.get("/jsz").await;
        if page.status == 200 { Ok(page.json()["working_memory"].clone()) } else { Err(page.body) }
    })
    .await
}

fn number(memory: &Value, name: &str) -> u64 {
    memory[name].as_u64().unwrap()
}

async fn fill(client: &mut JetStream, messages: usize) {
    client.stream(json!({"name": "S", "subjects": ["s"], "storage": "memory", "max_consumers": -1})).await;
    for _ in 0..messages / 10_000 {
        client.client.send("PUB s 1\r\nx\r\n".repeat(10_000)).await;
        client.publish("s", "x").await;
    }
}

#[tokio::test]
async fn requests_beyond_the_bound_are_refused_and_others_go_on() {
    if !target().is_myelin() {
        return;
    }
    let server = start(MEMORY).await;
    let mut client = JetStream::connect(&server).await;
    client.stream(json!({"name": "S", "subjects": ["s"], "storage": "memory"})).await;
    let config = json!({"durable_name": "HOG", "ack_policy": "explicit", "max_waiting": MANY});
    client.consumer("S", config).await;
    client.consumer("S", json!({"durable_name": "C", "ack_policy": "explicit"})).await;
    let mut hog = JetStream::over(testkit::Client::ready(&server).await, "hog").await;
    let body = r#"{"batch":1,"expires":600000000000}"#;
    let pull = format!("PUB $JS.API.CONSUMER.MSG.NEXT.S.HOG _INBOX.hog.x {}\r\n{body}\r\n", body.len());
    for _ in 0..MANY / 1_000 {
        hog.client.send(pull.repeat(1_000)).await;
    }
    let refusal = hog.client.message().await;
    assert_eq!(refusal.headers, "NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n");
    let used = eventually_ok("all requests to be seen", async || {
        let used = memory(&server).await;
        let seen = number(&used, "pull_requests") + number(&used, "refused");
        if seen == MANY as u64 { Ok(used) } else { Err(used) }
    })
    .await;
    assert_eq!(number(&used, "max"), MEMORY);
    assert!(number(&used, "waiting") <= WAITING_MAX + 512, "{used}");
    assert!(number(&used, "pull_requests") > 1_000, "{used}");
    client.publish("s", "x").await;
    assert_eq!(client.fetch("S", "C", 1).await.len(), 1);
    client.ok("CONSUMER.DELETE.S.HOG", Value::Null).await;
    let used = memory(&server).await;
    assert!(number(&used, "pull_requests") == 0 && number(&used, "waiting") <= 96, "{used}");
}

#[tokio::test]
async fn messages_beyond_the_bound_are_not_delivered_before_acks_come() {
    if !target().is_myelin() {
        return;
    }
    let server = start(MEMORY).await;
    let mut client = JetStream::connect(&server).await;
    fill(&mut client, MANY).await;
    let mut hog = JetStream::over(testkit::Client::ready(&server).await, "hog").await;
    let config = json!({"durable_name": "HOG", "ack_policy": "all", "max_ack_pending": -1});
    hog.consumer("S", config).await;
    let body = json!({"batch": MANY, "expires": 600_000_000_000_u64}).to_string();
    hog.send("$JS.API.CONSUMER.MSG.NEXT.S.HOG", "_INBOX.hog.x", "", &body).await;
    let mut got = 0;
    let used = eventually_ok("the consumer to be held", async || {
        got += hog.client.drain().await.len();
        let used = memory(&server).await;
        if number(&used, "held") > 0 { Ok(used) } else { Err(used) }
    })
    .await;
    assert!(number(&used, "waiting") <= WAITING_MAX + TURN_BYTES, "{used}");
    assert!(number(&used, "caches") <= MEMORY / 4, "{used}");
    assert!(number(&used, "ack_pending") < MANY as u64 / 2, "{used}");
    client.consumer("S", json!({"durable_name": "C", "ack_policy": "explicit"})).await;
    assert_eq!(client.fetch("S", "C", 100).await.len(), 100);
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.contains("\nmyelin_jetstream_waiting_acks"), "{metrics}");
    while got < MANY / 2 {
        let message = hog.client.message().await;
        assert!(!is_status(&message), "{message:?}");
        got += 1;
        if got % 100 == 0 {
            let ack = ack_subject(&message).to_owned();
            hog.client.publish(&ack, "").await;
        }
    }
}

#[tokio::test]
async fn a_reload_gives_more_memory() {
    if !target().is_myelin() {
        return;
    }
    let mut server = start(MEMORY).await;
    assert_eq!(number(&memory(&server).await, "max"), MEMORY);
    let config = format!(
        "server_name: js\njetstream {{ store_dir: \"%DIR%/js\", max_working_memory: {} }}",
        4 * MEMORY
    );
    server.reload(&config).await.unwrap();
    assert_eq!(number(&memory(&server).await, "max"), 4 * MEMORY);
}
