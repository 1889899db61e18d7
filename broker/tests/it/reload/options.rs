//! Single options change while the server runs.

use testkit::{Builder, Client, Signal};

use crate::{monitored, target};

#[tokio::test]
async fn the_payload_limit_changes_for_connected_clients() {
    let mut server = monitored("max_payload: 1000").await;
    let mut client = Client::ready(&server).await;
    client.next_info().await;
    server.reload("max_payload: 100").await.unwrap();
    assert_eq!(server.get_json("/varz").await["max_payload"], 100);
    let fresh = Client::open(server.client_addr()).await;
    assert_eq!(fresh.info()["max_payload"], 100);
    client.op("PUB foo 101").await;
    client.expect_fatal("Maximum Payload Violation").await;
}

#[tokio::test]
async fn a_lower_connection_limit_closes_the_excess() {
    let mut server = monitored("").await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::ready(&server).await);
    }
    server.reload("max_connections: 2").await.unwrap();
    server.await_json("/varz", "two are left", |varz| varz["connections"] == 2).await;
    let mut closed = 0;
    for client in &mut clients {
        // A closed client may refuse the write already.
        let _ = client.try_send(b"PING\r\n").await;
        let answer = client.next_within(testkit::PATIENCE).await.map(|frame| frame.line());
        match answer.as_deref() {
            Some("PONG") => {}
            Some(error) => {
                assert_eq!(error, "-ERR 'maximum connections exceeded'");
                closed += 1;
            }
            None => closed += 1,
        }
    }
    assert_eq!(closed, 2);
}

#[tokio::test]
async fn limits_in_varz_follow_the_file() {
    // #8388: monitoring showed stale limits.
    let mut server = monitored("").await;
    server
        .reload(
            "max_connections: 55\nmax_control_line: 2048\nping_interval: \"44s\"\nping_max: 7\nwrite_deadline: \"6s\"
             server_tags: [\"x:y\"]\nauthorization { user: a, password: b, timeout: 5 }",
        )
        .await
        .unwrap();
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["max_connections"], 55);
    assert_eq!(varz["max_control_line"], 2048);
    assert_eq!(varz["ping_interval"], 44_000_000_000_u64);
    assert_eq!(varz["ping_max"], 7);
    assert_eq!(varz["write_deadline"], 6_000_000_000_u64);
    assert_eq!(varz["tags"], serde_json::json!(["x:y"]));
    assert_eq!(varz["auth_required"], true);
    assert_eq!(varz["auth_timeout"], 5);
    let mut client = Client::user(&server, "a", "b").await;
    client.send(format!("SUB {} 1", "x".repeat(2100))).await;
    client.expect_fatal("maximum control line exceeded").await;
}

#[tokio::test]
async fn digest_and_load_time_follow_the_file() {
    let mut server = monitored("max_payload: 1000").await;
    let before = server.get_json("/varz").await;
    server.reload("max_payload: 1001").await.unwrap();
    let after = server.get_json("/varz").await;
    assert_ne!(before["config_digest"], after["config_digest"]);
    assert_ne!(before["config_load_time"], after["config_load_time"]);
    assert_eq!(before["start"], after["start"]);
}

#[tokio::test]
async fn a_changed_advertised_address_is_told_to_new_clients() {
    let mut server = monitored("").await;
    server.reload("client_advertise: \"far.example.net:4333\"").await.unwrap();
    let client = Client::open(server.client_addr()).await;
    assert_eq!((&client.info()["host"], &client.info()["port"]), (&"far.example.net".into(), &4333.into()));
}

#[tokio::test]
async fn debug_and_trace_can_be_switched() {
    let mut server = monitored("").await;
    drop(Client::ready(&server).await);
    assert!(!server.log().contains("[DBG]"), "{}", server.log());
    server.reload("debug: true\ntrace: true").await.unwrap();
    let mut client = Client::ready(&server).await;
    client.publish("traced.subject", "x").await;
    server.await_log("[DBG]").await;
    server.await_log("[TRC]").await;
    server.await_log("PUB traced.subject 1").await;
}

#[tokio::test]
async fn the_log_moves_to_another_file() {
    let mut server = Builder::new(&target()).config("log_file: \"%DIR%/first.log\"").start().await;
    let read = |server: &testkit::Server, name: &str| {
        std::fs::read_to_string(server.dir().join(name)).unwrap_or_default()
    };
    assert!(read(&server, "first.log").contains("Server is ready"), "{}", server.log());
    server.write_config("log_file: \"%DIR%/second.log\"");
    server.signal(Signal::HUP);
    testkit::eventually("the second log", async || {
        read(&server, "second.log").contains("Reloaded").then_some(())
    })
    .await;
}

#[tokio::test]
async fn flags_stay_above_the_file() {
    let mut server = Builder::new(&target())
        .config("debug: false\nmax_payload: 100")
        .args(["-D"])
        .monitoring()
        .start()
        .await;
    let port = server.client_addr().port();
    server.reload("debug: false\nmax_payload: 101\nport: 1").await.unwrap();
    assert_eq!(Client::open(server.client_addr()).await.info()["port"], port);
    assert_eq!(server.get_json("/varz").await["max_payload"], 101);
    assert!(server.log().contains("[DBG]"), "{}", server.log());
}

#[tokio::test]
async fn a_shorter_ping_interval_finds_stale_clients() {
    let mut server = monitored("").await;
    server.reload("ping_interval: \"100ms\"\nping_max: 1").await.unwrap();
    let mut client = Client::open(server.client_addr()).await;
    client.raw().send("CONNECT {\"verbose\":false,\"protocol\":0}\r\n").await;
    let last = client.read_to_end().await.pop().unwrap();
    assert_eq!(last.line(), "-ERR 'Stale Connection'");
}

#[tokio::test]
async fn includes_are_read_again() {
    let server = Builder::new(&target())
        .config("include \"./limits.conf\"")
        .file("limits.conf", "max_payload: 100")
        .monitoring()
        .start()
        .await;
    assert_eq!(server.get_json("/varz").await["max_payload"], 100);
    server.write_file("limits.conf", "max_payload: 200");
    server.reload_as_is().await.unwrap();
    assert_eq!(server.get_json("/varz").await["max_payload"], 200);
}
