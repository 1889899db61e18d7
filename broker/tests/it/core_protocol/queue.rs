//! Queue groups on one server.

use std::collections::BTreeMap;

use serde_json::json;
use testkit::Client;

use crate::server;

#[tokio::test]
async fn exactly_one_member_of_each_group_gets_a_message() {
    let server = server("").await;
    let mut subscriber = Client::ready(&server).await;
    let mut publisher = Client::ready(&server).await;
    subscriber
        .send("SUB job red 1\r\nSUB job red 2\r\nSUB job blue 3\r\nSUB * blue 4\r\nSUB job 5\r\n")
        .await;
    subscriber.flush().await;
    for _ in 0..100 {
        publisher.publish("job", "x").await;
        let mut sids: Vec<String> =
            subscriber.take(3).await.iter().map(|frame| frame.message().sid).collect();
        sids.sort();
        assert!(["1", "2"].contains(&sids[0].as_str()), "{sids:?}");
        assert!(["3", "4"].contains(&sids[1].as_str()), "{sids:?}");
        assert_eq!(sids[2], "5");
    }
    subscriber.expect_silence().await;
}

#[tokio::test]
async fn messages_are_spread_evenly_over_the_members() {
    let server = server("").await;
    let mut members = Vec::new();
    for _ in 0..4 {
        let mut member = Client::ready(&server).await;
        member.queue_subscribe("job", "workers", "1").await;
        members.push(member);
    }
    let mut publisher = Client::ready(&server).await;
    for _ in 0..4000 {
        publisher.publish("job", "x").await;
    }
    publisher.flush().await;
    let mut total = 0;
    for member in &mut members {
        let count = member.drain().await.len();
        // Mean 1000, standard deviation 27: a fair server leaves this range once in 10^12 runs.
        assert!((800..1200).contains(&count), "one member got {count} of 4000");
        total += count;
    }
    assert_eq!(total, 4000);
}

#[tokio::test]
async fn different_queue_names_on_wildcards_are_different_groups() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB a.* g 1\r\nSUB a.> g 2\r\nSUB a.b h 3\r\n").await;
    for _ in 0..50 {
        client.publish("a.b", "x").await;
    }
    let mut counts = BTreeMap::<String, usize>::new();
    for frame in client.drain().await {
        *counts.entry(frame.message().sid).or_default() += 1;
    }
    assert_eq!(counts["3"], 50);
    assert_eq!(counts.get("1").unwrap_or(&0) + counts.get("2").unwrap_or(&0), 50);
}

#[tokio::test]
async fn a_member_that_left_gets_nothing_and_the_rest_get_all() {
    let server = server("").await;
    let mut staying = Client::ready(&server).await;
    let mut leaving = Client::ready(&server).await;
    staying.queue_subscribe("job", "workers", "1").await;
    leaving.queue_subscribe("job", "workers", "1").await;
    leaving.op("UNSUB 1").await;
    leaving.flush().await;
    let mut publisher = Client::ready(&server).await;
    for _ in 0..50 {
        publisher.publish("job", "x").await;
    }
    publisher.flush().await;
    assert_eq!(staying.drain().await.len(), 50);
    leaving.expect_silence().await;
}

#[tokio::test]
async fn a_publisher_without_echo_is_passed_over_as_a_member() {
    let server = server("").await;
    let mut publisher = Client::ready_with(&server, json!({"echo": false})).await;
    let mut other = Client::ready(&server).await;
    publisher.queue_subscribe("job", "workers", "1").await;
    other.queue_subscribe("job", "workers", "1").await;
    for _ in 0..50 {
        publisher.publish("job", "x").await;
    }
    publisher.expect_silence().await;
    assert_eq!(other.drain().await.len(), 50);
}

#[tokio::test]
async fn automatic_unsubscribe_of_a_member_leaves_the_rest_to_the_others() {
    let server = server("").await;
    let mut limited = Client::ready(&server).await;
    let mut other = Client::ready(&server).await;
    limited.send("SUB job workers 1\r\nUNSUB 1 5\r\n").await;
    limited.flush().await;
    other.queue_subscribe("job", "workers", "1").await;
    let mut publisher = Client::ready(&server).await;
    for _ in 0..200 {
        publisher.publish("job", "x").await;
    }
    publisher.flush().await;
    assert_eq!(limited.drain().await.len(), 5);
    assert_eq!(other.drain().await.len(), 195);
}

#[tokio::test]
async fn the_queue_name_of_the_system_is_reserved() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.op("SUB foo _sys_ 1").await;
    client.expect_error("Permissions Violation for Subscription to \"foo\" using queue \"_sys_\"").await;
    client.expect_silence().await;
}
