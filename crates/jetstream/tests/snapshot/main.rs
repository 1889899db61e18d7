//! Archives into streams and back: one of the reference, our own, damaged ones, and limits.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use api::jetstream::stream::{Storage, StreamConfig};
use bytes::Bytes;
use jetstream::effect::Effects;
use jetstream::limits::{AccountLimits, Limits, TierLimits};
use jetstream::snapshot::archive::MAGIC;
use jetstream::snapshot::{Entry, Image, Packer};
use jetstream::stream::facts::Identity;
use jetstream::stream::restore::{Restore, RestoreError};
use jetstream::{Outside, Publish, Stream};
use store::Timestamp;
use store::stream::{MemoryStore, Recovered};

/// An archive that nats-server 2.15.1 wrote: twelve messages without the fifth, in blocks that use the last distance again, and a consumer with
/// six messages pending.
const REFERENCE: &[u8] = include_bytes!("reference.arc.s2");
const NOW: Timestamp = Timestamp(1_900_000_000_000_000_000);

struct World {
    limits: Limits,
}

impl Outside for World {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn has_group_interest(&self, subject: &[u8], _group: &[u8]) -> bool {
        self.has_interest(subject)
    }

    fn has_interest(&self, _subject: &[u8]) -> bool {
        false
    }

    fn random(&mut self) -> u64 {
        7
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

fn world() -> World {
    World { limits: Limits::default() }
}

fn config() -> StreamConfig {
    StreamConfig {
        name: "R".to_owned(),
        subjects: vec!["r.>".to_owned()],
        storage: Storage::Memory,
        num_replicas: 1,
        max_consumers: -1,
        max_msgs: -1,
        max_bytes: -1,
        max_msgs_per_subject: -1,
        max_msg_size: -1,
        duplicate_window: api::duration::Nanos(i64::MAX),
        ..StreamConfig::default()
    }
}

fn restore(config: StreamConfig) -> Restore {
    let identity =
        Identity { account: "A".into(), name: "R".into(), group: 20, domain: None, created: Timestamp(1) };
    let stream = Stream::new(identity, config, Box::new(MemoryStore::new()), Recovered::default()).unwrap();
    Restore::new(stream, 1 << 20)
}

fn make(world: &mut World, config: StreamConfig, archive: &[u8], cut: usize) -> Result<Stream, RestoreError> {
    let mut restore = restore(config);
    let mut made = archive.chunks(cut).try_for_each(|piece| {
        restore.push(piece);
        while restore.advance(world)? {}
        Ok(())
    });
    if made.is_ok() {
        made = restore.finish(world);
    }
    if made.is_err() {
        restore.cancel(world);
    }
    made.map(|()| restore.into_stream())
}

fn entries(image: &Image, stream: &Stream) -> Vec<Entry> {
    let mut entries = vec![image.state_entry(1).unwrap()];
    entries.extend((0..image.consumers()).map(|number| image.consumer_entry(number, 1).unwrap()));
    let mut next = image.first;
    loop {
        let messages = Image::messages(stream, (next, image.last), 500).unwrap();
        let Some(last) = messages.last() else { break };
        next = last.sequence + 1;
        entries.extend(messages.into_iter().map(Entry::from));
    }
    entries.push(Entry::default());
    entries
}

fn pack(entries: &[Entry]) -> Vec<u8> {
    let mut content = MAGIC.to_vec();
    for entry in entries {
        entry.encode_head(&mut content);
        content.extend_from_slice(&entry.headers);
        content.extend_from_slice(&entry.payload);
    }
    let (mut packer, mut out) = (Packer::default(), Vec::new());
    packer.write(&content, &mut out);
    packer.flush(&mut out);
    out
}

fn message(sequence: u64, subject: &str, headers: &str, payload: &str) -> Entry {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Entry { name: bytes(subject), timestamp: 5, sequence, headers: bytes(headers), payload: bytes(payload) }
}

fn document(name: &str, json: &str) -> Entry {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Entry { name: bytes(name), payload: bytes(json), ..Entry::default() }
}

fn state(messages: u64, first: u64, last: u64, consumers: u64) -> Entry {
    let json = format!(
        r#"{{"messages":{messages},"bytes":0,"first_seq":{first},"last_seq":{last},"last_ts":"2026-01-01T00:00:00Z","consumer_count":{consumers}}}"#
    );
    document("state.json", &json)
}

#[test]
fn the_reference_is_understood_whatever_the_cuts() {
    for cut in [1, 100, REFERENCE.len()] {
        let mut world = world();
        let stream = make(&mut world, config(), REFERENCE, cut).unwrap();
        let state = stream.state();
        assert_eq!((state.messages, state.first_sequence, state.last_sequence), (11, 1, 12));
        let third = stream.store().load(3).unwrap().unwrap();
        assert_eq!(
            (&third.subject[..], &third.headers[..]),
            (&b"r.0"[..], &b"NATS/1.0\r\nNats-Msg-Id: id-3\r\n\r\n"[..])
        );
        assert!(stream.store().load(5).unwrap().is_none());
        let consumer = stream.consumer("D").unwrap();
        assert_eq!((consumer.delivered().stream, consumer.delivered().consumer), (6, 6));
        assert_eq!(consumer.ack_floor().stream, 0);
        assert_eq!(world.limits.account_usage.used(Storage::Memory), state.bytes);
        assert_eq!(world.limits.account_usage.consumers(), 1);
    }
}

#[test]
fn what_we_write_comes_back() {
    let mut world = world();
    let stream = make(&mut world, config(), REFERENCE, 1000).unwrap();
    let image = Image::new(&stream, true);
    let written = entries(&image, &stream);
    assert_eq!((image.consumers(), written.len()), (1, 1 + 1 + 11 + 1));
    let again = make(&mut world, config(), &pack(&written), 333).unwrap();
    assert_eq!(entries(&Image::new(&again, true), &again), written);
    assert_eq!(Image::new(&again, false).state_entry(1).unwrap().payload, {
        let json = String::from_utf8(written[0].payload.to_vec()).unwrap();
        Bytes::from(json.replace(r#""consumer_count":1"#, r#""consumer_count":0"#))
    });
}

#[test]
fn messages_removed_while_it_is_written_are_gaps() {
    let mut world = world();
    let mut stream = make(&mut world, config(), REFERENCE, 1000).unwrap();
    let image = Image::new(&stream, true);
    let mut effects = Effects::default();
    stream.lead(&mut world, &mut effects);
    let request = jetstream::Request::DeleteMessage { sequence: 7, erase: false };
    stream.handle_request(&mut world, &mut effects, jetstream::Token(1), request);
    let publish = Publish {
        subject: Bytes::from_static(b"r.9"),
        reply: None,
        headers: Bytes::new(),
        payload: Bytes::from_static(b"later"),
    };
    stream.handle_publish(&mut world, &mut effects, publish);
    let proposal = effects.proposal.split().freeze();
    stream.apply(&mut world, &mut effects, 1, &proposal);
    assert_eq!(stream.state().last_sequence, 13);
    let again = make(&mut world, config(), &pack(&entries(&image, &stream)), 1000).unwrap();
    let state = again.state();
    assert_eq!((state.messages, state.last_sequence, state.deleted), (10, 12, 2));
}

#[test]
fn ids_of_restored_messages_are_known() {
    let mut world = world();
    let mut stream = make(&mut world, config(), REFERENCE, 1000).unwrap();
    let mut effects = Effects::default();
    stream.lead(&mut world, &mut effects);
    let publish = Publish {
        subject: Bytes::from_static(b"r.1"),
        reply: Some(Bytes::from_static(b"inbox")),
        headers: Bytes::from_static(b"NATS/1.0\r\nNats-Msg-Id: id-12\r\n\r\n"),
        payload: Bytes::new(),
    };
    stream.handle_publish(&mut world, &mut effects, publish);
    let answer = format!("{:?}", effects.queue);
    assert!(effects.proposal.is_empty() && answer.contains("duplicate"), "{answer}");
}

#[test]
fn an_empty_stream_keeps_its_place() {
    let mut world = world();
    let archive = pack(&[state(0, 41, 40, 0), Entry::default()]);
    let stream = make(&mut world, config(), &archive, 9).unwrap();
    assert_eq!((stream.state().first_sequence, stream.state().last_sequence), (41, 40));
    // Trailing gaps count too, and what follows the end is passed over.
    let mut archive = pack(&[state(1, 3, 9, 0), message(4, "a", "", "x"), Entry::default()]);
    archive.extend_from_slice(b"rest");
    let stream = make(&mut world, config(), &archive, 9).unwrap();
    assert_eq!((stream.state().first_sequence, stream.state().last_sequence), (4, 9));
}

#[test]
fn limits_of_the_new_configuration_hold() {
    let mut world = world();
    let few = StreamConfig { max_msgs: 3, ..config() };
    let stream = make(&mut world, few, REFERENCE, 1000).unwrap();
    assert_eq!((stream.state().messages, stream.state().first_sequence), (3, 10));
    let one_each = StreamConfig { max_msgs_per_subject: 1, ..config() };
    assert_eq!(make(&mut world, one_each, REFERENCE, 1000).unwrap().state().messages, 3);
    let small = StreamConfig { max_msg_size: 10, ..config() };
    let said = make(&mut world, small, REFERENCE, 1000).unwrap_err().to_string();
    assert_eq!(said, "message sequence 1 exceeds maximum message size");
}

#[test]
fn an_account_holds_no_more_than_it_may() {
    let held = |max: i64| {
        let account = AccountLimits::Flat(TierLimits { memory_bytes_max: max, ..TierLimits::default() });
        let mut world = World { limits: Limits { account, ..Limits::default() } };
        let made = make(&mut world, config(), REFERENCE, 50).map(|stream| stream.state().bytes);
        (made, Arc::clone(&world.limits.account_usage))
    };
    let (enough, _) = held(1 << 20);
    let bytes = enough.unwrap();
    let (refused, usage) = held(i64::try_from(bytes).unwrap() - 1);
    let answer = refused.unwrap_err().answer();
    assert_eq!((answer.err_code, answer.code), (10028, 500));
    assert_eq!((usage.used(Storage::Memory), usage.consumers()), (0, 0));
}

#[test]
fn refusals_name_the_reason() {
    let said = |entries: &[Entry]| {
        let mut world = world();
        let error = make(&mut world, config(), &pack(entries), 1000).unwrap_err();
        assert_eq!(world.limits.account_usage.used(Storage::Memory), 0);
        error.to_string()
    };
    let one = || state(1, 1, 1, 0);
    assert_eq!(said(&[message(1, "a", "", "")]), "expected state.json first");
    assert_eq!(said(&[document("../state.json", "{}")]), "expected state.json first");
    assert!(said(&[document("state.json", "{")]).starts_with("error in state.json: "));
    assert_eq!(said(&[state(1, 9, 7, 0)]), "error in state.json: sequences 9 to 7 are no range");
    assert!(said(&[state(1, 1, u64::MAX, 0)]).ends_with("are no range"));
    assert_eq!(said(&[one()]), "EOF");
    assert_eq!(said(&[one(), document("a", "")]), "expected message sequence");
    assert_eq!(
        said(&[one(), message(1, "a.*", "", "")]),
        "message sequence 1 has a subject that is not valid"
    );
    assert_eq!(said(&[one(), message(1, "", "", "")]), "message sequence 1 has a subject that is not valid");
    assert_eq!(said(&[one(), message(1, "a", "x", "")]), "message sequence 1 has headers that are not valid");
    assert_eq!(
        said(&[one(), message(2, "a", "", ""), message(2, "a", "", "")]),
        "message sequence 2 out of order"
    );
    assert_eq!(
        said(&[one(), message(u64::MAX, "a", "", "")]),
        format!("message sequence {} is higher than any stream gets", u64::MAX)
    );
    let ttl = "NATS/1.0\r\nNats-TTL: soon\r\n\r\n";
    assert_eq!(
        said(&[one(), message(1, "a", ttl, "")]),
        "failed to parse message TTL: invalid per-message TTL"
    );
    let with = |name: &str, json: &str| said(&[state(0, 1, 0, 1), document(name, json)]);
    assert_eq!(with("../C", "{}"), r#"expected consumer, found "../C""#);
    assert_eq!(with("consumers/C", "{}"), r#"consumer "C" is missing config"#);
    assert_eq!(with("consumers/C", r#"{"config":{}}"#), r#"consumer "C" is missing state"#);
    let state_of = r#""state":{"delivered":{"consumer_seq":0,"stream_seq":0},"ack_floor":{"consumer_seq":1,"stream_seq":0}}"#;
    assert_eq!(
        with("consumers/C", &format!(r#"{{"config":{{"durable_name":"C"}},{state_of}}}"#)),
        r#"failed to set the state of consumer "C": bad ack floor for consumer"#
    );
    for name in ["../x", "a.b", "a/b", "", "*"] {
        let json = format!(r#"{{"config":{{"durable_name":"{name}"}},"state":{{}}}}"#);
        let refused = with(&format!("consumers/{name}"), &json);
        assert!(refused.starts_with("failed to add consumer"), "{refused}");
    }
    let other = with("consumers/C", r#"{"config":{"durable_name":"D"},"state":{}}"#);
    assert!(other.starts_with(r#"failed to add consumer "C""#), "{other}");
}

#[test]
fn another_format_is_refused_by_name() {
    let mut out = Vec::new();
    let mut packer = Packer::default();
    packer.write(&[b"meta.inf".as_slice(), &[0; 600]].concat(), &mut out);
    packer.flush(&mut out);
    let error = make(&mut world(), config(), &out, 1000).unwrap_err();
    assert_eq!(
        error.answer().description,
        "restore failed: snapshots in the tar format of older servers can not be restored"
    );
    assert_eq!(make(&mut world(), config(), b"", 1).unwrap_err().answer().description, "restore failed: EOF");
    let cut = make(&mut world(), config(), &REFERENCE[..REFERENCE.len() - 1], 1000).unwrap_err();
    assert_eq!(cut.to_string(), "archive: invalid archive stream");
}

/// Archives with random bytes changed before they are packed: a stream comes of it or an error, and never a half one.
#[test]
fn damaged_archives_are_refused_or_whole() {
    let mut world = world();
    let stream = make(&mut world, config(), REFERENCE, 1000).unwrap();
    let written = entries(&Image::new(&stream, true), &stream);
    let before = world.limits.account_usage.used(Storage::Memory);
    let mut content = MAGIC.to_vec();
    for entry in &written {
        entry.encode_head(&mut content);
        content.extend_from_slice(&entry.headers);
        content.extend_from_slice(&entry.payload[..entry.payload.len()]);
    }
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % bound as u64) as usize
    };
    let mut refused = 0;
    for _ in 0..2000 {
        let mut damaged = content.clone();
        for _ in 0..=random(3) {
            // Most of the archive is text of messages; its beginning is where the numbers are.
            let place = if random(2) == 0 { random(damaged.len()) } else { random(900) };
            damaged[place] = random(256) as u8;
        }
        let (mut packer, mut out) = (Packer::default(), Vec::new());
        packer.write(&damaged, &mut out);
        packer.flush(&mut out);
        match make(&mut world, config(), &out, 700) {
            Ok(stream) => {
                let added = world.limits.account_usage.used(Storage::Memory) - before;
                assert_eq!(added, stream.state().bytes);
                let mut stream = stream;
                stream.delete(&mut world, &mut Effects::default());
            }
            Err(_) => refused += 1,
        }
        assert_eq!(world.limits.account_usage.used(Storage::Memory), before);
    }
    assert!(refused > 500, "{refused}");
}
