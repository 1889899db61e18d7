//! Authorization of routes, tried from a raw socket.

use serde_json::json;
use testkit::Client;

use super::peer::{Peer, alone, connect_line, info_line};

const AUTHORIZATION: &str = "authorization { user: r, password: p, timeout: 0.3 }";

#[tokio::test]
async fn a_route_asks_for_credentials_when_it_needs_them() {
    let server = alone("", AUTHORIZATION).await;
    let peer = Peer::dial(server.cluster_addr()).await;
    assert_eq!(peer.wire.info()["auth_required"], true);
    Peer::connected_with(&server, json!({"user": "r", "pass": "p"}), json!({})).await;
}

#[tokio::test]
async fn wrong_or_missing_credentials_are_refused() {
    let server = alone("", AUTHORIZATION).await;
    for fields in [json!({}), json!({"user": "r", "pass": "wrong"}), json!({"user": "x", "pass": "p"})] {
        let mut peer = Peer::dial(server.cluster_addr()).await;
        peer.wire.send(connect_line(fields)).await;
        peer.wire.expect_fatal("Authorization Violation").await;
    }
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_timed_out() {
    let server = alone("", AUTHORIZATION).await;
    let mut peer = Peer::dial(server.cluster_addr()).await;
    peer.wire.expect_fatal("Authentication Timeout").await;
}

#[tokio::test]
async fn nothing_is_done_for_a_route_whose_first_verb_is_not_connect() {
    // GHSA-38x3-76xf-cq45: with a no-auth user for clients, route sockets could skip CONNECT.
    let top = "accounts { A { users: [{user: a, password: a}] } }\nno_auth_user: a";
    let server = alone(top, AUTHORIZATION).await;
    let mut client = Client::ready(&server).await;
    client.subscribe(">", "1").await;
    for script in
        ["RMSG A foo 1\r\nx\r\n", "RS+ A foo\r\n", "PING\r\n", "SUB foo 1\r\n", "PUB foo 1\r\nx\r\n"]
    {
        let mut peer = Peer::dial(server.cluster_addr()).await;
        peer.wire.send(script).await;
        let answer = peer.wire.read_to_end().await;
        assert!(answer.iter().all(|frame| frame.verb() == "-ERR"), "{script:?} was answered with {answer:?}");
    }
    client.expect_silence().await;
}

#[tokio::test]
async fn info_before_connect_does_not_register_a_route() {
    let server = alone("", AUTHORIZATION).await;
    let mut peer = Peer::dial(server.cluster_addr()).await;
    peer.wire.send(info_line(json!({})) + "RMSG $G foo 1\r\nx\r\n").await;
    let answer = peer.wire.read_to_end().await;
    assert!(answer.iter().all(|frame| frame.verb() == "-ERR"), "answered with {answer:?}");
}
