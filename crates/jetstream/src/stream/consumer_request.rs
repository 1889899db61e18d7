//! Requests about the consumers of a stream, and the commands they become.
//!
//! The set of consumers changes by one command at a time: a request that comes while one is in flight waits, so each is decided against what is
//! applied.

use std::sync::Arc;

use api::ApiError;
use api::duration::Nanos;
use api::error::jetstream::ErrorCode;
use api::jetstream::account;
use api::jetstream::consumer::{
    Admission, ConsumerAction, ConsumerConfig, ConsumerInfo, Consumers as Known, StreamView, admit,
    upgrade_sourcing,
};
use api::jetstream::limits::{AccountLimits, ServerLimits, tier_name};
use api::jetstream::metadata;
use api::jetstream::response::ConsumerPause;
use bytes::Bytes;
use store::stream::Filter;

use super::Stream;
use super::apply::{ApplyError, answer_request};
use super::consumers::Consumers;
use super::flight::Flight;
use super::info::api_time;
use crate::command::Command;
use crate::consumer::Consumer;
use crate::effect::{Effect, Effects};
use crate::limits::{self, Limits};
use crate::outside::Outside;
use crate::request::{Request, Response, Token};

/// Letters of a generated name.
const NAME_ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Length of a generated name.
const NAME_LENGTH: usize = 8;

/// The consumers as checks see them.
struct Present<'a> {
    consumers: &'a Consumers,
    outside: &'a dyn Outside,
}

impl Known for Present<'_> {
    fn consumer(&self, name: &str) -> Option<&ConsumerConfig> {
        let id = self.consumers.find(name)?;
        self.consumers.get(id).map(|consumer| &**consumer.config())
    }

    fn visit(&self, function: &mut dyn FnMut(&str, &ConsumerConfig)) {
        self.consumers.iter().for_each(|consumer| function(consumer.name(), consumer.config()));
    }

    fn count(&self) -> i64 {
        self.consumers.limited() as i64
    }

    fn has_interest(&self, subject: &str) -> bool {
        self.outside.has_interest(subject.as_bytes())
    }
}

/// The server's limits as checks see them.
fn server_limits(limits: &Limits) -> ServerLimits {
    let server = &limits.server;
    ServerLimits {
        max_ack_pending: server.ack_pending_max.unwrap_or(0),
        max_request_batch: server.request_batch_max.unwrap_or(0),
        default_max_consumers: server.consumers_default.unwrap_or(0),
        features: server.features,
        ..ServerLimits::default()
    }
}

/// The account's limits as checks see them.
fn account_limits(limits: &Limits) -> AccountLimits {
    let one = |tier: &limits::TierLimits| account::Limits {
        max_consumers: tier.consumers_max,
        max_ack_pending: tier.ack_pending_max,
        ..account::Limits::UNLIMITED
    };
    match &limits.account {
        limits::AccountLimits::Flat(tier) => AccountLimits::Flat(one(tier)),
        limits::AccountLimits::Tiered(tiers) => {
            let tiers = tiers
                .iter()
                .zip(1..)
                .filter_map(|(tier, replicas)| tier.as_ref().map(|tier| (tier_name(replicas), one(tier))));
            AccountLimits::Tiered(tiers.collect())
        }
    }
}

impl Stream {
    /// Decides about a consumer's configuration: what is asked for, whether it may be there already, whether nothing may be put right.
    pub(super) fn admit_consumer(
        &self,
        outside: &dyn Outside,
        request: (&ConsumerConfig, ConsumerAction, bool),
    ) -> Result<Admission, ApiError> {
        let (config, action, pedantic) = request;
        let limits = outside.limits();
        let view = StreamView {
            config: &self.facts.config,
            consumers: &Present { consumers: &self.consumers, outside },
            server: &server_limits(limits),
            limits: &account_limits(limits),
        };
        admit(config, action, view, pedantic)
    }

    /// Answers or proposes; no change of the consumers is in flight.
    pub(crate) fn handle_consumer_request(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        request: (Token, Request),
    ) {
        let (token, request) = request;
        let answer = match request {
            Request::CreateConsumer { mut config, action, pedantic } => {
                if !upgrade_sourcing(&mut config, &self.facts.config) {
                    // The other side uses one name for all its attempts.
                    config.name = format!("{}-{}", config.name, self.new_name(outside));
                }
                match self.admit_consumer(outside, (&config, action, pedantic)) {
                    Ok(admission) => self.propose_admission(outside, effects, (token, admission)),
                    Err(error) => Some(Err(error)),
                }
            }
            Request::ConsumerInfo { consumer } => {
                let info = self.consumer_info(outside, effects, &consumer);
                Some(info.map(|info| Response::Consumer(Box::new(info))))
            }
            Request::ListConsumers { offset, limit, infos } => {
                Some(Ok(self.list_consumers(outside, effects, (offset, limit, infos))))
            }
            Request::DeleteConsumer { consumer } => match self.consumers.find(&consumer) {
                Some(id) => {
                    self.propose_consumers(effects, Some(token), &Command::DeleteConsumer { id });
                    None
                }
                None => Some(Err(ErrorCode::CONSUMER_NOT_FOUND.into())),
            },
            Request::PauseConsumer { consumer, until } => {
                self.propose_pause(outside, effects, (token, &consumer, until)).err().map(Err)
            }
            Request::UnpinConsumer { consumer, group } => {
                Some(self.unpin(outside, effects, (&consumer, &group)).map(|()| Response::Done))
            }
            Request::ResetConsumer { consumer, sequence } => {
                self.propose_reset(outside, effects, (token, &consumer, sequence)).err().map(Err)
            }
            // Everything else was answered before.
            _ => Some(Err(ErrorCode::BAD_REQUEST.into())),
        };
        if let Some(answer) = answer {
            effects.push(Effect::Reply(token, answer));
        }
    }

    fn propose_consumers(&mut self, effects: &mut Effects, token: Option<Token>, command: &Command<'_>) {
        // What consumers did in this turn comes before what changes their set.
        self.propose_states(effects);
        command.encode(&mut effects.proposal);
        self.flights.push(Flight::Consumers(token));
    }

    /// Proposes to make or change a consumer. An answer if there is nothing to propose.
    fn propose_admission(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        admission: (Token, Admission),
    ) -> Option<Result<Response, ApiError>> {
        let (token, admission) = admission;
        let now = outside.now();
        match admission {
            Admission::Create(mut config) => {
                if config.name.is_empty() {
                    config.name.clone_from(&config.durable_name);
                }
                // A name that nobody asked for stands beside the configuration, not in it.
                let name = match config.name.as_str() {
                    "" => self.new_name(outside),
                    name => name.to_owned(),
                };
                let Ok(bytes) = serde_json::to_vec(&config) else {
                    return Some(Err(ErrorCode::BAD_REQUEST.into()));
                };
                let id = self.consumers.next_id();
                let command = Command::CreateConsumer { id, created: now, name: &name, config: &bytes };
                self.propose_consumers(effects, Some(token), &command);
            }
            Admission::Update(mut config) => {
                let name = config.effective_name().to_owned();
                config.name.clone_from(&name);
                let Some(id) = self.consumers.find(&name) else {
                    return Some(Err(ErrorCode::CONSUMER_NOT_FOUND.into()));
                };
                let same = self.consumers.get(id).is_some_and(|present| **present.config() == config);
                if same {
                    let info = self.consumer_info(outside, effects, &name);
                    return Some(info.map(|info| Response::Consumer(Box::new(info))));
                }
                return self.propose_config(outside, effects, (token, id, &config)).err().map(Err);
            }
        }
        None
    }

    fn propose_config(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        change: (Token, u64, &ConsumerConfig),
    ) -> Result<(), ApiError> {
        let (token, id, config) = change;
        let written =
            serde_json::to_vec(config).map_err(|error| ErrorCode::CONSUMER_CREATE.because(error))?;
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.call(&mut ctx, id, |consumer, _| consumer.announce(config));
        let command = Command::UpdateConsumer { id, time: outside.now(), config: &written };
        self.propose_consumers(effects, Some(token), &command);
        Ok(())
    }

    /// A name that no consumer has.
    fn new_name(&self, outside: &mut dyn Outside) -> String {
        loop {
            let mut bits = outside.random();
            let mut name = String::with_capacity(NAME_LENGTH);
            for _ in 0..NAME_LENGTH {
                let size = NAME_ALPHABET.len() as u64;
                name.push(char::from(NAME_ALPHABET[(bits % size) as usize]));
                bits /= size;
            }
            if self.consumers.find(&name).is_none() {
                return name;
            }
        }
    }

    fn find_consumer(&self, name: &str) -> Result<u64, ApiError> {
        self.consumers.find(name).ok_or_else(|| ErrorCode::CONSUMER_NOT_FOUND.into())
    }

    fn consumer_info(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        name: &str,
    ) -> Result<ConsumerInfo, ApiError> {
        let id = self.find_consumer(name)?;
        self.info_of(outside, effects, id).ok_or_else(|| ErrorCode::CONSUMER_NOT_FOUND.into())
    }

    fn info_of(&mut self, outside: &mut dyn Outside, effects: &mut Effects, id: u64) -> Option<ConsumerInfo> {
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.call(&mut ctx, id, |consumer, ctx| consumer.info(ctx))
    }

    fn list_consumers(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        page: (usize, usize, bool),
    ) -> Response {
        let (offset, limit, infos) = page;
        let names = self.consumers.names();
        let total = names.len();
        let page: Vec<Arc<str>> = names.into_iter().skip(offset).take(limit).collect();
        let infos = if infos {
            let infos = page.iter().map(|name| self.consumer_info(outside, effects, name));
            infos.filter_map(Result::ok).collect()
        } else {
            Vec::new()
        };
        Response::Consumers { total, names: page.iter().map(ToString::to_string).collect(), infos }
    }

    fn propose_pause(
        &mut self,
        outside: &dyn Outside,
        effects: &mut Effects,
        pause: (Token, &str, api::Time),
    ) -> Result<(), ApiError> {
        let (token, name, until) = pause;
        let id = self.find_consumer(name)?;
        let Some(consumer) = self.consumers.get(id) else {
            return Err(ErrorCode::CONSUMER_NOT_FOUND.into());
        };
        let mut config = (**consumer.config()).clone();
        config.pause_until = (!until.is_zero()).then_some(until);
        let level = metadata::consumer_level(&config);
        metadata::set_required_level(&mut config.metadata, level);
        let config =
            serde_json::to_vec(&config).map_err(|error| ErrorCode::CONSUMER_CREATE.because(error))?;
        let command = Command::UpdateConsumer { id, time: outside.now(), config: &config };
        self.propose_consumers(effects, None, &command);
        self.pauses.push((token, id, until));
        Ok(())
    }

    /// Answers the pauses whose command is applied.
    fn answer_pauses(&mut self, outside: &dyn Outside, effects: &mut Effects, id: u64) {
        let now = api_time(outside.now());
        let (done, waiting) = std::mem::take(&mut self.pauses).into_iter().partition(|pause| pause.1 == id);
        self.pauses = waiting;
        let done: Vec<(Token, u64, api::Time)> = done;
        for (token, _, until) in done {
            let paused = until > now;
            let remaining = if paused { Nanos::from(until.saturating_since(now)) } else { Nanos::ZERO };
            let answer = ConsumerPause { paused, pause_until: until, pause_remaining: remaining };
            effects.push(Effect::Reply(token, Ok(Response::Paused(answer))));
        }
    }

    fn unpin(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (&str, &str),
    ) -> Result<(), ApiError> {
        let (name, group) = what;
        let id = self.find_consumer(name)?;
        let (consumers, mut ctx) = self.split(outside, effects);
        let done = consumers.call(&mut ctx, id, |consumer, ctx| {
            consumer.check_unpin(group)?;
            consumer.unpin(ctx);
            Ok(())
        });
        done.unwrap_or_else(|| Err(ErrorCode::CONSUMER_NOT_FOUND.into()))
    }

    fn propose_reset(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        reset: (Token, &str, u64),
    ) -> Result<(), ApiError> {
        let (token, name, sequence) = reset;
        let id = self.find_consumer(name)?;
        let (consumers, mut ctx) = self.split(outside, effects);
        let start = consumers.call(&mut ctx, id, |consumer, ctx| consumer.check_reset(ctx, sequence));
        let sequence = start.unwrap_or_else(|| Err(ErrorCode::CONSUMER_NOT_FOUND.into()))?;
        self.propose_consumers(effects, Some(token), &Command::ResetConsumer { id, sequence });
        Ok(())
    }

    /// Proposes the end of consumers that nobody uses, and at the beginning of a lead of those whose state did not survive.
    pub(crate) fn propose_unused(&mut self, effects: &mut Effects, unused: Vec<u64>) {
        for id in unused {
            self.propose_consumers(effects, None, &Command::DeleteConsumer { id });
        }
    }

    pub(crate) fn apply_consumers(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        command: (&Command<'_>, Option<Flight>),
    ) -> Result<(), ApplyError> {
        let (command, flight) = command;
        match command {
            Command::CreateConsumer { id, created, name, config } => {
                let config: Arc<ConsumerConfig> = Arc::new(serde_json::from_slice(config)?);
                self.dirty = true;
                let leading = self.leading;
                let (consumers, mut ctx) = self.split(outside, effects);
                let consumer = Consumer::new(&mut ctx, (*name).into(), config, *created)?;
                consumers.insert(&mut ctx, *id, consumer, leading);
                self.answer_info(outside, effects, (*id, flight));
            }
            Command::UpdateConsumer { id, config, .. } => {
                let config: Arc<ConsumerConfig> = Arc::new(serde_json::from_slice(config)?);
                let (consumers, mut ctx) = self.split(outside, effects);
                let updated = consumers.update(&mut ctx, *id, |consumer, ctx| consumer.update(ctx, config));
                if let Some(consumer) = consumers.get(*id) {
                    let config = Arc::clone(consumer.config());
                    ctx.effects.push(Effect::ConsumerAdded(consumer.name().into(), *id, config));
                }
                if let Some((result, before)) = updated {
                    result?;
                    self.sweep(outside, effects, (&before, None))?;
                }
                self.answer_pauses(outside, effects, *id);
                self.answer_info(outside, effects, (*id, flight));
            }
            Command::ResetConsumer { id, sequence } => {
                let (consumers, mut ctx) = self.split(outside, effects);
                consumers.call(&mut ctx, *id, |consumer, ctx| consumer.reset(ctx, *sequence));
                self.release_consumer(outside, effects, *id)?;
                if let Some(Flight::Consumers(Some(_))) = &flight {
                    let info = self.info_of(outside, effects, *id);
                    let info = info.ok_or_else(|| ErrorCode::CONSUMER_NOT_FOUND.into());
                    let answer =
                        info.map(|info| Response::Reset { info: Box::new(info), sequence: *sequence });
                    answer_request(effects, flight, answer);
                }
            }
            Command::DeleteConsumer { id } => {
                let leading = self.leading;
                let (consumers, mut ctx) = self.split(outside, effects);
                if let Some(consumer) = consumers.remove(&mut ctx, *id, leading) {
                    let filter: Filter = consumer.filter().clone();
                    self.sweep(outside, effects, (&filter, Some(*id)))?;
                }
                self.release_consumer(outside, effects, *id)?;
                self.dirty = true;
                answer_request(effects, flight, Ok(Response::Done));
            }
            Command::Consumer { id, bytes } => {
                let live = flight.is_some();
                let (consumers, mut ctx) = self.split(outside, effects);
                let applied = consumers.call(&mut ctx, *id, |consumer, ctx| consumer.apply(ctx, bytes, live));
                if let Some(applied) = applied {
                    let applied = applied
                        .map_err(|error| ApplyError::Consumer { id: *id, reason: error.to_string() })?;
                    self.remove_acked(outside, effects, (*id, &applied))?;
                    self.apply_letters(outside, effects, (*id, &applied))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn answer_info(&mut self, outside: &mut dyn Outside, effects: &mut Effects, what: (u64, Option<Flight>)) {
        let (id, flight) = what;
        if let Some(Flight::Consumers(Some(_))) = &flight {
            let info = self.info_of(outside, effects, id);
            let answer = info
                .map(|info| Response::Consumer(Box::new(info)))
                .ok_or_else(|| ErrorCode::CONSUMER_NOT_FOUND.into());
            answer_request(effects, flight, answer);
        }
    }
}

/// A message for one of the stream's consumers, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// Subject it was published to.
    pub subject: &'a [u8],
    /// Where an answer goes.
    pub reply: Option<&'a Bytes>,
    /// Header block; empty for none.
    pub headers: &'a [u8],
    /// Body.
    pub payload: &'a [u8],
}
