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

/// Waits until these servers have a full pool to each of so many peers.
async fn pools_are_full(servers: &[&Server], peers: usize) {
    for server in servers {
        server
            .await_json("/routez", "full pools", |routez| {
                routez["num_routes"].as_u64() == Some(4 * peers as u64)
            })
            .await;
    }
}

/// Cuts one connection after the other of those that lead through the proxies, each time waiting for full pools.
async fn cut_single_connections(proxies: &[&Proxy], servers: &[&Server], peers: usize) {
    let accepted = || proxies.iter().map(|proxy| proxy.accepted()).sum::<usize>();
    for round in 0..30 {
        pools_are_full(servers, peers).await;
        let open: Vec<&&Proxy> = proxies.iter().filter(|proxy| proxy.open() > 0).collect();
        assert!(!open.is_empty(), "no connection leads through a proxy");
        let proxy = open[round % open.len()];
        let dialed = accepted();
        proxy.cut_one(round % proxy.open());
        eventually("the lost connection is dialed again", async || (accepted() > dialed).then_some(())).await;
    }
    pools_are_full(servers, peers).await;
}

#[tokio::test]
async fn single_lost_connections_of_a_configured_route_are_made_again() {
    // Case O77: pools stayed short of a connection.
    let first = Cluster::start_unmeshed(vec![Member::new(&target())]).await;
    let proxy = Proxy::to(first[0].cluster_addr()).await;
    let second = behind(&proxy, "", "").await;
    cut_single_connections(&[&proxy], &[&first[0], &second], 1).await;
}

#[tokio::test]
async fn single_lost_connections_of_a_gossiped_route_are_made_again() {
    let seed = Cluster::start_unmeshed(vec![Member::new(&target())]).await;
    let (mut proxies, mut servers) = (Vec::new(), Vec::new());
    for name in ["one", "two"] {
        let proxy = Proxy::waiting().await;
        let server = Builder::new(&target())
            .config(format!(
                "server_name: {name}\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", advertise: \"{}\", routes: [\"nats-route://{}\"] }}",
                proxy.address(),
                seed[0].cluster_addr()
            ))
            .monitoring()
            .start()
            .await;
        proxy.forward_to(server.cluster_addr());
        proxies.push(proxy);
        servers.push(server);
    }
    let proxies: Vec<&Proxy> = proxies.iter().collect();
    cut_single_connections(&proxies, &[&servers[0], &servers[1], &seed[0]], 2).await;
}

#[tokio::test]
async fn a_wrong_route_password_is_tried_about_once_a_second_and_place() {
    // Case O76. What is measured is a rate, so the time that passes is the condition.
    let first = Cluster::start_unmeshed(vec![
        Member::new(&target()).cluster("authorization { user: route, password: right }"),
    ])
    .await;
    let proxy = Proxy::to(first[0].cluster_addr()).await;
    let _second = behind(&proxy, "route:wrong@", "").await;
    let started = Instant::now();
    eventually("five seconds of attempts", async || {
        (started.elapsed() >= Duration::from_secs(5)).then_some(())
    })
    .await;
    let attempts = proxy.accepted();
    // Three places and the one of the system account; one more round, because the first comes at once.
    let bound = 4 * (started.elapsed().as_secs() as usize + 1);
    assert!((2..=bound).contains(&attempts), "{attempts} attempts, at most {bound} expected");
}
