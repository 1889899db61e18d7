//! Checking and refusing configuration files.

use testkit::{Builder, Client, Finished};

use super::{program, run, usage_error};
use crate::target;

async fn check(text: &str) -> Finished {
    Builder::new(&target()).own_listen().config(text).args(["-t"]).run().await
}

#[tokio::test]
async fn a_valid_file_is_confirmed_with_its_digest() {
    let finished = check("port: 4333\nmax_payload: 1000").await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.is_empty(), "{finished:?}");
    assert!(finished.stderr.starts_with(&format!("{}: configuration file ", program())), "{finished:?}");
    assert!(finished.stderr.contains("server.conf is valid (sha256:"), "{finished:?}");
}

#[tokio::test]
async fn checking_needs_a_file() {
    let finished = run(&["-t"]).await;
    assert_eq!(finished.code, Some(usage_error()));
    assert!(
        finished.stderr.contains("must specify [-c, --config] option to check configuration file syntax"),
        "{finished:?}"
    );
}

#[tokio::test]
async fn a_missing_file_is_refused() {
    for args in [vec!["-t", "-c", "/nonexistent/x.conf"], vec!["-c", "/nonexistent/x.conf"]] {
        let finished = run(&args).await;
        assert_eq!(finished.code, Some(1), "{args:?}");
        assert!(
            finished.stderr.to_lowercase().contains("open /nonexistent/x.conf: no such file or directory"),
            "{finished:?}"
        );
    }
}

#[tokio::test]
async fn errors_name_file_line_and_column() {
    let cases = [
        ("port: 4333\nshoe_size: 43", "server.conf:2:1: unknown field \"shoe_size\""),
        ("port: 4333\ncluster {\n  shoe_size: 43\n}", "server.conf:3:3: unknown field \"shoe_size\""),
        ("authorization { user: a, password: b, token: c }", "Cannot have a user/pass and token"),
        ("lame_duck_duration: \"10s\"", "invalid lame_duck_duration of 10s, minimum is 30 seconds"),
        ("cluster { name: \"a b\", listen: \"127.0.0.1:-1\" }", "space"),
        ("accounts { $G { users: [{user: a, password: a}] } }", "\"$G\" is a Reserved Account"),
    ];
    for (text, expected) in cases {
        for finished in [check(text).await, Builder::new(&target()).own_listen().config(text).run().await] {
            assert_eq!(finished.code, Some(1), "{text}: {finished:?}");
            assert!(finished.stderr.contains(expected), "{text}: {finished:?}");
        }
    }
}

#[tokio::test]
async fn options_that_contradict_each_other_are_refused_at_start() {
    for (text, expected) in [
        (
            "max_payload: 2MB\nmax_pending: 1MB",
            "max_payload (2097152) cannot be higher than max_pending (1048576)",
        ),
        (
            "accounts { A { users: [{user: a, password: a}] } }\nno_auth_user: x",
            "no_auth_user: \"x\" not present as user or nkey in authorization block or account configuration",
        ),
    ] {
        let finished = Builder::new(&target()).own_listen().config(text).run().await;
        assert_eq!(finished.code, Some(1), "{text}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{text}: {finished:?}");
    }
}

#[tokio::test]
async fn broken_syntax_is_refused() {
    for text in [
        "port: \"4333",
        "cluster { name: a",
        "accounts: [",
        "port: $UNKNOWN_VARIABLE_X",
        "include \"./nope.conf\"",
    ] {
        let finished = check(text).await;
        assert_eq!(finished.code, Some(1), "{text}: {finished:?}");
        assert!(!finished.stderr.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn variables_includes_sizes_and_json_are_understood() {
    let server = Builder::new(&target())
        .config("LIMIT = 3kb\nmax_payload: $LIMIT\nmax_connections: $MYELIN_IT_CONNECTIONS\ninclude './more.conf' // and more\n")
        .file("more.conf", "{\"server_name\": \"json\", \"ping_interval\": \"90s\"} # like JSON")
        .env("MYELIN_IT_CONNECTIONS", "77")
        .monitoring()
        .start()
        .await;
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["max_payload"], 3072);
    assert_eq!(varz["max_connections"], 77);
    assert_eq!(varz["server_name"], "json");
    assert_eq!(varz["ping_interval"], 90_000_000_000_u64);
    Client::ready(&server).await.expect_silence().await;
}

#[tokio::test]
async fn the_digest_shown_is_the_digest_checked() {
    let text = "max_payload: 1000";
    let finished = check(text).await;
    let digest = finished.stderr.split_once("(").unwrap().1.split_once(')').unwrap().0.to_owned();
    let server = Builder::new(&target()).config(text).monitoring().start().await;
    assert_eq!(server.get_json("/varz").await["config_digest"], digest.as_str());
}

#[tokio::test]
async fn both_servers_give_a_file_the_same_digest() {
    let Some(reference) = crate::reference() else { return };
    let text = "port: 4333\nmax_payload: 1k\nserver_tags: [a, \"b:c\"]\nauthorization { users: [{user: a, password: b}], timeout: 1.5 }\ndebug: off";
    let mut digests = Vec::new();
    for target in [target(), reference] {
        let finished = Builder::new(&target).own_listen().config(text).args(["-t"]).run().await;
        digests.push(finished.stderr.split_once("(sha256:").unwrap().1.to_owned());
    }
    assert_eq!(digests[0], digests[1]);
}

#[tokio::test]
async fn a_file_that_asks_for_what_this_version_lacks_is_refused_by_name() {
    if !target().is_myelin() {
        return;
    }
    for (text, name) in [
        ("resolver: MEMORY", "resolver"),
        ("port: 4333\nleafnodes { listen: \"127.0.0.1:-1\" }", "leafnodes"),
        ("gateway { name: a, listen: \"127.0.0.1:-1\" }", "gateway"),
        ("websocket { listen: \"127.0.0.1:-1\", no_tls: true }", "websocket"),
        ("mqtt { listen: \"127.0.0.1:-1\" }", "mqtt"),
    ] {
        let finished = check(text).await;
        assert_eq!(finished.code, Some(1), "{text}: {finished:?}");
        assert!(finished.stderr.contains("not supported in this version"), "{text}: {finished:?}");
        assert!(finished.stderr.contains(name), "{text}: {finished:?}");
    }
}

#[tokio::test]
async fn the_proxy_protocol_is_refused_by_name_with_file_and_line() {
    if !target().is_myelin() {
        return;
    }
    let finished = check("port: 4333\nproxy_protocol: true").await;
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("server.conf:2:1: "), "{finished:?}");
    assert!(finished.stderr.contains("proxy_protocol"), "{finished:?}");
    assert!(finished.stderr.contains("not supported in this version"), "{finished:?}");
    // What is switched off asks for nothing.
    let finished = check("port: 4333\nproxy_protocol: false").await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
}
