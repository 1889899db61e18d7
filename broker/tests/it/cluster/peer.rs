//! A scripted server: speaks the route protocol by hand, so that every line can be looked at.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{Client, Frame, Server};

use crate::server;

/// What the scripted peer calls itself; has the length and letters of a server id.
pub(super) const PEER_ID: &str = "NAPEERPEERPEERPEERPEERPEERPEERPEERPEERPEERPEERPEERPEER77";

/// A route connection of the scripted peer.
pub(super) struct Peer {
    pub(super) wire: Client,
}

/// A server with one route listener, and nothing else.
pub(super) async fn alone(top: &str, cluster: &str) -> Server {
    server(&format!("server_name: one\n{top}\ncluster {{ name: c1, listen: \"127.0.0.1:-1\"\n{cluster} }}"))
        .await
}

/// CONNECT of a route.
pub(super) fn connect_line(fields: Value) -> String {
    let mut connect = json!({
        "echo": true, "verbose": false, "pedantic": false, "tls_required": false, "headers": true,
        "name": PEER_ID, "cluster": "c1", "lnoc": true, "lnocu": true,
    });
    connect.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    format!("CONNECT {connect}\r\n")
}

/// INFO of a route.
pub(super) fn info_line(fields: Value) -> String {
    let mut info = json!({
        "server_id": PEER_ID, "server_name": "peer", "version": "2.15.1", "proto": 1, "go": "go1.27",
        "host": "127.0.0.1", "port": 1, "headers": true, "max_payload": 1_048_576, "cluster": "c1",
        "lnoc": true, "lnocu": true,
    });
    info.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    format!("INFO {info}\r\n")
}

impl Peer {
    /// Dials and reads the greeting.
    pub(super) async fn dial(address: SocketAddr) -> Self {
        Self { wire: Client::open(address).await }
    }

    /// A connected peer without pooling, so that one connection carries all accounts.
    pub(super) async fn connected(server: &Server) -> Self {
        Self::connected_with(server, json!({}), json!({})).await
    }

    /// A connected peer with more fields in CONNECT and INFO.
    pub(super) async fn connected_with(server: &Server, connect: Value, info: Value) -> Self {
        let mut peer = Self::dial(server.cluster_addr()).await;
        peer.wire.send(connect_line(connect) + &info_line(info)).await;
        peer.wire.flush().await;
        peer
    }

    /// The lines about this account that have come by now.
    pub(super) async fn lines_of(&mut self, account: &str) -> Vec<String> {
        let frames = self.wire.drain().await;
        let mut lines: Vec<String> = frames.iter().map(Frame::line).collect();
        lines.retain(|line| line.split(' ').any(|word| word == account));
        lines
    }

    /// Next data frame (`RMSG`, `HMSG` or `LMSG`), past lines about interest.
    pub(super) async fn data(&mut self) -> Frame {
        testkit::within(testkit::PATIENCE, "a message on the route", async {
            loop {
                let frame = self.wire.next().await;
                if ["RMSG", "HMSG", "LMSG"].contains(&frame.verb().as_str()) {
                    return frame;
                }
            }
        })
        .await
    }

    /// Sends bytes and waits until the server has handled them.
    pub(super) async fn send(&mut self, bytes: &str) {
        self.wire.send(bytes).await;
        self.wire.flush().await;
    }
}

#[tokio::test]
async fn the_greeting_of_a_route_holds_what_peers_need() {
    let server = alone("", "").await;
    let peer = Peer::dial(server.cluster_addr()).await;
    let info = peer.wire.info();
    assert_eq!(info["server_name"], "one");
    assert_eq!(info["server_id"].as_str().unwrap().len(), 56);
    assert_eq!(info["cluster"], "c1");
    assert_eq!(info["port"], server.cluster_addr().port());
    assert_eq!(info["headers"], true);
    assert_eq!(info["lnoc"], true);
    assert_eq!(info["lnocu"], true);
    assert_eq!(info["route_pool_size"], 3);
    assert!(info["proto"].as_u64() >= Some(1), "{info}");
    assert!(info["max_payload"].is_u64(), "{info}");
    assert!(info.get("auth_required").is_none(), "{info}");
    assert!(info.get("tls_required").is_none(), "{info}");
}

#[tokio::test]
async fn a_peer_without_pooling_is_taken_and_pinged() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    peer.wire.raw();
    testkit::eventually("a PING from the server", async || {
        (peer.wire.next().await.bytes == b"PING\r\n").then_some(())
    })
    .await;
    peer.wire.send("PONG\r\n").await;
}

#[tokio::test]
async fn a_route_connection_that_speaks_like_a_client_is_told_so() {
    let server = alone("", "").await;
    let mut client = Client::open(server.cluster_addr()).await;
    client.op("CONNECT {\"verbose\":false,\"lang\":\"rust\",\"version\":\"1.0\"}").await;
    client.expect_fatal("attempted to connect to route port").await;
}

#[tokio::test]
async fn a_gateway_on_the_route_port_is_rejected() {
    let server = alone("", "").await;
    let mut peer = Peer::dial(server.cluster_addr()).await;
    peer.wire.send(connect_line(json!({"gateway": "far"}))).await;
    peer.wire.expect_fatal("Rejecting connection from gateway \"far\" on the Route port").await;
}

#[tokio::test]
async fn a_peer_of_another_cluster_is_rejected_with_both_names() {
    let server = alone("", "").await;
    let mut peer = Peer::dial(server.cluster_addr()).await;
    peer.wire.send(connect_line(json!({"cluster": "other"})) + &info_line(json!({"cluster": "other"}))).await;
    peer.wire.expect_fatal("Rejecting connection, cluster name \"other\" does not match \"c1\"").await;
}

#[tokio::test]
async fn a_peer_with_the_servers_own_id_is_dropped() {
    let server = alone("", "").await;
    let mut peer = Peer::dial(server.cluster_addr()).await;
    let own = peer.wire.info()["server_id"].clone();
    peer.wire.send(connect_line(json!({"name": own})) + &info_line(json!({"server_id": own}))).await;
    peer.wire.read_to_end().await;
}

#[tokio::test]
async fn a_peer_with_the_servers_own_name_is_dropped() {
    let server = alone("", "").await;
    let mut peer = Peer::dial(server.cluster_addr()).await;
    peer.wire.send(connect_line(json!({})) + &info_line(json!({"server_name": "one"}))).await;
    peer.wire.read_to_end().await;
    server.await_log("Duplicate Server Name").await;
}

#[tokio::test]
async fn a_second_route_of_an_unpooled_peer_is_a_duplicate() {
    let server = alone("", "").await;
    let mut first = Peer::connected(&server).await;
    let mut second = Peer::dial(server.cluster_addr()).await;
    second.wire.send(connect_line(json!({})) + &info_line(json!({}))).await;
    second.wire.read_to_end().await;
    first.wire.flush().await;
}

#[tokio::test]
async fn a_broken_line_of_a_peer_closes_the_route_and_nothing_else() {
    let server = alone("", "").await;
    for line in ["XYZ", "RS+", "RS+ $G", "RS- $G", "RMSG $G foo", "RMSG $G foo x"] {
        let mut peer = Peer::connected(&server).await;
        peer.wire.op(line).await;
        peer.wire.read_to_end().await;
    }
    // The server is well.
    Client::ready(&server).await.expect_silence().await;
}
