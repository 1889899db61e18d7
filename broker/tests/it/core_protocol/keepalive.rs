//! PING from the server, and clients that do not answer.

use testkit::{Client, eventually};

use crate::{monitored, server};

#[tokio::test]
async fn a_client_that_does_not_answer_is_stale() {
    let server = monitored("ping_interval: \"100ms\"\nping_max: 2").await;
    let mut client = Client::open(server.client_addr()).await;
    client.raw().send("CONNECT {\"verbose\":false}\r\n").await;
    let frames: Vec<String> = client.read_to_end().await.iter().map(testkit::Frame::text).collect();
    assert_eq!(frames, ["PING\r\n", "PING\r\n", "-ERR 'Stale Connection'\r\n"]);
    let closed = server
        .await_json("/connz?state=closed", "the closed connection shows", |connz| {
            connz["num_connections"] == 1
        })
        .await;
    assert_eq!(closed["connections"][0]["reason"], "Stale Connection");
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["stale_connections"], 1);
}

#[tokio::test]
async fn a_client_that_answers_stays() {
    let server = server("ping_interval: \"50ms\"\nping_max: 1").await;
    let mut client = Client::open(server.client_addr()).await;
    client.raw().send("CONNECT {\"verbose\":false,\"protocol\":0}\r\n").await;
    for _ in 0..10 {
        client.expect("PING\r\n").await;
        client.send("PONG\r\n").await;
    }
    client.send("PING\r\n").await;
    eventually("the answer", async || (client.next().await.bytes == b"PONG\r\n").then_some(())).await;
}

#[tokio::test]
async fn a_client_is_pinged_soon_after_connect_to_measure_the_round_trip() {
    let server = monitored("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.raw().send("CONNECT {\"verbose\":false,\"protocol\":0}\r\n").await;
    client.expect("PING\r\n").await;
    client.send("PONG\r\n").await;
    let connz = server
        .await_json("/connz", "the round trip is known", |connz| connz["connections"][0].get("rtt").is_some())
        .await;
    assert!(connz["connections"][0]["rtt"].is_string(), "{connz}");
}
