//! Cases of the bug corpus that one server can show and no other test here is about. Those with few steps are transcripts, with the case as a
//! remark; those that need many rounds or clients are code.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::jetstream::{JetStream, delivery, server};
use testkit::{Client, Message};

use crate::target;

transcripts! { "cases":
    forgotten_placement,
    floors_of_filtered_consumers,
    acks_of_all_on_interest,
    one_of_several_queue_consumers_goes,
    reading_of_markers,
    limit_of_each_stream,
    sources_twice,
    one_for_each_subject_after_a_restart,
    limit_of_the_number,
    deletion_of_no_message,
    answers_to_what_was_not_delivered,
}

/// Clients that create a stream at once.
const CREATORS: usize = 20;
/// Rounds of what has to be right every time.
const ROUNDS: u64 = 300;

async fn connect(server: &testkit::Server, name: &str) -> JetStream {
    JetStream::over(Client::ready(server).await, name).await
}

/// O29: of clients that create one name with two configurations, those with one of the two succeed.
#[tokio::test]
async fn creations_at_once_have_one_winner() {
    let server = server(&target()).await;
    let mut creators = Vec::new();
    for number in 0..CREATORS {
        let mut client = connect(&server, &format!("c{number}")).await;
        creators.push(tokio::spawn(async move {
            let limit = number % 2 + 1;
            let config = json!({"name": "S", "subjects": ["s"], "max_msgs": limit});
            (limit, client.api("STREAM.CREATE.S", &config).await)
        }));
    }
    let mut answers = Vec::new();
    for creator in creators {
        answers.push(creator.await.unwrap());
    }
    let winner = connect(&server, "js").await.api("STREAM.INFO.S", &Value::Null).await["config"]["max_msgs"]
        .as_u64()
        .unwrap();
    for (limit, answer) in answers {
        if limit as u64 == winner {
            assert_eq!(answer["config"]["max_msgs"], winner, "{answer}");
        } else {
            assert_eq!(answer["error"]["err_code"], 10058, "{answer}");
        }
    }
}

/// O30: what was created is there, whoever asks next.
#[tokio::test]
async fn what_was_created_is_found_at_once() {
    let server = server(&target()).await;
    let (mut one, mut other) = (connect(&server, "one").await, connect(&server, "other").await);
    for round in 0..ROUNDS {
        let stream = format!("S{round}");
        one.stream(json!({"name": stream, "subjects": [format!("s.{round}")], "storage": "memory"})).await;
        other.consumer(&stream, json!({"durable_name": "c", "ack_policy": "explicit"})).await;
        one.ok(&format!("CONSUMER.INFO.{stream}.c"), Value::Null).await;
        one.ok(&format!("STREAM.DELETE.{stream}"), Value::Null).await;
    }
}

/// O53: whose acknowledgement is confirmed has left the stream.
#[tokio::test]
async fn confirmed_message_leaves_room_for_the_next() {
    let server = server(&target()).await;
    let mut client = connect(&server, "js").await;
    let limits = json!({"name": "W", "subjects": ["w.>"], "retention": "workqueue", "discard": "new",
        "max_msgs_per_subject": 1, "discard_new_per_subject": true, "storage": "memory"});
    client.stream(limits).await;
    client.consumer("W", json!({"durable_name": "c", "ack_policy": "explicit"})).await;
    for round in 1..=ROUNDS {
        assert_eq!(client.publish("w.a", "x").await, round);
        let message = client.fetch_wait("W", "c", 1).await.remove(0);
        client.ack(&message).await;
    }
}

/// O55: filtered consumers of a queue see every message, in whatever order others are acknowledged and their subjects are used again.
#[tokio::test]
async fn filtered_consumers_see_every_message() {
    let server = server(&target()).await;
    let mut client = connect(&server, "js").await;
    client.stream(json!({"name": "W", "subjects": ["w.>"], "retention": "workqueue"})).await;
    for name in ["a", "b"] {
        let filter = format!("w.{name}.*");
        let config = json!({"durable_name": name, "ack_policy": "explicit", "filter_subject": filter});
        client.consumer("W", config).await;
    }
    let mut random = 7u64;
    let mut draw = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let mut wanted: [BTreeSet<u64>; 2] = [BTreeSet::new(), BTreeSet::new()];
    let mut seen = wanted.clone();
    let mut open: Vec<Message> = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..3 {
            let which = draw(2);
            let sequence = client.publish(&format!("w.{}.{}", ["a", "b"][which], draw(4)), "x").await;
            wanted[which].insert(sequence);
        }
        let which = draw(2);
        let messages = client.fetch("W", ["a", "b"][which], draw(5) + 1).await;
        seen[which].extend(messages.iter().map(|message| delivery(message).stream_sequence));
        open.extend(messages);
        while open.len() > 8 {
            let message = open.swap_remove(draw(open.len()));
            client.ack(&message).await;
        }
    }
    for (which, name) in ["a", "b"].into_iter().enumerate() {
        loop {
            let messages = client.fetch("W", name, 100).await;
            if messages.is_empty() {
                break;
            }
            seen[which].extend(messages.iter().map(|message| delivery(message).stream_sequence));
            open.extend(messages);
        }
    }
    assert_eq!(seen, wanted);
    for message in open {
        client.ack(&message).await;
    }
    client.until("STREAM.INFO.W", "an empty queue", |info| info["state"]["messages"] == 0).await;
}
