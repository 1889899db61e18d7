//! What one message costs, from its arrival to its acknowledgement, without disk and network. Run with `--release -- --ignored --nocapture`.

use std::time::Instant;

use api::jetstream::stream::{Storage, StreamConfig};
use bytes::Bytes;
use jetstream::consumer::Budget;
use jetstream::effect::Effects;
use jetstream::stream::facts::Identity;
use jetstream::{Publish, Stream};
use store::Timestamp;
use store::stream::{MemoryStore, Recovered};

use crate::harness::{START, World};

const MESSAGES: u64 = 1_000_000;
/// Messages of one turn.
const TURN: u64 = 100;

/// Nanoseconds for each message.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn measure(config: &StreamConfig, headers: &Bytes, subjects: u64) -> f64 {
    let identity = Identity {
        account: "A".into(),
        name: config.name.as_str().into(),
        group: 1,
        domain: None,
        created: Timestamp(START),
    };
    let store = Box::new(MemoryStore::new());
    let mut stream = Stream::new(identity, config.clone(), store, Recovered::default()).unwrap();
    let mut world = World::new();
    let mut effects = Effects::default();
    stream.lead(&mut world, &mut effects);
    let payload = Bytes::from(vec![b'x'; 128]);
    let reply = Bytes::from_static(b"_INBOX.abcdefghijkl.12345");
    let names: Vec<Bytes> = (0..subjects).map(|number| format!("s.{number}").into()).collect();
    let start = Instant::now();
    for turn in 0..MESSAGES / TURN {
        for number in 0..TURN {
            let publish = Publish {
                subject: names[((turn * TURN + number) % subjects) as usize].clone(),
                reply: Some(reply.clone()),
                headers: headers.clone(),
                payload: payload.clone(),
            };
            stream.handle_publish(&mut world, &mut effects, publish);
        }
        stream.turn(&mut world, &mut effects, &mut Budget { messages: 100, bytes: 1 << 20 });
        let entry = effects.proposal.split().freeze();
        stream.apply(&mut world, &mut effects, turn + 1, &entry);
        assert_eq!(effects.queue.len() as u64, TURN);
        effects.queue.clear();
    }
    start.elapsed().as_nanos() as f64 / MESSAGES as f64
}

#[test]
#[ignore = "a measurement"]
fn cost_of_a_message() {
    let plain = StreamConfig {
        name: "S".into(),
        subjects: vec!["s.>".into()],
        storage: Storage::Memory,
        num_replicas: 1,
        max_msgs: 100_000,
        ..StreamConfig::default()
    };
    let none = Bytes::new();
    println!("plain, one subject: {:.0} ns", measure(&plain, &none, 1));
    println!("plain, 10,000 subjects: {:.0} ns", measure(&plain, &none, 10_000));
    let headers = Bytes::from_static(b"NATS/1.0\r\nContent-Type: text\r\nX-Request: 12345\r\n\r\n");
    println!("two foreign headers: {:.0} ns", measure(&plain, &headers, 1));
    let newest = StreamConfig { max_msgs_per_subject: 1, max_msgs: -1, ..plain };
    println!("newest of each of 10,000 subjects: {:.0} ns", measure(&newest, &none, 10_000));
}
