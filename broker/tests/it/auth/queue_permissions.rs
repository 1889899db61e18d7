//! Subscribe permissions that name a queue group.

use testkit::{Client, Server};

use crate::server;

async fn with_subscribe(rules: &str) -> Server {
    server(&format!(
        "authorization {{ users: [ {{user: u, password: u, permissions: {{ subscribe: {rules} }} }} ] }}"
    ))
    .await
}

/// Tries `SUB <subject> <queue>` for each case (empty queue = none) and compares what is refused.
async fn check(rules: &str, cases: &[(&str, &str, bool)]) {
    let server = with_subscribe(rules).await;
    let mut user = Client::user(&server, "u", "u").await;
    for (subject, queue, allowed) in cases {
        user.op(&format!("SUB {subject} {queue} sid")).await;
        let answer: Vec<String> = user.drain().await.iter().map(testkit::Frame::line).collect();
        let using = if queue.is_empty() { String::new() } else { format!(" using queue \"{queue}\"") };
        let refusal = format!("-ERR 'Permissions Violation for Subscription to \"{subject}\"{using}'");
        let expected = if *allowed { vec![] } else { vec![refusal] };
        assert_eq!(answer, expected, "{rules}: SUB {subject} {queue}");
        user.op("UNSUB sid").await;
    }
}

#[tokio::test]
async fn a_plain_allow_entry_covers_every_queue() {
    check("\"foo\"", &[("foo", "", true), ("foo", "any", true), ("bar", "", false), ("bar", "any", false)])
        .await;
}

#[tokio::test]
async fn an_allow_entry_with_a_queue_covers_that_queue_alone() {
    check(
        "\"foo v1\"",
        &[("foo", "", false), ("foo", "v1", true), ("foo", "v2", false), ("foo", "v1.x", false)],
    )
    .await;
}

#[tokio::test]
async fn queue_names_in_allow_entries_may_hold_wildcards() {
    check("\"foo v1.*\"", &[("foo", "v1.prod", true), ("foo", "v1", false), ("foo", "v2.prod", false)]).await;
    check("\"foo *\"", &[("foo", "x", true), ("foo", "x.y", false), ("foo", "", false)]).await;
    check("\"foo >\"", &[("foo", "x", true), ("foo", "x.y", true), ("foo", "", false)]).await;
}

#[tokio::test]
async fn allow_entries_with_and_without_queues_add_up() {
    check(
        "[\"foo\", \"bar v1\", \"bar *.dev\"]",
        &[
            ("foo", "q", true),
            ("bar", "", false),
            ("bar", "v1", true),
            ("bar", "a.dev", true),
            ("bar", "a.prod", false),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_deny_entry_with_a_queue_denies_that_queue_alone() {
    check(
        "{deny: [\"foo prod\", \"foo *.prod\"]}",
        &[("foo", "", true), ("foo", "dev", true), ("foo", "prod", false), ("foo", "a.prod", false)],
    )
    .await;
}

#[tokio::test]
async fn a_deny_entry_for_every_queue_leaves_plain_subscriptions() {
    check("{deny: \"foo >\"}", &[("foo", "", true), ("foo", "a", false), ("foo", "a.b", false)]).await;
}

#[tokio::test]
async fn a_plain_deny_entry_holds_for_queue_subscribers_whatever_the_queue_entries_say() {
    // GHSA-jx8g-9g95-6322: the verdict on the queue once replaced the one on the subject.
    check(
        "{deny: [\"x\", \"x q\"]}",
        &[("x", "", false), ("x", "q", false), ("x", "other", false), ("y", "q", true)],
    )
    .await;
    check(
        "{allow: [\"x\", \"x q\"], deny: \"x\"}",
        &[("x", "", false), ("x", "q", false), ("x", "p", false)],
    )
    .await;
}

#[tokio::test]
async fn queue_entries_of_the_deny_list_filter_wider_subscriptions() {
    let server = server(
        "authorization { users: [
            {user: root, password: root},
            {user: u, password: u, permissions: { subscribe: {allow: \">\", deny: \"a.b prod\"} } } ] }",
    )
    .await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.queue_subscribe("a.*", "prod", "1").await;
    user.queue_subscribe("a.*", "dev", "2").await;
    root.publish("a.b", "x").await;
    root.publish("a.c", "y").await;
    root.flush().await;
    let mut got: Vec<(String, String)> =
        user.drain().await.iter().map(|frame| (frame.message().subject, frame.message().sid)).collect();
    got.sort();
    let expected = [("a.b", "2"), ("a.c", "1"), ("a.c", "2")];
    assert_eq!(got, expected.map(|(subject, sid)| (subject.to_owned(), sid.to_owned())));
}
