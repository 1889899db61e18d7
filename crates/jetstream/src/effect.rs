//! What a machine wants done by the shell, in the order in which it wants it.
//!
//! Commands for the group are gathered as bytes, so that all commands of one turn ride in one entry of the log. Everything else is a
//! queue. Both are emptied by the shell after each call, so they hold no more than one turn's worth.

use std::collections::VecDeque;
use std::sync::Arc;

use api::ApiError;
use api::jetstream::advisory;
use api::jetstream::consumer::ConsumerConfig;
use bytes::{Bytes, BytesMut};

use crate::request::{Response, Token};

/// One thing to do.
#[derive(Debug)]
pub enum Effect {
    /// Publish into the stream's account: acknowledgements, statuses, heartbeats, republished messages.
    Send(Send),
    /// Hand a stored message to a consumer's client.
    Deliver(Deliver),
    /// Answer a request.
    Reply(Token, Result<Response, ApiError>),
    /// Publish an advisory or a metric. The shell adds its id, time and domain.
    Advise(Box<Advisory>),
    /// Tell `handle_interest` from now on when interest in this literal subject appears or goes.
    Watch(Bytes),
    /// Stop telling.
    Unwatch(Bytes),
    /// There is a consumer of this name now, with this number and configuration.
    ConsumerAdded(Box<str>, u64, Arc<ConsumerConfig>),
    /// There is no consumer of this name any more.
    ConsumerRemoved(Box<str>),
    /// Listen to a subject of the stream's account. What comes goes to `handle_sourced`, with this number of the subscription.
    Subscribe {
        /// Never used again in this life of the stream.
        inbox: u64,
        /// Literal subject.
        subject: Bytes,
    },
    /// Listen no longer.
    Unsubscribe(u64),
    /// From now on this mirror answers direct gets for its origin as well, or does no longer.
    AnswerForOrigin(bool),
    /// A checkpoint is wanted soon, because something must be destroyed on disk.
    CheckpointSoon,
    /// The disk failed or data is damaged; the text names stream, block and range. For log, health and advisory.
    Damaged(String),
}

/// What an advisory or metric tells. The shell adds id, time and domain, and finds its subject by kind, stream and consumer.
#[derive(Debug, Clone, PartialEq)]
pub enum Advisory {
    /// A consumer was made or deleted.
    Consumer(advisory::ConsumerAction),
    /// A consumer was paused or resumed.
    Paused(advisory::ConsumerPause),
    /// A client was pinned.
    Pinned(advisory::ConsumerGroupPinned),
    /// A client is pinned no longer.
    Unpinned(advisory::ConsumerGroupUnpinned),
    /// A message was delivered as often as allowed.
    MaxDeliveries(advisory::MaxDeliveries),
    /// A client did not want a message now.
    Naked(advisory::MessageNaked),
    /// A message will not be delivered again.
    Terminated(advisory::MessageTerminated),
    /// A sampled acknowledgement.
    Acked(advisory::ConsumerAck),
    /// A dead letter is not stored yet.
    DeadLetterFailed(advisory::DeadLetterFailed),
    /// A batch will not be stored.
    BatchAbandoned(advisory::StreamBatchAbandoned),
}

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// Literal subject.
    pub subject: Bytes,
    /// Where an answer goes.
    pub reply: Option<Bytes>,
    /// Header block; empty for none.
    pub headers: Bytes,
    /// Body.
    pub payload: Bytes,
}

/// A stored message for a client: it is routed by `to`, but the client sees `subject` (jetstream-api, section 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deliver {
    /// Deliver subject or inbox of the pull request.
    pub to: Bytes,
    /// Subject the message was stored under.
    pub subject: Bytes,
    /// Acknowledgement subject.
    pub reply: Bytes,
    /// Header block; empty for none.
    pub headers: Bytes,
    /// Body.
    pub payload: Bytes,
}

/// Collects the effects of one call.
#[derive(Debug, Default)]
pub struct Effects {
    /// Encoded commands, each with its length in front (see `command`).
    pub proposal: BytesMut,
    /// The rest.
    pub queue: VecDeque<Effect>,
    /// Somebody waits for a command to last. Unless this is set, what consumers know of their messages may wait for company on its way to the log.
    pub awaited: bool,
}

impl Effects {
    /// Adds one.
    #[inline]
    pub fn push(&mut self, effect: Effect) {
        self.queue.push_back(effect);
    }
}
