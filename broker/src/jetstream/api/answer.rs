//! What is common to all requests: reading the body, finding the stream, writing the answer, telling auditors.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::API_LEVEL;
use api::jetstream::advisory::{Advisory, ApiAudit, ApiLimitReached};
use api::jetstream::decode::{self, Mode};
use api::jetstream::request::StreamRequest;
use api::jetstream::response::{Body, Response as Document};
use jetstream::{Request, Response};
use serde::de::DeserializeOwned;

use super::ApiRequest;
use crate::jetstream::directory::StreamEntry;
use crate::jetstream::shard::{Input, Outbound, Outgoing, Respond};
use crate::jetstream::{Shared, advise};

/// A request that is being answered.
#[derive(Debug)]
pub struct Ctx {
    /// JetStream.
    pub shared: Arc<Shared>,
    /// The request.
    pub request: ApiRequest,
    /// Header block of the answer, unless it is an error.
    headers: Vec<u8>,
}

impl Ctx {
    /// Counts a new request.
    pub fn new(shared: Arc<Shared>, request: ApiRequest) -> Self {
        let counters = &request.account.api;
        counters.total.fetch_add(1, Relaxed);
        counters.inflight.fetch_add(1, Relaxed);
        Self { shared, request, headers: Vec::new() }
    }

    /// Tells in the answer which of all streams of its name this one is.
    pub fn identify(&mut self, stream: &StreamEntry) {
        self.headers = format!("NATS/1.0\r\nNats-Stream-Identity: {}\r\n\r\n", stream.identity).into_bytes();
    }

    /// Is this server's API as new as the request wants it?
    pub fn meets_level(&self) -> bool {
        let wanted = protocol::header::find(&self.request.message.headers, b"Nats-Required-Api-Level");
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else { return true };
        let level = std::str::from_utf8(wanted).ok().and_then(|text| text.parse::<i64>().ok());
        level.is_some_and(|level| level <= API_LEVEL)
    }

    /// Reads the body.
    pub fn body<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        Ok(decode::decode(&self.request.message.payload, self.mode())?)
    }

    /// Reads the body of a request that passes over what is no object.
    pub fn lax_body<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        if self.has_document() { self.body() } else { Ok(T::default()) }
    }

    /// Whether the body is an object or an array.
    pub fn has_document(&self) -> bool {
        decode::is_object_or_array(&self.request.message.payload)
    }

    /// Reads the body of a request that knows neither strictness nor places in it.
    pub fn loose_body<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        decode::decode_one(&self.request.message.payload).map_err(|error| {
            let text = error.to_string();
            let (text, _) = text.split_once(" at offset ").unwrap_or((&text, ""));
            ErrorCode::INVALID_JSON.because(text)
        })
    }

    /// Reads the configuration of a stream.
    pub fn stream_request(&self) -> Result<StreamRequest, ApiError> {
        Ok(decode::stream_request(&self.request.message.payload, self.mode())?)
    }

    fn mode(&self) -> Mode {
        if self.shared.server.options().jetstream.strict { Mode::Strict } else { Mode::Lenient }
    }

    /// Has the request no body, or an object without members?
    pub fn has_body(&self) -> bool {
        !decode::is_empty_request(&self.request.message.payload)
    }

    /// The stream of that name.
    pub fn stream(&self, name: &str) -> Result<Arc<StreamEntry>, ApiError> {
        self.request.account.stream(name.as_bytes()).ok_or_else(|| ErrorCode::STREAM_NOT_FOUND.into())
    }

    /// Has a stream answer. `document` makes what the client sees from what the stream says.
    pub fn ask<T: Body>(
        self,
        stream: &StreamEntry,
        request: Request,
        document: impl FnOnce(Response) -> T + Send + 'static,
    ) {
        let respond = Respond::new(move |outgoing, result| self.answer(outgoing, result.map(document)));
        stream.inbox.push_request(Input::Request {
            group: stream.group,
            request: Box::new(request),
            respond,
        });
    }

    /// Writes the answer.
    pub fn answer<T: Body>(self, outgoing: &mut Outgoing, result: Result<T, ApiError>) {
        let failed = result.is_err();
        let document = match result {
            Ok(body) => Document::ok(body),
            Err(error) => Document::failed(error),
        };
        let Ok(payload) = api::json::to_vec(&document) else { unreachable!("plain data has a JSON form") };
        self.finish(outgoing, &payload, failed);
    }

    /// Leaves the request without an answer, as one that no endpoint knows.
    pub fn ignore(self) {
        let counters = &self.request.account.api;
        counters.total.fetch_sub(1, Relaxed);
        counters.inflight.fetch_sub(1, Relaxed);
    }

    fn finish(self, outgoing: &mut Outgoing, payload: &[u8], failed: bool) {
        let entry = &self.request.account;
        entry.api.inflight.fetch_sub(1, Relaxed);
        if failed {
            entry.api.errors.fetch_add(1, Relaxed);
        }
        let reply = &self.request.reply;
        let headers = if failed { &[] } else { self.headers.as_slice() };
        let message = Outbound { to: reply, subject: reply, reply: None, headers, payload };
        outgoing.send(&entry.account, &message);
        if !self.request.path.starts_with(b"STREAM.MSG.GET.") {
            advise::audit(&self.shared, outgoing, &entry.account, || self.audit(payload));
        }
    }

    fn audit(&self, response: &[u8]) -> ApiAudit {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // Requests in the system account carry no client with them.
        let publisher = self.request.message.publisher.filter(|_| !self.request.account.account.is_system());
        ApiAudit {
            server: self.shared.server.identity.name.clone(),
            client: crate::system::events::client_of(&self.shared.server, publisher),
            subject: text(&self.request.message.subject),
            request: text(&self.request.message.payload),
            response: text(response),
            domain: self.shared.domain.clone().unwrap_or_default(),
        }
    }
}

/// Tells in the system account that requests were dropped.
pub(super) fn limit_reached(shared: &Shared, outgoing: &mut Outgoing, dropped: i64) {
    let Some(system) = shared.server.accounts.system() else { return };
    let body = ApiLimitReached {
        server: shared.server.identity.name.clone(),
        domain: shared.domain.clone().unwrap_or_default(),
        dropped,
    };
    let timestamp = api::Time::from_unix_nanos(i128::from(crate::clock::unix_nanos()));
    let advisory = Advisory::new(crate::system::event_id(&shared.server), timestamp, body);
    let Ok(payload) = api::json::to_vec(&advisory) else { unreachable!("plain data has a JSON form") };
    let subject = b"$JS.EVENT.ADVISORY.API.LIMIT_REACHED";
    let message = Outbound { to: subject, subject, reply: None, headers: b"", payload: &payload };
    outgoing.send(&system, &message);
}
