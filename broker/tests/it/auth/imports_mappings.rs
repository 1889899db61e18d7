//! Mappings of subjects inside an account.

use testkit::Client;

use crate::{server, target};

#[tokio::test]
async fn what_is_published_to_the_source_goes_to_the_destination() {
    let server = server(
        "mappings: { 'old.*': 'new.$1', 'part.*': 'shard.{{partition(3,1)}}.{{wildcard(1)}}',
                     split: 'gone.{{random(1)}}' }",
    )
    .await;
    let mut client = Client::ready(&server).await;
    client.subscribe(">", "1").await;
    client.publish("old.x", "a").await;
    client.expect("MSG new.x 1 1\r\na\r\n").await;
    client.publish("split", "c").await;
    client.expect("MSG gone.0 1 1\r\nc\r\n").await;
    client.publish("new.x", "d").await;
    client.expect("MSG new.x 1 1\r\nd\r\n").await;
    client.publish("old.x.y", "e").await;
    client.expect("MSG old.x.y 1 1\r\ne\r\n").await;
    for token in ["foo", "bar", "baz", "qux"] {
        client.publish(&format!("part.{token}"), "").await;
        let shard = fnv(token) % 3;
        assert_eq!(client.message().await.subject, format!("shard.{shard}.{token}"));
    }
}

/// Source, destination, a subject, and what becomes of it.
const FUNCTIONS: &[(&str, &str, &str, &str)] = &[
    ("a.*.*", "t.$2.{{ Wildcard( 1 ) }}", "a.x.y", "t.y.x"),
    ("b.*", "t.$0.$1", "b.x", "t.b.x"),
    ("c.*.>", "t.>", "c.x.y.z", "t.y.z"),
    ("d.*", "t.{{splitFromLeft(1,1)}}", "d.abcd", "t.a.bcd"),
    ("e.*", "t.{{SplitFromRight(1, 1)}}.{{splitfromleft(1,4)}}", "e.abcd", "t.abc.d.abcd"),
    ("f.*", "t.{{SliceFromLeft(1,3)}}", "f.1234567890", "t.123.456.789.0"),
    ("g.*", "t.{{sliceFromRight(1,3)}}", "g.1234567890", "t.1.234.567.890"),
    ("h.*", "t.{{left(1,2)}}.{{right(1,2)}}.{{Left(1,9)}}", "h.1234", "t.12.34.1234"),
    ("i.*", "t.{{split(1,-)}}.fin", "i.-a-b--c-", "t.a.b.c.fin"),
    ("j.*", "t.{{partition(0,1)}}.{{random(0)}}", "j.x", "t.0.0"),
    ("k.*", "t.{{partition(10)}}.{{partition(10,1)}}", "k.foo", "t.6.3"),
    ("l", "t.{{partition(10)}}", "l", "t.5"),
    ("m.*", "t.$1x.$JS", "m.x", "t.$1x.$JS"),
];

#[tokio::test]
async fn every_function_does_what_the_table_says() {
    let mappings: String = FUNCTIONS.iter().map(|(source, to, ..)| format!("'{source}': '{to}'\n")).collect();
    let server = server(&format!("mappings {{ {mappings} }}")).await;
    let mut client = Client::ready(&server).await;
    client.subscribe("t.>", "1").await;
    let mut wrong = Vec::new();
    for (source, destination, published, expected) in FUNCTIONS {
        client.publish(published, "").await;
        let found = client.message().await.subject;
        if found != *expected {
            wrong.push(format!("{source} -> {destination}: {published} became {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The hash behind partitions, as published: clients may compute it too.
fn fnv(token: &str) -> u32 {
    token.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[tokio::test]
async fn weights_share_the_messages() {
    let server = server(
        "accounts { A { users: [{user: a, password: a}], mappings: {
            canary: [{destination: v1, weight: 80%}, {destination: v2, weight: 20%}]
            lossy: {destination: lossy, weight: 50%}
            rest: {destination: other, weight: 30} } } }",
    )
    .await;
    let mut client = Client::user(&server, "a", "a").await;
    client.subscribe(">", "1").await;
    let mut counts = async |subject: &str, counted: &str| {
        for _ in 0..1000 {
            client.op(&format!("PUB {subject} 0\r\n")).await;
        }
        let frames = client.drain().await;
        let count = frames.iter().filter(|frame| frame.message().subject == counted).count();
        (count, frames.len())
    };
    let (v2, all) = counts("canary", "v2").await;
    assert!((120..280).contains(&v2) && all == 1000, "{v2} of {all}");
    let (kept, all) = counts("lossy", "lossy").await;
    assert!((400..600).contains(&kept) && all == kept, "{kept} of {all}");
    let (rest, all) = counts("rest", "rest").await;
    assert!((600..800).contains(&rest) && all == 1000, "{rest} of {all}");
}

#[tokio::test]
async fn rights_and_answers_are_about_the_new_subject() {
    let server = server(
        "accounts { A { users: [{user: a, password: a, permissions: {publish: {deny: secret}}}],
           mappings: { open: secret, nobody: void } } }",
    )
    .await;
    let mut client = Client::user(&server, "a", "a").await;
    client.publish("open", "x").await;
    client.expect_error("Permissions Violation for Publish to \"secret\"").await;
    client.subscribe("_INBOX.1", "1").await;
    client.request("nobody", "_INBOX.1", "").await;
    client.expect("HMSG _INBOX.1 1 36 36\r\nNATS/1.0 503\r\nNats-Subject: void\r\n\r\n\r\n").await;
}

#[tokio::test]
async fn the_account_of_a_service_maps_what_it_is_asked() {
    let server = server(
        "accounts {
           SVC { users: [{user: s, password: s}], exports: [{service: req}], mappings: { req: 'v2.req' } }
           APP { users: [{user: a, password: a}], imports: [{service: {account: SVC, subject: req}}] } }",
    )
    .await;
    let mut service = Client::user(&server, "s", "s").await;
    let mut app = Client::user(&server, "a", "a").await;
    service.subscribe(">", "1").await;
    app.publish("req", "x").await;
    assert_eq!(service.message().await.subject, "v2.req");
    service.expect_silence().await;
}

#[tokio::test]
async fn a_reload_changes_the_mappings_of_clients_that_are_there() {
    let mut server = server("mappings: { a: b }").await;
    let mut client = Client::ready(&server).await;
    client.subscribe(">", "1").await;
    client.publish("a", "").await;
    assert_eq!(client.message().await.subject, "b");
    server.reload("mappings: { a: c }").await.unwrap();
    client.publish("a", "").await;
    assert_eq!(client.message().await.subject, "c");
    server.reload("").await.unwrap();
    client.publish("a", "").await;
    // The reference keeps the last mapping of the global account until it starts anew.
    let expected = if target().is_myelin() { "a" } else { "c" };
    assert_eq!(client.message().await.subject, expected);
}
