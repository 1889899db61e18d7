//! Tokens, users, passwords, and connections without any.

use serde_json::json;
use testkit::Client;

use super::{let_in, refused};
use crate::{monitored, server};

/// bcrypt of `s3cr3t` and of `t0k3n`, at the lowest cost.
const HASHED_PASSWORD: &str = "$2a$04$abcdefghijklmnopqrstuu35fBIWlNgF8BcAW/t2cO158N8svSFHy";
const HASHED_TOKEN: &str = "$2b$04$abcdefghijklmnopqrstuuVFSxRq0nN0HGlPj.07L3Fcsp6TxkpYy";

#[tokio::test]
async fn a_token_lets_in_who_knows_it() {
    let server = server("authorization { token: \"t0k3n\" }").await;
    let_in(&server, json!({"auth_token": "t0k3n"})).await;
    refused(&server, json!({"auth_token": "t0k3"})).await;
    refused(&server, json!({"auth_token": ""})).await;
    refused(&server, json!({"user": "t0k3n", "pass": "t0k3n"})).await;
    refused(&server, json!({})).await;
}

#[tokio::test]
async fn a_token_may_be_stored_as_bcrypt() {
    let server = server(&format!("authorization {{ token: \"{HASHED_TOKEN}\" }}")).await;
    let_in(&server, json!({"auth_token": "t0k3n"})).await;
    refused(&server, json!({"auth_token": "t0k3n2"})).await;
    refused(&server, json!({"auth_token": HASHED_TOKEN})).await;
}

#[tokio::test]
async fn a_single_user_needs_name_and_password() {
    let server = server("authorization { user: ann, password: s3cr3t }").await;
    let_in(&server, json!({"user": "ann", "pass": "s3cr3t"})).await;
    refused(&server, json!({"user": "ann", "pass": "wrong"})).await;
    refused(&server, json!({"user": "ann"})).await;
    refused(&server, json!({"user": "bob", "pass": "s3cr3t"})).await;
    refused(&server, json!({"auth_token": "s3cr3t"})).await;
    refused(&server, json!({})).await;
}

#[tokio::test]
async fn a_password_may_be_stored_as_bcrypt() {
    let server =
        server(&format!("authorization {{ users: [{{user: ann, password: \"{HASHED_PASSWORD}\"}}] }}")).await;
    let_in(&server, json!({"user": "ann", "pass": "s3cr3t"})).await;
    refused(&server, json!({"user": "ann", "pass": "s3cr3T"})).await;
    refused(&server, json!({"user": "ann", "pass": HASHED_PASSWORD})).await;
}

#[tokio::test]
async fn several_users_have_their_own_passwords() {
    let server = server("authorization { users: [ {user: ann, password: a}, {user: bob, pass: b} ] }").await;
    let_in(&server, json!({"user": "ann", "pass": "a"})).await;
    let_in(&server, json!({"user": "bob", "pass": "b"})).await;
    refused(&server, json!({"user": "ann", "pass": "b"})).await;
    refused(&server, json!({"user": "carl", "pass": "a"})).await;
}

#[tokio::test]
async fn the_first_operation_must_be_connect_when_authentication_is_on() {
    let server = server("authorization { user: ann, password: s3cr3t }").await;
    for script in ["SUB foo 1\r\n", "PUB foo 0\r\n\r\n", "PING\r\n", "UNSUB 1\r\n", "PONG\r\n", "+OK\r\n"] {
        let mut client = Client::open(server.client_addr()).await;
        client.send(script).await;
        client.expect_fatal("Authorization Violation").await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_authenticate_in_time_is_closed() {
    let server = monitored("authorization { user: ann, password: s3cr3t, timeout: 0.2 }").await;
    let mut client = Client::open(server.client_addr()).await;
    client.expect_fatal("Authentication Timeout").await;
    let closed = server
        .await_json("/connz?state=closed", "the closed connection shows", |connz| {
            connz["num_connections"] == 1
        })
        .await;
    assert_eq!(closed["connections"][0]["reason"], "Authentication Timeout");
}

#[tokio::test]
async fn a_refused_client_shows_as_authentication_failure() {
    let server = monitored("authorization { user: ann, password: s3cr3t }").await;
    refused(&server, json!({"user": "ann", "pass": "guess"})).await;
    let closed = server
        .await_json("/connz?state=closed&auth=1", "the closed connection shows", |connz| {
            connz["num_connections"] == 1
        })
        .await;
    assert_eq!(closed["connections"][0]["reason"], "Authentication Failure");
    assert!(!server.log().contains("guess"), "the log shows a password: {}", server.log());
}

#[tokio::test]
async fn clients_without_credentials_become_the_no_auth_user() {
    let server = server(
        "accounts { A { users: [{user: ann, password: a, permissions: {publish: \"only\"}}] }
                    B { users: [{user: bob, password: b}] } }
         no_auth_user: ann",
    )
    .await;
    let mut client = Client::ready(&server).await;
    assert_eq!(client.next_info().await["remote_account"], "A");
    client.publish("other", "x").await;
    client.expect_error("Permissions Violation for Publish to \"other\"").await;
    let mut bob = Client::user(&server, "bob", "b").await;
    assert_eq!(bob.next_info().await["remote_account"], "B");
    refused(&server, json!({"user": "ann", "pass": "wrong"})).await;
}

#[tokio::test]
async fn the_no_auth_user_may_skip_connect() {
    let server = server(
        "accounts { A { users: [{user: ann, password: a}, {user: eve, password: e}] } }
         no_auth_user: ann",
    )
    .await;
    let mut listener = Client::user(&server, "eve", "e").await;
    listener.subscribe("foo", "1").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("PUB foo 2\r\nhi\r\n").await;
    listener.expect("MSG foo 1 2\r\nhi\r\n").await;
    client.expect("+OK\r\n").await;
}

#[tokio::test]
async fn users_beside_a_lone_system_account_do_not_open_the_door() {
    // CVE-2023-47090: such a configuration once made an implicit user for clients without credentials.
    let server = server(
        "accounts { $SYS { users: [{user: sys, password: s}] } }
         authorization { users: [{user: ann, password: a}] }",
    )
    .await;
    refused(&server, json!({})).await;
    let mut ann = let_in(&server, json!({"user": "ann", "pass": "a", "protocol": 1})).await;
    assert_eq!(ann.next_info().await["remote_account"], "$G");
}

#[tokio::test]
async fn accounts_without_a_default_user_refuse_clients_without_credentials() {
    let server = server("accounts { A { users: [{user: ann, password: a}] } }").await;
    refused(&server, json!({})).await;
}

#[tokio::test]
async fn a_lone_system_account_leaves_the_door_of_the_global_account_open() {
    let server = server("accounts { $SYS { users: [{user: sys, password: s}] } }").await;
    let mut client = Client::ready(&server).await;
    assert_eq!(client.next_info().await["remote_account"], "$G");
    let mut system = Client::user(&server, "sys", "s").await;
    assert_eq!(system.next_info().await["remote_account"], "$SYS");
}

#[tokio::test]
async fn naming_an_account_in_connect_is_refused_even_with_good_credentials() {
    // CVE-2022-24450.
    let server = server(
        "accounts { A { users: [{user: ann, password: a}] }, B { users: [{user: bob, password: b}] } }",
    )
    .await;
    refused(&server, json!({"user": "ann", "pass": "a", "account": "B"})).await;
    refused(&server, json!({"user": "ann", "pass": "a", "account": "A"})).await;
}

#[tokio::test]
async fn a_second_connect_with_bad_credentials_ends_the_connection() {
    let server = server("authorization { user: ann, password: s3cr3t }").await;
    let mut client = let_in(&server, json!({"user": "ann", "pass": "s3cr3t"})).await;
    client.op("CONNECT {\"user\":\"ann\",\"pass\":\"x\"}").await;
    client.expect_fatal("Authorization Violation").await;
}

#[tokio::test]
async fn a_user_may_be_limited_to_kinds_of_connections() {
    let server = server(
        "authorization { users: [
            {user: std, password: s, allowed_connection_types: [\"STANDARD\"]},
            {user: ws, password: w, allowed_connection_types: [\"websocket\", \"MQTT\"]} ] }",
    )
    .await;
    let_in(&server, json!({"user": "std", "pass": "s"})).await;
    refused(&server, json!({"user": "ws", "pass": "w"})).await;
}
