//! One consumer: which message of its stream goes to whom and when, and what came of it.
//!
//! The leader holds the part with clients and timers (`Lead`); all replicas hold `State`. What the leader does to the state at once is gathered
//! into one command a turn (`take_command`), which brings the other replicas and a restarted server to the same state.

mod ack;
mod advise;
mod apply;
mod codec;
mod command;
mod deliver;
mod document;
mod info;
mod keys;
mod lead;
mod letters;
mod maintain;
mod pending;
mod priority;
mod pull;
mod push;
mod queue;
mod redeliver;
mod settings;
mod start;
mod state;
mod wire;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use api::jetstream::consumer::ConsumerConfig;
use bytes::BytesMut;
use store::Timestamp;
use store::stream::{Error as StoreError, Filter, StreamStore};

pub use ack::{AckSubject, AckTokens, Acknowledgement, FlowControlSubject};
pub use codec::StateError;
pub use command::CommandError;
pub use document::DocumentError;
pub use state::Position;

use crate::effect::Effects;
use crate::outside::Outside;
use crate::stream::facts::StreamFacts;
use lead::Lead;
use settings::Settings;
use state::State;

/// What a consumer works with during one call.
pub struct Context<'a> {
    /// The world.
    pub outside: &'a mut dyn Outside,
    /// Where its wishes go.
    pub effects: &'a mut Effects,
    /// Messages of its stream.
    pub store: &'a dyn StreamStore,
    /// Its stream.
    pub facts: &'a StreamFacts,
}

/// How much may still be delivered in this turn, shared by the consumers of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Messages.
    pub messages: u32,
    /// Bytes, counted as `max_bytes` of a pull request counts them.
    pub bytes: u64,
}

impl Budget {
    /// Whether nothing may be delivered any more.
    pub fn is_spent(&self) -> bool {
        self.messages == 0 || self.bytes == 0
    }

    fn take(&mut self, size: u64) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}

/// Why a message left the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveReason {
    /// A limit of the stream: size, number, age, time to live.
    Limits,
    /// Somebody deleted it, or purged its subject.
    Deleted,
    /// The whole stream was purged, or a roll-up took its place: single messages are not told of.
    Purged,
    /// Nobody needs it.
    Acked,
}

/// What a command did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Messages that this consumer does not need any more.
    pub acked: Vec<RangeInclusive<u64>>,
    /// Messages that it has given up, and that stay until their letter is stored.
    pub given_up: Vec<u64>,
    /// Messages that it was given as often as allowed, and that get no letter.
    pub exhausted: Vec<u64>,
}

/// A consumer.
#[derive(Debug)]
pub struct Consumer {
    name: Arc<str>,
    created: Timestamp,
    config: Arc<ConsumerConfig>,
    settings: Settings,
    state: State,
    /// The state changed since the last checkpoint.
    dirty: bool,
    /// It never led: whoever listens is told if it begins paused.
    fresh: bool,
    lead: Option<Box<Lead>>,
}

impl Consumer {
    /// A new consumer; the same on every replica that applies its creation at the same point.
    pub fn new(
        ctx: &mut Context<'_>,
        name: Arc<str>,
        config: Arc<ConsumerConfig>,
        created: Timestamp,
    ) -> Result<Self, StoreError> {
        let settings = Settings::new(&config);
        let state = start::state(ctx.store, &config, &settings.filter)?;
        Ok(Self { name, created, config, settings, state, dirty: true, fresh: true, lead: None })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its configuration.
    pub fn config(&self) -> &Arc<ConsumerConfig> {
        &self.config
    }

    /// When it was made.
    pub fn created(&self) -> Timestamp {
        self.created
    }

    /// Messages it wants.
    pub fn filter(&self) -> &Filter {
        &self.settings.filter
    }

    /// Everything up to here is done, as people see it: it moves when something below the first open message is finished, not when a delivery
    /// shows that more was done.
    pub fn ack_floor(&self) -> Position {
        self.lead.as_ref().map_or_else(|| self.state.floor(), |lead| lead.floor)
    }

    /// The newest delivery.
    pub fn delivered(&self) -> Position {
        self.state.delivered
    }

    /// Whether it is lost with the process, like the reference's consumers with state in memory.
    pub fn is_volatile(&self) -> bool {
        self.config.mem_storage
    }

    /// Whether it holds any message that it has delivered, passed over or chosen.
    pub fn is_holding(&self) -> bool {
        self.state.is_holding()
    }

    /// Whether the state changed since `clear_dirty`.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The state was put into a checkpoint.
    pub fn clear_dirty(&mut self) {
        self.dirty = false;
    }

    /// Moves the command for what happened in this turn to `out`. False if nothing did that must be replicated.
    pub fn take_command(&mut self, out: &mut BytesMut) -> bool {
        let generation = self.state.generation;
        let Some(lead) = &mut self.lead else { return false };
        lead.account(&self.state);
        if lead.batch.is_empty() {
            // A confirmation without a change of its own waits for the changes before it.
            if let Some(last) = lead.in_flight.back_mut() {
                last.append(&mut lead.batch.replies);
            }
            return false;
        }
        let replies = lead.batch.take(generation, out);
        lead.in_flight.push_back(replies);
        true
    }

    /// Drops what happened in this turn instead, because no command lasts any more: nobody who waits for one is answered.
    pub fn drop_command(&mut self) {
        let Some(lead) = &mut self.lead else { return };
        lead.account(&self.state);
        lead.batch.forget_operations();
        lead.batch.replies.clear();
        // Something stays in flight for ever: who asks again, after a change that is not recorded, is not answered either.
        lead.in_flight = VecDeque::from([Vec::new()]);
    }

    /// Whether a client waits for the newest command to last.
    pub fn is_awaited(&self) -> bool {
        let newest = self.lead.as_ref().and_then(|lead| lead.in_flight.back());
        newest.is_some_and(|replies| !replies.is_empty())
    }
}
