//! Sequences that are very far away, and the end of numbers: no request leads a stream there, and what lies between costs nothing.

use serde_json::{Value, json};
use testkit::jetstream::{CONFIG, JetStream, delivery, server};
use testkit::{Builder, Message, Server};

use crate::target;

/// A sequence far behind all that was stored.
const FAR: u64 = 1_000_000_000_000;
/// Highest sequence that a stream of ours can be led to.
const LAST: u64 = 1 << 62;

async fn state(js: &mut JetStream, stream: &str) -> Value {
    js.ok(&format!("STREAM.INFO.{stream}"), Value::Null).await["state"].clone()
}

/// Number of messages, and between which sequences.
async fn range(js: &mut JetStream, stream: &str) -> (u64, u64, u64) {
    let state = state(js, stream).await;
    let number = |name: &str| state[name].as_u64().unwrap();
    (number("messages"), number("first_seq"), number("last_seq"))
}

async fn restart(server: &mut Server) -> JetStream {
    server.kill().await;
    server.restart().await;
    JetStream::connect(server).await
}

fn sequences(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| delivery(message).stream_sequence).collect()
}

/// O70: a stream jumps ahead below its consumers, which were at its beginning, and a mirror that has something follows over the gap.
#[tokio::test]
async fn a_jump_over_very_many_sequences_costs_nothing() {
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    for (name, retention) in [("L", "limits"), ("I", "interest"), ("W", "workqueue")] {
        js.stream(json!({"name": name, "subjects": [format!("{name}.*")], "retention": retention})).await;
        js.consumer(name, json!({"durable_name": "c", "ack_policy": "explicit"})).await;
        for subject in ["a", "b"] {
            js.publish(&format!("{name}.{subject}"), "before").await;
        }
        // One is pending when it goes.
        assert_eq!(sequences(&js.fetch_wait(name, "c", 1).await), [1]);
    }
    js.stream(json!({"name": "M", "mirror": {"name": "L"}})).await;
    js.until("STREAM.INFO.M", "the copy", |info| info["state"]["messages"] == 2).await;
    for name in ["L", "I", "W"] {
        js.ok(&format!("STREAM.PURGE.{name}"), json!({"seq": FAR})).await;
        assert_eq!(js.publish(&format!("{name}.a"), "after").await, FAR);
    }
    js.until("STREAM.INFO.M", "the jump", |info| info["state"]["last_seq"] == FAR).await;
    js = restart(&mut server).await;
    assert_eq!(range(&mut js, "M").await, (3, 1, FAR));
    for name in ["L", "I", "W"] {
        assert_eq!(range(&mut js, name).await, (1, FAR, FAR));
        let messages = js.fetch_wait(name, "c", 1).await;
        assert_eq!(sequences(&messages), [FAR]);
        js.ack(&messages[0]).await;
        let info = js.ok(&format!("CONSUMER.INFO.{name}.c"), Value::Null).await;
        assert_eq!(info["ack_floor"]["stream_seq"], FAR, "{info}");
        assert_eq!((&info["num_ack_pending"], &info["num_pending"]), (&json!(0), &json!(0)), "{info}");
        assert_eq!(js.publish(&format!("{name}.b"), "after").await, FAR + 1);
    }
    // The gap can be asked about from either end.
    let found = js.ok("STREAM.MSG.GET.M", json!({"seq": 3, "next_by_subj": "L.a"})).await;
    assert_eq!(found["message"]["seq"], FAR);
    let missing = js.api("STREAM.MSG.GET.M", &json!({"seq": FAR / 2})).await;
    assert_eq!(missing["error"]["err_code"], 10037, "{missing}");
}

/// What would lead a stream to where numbers end is refused, and a stream at the last of its sequences takes nothing more.
#[tokio::test]
async fn no_stream_gets_to_the_end_of_numbers() {
    if !target().is_myelin() {
        // The reference counts on from zero.
        return;
    }
    let mut server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "P", "subjects": ["p"], "allow_atomic": true})).await;
    js.publish("p", "x").await;
    for above in [LAST + 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX] {
        let config = json!({"name": "F", "subjects": ["f"], "first_seq": above});
        let created = js.api("STREAM.CREATE.F", &config).await;
        assert_eq!(created["error"]["err_code"], 10052, "{created}");
        for filter in ["", ">"] {
            let purged = js.api("STREAM.PURGE.P", &json!({"seq": above, "filter": filter})).await;
            assert_eq!(purged["error"]["err_code"], 10110, "{purged}");
        }
        assert_eq!(range(&mut js, "P").await, (1, 1, 1));
    }
    // Of one subject everything below may go, however far that is.
    js.ok("STREAM.PURGE.P", json!({"seq": u64::MAX, "filter": "p"})).await;
    assert_eq!(js.publish("p", "x").await, 2);
    js.stream(json!({"name": "F", "subjects": ["f"], "first_seq": LAST - 1})).await;
    js.consumer("F", json!({"durable_name": "c", "ack_policy": "explicit"})).await;
    js.ok("STREAM.PURGE.P", json!({"seq": LAST - 1})).await;
    for (name, subject) in [("F", "f"), ("P", "p")] {
        assert_eq!((js.publish(subject, "x").await, js.publish(subject, "x").await), (LAST - 1, LAST));
        for _ in 0..2 {
            for headers in [&[][..], &[("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "1")][..]] {
                let refused = js.publish_with(subject, headers, "x").await;
                assert_eq!(refused["error"]["err_code"], 10077, "{name}: {refused}");
            }
            assert_eq!(range(&mut js, name).await, (2, LAST - 1, LAST));
            js = restart(&mut server).await;
        }
    }
    let messages = js.fetch_wait("F", "c", 2).await;
    assert_eq!(sequences(&messages), [LAST - 1, LAST]);
    js.ack(&messages[0]).await;
    js.ack(&messages[1]).await;
    js = restart(&mut server).await;
    let info = js.ok("CONSUMER.INFO.F.c", Value::Null).await;
    assert_eq!(info["ack_floor"]["stream_seq"], LAST, "{info}");
}

/// A mirror or a source may be told to begin anywhere; where no stream has sequences, it says so and goes nowhere.
#[tokio::test]
async fn a_copy_does_not_begin_at_the_end_of_numbers() {
    if !target().is_myelin() {
        return;
    }
    let server = server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "O", "subjects": ["o"]})).await;
    js.publish("o", "x").await;
    js.stream(json!({"name": "M", "mirror": {"name": "O", "opt_start_seq": u64::MAX}})).await;
    js.stream(json!({"name": "S", "sources": [{"name": "O", "opt_start_seq": u64::MAX}]})).await;
    js.until("STREAM.INFO.M", "what is wrong", |info| info["mirror"]["error"]["err_code"] == 10029).await;
    js.until("STREAM.INFO.S", "what is wrong", |info| info["sources"][0]["error"]["err_code"] == 10045).await;
    for name in ["M", "S"] {
        assert_eq!(range(&mut js, name).await, (0, 0, 0));
    }
    assert_eq!(js.publish("o", "x").await, 2);
}

/// Consumers may begin, or begin again, behind everything, and acknowledgements may name what never was.
#[tokio::test]
async fn consumers_bear_sequences_at_the_end_of_numbers() {
    let server = server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "S", "subjects": ["s"]})).await;
    js.publish("s", "1").await;
    for policy in ["explicit", "all"] {
        for far in [LAST, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX] {
            let start = json!({"durable_name": "c", "ack_policy": policy,
                "deliver_policy": "by_start_sequence", "opt_start_seq": far});
            js.consumer("S", start).await;
            assert!(js.fetch("S", "c", 1).await.is_empty());
            js.ok("CONSUMER.DELETE.S.c", Value::Null).await;
            js.consumer("S", json!({"durable_name": "c", "ack_policy": policy})).await;
            let message = js.fetch_wait("S", "c", 1).await.remove(0);
            for answer in ["-NAK", "+WPI", "+TERM", ""] {
                for numbers in [format!("1.{far}.1"), format!("{far}.{far}.{far}")] {
                    js.client.publish(&format!("$JS.ACK.S.c.{numbers}.{far}.{far}"), answer).await;
                }
            }
            let info = js.ok("CONSUMER.INFO.S.c", Value::Null).await;
            assert_eq!((&info["num_ack_pending"], &info["ack_floor"]["stream_seq"]), (&json!(1), &json!(0)));
            js.ack(&message).await;
            let info = js.ok("CONSUMER.INFO.S.c", Value::Null).await;
            assert_eq!((&info["num_ack_pending"], &info["ack_floor"]["stream_seq"]), (&json!(0), &json!(1)));
            js.ok("CONSUMER.DELETE.S.c", Value::Null).await;
        }
    }
}
