//! Limits of the server and what happens at them.

use testkit::Client;

use crate::server;

#[tokio::test]
async fn a_payload_over_the_limit_closes_the_connection() {
    let server = server("max_payload: 100").await;
    let mut client = Client::ready(&server).await;
    client.subscribe("foo", "1").await;
    client.publish("foo", &"x".repeat(100)).await;
    assert_eq!(client.message().await.payload.len(), 100);
    client.op("PUB foo 101").await;
    client.expect_fatal("Maximum Payload Violation").await;
}

#[tokio::test]
async fn headers_count_towards_the_payload_limit() {
    let server = server("max_payload: 100").await;
    let mut client = Client::ready(&server).await;
    client.op("HPUB foo 12 101").await;
    client.expect_fatal("Maximum Payload Violation").await;
}

#[tokio::test]
async fn the_payload_limit_can_be_raised_to_64_megabytes() {
    let server = server("max_payload: 64MB\nmax_pending: 128MB").await;
    let mut client = Client::ready(&server).await;
    let size = 64 * 1024 * 1024;
    assert_eq!(client.infos[0]["max_payload"], size);
    client.subscribe("huge", "1").await;
    let payload = "0123456789abcdef".repeat(size / 16);
    client.publish("huge", &payload).await;
    assert!(client.message().await.payload == payload, "payload was changed on the way");
}

#[tokio::test]
async fn a_control_line_over_the_limit_closes_the_connection() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    let longest = "x".repeat(4000);
    client.send(format!("SUB {longest} 1\r\nPUB {longest} 0\r\n\r\n")).await;
    client.expect(format!("MSG {longest} 1 0\r\n\r\n")).await;
    client.send(format!("SUB {} 1", "x".repeat(4100))).await;
    client.expect_fatal("maximum control line exceeded").await;
}

#[tokio::test]
async fn the_control_line_limit_is_configurable_and_holds_for_connect_too() {
    let server = server("max_control_line: 512").await;
    let mut client = Client::open(server.client_addr()).await;
    client.op(&format!("CONNECT {{\"name\":\"{}\"}}", "x".repeat(600))).await;
    client.expect_fatal("maximum control line exceeded").await;
}

#[tokio::test]
async fn a_connection_over_the_limit_is_greeted_and_closed() {
    let server = server("max_connections: 2").await;
    let first = Client::ready(&server).await;
    let mut second = Client::ready(&server).await;
    let mut third = Client::open(server.client_addr()).await;
    third.expect_fatal("maximum connections exceeded").await;
    second.expect_silence().await;
    drop(first);
    testkit::eventually("a place is free", async || {
        let mut client = Client::open(server.client_addr()).await;
        // A refused client may find the connection closed already.
        let _ = client.try_send(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await;
        let answer = client.next_within(testkit::PATIENCE).await;
        answer.is_some_and(|frame| frame.bytes == b"PONG\r\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_connection_limit_of_zero_lets_nobody_in() {
    let server = server("max_connections: 0").await;
    let mut client = Client::open(server.client_addr()).await;
    client.expect_fatal("maximum connections exceeded").await;
}

#[tokio::test]
async fn a_subscription_over_the_limit_is_refused_and_the_connection_stays() {
    let server = server("max_subscriptions: 2").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n").await;
    client.expect_error("maximum subscriptions exceeded").await;
    client.send("UNSUB 1\r\nSUB c 3\r\nPUB c 0\r\n\r\n").await;
    client.expect("MSG c 3 0\r\n\r\n").await;
}

#[tokio::test]
async fn a_subscription_with_too_many_tokens_is_refused() {
    let server = server("max_sub_tokens: 3").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB a.b.c 1\r\nSUB a.b.c.d 2\r\n").await;
    client.expect_error("Permissions Violation for Subscription to \"a.b.c.d\", too many tokens").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn an_account_limits_connections_subscriptions_and_payload() {
    let server = server(
        "accounts { A { limits { max_connections: 1, max_subscriptions: 2, max_payload: 10 }
                        users: [{user: a, password: a}] }
                    B { users: [{user: b, password: b}] } }",
    )
    .await;
    let mut first = Client::user(&server, "a", "a").await;
    let mut second = Client::open(server.client_addr()).await;
    second.op("CONNECT {\"verbose\":false,\"user\":\"a\",\"pass\":\"a\"}").await;
    second.expect_fatal("maximum account active connections exceeded").await;
    first.send("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n").await;
    first.expect_error("maximum subscriptions exceeded").await;
    first.op("PUB foo 11").await;
    first.expect_fatal("Maximum Payload Violation").await;
    let mut unlimited = Client::user(&server, "b", "b").await;
    unlimited.send("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPUB c 11\r\n01234567890\r\n").await;
    unlimited.expect("MSG c 3 11\r\n01234567890\r\n").await;
}
