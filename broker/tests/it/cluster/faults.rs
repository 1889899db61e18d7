//! Cut, stalled and rejected routes.

use std::time::{Duration, Instant};

use testkit::{Builder, Client, Cluster, Member, Proxy, Server, Signal, eventually};

use super::settle;
use crate::target;

/// A server that reaches the first one only through the proxy.
async fn behind(proxy: &Proxy, user: &str, lines: &str) -> Server {
    Builder::new(&target())
        .config(format!(
            "server_name: behind\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", routes: [\"nats-route://{user}{}\"]\n{lines} }}",
            proxy.address()
        ))
        .monitoring()
        .start()
        .await
}

async fn pool_is_full(server: &Server) {
    server
        .await_json("/routez", "three routes and the one of the system account", |routez| {
            routez["num_routes"] == 4
        })
        .await;
}

#[tokio::test]
async fn a_cut_pool_is_full_again_in_seconds() {
    let first = Cluster::start_unmeshed(vec![Member::new(&target())]).await;
    let proxy = Proxy::to(first[0].cluster_addr()).await;
    let second = behind(&proxy, "", "").await;
    for _ in 0..5 {
        pool_is_full(&second).await;
        pool_is_full(&first[0]).await;
        let dialed = proxy.accepted();
        proxy.cut();
        eventually("the cut was noticed", async || (proxy.accepted() > dialed).then_some(())).await;
    }
    pool_is_full(&second).await;
    pool_is_full(&first[0]).await;
    let mut subscriber = Client::ready(&first[0]).await;
    let mut publisher = Client::ready(&second).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    publisher.publish("foo", "x").await;
    subscriber.expect("MSG foo 1 1\r\nx\r\n").await;
    subscriber.expect_silence().await;
}

#[tokio::test]
async fn a_wrong_route_password_leads_to_spaced_attempts() {
    let first = Cluster::start_unmeshed(vec![
        Member::new(&target()).cluster("authorization { user: route, password: right }"),
    ])
    .await;
    let proxy = Proxy::to(first[0].cluster_addr()).await;
    let started = Instant::now();
    let second = behind(&proxy, "route:wrong@", "").await;
    eventually("some attempts", async || (proxy.accepted() >= 4).then_some(())).await;
    // The bug that this guards against made thousands of attempts a second.
    let attempts = proxy.accepted();
    let elapsed = started.elapsed();
    assert!(
        elapsed > Duration::from_millis(200) * (attempts as u32 - 1),
        "{attempts} attempts in {elapsed:?}"
    );
    assert_eq!(first[0].get_json("/routez").await["num_routes"], 0);
    assert!(!second.log().contains("wrong"), "the log shows a password: {}", second.log());
}

#[tokio::test]
async fn a_route_with_the_right_password_connects() {
    let authorization = "authorization { user: route, password: right }";
    let first = Cluster::start_unmeshed(vec![Member::new(&target()).cluster(authorization)]).await;
    let proxy = Proxy::to(first[0].cluster_addr()).await;
    let second = behind(&proxy, "route:right@", authorization).await;
    pool_is_full(&second).await;
}

#[tokio::test]
async fn a_refused_route_is_tried_until_it_works() {
    let first = Cluster::start_unmeshed(vec![Member::new(&target())]).await;
    let proxy = Proxy::to(first[0].cluster_addr()).await;
    proxy.refuse(true);
    let second = behind(&proxy, "", "").await;
    eventually("more than one attempt", async || (proxy.accepted() >= 2).then_some(())).await;
    proxy.refuse(false);
    pool_is_full(&second).await;
}

#[tokio::test]
async fn a_stalled_peer_is_given_up_and_taken_back() {
    let lines = "ping_interval: \"200ms\"\nping_max: 1";
    let cluster =
        Cluster::start(vec![Member::new(&target()).cluster(lines), Member::new(&target()).cluster(lines)])
            .await;
    cluster[1].signal(Signal::STOP);
    cluster[0].await_json("/routez", "the stalled peer is gone", |routez| routez["num_routes"] == 0).await;
    let mut client = Client::ready(&cluster[0]).await;
    client.send("SUB foo 1\r\nPUB foo 1\r\nx\r\n").await;
    client.expect("MSG foo 1 1\r\nx\r\n").await;
    cluster[1].signal(Signal::CONT);
    cluster.await_mesh().await;
}
