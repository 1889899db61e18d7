//! TLS for clients.

use testkit::certs::{self, Authority, Names};
use testkit::{Client, http};

use super::{FILES, refuses, served, server, with_files};

#[tokio::test]
async fn the_greeting_asks_for_tls_and_messages_pass_under_it() {
    let authority = Authority::new("ca");
    let server = server(&authority, "", "").await;
    let mut subscriber = served(&server, &authority, None).await;
    assert_eq!(subscriber.infos[0]["tls_required"], true);
    assert!(subscriber.infos[0].get("tls_verify").is_none());
    assert!(subscriber.infos[0].get("tls_available").is_none());
    let mut publisher = served(&server, &authority, None).await;
    subscriber.subscribe("foo", "1").await;
    let payload = "0123456789".repeat(50_000);
    for _ in 0..10 {
        publisher.publish("foo", &payload).await;
    }
    for _ in 0..10 {
        assert!(subscriber.message().await.payload == payload, "payload was changed on the way");
    }
    let varz = server.get_json("/varz").await;
    assert_eq!(varz["tls_required"], true);
    assert!(varz["tls_cert_not_after"].is_string(), "{varz}");
}

#[tokio::test]
async fn a_client_that_speaks_in_clear_is_refused() {
    let authority = Authority::new("ca");
    let server = server(&authority, "", "").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("CONNECT {\"verbose\":false}\r\nPING\r\n").await;
    assert!(!client.read_until_lost().await.contains("PONG"));
    let closed = server
        .await_json("/connz?state=closed", "the closed connection", |connz| connz["num_connections"] == 1)
        .await;
    assert_eq!(closed["connections"][0]["reason"], "TLS Handshake Failure");
}

#[tokio::test]
async fn a_client_that_never_begins_the_handshake_is_closed() {
    let authority = Authority::new("ca");
    let server = server(&authority, "timeout: 0.3", "").await;
    let mut client = Client::open(server.client_addr()).await;
    client.read_until_lost().await;
    let closed = server
        .await_json("/connz?state=closed", "the closed connection", |connz| connz["num_connections"] == 1)
        .await;
    assert_eq!(closed["connections"][0]["reason"], "TLS Handshake Failure");
}

#[tokio::test]
async fn verify_asks_for_a_certificate_of_the_right_authority() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let server = server(&authority, "verify: true", "").await;
    let good = authority.issue(&Names { common: "client", ..Names::default() });
    let bad = stranger.issue(&Names { common: "client", ..Names::default() });
    let client = served(&server, &authority, Some(&good)).await;
    assert_eq!(client.infos[0]["tls_verify"], true);
    assert!(refuses(&server, &authority, None).await, "no certificate was accepted");
    assert!(refuses(&server, &authority, Some(&bad)).await, "a foreign certificate was accepted");
}

#[tokio::test]
async fn a_server_of_a_foreign_authority_is_refused_by_the_client() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let server = server(&authority, "", "").await;
    assert!(certs::client(server.client_addr(), &stranger, None).await.is_err());
}

#[tokio::test]
async fn only_pinned_certificates_are_accepted() {
    let authority = Authority::new("ca");
    let pinned = authority.issue(&Names { common: "pinned", ..Names::default() });
    let other = authority.issue(&Names { common: "other", ..Names::default() });
    let server = server(&authority, &format!("verify: true, pinned_certs: [\"{}\"]", pinned.pin()), "").await;
    served(&server, &authority, Some(&pinned)).await;
    assert!(
        refuses(&server, &authority, Some(&other)).await,
        "a certificate that is not pinned was accepted"
    );
}

#[tokio::test]
async fn tls_may_come_before_the_greeting() {
    let authority = Authority::new("ca");
    let server = server(&authority, "handshake_first: true", "").await;
    let stream = certs::connect(server.client_addr(), &authority, None).await.unwrap();
    let mut client = Client::over(stream);
    client.greet().await;
    assert_eq!(client.info()["tls_required"], true);
    client.connect(serde_json::json!({})).await;
    let connz = server.get_json("/connz").await;
    assert_eq!(connz["connections"][0]["tls_first"], true, "{connz}");
}

#[tokio::test]
async fn with_tls_first_nothing_is_said_in_clear() {
    let authority = Authority::new("ca");
    let server = server(&authority, "handshake_first: true, timeout: 0.5", "").await;
    let mut client = Client::dial(server.client_addr()).await;
    let said = client.read_until_lost().await;
    assert!(!said.contains("INFO"), "{said:?}");
}

#[tokio::test]
async fn automatic_tls_first_serves_both_kinds_of_clients() {
    let authority = Authority::new("ca");
    for option in ["auto", "\"300ms\""] {
        let server = server(&authority, &format!("handshake_first: {option}"), "").await;
        let stream = certs::connect(server.client_addr(), &authority, None).await.unwrap();
        let mut first = Client::over(stream);
        first.greet().await;
        first.connect(serde_json::json!({})).await;
        served(&server, &authority, None).await;
    }
}

#[tokio::test]
async fn clear_text_beside_tls_is_possible_when_allowed() {
    let authority = Authority::new("ca");
    let server = server(&authority, "", "allow_non_tls: true").await;
    let mut clear = Client::ready(&server).await;
    assert_eq!(clear.infos[0]["tls_available"], true);
    assert!(clear.infos[0].get("tls_required").is_none());
    let mut secret = served(&server, &authority, None).await;
    clear.subscribe("foo", "1").await;
    secret.publish("foo", "x").await;
    clear.expect("MSG foo 1 1\r\nx\r\n").await;
}

#[tokio::test]
async fn connections_show_their_tls_version_cipher_and_certificate() {
    let authority = Authority::new("ca");
    let server = server(&authority, "verify: true", "").await;
    let identity = authority.issue(&Names { common: "client", ..Names::default() });
    let _client = served(&server, &authority, Some(&identity)).await;
    let connz = server.get_json("/connz?auth=1").await;
    let connection = &connz["connections"][0];
    assert_eq!(connection["tls_version"], "1.3", "{connz}");
    assert!(connection["tls_cipher_suite"].as_str().unwrap().starts_with("TLS_"), "{connz}");
    assert!(connection.get("tls_first").is_none(), "{connz}");
    assert_eq!(connection["tls_peer_certs"][0]["spki_sha256"], identity.pin());
    assert_eq!(connection["tls_peer_certs"][0]["subject"], "CN=client");
}

#[tokio::test]
async fn tls_may_be_set_up_by_flags() {
    let authority = Authority::new("ca");
    let server = with_files(&authority)
        .args(["--tls", "--tlscert", "%DIR%/server-cert.pem", "--tlskey", "%DIR%/server-key.pem"])
        .args(["--tlsverify", "--tlscacert", "%DIR%/ca.pem"])
        .start()
        .await;
    let identity = authority.issue(&Names { common: "client", ..Names::default() });
    served(&server, &authority, Some(&identity)).await;
    assert!(refuses(&server, &authority, None).await, "no certificate was accepted");
}

#[tokio::test]
async fn monitoring_can_be_served_over_tls() {
    let authority = Authority::new("ca");
    let server =
        with_files(&authority).config(format!("https: \"127.0.0.1:-1\"\ntls {{ {FILES} }}")).start().await;
    let stream = certs::connect(server.monitoring_addr(), &authority, None).await.unwrap();
    let response = http::get_over(stream, "/varz").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.json()["tls_required"], true);
}

#[tokio::test]
async fn password_authentication_works_under_tls() {
    let authority = Authority::new("ca");
    let server = server(&authority, "", "authorization { user: ann, password: a }").await;
    let mut good = certs::client(server.client_addr(), &authority, None).await.unwrap();
    good.connect(serde_json::json!({"user": "ann", "pass": "a"})).await;
    let mut bad = certs::client(server.client_addr(), &authority, None).await.unwrap();
    bad.op("CONNECT {\"user\":\"ann\",\"pass\":\"b\"}").await;
    bad.expect_fatal("Authorization Violation").await;
}

#[tokio::test]
async fn a_slow_consumer_over_tls_is_closed_too() {
    let authority = Authority::new("ca");
    let server = server(&authority, "", "max_pending: 2MB\nwrite_deadline: \"60s\"").await;
    let mut sleeper = served(&server, &authority, None).await;
    sleeper.subscribe("flood", "1").await;
    let mut publisher = served(&server, &authority, None).await;
    let chunk = format!("PUB flood 100000\r\n{}\r\n", "x".repeat(100_000)).repeat(10);
    let reason = testkit::eventually("the slow consumer is closed", async || {
        publisher.send(&chunk).await;
        publisher.flush().await;
        let closed = server.get_json("/connz?state=closed").await;
        closed["connections"][0]["reason"].as_str().map(str::to_owned)
    })
    .await;
    assert_eq!(reason, "Slow Consumer (Pending Bytes)");
}
