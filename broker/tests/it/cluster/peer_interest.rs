//! RS+ and RS-: what a server tells its peers about its clients.

use serde_json::json;
use testkit::{Client, Server};

use super::peer::{Peer, alone};

/// The lines about `$G` that a step makes the server send.
async fn told(server: &Server, peer: &mut Peer, client: &mut Client, step: &str) -> Vec<String> {
    client.send(step).await;
    client.flush().await;
    assert!(server.pid() > 0);
    peer.lines_of("$G").await
}

#[tokio::test]
async fn interest_that_exists_is_told_to_a_new_peer() {
    let server = alone("", "").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nSUB foo 2\r\nSUB bar.* q 3\r\nSUB bar.* q 4\r\nSUB bar.* p 5\r\n").await;
    client.flush().await;
    let mut peer = Peer::connected(&server).await;
    let mut lines = peer.lines_of("$G").await;
    lines.sort();
    assert_eq!(lines, ["RS+ $G bar.* p 1", "RS+ $G bar.* q 2", "RS+ $G foo"]);
}

#[tokio::test]
async fn a_plain_subject_is_told_once_and_withdrawn_with_its_last_subscription() {
    let server = alone("", "").await;
    let mut client = Client::ready(&server).await;
    let mut other = Client::ready(&server).await;
    let mut peer = Peer::connected(&server).await;
    peer.lines_of("$G").await;
    assert_eq!(told(&server, &mut peer, &mut client, "SUB foo 1\r\n").await, ["RS+ $G foo"]);
    assert!(told(&server, &mut peer, &mut client, "SUB foo 2\r\n").await.is_empty());
    assert!(told(&server, &mut peer, &mut other, "SUB foo 1\r\n").await.is_empty());
    assert!(told(&server, &mut peer, &mut client, "UNSUB 1\r\nUNSUB 2\r\n").await.is_empty());
    assert_eq!(told(&server, &mut peer, &mut other, "UNSUB 1\r\n").await, ["RS- $G foo"]);
}

#[tokio::test]
async fn a_queue_group_is_told_with_its_weight() {
    let server = alone("", "").await;
    let mut client = Client::ready(&server).await;
    let mut peer = Peer::connected(&server).await;
    peer.lines_of("$G").await;
    assert_eq!(told(&server, &mut peer, &mut client, "SUB foo q 1\r\n").await, ["RS+ $G foo q 1"]);
    assert_eq!(told(&server, &mut peer, &mut client, "SUB foo q 2\r\n").await, ["RS+ $G foo q 2"]);
    assert_eq!(told(&server, &mut peer, &mut client, "UNSUB 1\r\n").await, ["RS+ $G foo q 1"]);
    assert_eq!(told(&server, &mut peer, &mut client, "UNSUB 2\r\n").await, ["RS- $G foo q"]);
}

#[tokio::test]
async fn automatic_unsubscribe_is_told_when_it_happens() {
    let server = alone("", "").await;
    let mut client = Client::ready(&server).await;
    let mut peer = Peer::connected(&server).await;
    peer.lines_of("$G").await;
    assert_eq!(told(&server, &mut peer, &mut client, "SUB foo 1\r\nUNSUB 1 1\r\n").await, ["RS+ $G foo"]);
    client.publish("foo", "x").await;
    client.expect("MSG foo 1 1\r\nx\r\n").await;
    client.flush().await;
    assert_eq!(peer.lines_of("$G").await, ["RS- $G foo"]);
}

#[tokio::test]
async fn a_connection_that_closes_withdraws_what_only_it_had() {
    let server = alone("", "").await;
    let mut staying = Client::ready(&server).await;
    let mut leaving = Client::ready(&server).await;
    staying.subscribe("foo", "1").await;
    leaving.send("SUB foo 1\r\nSUB bar 2\r\nSUB baz q 3\r\n").await;
    leaving.flush().await;
    let mut peer = Peer::connected(&server).await;
    peer.lines_of("$G").await;
    drop(leaving);
    let mut lines = Vec::new();
    testkit::eventually_ok("both withdrawals", async || {
        lines.extend(peer.lines_of("$G").await);
        if lines.len() >= 2 { Ok(()) } else { Err(format!("{lines:?}")) }
    })
    .await;
    lines.sort();
    assert_eq!(lines, ["RS- $G bar", "RS- $G baz q"]);
}

#[tokio::test]
async fn interest_is_told_under_the_name_of_its_account() {
    let server = alone("accounts { A { users: [{user: a, password: a}] } }", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::user(&server, "a", "a").await;
    client.subscribe("foo", "1").await;
    assert_eq!(peer.lines_of("A").await, ["RS+ A foo"]);
    assert!(peer.lines_of("$G").await.is_empty());
}

#[tokio::test]
async fn a_denied_subscription_is_not_told() {
    let server = alone(
        "authorization { users: [{user: u, password: u, permissions: {subscribe: {deny: \"no\"}}}] }",
        "",
    )
    .await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::user(&server, "u", "u").await;
    client.op("SUB no 1").await;
    client.expect_error("Permissions Violation for Subscription to \"no\"").await;
    client.subscribe("yes", "2").await;
    assert_eq!(peer.lines_of("$G").await, ["RS+ $G yes"]);
}

#[tokio::test]
async fn interest_of_one_peer_is_not_told_to_another() {
    let server = alone("", "").await;
    let mut first = Peer::connected(&server).await;
    let other_id = super::peer::PEER_ID.replace('7', "6");
    let info = json!({"server_id": other_id, "server_name": "peer2"});
    let mut second = Peer::connected_with(&server, json!({"name": other_id}), info).await;
    second.lines_of("$G").await;
    first.send("RS+ $G foo\r\nRS+ $G foo q 3\r\n").await;
    assert!(second.lines_of("$G").await.is_empty());
}

#[tokio::test]
async fn a_subject_as_long_as_the_limit_for_servers_is_taken() {
    // Servers may send sixteen times the control line that clients may.
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let subject = "s".repeat(30_000);
    peer.send(&format!("RS+ $G {subject}\r\nRS- $G {subject}\r\n")).await;
    peer.lines_of("$G").await;
}
