//! Servers find each other, leave and come back.

use testkit::{Client, Cluster, Member, Signal};

use super::{await_nobody, settle};
use crate::target;

/// A message from every member to every other.
async fn assert_all_pairs(cluster: &Cluster) {
    for from in cluster.servers() {
        for to in cluster.servers() {
            let mut subscriber = Client::ready(to).await;
            let mut publisher = Client::ready(from).await;
            subscriber.subscribe("pair", "1").await;
            settle(&mut publisher, &mut subscriber).await;
            publisher.request("pair", "re.ply", "hello").await;
            subscriber.expect("MSG pair 1 re.ply 5\r\nhello\r\n").await;
            subscriber.expect_silence().await;
        }
    }
}

#[tokio::test]
async fn two_servers_pass_messages_both_ways() {
    let cluster = Cluster::of(2, &target()).await;
    assert_all_pairs(&cluster).await;
}

#[tokio::test]
async fn servers_that_know_only_the_first_find_each_other() {
    let cluster = Cluster::of(3, &target()).await;
    assert_all_pairs(&cluster).await;
    let routez = cluster[1].get_json("/routez").await;
    let to_third: Vec<&serde_json::Value> =
        routez["routes"].as_array().unwrap().iter().filter(|route| route["remote_name"] == "n2").collect();
    assert!(to_third.iter().all(|route| route["is_configured"] == false), "{routez:#}");
}

#[tokio::test]
async fn a_server_that_ends_and_returns_is_part_of_the_mesh_again() {
    let mut cluster = Cluster::of(3, &target()).await;
    let mut requester = Client::ready(&cluster[0]).await;
    let mut responder = Client::ready(&cluster[2]).await;
    responder.subscribe("service", "1").await;
    settle(&mut requester, &mut responder).await;

    cluster[2].stop().await;
    await_nobody(&mut requester, "service").await;
    cluster[2].restart().await;
    cluster.await_mesh().await;
    assert_all_pairs(&cluster).await;
}

#[tokio::test]
async fn the_first_server_may_die_and_return() {
    let mut cluster = Cluster::of(3, &target()).await;
    cluster[0].kill().await;
    let mut subscriber = Client::ready(&cluster[1]).await;
    let mut publisher = Client::ready(&cluster[2]).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    publisher.publish("foo", "x").await;
    subscriber.expect("MSG foo 1 1\r\nx\r\n").await;
    cluster[0].restart().await;
    cluster.await_mesh().await;
    assert_all_pairs(&cluster).await;
}

#[tokio::test]
async fn a_route_to_itself_is_noticed_and_dropped() {
    let cluster = Cluster::start_unmeshed(vec![Member::new(&target())]).await;
    let own = cluster[0].cluster_addr();
    let text = format!(
        "server_name: n0\ncluster {{ name: c1, listen: \"127.0.0.1:{}\", routes: [\"nats-route://{own}\"] }}",
        own.port()
    );
    drop(cluster);
    let server = testkit::Builder::new(&target()).config(text).monitoring().start().await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nPUB foo 1\r\nx\r\n").await;
    client.expect("MSG foo 1 1\r\nx\r\n").await;
    client.expect_silence().await;
    server.await_json("/routez", "no route is left", |routez| routez["num_routes"] == 0).await;
}

#[tokio::test]
async fn a_route_given_by_host_name_is_resolved() {
    let cluster = Cluster::start_unmeshed(vec![Member::new(&target())]).await;
    let second = testkit::Builder::new(&target())
        .config(format!(
            "server_name: n1\ncluster {{ name: c1, listen: \"127.0.0.1:-1\", routes: [\"nats-route://localhost:{}\"] }}",
            cluster[0].cluster_addr().port()
        ))
        .monitoring()
        .start()
        .await;
    let routez =
        second.await_json("/routez", "a route", |routez| routez["num_routes"].as_u64() > Some(0)).await;
    assert_eq!(routez["routes"][0]["did_solicit"], true);
    assert_eq!(routez["routes"][0]["is_configured"], true);
}

#[tokio::test]
async fn lame_duck_on_one_server_leaves_the_others_connected() {
    let mut cluster = Cluster::of(3, &target()).await;
    cluster[1].signal(Signal::USR2);
    cluster[1].await_exit().await;
    let mut subscriber = Client::ready(&cluster[0]).await;
    let mut publisher = Client::ready(&cluster[2]).await;
    subscriber.subscribe("foo", "1").await;
    settle(&mut publisher, &mut subscriber).await;
    publisher.publish("foo", "x").await;
    subscriber.expect("MSG foo 1 1\r\nx\r\n").await;
}
