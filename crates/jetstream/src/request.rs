//! Requests that a stream answers itself, and its answers, as typed documents. The shell parses and writes the JSON around them.

use api::Time;
use api::jetstream::consumer::{ConsumerAction, ConsumerConfig, ConsumerInfo};
use api::jetstream::request::{MsgGet, Purge, StreamInfoDetails};
use api::jetstream::response::ConsumerPause;
use api::jetstream::stream::{StoredMessage, StreamConfig, StreamInfo};
use bytes::Bytes;

/// Names a request between shell and machine, so that the answer finds its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A request.
#[derive(Debug)]
pub enum Request {
    /// `STREAM.INFO`. Subjects asked for come from the offset on, one page of them.
    StreamInfo(StreamInfoDetails),
    /// Second half of `STREAM.UPDATE`: the catalogue has accepted this configuration.
    UpdateStream(Box<StreamConfig>),
    /// `STREAM.PURGE`.
    Purge(Purge),
    /// `STREAM.MSG.DELETE`.
    DeleteMessage {
        /// Which.
        sequence: u64,
        /// Overwrite it on disk.
        erase: bool,
    },
    /// `STREAM.MSG.GET`.
    GetMessage(Box<MsgGet>),
    /// `DIRECT.GET`: answered by `Effect::Send` to the reply subject, never by `Reply`. The form with a subject becomes `last_by_subj`.
    DirectGet {
        /// Where the messages go.
        reply: Bytes,
        /// What is wanted.
        request: Box<MsgGet>,
    },
    /// `CONSUMER.CREATE` and its older forms, checked against the subject already.
    CreateConsumer {
        /// The configuration as sent.
        config: Box<ConsumerConfig>,
        /// Create, update, or either.
        action: ConsumerAction,
        /// Refuse what would have to be adjusted.
        pedantic: bool,
    },
    /// `CONSUMER.INFO`.
    ConsumerInfo {
        /// Which.
        consumer: Box<str>,
    },
    /// `CONSUMER.LIST` and `CONSUMER.NAMES`: sorted by name from `offset` on.
    ListConsumers {
        /// Skipped.
        offset: usize,
        /// At most.
        limit: usize,
        /// With their infos, or names only.
        infos: bool,
    },
    /// `CONSUMER.DELETE`.
    DeleteConsumer {
        /// Which.
        consumer: Box<str>,
    },
    /// `CONSUMER.PAUSE`; the zero time resumes.
    PauseConsumer {
        /// Which.
        consumer: Box<str>,
        /// Until when.
        until: Time,
    },
    /// `CONSUMER.UNPIN`.
    UnpinConsumer {
        /// Which.
        consumer: Box<str>,
        /// Which group.
        group: Box<str>,
    },
    /// `CONSUMER.RESET`; zero is "to the ack floor".
    ResetConsumer {
        /// Which.
        consumer: Box<str>,
        /// Next sequence to deliver.
        sequence: u64,
    },
}

/// An answer.
#[derive(Debug)]
pub enum Response {
    /// Of `UpdateStream`.
    Stream(Box<StreamInfo>),
    /// Of `StreamInfo`.
    StreamPage {
        /// The stream, with the subjects of this page if they were asked for.
        info: Box<StreamInfo>,
        /// Subjects that match, of all pages; zero if none were asked for.
        subjects: u64,
    },
    /// Of `Purge`: how many.
    Purged(u64),
    /// It is done.
    Done,
    /// Of `GetMessage`.
    Message(Box<StoredMessage>),
    /// Of `CreateConsumer` and `ConsumerInfo`.
    Consumer(Box<ConsumerInfo>),
    /// Of `ListConsumers`.
    Consumers {
        /// Of all, not of this page.
        total: usize,
        /// Names of this page.
        names: Vec<String>,
        /// Infos of this page, if asked for.
        infos: Vec<ConsumerInfo>,
    },
    /// Of `PauseConsumer`.
    Paused(ConsumerPause),
    /// Of `ResetConsumer`.
    Reset {
        /// The consumer as it is now.
        info: Box<ConsumerInfo>,
        /// Where it goes on.
        sequence: u64,
    },
}
