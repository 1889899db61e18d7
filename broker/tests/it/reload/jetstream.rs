//! What a reload changes of JetStream.

use serde_json::{Value, json};
use testkit::jetstream::{JetStream, is_status};
use testkit::{Builder, Server};

use crate::target;

/// A server with three accounts; the text stands where their `jetstream` stands, and in the server's block.
fn config(block: &str, [a, b, c]: [&str; 3]) -> String {
    format!(
        "server_name: js
        jetstream {{ store_dir: \"%DIR%/js\", {block} }}
        accounts {{
            A {{ {a} users: [{{user: a, password: a}}] }}
            B {{ {b} users: [{{user: b, password: b}}] }}
            C {{ {c} users: [{{user: c, password: c}}] }}
            $SYS {{ users: [{{user: s, password: s}}] }}
        }}"
    )
}

const ON: &str = "jetstream: true,";

async fn start(config: &str) -> Server {
    Builder::new(&target()).config(config).monitoring().start().await
}

#[tokio::test]
async fn limits_of_the_server_and_of_accounts_follow_the_file() {
    let mut server = start(&config("max_mem: 100M, max_file: 100M", [ON, ON, ""])).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S", "subjects": ["s"], "storage": "file"})).await;
    let block = "max_mem: 100M, max_file: 200M, limits { max_ack_pending: 7 }";
    let limited = "jetstream { max_streams: 1, max_store: 5M },";
    server.reload(&config(block, [limited, ON, ""])).await.unwrap();
    let page = server.get_json("/jsz?acc=A").await;
    assert_eq!(
        (&page["config"]["max_storage"], &page["config"]["max_memory"]),
        (&json!(200_000_000), &json!(100_000_000))
    );
    assert_eq!(page["limits"]["max_ack_pending"], 7);
    assert_eq!(page["account_details"][0]["reserved_storage"], 5_000_000);
    let refused = client.api("STREAM.CREATE.T", &json!({"name": "T", "subjects": ["t"]})).await;
    assert_eq!(refused["error"]["err_code"], 10027, "{refused}");
    let info = client.ok("INFO", Value::Null).await;
    assert_eq!(
        (&info["limits"]["max_streams"], &info["limits"]["max_storage"]),
        (&json!(1), &json!(5_000_000))
    );
    let many = json!({"stream_name": "S",
        "config": {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": 8}});
    let refused = client.api("CONSUMER.DURABLE.CREATE.S.C", &many).await;
    assert_eq!(refused["error"]["err_code"], 10121, "{refused}");
    assert_eq!(client.publish("s", "x").await, 1);
}

#[tokio::test]
async fn what_a_running_server_cannot_change_is_refused() {
    let mut server = start(&config("max_mem: 100M, max_file: 100M", [ON, "", ""])).await;
    for (block, text) in [
        ("max_mem: 50M, max_file: 100M", "decreasing jetstream max memory and store"),
        ("max_mem: 100M, max_file: 100M, domain: other", "JetStreamDomain: old=, new=other"),
        ("max_mem: 100M, max_file: 100M, strict: false", "NoJetStreamStrict: old=false, new=true"),
        (
            "max_mem: 100M, max_file: 100M, request_queue_limit: 5",
            "JetStreamRequestQueueLimit: old=10000, new=5",
        ),
    ] {
        let error = server.reload(&config(block, [ON, "", ""])).await.unwrap_err();
        assert!(error.contains(&format!("config reload not supported for {text}")), "{block}: {error}");
    }
    if target().is_myelin() {
        let error = server.reload("server_name: js").await.unwrap_err();
        assert!(error.contains("JetStream"), "{error}");
    }
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S", "subjects": ["s"]})).await;
}

#[tokio::test]
async fn an_account_gains_jetstream() {
    let mut server = start(&config("max_mem: 100M", [ON, "", ""])).await;
    let mut client = JetStream::user(&server, "c", "c").await;
    assert_eq!(client.api("INFO", &Value::Null).await["error"]["err_code"], 10039);
    server.reload(&config("max_mem: 100M", [ON, "", ON])).await.unwrap();
    client.until("INFO", "the account has JetStream", |answer| answer.get("error").is_none()).await;
    client.stream(json!({"name": "S", "subjects": ["s"]})).await;
    client.consumer("S", json!({"durable_name": "C", "ack_policy": "explicit"})).await;
    assert_eq!(client.publish("s", "x").await, 1);
    let messages = client.fetch("S", "C", 1).await;
    client.ack(&messages[0]).await;
    assert_eq!(server.get_json("/jsz").await["total"], 2);
}

/// The reference is left out: there a reload that takes JetStream from an account with consumers ends in silence.
#[tokio::test]
async fn an_account_that_loses_jetstream_gets_it_back_with_all_it_had() {
    if !target().is_myelin() {
        return;
    }
    let (with, without) = (config("max_mem: 100M", [ON, ON, ""]), config("max_mem: 100M", ["", ON, ""]));
    let mut server = start(&with).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S", "subjects": ["s"], "storage": "file"})).await;
    client.consumer("S", json!({"durable_name": "C", "ack_policy": "explicit"})).await;
    for number in 1..=5 {
        assert_eq!(client.publish("s", "x").await, number);
    }
    let first = client.fetch("S", "C", 1).await;
    client.ack(&first[0]).await;

    server.reload(&without).await.unwrap();
    client.until("INFO", "it has none", |answer| answer["error"]["err_code"] == 10039).await;
    for subject in ["s", "$JS.API.CONSUMER.MSG.NEXT.S.C"] {
        let answer = client.request(subject, "", "").await;
        assert!(is_status(&answer) && answer.headers.contains("503"), "{subject}: {answer:?}");
    }
    let page = server.get_json("/jsz?accounts=1").await;
    assert_eq!((&page["total"], &page["streams"], &page["messages"]), (&json!(1), &json!(0), &json!(0)));
    assert_eq!(server.get("/healthz").await.status, 200);
    assert_eq!(server.get("/healthz?account=A").await.status, 404);
    let mut other = JetStream::user(&server, "b", "b").await;
    other.stream(json!({"name": "O", "subjects": ["o"]})).await;

    server.reload(&with).await.unwrap();
    client.until("STREAM.INFO.S", "it is back", |answer| answer.get("error").is_none()).await;
    assert_eq!(client.publish("s", "x").await, 6);
    let info = client.ok("CONSUMER.INFO.S.C", Value::Null).await;
    assert_eq!((&info["ack_floor"]["stream_seq"], &info["num_pending"]), (&json!(1), &json!(5)), "{info}");
    assert_eq!(client.fetch("S", "C", 5).await.len(), 5);
}

/// Streams of an account that has no JetStream when the server starts rest, and hold back neither the start nor the log.
#[tokio::test]
async fn streams_of_an_account_without_jetstream_survive_a_restart() {
    if !target().is_myelin() {
        return;
    }
    let (with, without) = (config("max_mem: 100M", [ON, ON, ""]), config("max_mem: 100M", ["", ON, ""]));
    let mut server = start(&with).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S", "subjects": ["s"], "storage": "file"})).await;
    for number in 1..=5 {
        assert_eq!(client.publish("s", "x").await, number);
    }
    server.reload(&without).await.unwrap();
    // Killed, so that what the stream holds is in the log only.
    server.kill().await;
    server.restart().await;
    assert!(
        server.log().contains("account \"A\" has no JetStream: its 1 streams stay on disk"),
        "{}",
        server.log()
    );
    assert_eq!(server.get("/healthz").await.status, 200);
    let mut client = JetStream::user(&server, "a", "a").await;
    let answer = client.request("s", "", "x").await;
    assert!(is_status(&answer) && answer.headers.contains("503"), "the stream rests: {answer:?}");
    server.reload(&with).await.unwrap();
    client.until("STREAM.INFO.S", "it is back", |answer| answer["state"]["messages"] == 5).await;
    assert_eq!(client.publish("s", "x").await, 6);
}
