//! The INFO that opens every connection, and the one that follows the first PONG.

use serde_json::json;
use testkit::Client;

use crate::server;

#[tokio::test]
async fn first_line_is_info_with_the_fields_that_clients_read() {
    let server = server("server_name: alpha").await;
    let client = Client::open(server.client_addr()).await;
    let info = client.info();
    let id = info["server_id"].as_str().unwrap();
    assert_eq!(id.len(), 56, "{id}");
    assert!(id.starts_with('N'), "{id}");
    assert!(id.bytes().all(|byte| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte)), "{id}");
    assert_eq!(info["server_name"], "alpha");
    assert!(info["version"].as_str().unwrap().starts_with("2.15."), "{info}");
    assert!(info["go"].is_string(), "{info}");
    assert_eq!(info["proto"], 1);
    assert_eq!(info["host"], "127.0.0.1");
    assert_eq!(info["port"], server.client_addr().port());
    assert_eq!(info["headers"], true);
    assert_eq!(info["max_payload"], 1_048_576);
    assert_eq!(info["client_ip"], "127.0.0.1");
    assert!(info["client_id"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn first_info_leaves_out_what_is_not_in_effect() {
    let server = server("").await;
    let client = Client::open(server.client_addr()).await;
    for key in [
        "auth_required",
        "tls_required",
        "tls_verify",
        "tls_available",
        "jetstream",
        "nonce",
        "cluster",
        "connect_urls",
        "ldm",
        "connect_info",
        "remote_account",
        "acc_is_sys",
        "domain",
    ] {
        assert!(client.info().get(key).is_none(), "{key} in {}", client.info());
    }
}

#[tokio::test]
async fn server_name_is_the_server_id_when_none_is_configured() {
    let server = server("").await;
    let client = Client::open(server.client_addr()).await;
    assert_eq!(client.info()["server_name"], client.info()["server_id"]);
}

#[tokio::test]
async fn info_announces_the_configured_payload_limit_and_advertised_address() {
    let server = server("max_payload: 2048\nclient_advertise: \"nats.example.net:5222\"").await;
    let client = Client::open(server.client_addr()).await;
    assert_eq!(client.info()["max_payload"], 2048);
    assert_eq!(client.info()["host"], "nats.example.net");
    assert_eq!(client.info()["port"], 5222);
}

#[tokio::test]
async fn client_ids_grow_with_every_connection() {
    let server = server("").await;
    let first = Client::open(server.client_addr()).await.info()["client_id"].as_u64().unwrap();
    let second = Client::open(server.client_addr()).await.info()["client_id"].as_u64().unwrap();
    assert!(second > first, "{second} after {first}");
}

#[tokio::test]
async fn info_asks_for_authentication_only_when_it_is_needed() {
    let with_users = server("authorization { user: a, password: b }").await;
    assert_eq!(Client::open(with_users.client_addr()).await.info()["auth_required"], true);

    let with_default = server("accounts { A { users: [{user: a, password: b}] } }\nno_auth_user: a").await;
    let client = Client::open(with_default.client_addr()).await;
    assert!(client.info().get("auth_required").is_none(), "{}", client.info());
}

#[tokio::test]
async fn second_info_after_the_first_pong_names_the_account() {
    let server = server("accounts { ACME { users: [{user: a, password: b}] } }").await;
    let mut client = Client::user(&server, "a", "b").await;
    let info = client.next_info().await;
    assert_eq!(info["connect_info"], true);
    assert_eq!(info["remote_account"], "ACME");
    assert_eq!(info["client_id"], client.infos[0]["client_id"]);
    assert!(info.get("acc_is_sys").is_none(), "{info}");
    client.op("PING").await;
    client.expect("PONG\r\n").await;
    client.expect_silence().await;
    assert_eq!(client.infos.len(), 2, "INFO is repeated: {:?}", client.infos);
}

#[tokio::test]
async fn second_info_tells_a_system_user_that_it_is_one() {
    let server = server("accounts { $SYS { users: [{user: a, password: b}] } }").await;
    let mut client = Client::user(&server, "a", "b").await;
    let info = client.next_info().await;
    assert_eq!(info["remote_account"], "$SYS");
    assert_eq!(info["acc_is_sys"], true);
}

#[tokio::test]
async fn clients_of_protocol_zero_get_no_second_info() {
    let server = server("").await;
    let mut client = Client::ready_with(&server, json!({"protocol": 0})).await;
    client.flush().await;
    client.expect_silence().await;
    assert_eq!(client.infos.len(), 1);
}

#[tokio::test]
async fn second_info_comes_right_after_the_pong() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.raw().send("CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\n").await;
    client.expect("PONG\r\n").await;
    assert_eq!(client.next().await.verb(), "INFO");
}
