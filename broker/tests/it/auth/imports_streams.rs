//! Streams of one account, followed by others.

use testkit::Client;

use crate::{monitored, server};

const ONE: &str = "accounts {
    OUT { users: [{user: o, password: o}], exports: [{stream: 'pub.>'}, {stream: 'news'}] }
    IN { users: [{user: i, password: i}], imports: [
      {stream: {account: OUT, subject: 'pub.*.*'}, to: 'in.$2.$1'}, {stream: {account: OUT, subject: news}, prefix: ext}
    ] }
    $SYS { users: [{user: sys, password: sys}] } }";

#[tokio::test]
async fn messages_arrive_under_the_subject_they_have_here() {
    let server = server(ONE).await;
    let mut out = Client::user(&server, "o", "o").await;
    let mut inside = Client::user(&server, "i", "i").await;
    inside.subscribe("in.*.*", "1").await;
    inside.subscribe("in.b.*", "2").await;
    inside.subscribe("ext.news", "3").await;
    out.publish("pub.a.c", "one").await;
    inside.expect("MSG in.c.a 1 3\r\none\r\n").await;
    out.request("news", "_INBOX.o", "two").await;
    inside.expect("MSG ext.news 3 _INBOX.o 3\r\ntwo\r\n").await;
    out.publish("pub.a.b", "three").await;
    let mut both: Vec<String> = inside.take(2).await.iter().map(testkit::Frame::line).collect();
    both.sort();
    assert_eq!(both, ["MSG in.b.a 1 5", "MSG in.b.a 2 5"]);
    for subject in ["pub.a", "pub.a.b.c", "in.a.b", "ext.news"] {
        out.publish(subject, "x").await;
    }
    inside.expect_silence().await;
}

#[tokio::test]
async fn what_is_published_here_stays_here() {
    let server = server(ONE).await;
    let mut out = Client::user(&server, "o", "o").await;
    let mut inside = Client::user(&server, "i", "i").await;
    out.subscribe(">", "1").await;
    inside.subscribe(">", "1").await;
    inside.publish("in.a.b", "x").await;
    inside.expect("MSG in.a.b 1 1\r\nx\r\n").await;
    inside.publish("news", "y").await;
    inside.expect("MSG news 1 1\r\ny\r\n").await;
    out.expect_silence().await;
}

#[tokio::test]
async fn every_way_to_overlap_an_import_follows_it() {
    let server = server(ONE).await;
    let mut out = Client::user(&server, "o", "o").await;
    for (subscribed, expected) in [
        ("in.*.*", true),
        ("in.>", true),
        (">", true),
        ("in.y.*", true),
        ("*.*.x", true),
        ("in.y.x", true),
        ("in.x.*", false),
        ("in.*", false),
        ("pub.x.y", false),
    ] {
        let mut inside = Client::user(&server, "i", "i").await;
        inside.subscribe(subscribed, "1").await;
        inside.flush().await;
        out.publish("pub.x.y", "m").await;
        if expected {
            inside.expect("MSG in.y.x 1 1\r\nm\r\n").await;
        }
        inside.expect_silence().await;
    }
}

#[tokio::test]
async fn a_queue_group_gets_one_copy() {
    let server = server(ONE).await;
    let mut out = Client::user(&server, "o", "o").await;
    let mut one = Client::user(&server, "i", "i").await;
    let mut other = Client::user(&server, "i", "i").await;
    one.queue_subscribe("in.*.*", "q", "1").await;
    other.queue_subscribe("in.>", "q", "1").await;
    for _ in 0..100 {
        out.publish("pub.a.b", "").await;
    }
    out.flush().await;
    let (ones, others) = (one.drain().await.len(), other.drain().await.len());
    assert_eq!(ones + others, 100);
    assert!(ones > 10 && others > 10, "{ones} {others}");
}

#[tokio::test]
async fn a_private_stream_is_for_those_it_names() {
    let server = server(
        "accounts {
           OUT { users: [{user: o, password: o}], exports: [{stream: 's.>', accounts: [IN]}] }
           IN { users: [{user: i, password: i}], imports: [{stream: {account: OUT, subject: 's.>'}}] }
           X { users: [{user: x, password: x}] } }",
    )
    .await;
    let mut out = Client::user(&server, "o", "o").await;
    let mut inside = Client::user(&server, "i", "i").await;
    let mut other = Client::user(&server, "x", "x").await;
    inside.subscribe("s.*", "1").await;
    other.subscribe("s.*", "1").await;
    out.publish("s.1", "x").await;
    inside.expect("MSG s.1 1 1\r\nx\r\n").await;
    other.expect_silence().await;
}

#[tokio::test]
async fn a_subscription_that_ends_by_itself_ends_here_and_there() {
    if !crate::target().is_myelin() {
        // The reference does not count what comes from the other account.
        return;
    }
    let server = server(ONE).await;
    let mut out = Client::user(&server, "o", "o").await;
    let mut inside = Client::user(&server, "i", "i").await;
    inside.subscribe("in.*.*", "1").await;
    inside.op("UNSUB 1 3").await;
    inside.flush().await;
    for _ in 0..2 {
        out.publish("pub.a.b", "m").await;
        inside.expect("MSG in.b.a 1 1\r\nm\r\n").await;
    }
    inside.publish("in.b.a", "m").await;
    inside.expect("MSG in.b.a 1 1\r\nm\r\n").await;
    out.publish("pub.a.b", "m").await;
    out.flush().await;
    inside.publish("in.b.a", "m").await;
    inside.expect_silence().await;
}

/// O82: followers that come and go leave nothing in the account they follow.
#[tokio::test]
async fn nothing_is_left_of_subscriptions_that_are_gone() {
    let server = monitored(ONE).await;
    let mut inside = Client::user(&server, "i", "i").await;
    let subscriptions = async || server.get_json("/subsz").await["num_subscriptions"].as_u64().unwrap();
    let before = subscriptions().await;
    for number in 0..500 {
        inside.op(&format!("SUB in.*.{number} {number}")).await;
    }
    inside.flush().await;
    assert_eq!(subscriptions().await, before + 1000);
    for number in 0..500 {
        inside.op(&format!("UNSUB {number}")).await;
    }
    inside.flush().await;
    assert_eq!(subscriptions().await, before);
    let mut gone = Client::user(&server, "i", "i").await;
    gone.subscribe(">", "1").await;
    gone.flush().await;
    drop(gone);
    testkit::eventually("the shadows of a client that went", async || {
        (subscriptions().await == before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_denied_subject_does_not_arrive_from_elsewhere_either() {
    let server = server(
        "accounts {
           OUT { users: [{user: o, password: o}], exports: [{stream: 's.>'}] }
           IN { users: [{user: i, password: i, permissions: {subscribe: {deny: 'in.s.secret'}}}],
                imports: [{stream: {account: OUT, subject: 's.>'}, prefix: in}] } }",
    )
    .await;
    let mut out = Client::user(&server, "o", "o").await;
    let mut inside = Client::user(&server, "i", "i").await;
    inside.subscribe("in.>", "1").await;
    inside.flush().await;
    out.publish("s.secret", "x").await;
    out.publish("s.open", "x").await;
    inside.expect("MSG in.s.open 1 1\r\nx\r\n").await;
    inside.expect_silence().await;
}

#[tokio::test]
async fn a_request_to_a_service_is_not_passed_on_as_a_stream() {
    let server = server(
        "accounts {
           SVC { users: [{user: s, password: s}], exports: [{service: x}, {stream: x}] }
           APP { users: [{user: a, password: a}], imports: [{service: {account: SVC, subject: x}, to: ask}] }
           SPY { users: [{user: p, password: p}], imports: [{stream: {account: SVC, subject: x}}] } }",
    )
    .await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    let mut spy = Client::user(&server, "p", "p").await;
    service.subscribe("x", "1").await;
    spy.subscribe("x", "1").await;
    spy.flush().await;
    app.publish("ask", "m").await;
    assert_eq!(service.message().await.payload, "m");
    spy.expect_silence().await;
    service.publish("x", "own").await;
    spy.expect("MSG x 1 3\r\nown\r\n").await;
}

#[tokio::test]
async fn a_reload_lets_subscriptions_that_are_there_follow_and_leave() {
    let without = "accounts {
        OUT { users: [{user: o, password: o}], exports: [{stream: 'pub.>'}, {stream: 'news'}] }
        IN { users: [{user: i, password: i}] }
        $SYS { users: [{user: sys, password: sys}] } }";
    let mut server = server(without).await;
    let mut out = Client::user(&server, "o", "o").await;
    let mut inside = Client::user(&server, "i", "i").await;
    inside.subscribe("in.*.*", "1").await;
    inside.flush().await;
    out.publish("pub.a.b", "x").await;
    inside.expect_silence().await;
    server.reload(ONE).await.unwrap();
    out.publish("pub.a.b", "x").await;
    inside.expect("MSG in.b.a 1 1\r\nx\r\n").await;
    server.reload(without).await.unwrap();
    out.publish("pub.a.b", "x").await;
    inside.expect_silence().await;
}
