//! What clients are told about the cluster.

use serde_json::Value;
use testkit::{Client, Cluster, Member, Server, Signal, eventually_ok};

use crate::target;

fn urls(info: &Value) -> Vec<String> {
    let mut urls: Vec<String> = info
        .get("connect_urls")
        .and_then(Value::as_array)
        .map(|urls| urls.iter().map(|url| url.as_str().unwrap().to_owned()).collect())
        .unwrap_or_default();
    urls.sort();
    urls
}

fn addresses(servers: &[&Server]) -> Vec<String> {
    let mut addresses: Vec<String> = servers.iter().map(|server| server.client_addr().to_string()).collect();
    addresses.sort();
    addresses
}

/// Waits for an INFO with exactly these URLs.
async fn await_urls(client: &mut Client, expected: &[String]) {
    while urls(client.info()) != expected {
        client.next_info().await;
    }
}

#[tokio::test]
async fn clients_learn_of_servers_that_join_and_leave() {
    let mut cluster = Cluster::start_unmeshed(vec![Member::new(&target()), Member::new(&target())]).await;
    cluster.await_mesh().await;
    let mut client = Client::ready(&cluster[0]).await;
    let both = addresses(&[&cluster[0], &cluster[1]]);
    await_urls(&mut client, &both).await;
    cluster[1].stop().await;
    let alone = addresses(&[&cluster[0]]);
    await_urls(&mut client, &alone).await;
    cluster[1].restart().await;
    await_urls(&mut client, &both).await;
}

#[tokio::test]
async fn the_greeting_names_the_cluster_and_its_client_addresses() {
    let cluster = Cluster::of(3, &target()).await;
    let all = addresses(&[&cluster[0], &cluster[1], &cluster[2]]);
    for server in cluster.servers() {
        eventually_ok("all addresses", async || {
            let client = Client::open(server.client_addr()).await;
            assert_eq!(client.info()["cluster"], "c1");
            if urls(client.info()) == all { Ok(()) } else { Err(client.info().clone()) }
        })
        .await;
    }
}

#[tokio::test]
async fn without_advertising_no_addresses_are_told() {
    let members = vec![
        Member::new(&target()).cluster("no_advertise: true"),
        Member::new(&target()).cluster("no_advertise: true"),
    ];
    let cluster = Cluster::start(members).await;
    let client = Client::open(cluster[0].client_addr()).await;
    assert!(client.info().get("connect_urls").is_none(), "{}", client.info());
}

#[tokio::test]
async fn the_advertised_client_address_travels_through_the_cluster() {
    let members = vec![
        Member::new(&target()),
        Member::new(&target()).top("client_advertise: \"far.example.net:4333\""),
    ];
    let cluster = Cluster::start(members).await;
    let mut client = Client::ready(&cluster[0]).await;
    let mut expected = addresses(&[&cluster[0]]);
    expected.push("far.example.net:4333".to_owned());
    expected.sort();
    await_urls(&mut client, &expected).await;
}

#[tokio::test]
async fn a_lame_duck_is_taken_from_the_addresses_before_it_leaves() {
    let slow = "lame_duck_grace_period: \"29s\"\nlame_duck_duration: \"30s\"";
    let cluster = Cluster::start(vec![Member::new(&target()), Member::new(&target()).top(slow)]).await;
    let mut elsewhere = Client::ready(&cluster[0]).await;
    let mut guest = Client::ready(&cluster[1]).await;
    let both = addresses(&[&cluster[0], &cluster[1]]);
    await_urls(&mut elsewhere, &both).await;
    await_urls(&mut guest, &both).await;
    cluster[1].signal(Signal::USR2);
    let rest = addresses(&[&cluster[0]]);
    await_urls(&mut elsewhere, &rest).await;
    await_urls(&mut guest, &rest).await;
    assert_eq!(guest.info()["ldm"], true);
    assert!(elsewhere.info().get("ldm").is_none(), "{}", elsewhere.info());
}
