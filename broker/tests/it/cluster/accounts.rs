//! Accounts across routes.

use testkit::{Client, Cluster, Member};

use super::{await_nobody, settle};
use crate::target;

const ACCOUNTS: &str = "accounts {
    A { users: [{user: a, password: a}] }
    B { users: [{user: b, password: b}] }
    $SYS { users: [{user: s, password: s}] } }";

async fn two() -> Cluster {
    Cluster::start((0..2).map(|_| Member::new(&target()).top(ACCOUNTS)).collect()).await
}

#[tokio::test]
async fn interest_and_messages_stay_inside_their_account() {
    let cluster = two().await;
    let mut a_far = Client::user(&cluster[1], "a", "a").await;
    let mut b_far = Client::user(&cluster[1], "b", "b").await;
    let mut a = Client::user(&cluster[0], "a", "a").await;
    let mut b = Client::user(&cluster[0], "b", "b").await;
    a_far.subscribe(">", "1").await;
    b_far.subscribe("only.b", "1").await;
    settle(&mut b, &mut b_far).await;
    b.publish("foo", "not for a").await;
    b.publish("only.b", "x").await;
    b_far.expect("MSG only.b 1 1\r\nx\r\n").await;
    a.publish("only.a", "y").await;
    testkit::eventually("the message of account A", async || {
        let frame = a_far.next().await;
        (frame.message().subject == "only.a").then_some(())
    })
    .await;
    b_far.expect_silence().await;
    b_far.op("UNSUB 1").await;
    await_nobody(&mut b, "only.b").await;
}

#[tokio::test]
async fn many_accounts_are_spread_over_the_pool_and_all_work() {
    let names: Vec<String> = (0..20).map(|number| format!("ACC{number}")).collect();
    let accounts: String =
        names.iter().map(|name| format!("{name} {{ users: [{{user: {name}, password: p}}] }}\n")).collect();
    let top = format!("accounts {{ {accounts} }}");
    let cluster = Cluster::start((0..2).map(|_| Member::new(&target()).top(&top)).collect()).await;
    for name in &names {
        let mut subscriber = Client::user(&cluster[1], name, "p").await;
        let mut publisher = Client::user(&cluster[0], name, "p").await;
        subscriber.subscribe("foo", "1").await;
        settle(&mut publisher, &mut subscriber).await;
        publisher.publish("foo", name).await;
        subscriber.expect(format!("MSG foo 1 {}\r\n{name}\r\n", name.len())).await;
        subscriber.expect_silence().await;
    }
}

#[tokio::test]
async fn the_system_account_reaches_every_server() {
    let cluster = two().await;
    let mut client = Client::user(&cluster[0], "s", "s").await;
    client.subscribe("_INBOX.*", "1").await;
    let mut names = Vec::new();
    testkit::eventually("both answer one ping", async || {
        client.request("$SYS.REQ.SERVER.PING.VARZ", "_INBOX.1", "").await;
        names.clear();
        while let Some(frame) = client.next_within(std::time::Duration::from_millis(500)).await {
            let answer: serde_json::Value = serde_json::from_str(&frame.message().payload).unwrap();
            names.push(answer["server"]["name"].as_str().unwrap().to_owned());
            if names.len() == 2 {
                break;
            }
        }
        (names.len() == 2).then_some(())
    })
    .await;
    names.sort();
    assert_eq!(names, ["n0", "n1"]);
}

#[tokio::test]
async fn a_server_can_be_asked_by_id_from_another_server() {
    let cluster = two().await;
    let far = Client::open(cluster[1].client_addr()).await.info()["server_id"].as_str().unwrap().to_owned();
    let mut client = Client::user(&cluster[0], "s", "s").await;
    client.subscribe("_INBOX.*", "1").await;
    let answer = testkit::eventually("an answer", async || {
        client.request(&format!("$SYS.REQ.SERVER.{far}.VARZ"), "_INBOX.1", "").await;
        let frame = client.next_within(std::time::Duration::from_millis(500)).await?;
        serde_json::from_str::<serde_json::Value>(&frame.message().payload).ok()
    })
    .await;
    assert_eq!(answer["data"]["server_name"], "n1");
}
