//! Copies of streams that are not sent, and archives that are not taken: nothing of them is left.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::Server;
use testkit::jetstream::{self, JetStream};

use super::snapshot::{fill, fill_with_noise, messages, offer, put, send, take};
use crate::target;

#[tokio::test]
async fn requests_are_refused() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "S", "subjects": ["s"]})).await;
    js.publish("s", "x").await;
    let copy = take(&mut js, "S", json!({})).await;
    let state = json!({"messages": 0});
    for (subject, body, code) in [
        ("STREAM.SNAPSHOT.X", json!({"deliver_subject": "d"}), 10059),
        ("STREAM.SNAPSHOT.S", Value::Null, 10003),
        ("STREAM.SNAPSHOT.S", json!({"deliver_subject": ""}), 10015),
        ("STREAM.SNAPSHOT.S", json!({"deliver_subject": "a.*"}), 10015),
        ("STREAM.SNAPSHOT.S", json!({"deliver_subject": ">"}), 10015),
        ("STREAM.SNAPSHOT.S", json!({"deliver_subject": "d", "other": 1}), 10025),
        ("STREAM.RESTORE.T", Value::Null, 10003),
        ("STREAM.RESTORE.T", json!({"config": {"name": "S"}, "state": state}), 10056),
        ("STREAM.RESTORE.T", json!({"config": {"name": "../T"}, "state": state}), 10056),
        ("STREAM.RESTORE.a/b", json!({"config": {"name": "a/b"}, "state": state}), 10128),
        ("STREAM.RESTORE.T", json!({"config": {"name": "T", "num_replicas": 9}, "state": state}), 10052),
        ("STREAM.RESTORE.T", json!({"config": {"name": "T", "x": 9}, "state": state}), 10025),
        ("STREAM.RESTORE.S", json!({"config": copy.config, "state": copy.state}), 10130),
    ] {
        let answer = js.api(subject, &body).await;
        assert_eq!(answer["error"]["err_code"], code, "{subject} {body}: {answer}");
    }
}

/// Directories of streams on disk.
fn directories(server: &Server) -> usize {
    std::fs::read_dir(server.dir().join("js/jetstream/streams")).unwrap().count()
}

#[tokio::test]
async fn a_restore_that_fails_leaves_nothing() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js, "ALL", "file").await;
    let mut copy = take(&mut js, "ALL", json!({})).await;
    js.ok("STREAM.DELETE.ALL", Value::Null).await;
    let whole = copy.archive.clone();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x40;
    // One without its end, one without a bit, one that is none, and none at all.
    for archive in [&whole[..whole.len() - 3], &damaged, b"not an archive", b""] {
        copy.archive = archive.to_vec();
        let answer = put(&mut js, "ALL", &copy, 1000).await;
        assert_eq!(answer["error"]["err_code"], 10062, "{answer}");
        assert_eq!(answer["type"], "io.nats.jetstream.api.v1.stream_create_response");
        let description = answer["error"]["description"].as_str().unwrap();
        assert!(description.starts_with("restore failed: "), "{description}");
        if target().is_myelin() {
            let info = js.api("STREAM.INFO.ALL", &Value::Null).await;
            assert_eq!((&info["error"]["err_code"], directories(&server)), (&json!(10059), 0));
        } else {
            // The reference keeps what had come.
            js.api("STREAM.DELETE.ALL", &Value::Null).await;
        }
    }
    let account = js.ok("INFO", Value::Null).await;
    assert_eq!((&account["storage"], &account["consumers"]), (&json!(0), &json!(0)));
    copy.archive = whole;
    assert!(put(&mut js, "ALL", &copy, 1000).await.get("error").is_none());
}

#[tokio::test]
async fn a_client_that_stops_sending_is_given_up() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js, "ALL", "file").await;
    let copy = take(&mut js, "ALL", json!({})).await;
    js.ok("STREAM.DELETE.ALL", Value::Null).await;
    let subject = offer(&mut js, "ALL", &copy).await;
    let half = copy.archive.len() / 2;
    assert_eq!(send(&mut js, &subject, &copy.archive[..half]).await, "");
    assert!(js.client.next_within(Duration::from_millis(5500)).await.is_none());
    let answer = send(&mut js, &subject, &copy.archive[half..]).await;
    assert!(answer.starts_with("NATS/1.0 503"), "{answer}");
    if target().is_myelin() {
        let info = js.api("STREAM.INFO.ALL", &Value::Null).await;
        assert_eq!((&info["error"]["err_code"], directories(&server)), (&json!(10059), 0));
    } else {
        js.api("STREAM.DELETE.ALL", &Value::Null).await;
    }
    // A chunk without a reply subject is the end too.
    let subject = offer(&mut js, "ALL", &copy).await;
    js.client.publish(&subject, "x").await;
    js.client.flush().await;
    let answer = send(&mut js, &subject, b"x").await;
    assert!(answer.starts_with("NATS/1.0 503"), "{answer}");
}

#[tokio::test]
async fn of_two_restores_of_one_name_one_wins() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js, "ALL", "file").await;
    let copy = take(&mut js, "ALL", json!({})).await;
    js.ok("STREAM.DELETE.ALL", Value::Null).await;
    let (first, second) = (offer(&mut js, "ALL", &copy).await, offer(&mut js, "ALL", &copy).await);
    let mut answers = Vec::new();
    for subject in [&first, &second] {
        let mut answer = send(&mut js, subject, &copy.archive).await;
        if answer.is_empty() {
            answer = send(&mut js, subject, b"").await;
        }
        answers.push(serde_json::from_str::<Value>(&answer).unwrap());
    }
    assert!(answers[0].get("error").is_none(), "{}", answers[0]);
    assert_eq!(answers[1]["error"]["err_code"], 10130, "{}", answers[1]);
    assert_eq!(messages(&mut js, "ALL").await.len(), 34);
    if target().is_myelin() {
        assert_eq!(directories(&server), 1);
    }
}

#[tokio::test]
async fn what_a_crash_leaves_of_a_restore_is_removed() {
    if !target().is_myelin() {
        return;
    }
    let mut server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js, "ALL", "file").await;
    let copy = take(&mut js, "ALL", json!({})).await;
    js.stream(json!({"name": "KEPT", "subjects": ["kept"]})).await;
    js.publish("kept", "x").await;
    js.ok("STREAM.DELETE.ALL", Value::Null).await;
    let subject = offer(&mut js, "ALL", &copy).await;
    assert_eq!(send(&mut js, &subject, &copy.archive[..copy.archive.len() - 1]).await, "");
    assert_eq!(directories(&server), 2);
    server.kill().await;
    server.restart().await;
    assert_eq!(directories(&server), 1);
    let mut js = JetStream::connect(&server).await;
    assert_eq!(js.ok("STREAM.NAMES", Value::Null).await["streams"], json!(["KEPT"]));
    assert!(put(&mut js, "ALL", &copy, 1000).await.get("error").is_none());
    server.stop().await;
    server.restart().await;
    let mut js = JetStream::connect(&server).await;
    assert_eq!(js.ok("STREAM.NAMES", Value::Null).await["streams"], json!(["ALL", "KEPT"]));
}

#[tokio::test]
async fn an_account_takes_no_more_than_it_may_hold() {
    let config = "server_name: js\njetstream { store_dir: \"%DIR%/js\" }\n\
        accounts { A { jetstream: { max_file: 20000 }, users: [{user: a, password: a}] }, \
        B { jetstream: enabled, users: [{user: b, password: b}] } }\n";
    let server = testkit::Builder::new(&target()).config(config).start().await;
    let mut big = JetStream::user(&server, "b", "b").await;
    fill_with_noise(&mut big).await;
    let copy = take(&mut big, "N", json!({})).await;
    let mut small = JetStream::user(&server, "a", "a").await;
    let answer = put(&mut small, "N", &copy, 1000).await;
    assert_eq!(answer["error"]["err_code"], 10047, "{answer}");
    let account = small.ok("INFO", Value::Null).await;
    assert_eq!((&account["storage"], &account["streams"]), (&json!(0), &json!(0)));
    // Another account's chunks are nobody's.
    let subject = offer(&mut small, "N", &copy).await;
    assert!(send(&mut big, &subject, b"x").await.starts_with("NATS/1.0 503"));
}
