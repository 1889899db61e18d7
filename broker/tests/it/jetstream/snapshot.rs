//! Copies of streams over the wire: sent with flow control, and taken back into the same and into other servers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::jetstream::{self, JetStream};
use testkit::{Client, Server, Target};

use crate::{reference, target};

/// A copy as a client keeps it.
pub(super) struct Copy {
    pub(super) config: Value,
    pub(super) state: Value,
    pub(super) archive: Vec<u8>,
    /// Header block of the message that ended it.
    pub(super) end: String,
    pub(super) chunks: usize,
}

/// A message as a client sees it in a store.
pub(super) type Stored = (u64, String, String, String, String);

/// A second connection, with inboxes of its own.
pub(super) async fn second(server: &Server) -> JetStream {
    JetStream::over(Client::ready(server).await, "second").await
}

/// Asks for a copy, and returns the answer and the inbox that it goes to.
pub(super) async fn begin(js: &mut JetStream, stream: &str, mut request: Value) -> (Value, String) {
    let inbox = js.new_inbox().replace("_INBOX", "COPY");
    js.client.subscribe(&inbox, &inbox).await;
    request["deliver_subject"] = json!(inbox);
    (js.api(&format!("STREAM.SNAPSHOT.{stream}"), &request).await, inbox)
}

/// Takes a copy to its end, acknowledging each chunk.
pub(super) async fn take(js: &mut JetStream, stream: &str, request: Value) -> Copy {
    let (answer, inbox) = begin(js, stream, request).await;
    assert!(answer.get("error").is_none(), "{answer}");
    let (mut archive, mut chunks) = (Vec::new(), 0);
    let end = loop {
        let frame = js.client.next().await;
        let line = frame.line();
        assert!(line.contains(&inbox), "{line}");
        if frame.verb() == "HMSG" || frame.payload().is_empty() {
            break String::from_utf8_lossy(frame.payload()).into_owned();
        }
        archive.extend_from_slice(frame.payload());
        if let [_, _, _, reply, size] = line.split(' ').collect::<Vec<_>>()[..] {
            chunks += 1;
            let tail = format!(".{size}.{chunks}");
            let named = reply.starts_with(&format!("$JS.SNAPSHOT.ACK.{stream}.")) && reply.ends_with(&tail);
            assert!(named, "{reply}");
            js.client.publish(reply, "").await;
        }
    };
    js.client.op(&format!("UNSUB {inbox}")).await;
    Copy { config: answer["config"].clone(), state: answer["state"].clone(), archive, end, chunks }
}

/// Begins to send a copy, and returns where its chunks go.
pub(super) async fn offer(js: &mut JetStream, stream: &str, copy: &Copy) -> String {
    let body = json!({"config": copy.config, "state": copy.state});
    let answer = js.ok(&format!("STREAM.RESTORE.{stream}"), body).await;
    assert_eq!(answer["type"], "io.nats.jetstream.api.v1.stream_restore_response");
    let subject = answer["deliver_subject"].as_str().unwrap().to_owned();
    assert!(subject.starts_with(&format!("$JS.SNAPSHOT.RESTORE.{stream}.")), "{subject}");
    subject
}

/// Sends a piece and returns the answer to it.
pub(super) async fn send(js: &mut JetStream, subject: &str, piece: &[u8]) -> String {
    let inbox = js.new_inbox();
    let mut bytes = format!("PUB {subject} {inbox} {}\r\n", piece.len()).into_bytes();
    bytes.extend_from_slice(piece);
    bytes.extend_from_slice(b"\r\n");
    js.client.send(bytes).await;
    let answer = js.client.message().await;
    assert_eq!(answer.subject, inbox);
    if answer.headers.is_empty() { answer.payload } else { answer.headers }
}

/// Sends a copy in pieces and returns the last answer.
pub(super) async fn put(js: &mut JetStream, stream: &str, copy: &Copy, piece: usize) -> Value {
    let subject = offer(js, stream, copy).await;
    for piece in copy.archive.chunks(piece) {
        let answer = send(js, &subject, piece).await;
        if !answer.is_empty() {
            return serde_json::from_str(&answer).unwrap();
        }
    }
    serde_json::from_str(&send(js, &subject, b"").await).unwrap()
}

/// All messages of a stream.
pub(super) async fn messages(js: &mut JetStream, stream: &str) -> Vec<Stored> {
    let info = js.ok(&format!("STREAM.INFO.{stream}"), Value::Null).await;
    let mut messages = Vec::new();
    for sequence in info["state"]["first_seq"].as_u64().unwrap()..=info["state"]["last_seq"].as_u64().unwrap()
    {
        let answer = js.api(&format!("STREAM.MSG.GET.{stream}"), &json!({"seq": sequence})).await;
        if answer.get("error").is_some() {
            assert_eq!(answer["error"]["err_code"], 10037);
            continue;
        }
        let text = |member: &str| answer["message"][member].as_str().unwrap_or_default().to_owned();
        messages.push((sequence, text("subject"), text("hdrs"), text("data"), text("time")));
    }
    messages
}

/// What a consumer says of itself and a copy must keep.
async fn consumer(js: &mut JetStream, stream: &str, name: &str) -> Value {
    let info = js.ok(&format!("CONSUMER.INFO.{stream}.{name}"), Value::Null).await;
    let place = |member: &str| json!([info[member]["consumer_seq"], info[member]["stream_seq"]]);
    json!({
        "config": info["config"]["filter_subject"],
        "delivered": place("delivered"),
        // Ours shows a restored floor right below the first message that is pending, the reference keeps what it was.
        "floor": info["ack_floor"]["consumer_seq"],
        "waiting": [info["num_ack_pending"], info["num_redelivered"], info["num_pending"]],
    })
}

/// A stream with everything in it: gaps, headers, ids, and consumers in the middle of their work.
pub(super) async fn fill(js: &mut JetStream, name: &str, storage: &str) {
    let config = json!({
        "name": name, "subjects": [format!("{name}.*")], "storage": storage, "max_msgs_per_subject": 100,
        "allow_direct": true, "metadata": {"a": "b"},
    });
    js.stream(config).await;
    for number in 0..40 {
        let pairs = [("Nats-Msg-Id", format!("id-{number}"))];
        let pairs = pairs.each_ref().map(|(header, value)| (*header, value.as_str()));
        let body = format!("message {number} ").repeat(1 + 20 * (number % 7));
        js.publish_with(&format!("{name}.{}", number % 3), &pairs, &body).await;
    }
    for sequence in [1, 2, 9, 10, 20, 40] {
        js.ok(&format!("STREAM.MSG.DELETE.{name}"), json!({"seq": sequence})).await;
    }
    let wait = 300_000_000_000_u64;
    js.consumer(name, json!({"durable_name": "all", "ack_policy": "explicit", "ack_wait": wait})).await;
    let some = json!({
        "durable_name": "some", "ack_policy": "explicit", "ack_wait": wait, "max_deliver": 5,
        "filter_subject": format!("{name}.1"),
    });
    js.consumer(name, some).await;
    js.consumer(name, json!({"durable_name": "none", "ack_policy": "none"})).await;
    let all = js.fetch(name, "all", 10).await;
    for message in [&all[0], &all[1], &all[4]] {
        js.ack(message).await;
    }
    let some = js.fetch(name, "some", 6).await;
    js.ack_with(&some[2], "-NAK").await;
    js.ack_with(&some[3], "+TERM").await;
    assert_eq!(js.fetch(name, "some", 1).await.len(), 1);
    js.fetch(name, "none", 4).await;
}

/// Everything of a stream that a copy must keep.
async fn content(js: &mut JetStream, stream: &str) -> (Vec<Stored>, Value, Vec<Value>) {
    let info = js.ok(&format!("STREAM.INFO.{stream}"), json!({"deleted_details": true})).await;
    let mut consumers = Vec::new();
    for name in ["all", "some", "none"] {
        consumers.push(consumer(js, stream, name).await);
    }
    let mut state = info["state"].clone();
    // The reference takes the time of the last message that is there, not of the last one that was.
    state["last_ts"] = Value::Null;
    (messages(js, stream).await, state, consumers)
}

/// Copies a stream from one server to another, or the same. `ours`: it is restored on ours.
async fn copy_and_compare(from: &mut JetStream, to: &mut JetStream, storage: &str, ours: bool) {
    fill(from, "ALL", storage).await;
    let copy = take(from, "ALL", json!({"chunk_size": 1024, "window_size": 4096})).await;
    assert_eq!((&*copy.end, copy.chunks > 1), ("NATS/1.0 204\r\n\r\n", true));
    assert!(copy.archive.starts_with(b"\xff\x06\0\0S2sTwO"));
    let before = content(from, "ALL").await;
    from.ok("STREAM.DELETE.ALL", Value::Null).await;
    let answer = put(to, "ALL", &copy, 700).await;
    assert_eq!(answer["type"], "io.nats.jetstream.api.v1.stream_create_response");
    assert_eq!(
        (answer["state"]["messages"].as_u64(), answer["config"]["name"].as_str()),
        (Some(34), Some("ALL"))
    );
    let (messages, state, consumers) = content(to, "ALL").await;
    assert_eq!((state, consumers), (before.1, before.2), "{storage}");
    assert_eq!(messages, before.0);
    if ours {
        let again = to.publish_with("ALL.1", &[("Nats-Msg-Id", "id-38")], "again").await;
        assert_eq!((&again["duplicate"], &again["seq"]), (&json!(true), &json!(39)));
    }
    assert_eq!(to.publish("ALL.1", "new").await, 41);
    // What was pending is acknowledged as if nothing had happened.
    let inbox = to.new_inbox();
    to.client.request("$JS.ACK.ALL.all.1.5.3.1.0", &inbox, "").await;
    assert_eq!(to.client.message().await.subject, inbox);
    assert_eq!(consumer(to, "ALL", "all").await["floor"], 3);
}

#[tokio::test]
async fn a_copy_makes_the_same_stream() {
    for storage in ["file", "memory"] {
        let server = jetstream::server(&target()).await;
        let mut js = JetStream::connect(&server).await;
        let mut other = second(&server).await;
        copy_and_compare(&mut js, &mut other, storage, target().is_myelin()).await;
    }
}

#[tokio::test]
async fn a_restored_stream_survives_a_crash() {
    let mut server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js, "ALL", "file").await;
    let copy = take(&mut js, "ALL", json!({})).await;
    js.ok("STREAM.DELETE.ALL", Value::Null).await;
    put(&mut js, "ALL", &copy, 100_000).await;
    let before = messages(&mut js, "ALL").await;
    let consumers = [consumer(&mut js, "ALL", "all").await, consumer(&mut js, "ALL", "some").await];
    if target().is_myelin() {
        server.kill().await;
    } else {
        // The reference syncs later than it answers.
        server.stop().await;
    }
    server.restart().await;
    let mut js = JetStream::connect(&server).await;
    assert_eq!(messages(&mut js, "ALL").await, before);
    assert_eq!([consumer(&mut js, "ALL", "all").await, consumer(&mut js, "ALL", "some").await], consumers);
    assert_eq!(js.publish("ALL.1", "new").await, 41);
}

#[tokio::test]
async fn copies_go_from_either_server_to_the_other() {
    let Some(reference) = reference() else { return };
    let ours = Target::myelin(env!("CARGO_BIN_EXE_myelin"));
    for (from, to) in [(&ours, &reference), (&reference, &ours)] {
        let is_ours = to.is_myelin();
        let (from, to) = (jetstream::server(from).await, jetstream::server(to).await);
        let mut from = JetStream::connect(&from).await;
        let mut to = JetStream::connect(&to).await;
        for storage in ["file", "memory"] {
            copy_and_compare(&mut from, &mut to, storage, is_ours).await;
            to.ok("STREAM.DELETE.ALL", Value::Null).await;
        }
    }
}

#[tokio::test]
async fn a_small_copy_ends_without_a_status() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill(&mut js, "ALL", "file").await;
    let whole = take(&mut js, "ALL", json!({})).await;
    assert_eq!((&*whole.end, whole.chunks), ("", 0));
    assert_eq!(whole.state["consumer_count"], 3);
    let without = take(&mut js, "ALL", json!({"no_consumers": true})).await;
    assert!(without.archive.len() < whole.archive.len());
    js.ok("STREAM.DELETE.ALL", Value::Null).await;
    let answer = put(&mut js, "ALL", &without, 1 << 20).await;
    assert_eq!((&answer["state"]["messages"], &answer["state"]["consumer_count"]), (&json!(34), &json!(0)));
}

#[tokio::test]
async fn streams_that_nobody_can_create_come_back_too() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    // Sealed, and of interest retention whose consumers are left out: nobody needs its messages, but the copy holds them.
    js.stream(json!({"name": "I", "subjects": ["i.*"], "retention": "interest"})).await;
    js.consumer("I", json!({"durable_name": "C", "ack_policy": "explicit", "filter_subject": "i.a"})).await;
    let mut config = js.stream(json!({"name": "Z", "subjects": ["z.*"]})).await["config"].clone();
    for number in 0..5 {
        js.publish("i.a", &number.to_string()).await;
        js.publish("z.a", &number.to_string()).await;
    }
    config["sealed"] = json!(true);
    js.ok("STREAM.UPDATE.Z", config).await;
    for name in ["I", "Z"] {
        let copy = take(&mut js, name, json!({"no_consumers": true})).await;
        js.ok(&format!("STREAM.DELETE.{name}"), Value::Null).await;
        let answer = put(&mut js, name, &copy, 1000).await;
        assert_eq!(
            (&answer["state"]["messages"], &answer["config"]["sealed"]),
            (&json!(5), &json!(name == "Z"))
        );
        assert_eq!(messages(&mut js, name).await.len(), 5);
    }
    let refused = js.publish_with("z.a", &[], "x").await;
    assert_eq!(refused["error"]["err_code"], 10109, "{refused}");
}

/// Incompressible text.
pub(super) fn noise(length: usize, seed: u64) -> String {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    };
    (0..length).map(|_| next()).collect()
}

pub(super) async fn fill_with_noise(js: &mut JetStream) {
    js.stream(json!({"name": "N", "subjects": ["n.*"]})).await;
    for number in 0..20 {
        js.publish(&format!("n.{number}"), &noise(2000, number + 1)).await;
    }
}

#[tokio::test]
async fn no_more_is_sent_than_fits_into_the_window() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill_with_noise(&mut js).await;
    let (answer, _) = begin(&mut js, "N", json!({"chunk_size": 1024, "window_size": 3000})).await;
    assert_eq!(answer["state"]["messages"], 20);
    let [_, second] = [js.client.next().await, js.client.next().await];
    js.client.expect_silence().await;
    let reply = second.line().split(' ').nth(3).unwrap().to_owned();
    js.client.publish(&reply, "").await;
    let third = js.client.next().await;
    assert!(third.line().contains(".1024.3 1024"), "{}", third.line());
    let began = Instant::now();
    let end = js.client.next_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(end.payload(), b"NATS/1.0 408 No Flow Response\r\n\r\n");
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    // Nobody listens to acknowledgements any more.
    let inbox = js.new_inbox();
    js.client.request(&reply, &inbox, "").await;
    assert!(js.client.message().await.headers.starts_with("NATS/1.0 503"));
}

#[tokio::test]
async fn a_receiver_that_leaves_ends_the_copy() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    fill_with_noise(&mut js).await;
    js.client.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.N", "e").await;
    let (_, inbox) = begin(&mut js, "N", json!({"chunk_size": 1024, "window_size": 1024})).await;
    js.client.next().await;
    js.client.op(&format!("UNSUB {inbox}")).await;
    let event: Value = serde_json::from_str(&js.client.message().await.payload).unwrap();
    assert_eq!((&event["error"], &event["stream"]), (&json!("no interest"), &json!("N")));
}

#[tokio::test]
async fn advisories_tell_of_copies() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    js.stream(json!({"name": "S", "subjects": ["s"]})).await;
    js.publish("s", "x").await;
    let mut events = second(&server).await;
    events.client.subscribe("$JS.EVENT.ADVISORY.STREAM.>", "e").await;
    events.client.flush().await;
    let copy = take(&mut js, "S", json!({})).await;
    js.ok("STREAM.DELETE.S", Value::Null).await;
    put(&mut js, "S", &copy, 1000).await;
    let mut kinds = Vec::new();
    for _ in 0..6 {
        let message = events.client.message().await;
        let event: Value = serde_json::from_str(&message.payload).unwrap();
        let members: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(event["stream"], "S");
        kinds.push((message.subject["$JS.EVENT.ADVISORY.STREAM.".len()..].to_owned(), members.join(" ")));
    }
    kinds.sort();
    let expected = [
        ("CREATED.S", "type id timestamp stream action"),
        ("DELETED.S", "type id timestamp stream action"),
        ("RESTORE_COMPLETE.S", "type id timestamp stream start end bytes client"),
        ("RESTORE_CREATE.S", "type id timestamp stream client"),
        ("SNAPSHOT_COMPLETE.S", "type id timestamp stream start end client"),
        ("SNAPSHOT_CREATE.S", "type id timestamp stream state client"),
    ];
    assert_eq!(kinds, expected.map(|(subject, members)| (subject.to_owned(), members.to_owned())));
}

#[tokio::test]
async fn a_copy_ends_where_the_stream_ended_when_it_began() {
    let server = jetstream::server(&target()).await;
    let mut js = JetStream::connect(&server).await;
    let mut other = second(&server).await;
    fill_with_noise(&mut js).await;
    let (answer, inbox) = begin(&mut js, "N", json!({"chunk_size": 1024, "window_size": 1024})).await;
    let mut archive = Vec::new();
    let mut frame = js.client.next().await;
    for number in 0..10 {
        other.publish(&format!("n.{number}"), "later").await;
    }
    other.ok("STREAM.MSG.DELETE.N", json!({"seq": 19})).await;
    while !frame.payload().is_empty() && frame.verb() == "MSG" {
        archive.extend_from_slice(frame.payload());
        if let [_, _, _, reply, _] = frame.line().split(' ').collect::<Vec<_>>()[..] {
            js.client.publish(reply, "").await;
        }
        frame = js.client.next().await;
    }
    js.client.op(&format!("UNSUB {inbox}")).await;
    other.ok("STREAM.DELETE.N", Value::Null).await;
    let copy = Copy {
        config: answer["config"].clone(),
        state: answer["state"].clone(),
        archive,
        end: String::new(),
        chunks: 0,
    };
    let restored = put(&mut js, "N", &copy, 4000).await;
    assert_eq!(restored["state"]["last_seq"], 20);
    let held = messages(&mut js, "N").await;
    assert!(held.iter().all(|(_, _, _, data, _)| data.len() > 1000) && held.len() >= 19, "{}", held.len());
}
