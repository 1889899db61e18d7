//! Messages of one stream: what every kind of stream store can do.
//!
//! A store holds messages by sequence and answers questions about them by subject. It enforces no limits and knows no consumers; the
//! stream machine does, and tells the store what to append and remove. A store never reorders and never renumbers.
//!
//! Durability is by checkpoints: what is appended and removed is kept in memory and written without sync; `begin_checkpoint` captures the
//! state, the job it returns puts it on stable storage from whatever thread runs it, `finish_checkpoint` takes the result. Opening a store returns
//! exactly to its last finished checkpoint, whatever else had been written. Nothing that the last checkpoint refers to is destroyed on disk
//! before a newer one is finished.

mod file;
mod memory;
mod subjects;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use bytes::Bytes;

pub use file::{
    BLOCK_BYTES_DEFAULT, BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Cache, Compression, FileOptions, FileStore,
};
pub use memory::MemoryStore;
pub use subjects::{SubjectId, SubjectIndex};

use crate::Timestamp;

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Position in the stream, from 1.
    pub sequence: u64,
    /// When the leader took it.
    pub timestamp: Timestamp,
    /// Literal subject.
    pub subject: Bytes,
    /// Header block with its closing empty line; empty for none.
    pub headers: Bytes,
    /// Body.
    pub payload: Bytes,
}

/// A message to be stored.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// Above every sequence the store has seen. Those in between are taken as deleted.
    pub sequence: u64,
    /// When the leader took it. Need not grow: clocks step.
    pub timestamp: Timestamp,
    /// Literal subject.
    pub subject: &'a [u8],
    /// Header block; empty for none.
    pub headers: &'a [u8],
    /// Body.
    pub payload: &'a [u8],
    /// When it goes by itself.
    pub expiry: Expiry,
}

/// When a message goes by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Expiry {
    /// With the stream's maximum age, if it has one.
    #[default]
    MaxAge,
    /// At this time, or with the stream's maximum age if that is earlier.
    At(Timestamp),
    /// Never, whatever the stream's maximum age.
    Never,
}

/// Which subjects a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Every subject.
    All,
    /// Subjects that match any of these, wildcards allowed; never empty. They may overlap; a message still counts once.
    Any(Vec<Box<[u8]>>),
}

impl Filter {
    /// Does it let the literal subject through?
    #[inline]
    pub fn matches(&self, literal: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Any(patterns) => patterns.iter().any(|pattern| subject::matches(literal, pattern)),
        }
    }
}

/// Counters of a stream, kept up to date with every change: reading them costs nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// Messages held.
    pub messages: u64,
    /// Their size as users see it (jetstream-api, section 18).
    pub bytes: u64,
    /// Sequence of the oldest message; one past the last sequence if there is none.
    pub first_sequence: u64,
    /// Time of the oldest message, if there is one.
    pub first_timestamp: Option<Timestamp>,
    /// Highest sequence ever appended or skipped.
    pub last_sequence: u64,
    /// Time of the newest append or skip, if there was one; it stays when messages go.
    pub last_timestamp: Option<Timestamp>,
    /// Different subjects among the messages held.
    pub subjects: u64,
    /// Deleted sequences between first and last.
    pub deleted: u64,
}

/// Messages of one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubjectState {
    /// Sequence of the oldest.
    pub first: u64,
    /// Sequence of the newest.
    pub last: u64,
    /// How many.
    pub messages: u64,
}

/// A message that was removed, as consumers and counters need to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Its sequence.
    pub sequence: u64,
    /// Its subject.
    pub subject: Bytes,
    /// Its size as users see it.
    pub bytes: u64,
}

/// Part of a stream that could not be read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// File, relative to the stream's directory.
    pub file: String,
    /// Sequences that are lost; `None` if the file held none or cannot tell.
    pub sequences: Option<RangeInclusive<u64>>,
    /// What was found, with values.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)?;
        match &self.sequences {
            None => Ok(()),
            Some(lost) if lost.start() == lost.end() => write!(f, ", lost sequence {}", lost.start()),
            Some(lost) => write!(f, ", lost sequences {} to {}", lost.start(), lost.end()),
        }
    }
}

/// Why a store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk failed. After a failed write or sync the store refuses further changes.
    #[error(transparent)]
    Disk(#[from] crate::disk::Error),
    /// What was read is not what was written.
    #[error("damaged {}: {}", .0.file, .0.reason)]
    Damaged(Damage),
    /// An earlier failure made the state on disk unknown.
    #[error("the store refuses changes after an earlier failure: {reason}")]
    Failed {
        /// That failure.
        reason: String,
    },
}

/// Named values that a checkpoint holds beside the messages, such as the state of each consumer.
pub type Items = BTreeMap<Box<str>, Bytes>;

/// What opening a store found.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Log index up to which the checkpoint covers; zero for a new store.
    pub applied: u64,
    /// Named values of the checkpoint.
    pub items: Items,
    /// What is lost. The rest of the stream works.
    pub damage: Vec<Damage>,
}

/// The part of a checkpoint that waits for the disk. It may run on any thread; the store can be used meanwhile.
pub type CheckpointJob = Box<dyn FnOnce() -> Result<CheckpointDone, Error> + Send>;

/// A checkpoint that is on stable storage; goes back to `finish_checkpoint`.
#[derive(Debug)]
pub struct CheckpointDone {
    /// Log index that it covers.
    pub applied: u64,
}

/// A stream's messages. All answers are exact. See the module for what survives a crash.
pub trait StreamStore: fmt::Debug + Send {
    /// Counters.
    fn state(&self) -> State;

    /// Subjects, some tens of them, of messages that are about to be stored. Changes nothing, but may make that faster.
    fn expect(&self, subjects: &mut dyn Iterator<Item = &[u8]>);

    /// Stores a message.
    fn append(&mut self, message: Append<'_>) -> Result<(), Error>;

    /// Takes the sequences up to `last` as used and deleted, as at a `timestamp`. Nothing happens if it is not above the last one.
    fn skip_to(&mut self, last: u64, timestamp: Timestamp) -> Result<(), Error>;

    /// The message with this sequence, if it is there.
    fn load(&self, sequence: u64) -> Result<Option<Message>, Error>;

    /// Subject of the message with this sequence, if it is there. Cheaper than `load`.
    fn subject_of(&self, sequence: u64) -> Result<Option<Bytes>, Error>;

    /// The first message at or after `from` that the filter lets through.
    fn next(&self, filter: &Filter, from: u64) -> Result<Option<Message>, Error>;

    /// Sequence of the newest message at or before `up_to` that the filter lets through.
    fn last(&self, filter: &Filter, up_to: u64) -> Result<Option<u64>, Error>;

    /// Sequences, ascending, of the newest message of each subject that the filter lets through, at or before `up_to`. `None` if there are more
    /// than `max` subjects.
    fn last_per_subject(&self, filter: &Filter, up_to: u64, max: usize) -> Result<Option<Vec<u64>>, Error>;

    /// Number of messages in the range of sequences that the filter lets through.
    fn count(&self, filter: &Filter, range: RangeInclusive<u64>) -> Result<u64, Error>;

    /// Sequence of the first message at or after the time; one past the last sequence if there is none.
    fn sequence_at(&self, time: Timestamp) -> Result<u64, Error>;

    /// Counters of one literal subject, if it has messages.
    fn subject_state(&self, literal: &[u8]) -> Option<SubjectState>;

    /// Calls `visit` with each subject that the filter lets through, in order of the subjects' bytes, and its counters, until it returns false.
    fn for_each_subject(&self, filter: &Filter, visit: &mut dyn FnMut(&[u8], SubjectState) -> bool);

    /// Deleted ranges between the first and the last sequence, ascending, at most `max` of them from sequence `from` on.
    fn deleted(&self, from: u64, max: usize) -> Vec<RangeInclusive<u64>>;

    /// Removes one message; `None` if it is not there. With `erase` its bytes are overwritten on disk at the next checkpoint.
    fn remove(&mut self, sequence: u64, erase: bool) -> Result<Option<Removed>, Error>;

    /// Removes every message that the filter lets through with a sequence up to `up_to`, and tells `removed` of each, in no order that matters.
    /// With `Filter::All` the store forgets all below, so its first sequence becomes at least `up_to + 1` even above the last one.
    fn purge(&mut self, filter: &Filter, up_to: u64, removed: &mut dyn FnMut(Removed)) -> Result<(), Error>;

    /// Sequences, ascending, at most `max`, of messages that are due: `Expiry::At` a time up to `now`, or stored at or before `max_age_before` and not
    /// `Expiry::Never`.
    fn expired(&self, now: Timestamp, max_age_before: Option<Timestamp>, max: usize) -> Vec<u64>;

    /// When the next message's own TTL ends, if any has one.
    fn next_expiry(&self) -> Option<Timestamp>;

    /// Captures the state with the log index that led to it and the items that changed since the last one (`None` removes). At most one job is out.
    fn begin_checkpoint(
        &mut self,
        applied: u64,
        changes: Vec<(Box<str>, Option<Bytes>)>,
    ) -> Result<CheckpointJob, Error>;

    /// Takes the result of the job. After an error the store refuses changes.
    fn finish_checkpoint(&mut self, done: Result<CheckpointDone, Error>) -> Result<(), Error>;

    /// Name of the newest checkpoint that is on stable storage, with everything that it names; zero if there is none.
    fn newest_checkpoint(&self) -> u64;

    /// Is there something to be put in order that only a checkpoint does, even if nothing was changed since the newest one: lost messages to be written off,
    /// erased ones to be overwritten, files to be removed?
    fn wants_checkpoint(&self) -> bool;

    /// Has anything been lost that was noticed while reading? Handed out once.
    fn take_damage(&mut self) -> Vec<Damage>;
}
