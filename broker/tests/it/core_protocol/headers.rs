//! HPUB, HMSG, and the 503 that tells a requester that nobody listens.

use serde_json::json;
use testkit::Client;

use crate::server;

const BLOCK: &str = "NATS/1.0\r\nKey: one\r\nKEY: two\r\nKey: three\r\n\r\n";

#[tokio::test]
async fn headers_are_delivered_byte_for_byte() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    let (head, total) = (BLOCK.len(), BLOCK.len() + 5);
    client.subscribe("foo", "1").await;
    client.publish_with_headers("foo", BLOCK, "hello").await;
    client.expect(format!("HMSG foo 1 {head} {total}\r\n{BLOCK}hello\r\n")).await;
    client.send(format!("HPUB foo re.ply {head} {total}\r\n{BLOCK}hello\r\n")).await;
    client.expect(format!("HMSG foo 1 re.ply {head} {total}\r\n{BLOCK}hello\r\n")).await;
    client.publish_with_headers("foo", BLOCK, "").await;
    client.expect(format!("HMSG foo 1 {head} {head}\r\n{BLOCK}\r\n")).await;
}

#[tokio::test]
async fn a_subscriber_without_header_support_gets_the_payload_alone() {
    let server = server("").await;
    let mut plain = Client::ready_with(&server, json!({"headers": false, "no_responders": false})).await;
    let mut publisher = Client::ready(&server).await;
    plain.subscribe("foo", "1").await;
    publisher.publish_with_headers("foo", BLOCK, "hello").await;
    plain.expect("MSG foo 1 5\r\nhello\r\n").await;
    let (head, total) = (BLOCK.len(), BLOCK.len() + 2);
    publisher.send(format!("HPUB foo re.ply {head} {total}\r\n{BLOCK}hi\r\n")).await;
    plain.expect("MSG foo 1 re.ply 2\r\nhi\r\n").await;
    publisher.publish_with_headers("foo", BLOCK, "").await;
    plain.expect("MSG foo 1 0\r\n\r\n").await;
}

#[tokio::test]
async fn hpub_without_header_support_closes_the_connection_without_an_error() {
    let server = server("").await;
    let mut client = Client::ready_with(&server, json!({"headers": false, "no_responders": false})).await;
    client.op("HPUB foo 12 14").await;
    client.expect_closed().await;
}

#[tokio::test]
async fn a_header_block_longer_than_the_whole_closes_the_connection() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.op("HPUB foo 20 14").await;
    client.expect_closed().await;
}

#[tokio::test]
async fn a_server_without_header_support_announces_it_and_refuses_hpub() {
    let server = server("no_header_support: true").await;
    let mut client = Client::ready_with(&server, json!({"no_responders": false})).await;
    assert_eq!(client.infos[0]["headers"], false);
    client.op("HPUB foo 12 14").await;
    client.expect_closed().await;
}

#[tokio::test]
async fn a_request_that_nobody_hears_is_answered_with_503() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.subscribe("_INBOX.a.*", "1").await;
    client.send("PUB foo _INBOX.a.b 0\r\n\r\n").await;
    client.expect("HMSG _INBOX.a.b 1 35 35\r\nNATS/1.0 503\r\nNats-Subject: foo\r\n\r\n\r\n").await;
    client.send("PUB foo.bar _INBOX.a.c 5\r\nhello\r\n").await;
    client.expect("HMSG _INBOX.a.c 1 39 39\r\nNATS/1.0 503\r\nNats-Subject: foo.bar\r\n\r\n\r\n").await;
    client.publish_with_headers("quiet", "NATS/1.0\r\n\r\n", "").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn a_request_that_somebody_hears_gets_no_503() {
    let server = server("").await;
    let mut requester = Client::ready(&server).await;
    let mut responder = Client::ready(&server).await;
    requester.subscribe("_INBOX.>", "1").await;
    responder.queue_subscribe("service", "q", "1").await;
    requester.request("service", "_INBOX.1", "x").await;
    responder.expect("MSG service 1 _INBOX.1 1\r\nx\r\n").await;
    responder.publish("_INBOX.1", "y").await;
    requester.expect("MSG _INBOX.1 1 1\r\ny\r\n").await;
    requester.expect_silence().await;
}

#[tokio::test]
async fn without_no_responders_or_without_a_listener_on_the_reply_there_is_no_503() {
    let server = server("").await;
    let mut unaware = Client::ready_with(&server, json!({"no_responders": false})).await;
    unaware.subscribe("_INBOX.>", "1").await;
    unaware.request("nobody", "_INBOX.1", "x").await;
    unaware.expect_silence().await;

    let mut elsewhere = Client::ready(&server).await;
    elsewhere.request("nobody", "_INBOX.1", "x").await;
    elsewhere.expect_silence().await;
    unaware.expect_silence().await;
}

#[tokio::test]
async fn own_subscription_without_echo_does_not_count_as_a_responder() {
    let server = server("").await;
    let mut client = Client::ready_with(&server, json!({"echo": false})).await;
    client.send("SUB service 1\r\nSUB _INBOX.* 2\r\nPUB service _INBOX.x 0\r\n\r\n").await;
    client.expect("HMSG _INBOX.x 2 39 39\r\nNATS/1.0 503\r\nNats-Subject: service\r\n\r\n\r\n").await;
}
