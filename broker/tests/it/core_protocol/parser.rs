//! The parser's tolerance and its limits.

use testkit::Client;

use crate::server;

#[tokio::test]
async fn operation_names_are_accepted_in_any_case() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("connect {\"verbose\":false,\"headers\":true}\r\nsub foo 1\r\npub foo 1\r\na\r\nPuB foo 1\r\nb\r\n").await;
    client.send("hpub foo 12 13\r\nNATS/1.0\r\n\r\nc\r\nUnSub 1\r\nping\r\npong\r\n").await;
    client
        .expect("MSG foo 1 1\r\na\r\nMSG foo 1 1\r\nb\r\nHMSG foo 1 12 13\r\nNATS/1.0\r\n\r\nc\r\nPONG\r\n")
        .await;
}

#[tokio::test]
async fn arguments_may_be_separated_by_runs_of_spaces_and_tabs() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client
        .send("SUB  foo\t \tworkers   1  \r\nPUB\tfoo  \t 1\t\r\na\r\nUNSUB \t 1\r\nPUB foo 1\r\nb\r\n")
        .await;
    client.expect("MSG foo 1 1\r\na\r\n").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn a_line_may_end_with_a_bare_newline() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\nPUB foo 1\na\r\nPING\n").await;
    client.expect("MSG foo 1 1\r\na\r\nPONG\r\n").await;
}

#[tokio::test]
async fn text_after_ping_and_pong_is_skipped() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("PING hello\r\nPONG what\r\n+OK fine\r\nINFO {\"a\":1}\r\nPING\r\n").await;
    client.expect("PONG\r\nPONG\r\n").await;
}

#[tokio::test]
async fn unknown_operations_close_the_connection() {
    let server = server("").await;
    for line in [
        "FOO",
        "PUBLISH foo 1",
        "SUBS foo 1",
        "UNSUBSCRIBE 1",
        "PENG",
        "CON {}",
        "",
        "PUB",
        "SUB",
        "UNSUB",
        "HPUB",
        "RS+ $G foo",
        "LS+ foo",
        "A+ $G",
        "RMSG $G foo 1",
        "MSG foo 1 1",
        "HMSG foo 1 1 1",
    ] {
        let mut client = Client::ready(&server).await;
        client.op(line).await;
        client.expect_fatal("Unknown Protocol Operation").await;
    }
}

#[tokio::test]
async fn a_payload_that_does_not_end_where_it_should_closes_the_connection() {
    let server = server("").await;
    for script in ["PUB foo 2\r\nabc\r\n", "PUB foo 2\r\nab\n\n", "HPUB foo 12 13\r\nNATS/1.0\r\n\r\nabc\r\n"]
    {
        let mut client = Client::ready(&server).await;
        client.send(script).await;
        client.expect_fatal("Unknown Protocol Operation").await;
    }
}

#[tokio::test]
async fn wrong_arguments_close_the_connection_without_an_error() {
    let server = server("").await;
    for line in [
        "PUB ",
        "PUB foo",
        "PUB foo bar baz 1",
        "PUB foo -1",
        "PUB foo x",
        "PUB foo 1x",
        "PUB foo 12345678901",
        "SUB foo",
        "SUB a b c d",
        "UNSUB 1 2 3",
        "HPUB foo 12",
        "HPUB foo a 12",
        "HPUB foo 12 b",
    ] {
        let mut client = Client::ready(&server).await;
        client.op(line).await;
        let answer: Vec<String> = client.read_to_end().await.iter().map(testkit::Frame::line).collect();
        assert!(answer.is_empty(), "{line:?} was answered with {answer:?}");
    }
}

#[tokio::test]
async fn an_error_from_a_client_closes_the_connection() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.op("-ERR 'I am not happy'").await;
    client.expect_closed().await;
}

#[tokio::test]
async fn http_on_the_client_port_is_closed_as_unknown_protocol() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("GET / HTTP/1.1\r\n\r\n").await;
    client.expect_fatal("Unknown Protocol Operation").await;
}
