//! Permissions of a cluster: which interest is told to peers, and which of theirs is heard.

use testkit::Client;

use super::peer::{Peer, alone};

const PERMISSIONS: &str =
    "permissions { import: {allow: [\"in.>\", \"both\"]}, export: {allow: [\"out.>\", \"both\"]} }";

#[tokio::test]
async fn only_interest_in_imported_subjects_is_told() {
    let server = alone("", PERMISSIONS).await;
    let mut client = Client::ready(&server).await;
    let mut peer = Peer::connected(&server).await;
    peer.lines_of("$G").await;
    client.send("SUB in.a 1\r\nSUB other 2\r\nSUB both 3\r\nSUB out.a 4\r\n").await;
    client.flush().await;
    let mut lines = peer.lines_of("$G").await;
    lines.sort();
    assert_eq!(lines, ["RS+ $G both", "RS+ $G in.a"]);
}

#[tokio::test]
async fn only_interest_in_exported_subjects_is_heard() {
    let server = alone("", PERMISSIONS).await;
    let mut client = Client::ready(&server).await;
    let mut peer = Peer::connected(&server).await;
    peer.send("RS+ $G out.a\r\nRS+ $G secret\r\nRS+ $G both\r\n").await;
    peer.lines_of("$G").await;
    client.publish("secret", "x").await;
    client.publish("out.a", "y").await;
    assert_eq!(peer.data().await.text(), "RMSG $G out.a 1\r\ny\r\n");
    client.publish("both", "z").await;
    assert_eq!(peer.data().await.text(), "RMSG $G both 1\r\nz\r\n");
}

#[tokio::test]
async fn permissions_are_announced_to_the_peer() {
    let server = alone("", PERMISSIONS).await;
    let peer = Peer::dial(server.cluster_addr()).await;
    let info = peer.wire.info();
    assert_eq!(info["import"]["allow"], serde_json::json!(["in.>", "both"]), "{info}");
    assert_eq!(info["export"]["allow"], serde_json::json!(["out.>", "both"]), "{info}");
}
