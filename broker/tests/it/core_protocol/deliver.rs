//! From PUB to MSG: bytes, order, matching.

use testkit::Client;

use crate::server;

#[tokio::test]
async fn message_reaches_the_subscriber_byte_for_byte() {
    let server = server("").await;
    let mut subscriber = Client::ready(&server).await;
    let mut publisher = Client::ready(&server).await;
    subscriber.subscribe("foo.bar", "sid-1").await;
    publisher.send("PUB foo.bar 5\r\nhello\r\n").await;
    subscriber.expect("MSG foo.bar sid-1 5\r\nhello\r\n").await;
    publisher.send("PUB foo.bar _INBOX.1 5\r\nhello\r\n").await;
    subscriber.expect("MSG foo.bar sid-1 _INBOX.1 5\r\nhello\r\n").await;
    publisher.send("PUB foo.bar 0\r\n\r\n").await;
    subscriber.expect("MSG foo.bar sid-1 0\r\n\r\n").await;
    publisher.send("PUB foo.bar 15\r\nPUB x 1\r\nz\r\n \r\n\r\n").await;
    subscriber.expect("MSG foo.bar sid-1 15\r\nPUB x 1\r\nz\r\n \r\n\r\n").await;
    publisher.send(b"PUB foo.bar 4\r\n\x00\xff\n\r\r\n").await;
    subscriber.expect(b"MSG foo.bar sid-1 4\r\n\x00\xff\n\r\r\n").await;
}

#[tokio::test]
async fn payload_of_exactly_the_limit_is_delivered() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.subscribe("big", "1").await;
    let payload = "x".repeat(1_048_576);
    client.publish("big", &payload).await;
    assert_eq!(client.message().await.payload, payload);
}

#[tokio::test]
async fn operations_split_at_every_byte_are_understood() {
    let server = server("").await;
    let mut client = Client::open(server.client_addr()).await;
    let script = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB foo.* workers 7\r\nPUB foo.a re.ply 3\r\nabc\r\n\
                  HPUB foo.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\nUNSUB 7\r\nPUB foo.c 1\r\nz\r\nPING\r\n";
    for byte in script.bytes() {
        client.send([byte]).await;
    }
    client
        .expect("MSG foo.a 7 re.ply 3\r\nabc\r\nHMSG foo.b 7 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPONG\r\n")
        .await;
}

#[tokio::test]
async fn many_operations_in_one_write_are_all_done() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    let mut script = String::from("SUB foo 1\r\n");
    let mut expected = String::new();
    for number in 0..2000 {
        script.push_str(&format!("PUB foo 4\r\n{number:04}\r\n"));
        expected.push_str(&format!("MSG foo 1 4\r\n{number:04}\r\n"));
    }
    client.send(script).await;
    client.expect(expected).await;
}

#[tokio::test]
async fn messages_of_one_publisher_keep_their_order() {
    let server = server("").await;
    let mut subscriber = Client::ready(&server).await;
    let mut publisher = Client::ready(&server).await;
    subscriber.subscribe("order.>", "1").await;
    for number in 0..10_000 {
        publisher.publish(&format!("order.{}", number % 7), &number.to_string()).await;
    }
    for number in 0..10_000 {
        assert_eq!(subscriber.message().await.payload, number.to_string());
    }
}

#[tokio::test]
async fn every_matching_subscription_gets_its_own_copy() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    let mut other = Client::ready(&server).await;
    client
        .send("SUB a.b 1\r\nSUB a.* 2\r\nSUB > 3\r\nSUB a.> 4\r\nSUB *.* 5\r\nSUB a.b.c 6\r\nSUB a 7\r\n")
        .await;
    client.flush().await;
    other.subscribe("a.b", "8").await;
    other.publish("a.b", "x").await;
    assert_eq!(other.message().await.sid, "8");
    let mut sids: Vec<String> = client.take(5).await.iter().map(|frame| frame.message().sid).collect();
    sids.sort();
    assert_eq!(sids, ["1", "2", "3", "4", "5"]);
    client.expect_silence().await;
}

#[tokio::test]
async fn wildcards_match_as_the_subject_language_says() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    let cases = [
        ("foo", "foo", true),
        ("foo", "Foo", false),
        ("foo", "foo.bar", false),
        ("*", "foo", true),
        ("*", "foo.bar", false),
        (">", "foo.bar.baz", true),
        ("foo.>", "foo", false),
        ("foo.>", "foo.a", true),
        ("foo.>", "foo.a.b", true),
        ("foo.*.c", "foo.b.c", true),
        ("foo.*.c", "foo.c", false),
        ("*.*", "a.b", true),
        ("*.*", "a.b.c", false),
        ("*.b.>", "a.b.c.d", true),
        ("*.b.>", "a.b", false),
        ("foo*.bar", "foo*.bar", true),
        ("foo*.bar", "foox.bar", false),
        ("foo>", "foo>", true),
        ("foo>", "foox", false),
        ("a.b>.c", "a.b>.c", true),
        ("pub.ä", "pub.ä", true),
    ];
    for (filter, subject, matches) in cases {
        client.send(format!("SUB {filter} s\r\nPUB {subject} 1\r\nx\r\nUNSUB s\r\n")).await;
        let got = client.drain().await.len();
        assert_eq!(got, usize::from(matches), "{filter} against {subject}");
    }
}

#[tokio::test]
async fn wildcards_in_a_published_subject_are_plain_text() {
    let server = server("").await;
    let mut client = Client::ready(&server).await;
    client.send("SUB foo.bar 1\r\nSUB foo.* 2\r\nPUB foo.* 1\r\nx\r\n").await;
    client.expect("MSG foo.* 2 1\r\nx\r\n").await;
    client.expect_silence().await;
}

#[tokio::test]
async fn a_publisher_that_leaves_at_once_has_still_published() {
    let server = server("").await;
    let mut subscriber = Client::ready(&server).await;
    subscriber.subscribe("last.words", "1").await;
    let mut publisher = Client::ready(&server).await;
    publisher.publish("last.words", "bye").await;
    drop(publisher);
    subscriber.expect("MSG last.words 1 3\r\nbye\r\n").await;
}

#[tokio::test]
async fn a_reused_subject_reaches_a_subscription_made_later() {
    let server = server("").await;
    let mut publisher = Client::ready(&server).await;
    let mut subscriber = Client::ready(&server).await;
    // The first publish finds nobody; what the server remembers of that must not outlive the subscription.
    publisher.publish("cached", "1").await;
    publisher.flush().await;
    subscriber.subscribe("cached", "1").await;
    publisher.publish("cached", "2").await;
    subscriber.expect("MSG cached 1 1\r\n2\r\n").await;
    subscriber.op("UNSUB 1").await;
    subscriber.subscribe("*", "2").await;
    publisher.publish("cached", "3").await;
    subscriber.expect("MSG cached 2 1\r\n3\r\n").await;
}

#[tokio::test]
async fn fan_out_reaches_hundred_connections() {
    let server = server("").await;
    let mut subscribers = Vec::new();
    for _ in 0..100 {
        let mut subscriber = Client::ready(&server).await;
        subscriber.subscribe("news", "1").await;
        subscribers.push(subscriber);
    }
    let mut publisher = Client::ready(&server).await;
    for number in 0..50 {
        publisher.publish("news", &number.to_string()).await;
    }
    for subscriber in &mut subscribers {
        for number in 0..50 {
            assert_eq!(subscriber.message().await.payload, number.to_string());
        }
    }
}
