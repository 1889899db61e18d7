//! Accounts keep their subjects to themselves.

use testkit::Client;

use crate::server;

const TWO: &str = "accounts {
    A { users: [{user: a, password: a}, {user: a2, password: a2}] }
    B { users: [{user: b, password: b}] } }";

#[tokio::test]
async fn messages_stay_inside_their_account() {
    let server = server(TWO).await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut a2 = Client::user(&server, "a2", "a2").await;
    let mut b = Client::user(&server, "b", "b").await;
    a.subscribe(">", "1").await;
    b.subscribe(">", "1").await;
    a2.publish("foo", "to a").await;
    a.expect("MSG foo 1 4\r\nto a\r\n").await;
    b.publish("foo", "to b").await;
    b.expect("MSG foo 1 4\r\nto b\r\n").await;
    a.expect_silence().await;
    b.expect_silence().await;
}

#[tokio::test]
async fn queue_groups_of_the_same_name_are_separate_per_account() {
    let server = server(TWO).await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut b = Client::user(&server, "b", "b").await;
    a.queue_subscribe("job", "workers", "1").await;
    b.queue_subscribe("job", "workers", "1").await;
    for _ in 0..30 {
        a.publish("job", "x").await;
    }
    assert_eq!(a.drain().await.len(), 30);
    b.expect_silence().await;
}

#[tokio::test]
async fn a_requester_gets_no_responders_though_another_account_would_answer() {
    let server = server(TWO).await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut b = Client::user(&server, "b", "b").await;
    b.subscribe("service", "1").await;
    a.subscribe("_INBOX.*", "1").await;
    a.request("service", "_INBOX.1", "").await;
    a.expect("HMSG _INBOX.1 1 39 39\r\nNATS/1.0 503\r\nNats-Subject: service\r\n\r\n\r\n").await;
}

#[tokio::test]
async fn users_outside_any_account_belong_to_the_global_one() {
    let server = server(
        "accounts { A { users: [{user: a, password: a}] } }
         authorization { users: [{user: g, password: g}, {user: g2, password: g2}] }",
    )
    .await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut g = Client::user(&server, "g", "g").await;
    let mut g2 = Client::user(&server, "g2", "g2").await;
    assert_eq!(g.next_info().await["remote_account"], "$G");
    a.subscribe(">", "1").await;
    g.subscribe("foo", "1").await;
    g2.publish("foo", "x").await;
    g.expect("MSG foo 1 1\r\nx\r\n").await;
    a.expect_silence().await;
}

#[tokio::test]
async fn the_system_account_is_an_account_like_others_for_ordinary_subjects() {
    let server = server(
        "accounts { A { users: [{user: a, password: a}] }, $SYS { users: [{user: s, password: s}] } }",
    )
    .await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut system = Client::user(&server, "s", "s").await;
    a.subscribe(">", "1").await;
    system.subscribe("foo", "1").await;
    system.publish("foo", "x").await;
    system.expect("MSG foo 1 1\r\nx\r\n").await;
    a.expect_silence().await;
}
