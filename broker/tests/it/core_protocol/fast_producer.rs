//! Publishers that are faster than a subscriber: slowed down, or the subscriber is left out.

use serde_json::Value;
use testkit::{Client, Frame, Server, eventually};

use crate::monitored;

/// Limits under which a subscriber counts as slow from 6 MB on and is cut from 8 MB on. A batch is smaller than the
/// difference, so a test that looks between batches sees the first without the second.
const LIMITS: &str = "max_pending: 8MB\nwrite_deadline: \"60s\"";
/// Messages in a batch.
const BATCH: usize = 10;
/// Bytes in a message.
const SIZE: usize = 100_000;
/// More batches than socket buffers and `max_pending` take together.
const BATCHES_MAX: usize = 60;

/// Publishes a batch of messages that begin with their number, counting on from `first`.
async fn publish_batch(publisher: &mut Client, first: usize) {
    let batch: String = (first..first + BATCH)
        .map(|number| format!("PUB flood {SIZE}\r\n{number:08}{}\r\n", "x".repeat(SIZE - 8)))
        .collect();
    publisher.send(batch).await;
    publisher.flush().await;
}

fn number(frame: &Frame) -> usize {
    let payload = frame.message().payload;
    assert_eq!(payload.len(), SIZE);
    payload[..8].parse().unwrap()
}

async fn stalled(server: &Server) -> u64 {
    server.get_json("/varz").await["stalled_clients"].as_u64().unwrap_or_default()
}

/// Publishes until the publisher is slowed down; returns how many messages that took.
async fn publish_until_stalled(server: &Server, publisher: &mut Client) -> usize {
    for batch in 0..BATCHES_MAX {
        publish_batch(publisher, batch * BATCH).await;
        if stalled(server).await > 0 {
            return (batch + 1) * BATCH;
        }
    }
    panic!("{BATCHES_MAX} batches did not stall the publisher: {:#}", server.get_json("/connz").await);
}

#[tokio::test]
async fn the_publisher_is_slowed_down_and_nothing_is_lost() {
    let server = monitored(LIMITS).await;
    let mut sleeper = Client::ready(&server).await;
    sleeper.subscribe("flood", "1").await;
    let mut publisher = Client::ready(&server).await;
    let published = publish_until_stalled(&server, &mut publisher).await;

    let connz = server.get_json("/connz?sort=cid").await;
    let stalls = |index: usize| connz["connections"][index]["stalls"].as_u64().unwrap_or_default();
    assert!(stalls(0) > 0, "the subscriber is not shown to slow others down: {connz:#}");
    assert_eq!(stalls(1), 0, "the publisher is shown to slow others down: {connz:#}");
    assert_eq!(server.get_json("/varz").await["slow_consumers"], 0);

    let received: Vec<usize> = sleeper.drain().await.iter().map(number).collect();
    assert_eq!(received, (0..published).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_slow_consumer_has_all_messages_up_to_the_cut() {
    let server = monitored(LIMITS).await;
    let mut sleeper = Client::ready(&server).await;
    sleeper.subscribe("flood", "1").await;
    let mut publisher = Client::ready(&server).await;
    let mut published = publish_until_stalled(&server, &mut publisher).await;
    let reason = eventually("the slow consumer is closed", async || {
        publish_batch(&mut publisher, published).await;
        published += BATCH;
        let closed = server.get_json("/connz?state=closed").await;
        closed["connections"][0]["reason"].as_str().map(str::to_owned)
    })
    .await;
    assert_eq!(reason, "Slow Consumer (Pending Bytes)");
    let said = sleeper.read_until_lost().await;
    let head = format!("MSG flood 1 {SIZE}\r\n");
    let received: Vec<usize> =
        said.split(&head).skip(1).filter_map(|rest| rest.get(..8)?.parse().ok()).collect();
    assert!(!received.is_empty());
    assert_eq!(received, (0..received.len()).collect::<Vec<_>>());
}

#[tokio::test]
async fn without_stalling_the_slow_consumer_is_left_out_and_the_fast_one_gets_all() {
    let server = monitored(&format!("{LIMITS}\nno_fast_producer_stall: true")).await;
    let mut sleeper = Client::ready(&server).await;
    sleeper.subscribe("flood", "1").await;
    let mut reader = Client::ready(&server).await;
    reader.subscribe("flood", "1").await;
    let mut publisher = Client::ready(&server).await;
    for batch in 0..BATCHES_MAX {
        publish_batch(&mut publisher, batch * BATCH).await;
        let received: Vec<usize> = reader.take(BATCH).await.iter().map(number).collect();
        assert_eq!(received, (batch * BATCH..(batch + 1) * BATCH).collect::<Vec<_>>());
    }
    let varz: Value = server.get_json("/varz").await;
    assert_eq!(varz["stalled_clients"].as_u64().unwrap_or_default(), 0, "{varz:#}");
    assert_eq!(varz["slow_consumers"], 0, "{varz:#}");

    let received: Vec<usize> = sleeper.drain().await.iter().map(number).collect();
    assert!(received.len() < BATCHES_MAX * BATCH, "nothing was left out");
    assert!(received.is_sorted(), "{received:?}");
    // It has caught up, so it is served again.
    publisher.publish("flood", "again").await;
    sleeper.expect("MSG flood 1 5\r\nagain\r\n").await;
}
