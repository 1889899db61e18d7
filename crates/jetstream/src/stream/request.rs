//! Requests to a stream: its own are answered or proposed here, those about consumers in `consumer_request`.

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::request::Purge;
use api::jetstream::stream::StreamConfig;

use super::flight::Flight;
use super::{Incoming, Stream};
use crate::command::Command;
use crate::consumer::{AckSubject, FlowControlSubject};
use crate::effect::{Effect, Effects};
use crate::outside::Outside;
use crate::request::{Request, Response, Token};

/// Requests that wait for a change of the consumers in flight. More are refused.
const REQUESTS_MAX: usize = 20_000;

impl Stream {
    /// Takes a request. The answer comes as `Effect::Reply`, now or when what it asks for is durable.
    pub fn handle_request(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        token: Token,
        request: Request,
    ) {
        if !self.leading {
            return effects.push(Effect::Reply(token, Err(ErrorCode::CLUSTER_NOT_LEADER.into())));
        }
        if let Some(reason) = &self.failed {
            let error = ErrorCode::STREAM_GENERAL.because(reason);
            return effects.push(Effect::Reply(token, Err(error)));
        }
        let answer = match request {
            Request::StreamInfo(details) => self.info_page(outside, &details),
            Request::GetMessage(request) => {
                self.get_message(&request).map(|message| Response::Message(Box::new(message)))
            }
            Request::DirectGet { reply, request } => return self.handle_direct(effects, reply, &request),
            Request::UpdateStream(config) => return self.propose_update(effects, token, &config),
            Request::Purge(purge) => match self.propose_purge(effects, token, &purge) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Request::DeleteMessage { sequence, erase } => {
                match self.propose_remove(effects, token, (sequence, erase)) {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
            consumers if self.flights.has_consumers() || !self.requests.is_empty() => {
                if self.requests.len() < REQUESTS_MAX {
                    return self.requests.push_back((token, consumers));
                }
                Err(ErrorCode::CLUSTER_NOT_AVAIL.into())
            }
            consumers => return self.handle_consumer_request(outside, effects, (token, consumers)),
        };
        effects.push(Effect::Reply(token, answer));
    }

    /// Takes requests that waited, as far as they need not wait on.
    pub(crate) fn handle_deferred_requests(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        while !self.flights.has_consumers()
            && let Some((token, request)) = self.requests.pop_front()
        {
            self.handle_consumer_request(outside, effects, (token, request));
        }
    }

    fn propose_update(&mut self, effects: &mut Effects, token: Token, config: &StreamConfig) {
        match serde_json::to_vec(config) {
            Ok(config) => {
                Command::Update { config: &config }.encode(&mut effects.proposal);
                self.flights.push(Flight::Removal(Some(token)));
            }
            Err(error) => {
                let error = ErrorCode::STREAM_UPDATE.because(error);
                effects.push(Effect::Reply(token, Err(error)));
            }
        }
    }

    fn propose_purge(&mut self, effects: &mut Effects, token: Token, purge: &Purge) -> Result<(), ApiError> {
        if purge.seq > 0 && purge.keep > 0 {
            return Err(ErrorCode::BAD_REQUEST.into());
        }
        if self.facts.config.sealed {
            return Err(ErrorCode::STREAM_SEALED.into());
        }
        if self.facts.config.deny_purge {
            return Err(ErrorCode::STREAM_PURGE_FAILED.because("stream purge not permitted"));
        }
        let filter = purge.filter.as_bytes();
        if (filter.is_empty() || filter == b">") && purge.seq > 0 {
            // A purge may use up sequences that no message had.
            self.flights.raise(purge.seq - 1);
        }
        Command::Purge { filter, below: purge.seq, keep: purge.keep }.encode(&mut effects.proposal);
        self.flights.push(Flight::Removal(Some(token)));
        Ok(())
    }

    fn propose_remove(
        &mut self,
        effects: &mut Effects,
        token: Token,
        what: (u64, bool),
    ) -> Result<(), ApiError> {
        let (sequence, erase) = what;
        if self.facts.config.sealed {
            return Err(ErrorCode::STREAM_SEALED.into());
        }
        if self.facts.config.deny_delete {
            return Err(ErrorCode::STREAM_MSG_DELETE_FAILED.because("message delete not permitted"));
        }
        Command::Remove { sequence, erase }.encode(&mut effects.proposal);
        self.flights.push(Flight::Removal(Some(token)));
        Ok(())
    }

    /// A client asks a consumer for messages. An unknown consumer has no answer: the shell knows the names and tells "no responders".
    pub fn handle_pull(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        consumer: &str,
        pull: Incoming<'_>,
    ) {
        let Some(reply) = pull.reply else { return };
        let (consumers, mut ctx) = self.split(outside, effects);
        if let Some(id) = consumers.find(consumer) {
            consumers.call(&mut ctx, id, |consumer, ctx| {
                consumer.handle_pull(ctx, reply, pull.headers, pull.payload);
            });
        }
    }

    /// A client answers a delivery.
    pub fn handle_ack(&mut self, outside: &mut dyn Outside, effects: &mut Effects, ack: Incoming<'_>) {
        let Some(subject) = AckSubject::parse(ack.subject) else { return };
        let (consumers, mut ctx) = self.split(outside, effects);
        if let Some(id) = consumers.find(subject.consumer) {
            consumers.call(&mut ctx, id, |consumer, ctx| {
                consumer.handle_ack(ctx, &subject.tokens, ack.reply, ack.payload);
            });
        }
    }

    /// A client answers a flow control request.
    pub fn handle_flow_control(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        answer: Incoming<'_>,
    ) {
        let Some(subject) = FlowControlSubject::parse(answer.subject) else { return };
        let (consumers, mut ctx) = self.split(outside, effects);
        if let Some(id) = consumers.find(subject.consumer) {
            consumers.call(&mut ctx, id, |consumer, ctx| {
                consumer.handle_flow_control(ctx, answer.subject, answer.headers);
            });
        }
    }

    /// Interest in a watched subject changed.
    pub fn handle_interest(&mut self, outside: &mut dyn Outside, effects: &mut Effects, subject: &[u8]) {
        let (consumers, mut ctx) = self.split(outside, effects);
        for id in consumers.delivering_to(subject) {
            consumers.call(&mut ctx, id, |consumer, ctx| consumer.handle_interest(ctx));
        }
        let unused = self.consumers.take_unused();
        self.propose_unused(effects, unused);
    }
}
