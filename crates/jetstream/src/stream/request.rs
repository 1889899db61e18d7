//! Requests to a stream: its own are answered or proposed here, those about consumers in `consumer_request`.

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::request::{MsgGet, Purge};
use api::jetstream::stream::{Retention, SEQUENCE_MAX, StreamConfig};

use super::flight::Flight;
use super::ingest::DEFERRED_MAX;
use super::{Deferred, Incoming, Stream, direct};
use crate::command::Command;
use crate::consumer::{Acknowledgement, FlowControlSubject};
use crate::effect::{Effect, Effects};
use crate::outside::Outside;
use crate::request::{Request, Response, Token};

/// Requests that wait for commands in flight. More are refused.
const REQUESTS_MAX: usize = 20_000;

/// What a direct get is refused with when too many wait.
const BUSY: &str = "429 Too Many Requests";

impl Stream {
    /// Takes a request. It sees what came before it, so it may have to wait until that is applied. The answer comes as `Effect::Reply`, when it has
    /// its turn or when what it asks for is durable.
    pub fn handle_request(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        token: Token,
        request: Request,
    ) {
        if let Some(refusal) = self.refusal() {
            return match request {
                Request::DirectGet { reply, .. } if self.leading => {
                    direct::status(effects, reply, direct::OFFLINE)
                }
                _ => effects.push(Effect::Reply(token, Err(refusal))),
            };
        }
        if self.deferred.is_empty() {
            return self.order_request(outside, effects, (token, request));
        }
        if self.deferred.len() >= DEFERRED_MAX {
            return refuse(effects, token, request);
        }
        self.deferred.push_back(Deferred::Request(token, Box::new(request)));
    }

    /// Takes a request that is content with what is there now: nothing in flight holds it up. Only what changes nothing can be asked for.
    pub fn handle_glance(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        token: Token,
        request: Request,
    ) {
        if let Some(refusal) = self.refusal() {
            return effects.push(Effect::Reply(token, Err(refusal)));
        }
        match request {
            Request::StreamInfo(_)
            | Request::GetMessage(_)
            | Request::DirectGet { .. }
            | Request::ConsumerInfo { .. }
            | Request::ListConsumers { .. } => self.answer_request(outside, effects, (token, request)),
            _ => {
                let stopped = self.stopped.as_ref();
                let refusal = stopped.map(|reason| ErrorCode::STREAM_OFFLINE_REASON.because(reason));
                let refusal = refusal.unwrap_or_else(|| ErrorCode::BAD_REQUEST.into());
                effects.push(Effect::Reply(token, Err(refusal)));
            }
        }
    }

    /// Is something in flight that a request would wait for?
    pub fn is_unsettled(&self) -> bool {
        self.leading && (self.flights.has_changes() || !self.deferred.is_empty())
    }

    /// Why there are no answers, if there are none.
    fn refusal(&self) -> Option<ApiError> {
        if !self.leading {
            return Some(ErrorCode::CLUSTER_NOT_LEADER.into());
        }
        self.failed.as_ref().map(|reason| ErrorCode::STREAM_GENERAL.because(reason))
    }

    /// Gives a request its place among the commands in flight, if it needs one.
    pub(crate) fn order_request(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        request: (Token, Request),
    ) {
        let (token, request) = request;
        if !self.must_wait(effects, &request) {
            return self.answer_request(outside, effects, (token, request));
        }
        if self.flights.requests() >= REQUESTS_MAX {
            return refuse(effects, token, request);
        }
        self.flights.push(Flight::Request(token, Box::new(request)));
    }

    /// Does something in flight change what the request is about?
    fn must_wait(&mut self, effects: &mut Effects, request: &Request) -> bool {
        match request {
            // They become commands, which are applied in their turn.
            Request::UpdateStream(_) | Request::Purge(_) | Request::DeleteMessage { .. } => false,
            Request::DirectGet { request, .. } if self.is_settled(request) => false,
            // Elsewhere acknowledgements remove messages.
            _ if self.facts.config.retention != Retention::Limits => {
                self.propose_states(effects);
                !self.flights.is_empty()
            }
            _ => self.flights.has_changes(),
        }
    }

    /// Is it one message that is asked for, and nothing in flight makes it another one? So reads of a bucket do not wait for its writes.
    fn is_settled(&mut self, request: &MsgGet) -> bool {
        if request.batch != 0 || !request.multi_last.is_empty() || self.flights.has_removals() {
            return false;
        }
        let subject = request.last_by_subj.as_bytes();
        if subject.is_empty() {
            return request.seq > 0
                && request.next_by_subj.is_empty()
                && request.seq <= self.store.state().last_sequence;
        }
        !subject::has_wildcard(subject) && self.flights.subject(subject).is_none()
    }

    /// What is in flight is not applied any more: whoever waits for it to be read hears why.
    pub(super) fn refuse_requests(&mut self, effects: &mut Effects, error: &ApiError) {
        for (token, _) in self.flights.take_requests() {
            effects.push(Effect::Reply(token, Err(error.clone())));
        }
        self.deferred.retain(|deferred| match deferred {
            Deferred::Publish(_) => true,
            Deferred::Request(token, _) => {
                effects.push(Effect::Reply(*token, Err(error.clone())));
                false
            }
        });
    }

    /// Answers requests that everything before them is applied for. One that became a change of the consumers holds up those behind it.
    pub(crate) fn handle_ordered_requests(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        while let Some((token, request)) = self.flights.pop_request() {
            if self.flights.has_consumers() {
                self.flights.push(Flight::Request(token, Box::new(request)));
            } else {
                self.answer_request(outside, effects, (token, request));
            }
        }
    }

    fn answer_request(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        request: (Token, Request),
    ) {
        let (token, request) = request;
        let answer = match request {
            Request::StreamInfo(details) => Ok(self.info_page(outside, &details)),
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
            consumers => return self.handle_consumer_request(outside, effects, (token, consumers)),
        };
        effects.push(Effect::Reply(token, answer));
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
            if purge.seq > SEQUENCE_MAX {
                let reason = format_args!("sequence can not be above {SEQUENCE_MAX}");
                return Err(ErrorCode::STREAM_PURGE_FAILED.because(reason));
            }
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
    pub fn handle_ack(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        ack: &Acknowledgement<'_>,
    ) {
        let (consumers, mut ctx) = self.split(outside, effects);
        consumers.call(&mut ctx, ack.consumer, |consumer, ctx| consumer.handle_ack(ctx, ack));
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
    }
}

/// Too many wait.
fn refuse(effects: &mut Effects, token: Token, request: Request) {
    match request {
        Request::DirectGet { reply, .. } => direct::status(effects, reply, BUSY),
        _ => effects.push(Effect::Reply(token, Err(ErrorCode::CLUSTER_NOT_AVAIL.into()))),
    }
}
