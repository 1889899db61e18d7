//! How many routes two servers have, and what travels on which.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::{Client, Cluster, Member, Server};

use super::settle;
use crate::target;

/// Routes per account they are dedicated to; the empty name counts the pool.
async fn routes(server: &Server) -> BTreeMap<String, usize> {
    count(&server.get_json("/routez").await)
}

fn count(routez: &Value) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for route in routez["routes"].as_array().into_iter().flatten() {
        let account = route.get("account").and_then(Value::as_str).unwrap_or_default();
        *counts.entry(account.to_owned()).or_default() += 1;
    }
    counts
}

async fn two(first: &str, second: &str, top: &str) -> Cluster {
    Cluster::start_unmeshed(vec![
        Member::new(&target()).cluster(first).top(top),
        Member::new(&target()).cluster(second).top(top),
    ])
    .await
}

/// Waits until both have these routes and no others.
async fn await_routes(cluster: &Cluster, expected: &[(&str, usize)]) {
    let expected: BTreeMap<String, usize> =
        expected.iter().map(|(account, count)| ((*account).to_owned(), *count)).collect();
    for server in cluster.servers() {
        server.await_json("/routez", &format!("{expected:?}"), |routez| count(routez) == expected).await;
    }
}

#[tokio::test]
async fn by_default_there_are_three_routes_and_one_for_the_system_account() {
    let cluster = two("", "", "").await;
    await_routes(&cluster, &[("", 3), ("$SYS", 1)]).await;
    assert_eq!(cluster[0].get_json("/varz").await["cluster"]["pool_size"], 3);
    assert_eq!(cluster[0].get_json("/varz").await["routes"], 4);
}

#[tokio::test]
async fn the_larger_of_two_pool_sizes_counts() {
    let cluster = two("pool_size: 2", "pool_size: 5", "").await;
    await_routes(&cluster, &[("", 5), ("$SYS", 1)]).await;
}

#[tokio::test]
async fn a_pool_of_one_is_one_route() {
    let cluster = two("pool_size: 1", "pool_size: 1", "").await;
    await_routes(&cluster, &[("", 1), ("$SYS", 1)]).await;
}

#[tokio::test]
async fn without_pooling_one_route_carries_everything() {
    let cluster = two("pool_size: -1", "pool_size: -1", "").await;
    await_routes(&cluster, &[("", 1)]).await;
    let mut subscriber = Client::ready(&cluster[1]).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
}

#[tokio::test]
async fn a_server_without_pooling_and_one_with_share_a_single_route() {
    let cluster = two("pool_size: -1", "", "").await;
    await_routes(&cluster, &[("", 1)]).await;
    let mut subscriber = Client::ready(&cluster[0]).await;
    let mut publisher = Client::ready(&cluster[1]).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
}

#[tokio::test]
async fn a_pinned_account_has_its_own_route() {
    let top = "accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}] } }";
    let cluster = two("accounts: [\"A\"]", "accounts: [\"A\"]", top).await;
    await_routes(&cluster, &[("", 3), ("$SYS", 1), ("A", 1)]).await;
    let mut subscriber = Client::user(&cluster[1], "a", "a").await;
    let mut publisher = Client::user(&cluster[0], "a", "a").await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    for _ in 0..50 {
        publisher.publish("foo", "x").await;
    }
    for _ in 0..50 {
        subscriber.expect("MSG foo 1 1\r\nx\r\n").await;
    }
    let routez = cluster[0].get_json("/routez").await;
    for route in routez["routes"].as_array().unwrap() {
        let sent = route["out_msgs"].as_u64().unwrap();
        if route["account"] == "A" {
            assert!(sent >= 50, "{routez:#}");
        } else if route.get("account").is_none() {
            assert!(sent < 50, "{routez:#}");
        }
    }
}

#[tokio::test]
async fn an_account_always_uses_the_same_route_of_the_pool() {
    let cluster = Cluster::of(2, &target()).await;
    let mut subscriber = Client::ready(&cluster[1]).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    for _ in 0..100 {
        publisher.publish("foo", "x").await;
    }
    subscriber.take(100).await;
    let routez = cluster[0].get_json("/routez").await;
    let sent: Vec<u64> = routez["routes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|route| route.get("account").is_none())
        .map(|route| route["out_msgs"].as_u64().unwrap())
        .collect();
    assert_eq!(sent.iter().filter(|&&count| count > 0).count(), 1, "{sent:?}");
    assert_eq!(routes(&cluster[0]).await[""], 3);
}
