//! Log lines that test suites of clients and scripts wait for.

use testkit::{Builder, Client};

use super::program;
use crate::{monitored, server, target};

#[tokio::test]
async fn start_and_stop_are_told_in_the_usual_lines() {
    let mut server = Builder::new(&target())
        .config("server_name: alpha\ncluster { name: c1, listen: \"127.0.0.1:-1\" }")
        .monitoring()
        .start()
        .await;
    server.await_log("Listening for route connections on 127.0.0.1:").await;
    let log = server.log();
    for line in [
        format!("[INF] Starting {}", program()),
        "[INF]   Version:  ".to_owned(),
        "[INF]   Cluster:  c1".to_owned(),
        "[INF]   Name:     alpha".to_owned(),
        "[INF]   ID:       N".to_owned(),
        "[INF] Using configuration file: ".to_owned(),
        format!("[INF] Starting http monitor on {}", server.monitoring_addr()),
        format!("[INF] Listening for client connections on {}", server.client_addr()),
        "[INF] Server is ready".to_owned(),
        "[INF] Cluster name is c1".to_owned(),
        format!("[INF] Listening for route connections on {}", server.cluster_addr()),
    ] {
        assert!(log.contains(&line), "no {line:?} in {log}");
    }
    assert_eq!(server.stop().await.code(), Some(0));
    let log = server.log();
    for line in ["Trapped \"terminated\" signal", "[INF] Initiating Shutdown...", "[INF] Server Exiting.."] {
        assert!(log.contains(line), "no {line:?} in {log}");
    }
}

#[tokio::test]
async fn lines_begin_with_process_id_time_and_level() {
    let server = server("max_payload: 1000").await;
    let log = server.log();
    let line = log.lines().next().unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], format!("[{}]", server.pid()));
    assert!(words[1].len() == 10 && words[1].matches('/').count() == 2, "{line}");
    assert!(words[2].len() == 15 && words[2].matches(':').count() == 2, "{line}");
    assert_eq!(words[3], "[INF]");
}

#[tokio::test]
async fn time_can_be_left_out() {
    let server = Builder::new(&target()).args(["-T=false"]).start().await;
    let first = server.log().lines().next().unwrap().to_owned();
    assert_eq!(first, format!("[{}] [INF] Starting {}", server.pid(), program()));
}

#[tokio::test]
async fn debug_shows_connections_coming_and_going() {
    let server = Builder::new(&target()).args(["-D"]).start().await;
    let client = Client::ready(&server).await;
    let id = client.infos[0]["client_id"].as_u64().unwrap();
    server.await_log(&format!("cid:{id} - Client connection created")).await;
    drop(client);
    server.await_log("Client connection closed: Client Closed").await;
}

#[tokio::test]
async fn trace_shows_operations() {
    let server = Builder::new(&target()).args(["-V"]).start().await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nPUB foo 5\r\nhello\r\n").await;
    client.expect("MSG foo 1 5\r\nhello\r\n").await;
    for line in ["<<- [CONNECT {", "<<- [SUB foo 1]", "<<- [PUB foo 5]", "->> [MSG foo 1 5]"] {
        server.await_log(line).await;
    }
}

#[tokio::test]
async fn a_refused_client_is_logged_with_its_user() {
    let server = monitored("authorization { user: ann, password: a }").await;
    let mut client = Client::open(server.client_addr()).await;
    client.op("CONNECT {\"user\":\"eve\",\"pass\":\"x\"}").await;
    client.expect_fatal("Authorization Violation").await;
    server.await_log("User \"eve\"").await;
}

#[tokio::test]
async fn plain_passwords_are_warned_of() {
    let server = server("authorization { user: ann, password: a }").await;
    server.await_log("[WRN] Plaintext passwords detected, use nkeys or bcrypt").await;
}
