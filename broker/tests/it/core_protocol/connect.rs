//! CONNECT: its options, their defaults, and what is refused.

use serde_json::json;
use testkit::Client;

use crate::server;

#[tokio::test]
async fn connect_without_verbose_key_is_verbose() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("CONNECT {}\r\n").await;
    client.expect("+OK\r\n").await;
    client.send("SUB foo 1\r\nPUB foo 2\r\nhi\r\nUNSUB 1\r\nPING\r\n").await;
    client.expect("+OK\r\n+OK\r\nMSG foo 1 2\r\nhi\r\n+OK\r\nPONG\r\n").await;
}

#[tokio::test]
async fn without_connect_the_client_is_verbose() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("SUB foo 1\r\nPING\r\nPUB foo 2\r\nhi\r\n").await;
    client.expect("+OK\r\nPONG\r\n+OK\r\nMSG foo 1 2\r\nhi\r\n").await;
}

#[tokio::test]
async fn without_verbose_nothing_is_acknowledged() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("CONNECT {\"verbose\":false}\r\nSUB foo 1\r\nUNSUB 1\r\nPUB foo 0\r\n\r\nPING\r\n").await;
    client.expect("PONG\r\n").await;
}

#[tokio::test]
async fn unknown_fields_of_connect_are_ignored() {
    let server = server("").await;
    let mut client = Client::ready_with(&server, json!({"shoe_size": 43, "nested": {"a": [1, 2]}})).await;
    client.expect_silence().await;
}

#[tokio::test]
async fn connect_with_broken_json_closes_the_connection_without_an_error() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("CONNECT {\"verbose\":}\r\n").await;
    client.expect_closed().await;
}

#[tokio::test]
async fn connect_with_an_unknown_protocol_number_is_refused() {
    let server = server("").await;
    for protocol in [2, -1] {
        let mut client = Client::open(server.client_addr()).await;
        client.op(&format!("CONNECT {{\"verbose\":false,\"protocol\":{protocol}}}")).await;
        client.expect_fatal("invalid client protocol").await;
    }
}

#[tokio::test]
async fn no_responders_without_headers_is_refused() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.op("CONNECT {\"verbose\":false,\"no_responders\":true}").await;
    client.expect_fatal("no responders requires headers support").await;
}

#[tokio::test]
async fn naming_an_account_in_connect_is_an_authorization_violation() {
    let server = server("").await;
    for field in [r#""account":"ACME""#, r#""account":"ACME","new_account":true"#] {
        let mut client = Client::open(server.client_addr()).await;
        client.op(&format!("CONNECT {{\"verbose\":false,{field}}}")).await;
        client.expect_fatal("Authorization Violation").await;
    }
}

#[tokio::test]
async fn own_messages_come_back_unless_echo_is_off() {
    let server = server("").await;
    let mut with_echo = Client::ready(&server).await;
    with_echo.send("SUB foo 1\r\nPUB foo 2\r\nhi\r\n").await;
    with_echo.expect("MSG foo 1 2\r\nhi\r\n").await;

    let mut without = Client::ready_with(&server, json!({"echo": false})).await;
    let mut other = Client::ready(&server).await;
    other.subscribe("bar", "9").await;
    without.send("SUB bar 1\r\nSUB bar workers 2\r\nPUB bar 2\r\nhi\r\n").await;
    other.expect("MSG bar 9 2\r\nhi\r\n").await;
    without.expect_silence().await;
    other.publish("bar", "yo").await;
    let mut sids: Vec<String> = [without.message().await.sid, without.message().await.sid].into();
    sids.sort();
    assert_eq!(sids, ["1", "2"]);
}

#[tokio::test]
async fn a_second_connect_changes_the_options() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("CONNECT {\"verbose\":false}\r\nPING\r\n").await;
    client.expect("PONG\r\n").await;
    client.send("CONNECT {\"verbose\":true}\r\nPUB foo 0\r\n\r\n").await;
    client.expect("+OK\r\n+OK\r\n").await;
}

#[tokio::test]
async fn connect_fields_of_wrong_type_close_the_connection() {
    let server = server("").await;
    for field in [r#""verbose":"yes""#, r#""protocol":"one""#, r#""name":5"#] {
        let mut client = Client::open(server.client_addr()).await;
        client.op(&format!("CONNECT {{{field}}}")).await;
        client.expect_closed().await;
    }
}
