//! Requests see what the same connection published or asked for before them, although nothing of it is on stable storage yet.

use serde_json::{Value, json};
use testkit::jetstream::{self, JetStream};

use crate::target;

/// Messages before each request.
const MESSAGES: u64 = 10;
/// Bytes that one of them takes.
const STORED: u64 = 34;

/// The information of an account counts the messages and consumers of all its streams.
#[tokio::test]
async fn account_information_counts_what_came_before() {
    if !target().is_myelin() {
        // The reference promises no order between connections' messages and its workers for requests.
        return;
    }
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    for name in ["a", "b", "c"] {
        js.stream(json!({"name": name.to_uppercase(), "subjects": [format!("{name}.>")]})).await;
    }
    js.client.subscribe("answers", "answers").await;
    for round in 1..=20 {
        let mut written = String::new();
        for number in 0..MESSAGES {
            let stream = ["a", "b", "c"][(number % 3) as usize];
            written += &format!("PUB {stream}.1 1\r\nx\r\n");
        }
        let config = json!({"stream_name": "C", "config": {"durable_name": format!("c{round}")}}).to_string();
        written +=
            &format!("PUB $JS.API.CONSUMER.CREATE.C.c{round} consumers {}\r\n{config}\r\n", config.len());
        written += "PUB $JS.API.INFO answers 0\r\n\r\n";
        js.client.send(written).await;
        let answer: Value = serde_json::from_str(&js.client.message().await.payload).unwrap();
        assert_eq!(
            (&answer["storage"], &answer["consumers"]),
            (&json!(round * MESSAGES * STORED), &json!(round)),
            "round {round}: {answer}"
        );
    }
}
