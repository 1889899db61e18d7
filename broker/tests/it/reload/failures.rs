//! Reloads that are refused: they say why and change nothing.

use testkit::{Builder, Client, Signal};

use crate::{monitored, target};

const BASE: &str = "server_name: one\nmax_payload: 1000";

#[tokio::test]
async fn an_option_that_needs_a_restart_fails_the_whole_reload() {
    let mut server = monitored(BASE).await;
    let cases = [
        ("server_name: two", "ServerName: old=one, new=two"),
        ("max_subscriptions: 5", "MaxSubs: old=0, new=5"),
        ("max_pending: 5MB", "MaxPending: old=67108864, new=5242880"),
        ("max_sub_tokens: 3", "MaxSubTokens: old=0, new=3"),
        ("no_header_support: true", "NoHeaderSupport: old=false, new=true"),
        ("lame_duck_duration: \"31s\"", "LameDuckDuration: old=2m0s, new=31s"),
        ("lame_duck_grace_period: \"11s\"", "LameDuckGracePeriod: old=10s, new=11s"),
        ("max_closed_clients: 4", "MaxClosedClients: old=10000, new=4"),
        ("allow_non_tls: true", "AllowNonTLS: old=false, new=true"),
        ("no_system_account: true", "NoSystemAccount: old=false, new=true"),
        ("log_size_limit: 1000", "LogSizeLimit: old=0, new=1000"),
    ];
    for (line, text) in cases {
        let error = server.reload(&format!("server_name: one\nmax_payload: 2000\n{line}")).await.unwrap_err();
        assert_eq!(error, format!("config reload not supported for {text}"), "{line}");
        let varz = server.get_json("/varz").await;
        assert_eq!((&varz["max_payload"], &varz["server_name"]), (&1000.into(), &"one".into()), "{line}");
    }
    server.reload("server_name: one\nmax_payload: 2000").await.unwrap();
    assert_eq!(server.get_json("/varz").await["max_payload"], 2000);
}

#[tokio::test]
async fn adding_a_cluster_needs_a_restart() {
    let mut server = monitored(BASE).await;
    let error = server
        .reload(&format!("{BASE}\ncluster {{ name: c1, listen: \"127.0.0.1:-1\" }}"))
        .await
        .unwrap_err();
    assert!(error.starts_with("config reload not supported for "), "{error}");
}

#[tokio::test]
async fn errors_in_the_file_are_reported_with_their_place_and_change_nothing() {
    let mut server =
        monitored(&format!("{BASE}\nauthorization {{ users: [{{user: a, password: a}}] }}")).await;
    let mut client = Client::user(&server, "a", "a").await;
    let unknown = server.reload("max_payload: 2000\n\nshoe_size: 43").await.unwrap_err();
    assert!(unknown.contains("server.conf:3:1: unknown field \"shoe_size\""), "{unknown}");
    for (text, place) in [
        ("max_payload: 2000\nauthorization { users: [{user: b, password: \"b} ] }", "2"),
        ("max_payload: 2000\nmax_connections: \"many\"", ":2:"),
        ("max_payload: 2000\nauthorization { user: a, password: b, token: c }", ":2:"),
        ("max_payload: 2000\nping_interval: \"soon\"", ":2:"),
    ] {
        let error = server.reload(text).await.unwrap_err();
        assert!(error.contains(place), "{text}: {error}");
    }
    let grace = server.reload("max_payload: 2000\nlame_duck_grace_period: \"5m\"").await.unwrap_err();
    let text = "lame duck grace period (5m0s) should be strictly lower than lame duck duration (2m0s)";
    assert!(grace.ends_with(text), "{grace}");
    assert_eq!(server.get_json("/varz").await["max_payload"], 1000);
    client.expect_silence().await;
    Client::user(&server, "a", "a").await;
}

#[tokio::test]
async fn a_missing_file_fails_the_reload() {
    let server = monitored(BASE).await;
    std::fs::remove_file(server.dir().join("server.conf")).unwrap();
    let error = server.reload_as_is().await.unwrap_err();
    assert!(error.to_lowercase().contains("no such file"), "{error}");
    Client::ready(&server).await.expect_silence().await;
}

#[tokio::test]
async fn a_server_that_was_started_without_a_file_says_so() {
    let server = Builder::new(&target()).start().await;
    server.signal(Signal::HUP);
    server.await_log("can only reload config when a file is provided using -c or --config").await;
    Client::ready(&server).await.expect_silence().await;
}

#[tokio::test]
async fn a_log_file_that_cannot_be_opened_is_refused() {
    let mut server = monitored(BASE).await;
    let text = format!("{BASE}\nlog_file: \"/nonexistent/directory/log\"");
    if target().is_myelin() {
        let error = server.reload(&text).await.unwrap_err();
        assert!(error.contains("/nonexistent/directory/log"), "{error}");
        Client::ready(&server).await.expect_silence().await;
    } else {
        // The reference ends here, with all its connections.
        server.write_config(&text);
        server.signal(Signal::HUP);
        assert_ne!(server.await_exit().await.code(), Some(0));
    }
}
