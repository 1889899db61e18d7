//! SUB and UNSUB.

use testkit::Client;

use crate::server;

#[tokio::test]
async fn invalid_subjects_are_refused_and_the_connection_stays() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    for subject in ["foo.", ".foo", "foo..bar", ".", "..", "foo.>.bar", ">.foo"] {
        client.op(&format!("SUB {subject} 1")).await;
        client.expect_error("Invalid Subject").await;
    }
    client.send("SUB ok 1\r\nPUB ok 0\r\n\r\n").await;
    client.expect("MSG ok 1 0\r\n\r\n").await;
}

#[tokio::test]
async fn second_subscription_with_the_same_id_is_ignored() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    client.send("CONNECT {\"verbose\":true}\r\nSUB foo 1\r\nSUB bar 1\r\n").await;
    client.expect("+OK\r\n+OK\r\n+OK\r\n").await;
    client.send("PUB bar 0\r\n\r\nPUB foo 0\r\n\r\n").await;
    client.expect("+OK\r\n+OK\r\nMSG foo 1 0\r\n\r\n").await;
    client.op("UNSUB 1").await;
    client.expect("+OK\r\n").await;
    client.send("PUB bar 0\r\n\r\nPUB foo 0\r\n\r\nPING\r\n").await;
    client.expect("+OK\r\n+OK\r\nPONG\r\n").await;
}

#[tokio::test]
async fn unsubscribe_ends_delivery_at_once() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nPUB foo 1\r\na\r\nUNSUB 1\r\nPUB foo 1\r\nb\r\n").await;
    client.expect("MSG foo 1 1\r\na\r\n").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn unsubscribe_of_an_unknown_id_is_ignored() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("UNSUB 99\r\nUNSUB 99 5\r\n").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn unsubscribe_with_a_maximum_delivers_exactly_that_many() {
    let server = server("").await;
    let mut subscriber = Client::ready(&server).await;
    let mut publisher = Client::ready(&server).await;
    subscriber.send("SUB foo 1\r\nUNSUB 1 3\r\n").await;
    subscriber.flush().await;
    for number in 1..=5 {
        publisher.publish("foo", &number.to_string()).await;
    }
    publisher.flush().await;
    subscriber.expect("MSG foo 1 1\r\n1\r\nMSG foo 1 1\r\n2\r\nMSG foo 1 1\r\n3\r\n").await;
    subscriber.expect_silence().await;
}

#[tokio::test]
async fn the_maximum_counts_what_was_delivered_before() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nPUB foo 0\r\n\r\nPUB foo 0\r\n\r\nUNSUB 1 3\r\nPUB foo 1\r\nx\r\nPUB foo 1\r\ny\r\n").await;
    client.expect("MSG foo 1 0\r\n\r\nMSG foo 1 0\r\n\r\nMSG foo 1 1\r\nx\r\n").await;
    client.expect_silence().await;
    client.send("SUB bar 2\r\nPUB bar 0\r\n\r\nPUB bar 0\r\n\r\nUNSUB 2 2\r\nPUB bar 1\r\nx\r\n").await;
    client.expect("MSG bar 2 0\r\n\r\nMSG bar 2 0\r\n\r\n").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn a_maximum_that_is_no_number_unsubscribes_at_once() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nUNSUB 1 many\r\nPUB foo 0\r\n\r\n").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn an_id_is_free_again_after_automatic_unsubscribe() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo 1\r\nUNSUB 1 1\r\nPUB foo 0\r\n\r\n").await;
    client.expect("MSG foo 1 0\r\n\r\n").await;
    client.send("SUB bar 1\r\nPUB bar 0\r\n\r\n").await;
    client.expect("MSG bar 1 0\r\n\r\n").await;
}

#[tokio::test]
async fn subscription_ids_may_be_any_text_without_spaces() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo a-b:c/ü\r\nPUB foo 0\r\n\r\n").await;
    client.expect("MSG foo a-b:c/ü 0\r\n\r\n").await;
}

#[tokio::test]
async fn subscriptions_end_with_their_connection() {
    let server = crate::monitored("").await;
    let mut staying = Client::ready(&server).await;
    staying.subscribe("foo", "1").await;
    let mut leaving = Client::ready(&server).await;
    for number in 0..100 {
        leaving.op(&format!("SUB gone.{number} {number}")).await;
    }
    leaving.flush().await;
    let with_both = server.get_json("/subsz").await["num_subscriptions"].as_u64().unwrap();
    drop(leaving);
    server
        .await_json("/subsz", "the subscriptions are gone", |subsz| {
            subsz["num_subscriptions"].as_u64() == Some(with_both - 100)
        })
        .await;
    staying.publish("foo", "still").await;
    staying.expect("MSG foo 1 5\r\nstill\r\n").await;
}
