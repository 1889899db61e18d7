//! Members of queue groups that take too slowly: our server and the reference server tell the same of them, and workloads follow.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use operator::nats::client::Target;
use operator::nats::login::Login;
use operator::nats::system;
use serde_json::json;

use crate::autoscaler::{Plain, address, apply, deploy, quick, until_condition, until_replicas, world};
use crate::support::broker::Broker;
use crate::support::until;

/// Bytes of a message: many of them are more than may wait for a connection.
const LENGTH: usize = 1_000_000;
/// Messages of a flood, above `max_pending` and all that a kernel keeps.
const MESSAGES: usize = 200;

/// Makes a member of `crew` that reads nothing, and floods it until the server has cut it off.
async fn cut_off_a_member(address: &str, (user, password): (&str, &str)) {
    let mut slow = Plain::connect_as(address, user, password).await;
    slow.write("SUB work.* crew 7\r\n").await;
    slow.settle().await;
    let mut publisher = Plain::connect_as(address, user, password).await;
    let message = format!("PUB work.x {LENGTH}\r\n{}\r\n", "x".repeat(LENGTH));
    for _ in 0..MESSAGES {
        publisher.write(&message).await;
    }
    publisher.settle().await;
}

async fn who_was_cut_off_is_told(broker: Broker) {
    let address = format!("127.0.0.1:{}", broker.port);
    let mut quick = Plain::connect_as(&address, "a", "secret-a").await;
    quick.write("SUB work.* others 1\r\n").await;
    quick.settle().await;
    drop(quick);
    cut_off_a_member(&address, ("a", "secret-a")).await;
    let target = Target {
        address: address.parse().unwrap(),
        tls: None,
        login: Login::Password { user: "sys".to_owned(), password: "secret-sys".to_owned() },
        timeout: Duration::from_secs(10),
    };
    let gone = async |account: &str, within| system::gone(&target, account, within).await.unwrap().1;
    let minute = Duration::from_secs(60);
    let slow = until("a slow consumer", async || {
        gone("A", minute).await.into_iter().find(|(info, _)| info.reason.starts_with("Slow Consumer"))
    })
    .await;
    assert!(slow.1 < minute);
    let lost = &slow.0.subscriptions_list_detail;
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].subject.as_str(), lost[0].queue.as_str()), ("work.*", "crew"));
    assert!(gone("B", minute).await.is_empty(), "another account");
    until("it to be longer ago", async || {
        let latest = gone("A", Duration::from_secs(1)).await;
        latest.iter().all(|(info, _)| info.cid != slow.0.cid).then_some(())
    })
    .await;
}

#[tokio::test]
async fn our_server_tells_who_was_cut_off() {
    who_was_cut_off_is_told(Broker::start().await).await;
}

#[tokio::test]
async fn the_reference_server_tells_who_was_cut_off() {
    who_was_cut_off_is_told(Broker::reference().await).await;
}

#[tokio::test]
async fn a_member_that_is_cut_off_brings_another_and_a_quiet_time_takes_one_away() {
    let world = world().await;
    let address = address(&world).await;
    let mut member = Plain::connect_as(&address, "app", "x").await;
    member.write("SUB work.* crew 1\r\n").await;
    member.settle().await;
    let member = tokio::spawn(member.drain());
    deploy(&world, 2).await;
    let group = json!({ "subject": "work.*", "queue": "crew", "slowConsumers": { "window": "10s" } });
    let source = json!({ "clusterRef": { "name": "demo" }, "queueGroup": group });
    let still = json!({ "minReplicas": 2, "behavior": { "scaleDown": { "stabilizationWindow": "2s" } } });
    apply(&world, "scaler", quick(source, still)).await.unwrap();
    // Nobody was cut off, and there are no fewer than the least.
    until_condition(&world, "scaler", "ScalingActive", "True", "WithinTolerance").await;
    cut_off_a_member(&address, ("app", "x")).await;
    let before = Timestamp::now();
    until_replicas(&world, 3).await;
    until_replicas(&world, 2).await;
    let quiet = Timestamp::now().duration_since(before).as_secs();
    assert!(quiet >= 5, "one fewer after {quiet} s: it was to wait for the window");
    member.abort();
}
