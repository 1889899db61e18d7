//! Permissions of users: what may be published and subscribed to.

use testkit::{Client, Server};

use crate::{server, target};

/// A server with the user `u` (password `u`) under these permissions, and an unlimited user `root`.
async fn with_permissions(permissions: &str) -> Server {
    server(&format!(
        "authorization {{ users: [ {{user: root, password: root}}, {{user: u, password: u, permissions: {{ {permissions} }} }} ] }}"
    ))
    .await
}

async fn expect_publish_denied(client: &mut Client, subject: &str) {
    client.publish(subject, "x").await;
    client.expect_error(&format!("Permissions Violation for Publish to \"{subject}\"")).await;
}

async fn expect_subscribe_denied(client: &mut Client, subject: &str) {
    client.op(&format!("SUB {subject} denied")).await;
    client.expect_error(&format!("Permissions Violation for Subscription to \"{subject}\"")).await;
}

#[tokio::test]
async fn publishing_is_limited_to_the_allowed_subjects() {
    let server = with_permissions("publish: [\"foo\", \"bar.*\", \"baz.>\"]").await;
    let mut root = Client::user(&server, "root", "root").await;
    root.subscribe(">", "1").await;
    let mut user = Client::user(&server, "u", "u").await;
    for subject in ["foo", "bar.a", "baz.a.b.c"] {
        user.publish(subject, "x").await;
        root.expect(format!("MSG {subject} 1 1\r\nx\r\n")).await;
    }
    for subject in ["fo", "foo.a", "bar", "bar.a.b", "baz", "$SYS.x"] {
        expect_publish_denied(&mut user, subject).await;
        // The verdict is remembered, the answer is given every time.
        expect_publish_denied(&mut user, subject).await;
    }
    root.expect_silence().await;
}

#[tokio::test]
async fn a_denied_subject_beats_an_allowed_one() {
    let server =
        with_permissions("publish: {allow: \"foo.>\", deny: [\"foo.secret\", \"foo.*.hidden\"]}").await;
    let mut user = Client::user(&server, "u", "u").await;
    user.publish("foo.open", "x").await;
    user.expect_silence().await;
    expect_publish_denied(&mut user, "foo.secret").await;
    expect_publish_denied(&mut user, "foo.a.hidden").await;
    user.publish("foo.a.b", "x").await;
    user.expect_silence().await;
}

#[tokio::test]
async fn a_deny_list_alone_allows_the_rest() {
    let server = with_permissions("publish: {deny: \"foo\"}, subscribe: {deny: \"bar\"}").await;
    let mut user = Client::user(&server, "u", "u").await;
    expect_publish_denied(&mut user, "foo").await;
    expect_subscribe_denied(&mut user, "bar").await;
    user.send("SUB foo 1\r\nPUB bar 0\r\n\r\n").await;
    user.expect_silence().await;
}

#[tokio::test]
async fn a_wildcard_in_a_denied_publish_does_not_slip_through() {
    let server = with_permissions("publish: {allow: \"foo.*\", deny: \"foo.x\"}").await;
    let mut user = Client::user(&server, "u", "u").await;
    user.publish("foo.*", "x").await;
    user.expect_silence().await;
    for subject in ["foo.x", ">", "*.*", "foo.x.*"] {
        expect_publish_denied(&mut user, subject).await;
    }
}

#[tokio::test]
async fn subscribing_is_limited_to_subsets_of_the_allowed_subjects() {
    let server = with_permissions("subscribe: [\"foo\", \"bar.*\", \"baz.>\"]").await;
    let mut user = Client::user(&server, "u", "u").await;
    user.send("SUB foo 1\r\nSUB bar.a 2\r\nSUB bar.* 3\r\nSUB baz.* 4\r\nSUB baz.> 5\r\nSUB foo q 6\r\n")
        .await;
    user.expect_silence().await;
    for subject in ["*", ">", "bar", "fo", "*.a", "_INBOX.a"] {
        expect_subscribe_denied(&mut user, subject).await;
    }
}

#[tokio::test]
async fn a_tail_wildcard_is_no_subset_of_a_one_token_wildcard() {
    let server = with_permissions("subscribe: \"bar.*\"").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    if target().is_myelin() {
        expect_subscribe_denied(&mut user, "bar.>").await;
        return;
    }
    // The reference takes `>` for a token that `*` covers, and so hands out more than was allowed.
    user.subscribe("bar.>", "1").await;
    root.publish("bar.a.b", "x").await;
    user.expect("MSG bar.a.b 1 1\r\nx\r\n").await;
}

#[tokio::test]
async fn a_denied_subscription_delivers_nothing_and_can_be_followed_by_others() {
    let server = with_permissions("subscribe: \"foo\"").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.op("SUB bar 1").await;
    user.expect_error("Permissions Violation for Subscription to \"bar\"").await;
    user.subscribe("foo", "1").await;
    root.publish("bar", "x").await;
    root.publish("foo", "y").await;
    user.expect("MSG foo 1 1\r\ny\r\n").await;
}

#[tokio::test]
async fn denied_subjects_inside_a_wider_subscription_are_filtered_at_delivery() {
    let server = with_permissions("subscribe: {allow: \"foo.>\", deny: [\"foo.secret\", \"foo.a.*\"]}").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.send("SUB foo.> 1\r\nSUB foo.* 2\r\n").await;
    expect_subscribe_denied(&mut user, "foo.secret").await;
    expect_subscribe_denied(&mut user, "foo.a.b").await;
    expect_subscribe_denied(&mut user, "foo.a.*").await;
    for subject in ["foo.secret", "foo.a.b", "foo.a.c", "foo.open"] {
        root.publish(subject, "x").await;
    }
    root.flush().await;
    let mut got: Vec<String> = user.drain().await.iter().map(|frame| frame.message().subject).collect();
    got.sort();
    assert_eq!(got, ["foo.open", "foo.open"]);
}

#[tokio::test]
async fn denied_subjects_are_filtered_for_queue_subscribers_too() {
    // CVE-2022-29946.
    let server = with_permissions("subscribe: {allow: \"a.>\", deny: \"a.b\"}").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.send("SUB a.* q 1\r\nSUB a.> q2 2\r\n").await;
    user.op("SUB a.b q 3").await;
    user.expect_error("Permissions Violation for Subscription to \"a.b\" using queue \"q\"").await;
    for _ in 0..20 {
        root.publish("a.b", "x").await;
    }
    root.flush().await;
    user.expect_silence().await;
    root.publish("a.c", "x").await;
    root.flush().await;
    assert_eq!(user.drain().await.len(), 2);
}

#[tokio::test]
async fn a_denied_member_is_passed_over_and_another_gets_the_message() {
    let server = with_permissions("subscribe: {allow: \"a.>\", deny: \"a.b\"}").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.queue_subscribe("a.*", "q", "1").await;
    root.queue_subscribe("a.*", "q", "1").await;
    for _ in 0..40 {
        root.publish("a.b", "x").await;
    }
    assert_eq!(root.drain().await.len(), 40);
    user.expect_silence().await;
}

#[tokio::test]
async fn an_empty_allow_list_allows_nothing() {
    let server = with_permissions("publish: {allow: []}, subscribe: {allow: []}").await;
    let mut user = Client::user(&server, "u", "u").await;
    if target().is_myelin() {
        expect_publish_denied(&mut user, "foo").await;
        expect_subscribe_denied(&mut user, "foo").await;
        return;
    }
    // The reference takes an empty list in the configuration for no list.
    user.send("SUB foo 1\r\nPUB foo 0\r\n\r\n").await;
    user.expect("MSG foo 1 0\r\n\r\n").await;
}

#[tokio::test]
async fn users_without_permissions_take_the_default_ones() {
    let server = server(
        "authorization {
            default_permissions { publish: \"public.>\", subscribe: \"public.>\" }
            users: [ {user: u, password: u}, {user: v, password: v, permissions: {publish: \"v\"}} ] }",
    )
    .await;
    let mut user = Client::user(&server, "u", "u").await;
    expect_publish_denied(&mut user, "private").await;
    expect_subscribe_denied(&mut user, "private").await;
    user.send("SUB public.a 1\r\nPUB public.a 0\r\n\r\n").await;
    user.expect("MSG public.a 1 0\r\n\r\n").await;
    let mut other = Client::user(&server, "v", "v").await;
    expect_publish_denied(&mut other, "public.a").await;
    other.subscribe("anything", "1").await;
}

#[tokio::test]
async fn responses_are_allowed_to_whoever_got_a_request() {
    let server = with_permissions("subscribe: \"service\", allow_responses: true").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.subscribe("service", "1").await;
    root.subscribe("_INBOX.>", "1").await;
    expect_publish_denied(&mut user, "_INBOX.1").await;
    root.request("service", "_INBOX.1", "q").await;
    user.expect("MSG service 1 _INBOX.1 1\r\nq\r\n").await;
    expect_publish_denied(&mut user, "_INBOX.2").await;
    user.publish("_INBOX.1", "a").await;
    root.expect("MSG _INBOX.1 1 1\r\na\r\n").await;
    expect_publish_denied(&mut user, "_INBOX.1").await;
}

#[tokio::test]
async fn the_number_of_responses_is_limited_as_configured() {
    let server = with_permissions("subscribe: \"service\", allow_responses: {max: 3, expires: \"1m\"}").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.subscribe("service", "1").await;
    root.subscribe("_INBOX.>", "1").await;
    root.request("service", "_INBOX.1", "q").await;
    user.message().await;
    for _ in 0..3 {
        user.publish("_INBOX.1", "a").await;
        root.expect("MSG _INBOX.1 1 1\r\na\r\n").await;
    }
    expect_publish_denied(&mut user, "_INBOX.1").await;
}

#[tokio::test]
async fn the_permission_to_respond_expires() {
    let server =
        with_permissions("subscribe: \"service\", allow_responses: {max: -1, expires: \"100ms\"}").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    user.subscribe("service", "1").await;
    root.request("service", "_INBOX.1", "q").await;
    user.message().await;
    testkit::eventually("the permission is gone", async || {
        user.publish("_INBOX.1", "late").await;
        let frames = user.drain().await;
        frames.first().is_some_and(|frame| frame.verb() == "-ERR").then_some(())
    })
    .await;
}

#[tokio::test]
async fn responses_add_to_what_may_be_published_anyway() {
    let server = with_permissions("publish: \"open\", allow_responses: true").await;
    let mut user = Client::user(&server, "u", "u").await;
    let mut root = Client::user(&server, "root", "root").await;
    root.subscribe("open", "1").await;
    user.publish("open", "x").await;
    root.expect("MSG open 1 1\r\nx\r\n").await;
    expect_publish_denied(&mut user, "closed").await;
}

#[tokio::test]
async fn verbose_clients_get_no_ok_for_what_is_denied() {
    let server = with_permissions("publish: \"foo\", subscribe: \"foo\"").await;
    let mut user = Client::open(server.client_addr()).await;
    user.send("CONNECT {\"verbose\":true,\"user\":\"u\",\"pass\":\"u\"}\r\n").await;
    user.send("PUB bar 1\r\nx\r\nSUB bar 1\r\nPUB foo 0\r\n\r\n").await;
    user.expect("+OK\r\n").await;
    user.expect_error("Permissions Violation for Publish to \"bar\"").await;
    user.expect_error("Permissions Violation for Subscription to \"bar\"").await;
    user.expect("+OK\r\n").await;
}

#[tokio::test]
async fn permission_violations_are_logged_with_user_and_subject() {
    let server = with_permissions("publish: \"foo\", subscribe: \"foo\"").await;
    let mut user = Client::user(&server, "u", "u").await;
    expect_publish_denied(&mut user, "bar").await;
    expect_subscribe_denied(&mut user, "bar").await;
    for violation in ["Publish", "Subscription"] {
        let names_all =
            |line: &str| line.contains(violation) && line.contains("\"bar\"") && line.contains("u\"");
        testkit::eventually_ok("a line with violation, user and subject", async || {
            let log = server.log();
            if log.lines().any(names_all) { Ok(()) } else { Err(log) }
        })
        .await;
    }
}
