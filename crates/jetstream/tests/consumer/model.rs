//! Random work against a plain model: every matching message is delivered, none comes back after its acknowledgement, nothing comes back too
//! early, and the numbers that people see are what counting gives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::jetstream::consumer::{AckPolicy, DeliverPolicy};
use api::jetstream::stream::Retention;
use bytes::Bytes;
use jetstream::consumer::{AckSubject, RemoveReason};
use jetstream::outside::Outside;
use store::Timestamp;
use store::stream::{Filter, StreamStore};

use crate::harness::{Entry, Harness, World};
use crate::replicas::config;

const SEEDS: u64 = 60;
const STEPS: usize = 300;
const SUBJECTS: [&str; 4] = ["a.1", "a.2", "b.1", "b.2"];

#[derive(Debug, Default)]
struct Model {
    /// Deliveries of each message: how many, and the latest time before which it may not come again.
    delivered: BTreeMap<u64, (u64, Timestamp)>,
    /// Done, one way or another.
    done: BTreeSet<u64>,
    removed: BTreeSet<u64>,
    /// Acknowledgement subject of the newest delivery of each message that waits.
    open: BTreeMap<u64, Bytes>,
}

struct Run {
    world: World,
    harness: Harness,
    model: Model,
    explicit: bool,
    filter: Filter,
    seed: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        let mut config = config(&mut |bound| world.random() % bound);
        config.deliver_policy = DeliverPolicy::All;
        if config.ack_policy == AckPolicy::None {
            config.ack_policy = AckPolicy::Explicit;
        }
        config.max_deliver = -1;
        let harness = Harness::new(seed, Retention::Limits, &config, Vec::new());
        let filter = harness.replica.consumer.filter().clone();
        let explicit = config.ack_policy == AckPolicy::Explicit;
        Self { world, harness, model: Model::default(), explicit, filter, seed }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.world.random() % bound
    }

    fn step(&mut self) {
        match self.below(100) {
            0..30 => {
                let subject = SUBJECTS[self.below(4) as usize];
                let entry = self.harness.append_entry(subject, b"x");
                self.harness.log.push(entry);
            }
            30..50 => {
                let body = ["7", "1", "{\"batch\":4,\"no_wait\":true}"][self.below(3) as usize];
                self.harness.pull("in.1", body);
            }
            50..75 => self.answer(),
            75..90 => {
                let time = Duration::from_millis(self.below(300));
                self.harness.world.now = self.harness.world.now.saturating_add(time);
                self.harness.with(|consumer, ctx| consumer.handle_timeout(ctx));
            }
            90..95 => self.remove(),
            _ => {
                let reply = Bytes::from_static(b"in.1");
                self.harness.world.interest.remove(&reply[..]);
            }
        }
        self.harness.settle();
        self.take_deliveries();
        self.check();
    }

    fn answer(&mut self) {
        let waiting: Vec<u64> = self.model.open.keys().copied().collect();
        if waiting.is_empty() {
            return;
        }
        let sequence = waiting[self.below(waiting.len() as u64) as usize];
        let subject = self.model.open[&sequence].clone();
        match self.below(5) {
            0..3 => {
                self.harness.ack(&subject, b"+ACK", None);
                let all = !self.explicit;
                let done = waiting.into_iter().filter(|open| *open == sequence || all && *open < sequence);
                for sequence in done {
                    self.model.done.insert(sequence);
                    self.model.open.remove(&sequence);
                }
            }
            3 => {
                self.harness.ack(&subject, b"-NAK", None);
                self.model.delivered.get_mut(&sequence).unwrap().1 = Timestamp(0);
            }
            _ => {
                self.harness.ack(&subject, b"-NAK 200ms", None);
                let until = self.harness.world.now.saturating_add(Duration::from_millis(200));
                self.model.delivered.get_mut(&sequence).unwrap().1 = until;
            }
        }
    }

    fn remove(&mut self) {
        let last = self.harness.replica.store.state().last_sequence;
        if last == 0 {
            return;
        }
        let sequence = 1 + self.below(last);
        self.harness.log.push(Entry::Remove { sequence, reason: RemoveReason::Deleted });
        self.model.removed.insert(sequence);
        self.model.open.remove(&sequence);
    }

    fn take_deliveries(&mut self) {
        let now = self.harness.world.now;
        let wait = |count: u64| {
            let config = self.harness.replica.consumer.config();
            let step = (count as usize - 1).min(config.backoff.len().saturating_sub(1));
            config.backoff.get(step).copied().unwrap_or(config.ack_wait).0
        };
        let waits = [1, 2].map(wait);
        for deliver in self.harness.deliveries() {
            let tokens = AckSubject::parse(&deliver.reply).unwrap().tokens.unwrap();
            let (sequence, seed) = (tokens.stream_sequence, self.seed);
            assert!(!self.model.done.contains(&sequence), "{sequence} came back, seed {seed}");
            assert!(self.filter.matches(&deliver.subject), "{sequence} was not asked for, seed {seed}");
            let entry = self.model.delivered.entry(sequence).or_insert((0, Timestamp(0)));
            entry.0 += 1;
            assert_eq!(tokens.deliveries, entry.0, "deliveries of {sequence}, seed {seed}");
            assert!(now >= entry.1, "{sequence} came too early, seed {seed}");
            entry.1 = Timestamp(now.0 + waits[usize::from(entry.0 > 1)]);
            self.model.open.insert(sequence, deliver.reply);
        }
    }

    fn check(&mut self) {
        let seed = self.seed;
        let info = self.harness.with(|consumer, ctx| consumer.info(ctx));
        if let Some(told) = info.subjects_ack_pending {
            let mut open: BTreeMap<Bytes, usize> = BTreeMap::new();
            for sequence in self.model.open.keys() {
                let subject = self.harness.replica.store.subject_of(*sequence).unwrap().unwrap();
                *open.entry(subject).or_default() += 1;
            }
            assert!(open.values().all(|count| *count <= 2), "{open:?} in flight, seed {seed}");
            assert_eq!(told.subjects, open.len() as u64, "subjects in flight, seed {seed}");
        }
        let store = &self.harness.replica.store;
        let new = |sequence: &u64| {
            let subject = store.subject_of(*sequence).unwrap();
            subject.is_some_and(|subject| self.filter.matches(&subject))
                && !self.model.delivered.contains_key(sequence)
        };
        let pending = (1..=store.state().last_sequence).filter(new).count() as u64;
        assert_eq!(info.num_pending, pending, "pending, seed {seed}");
        assert_eq!(info.num_ack_pending, self.model.open.len() as i64, "ack pending, seed {seed}");
        let redelivered =
            self.model.open.keys().filter(|sequence| self.model.delivered[sequence].0 > 1).count() as i64;
        assert_eq!(info.num_redelivered, redelivered, "redelivered, seed {seed}");
        let floor = self.harness.replica.consumer.ack_floor().stream;
        let delivered = self.harness.replica.consumer.delivered().stream;
        match self.model.open.keys().next() {
            Some(first) => assert!(floor < *first, "floor {floor} above {first}, seed {seed}"),
            None if info.subjects_ack_pending.is_some_and(|subjects| subjects.held_back > 0) => {}
            None => assert_eq!(floor, delivered, "floor with nothing open, seed {seed}"),
        }
    }

    /// With patient clients everything is delivered and done.
    fn finish(&mut self) {
        for _ in 0..1_000 {
            self.harness.pull("in.1", "100");
            self.harness.settle();
            self.take_deliveries();
            let open: Vec<(u64, Bytes)> =
                self.model.open.iter().map(|(sequence, subject)| (*sequence, subject.clone())).collect();
            for (sequence, subject) in open {
                self.harness.ack(&subject, b"", None);
                self.model.done.insert(sequence);
                self.model.open.remove(&sequence);
            }
            self.harness.settle();
            self.take_deliveries();
            self.check();
            let info = self.harness.with(|consumer, ctx| consumer.info(ctx));
            if info.num_pending == 0 && info.num_ack_pending == 0 {
                return;
            }
        }
        panic!("never done, seed {}", self.seed);
    }
}

#[test]
fn everything_is_delivered_and_nothing_comes_back() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        for _ in 0..STEPS {
            run.step();
        }
        run.finish();
    }
}
