//! Queue groups with members on several servers.

use testkit::{Client, Cluster};

use super::settle;
use crate::target;

/// Publishes and counts what each member got; all members together must have got each message once.
pub(super) async fn spread(publisher: &mut Client, members: &mut [Client], total: usize) -> Vec<usize> {
    for number in 0..total {
        publisher.publish("job", &number.to_string()).await;
    }
    publisher.flush().await;
    let mut seen = vec![0_u32; total];
    let mut counts = vec![0; members.len()];
    testkit::eventually_ok("every message has arrived", async || {
        for (index, member) in members.iter_mut().enumerate() {
            for frame in member.drain().await {
                seen[frame.message().payload.parse::<usize>().unwrap()] += 1;
                counts[index] += 1;
            }
        }
        if counts.iter().sum::<usize>() >= total { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    assert!(seen.iter().all(|&count| count == 1), "some message went to none or to two");
    counts
}

#[tokio::test]
async fn each_message_goes_to_one_member_of_the_whole_cluster() {
    let cluster = Cluster::of(3, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut members = Vec::new();
    for server in cluster.servers() {
        let mut member = Client::ready(server).await;
        member.queue_subscribe("job", "workers", "1").await;
        settle(&mut publisher, &mut member).await;
        members.push(member);
    }
    let counts = spread(&mut publisher, &mut members, 3000).await;
    // No preference for the member next to the publisher: mean 1000, standard deviation 26.
    assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[tokio::test]
async fn a_server_with_more_members_gets_more_messages() {
    let cluster = Cluster::of(2, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut members = Vec::new();
    for index in [0, 1, 1, 1] {
        let mut member = Client::ready(&cluster[index]).await;
        member.queue_subscribe("job", "workers", "1").await;
        settle(&mut publisher, &mut member).await;
        members.push(member);
    }
    let counts = spread(&mut publisher, &mut members, 4000).await;
    assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[tokio::test]
async fn weights_follow_members_that_leave() {
    let cluster = Cluster::of(2, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut members = Vec::new();
    for index in [0, 1, 1, 1] {
        let mut member = Client::ready(&cluster[index]).await;
        member.queue_subscribe("job", "workers", "1").await;
        settle(&mut publisher, &mut member).await;
        members.push(member);
    }
    for mut leaving in members.drain(2..) {
        leaving.op("UNSUB 1").await;
        leaving.flush().await;
        settle(&mut publisher, &mut leaving).await;
    }
    let counts = spread(&mut publisher, &mut members, 2000).await;
    assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[tokio::test]
async fn plain_subscribers_and_groups_on_both_servers_each_get_theirs() {
    let cluster = Cluster::of(2, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut near = Client::ready(&cluster[0]).await;
    let mut far = Client::ready(&cluster[1]).await;
    for client in [&mut near, &mut far] {
        client.send("SUB job plain\r\nSUB job red red\r\nSUB job blue blue\r\n").await;
        settle(&mut publisher, client).await;
    }
    for _ in 0..200 {
        publisher.publish("job", "x").await;
    }
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    testkit::eventually_ok("all deliveries", async || {
        for client in [&mut near, &mut far] {
            for frame in client.drain().await {
                *counts.entry(frame.message().sid).or_default() += 1;
            }
        }
        if counts.values().sum::<usize>() >= 800 { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    assert_eq!(counts["plain"], 400);
    assert_eq!(counts["red"], 200);
    assert_eq!(counts["blue"], 200);
}

#[tokio::test]
async fn no_member_is_skipped_when_a_server_dies() {
    let mut cluster = Cluster::of(3, &target()).await;
    let mut publisher = Client::ready(&cluster[0]).await;
    let mut members = Vec::new();
    for server in cluster.servers() {
        let mut member = Client::ready(server).await;
        member.queue_subscribe("job", "workers", "1").await;
        settle(&mut publisher, &mut member).await;
        members.push(member);
    }
    cluster[2].kill().await;
    members.pop();
    cluster[0]
        .await_json("/routez", "the dead server is gone", |routez| {
            routez["routes"].as_array().unwrap().iter().all(|route| route["remote_name"] != "n2")
        })
        .await;
    spread(&mut publisher, &mut members, 500).await;
}
