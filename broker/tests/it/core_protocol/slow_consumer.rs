//! Consumers that do not read.

use serde_json::json;
use testkit::{Client, Server};

use crate::monitored;

/// Publishes megabytes at a subscriber that does not read, until the server has closed it; returns the close reason.
async fn reason_of_closing(server: &Server) -> String {
    let mut sleeper = Client::ready(server).await;
    sleeper.subscribe("flood", "1").await;
    let mut publisher = Client::ready(server).await;
    let chunk = format!("PUB flood 100000\r\n{}\r\n", "x".repeat(100_000)).repeat(10);
    testkit::eventually("the slow consumer is closed", async || {
        publisher.send(&chunk).await;
        publisher.flush().await;
        let closed = server.get_json("/connz?state=closed").await;
        closed["connections"][0]["reason"].as_str().map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn a_consumer_with_too_many_pending_bytes_is_closed() {
    let server = monitored("max_pending: 2MB\nwrite_deadline: \"60s\"").await;
    assert_eq!(reason_of_closing(&server).await, "Slow Consumer (Pending Bytes)");
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["slow_consumers"], 1);
    assert_eq!(varz["slow_consumer_stats"]["clients"], 1);
    assert!(
        server.log().contains("Slow Consumer Detected: MaxPending of 2097152 Exceeded"),
        "{}",
        server.log()
    );
}

#[tokio::test]
async fn what_a_slow_consumer_was_subscribed_to_is_known_afterwards() {
    let server = monitored("max_pending: 2MB\nwrite_deadline: \"60s\"").await;
    reason_of_closing(&server).await;
    let closed = server.get_json("/connz?state=closed&subs=detail").await;
    let lost = &closed["connections"][0]["subscriptions_list_detail"][0];
    assert_eq!(
        (&lost["account"], &lost["subject"], &lost["sid"]),
        (&json!("$G"), &json!("flood"), &json!("1"))
    );
    assert_eq!(lost["cid"], closed["connections"][0]["cid"]);
    let closed = server.get_json("/connz?state=closed&subs=1").await;
    assert_eq!(closed["connections"][0]["subscriptions_list"], json!(["flood"]));
}

#[tokio::test]
async fn a_consumer_that_takes_nothing_within_the_write_deadline_is_closed() {
    let server = monitored("write_deadline: \"200ms\"\nmax_pending: 1GB").await;
    assert_eq!(reason_of_closing(&server).await, "Slow Consumer (Write Deadline)");
    assert_eq!(server.get_json("/varz").await["slow_consumers"], 1);
    assert!(
        server.log().contains("Slow Consumer Detected: WriteDeadline of 200ms exceeded"),
        "{}",
        server.log()
    );
}

#[tokio::test]
async fn a_slow_consumer_costs_the_others_nothing() {
    let server = monitored("max_pending: 2MB\nwrite_deadline: \"60s\"").await;
    let mut reader = Client::ready(&server).await;
    reader.subscribe("other", "1").await;
    reason_of_closing(&server).await;
    let mut publisher = Client::ready(&server).await;
    publisher.publish("other", "fine").await;
    reader.expect("MSG other 1 4\r\nfine\r\n").await;
}
