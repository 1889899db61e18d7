//! One message in flight for each subject: subjects are worked on side by side, messages of one subject one after the other. The reference
//! has no such option.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::jetstream::{CONFIG, JetStream, ack_subject};
use testkit::{Builder, Message, Server};

use crate::target;

/// Messages of the long test, and their subjects.
const MESSAGES: usize = 300;
const SUBJECTS: usize = 7;
/// The server is killed after so many acknowledgements, again and again.
const KILL_EVERY: usize = 70;

/// A server with a stream and a consumer that holds back. `None` if the server is not ours.
async fn with_consumer(limit: i64) -> Option<(Server, JetStream)> {
    if !target().is_myelin() {
        return None;
    }
    let server = Builder::new(&target()).config(CONFIG).start().await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "S", "subjects": ["s.*"]})).await;
    js.consumer("S", consumer(limit)).await;
    Some((server, js))
}

fn consumer(limit: i64) -> Value {
    json!({"durable_name": "c", "ack_policy": "explicit", "max_ack_pending_per_subject": limit})
}

fn payloads(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.payload.as_str()).collect()
}

async fn state(js: &mut JetStream) -> (Value, Value, Value) {
    let info = js.ok("CONSUMER.INFO.S.c", Value::Null).await;
    (info["num_ack_pending"].clone(), info["num_pending"].clone(), info["subjects_ack_pending"].clone())
}

#[tokio::test]
async fn a_busy_subject_does_not_hold_up_others() {
    let Some((mut server, mut js)) = with_consumer(1).await else { return };
    for (subject, body) in [("s.a", "a1"), ("s.a", "a2"), ("s.b", "b1"), ("s.a", "a3"), ("s.c", "c1")] {
        js.publish(subject, body).await;
    }
    let messages = js.fetch("S", "c", 10).await;
    assert_eq!(payloads(&messages), ["a1", "b1", "c1"]);
    assert_eq!(state(&mut js).await, (json!(3), json!(2), json!({"subjects": 3, "held_back": 2})));
    // What was held back is remembered, once it is known to be on stable storage.
    js.request(ack_subject(&messages[2]), "", "+WPI").await;
    server.kill().await;
    server.restart().await;
    js = JetStream::connect(&server).await;
    assert!(js.fetch("S", "c", 10).await.is_empty());
    assert_eq!(state(&mut js).await, (json!(3), json!(2), json!({"subjects": 3, "held_back": 2})));
    js.ack(&messages[0]).await;
    let second = js.fetch("S", "c", 10).await;
    assert_eq!(payloads(&second), ["a2"]);
    // Refused, it comes before those behind it.
    js.request(ack_subject(&second[0]), "", "-NAK").await;
    let again = js.fetch("S", "c", 10).await;
    assert_eq!(payloads(&again), ["a2"]);
    js.request(ack_subject(&again[0]), "", "+TERM").await;
    assert_eq!(payloads(&js.fetch("S", "c", 10).await), ["a3"]);
    // A message that goes makes room too.
    js.publish("s.a", "a4").await;
    js.ok("STREAM.MSG.DELETE.S", json!({"seq": 4})).await;
    assert_eq!(payloads(&js.fetch_wait("S", "c", 1).await), ["a4"]);
}

#[tokio::test]
async fn the_limit_is_checked_and_can_be_changed() {
    let Some((_server, mut js)) = with_consumer(1).await else { return };
    let update = async |js: &mut JetStream, config: Value| {
        let body = json!({"stream_name": "S", "config": config});
        let answer = js.api("CONSUMER.DURABLE.CREATE.S.c", &body).await;
        answer["error"]["description"].as_str().map(str::to_owned)
    };
    let mut above = consumer(6);
    above["max_ack_pending"] = json!(5);
    let refused = |text: &str| Some(format!("consumer max ack pending per subject {text}"));
    assert_eq!(update(&mut js, above).await, refused("must not be above max ack pending"));
    assert_eq!(update(&mut js, consumer(-1)).await, refused("must not be negative"));
    let mut all = consumer(1);
    all["ack_policy"] = json!("all");
    assert_eq!(update(&mut js, all).await, refused("requires explicit ack policy"));
    for number in 1..=5 {
        js.publish("s.a", &number.to_string()).await;
    }
    assert_eq!(payloads(&js.fetch("S", "c", 10).await), ["1"]);
    assert_eq!(update(&mut js, consumer(3)).await, None);
    assert_eq!(payloads(&js.fetch("S", "c", 10).await), ["2", "3"]);
    assert_eq!(update(&mut js, consumer(0)).await, None);
    assert_eq!(payloads(&js.fetch("S", "c", 10).await), ["4", "5"]);
    let info = js.ok("CONSUMER.INFO.S.c", Value::Null).await;
    assert!(info.get("subjects_ack_pending").is_none(), "{info}");
    assert!(info["config"].get("max_ack_pending_per_subject").is_none(), "{info}");
}

/// Answers in any order, refusals and kills: of each subject one is in flight, in the order in which they were published.
#[tokio::test]
async fn each_subject_is_worked_on_in_order() {
    let Some((mut server, mut js)) = with_consumer(1).await else { return };
    for number in 0..MESSAGES {
        js.publish(&format!("s.{}", number * number % SUBJECTS), &number.to_string()).await;
    }
    let mut in_flight: BTreeMap<String, Message> = BTreeMap::new();
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let mut random = 12_345_usize;
    let mut finished = 0;
    while finished < MESSAGES {
        for message in js.fetch("S", "c", SUBJECTS).await {
            let number: usize = message.payload.parse().unwrap();
            let last = done.get(&message.subject);
            assert!(last.is_none_or(|last| *last < number), "{number} after {last:?}");
            let other = in_flight.insert(message.subject.clone(), message);
            assert!(other.is_none(), "{other:?} was in flight too");
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chosen = in_flight.keys().nth((random >> 33) % in_flight.len()).cloned().unwrap();
        let message = in_flight.remove(&chosen).unwrap();
        if (random >> 20).is_multiple_of(5) {
            js.request(ack_subject(&message), "", "-NAK").await;
            continue;
        }
        js.ack(&message).await;
        done.insert(chosen, message.payload.parse().unwrap());
        finished += 1;
        if finished % KILL_EVERY == 0 {
            server.kill().await;
            server.restart().await;
            js = JetStream::connect(&server).await;
        }
    }
    assert_eq!(state(&mut js).await, (json!(0), json!(0), json!({"subjects": 0, "held_back": 0})));
}
