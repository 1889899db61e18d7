//! `/subsz`: subscriptions and who would get a message.

use testkit::Client;

use crate::monitored;

const ACCOUNTS: &str =
    "accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}] } }";

fn subjects(subsz: &serde_json::Value) -> Vec<String> {
    let mut subjects: Vec<String> = subsz["subscriptions_list"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|detail| detail["subject"].as_str().unwrap().to_owned())
        .filter(|subject| !subject.starts_with("$SYS"))
        .collect();
    subjects.sort();
    subjects
}

#[tokio::test]
async fn subscriptions_are_listed_on_request() {
    let server = monitored(ACCOUNTS).await;
    let mut a = Client::user(&server, "a", "a").await;
    a.send("SUB foo 1\r\nSUB bar.* q 2\r\n").await;
    a.flush().await;
    let without = server.get_json("/subsz?acc=A").await;
    assert!(without.get("subscriptions_list").is_none(), "{without}");
    let with = server.get_json("/subsz?acc=A&subs=1").await;
    assert_eq!(subjects(&with), ["bar.*", "foo"]);
    let list = with["subscriptions_list"].as_array().unwrap();
    let queue = list.iter().find(|detail| detail["subject"] == "bar.*").unwrap();
    assert_eq!(queue["qgroup"], "q");
    assert_eq!(queue["account"], "A");
    assert_eq!(queue["sid"], "2");
    assert_eq!(queue["cid"], a.infos[0]["client_id"]);
}

#[tokio::test]
async fn a_test_subject_picks_the_subscriptions_that_it_would_reach() {
    let server = monitored(ACCOUNTS).await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut b = Client::user(&server, "b", "b").await;
    a.send("SUB orders.new 1\r\nSUB orders.* 2\r\nSUB stock 3\r\n").await;
    b.send("SUB orders.> 1\r\n").await;
    a.flush().await;
    b.flush().await;
    let in_a = server.get_json("/subsz?subs=1&acc=A&test=orders.new").await;
    assert_eq!(subjects(&in_a), ["orders.*", "orders.new"]);
    assert_eq!(in_a["total"], 2);
    let everywhere = server.get_json("/subsz?subs=1&test=orders.new").await;
    assert_eq!(subjects(&everywhere), ["orders.*", "orders.>", "orders.new"]);
}

#[tokio::test]
async fn subscriptions_are_paged() {
    let server = monitored(ACCOUNTS).await;
    let mut a = Client::user(&server, "a", "a").await;
    for number in 0..25 {
        a.op(&format!("SUB many.{number} {number}")).await;
    }
    a.flush().await;
    let total = server.get_json("/subsz?subs=1&acc=A").await["total"].as_u64().unwrap();
    assert!(total >= 25, "{total}");
    // Only sizes are compared: the order need not be the same from one request to the next.
    let mut listed = 0;
    for offset in (0..total).step_by(10) {
        let page = server.get_json(&format!("/subsz?subs=1&acc=A&limit=10&offset={offset}")).await;
        let size = page["subscriptions_list"].as_array().unwrap().len() as u64;
        assert_eq!(size, 10.min(total - offset), "{page}");
        assert_eq!((&page["offset"], &page["limit"]), (&offset.into(), &10.into()));
        listed += size;
    }
    assert_eq!(listed, total);
}
