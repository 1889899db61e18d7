//! Random changes of a store, each made in the model too.

use std::hash::{BuildHasher, Hasher, RandomState};

use store::Timestamp;
use store::stream::{Append, CheckpointJob, Expiry, Filter, Recovered, Removed, StreamStore};

use crate::model::{Model, Size};
use crate::{Numbers, compare};

/// Everything that tests have run with so far; they stay.
const SEEDS: u64 = 12;
/// Between two comparisons of everything.
const EVERYTHING: u64 = 150;

/// A kind of store.
pub(crate) struct Kind<'a> {
    /// How it counts bytes.
    pub(crate) size: Size,
    /// Opens it as it is at its last checkpoint.
    pub(crate) open: &'a mut dyn FnMut() -> (Box<dyn StreamStore>, Recovered),
    /// Does it outlive being closed?
    pub(crate) durable: bool,
}

/// Runs a workload of so many steps for each fixed seed and for one that nobody has seen. `kind` gets the seed, and runs what it is given.
pub(crate) fn run(steps: u64, with_kind: impl Fn(u64, &mut dyn FnMut(Kind<'_>))) {
    let fresh = RandomState::new().build_hasher().finish();
    for seed in (0..SEEDS).chain([fresh]) {
        println!("seed {seed}");
        with_kind(seed, &mut |kind| Workload::new(kind, seed).run(steps));
    }
}

/// Subjects and filters of one workload.
pub(crate) struct Subjects {
    tokens: u64,
    depth: u64,
}

impl Subjects {
    fn token(&self, numbers: &mut Numbers) -> String {
        const TOKENS: [&str; 5] = ["a", "b", "a-b", "a/b", "longer"];
        match numbers.below(self.tokens) {
            few if few < TOKENS.len() as u64 => TOKENS[few as usize].to_owned(),
            many => format!("key-{many}"),
        }
    }

    /// A literal.
    pub(crate) fn literal(&self, numbers: &mut Numbers) -> Vec<u8> {
        let tokens: Vec<String> = (0..=numbers.below(self.depth)).map(|_| self.token(numbers)).collect();
        tokens.join(".").into_bytes()
    }

    fn pattern(&self, numbers: &mut Numbers) -> Box<[u8]> {
        if numbers.once_in(3) {
            return self.literal(numbers).into();
        }
        let mut tokens: Vec<String> = (0..=numbers.below(self.depth))
            .map(|_| if numbers.once_in(2) { "*".to_owned() } else { self.token(numbers) })
            .collect();
        if numbers.once_in(3) {
            tokens.push(">".to_owned());
        }
        tokens.join(".").into_bytes().into()
    }

    /// Any filter.
    pub(crate) fn filter(&self, numbers: &mut Numbers) -> Filter {
        match numbers.below(12) {
            0 => Filter::All,
            1 => Filter::Any(vec![b">".to_vec().into()]),
            2..6 => Filter::Any((0..=numbers.below(4)).map(|_| self.pattern(numbers)).collect()),
            _ => Filter::Any(vec![self.pattern(numbers)]),
        }
    }
}

/// What stream machines do with a store.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// Anything.
    Mixed,
    /// The oldest of the same subject goes with each message.
    History,
    /// The first ones go.
    Queue,
    /// The last of many that are kept for long are scattered.
    Holes,
}

struct Workload<'a> {
    kind: Kind<'a>,
    store: Box<dyn StreamStore>,
    model: Model,
    /// The model at the last finished checkpoint, and the log index that led to it.
    saved: (u64, Model),
    /// A checkpoint that is under way.
    job: Option<(CheckpointJob, u64, Model)>,
    subjects: Subjects,
    style: Style,
    numbers: Numbers,
    now: i64,
}

impl<'a> Workload<'a> {
    fn new(kind: Kind<'a>, seed: u64) -> Self {
        let (store, recovered) = (kind.open)();
        assert_eq!((recovered.applied, recovered.items.len(), recovered.damage.len()), (0, 0, 0));
        let model = Model::new(kind.size);
        let styles = [Style::Mixed, Style::History, Style::Queue, Style::Holes];
        let subjects = Subjects { tokens: [2, 6, 40, 400][(seed / 4 % 4) as usize], depth: 1 + seed % 3 };
        let (style, numbers) = (styles[(seed % 4) as usize], Numbers(seed));
        let saved = (0, model.clone());
        Self { kind, store, model, saved, job: None, subjects, style, numbers, now: 1_000_000 }
    }

    fn run(mut self, steps: u64) {
        for step in 1..=steps {
            self.now += self.numbers.below(20) as i64;
            self.step(step);
            compare::sample(&*self.store, &self.model, &self.subjects, &mut self.numbers);
            if step % EVERYTHING == 0 || step == steps {
                compare::everything(&mut *self.store, &self.model, &self.subjects, &mut self.numbers);
            }
        }
    }

    fn step(&mut self, step: u64) {
        let chance = self.numbers.below(100);
        match (self.style, chance) {
            (_, 0) => self.reopen(),
            (_, 1..4) => self.checkpoint(step),
            (_, 4) => self.purge(),
            (_, 5) => self.skip(),
            (_, 6..8) => self.expire(),
            (Style::Holes, 8) => self.remove_most(),
            (Style::Mixed, 50..) => self.remove(),
            (Style::Queue, 55..) => self.remove_first(),
            (Style::History, _) => self.append_with_history(),
            (_, _) => _ = self.append(),
        }
    }

    /// Clocks step, mostly forward.
    fn time(&mut self) -> Timestamp {
        let back = if self.numbers.once_in(10) { self.numbers.below(300) as i64 } else { 0 };
        Timestamp(self.now - back)
    }

    fn append(&mut self) -> Vec<u8> {
        let gap = match self.numbers.below(200) {
            0 => self.numbers.below(1 << 20),
            1..10 => self.numbers.below(5),
            _ => 0,
        };
        let sequence = self.model.state().last_sequence + 1 + gap;
        let subject = self.subjects.literal(&mut self.numbers);
        let headers = if self.numbers.once_in(4) { &b"NATS/1.0\r\nName: value\r\n\r\n"[..] } else { b"" };
        let length = if self.numbers.once_in(50) { 10_000 } else { 100 };
        let payload = vec![b'a' + (sequence % 26) as u8; self.numbers.below(length) as usize];
        let timestamp = self.time();
        let expiry = match self.numbers.below(8) {
            0 => Expiry::Never,
            1 => Expiry::At(Timestamp(self.now + self.numbers.below(1000) as i64)),
            _ => Expiry::MaxAge,
        };
        let append = Append { sequence, timestamp, subject: &subject, headers, payload: &payload, expiry };
        self.store.append(append).unwrap();
        self.model.append(&append);
        subject
    }

    fn append_with_history(&mut self) {
        let subject = self.append();
        let keep = [1, 1, 2, 10][self.numbers.below(4) as usize];
        while let Some(state) = self.store.subject_state(&subject).filter(|state| state.messages > keep) {
            self.remove_one(state.first, false);
        }
    }

    fn remove_one(&mut self, sequence: u64, erase: bool) {
        assert_eq!(self.store.remove(sequence, erase).unwrap(), self.model.remove(sequence), "{sequence}");
    }

    fn any_sequence(&mut self) -> u64 {
        let sequences = self.model.sequences();
        match sequences.len() as u64 {
            0 => self.numbers.below(5),
            length => sequences[self.numbers.below(length) as usize] + self.numbers.below(8) / 7,
        }
    }

    fn remove(&mut self) {
        let (sequence, erase) = (self.any_sequence(), self.numbers.once_in(4));
        self.remove_one(sequence, erase);
    }

    fn remove_first(&mut self) {
        let near = self.numbers.below(3) as usize;
        if let Some(sequence) = self.model.sequences().get(near).copied() {
            self.remove_one(sequence, false);
        }
    }

    fn remove_most(&mut self) {
        let keep = 1 + self.numbers.below(20);
        for sequence in self.model.sequences() {
            if !self.numbers.once_in(keep) {
                self.remove_one(sequence, false);
            }
        }
    }

    fn purge(&mut self) {
        let filter = self.subjects.filter(&mut self.numbers);
        let last = self.model.state().last_sequence;
        let up_to = match self.numbers.below(8) {
            0 => last,
            1 => last + self.numbers.below(300),
            _ => self.any_sequence() / (1 + self.numbers.below(2)),
        };
        let mut removed = Vec::new();
        self.store.purge(&filter, up_to, &mut |message| removed.push(message)).unwrap();
        removed.sort_by_key(|message: &Removed| message.sequence);
        assert_eq!(removed, self.model.purge(&filter, up_to), "{filter:?} up to {up_to}");
    }

    fn skip(&mut self) {
        let (last, time) = (self.model.state().last_sequence, self.time());
        let last = (last + self.numbers.below(600)).saturating_sub(10);
        self.store.skip_to(last, time).unwrap();
        self.model.skip_to(last, time);
    }

    fn expire(&mut self) {
        let before = self.numbers.once_in(2).then_some(Timestamp(self.now - 1500));
        for sequence in self.store.expired(Timestamp(self.now), before, 20) {
            self.remove_one(sequence, false);
        }
    }

    /// Begins a checkpoint, or ends the one under way.
    fn checkpoint(&mut self, step: u64) {
        if let Some((job, applied, model)) = self.job.take() {
            let done = job();
            assert_eq!(done.as_ref().map(|done| done.applied).ok(), Some(applied));
            self.store.finish_checkpoint(done).unwrap();
            self.saved = (applied, model);
            return;
        }
        let names = self.numbers.below(4);
        let changes = (0..names).map(|_| {
            let name: Box<str> = format!("consumer-{}", self.numbers.below(5)).into();
            let length = self.numbers.below(3000) as usize;
            (name, (!self.numbers.once_in(3)).then(|| vec![step as u8; length].into()))
        });
        let changes: std::collections::BTreeMap<_, _> = changes.collect();
        for (name, value) in changes.clone() {
            match value {
                Some(value) => _ = self.model.items.insert(name, value),
                None => _ = self.model.items.remove(&name),
            }
        }
        let job = self.store.begin_checkpoint(step, changes.into_iter().collect()).unwrap();
        self.job = Some((job, step, self.model.clone()));
    }

    /// Goes back to the last finished checkpoint.
    fn reopen(&mut self) {
        if !self.kind.durable {
            return;
        }
        self.job = None;
        let (store, recovered) = (self.kind.open)();
        self.store = store;
        let (applied, model) = &self.saved;
        self.model = model.clone();
        assert_eq!((recovered.applied, &recovered.items), (*applied, &self.model.items));
        assert_eq!(recovered.damage, []);
        compare::everything(&mut *self.store, &self.model, &self.subjects, &mut self.numbers);
    }
}
