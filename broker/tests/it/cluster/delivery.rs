//! Messages between servers.

use serde_json::json;
use testkit::{Client, Cluster};

use super::{await_nobody, settle};
use crate::target;

const BLOCK: &str = "NATS/1.0\r\nKey: value\r\n\r\n";

#[tokio::test]
async fn headers_cross_a_route_and_are_stripped_for_whoever_cannot_read_them() {
    let cluster = Cluster::of(2, &target()).await;
    let mut able = Client::ready(&cluster[1]).await;
    let mut unable = Client::ready_with(&cluster[1], json!({"headers": false, "no_responders": false})).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    able.subscribe("foo", "1").await;
    unable.subscribe("foo", "1").await;
    settle(&mut publisher, &mut able).await;
    let (head, total) = (BLOCK.len(), BLOCK.len() + 5);
    publisher.send(format!("HPUB foo re.ply {head} {total}\r\n{BLOCK}hello\r\n")).await;
    able.expect(format!("HMSG foo 1 re.ply {head} {total}\r\n{BLOCK}hello\r\n")).await;
    unable.expect("MSG foo 1 re.ply 5\r\nhello\r\n").await;
}

#[tokio::test]
async fn requests_are_answered_across_servers() {
    let cluster = Cluster::of(3, &target()).await;
    let mut responder = Client::ready(&cluster[2]).await;
    let mut requester = Client::ready(&cluster[1]).await;
    responder.queue_subscribe("service", "q", "1").await;
    requester.subscribe("_INBOX.me.*", "2").await;
    settle(&mut requester, &mut responder).await;
    settle(&mut responder, &mut requester).await;
    for number in 0..100 {
        requester.request("service", &format!("_INBOX.me.{number}"), "ask").await;
        let request = responder.message().await;
        responder.publish(&request.reply.unwrap(), "answer").await;
        requester.expect(format!("MSG _INBOX.me.{number} 2 6\r\nanswer\r\n")).await;
    }
}

#[tokio::test]
async fn an_answer_finds_an_inbox_that_was_subscribed_to_just_before_the_request() {
    // The request and the interest in its answer leave on the same route, in this order.
    let cluster = Cluster::of(2, &target()).await;
    let mut responder = Client::ready(&cluster[1]).await;
    let mut requester = Client::ready(&cluster[0]).await;
    responder.subscribe("service", "1").await;
    settle(&mut requester, &mut responder).await;
    for number in 0..50 {
        requester
            .send(format!("SUB _INBOX.{number} {number}\r\nPUB service _INBOX.{number} 0\r\n\r\n"))
            .await;
        responder.expect(format!("MSG service 1 _INBOX.{number} 0\r\n\r\n")).await;
        responder.publish(&format!("_INBOX.{number}"), "x").await;
        requester.expect(format!("MSG _INBOX.{number} {number} 1\r\nx\r\n")).await;
    }
}

#[tokio::test]
async fn no_responders_is_known_across_servers() {
    let cluster = Cluster::of(2, &target()).await;
    let mut responder = Client::ready(&cluster[1]).await;
    let mut requester = Client::ready(&cluster[0]).await;
    responder.subscribe("service", "1").await;
    settle(&mut requester, &mut responder).await;
    requester.subscribe("_INBOX.*", "1").await;
    requester.request("service", "_INBOX.1", "").await;
    requester.expect_silence().await;
    responder.expect("MSG service 1 _INBOX.1 0\r\n\r\n").await;
    responder.op("UNSUB 1").await;
    responder.flush().await;
    await_nobody(&mut requester, "service").await;
    responder.expect_silence().await;
}

#[tokio::test]
async fn interest_of_a_closed_connection_is_withdrawn_everywhere() {
    let cluster = Cluster::of(3, &target()).await;
    let mut requester = Client::ready(&cluster[0]).await;
    let mut responder = Client::ready(&cluster[2]).await;
    responder.send("SUB service 1\r\nSUB service q 2\r\nSUB service.* 3\r\n").await;
    settle(&mut requester, &mut responder).await;
    drop(responder);
    await_nobody(&mut requester, "service").await;
    await_nobody(&mut requester, "service.a").await;
}

#[tokio::test]
async fn many_subscribers_on_one_server_get_one_copy_each() {
    let cluster = Cluster::of(2, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut subscribers = Vec::new();
    for number in 0..10 {
        let mut subscriber = Client::ready(&cluster[1]).await;
        subscriber.subscribe(if number % 2 == 0 { "foo.bar" } else { "foo.*" }, "1").await;
        settle(&mut publisher, &mut subscriber).await;
        subscribers.push(subscriber);
    }
    for number in 0..100 {
        publisher.publish("foo.bar", &number.to_string()).await;
    }
    for subscriber in &mut subscribers {
        for number in 0..100 {
            assert_eq!(subscriber.message().await.payload, number.to_string());
        }
        subscriber.expect_silence().await;
    }
    let routez = cluster[0].get_json("/routez").await;
    let sent: u64 = routez["routes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|route| route.get("account").is_none())
        .map(|route| route["out_msgs"].as_u64().unwrap())
        .sum();
    // One copy a message on the wire, and the few probes of `settle`.
    assert!((100..1000).contains(&sent), "{sent} messages left on the routes");
}

#[tokio::test]
async fn automatic_unsubscribe_counts_messages_from_other_servers() {
    let cluster = Cluster::of(2, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut subscriber = Client::ready(&cluster[1]).await;
    subscriber.send("SUB foo 1\r\nUNSUB 1 3\r\n").await;
    settle(&mut publisher, &mut subscriber).await;
    for number in 0..10 {
        publisher.publish("foo", &number.to_string()).await;
    }
    subscriber.expect("MSG foo 1 1\r\n0\r\nMSG foo 1 1\r\n1\r\nMSG foo 1 1\r\n2\r\n").await;
    await_nobody(&mut publisher, "foo").await;
    subscriber.expect_silence().await;
}

#[tokio::test]
async fn a_large_message_crosses_a_route() {
    let cluster = Cluster::of(2, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut subscriber = Client::ready(&cluster[1]).await;
    subscriber.subscribe("big", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    let payload = "0123456789".repeat(100_000);
    for _ in 0..5 {
        publisher.publish("big", &payload).await;
    }
    for _ in 0..5 {
        assert!(subscriber.message().await.payload == payload, "payload was changed on the way");
    }
}

#[tokio::test]
async fn a_denied_publish_goes_to_no_other_server() {
    let top = "authorization { users: [ {user: root, password: root},
        {user: u, password: u, permissions: {publish: {deny: \"secret\"}, subscribe: {deny: \"secret\"}}} ] }";
    let members = (0..2).map(|_| testkit::Member::new(&target()).top(top)).collect();
    let cluster = Cluster::start(members).await;
    let mut limited = Client::user(&cluster[0], "u", "u").await;
    let mut root = Client::user(&cluster[1], "root", "root").await;
    root.subscribe(">", "1").await;
    settle(&mut limited, &mut root).await;
    limited.publish("secret", "x").await;
    limited.expect_error("Permissions Violation for Publish to \"secret\"").await;
    limited.publish("open", "x").await;
    root.expect("MSG open 1 1\r\nx\r\n").await;
    // The other way, the filter of a wider subscription holds for messages from routes.
    root.op("UNSUB 1").await;
    limited.subscribe(">", "2").await;
    settle(&mut root, &mut limited).await;
    root.publish("secret", "x").await;
    root.publish("open", "y").await;
    limited.expect("MSG open 2 1\r\ny\r\n").await;
}
