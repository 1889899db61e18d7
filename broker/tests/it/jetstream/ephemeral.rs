//! Very many consumers whose clients go away.

use serde_json::json;
use testkit::Client;
use testkit::jetstream::{JetStream, server};

use crate::target;

const MANY: usize = 1_000;

/// Makes consumers that push to a client, which goes away then.
async fn listening(client: &mut JetStream, mut listener: Client, round: &str) {
    let subscriptions: String =
        (0..MANY).map(|number| format!("SUB p.{round}.{number} {number}\r\n")).collect();
    listener.send(subscriptions).await;
    listener.flush().await;
    for number in 0..MANY {
        let name = format!("{round}-{number}");
        let config = json!({
            "name": name, "deliver_subject": format!("p.{round}.{number}"),
            "ack_policy": "explicit", "inactive_threshold": 1_000_000_000_u64,
        });
        let body = json!({"stream_name": "S", "config": config});
        client.ok(&format!("CONSUMER.CREATE.S.{name}"), body).await;
    }
}

#[tokio::test]
async fn all_go_whose_clients_are_gone_and_others_come_meanwhile() {
    let server = server(&target()).await;
    let mut client = JetStream::connect(&server).await;
    client.stream(json!({"name": "S", "subjects": ["s"], "max_consumers": 2 * MANY})).await;
    client.publish("s", "x").await;
    for round in ["first", "second"] {
        let listener = Client::ready(&server).await;
        listening(&mut client, listener, round).await;
    }
    let gone = |info: &serde_json::Value| info["state"]["consumer_count"] == 0;
    client.until("STREAM.INFO.S", "all consumers to be gone", gone).await;
    let names = client.api("CONSUMER.NAMES.S", &json!({})).await;
    assert_eq!((&names["total"], &names["consumers"]), (&json!(0), &json!([])), "{names}");
    // Their places are free again.
    let listener = Client::ready(&server).await;
    listening(&mut client, listener, "first").await;
}
