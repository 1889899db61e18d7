//! Users, permissions and accounts change under connected clients.

use serde_json::json;
use testkit::Client;

use crate::{monitored, server};

/// Requires the end of the connection. Servers may say why before they close, or just close.
async fn expect_end(client: &mut Client) {
    let said: Vec<String> = client.read_to_end().await.iter().map(testkit::Frame::line).collect();
    assert!(said.iter().all(|line| line == "-ERR 'Authorization Violation'"), "{said:?}");
}

#[tokio::test]
async fn a_new_user_can_connect_and_the_old_one_stays() {
    let mut server = server("authorization { users: [{user: a, password: a}] }").await;
    let mut old = Client::user(&server, "a", "a").await;
    old.subscribe("foo", "1").await;
    server.reload("authorization { users: [{user: a, password: a}, {user: b, password: b}] }").await.unwrap();
    let mut new = Client::user(&server, "b", "b").await;
    new.publish("foo", "hello").await;
    old.expect("MSG foo 1 5\r\nhello\r\n").await;
}

#[tokio::test]
async fn a_removed_user_is_disconnected() {
    let mut server =
        server("authorization { users: [{user: a, password: a}, {user: b, password: b}] }").await;
    let mut staying = Client::user(&server, "a", "a").await;
    let mut removed = Client::user(&server, "b", "b").await;
    server.reload("authorization { users: [{user: a, password: a}] }").await.unwrap();
    expect_end(&mut removed).await;
    staying.expect_silence().await;
    let mut again = Client::open(server.client_addr()).await;
    again.op("CONNECT {\"user\":\"b\",\"pass\":\"b\"}").await;
    again.expect_fatal("Authorization Violation").await;
}

#[tokio::test]
async fn a_user_with_a_new_password_has_to_come_again() {
    let mut server = server("authorization { user: a, password: old }").await;
    let mut client = Client::user(&server, "a", "old").await;
    server.reload("authorization { user: a, password: new }").await.unwrap();
    expect_end(&mut client).await;
    Client::user(&server, "a", "new").await;
}

#[tokio::test]
async fn switching_authentication_on_disconnects_who_has_none() {
    let mut server = server("").await;
    let mut client = Client::ready(&server).await;
    server.reload("authorization { token: t0k3n }").await.unwrap();
    client.expect_fatal("Authorization Violation").await;
    Client::ready_with(&server, json!({"auth_token": "t0k3n"})).await;
    server.reload("").await.unwrap();
    Client::ready(&server).await;
}

#[tokio::test]
async fn subscriptions_that_are_no_longer_allowed_are_removed() {
    let mut server =
        server("authorization { users: [{user: a, password: a}, {user: root, password: r}] }").await;
    let mut client = Client::user(&server, "a", "a").await;
    let mut root = Client::user(&server, "root", "r").await;
    client.send("SUB keep 1\r\nSUB foo 2\r\nSUB bar q 3\r\nSUB > 4\r\n").await;
    client.flush().await;
    server
        .reload(
            "authorization { users: [
                {user: a, password: a, permissions: {subscribe: \"keep\", publish: \"keep\"}},
                {user: root, password: r} ] }",
        )
        .await
        .unwrap();
    let mut errors: Vec<String> = client.take(3).await.iter().map(testkit::Frame::line).collect();
    errors.sort();
    assert_eq!(
        errors,
        [
            "-ERR 'Permissions Violation for Subscription to \">\" (sid \"4\")'",
            "-ERR 'Permissions Violation for Subscription to \"bar\" using queue \"q\" (sid \"3\")'",
            "-ERR 'Permissions Violation for Subscription to \"foo\" (sid \"2\")'",
        ]
    );
    for subject in ["foo", "bar", "keep"] {
        root.publish(subject, "x").await;
    }
    client.expect("MSG keep 1 1\r\nx\r\n").await;
    client.publish("foo", "x").await;
    client.expect_error("Permissions Violation for Publish to \"foo\"").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn remembered_publish_verdicts_do_not_outlive_a_reload() {
    let with = |rule: &str| {
        format!("authorization {{ users: [{{user: a, password: a, permissions: {{publish: {{{rule}}}}}}}] }}")
    };
    let mut server = server(&with("allow: \"foo\"")).await;
    let mut client = Client::user(&server, "a", "a").await;
    client.subscribe(">", "1").await;
    client.publish("foo", "x").await;
    client.expect("MSG foo 1 1\r\nx\r\n").await;
    client.publish("bar", "x").await;
    client.expect_error("Permissions Violation for Publish to \"bar\"").await;
    server.reload(&with("allow: \"bar\"")).await.unwrap();
    client.publish("bar", "x").await;
    client.expect("MSG bar 1 1\r\nx\r\n").await;
    client.publish("foo", "x").await;
    client.expect_error("Permissions Violation for Publish to \"foo\"").await;
}

#[tokio::test]
async fn clients_of_a_removed_account_are_disconnected_and_others_stay() {
    let mut server =
        server("accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}] } }")
            .await;
    let mut a = Client::user(&server, "a", "a").await;
    let mut b = Client::user(&server, "b", "b").await;
    b.subscribe("foo", "1").await;
    server
        .reload("accounts { B { users: [{user: b, password: b}] }, C { users: [{user: c, password: c}] } }")
        .await
        .unwrap();
    expect_end(&mut a).await;
    let mut c = Client::user(&server, "c", "c").await;
    c.publish("foo", "other account").await;
    c.flush().await;
    b.publish("foo", "x").await;
    b.expect("MSG foo 1 1\r\nx\r\n").await;
    b.expect_silence().await;
}

#[tokio::test]
async fn a_user_that_moves_to_another_account_is_disconnected() {
    let mut server =
        server("accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}] } }")
            .await;
    let mut a = Client::user(&server, "a", "a").await;
    server
        .reload("accounts { A { users: [{user: x, password: x}] }, B { users: [{user: b, password: b}, {user: a, password: a}] } }")
        .await
        .unwrap();
    expect_end(&mut a).await;
    let mut again = Client::user(&server, "a", "a").await;
    assert_eq!(again.next_info().await["remote_account"], "B");
}

#[tokio::test]
async fn an_unchanged_account_keeps_delivering_through_reloads() {
    let config = |extra: &str| format!("accounts {{ A {{ users: [{{user: a, password: a}}] }} {extra} }}");
    let mut server = monitored(&config("")).await;
    let mut subscriber = Client::user(&server, "a", "a").await;
    let mut publisher = Client::user(&server, "a", "a").await;
    subscriber.subscribe("foo", "1").await;
    for number in 0..5 {
        let extra = format!(", X{number} {{ users: [{{user: x{number}, password: x}}] }}");
        server.reload(&config(&extra)).await.unwrap();
        publisher.publish("foo", &number.to_string()).await;
        assert_eq!(subscriber.message().await.payload, number.to_string());
    }
    assert_eq!(server.get_json("/varz").await["total_connections"], 2);
}
