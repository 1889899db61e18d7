//! What clients asked for and were told, and what follows from it for what the server may show them later.
//!
//! Nothing here knows how a stream works inside. Where a rule of a stream may remove a message by itself, the history asks only whether it could
//! have: that is what makes it independent of the machines it checks. Exactness is the witness's part.

mod consumer;
mod excuse;
mod letters;
mod observe;
mod stream;

use std::collections::BTreeMap;
use std::fmt;

use api::jetstream::stream::StreamConfig;

pub(crate) use consumer::{ConsumerHistory, lets_through};
pub(crate) use observe::operation_of;
pub(crate) use stream::{Published, PurgeAsked, StreamHistory};

/// A rule of durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A publish that was acknowledged is there until a rule of its stream removes it.
    AckedLost,
    /// A sequence names one message for ever, and the last sequence never goes back.
    SequenceReused,
    /// What is read is what was published.
    Content,
    /// What was deleted, purged or removed stays so.
    Returned,
    /// What no consumer needs any more leaves an interest stream.
    Lingers,
    /// A message whose acknowledgement was confirmed is not delivered again.
    AckForgotten,
    /// A message that was given up is there until its dead letter is stored.
    LetterLost,
    /// The floor stays at or above what was confirmed.
    FloorBack,
    /// An id is taken once within its window.
    Dedupe,
    /// Streams and consumers are there, and as they were configured, from answer to answer.
    Catalogue,
    /// What is not damaged goes on.
    OthersStopped,
    /// What damage took is reported.
    SilentDamage,
    /// Nothing is reported damaged or fails without a fault.
    UncausedDamage,
    /// `num_pending` is exact.
    Pending,
    /// A stream is what its log makes it.
    Replay,
    /// Work comes to an end, and answers come.
    Stuck,
    /// The log follows what is released.
    LogGrows,
    /// No assertion of a core is hurt.
    Panic,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// How, with values.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, text: String) -> Self {
        Self { rule, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// Something that was asked for and not answered yet.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    Publish { group: u64 },
    Ack { group: u64, consumer: String, epoch: u64, sequence: u64 },
    Term { group: u64, consumer: String, epoch: u64, sequence: u64 },
    Purge { group: u64, covers: Vec<u64> },
    Delete { group: u64, sequence: u64 },
    ConfigureConsumer { group: u64, name: String, filter: String },
    DeleteConsumer { group: u64, name: String },
    ConsumerInfo { group: u64, name: String },
    CreateStream(Box<StreamConfig>),
    UpdateStream(Box<StreamConfig>),
    DeleteStream(String),
}

/// What is known of a stream's name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Configuration, if there is such a stream.
    pub(crate) config: Option<StreamConfig>,
    /// A change was asked for and not answered.
    pub(crate) is_unsure: bool,
}

/// All that clients know.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) streams: BTreeMap<u64, StreamHistory>,
    pub(crate) names: BTreeMap<String, Known>,
    asked: BTreeMap<u64, Asked>,
    operations: u64,
    violations: Vec<Violation>,
}

impl History {
    /// A number for a new operation.
    pub(crate) fn ask(&mut self, asked: Asked) -> u64 {
        self.operations += 1;
        self.asked.insert(self.operations, asked);
        self.operations
    }

    /// Number of the newest operation.
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// What an answer is for; each is answered once.
    pub(crate) fn answered(&mut self, operation: u64) -> Option<Asked> {
        self.asked.remove(&operation)
    }

    /// What waits for an answer.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&u64, &Asked)> {
        self.asked.iter()
    }

    /// Is a change of the stream with this name asked for and not answered?
    pub(crate) fn waiting_for(&self, name: &str) -> bool {
        self.asked.values().any(|asked| match asked {
            Asked::CreateStream(config) | Asked::UpdateStream(config) => config.name == name,
            Asked::DeleteStream(other) => other == name,
            _ => false,
        })
    }

    /// Is a change of this consumer asked for and not answered?
    pub(crate) fn is_changing(&self, in_group: u64, consumer: &str) -> bool {
        self.asked.values().any(|asked| match asked {
            Asked::ConfigureConsumer { group, name, .. } | Asked::DeleteConsumer { group, name } => {
                *group == in_group && name == consumer
            }
            _ => false,
        })
    }

    /// A rule was broken.
    pub(crate) fn violate(&mut self, rule: Rule, text: String) {
        self.violations.push(Violation::new(rule, text));
    }

    /// What was found, once.
    pub(crate) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// The server is gone, and what it did not answer is unknown for ever.
    pub(crate) fn server_died(&mut self) {
        self.asked.clear();
        for stream in self.streams.values_mut() {
            stream.server_died();
        }
    }
}
