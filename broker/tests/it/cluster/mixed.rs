//! One reference server and two of ours in one cluster.

use testkit::{Client, Cluster, Member, Target};

use super::{await_nobody, settle};
use crate::{reference, target};

const BLOCK: &str = "NATS/1.0\r\nKey: value\r\n\r\n";
const ACCOUNTS: &str = "accounts {
    A { users: [{user: a, password: a}] }
    B { users: [{user: b, password: b}] }
    $SYS { users: [{user: s, password: s}] } }";

/// Places of the reference in the cluster: dialed by the others, and dialing the first.
fn line_ups() -> Vec<Vec<Target>> {
    let Some(reference) = reference() else { return vec![] };
    vec![vec![reference.clone(), target(), target()], vec![target(), target(), reference]]
}

async fn start(targets: &[Target], cluster: &str, top: &str) -> Cluster {
    Cluster::start(targets.iter().map(|target| Member::new(target).cluster(cluster).top(top)).collect()).await
}

/// Publish, headers, request and reply, no responders: between every two members.
async fn assert_everything_works(cluster: &Cluster, user: &str) {
    for from in cluster.servers() {
        for to in cluster.servers() {
            let mut near = connect(from, user).await;
            let mut far = connect(to, user).await;
            assert_pair_works(&mut near, &mut far).await;
        }
    }
}

async fn connect(server: &testkit::Server, user: &str) -> Client {
    if user.is_empty() { Client::ready(server).await } else { Client::user(server, user, user).await }
}

async fn assert_pair_works(near: &mut Client, far: &mut Client) {
    far.send("SUB pair.* 1\r\nSUB service q 2\r\n").await;
    near.subscribe("_INBOX.*", "3").await;
    settle(near, far).await;
    settle(far, near).await;
    near.request("pair.a", "re.ply", "hello").await;
    far.expect("MSG pair.a 1 re.ply 5\r\nhello\r\n").await;
    near.publish("pair.empty", "").await;
    far.expect("MSG pair.empty 1 0\r\n\r\n").await;
    near.publish_with_headers("pair.h", BLOCK, "hello").await;
    far.expect(format!("HMSG pair.h 1 {} {}\r\n{BLOCK}hello\r\n", BLOCK.len(), BLOCK.len() + 5)).await;
    near.send(format!("HPUB service _INBOX.x {0} {0}\r\n{BLOCK}\r\n", BLOCK.len())).await;
    far.expect(format!("HMSG service 2 _INBOX.x {0} {0}\r\n{BLOCK}\r\n", BLOCK.len())).await;
    far.publish_with_headers("_INBOX.x", BLOCK, "answer").await;
    near.expect(format!("HMSG _INBOX.x 3 {} {}\r\n{BLOCK}answer\r\n", BLOCK.len(), BLOCK.len() + 6)).await;
    far.send("UNSUB 1\r\nUNSUB 2\r\n").await;
    far.flush().await;
    await_nobody(near, "service").await;
    near.expect_silence().await;
    far.expect_silence().await;
}

#[tokio::test]
async fn everything_works_between_every_two_servers() {
    for targets in line_ups() {
        let cluster = start(&targets, "", "").await;
        assert_everything_works(&cluster, "").await;
    }
}

#[tokio::test]
async fn accounts_and_pinned_accounts_work_between_every_two_servers() {
    for targets in line_ups() {
        let cluster = start(&targets, "accounts: [\"A\"]", ACCOUNTS).await;
        assert_everything_works(&cluster, "a").await;
        assert_everything_works(&cluster, "b").await;
    }
}

#[tokio::test]
async fn pools_of_any_size_work_between_every_two_servers() {
    for targets in line_ups() {
        for pool in ["pool_size: -1", "pool_size: 1", "pool_size: 7"] {
            let cluster = start(&targets, pool, "").await;
            assert_everything_works(&cluster, "").await;
        }
    }
}

#[tokio::test]
async fn different_pool_sizes_work_together() {
    for targets in line_ups() {
        for sizes in [["-1", "3", "5"], ["5", "-1", "3"], ["3", "5", "1"]] {
            let members = targets
                .iter()
                .zip(sizes)
                .map(|(target, size)| Member::new(target).cluster(&format!("pool_size: {size}")))
                .collect();
            let cluster = Cluster::start_unmeshed(members).await;
            assert_everything_works(&cluster, "").await;
        }
    }
}

#[tokio::test]
async fn route_authorization_works_both_ways() {
    for targets in line_ups() {
        let authorization = "authorization { user: r, password: p }";
        let member = |target| Member::new(target).cluster(authorization).route_user("r:p@");
        let cluster = Cluster::start(targets.iter().map(member).collect()).await;
        assert_everything_works(&cluster, "").await;
    }
}

#[tokio::test]
async fn queue_groups_are_fair_over_both_kinds_of_server() {
    for targets in line_ups() {
        let cluster = start(&targets, "", "").await;
        for publishing in cluster.servers() {
            let mut publisher = Client::ready(publishing).await;
            let mut members = Vec::new();
            for server in cluster.servers() {
                let mut member = Client::ready(server).await;
                member.queue_subscribe("job", "workers", "1").await;
                settle(&mut publisher, &mut member).await;
                members.push(member);
            }
            let counts = super::queue::spread(&mut publisher, &mut members, 1500).await;
            // Mean 500, standard deviation 18.
            assert!(counts.iter().all(|count| (380..620).contains(count)), "{counts:?}");
        }
    }
}

#[tokio::test]
async fn any_server_may_leave_and_return() {
    for targets in line_ups() {
        let mut cluster = start(&targets, "", "").await;
        for index in 0..3 {
            let mut requester = Client::ready(&cluster[(index + 1) % 3]).await;
            let mut responder = Client::ready(&cluster[index]).await;
            responder.subscribe("service", "1").await;
            settle(&mut requester, &mut responder).await;
            if index == 1 {
                cluster[index].kill().await;
            } else {
                cluster[index].stop().await;
            }
            await_nobody(&mut requester, "service").await;
            cluster[index].restart().await;
            cluster.await_mesh().await;
        }
        assert_everything_works(&cluster, "").await;
    }
}

#[tokio::test]
async fn clients_of_either_kind_learn_all_addresses() {
    for targets in line_ups() {
        let cluster = start(&targets, "", "").await;
        let mut all: Vec<String> =
            cluster.servers().iter().map(|server| server.client_addr().to_string()).collect();
        all.sort();
        for server in cluster.servers() {
            testkit::eventually_ok("all addresses", async || {
                let info = Client::open(server.client_addr()).await.info().clone();
                let mut urls: Vec<&str> = info["connect_urls"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|url| url.as_str())
                    .collect();
                urls.sort_unstable();
                if urls == all { Ok(()) } else { Err(info) }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_system_ping_is_answered_by_both_kinds() {
    for targets in line_ups() {
        let cluster = start(&targets, "", ACCOUNTS).await;
        for server in cluster.servers() {
            let mut client = Client::user(server, "s", "s").await;
            client.subscribe("_INBOX.*", "1").await;
            testkit::eventually_ok("three answers", async || {
                client.request("$SYS.REQ.SERVER.PING.VARZ", "_INBOX.1", "").await;
                let mut names = std::collections::BTreeSet::new();
                while let Some(frame) = client.next_within(std::time::Duration::from_millis(300)).await {
                    let answer: serde_json::Value = serde_json::from_str(&frame.message().payload).unwrap();
                    names.insert(answer["data"]["server_name"].as_str().unwrap().to_owned());
                    if names.len() == 3 {
                        return Ok(());
                    }
                }
                Err(format!("{names:?}"))
            })
            .await;
        }
    }
}
