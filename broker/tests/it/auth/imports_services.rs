//! Services of one account, asked by others.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Client, Message, eventually};

use crate::server;

const ONE: &str = "accounts {
    SVC { users: [{user: s, password: s}], exports: [{service: 'req.*'}] }
    APP { users: [{user: a, password: a}], imports: [{service: {account: SVC, subject: 'req.*'}, to: 'ask.$1'}] }
    $SYS { users: [{user: sys, password: sys}] } }";

/// What a service is told of the one who asks.
fn request_info(message: &Message) -> Value {
    let line = message.headers.lines().find_map(|line| line.strip_prefix("Nats-Request-Info: "));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no request info: {message:?}"))).unwrap()
}

#[tokio::test]
async fn a_request_reaches_the_service_and_its_answer_comes_back() {
    let server = server(ONE).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("req.>", "1").await;
    app.subscribe("_INBOX.1", "7").await;
    app.request("ask.me", "_INBOX.1", "question").await;
    let request = service.message().await;
    assert_eq!((request.subject.as_str(), request.payload.as_str()), ("req.me", "question"));
    let reply = request.reply.clone().unwrap();
    assert!(reply.starts_with("_R_.") && reply.split('.').count() == 3, "{reply}");
    let info = request_info(&request);
    assert_eq!(info["acc"], "APP");
    let fields =
        info.as_object().unwrap().keys().filter(|key| !["acc", "rtt"].contains(&key.as_str())).count();
    assert_eq!(fields, 0, "{info}");
    service.publish(&reply, "answer").await;
    app.expect("MSG _INBOX.1 7 6\r\nanswer\r\n").await;
    // One answer is all there is.
    service.publish(&reply, "again").await;
    app.expect_silence().await;
}

#[tokio::test]
async fn only_what_is_imported_reaches_the_service() {
    let server = server(ONE).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe(">", "1").await;
    app.subscribe("ask.*", "1").await;
    for subject in ["req.me", "ask", "ask.me.too", "other"] {
        app.publish(subject, "x").await;
    }
    service.expect_silence().await;
    app.publish("ask.me", "x").await;
    app.expect("MSG ask.me 1 1\r\nx\r\n").await;
    let request = service.message().await;
    assert_eq!((request.subject.as_str(), request.reply), ("req.me", None));
    service.publish("ask.me", "not for the app").await;
    service.drain().await;
    app.expect_silence().await;
}

#[tokio::test]
async fn a_request_that_no_service_takes_is_answered_at_once() {
    let server = server(ONE).await;
    let mut app = Client::user(&server, "a", "a").await;
    app.subscribe("_INBOX.*", "1").await;
    for number in 1..=3 {
        app.request("ask.me", &format!("_INBOX.{number}"), "").await;
        app.expect(format!(
            "HMSG _INBOX.{number} 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: ask.me\r\n\r\n\r\n"
        ))
        .await;
    }
    let mut service = Client::user(&server, "s", "s").await;
    service.queue_subscribe("req.me", "workers", "1").await;
    app.request("ask.me", "_INBOX.4", "").await;
    assert_eq!(service.message().await.subject, "req.me");
    app.expect_silence().await;
}

#[tokio::test]
async fn a_queue_group_of_the_service_shares_the_requests() {
    let server = server(ONE).await;
    let mut one = Client::user(&server, "s", "s").await;
    let mut other = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    one.queue_subscribe("req.*", "workers", "1").await;
    other.queue_subscribe("req.*", "workers", "1").await;
    for _ in 0..100 {
        app.publish("ask.me", "").await;
    }
    app.flush().await;
    let (ones, others) = (one.drain().await.len(), other.drain().await.len());
    assert_eq!(ones + others, 100);
    assert!(ones > 10 && others > 10, "{ones} {others}");
}

const KINDS: &str = "accounts {
    SVC { users: [{user: s, password: s}], exports: [
      {service: one, response_type: singleton}
      {service: many, response_type: stream, threshold: '1s'}
      {service: parts, response_type: chunked}
      {service: quick, response_threshold: '200ms'}
    ] }
    APP { users: [{user: a, password: a}], imports: [
      {service: {account: SVC, subject: one}}, {service: {account: SVC, subject: many}}
      {service: {account: SVC, subject: parts}}, {service: {account: SVC, subject: quick}}
    ] }
    $SYS { users: [{user: sys, password: sys}] } }";

#[tokio::test]
async fn a_stream_of_answers_goes_on_until_it_pauses_or_ends() {
    let server = server(KINDS).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe(">", "1").await;
    app.subscribe("_INBOX.*", "1").await;
    for (subject, inbox) in [("many", "_INBOX.1"), ("parts", "_INBOX.2")] {
        app.request(subject, inbox, "").await;
        let reply = service.message().await.reply.unwrap();
        for part in ["a", "b", "c"] {
            service.publish(&reply, part).await;
            service.drain().await;
            app.expect(format!("MSG {inbox} 1 1\r\n{part}\r\n")).await;
        }
        // Nothing at all is the end.
        service.publish(&reply, "").await;
        app.expect(format!("MSG {inbox} 1 0\r\n\r\n")).await;
        service.publish(&reply, "late").await;
        service.drain().await;
        app.expect_silence().await;
    }
}

#[tokio::test]
async fn an_answer_after_the_threshold_is_lost() {
    let server = server(KINDS).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("quick", "1").await;
    app.subscribe("_INBOX.*", "1").await;
    // Asked again and again, the service takes a little longer every time.
    let mut wait = Duration::from_millis(50);
    eventually("an answer comes too late", async || {
        wait *= 2;
        app.request("quick", "_INBOX.1", "").await;
        let reply = service.message().await.reply.unwrap();
        assert!(service.next_within(wait).await.is_none());
        service.publish(&reply, "x").await;
        service.flush().await;
        app.drain().await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_shared_import_tells_who_asks() {
    let server = server(
        "server_name: here, accounts {
           SVC { users: [{user: s, password: s}], exports: [{service: req}] }
           APP { users: [{user: a, password: a}],
                 imports: [{service: {account: SVC, subject: req}, share: true}] } }",
    )
    .await;
    let mut service = Client::user(&server, "s", "s").await;
    let fields = json!({"user": "a", "pass": "a", "name": "asker", "lang": "rust", "version": "1.2"});
    let mut app = Client::ready_with(&server, fields).await;
    service.subscribe("req", "1").await;
    app.request("req", "_INBOX.1", "x").await;
    let info = request_info(&service.message().await);
    for (field, expected) in [
        ("acc", json!("APP")),
        ("user", json!("a")),
        ("name", json!("asker")),
        ("lang", json!("rust")),
        ("ver", json!("1.2")),
        ("host", json!("127.0.0.1")),
        ("server", json!("here")),
        ("kind", json!("Client")),
        ("client_type", json!("nats")),
    ] {
        assert_eq!(info[field], expected, "{info}");
    }
    assert!(info["id"].is_number() && info["start"].is_string(), "{info}");
    let known =
        ["acc", "user", "name", "lang", "ver", "host", "server", "kind", "client_type", "id", "start", "rtt"];
    let unknown: Vec<_> =
        info.as_object().unwrap().keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// CVE-2026-33246: who asks is for the server to say.
#[tokio::test]
async fn a_forged_identity_is_replaced() {
    let server = server(ONE).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("req.*", "1").await;
    let forged = "NATS/1.0\r\nA: b\r\nNats-Request-Info: {\"acc\":\"ADMIN\"}\r\n\
                  Nats-Request-Info: {\"acc\":\"ADMIN\",\"user\":\"root\"}\r\n\r\n";
    app.publish_with_headers("ask.me", forged, "x").await;
    let request = service.message().await;
    assert_eq!(request.headers.matches("Nats-Request-Info").count(), 1, "{request:?}");
    assert_eq!(request_info(&request)["acc"], "APP");
    assert!(request.headers.contains("\r\nA: b\r\n") && !request.headers.contains("ADMIN"), "{request:?}");
    if crate::target().is_myelin() {
        // The reference leaves other spellings where they are, for clients that take them for the same.
        let odd = "NATS/1.0\r\nnats-REQUEST-info: {\"acc\":\"ADMIN\"}\r\n\r\n";
        app.publish_with_headers("ask.me", odd, "x").await;
        let request = service.message().await;
        assert!(!request.headers.contains("ADMIN"), "{request:?}");
    }
}

const CHAIN: &str = "accounts {
    C { users: [{user: c, password: c}], exports: [{service: c}] }
    B { users: [{user: b, password: b}], exports: [{service: b}],
        imports: [{service: {account: C, subject: c}, to: b}] }
    A { users: [{user: a, password: a}], imports: [{service: {account: B, subject: b}, to: a}] } }";

#[tokio::test]
async fn a_service_may_be_passed_on() {
    let server = server(CHAIN).await;
    let mut c = Client::user(&server, "c", "c").await;
    let mut b = Client::user(&server, "b", "b").await;
    let mut a = Client::user(&server, "a", "a").await;
    c.subscribe("c", "1").await;
    b.subscribe(">", "1").await;
    a.subscribe("_INBOX.1", "1").await;
    a.request("a", "_INBOX.1", "question").await;
    let passed = b.message().await;
    assert_eq!((passed.subject.as_str(), request_info(&passed)["acc"].as_str()), ("b", Some("A")));
    let request = c.message().await;
    let info = request_info(&request);
    assert_eq!((request.subject.as_str(), info["acc"].as_str()), ("c", Some("A")));
    assert_eq!(info["svc"], "B");
    c.publish(&request.reply.unwrap(), "answer").await;
    a.expect("MSG _INBOX.1 1 6\r\nanswer\r\n").await;
    b.drain().await;
    a.expect_silence().await;
}

#[tokio::test]
async fn an_answer_may_ask_in_turn() {
    let server = server(ONE).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("req.me", "1").await;
    service.subscribe("_INBOX.s", "2").await;
    app.subscribe("_INBOX.a", "1").await;
    app.request("ask.me", "_INBOX.a", "").await;
    let reply = service.message().await.reply.unwrap();
    service.request(&reply, "_INBOX.s", "and you?").await;
    let back = app.message().await;
    assert_eq!((back.subject.as_str(), back.payload.as_str()), ("_INBOX.a", "and you?"));
    let reply = back.reply.unwrap();
    assert!(reply.starts_with("_R_."), "{reply}");
    app.publish(&reply, "fine").await;
    let end = service.message().await;
    assert_eq!((end.subject.as_str(), end.payload.as_str()), ("_INBOX.s", "fine"));
}

/// The names hide the circle from the check of the configuration; messages must not go round in it.
#[tokio::test]
async fn a_hidden_circle_ends() {
    let server = server(
        "accounts {
           A { users: [{user: a, password: a}], exports: [{service: 'x.>'}],
               imports: [{service: {account: B, subject: 'y.>'}, to: 'x.>'}] }
           B { users: [{user: b, password: b}], exports: [{service: 'y.>'}],
               imports: [{service: {account: C, subject: 'z.>'}, to: 'y.>'}] }
           C { users: [{user: c, password: c}], exports: [{service: 'z.>'}] } }",
    )
    .await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut c = Client::user(&server, "c", "c").await;
    c.subscribe("z.>", "1").await;
    a.publish("x.1", "once").await;
    assert_eq!(c.message().await.subject, "z.1");
    c.expect_silence().await;
}

#[tokio::test]
async fn the_token_of_an_account_is_its_own() {
    let server = server(
        "accounts {
           SVC { users: [{user: s, password: s}], exports: [{service: 'req.*', account_token_position: 2}] }
           APP { users: [{user: a, password: a}], imports: [{service: {account: SVC, subject: 'req.APP'}, to: ask}] } }",
    )
    .await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("req.*", "1").await;
    app.publish("ask", "x").await;
    assert_eq!(service.message().await.subject, "req.APP");
}

#[tokio::test]
async fn rights_of_the_one_who_asks_are_about_its_own_subjects() {
    let server = server(
        "accounts {
           SVC { users: [{user: s, password: s}], exports: [{service: req}] }
           APP { users: [{user: a, password: a, permissions: {publish: ask, subscribe: '_INBOX.>'}}],
                 imports: [{service: {account: SVC, subject: req}, to: ask}] } }",
    )
    .await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("req", "1").await;
    app.subscribe("_INBOX.1", "1").await;
    app.request("ask", "_INBOX.1", "").await;
    let reply = service.message().await.reply.unwrap();
    service.publish(&reply, "ok").await;
    app.expect("MSG _INBOX.1 1 2\r\nok\r\n").await;
    app.publish("req", "").await;
    app.expect_error("Permissions Violation for Publish to \"req\"").await;
    service.expect_silence().await;
}

#[tokio::test]
async fn a_client_may_not_ask_under_a_reply_of_the_server() {
    let server = server(ONE).await;
    let mut app = Client::user(&server, "a", "a").await;
    app.request("ask.me", "_R_.abcdef.ghijkl", "").await;
    app.expect_error("Permissions Violation for Publish with Reply of \"_R_.abcdef.ghijkl\"").await;
}

#[tokio::test]
async fn an_inbox_that_ends_by_itself_leaves_nothing() {
    let server = server(ONE).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("req.*", "1").await;
    app.subscribe("_INBOX.1", "1").await;
    app.op("UNSUB 1 2").await;
    for _ in 0..2 {
        app.request("ask.me", "_INBOX.1", "").await;
        let reply = service.message().await.reply.unwrap();
        service.publish(&reply, "x").await;
        app.expect("MSG _INBOX.1 1 1\r\nx\r\n").await;
    }
    app.request("ask.me", "_INBOX.1", "").await;
    let reply = service.message().await.reply.unwrap();
    service.publish(&reply, "x").await;
    service.flush().await;
    app.expect_silence().await;
}

#[tokio::test]
async fn a_reload_adds_and_removes_imports() {
    let without = "accounts {
        SVC { users: [{user: s, password: s}], exports: [{service: 'req.*'}] }
        APP { users: [{user: a, password: a}] }
        $SYS { users: [{user: sys, password: sys}] } }";
    let mut server = server(without).await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe("req.*", "1").await;
    app.publish("ask.me", "x").await;
    service.expect_silence().await;
    server.reload(ONE).await.unwrap();
    app.publish("ask.me", "x").await;
    assert_eq!(service.message().await.subject, "req.me");
    server.reload(without).await.unwrap();
    app.publish("ask.me", "x").await;
    service.expect_silence().await;
}
