//! Random work with restarts: what the last checkpoint and the log give must always be what the leader has.

use api::jetstream::consumer::ConsumerAction;
use api::jetstream::stream::{Retention, StreamConfig};
use bytes::Bytes;
use jetstream::Request;
use jetstream::effect::Effect;
use jetstream::stream::Incoming;

use crate::harness::{Bench, block};

/// Steps of one run.
const STEPS: u64 = 250;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn config(retention: Retention) -> StreamConfig {
    let text = r#"{"name":"S","subjects":["s.>"],"num_replicas":1,"duplicate_window":5000000000,"max_msgs":60,"max_msgs_per_subject":9,
        "max_age":20000000000,"allow_msg_ttl":true,"allow_rollup_hdrs":true,"subject_delete_marker_ttl":2000000000,"allow_msg_schedules":true,
        "allow_atomic":true}"#;
    StreamConfig { retention, ..serde_json::from_str(text).unwrap() }
}

/// One message with headers drawn at random.
fn publish(bench: &mut Bench, random: &mut Random) {
    let subject = format!("s.{}", random.below(6));
    let id = format!("Nats-Msg-Id: {}", random.below(30));
    let ttl = format!("Nats-TTL: {}", 1 + random.below(4));
    let expected = format!("Nats-Expected-Last-Subject-Sequence: {}", random.below(5));
    let every = match random.below(2) {
        0 => format!("Nats-Schedule: @every {}s", 1 + random.below(3)),
        _ => format!("Nats-Schedule: @at 2026-01-01T00:00:{:02}Z", random.below(60)),
    };
    let stops = format!("Nats-Scheduler: s.{}", random.below(6));
    let batch = [
        format!("Nats-Batch-Id: {}", random.below(3)),
        format!("Nats-Batch-Sequence: {}", 1 + random.below(3)),
    ];
    let lines: Vec<&str> = match random.below(12) {
        0 | 1 => vec![&id],
        2 => vec![&ttl],
        3 => vec![&expected],
        4 => vec!["Nats-Rollup: sub"],
        5 if random.below(4) == 0 => vec!["Nats-Rollup: all"],
        6 => vec![&every, "Nats-Schedule-Target: s.target"],
        7 => vec![&batch[0], &batch[1]],
        8 => vec![&batch[0], &batch[1], "Nats-Batch-Commit: 1"],
        9 => vec![&stops, "Nats-Schedule-Next: purge"],
        _ => vec![],
    };
    let payload = Bytes::from(vec![b'x'; random.below(300) as usize]);
    bench.publish(&subject, block(&lines), payload, Some("r"));
}

fn consumer_work(bench: &mut Bench, random: &mut Random, unacked: &mut Vec<Bytes>) {
    let name = ["one", "two", "three"][random.below(3) as usize];
    match random.below(8) {
        0 => {
            let filter = ["s.1", "s.*", "s.3"][random.below(3) as usize];
            let text = format!(
                r#"{{"durable_name":"{name}","ack_policy":"explicit","ack_wait":3000000000,"filter_subject":"{filter}"}}"#
            );
            let config = serde_json::from_str(&text).unwrap();
            let action = ConsumerAction::default();
            bench.request(Request::CreateConsumer { config, action, pedantic: false });
        }
        1 if random.below(3) == 0 => bench.request(Request::DeleteConsumer { consumer: name.into() }),
        2..=4 => {
            let reply = Bytes::from_static(b"p");
            let pull = Incoming { subject: b"", reply: Some(&reply), headers: b"", payload: b"3" };
            bench.stream.handle_pull(&mut bench.world, &mut bench.effects, name, pull);
        }
        _ => {
            let Some(subject) = unacked.pop() else { return };
            let body: &[u8] = if random.below(5) == 0 { b"-NAK" } else { b"+ACK" };
            bench.ack(&subject, None, body);
        }
    }
}

fn step(bench: &mut Bench, random: &mut Random, unacked: &mut Vec<Bytes>) {
    let mut effects = Vec::new();
    match random.below(20) {
        0..=8 => publish(bench, random),
        9..=13 => consumer_work(bench, random, unacked),
        14 => {
            bench.request(Request::DeleteMessage { sequence: random.below(200), erase: random.below(2) == 0 })
        }
        15 => {
            let purge = match random.below(4) {
                0 => format!(r#"{{"filter":"s.{}"}}"#, random.below(6)),
                1 => format!(r#"{{"seq":{}}}"#, random.below(200)),
                2 => format!(r#"{{"keep":{}}}"#, random.below(20)),
                _ => format!(r#"{{"filter":"s.*","keep":{}}}"#, random.below(20)),
            };
            bench.request(Request::Purge(serde_json::from_str(&purge).unwrap()));
        }
        16 => effects = bench.pass(random.below(4_000) as i64 * 1_000_000),
        17 => bench.holding = !bench.holding,
        18 => {
            let mut config = (**bench.stream.config()).clone();
            config.max_msgs = 20 + random.below(60) as i64;
            config.max_msgs_per_subject = 2 + random.below(9) as i64;
            bench.request(Request::UpdateStream(Box::new(config)));
        }
        _ if bench.holding => {}
        _ => bench.checkpoint(),
    }
    effects.extend(bench.settle());
    unacked.extend(effects.into_iter().filter_map(|effect| match effect {
        Effect::Deliver(deliver) => Some(deliver.reply),
        _ => None,
    }));
}

/// Everything that replicas must agree on.
fn facts(stream: &jetstream::Stream) -> (String, Vec<Vec<u8>>) {
    let mut text = format!("{:?}\n{:?}\n", stream.state(), stream.config());
    let mut next = 0;
    while let Some(message) = stream.store().next(&store::stream::Filter::All, next).unwrap() {
        next = message.sequence + 1;
        text.push_str(&format!("{message:?}\n"));
    }
    let states = stream.consumers().map(|consumer| {
        let mut state = Vec::new();
        consumer.encode_state(&mut state);
        state
    });
    (text, states.collect())
}

fn run(seed: u64, retention: Retention) {
    let mut random = Random(seed);
    let mut bench = Bench::new(config(retention));
    let mut unacked = Vec::new();
    for number in 0..STEPS {
        step(&mut bench, &mut random, &mut unacked);
        if number % 25 == 24 {
            bench.holding = false;
            bench.settle();
            let replayed = bench.replayed();
            let (live, again) = (facts(&bench.stream), facts(&replayed));
            assert_eq!(live.0, again.0, "seed {seed} {retention} after step {number}");
            assert_eq!(live.1, again.1, "consumers, seed {seed} {retention} after step {number}");
        }
        if number % 60 == 59 {
            bench.restart();
            bench.settle();
            unacked.clear();
        }
    }
    assert!(bench.stream.failure().is_none());
}

#[test]
fn replay_from_any_checkpoint_gives_the_state_of_the_leader() {
    let fresh = std::process::id().into();
    for seed in [1, 2, 3, 4, 5, 6, 7, 8, fresh] {
        for retention in [Retention::Limits, Retention::Interest, Retention::WorkQueue] {
            run(seed * 0x9e37_79b9 + 1, retention);
        }
    }
}
