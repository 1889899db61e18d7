//! `/healthz` with JetStream.

use std::fs;

use serde_json::json;
use testkit::jetstream::JetStream;
use testkit::{Builder, Client, Server};

use super::jsz::ACCOUNTS;
use crate::jetstream::files;
use crate::{monitored, target};

async fn with_stream() -> Server {
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S1", "subjects": ["s1.>"], "storage": "file"})).await;
    client.consumer("S1", json!({"durable_name": "C1", "ack_policy": "explicit"})).await;
    server
}

#[tokio::test]
async fn what_is_asked_for_has_to_be_there() {
    let server = with_stream().await;
    for query in [
        "",
        "js-enabled-only=1",
        "js-server-only=1",
        "js-meta-only=1",
        "account=A",
        "account=A&stream=S1",
        "account=A&stream=S1&consumer=C1",
        "details=1",
        "account=NO&js-server-only=1",
        "account=NO&js-enabled-only=1",
    ] {
        let answer = server.get(&format!("/healthz?{query}")).await;
        assert_eq!((answer.status, answer.body.trim()), (200, "{\"status\":\"ok\"}"), "{query}");
    }
    for (query, status, body) in [
        ("account=NO", 404, json!({"status": "unavailable", "error": "JetStream account \"NO\" not found"})),
        ("account=C", 404, json!({"status": "unavailable", "error": "JetStream account \"C\" not found"})),
        (
            "account=A&stream=NO",
            404,
            json!({"status": "unavailable", "error": "JetStream stream \"NO\" not found on account \"A\""}),
        ),
        (
            "account=A&stream=S1&consumer=NO",
            404,
            json!({"status": "unavailable",
                "error": "JetStream consumer \"NO\" not found for stream \"S1\" on account \"A\""}),
        ),
        (
            "stream=S1",
            400,
            json!({"status": "error", "error": "\"account\" must not be empty when checking stream health"}),
        ),
        (
            "account=A&stream=NO&details=1",
            404,
            json!({"status": "error", "errors": [{"type": "STREAM", "account": "A", "stream": "NO",
                "error": "JetStream stream \"NO\" not found on account \"A\""}]}),
        ),
    ] {
        let answer = server.get(&format!("/healthz?{query}")).await;
        assert_eq!((answer.status, answer.json()), (status, body), "{query}");
    }
    let mut system = Client::user(&server, "s", "s").await;
    system.subscribe("_INBOX.h", "h").await;
    system.request("$SYS.REQ.SERVER.PING.HEALTHZ", "_INBOX.h", "{\"account\":\"NO\"}").await;
    let answer: serde_json::Value = serde_json::from_str(&system.message().await.payload).unwrap();
    assert_eq!(answer["data"]["status_code"], 404, "{answer}");
}

/// What was stored of a stream and cannot be read back is named; the server serves the rest.
#[tokio::test]
async fn damage_is_named_and_does_not_make_the_server_ill() {
    if !target().is_myelin() {
        return;
    }
    let config = "jetstream { store_dir: \"%DIR%/js\" }";
    let mut server = Builder::new(&target()).config(config).monitoring().start().await;
    let mut client = JetStream::connect(&server).await;
    client.stream(json!({"name": "S", "subjects": ["s"], "storage": "file"})).await;
    for _ in 0..50 {
        client.publish("s", &"x".repeat(1000)).await;
    }
    server.stop().await;
    let blocks: Vec<_> = files(&server.dir().join("js/jetstream/streams"))
        .into_iter()
        .filter(|path| fs::metadata(path).unwrap().len() > 20_000)
        .collect();
    assert_eq!(blocks.len(), 1, "{blocks:?}");
    let mut bytes = fs::read(&blocks[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&blocks[0], bytes).unwrap();
    server.restart().await;
    let mut client = JetStream::connect(&server).await;
    // Damage shows at the latest when what is damaged is read.
    for sequence in 1..=50 {
        client.api("STREAM.MSG.GET.S", &json!({"seq": sequence})).await;
    }
    let answer = server.get("/healthz?details=1").await;
    assert_eq!(answer.status, 200);
    let error = answer.json()["errors"][0].clone();
    assert_eq!(
        (&error["type"], &error["account"], &error["stream"]),
        (&json!("STREAM"), &json!("$G"), &json!("S"))
    );
    assert!(
        error["error"].as_str().unwrap().starts_with("JetStream stream '$G > S' is damaged: "),
        "{error}"
    );
    assert_eq!(server.get("/healthz").await.body.trim(), "{\"status\":\"ok\"}");
    let metrics = server.get("/metrics").await.body;
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("myelin_jetstream_damaged_streams{") && line.ends_with(" 1"))
    );
    assert!(client.publish("s", "still there").await > 50);
}
