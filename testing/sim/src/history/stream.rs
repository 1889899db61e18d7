//! What clients know of one stream.

use std::collections::{BTreeMap, BTreeSet};

use api::jetstream::stream::{Retention, Storage, StreamConfig};
use bytes::Bytes;

use super::ConsumerHistory;
use super::letters::LetterHistory;

/// A message as it was published.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    pub(crate) id: Option<String>,
    /// When it was sent.
    pub(crate) at: i64,
    /// Earliest time at which its own time to live may end.
    pub(crate) ends: Option<i64>,
    /// It removes what its subject held before.
    pub(crate) rolls_up: bool,
    /// A consumer wanted it for certain.
    pub(crate) wanted: bool,
    /// Where it is stored, once that was seen.
    pub(crate) sequence: Option<u64>,
}

/// A purge that was asked for; whether it happened may be unknown.
#[derive(Debug, Clone)]
pub(crate) struct PurgeAsked {
    pub(crate) operation: u64,
    pub(crate) filter: String,
    pub(crate) below: u64,
}

/// The tightest limits that were ever asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tightest {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) per_subject: u64,
    pub(crate) age: i64,
}

/// One life of a stream.
#[derive(Debug)]
pub(crate) struct StreamHistory {
    pub(crate) name: String,
    pub(crate) retention: Retention,
    pub(crate) storage: Storage,
    pub(crate) window: i64,
    pub(crate) tightest: Tightest,
    /// By operation.
    pub(crate) published: BTreeMap<u64, Published>,
    /// Operation by sequence.
    pub(crate) bound: BTreeMap<u64, u64>,
    /// Operations that were acknowledged and not seen gone.
    pub(crate) held: BTreeSet<u64>,
    /// Sequences seen at the last observation.
    pub(crate) present: BTreeSet<u64>,
    /// Highest sequence seen.
    pub(crate) last: u64,
    /// Sequences whose removal was answered.
    pub(crate) removed: BTreeSet<u64>,
    pub(crate) purges: Vec<PurgeAsked>,
    pub(crate) deletes: BTreeSet<u64>,
    /// Sequences that a client said to be done with.
    pub(crate) done: BTreeSet<u64>,
    /// Operation of the last deletion of a consumer.
    pub(crate) consumer_gone: u64,
    pub(crate) consumers: BTreeMap<String, ConsumerHistory>,
    pub(crate) letters: LetterHistory,
    /// A fault may have damaged it.
    pub(crate) is_injected: bool,
    /// Damage or failure of it was reported.
    pub(crate) is_reported: bool,
    /// Damage was reported since the last look: what is seen next counts.
    pub(crate) must_adopt: bool,
    /// Something was lost to damage: only what is read is checked from then on.
    pub(crate) is_tainted: bool,
}

fn limit(value: i64) -> u64 {
    if value > 0 { value as u64 } else { u64::MAX }
}

impl Tightest {
    fn of(config: &StreamConfig) -> Self {
        Self {
            messages: limit(config.max_msgs),
            bytes: limit(config.max_bytes),
            per_subject: limit(config.max_msgs_per_subject),
            age: if config.max_age.0 > 0 { config.max_age.0 } else { i64::MAX },
        }
    }

    /// Another configuration was asked for.
    pub(crate) fn tighten(&mut self, config: &StreamConfig) {
        let other = Self::of(config);
        self.messages = self.messages.min(other.messages);
        self.bytes = self.bytes.min(other.bytes);
        self.per_subject = self.per_subject.min(other.per_subject);
        self.age = self.age.min(other.age);
    }
}

impl StreamHistory {
    pub(crate) fn new(config: &StreamConfig) -> Self {
        Self {
            name: config.name.clone(),
            retention: config.retention,
            storage: config.storage,
            window: config.duplicate_window.0,
            tightest: Tightest::of(config),
            published: BTreeMap::new(),
            bound: BTreeMap::new(),
            held: BTreeSet::new(),
            present: BTreeSet::new(),
            last: 0,
            removed: BTreeSet::new(),
            purges: Vec::new(),
            deletes: BTreeSet::new(),
            done: BTreeSet::new(),
            consumer_gone: 0,
            consumers: BTreeMap::new(),
            letters: LetterHistory::default(),
            is_injected: false,
            is_reported: false,
            must_adopt: false,
            is_tainted: false,
        }
    }

    pub(super) fn server_died(&mut self) {
        if self.storage == Storage::File {
            return;
        }
        self.published.clear();
        self.bound.clear();
        self.held.clear();
        self.present.clear();
        self.last = 0;
        self.removed.clear();
        self.purges.clear();
        self.deletes.clear();
        self.done.clear();
        self.consumer_gone = 0;
        self.consumers.clear();
        self.letters = LetterHistory::default();
    }

    /// Something may have been lost to damage: what is seen next counts, and content is still checked.
    pub(crate) fn taint(&mut self, last: u64) {
        self.is_tainted = true;
        self.must_adopt = false;
        self.held.clear();
        self.present.clear();
        self.last = 0;
        self.removed.clear();
        self.consumers.clear();
        self.letters = LetterHistory::default();
        self.bound.retain(|sequence, _| *sequence <= last);
    }

    /// Damage of it was reported.
    pub(crate) fn reported(&mut self) {
        self.is_reported = true;
        if self.is_injected {
            self.taint(u64::MAX);
            self.must_adopt = true;
        }
    }

    /// The message of an operation is stored at this sequence. What is wrong with that, if something is.
    pub(crate) fn bind(&mut self, operation: u64, sequence: u64) -> Option<String> {
        let name = &self.name;
        let Some(published) = self.published.get_mut(&operation) else {
            return Some(format!("{name} has message {operation} at {sequence}, which it was never sent"));
        };
        let before = *published.sequence.get_or_insert(sequence);
        if before != sequence && !self.is_tainted {
            return Some(format!("{name}: message {operation} was at {before} and is at {sequence}"));
        }
        let holder = *self.bound.entry(sequence).or_insert(operation);
        (holder != operation)
            .then(|| format!("{name}: sequence {sequence} was message {holder} and is {operation}"))
    }

    /// Whether a consumer that certainly exists wants this subject.
    pub(crate) fn is_wanted(&self, subject: &str) -> bool {
        let mut consumers = self.consumers.values();
        consumers.any(|consumer| consumer.is_sure && consumer.wants(subject))
    }
}
