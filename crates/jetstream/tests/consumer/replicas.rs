//! Random work of a leader; a replica that gets only its log, and one that restarts from a checkpoint taken in the middle, come to the
//! same state, the same acknowledged messages and the same stream.

use std::collections::BTreeSet;
use std::time::Duration;

use api::duration::Nanos;
use api::jetstream::consumer::{AckPolicy, ConsumerConfig, DeliverPolicy};
use api::jetstream::stream::Retention;
use bytes::Bytes;
use jetstream::consumer::RemoveReason;
use jetstream::outside::Outside;
use store::stream::StreamStore;

use crate::harness::{Entry, Harness, Replica, World};

const SEEDS: u64 = 150;
const STEPS: usize = 400;
const SUBJECTS: [&str; 4] = ["a.1", "a.2", "b.1", "b.2"];

struct Random(World);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.random() % bound
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

pub(crate) fn config(random: &mut impl FnMut(u64) -> u64) -> ConsumerConfig {
    let mut config = ConsumerConfig { durable_name: "c".into(), ..ConsumerConfig::default() };
    config.ack_policy =
        [AckPolicy::Explicit, AckPolicy::Explicit, AckPolicy::All, AckPolicy::None][random(4) as usize];
    config.deliver_policy =
        [DeliverPolicy::All, DeliverPolicy::Last, DeliverPolicy::LastPerSubject][random(3) as usize];
    config.ack_wait = Nanos::from_millis(100 + random(900) as i64);
    config.max_ack_pending = [-1, 3, 10][random(3) as usize];
    config.max_deliver = [-1, 1, 3][random(3) as usize];
    config.max_waiting = 16;
    if random(3) == 0 {
        config.max_ack_pending_per_subject = 2;
    }
    if random(3) == 0 {
        config.dead_letter_subject = "dead".into();
    }
    if random(3) == 0 {
        config.backoff = vec![Nanos::from_millis(50), Nanos::from_millis(500)];
    }
    match random(4) {
        0 => config.filter_subject = "a.*".into(),
        1 => config.filter_subjects = vec!["a.1".into(), "b.2".into()],
        _ => {}
    }
    config
}

struct Checkpoint {
    state: Vec<u8>,
    applied: usize,
    removed: BTreeSet<u64>,
}

/// One random run.
struct Run {
    random: Random,
    harness: Harness,
    config: ConsumerConfig,
    deliveries: Vec<Bytes>,
    checkpoints: Vec<Checkpoint>,
    initial: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(World::new(seed));
        let config = config(&mut |bound| random.below(bound));
        let retention = random.pick(&[Retention::Limits, Retention::Interest, Retention::WorkQueue]);
        let mut harness = Harness::new(seed, retention, &ConsumerConfig::default(), Vec::new());
        let before: Vec<Entry> =
            (0..random.below(20)).map(|_| harness.append_entry(random.pick(&SUBJECTS), b"x")).collect();
        let initial = before.len();
        harness = Harness::new(seed, retention, &config, before);
        Self { random, harness, config, deliveries: Vec::new(), checkpoints: Vec::new(), initial }
    }

    fn step(&mut self) {
        let harness = &mut self.harness;
        match self.random.below(100) {
            0..25 => {
                let entry = harness.append_entry(self.random.pick(&SUBJECTS), b"y");
                harness.log.push(entry);
            }
            25..40 => {
                let reply = self.random.pick(&["in.1", "in.2", "in.3"]);
                let body = self.random.pick(&[
                    "5",
                    "1",
                    "{\"batch\":3,\"no_wait\":true}",
                    "{\"batch\":9,\"expires\":300000000}",
                ]);
                harness.pull(reply, body);
            }
            40..60 => self.ack(),
            60..75 => {
                harness.turn();
            }
            75..88 => harness.apply_one(),
            88..92 => {
                let time = Duration::from_millis(self.random.below(400));
                harness.world.now = harness.world.now.saturating_add(time);
                harness.with(|consumer, ctx| consumer.handle_timeout(ctx));
            }
            92..95 => self.checkpoint(),
            _ => self.disturb(),
        }
        let fresh = self.harness.deliveries().into_iter().map(|deliver| deliver.reply);
        self.deliveries.extend(fresh);
    }

    fn ack(&mut self) {
        if self.deliveries.is_empty() {
            return;
        }
        let index = self.random.below(self.deliveries.len() as u64) as usize;
        let subject = self.deliveries.swap_remove(index);
        let body: &[u8] = self.random.pick(&[
            b"+ACK",
            b"+ACK",
            b"",
            b"-NAK",
            b"-NAK {\"delay\":100000000}",
            b"+WPI",
            b"+TERM no",
            b"+NXT 2",
            b"{\"stream\":\"D\",\"seq\":1}",
            b"{\"stream\":\"D\",\"seq\":0,\"error\":{\"code\":503}}",
        ]);
        self.harness.ack(&subject, body, Some("confirm"));
    }

    fn disturb(&mut self) {
        let harness = &mut self.harness;
        let last = harness.replica.store.state().last_sequence.max(1);
        let sequence = 1 + self.random.below(last);
        let entry = match self.random.below(12) {
            0..6 => Entry::Remove { sequence, reason: RemoveReason::Deleted },
            6..8 => Entry::PurgeUpTo(sequence),
            8..10 => {
                self.config.max_ack_pending = self.random.pick(&[-1, 2, 20]);
                self.config.filter_subject = self.random.pick(&["", "a.>", "b.1"]).to_owned();
                self.config.filter_subjects = Vec::new();
                self.config.dead_letter_subject = self.random.pick(&["", "dead", "dead.too"]).to_owned();
                self.config.max_ack_pending_per_subject = self.random.pick(&[0, 1, 2]);
                Entry::Update(self.config.clone().into())
            }
            _ => match harness.with(|consumer, ctx| consumer.check_reset(ctx, 0)) {
                Ok(start) => Entry::Reset(start),
                Err(_) => return,
            },
        };
        harness.log.push(entry);
    }

    /// What a checkpoint would hold: working state, and the stream as far as the log is applied.
    fn checkpoint(&mut self) {
        let replica = &self.harness.replica;
        let removed = replica
            .acked
            .iter()
            .copied()
            .filter(|sequence| replica.store.subject_of(*sequence).unwrap().is_none())
            .collect();
        self.checkpoints.push(Checkpoint { state: replica.state(), applied: replica.applied, removed });
    }

    fn compare(&mut self, seed: u64) {
        self.harness.turn();
        while self.harness.replica.applied < self.harness.log.len() {
            self.harness.apply_all();
            // What was applied may have made a leader propose more.
            self.harness.turn();
        }
        let Self { harness, initial, .. } = self;
        let mut world = World::new(0);
        let first_config = harness_config(seed);
        let mut replica =
            Replica::new(&mut world, harness.retention, &first_config, &harness.log[..*initial]);
        for entry in &harness.log[*initial..] {
            replica.apply(&mut world, entry, false);
        }
        assert_eq!(show(&replica), show(&harness.replica), "replica, seed {seed}");
        assert_eq!(replica.acked, harness.replica.acked, "acknowledged, seed {seed}");
        assert!(replica.effects.queue.is_empty(), "a replica is silent, seed {seed}");
        for checkpoint in &self.checkpoints {
            let Checkpoint { state, applied, removed } = checkpoint;
            let mut restored = Replica::restore(harness.retention, state, &harness.log[..*applied], removed);
            for entry in &harness.log[*applied..] {
                restored.apply(&mut world, entry, false);
            }
            assert_eq!(show(&restored), show(&harness.replica), "restart at {applied}, seed {seed}");
        }
    }
}

/// The configuration that a run with this seed begins with.
fn harness_config(seed: u64) -> ConsumerConfig {
    let mut random = Random(World::new(seed));
    config(&mut |bound| random.below(bound))
}

fn show(replica: &Replica) -> String {
    let state = replica.store.state();
    let consumer = jetstream::consumer::Consumer::restore(&replica.state()).unwrap();
    format!("{} messages from {}\n{consumer:#?}", state.messages, state.first_sequence)
}

#[test]
fn replicas_and_restarts_come_to_the_state_of_the_leader() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
        }
        run.compare(seed);
    }
}
