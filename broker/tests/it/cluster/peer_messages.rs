//! RMSG, HMSG and LMSG, byte for byte, both ways.

use serde_json::json;
use testkit::Client;

use super::peer::{Peer, alone};

const BLOCK: &str = "NATS/1.0\r\nA: b\r\n\r\n";

#[tokio::test]
async fn a_message_goes_out_when_a_peer_is_interested() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    peer.send("RS+ $G foo.*\r\n").await;
    client.publish("foo.a", "hello").await;
    assert_eq!(peer.data().await.text(), "RMSG $G foo.a 5\r\nhello\r\n");
    client.request("foo.a", "re.ply", "hello").await;
    assert_eq!(peer.data().await.text(), "RMSG $G foo.a re.ply 5\r\nhello\r\n");
    client.publish_with_headers("foo.a", BLOCK, "hello").await;
    assert_eq!(peer.data().await.text(), format!("HMSG $G foo.a 18 23\r\n{BLOCK}hello\r\n"));
    client.send(format!("HPUB foo.a re.ply 18 18\r\n{BLOCK}\r\n")).await;
    assert_eq!(peer.data().await.text(), format!("HMSG $G foo.a re.ply 18 18\r\n{BLOCK}\r\n"));
    client.publish("bar", "not for the peer").await;
    client.flush().await;
    peer.send("RS- $G foo.*\r\n").await;
    client.publish("foo.a", "late").await;
    client.flush().await;
    assert!(peer.lines_of("$G").await.is_empty());
}

#[tokio::test]
async fn a_message_for_queue_groups_names_them() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    peer.send("RS+ $G job workers 2\r\n").await;
    client.publish("job", "abc").await;
    assert_eq!(peer.data().await.text(), "RMSG $G job | workers 3\r\nabc\r\n");
    client.request("job", "_INBOX.x", "abc").await;
    assert_eq!(peer.data().await.text(), "RMSG $G job + _INBOX.x workers 3\r\nabc\r\n");
    client.publish_with_headers("job", BLOCK, "abc").await;
    assert_eq!(peer.data().await.text(), format!("HMSG $G job | workers 18 21\r\n{BLOCK}abc\r\n"));
    client.send(format!("HPUB job _INBOX.x 18 21\r\n{BLOCK}abc\r\n")).await;
    assert_eq!(peer.data().await.text(), format!("HMSG $G job + _INBOX.x workers 18 21\r\n{BLOCK}abc\r\n"));
}

#[tokio::test]
async fn one_line_serves_plain_interest_and_all_groups_of_a_peer() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    peer.send("RS+ $G job\r\nRS+ $G job red 1\r\nRS+ $G * blue 1\r\n").await;
    client.publish("job", "abc").await;
    let line = peer.data().await.line();
    let mut words: Vec<&str> = line.split(' ').collect();
    words[4..6].sort_unstable();
    assert_eq!(words, ["RMSG", "$G", "job", "|", "blue", "red", "3"]);
    client.flush().await;
    assert!(peer.lines_of("$G").await.is_empty());
}

#[tokio::test]
async fn headers_are_stripped_for_a_peer_that_does_not_announce_them() {
    let server = alone("", "").await;
    let mut peer = Peer::connected_with(&server, json!({"headers": false}), json!({"headers": false})).await;
    let mut client = Client::ready(&server).await;
    peer.send("RS+ $G foo\r\n").await;
    client.publish_with_headers("foo", BLOCK, "hello").await;
    assert_eq!(peer.data().await.text(), "RMSG $G foo 5\r\nhello\r\n");
}

#[tokio::test]
async fn a_message_from_a_peer_reaches_plain_subscribers() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nSUB * 2\r\n").await;
    client.flush().await;
    peer.send("RMSG $G foo re.ply 5\r\nhello\r\n").await;
    let mut got: Vec<String> = client.take(2).await.iter().map(testkit::Frame::text).collect();
    got.sort();
    assert_eq!(got, ["MSG foo 1 re.ply 5\r\nhello\r\n", "MSG foo 2 re.ply 5\r\nhello\r\n"]);
    client.op("UNSUB 2").await;
    client.flush().await;
    peer.send(&format!("HMSG $G foo 18 23\r\n{BLOCK}hello\r\n")).await;
    client.expect(format!("HMSG foo 1 18 23\r\n{BLOCK}hello\r\n")).await;
    peer.send("RMSG $G foo 0\r\n\r\n").await;
    client.expect("MSG foo 1 0\r\n\r\n").await;
    peer.send("RMSG $G nobody 1\r\nx\r\n").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn a_message_from_a_peer_reaches_the_named_groups_alone() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    client.send("SUB job red 1\r\nSUB job blue 2\r\nSUB job blue 3\r\n").await;
    client.flush().await;
    peer.send("RMSG $G job | red 1\r\na\r\n").await;
    client.expect("MSG job 1 1\r\na\r\n").await;
    client.expect_silence().await;
    peer.send("RMSG $G job + re.ply blue red 1\r\nb\r\n").await;
    let mut sids: Vec<String> = client.take(2).await.iter().map(|frame| frame.message().sid).collect();
    sids.sort();
    assert_eq!(sids[0], "1");
    assert!(["2", "3"].contains(&sids[1].as_str()), "{sids:?}");
    peer.send("RMSG $G job re.ply 1\r\nc\r\nRMSG $G job | green 1\r\nd\r\n").await;
    client.expect_silence().await;
    peer.send(&format!(
        "HMSG $G job | red 18 19\r\n{BLOCK}e\r\nHMSG $G job + re.ply red 18 19\r\n{BLOCK}f\r\n"
    ))
    .await;
    client.expect(format!("HMSG job 1 18 19\r\n{BLOCK}e\r\nHMSG job 1 re.ply 18 19\r\n{BLOCK}f\r\n")).await;
}

#[tokio::test]
async fn messages_that_began_on_a_leafnode_are_understood() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nSUB foo q 2\r\n").await;
    client.flush().await;
    peer.send("LMSG leaf $G foo 0 5\r\nhello\r\n").await;
    client.expect("MSG foo 1 5\r\nhello\r\n").await;
    peer.send(&format!("LMSG leaf $G foo re.ply 18 23\r\n{BLOCK}hello\r\n")).await;
    client.expect(format!("HMSG foo 1 re.ply 18 23\r\n{BLOCK}hello\r\n")).await;
    client.op("UNSUB 1").await;
    client.flush().await;
    peer.send("LMSG leaf $G foo | q 0 1\r\nx\r\nLMSG leaf $G foo + re.ply q 0 1\r\ny\r\n").await;
    client.expect("MSG foo 2 1\r\nx\r\nMSG foo 2 re.ply 1\r\ny\r\n").await;
}

#[tokio::test]
async fn interest_that_began_on_a_leafnode_counts_as_interest() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    peer.send("LS+ leaf $G foo\r\n").await;
    client.publish("foo", "x").await;
    assert_eq!(peer.data().await.text(), "RMSG $G foo 1\r\nx\r\n");
    peer.send("LS- leaf $G foo\r\n").await;
    client.publish("foo", "y").await;
    client.flush().await;
    assert!(peer.lines_of("$G").await.is_empty());
}

#[tokio::test]
async fn a_message_from_a_peer_is_never_passed_to_another_peer() {
    let server = alone("", "").await;
    let mut first = Peer::connected(&server).await;
    let other_id = super::peer::PEER_ID.replace('7', "6");
    let info = json!({"server_id": other_id, "server_name": "peer2"});
    let mut second = Peer::connected_with(&server, json!({"name": other_id}), info).await;
    second.send("RS+ $G foo\r\n").await;
    first.send("RS+ $G foo\r\n").await;
    second.lines_of("$G").await;
    first.lines_of("$G").await;
    first.send("RMSG $G foo 1\r\ny\r\nRMSG $G foo re.ply 1\r\nz\r\n").await;
    assert_eq!(second.lines_of("$G").await, Vec::<String>::new());
    assert_eq!(first.lines_of("$G").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_member_on_a_peer_counts_by_its_weight() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    client.subscribe("job", "1").await;
    client.op("UNSUB 1").await;
    client.queue_subscribe("job", "workers", "2").await;
    peer.send("RS+ $G job workers 3\r\n").await;
    for _ in 0..2000 {
        client.publish("job", "x").await;
    }
    let local = client.drain().await.len();
    // One of four: mean 500, standard deviation 19.
    assert!((380..620).contains(&local), "{local} of 2000 stayed");
    peer.lines_of("$G").await;
    peer.send("RS+ $G job workers 1\r\n").await;
    for _ in 0..2000 {
        client.publish("job", "x").await;
    }
    let local = client.drain().await.len();
    assert!((850..1150).contains(&local), "{local} of 2000 stayed");
}

#[tokio::test]
async fn operations_of_a_peer_split_at_every_byte_are_understood() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    let mut client = Client::ready(&server).await;
    client.subscribe("foo", "1").await;
    for byte in
        format!("RS+ $G bar\r\nRMSG $G foo re.ply 2\r\nhi\r\nHMSG $G foo 18 19\r\n{BLOCK}x\r\n").bytes()
    {
        peer.wire.send([byte]).await;
    }
    client.expect(format!("MSG foo 1 re.ply 2\r\nhi\r\nHMSG foo 1 18 19\r\n{BLOCK}x\r\n")).await;
}

#[tokio::test]
async fn interest_and_messages_of_an_unknown_account_do_no_harm() {
    let server = alone("accounts { A { users: [{user: a, password: a}] } }", "").await;
    let mut peer = Peer::connected(&server).await;
    peer.send("RS+ NOPE foo\r\nRS+ NOPE foo q 2\r\nRMSG NOPE foo 1\r\nx\r\nRS- NOPE foo\r\n").await;
    let mut client = Client::user(&server, "a", "a").await;
    client.subscribe("foo", "1").await;
    peer.send("RMSG A foo 1\r\ny\r\n").await;
    client.expect("MSG foo 1 1\r\ny\r\n").await;
}

#[tokio::test]
async fn interest_of_a_peer_ends_with_its_connection() {
    let server = alone("", "").await;
    let mut peer = Peer::connected(&server).await;
    peer.send("RS+ $G service\r\nRS+ $G service q 1\r\n").await;
    let mut client = Client::ready(&server).await;
    client.subscribe("_INBOX.*", "1").await;
    client.request("service", "_INBOX.1", "").await;
    client.expect_silence().await;
    drop(peer);
    super::await_nobody(&mut client, "service").await;
}
