//! What a leader checks before it takes a message, in the order that clients observe (jetstream-api, section 4, and trials of the reference).
//!
//! Checks that ask what a subject holds must not overtake something in flight that will remove messages. Such a message waits, and what is
//! published after it waits behind it, until the removal is applied.

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::stream::{Discard, PersistMode, Retention, SEQUENCE_MAX};
use bytes::Bytes;
use store::Timestamp;
use store::stream::{Expiry, Filter};

use super::batch::{FAST_SUFFIX, View};
use super::counter::{self, Count};
use super::flight::{Ack, Detailed, Flight, Message};
use super::headers::{self, Builder, Known};
use super::schedule;
use super::ttl::Ttl;
use super::{Deferred, Stream};
use crate::command::{Rollup, Store, Traits, encode_store};
use crate::effect::{Effect, Effects, Send};
use crate::outside::Outside;

/// Messages that wait for a removal in flight. More are refused with 429.
pub(crate) const DEFERRED_MAX: usize = 100_000;

/// Publishers that wait until the message of another one is durable. More are refused.
const WAITING_SENDS_MAX: usize = 10_000;

/// Largest header block.
pub(super) const HEADERS_MAX: usize = u16::MAX as usize;

/// Header block of a refusal because too much waits.
pub(crate) const TOO_MANY_REQUESTS: &[u8] = b"NATS/1.0 429 Too Many Requests\r\n\r\n";

/// A message published to one of the stream's subjects.
#[derive(Debug, Clone)]
pub struct Publish {
    /// Subject it was published to.
    pub subject: Bytes,
    /// Where the acknowledgement goes.
    pub reply: Option<Bytes>,
    /// Header block; empty for none.
    pub headers: Bytes,
    /// Body.
    pub payload: Bytes,
}

/// What becomes of a message.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is stored.
    Store(Plan),
    /// Its id was seen before, on the message with this sequence.
    Duplicate(u64),
    /// It cannot be told before what is in flight is applied.
    Wait,
}

/// How a message is stored.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) traits: Traits,
    pub(crate) expiry: Expiry,
    /// Instead of those published.
    pub(crate) headers: Option<Bytes>,
    /// Instead of the one published.
    pub(crate) payload: Option<Bytes>,
    /// New value of the counter.
    pub(crate) value: Option<Count>,
}

impl Stream {
    /// Takes a message from a client.
    pub fn handle_publish(&mut self, outside: &mut dyn Outside, effects: &mut Effects, publish: Publish) {
        if !self.leading {
            return;
        }
        let rest =
            if self.deferred.is_empty() { self.ingest(outside, effects, publish) } else { Some(publish) };
        let Some(publish) = rest else { return };
        if self.deferred.len() < DEFERRED_MAX {
            self.deferred.push_back(Deferred::Publish(publish));
        } else if let Some(reply) = publish.reply {
            let payload = self.acks.refused(&ErrorCode::STREAM_TOO_MANY_REQUESTS.into());
            let headers = Bytes::from_static(TOO_MANY_REQUESTS);
            effects.push(Effect::Send(Send { subject: reply, reply: None, headers, payload }));
        }
    }

    /// Takes what waited, as far as it need not wait on.
    pub(crate) fn ingest_deferred(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        while let Some(deferred) = self.deferred.pop_front() {
            match deferred {
                Deferred::Publish(publish) => {
                    if let Some(publish) = self.ingest(outside, effects, publish) {
                        self.deferred.push_front(Deferred::Publish(publish));
                        return;
                    }
                }
                Deferred::Request(token, request) => self.order_request(outside, effects, (token, *request)),
            }
        }
    }

    /// Gives the message back if it must wait.
    fn ingest(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        publish: Publish,
    ) -> Option<Publish> {
        let transformed = self.transformed(&publish.subject);
        if self.rules.fast_batches && publish.reply.as_ref().is_some_and(|reply| reply.ends_with(FAST_SUFFIX))
        {
            return self.ingest_fast(outside, effects, (publish, transformed));
        }
        let parsed;
        let known = if publish.headers.is_empty() {
            &Known::NONE
        } else {
            parsed = Known::parse(&publish.headers);
            &parsed
        };
        let subject = transformed.as_ref().unwrap_or(&publish.subject);
        let verdict = match self.check_size(&publish) {
            Ok(()) if known.batch_id.is_some() => {
                return self.ingest_atomic(outside, effects, (publish, transformed));
            }
            Ok(()) => self.judge(outside, &publish, (subject, known, None)),
            Err(error) => Err(error),
        };
        match verdict {
            Ok(Verdict::Wait) => return Some(publish),
            Ok(Verdict::Store(plan)) => {
                let ack = match (publish.reply.clone(), &plan.value) {
                    (Some(reply), Some(value)) => Ack::Detailed(Box::new(Detailed {
                        reply,
                        value: Some(value.to_string()),
                        batch: None,
                    })),
                    (Some(reply), None) => Ack::Plain(reply),
                    (None, _) => Ack::None,
                };
                self.propose(effects, outside.now(), (publish, transformed), (plan, ack));
            }
            Ok(Verdict::Duplicate(sequence)) => self.answer_duplicate(effects, publish.reply, sequence),
            Err(error) => self.refuse(effects, publish.reply, &error),
        }
        None
    }

    /// The subject under which a message is stored, if it is another one than it was published to.
    pub(super) fn transformed(&self, published: &[u8]) -> Option<Bytes> {
        self.rules.transform.as_ref()?.apply(published).map(Bytes::from)
    }

    /// The answer to what will not be stored.
    pub(crate) fn refuse(&mut self, effects: &mut Effects, reply: Option<Bytes>, error: &ApiError) {
        let Some(reply) = reply.filter(|_| !self.facts.config.no_ack) else { return };
        let payload = self.acks.refused(error);
        effects.push(Effect::Send(Send { subject: reply, reply: None, headers: Bytes::new(), payload }));
    }

    /// A duplicate of a message in flight is answered after that one is durable.
    pub(crate) fn answer_duplicate(&mut self, effects: &mut Effects, reply: Option<Bytes>, sequence: u64) {
        let Some(subject) = reply.filter(|_| !self.facts.config.no_ack) else { return };
        let payload = self.acks.duplicate(sequence);
        let message = Send { subject, reply: None, headers: Bytes::new(), payload };
        self.send_after(effects, sequence, message);
    }

    /// Sends a message when the one with this sequence is stored, which may be now.
    pub(crate) fn send_after(&mut self, effects: &mut Effects, sequence: u64, message: Send) {
        if sequence <= self.store.state().last_sequence {
            return effects.push(Effect::Send(message));
        }
        if self.waiting_sends < WAITING_SENDS_MAX {
            self.waiting_sends += 1;
            self.after.entry(sequence).or_default().push(message);
        } else {
            let error = ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT.into();
            self.refuse(effects, Some(message.subject), &error);
        }
    }

    /// Proposes to store a message and returns its sequence. `message` is what was published, and its subject in the store if that is another one.
    pub(crate) fn propose(
        &mut self,
        effects: &mut Effects,
        now: Timestamp,
        message: (Publish, Option<Bytes>),
        plan: (Plan, Ack),
    ) -> u64 {
        let (publish, transformed) = message;
        let (plan, mut ack) = plan;
        let sequence = self.flights.last_sequence() + 1;
        let subject = transformed.unwrap_or(publish.subject);
        let headers = plan.headers.as_ref().unwrap_or(&publish.headers);
        let payload = plan.payload.as_ref().unwrap_or(&publish.payload);
        let store = Store {
            sequence,
            timestamp: now,
            expiry: plan.expiry,
            traits: plan.traits,
            subject: &subject,
            headers,
            payload,
        };
        encode_store(&store, &mut effects.proposal);
        let size = self.rules.stored_size(&subject, headers, payload);
        self.last_id.clear();
        if plan.traits.id
            && let Some(id) = headers::find(headers, headers::MESSAGE_ID)
        {
            self.dedupe.insert(id, sequence, now);
            self.last_id.extend_from_slice(id);
        }
        if let Some(value) = plan.value {
            self.counters.propose(&subject, sequence, value);
        }
        if self.facts.config.no_ack {
            ack = Ack::None;
        }
        if self.facts.config.persist_mode == PersistMode::Async {
            let done = std::mem::replace(&mut ack, Ack::None);
            self.acknowledge(effects, done, sequence);
        }
        let removes = plan.traits.rollup != Rollup::None || plan.traits.scheduler;
        self.flights.push(Flight::Message(Message { sequence, subject, size, removes, ack }));
        sequence
    }

    /// Tells a publisher that its message is stored.
    pub(crate) fn acknowledge(&mut self, effects: &mut Effects, ack: Ack, sequence: u64) {
        let (reply, payload) = match ack {
            Ack::None => return,
            Ack::Plain(reply) => (reply, self.acks.stored(sequence)),
            Ack::Detailed(detailed) => {
                let payload = self.acks.detailed(sequence, &detailed);
                (detailed.reply, payload)
            }
            Ack::Fast(fast) => return self.fast_stored(effects, &fast),
        };
        effects.push(Effect::Send(Send { subject: reply, reply: None, headers: Bytes::new(), payload }));
    }

    /// The checks that come before those of batches.
    pub(crate) fn check_size(&self, publish: &Publish) -> Result<(), ApiError> {
        if let Some(reason) = self.failed.as_ref().or(self.stopped.as_ref()) {
            return Err(ErrorCode::STREAM_STORE_FAILED.because(reason));
        }
        if self.facts.config.sealed {
            return Err(ErrorCode::STREAM_SEALED.into());
        }
        if publish.headers.len() + publish.payload.len() > self.rules.message_size_max {
            return Err(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM.into());
        }
        if self.flights.last_sequence() >= SEQUENCE_MAX {
            return Err(ErrorCode::STREAM_STORE_FAILED.because("all sequences are used up"));
        }
        Ok(())
    }

    /// All further checks of a message, alone or after those of a batch before it.
    pub(crate) fn judge(
        &mut self,
        outside: &mut dyn Outside,
        publish: &Publish,
        message: (&Bytes, &Known<'_>, Option<&mut View>),
    ) -> Result<Verdict, ApiError> {
        let (subject, known, view) = message;
        let view = view.as_deref();
        if publish.headers.len() > HEADERS_MAX {
            return Err(ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM.into());
        }
        let increment =
            counter::increment(known, self.facts.config.allow_msg_counter, !publish.payload.is_empty())?;
        if known.expected_stream.is_some_and(|expected| expected != self.facts.name().as_bytes()) {
            return Err(ErrorCode::STREAM_NOT_MATCH.into());
        }
        let ttl = known.ttl.map(Ttl::parse).transpose();
        if matches!(ttl, Ok(Some(_))) && !self.facts.config.allow_msg_ttl {
            return Err(ErrorCode::MESSAGE_TTL_DISABLED.into());
        }
        if !self.check_expected_last(known, subject, view)? {
            return Ok(Verdict::Wait);
        }
        let schedule = schedule::check(known, &self.facts.config, subject)?;
        if known.source.is_some() {
            return Err(ErrorCode::MESSAGE_SOURCE_HDR_NOT_ALLOWED.into());
        }
        if let Some(sequence) = self.seen_before(outside.now(), known, view) {
            return Ok(Verdict::Duplicate(sequence));
        }
        self.check_last_id(known, view)?;
        let mut rollup = self.check_rollup(known, subject, view)?;
        if schedule {
            rollup = Rollup::Subject;
        }
        if self.facts.config.allow_msg_counter && increment.is_none() {
            return Err(ErrorCode::MESSAGE_INCR_MISSING.into());
        }
        let ttl = ttl?;
        let size = self.rules.stored_size(subject, &publish.headers, &publish.payload);
        self.check_resources(outside, size + view.map_or(0, |view| view.bytes))?;
        if !self.check_room((subject, size), rollup, view)? {
            return Ok(Verdict::Wait);
        }
        let value = match increment {
            Some(increment) => match self.counter_value(subject, view)? {
                Some(count) => Some(Count { value: count.value + increment, ..count }),
                None => return Ok(Verdict::Wait),
            },
            None => None,
        };
        let traits =
            Traits { id: known.message_id.is_some(), rollup, schedule, scheduler: known.scheduler.is_some() };
        Ok(Verdict::Store(self.plan(outside.now(), publish, (known, ttl, traits, value))))
    }

    /// Sequence of the message that had the same id. One of the same batch counts as not stored yet.
    pub(super) fn seen_before(&self, now: Timestamp, known: &Known<'_>, view: Option<&View>) -> Option<u64> {
        let id = known.message_id?;
        if view.is_some_and(|view| view.ids.contains(id)) {
            return Some(u64::MAX);
        }
        self.dedupe.find(id, now)
    }

    fn check_last_id(&self, known: &Known<'_>, view: Option<&View>) -> Result<(), ApiError> {
        let Some(expected) = known.expected_last_id else { return Ok(()) };
        if view.is_some() {
            let header = String::from_utf8_lossy(headers::EXPECTED_LAST_ID);
            return Err(ErrorCode::ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH.because(header));
        }
        if expected != self.last_id {
            let last = String::from_utf8_lossy(&self.last_id);
            return Err(ErrorCode::STREAM_WRONG_LAST_MSG_ID.because(last));
        }
        Ok(())
    }

    /// What is stored of an accepted message.
    pub(super) fn plan(
        &self,
        now: Timestamp,
        publish: &Publish,
        found: (&Known<'_>, Option<Ttl>, Traits, Option<Count>),
    ) -> Plan {
        let (known, ttl, traits, value) = found;
        let mut headers = None;
        let mut ttl_in_force = ttl;
        if let (Some(asked), Some(minimum)) = (ttl, self.rules.ttl_min) {
            let raised = asked.at_least(minimum);
            if let Ttl::Seconds(seconds) = raised
                && raised != asked
            {
                let mut built = Builder::filtered(&publish.headers, 24, |name| name != headers::TTL);
                built.number(headers::TTL, seconds.unsigned_abs());
                headers = Some(Bytes::from(built.finish()));
                ttl_in_force = Some(raised);
            }
        }
        if traits.schedule && known.rollup.is_none() {
            let mut built = Builder::from(headers.as_ref().unwrap_or(&publish.headers), 24);
            built.line(headers::ROLLUP, b"sub");
            headers = Some(Bytes::from(built.finish()));
        }
        if let Some(origins) = value.as_ref().and_then(|count| count.origins.as_ref()) {
            let block = headers.as_ref().unwrap_or(&publish.headers);
            headers = Some(Builder::with(block, counter::ORIGINS, origins).finish().into());
        }
        Plan {
            traits,
            expiry: ttl_in_force.map_or(Expiry::MaxAge, |ttl| ttl.expiry(now)),
            headers,
            payload: value.as_ref().map(|count| Bytes::from(counter::body(&count.value))),
            value,
        }
    }

    /// Expected last sequences. False if it cannot be told yet.
    fn check_expected_last(
        &mut self,
        known: &Known<'_>,
        subject: &[u8],
        view: Option<&View>,
    ) -> Result<bool, ApiError> {
        if known.expected_last_subject_filter.is_some() && known.expected_last_subject.is_none() {
            return Err(ErrorCode::STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID.into());
        }
        if let Some(expected) = known.expected_last_subject {
            let concerned = known.expected_last_subject_filter.unwrap_or(subject);
            let written =
                |view: &View| view.subjects.keys().any(|literal| subject::matches(literal, concerned));
            if view.is_some_and(written) {
                return Err(ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT.into());
            }
            if self.flights.has_removals() {
                return Ok(false);
            }
            let last = match known.expected_last_subject_filter {
                Some(filter) => self.last_matching(filter)?,
                None => self.last_of_subject(subject),
            };
            if parse_sequence(expected) != Some(last) {
                return Err(ErrorCode::STREAM_WRONG_LAST_SEQUENCE.because(last));
            }
        }
        if let Some(expected) = known.expected_last {
            let before = view.map_or(0, |view| view.messages);
            let last = self.flights.last_sequence() + before;
            if before > 0 || parse_sequence(expected) != Some(last) {
                return Err(ErrorCode::STREAM_WRONG_LAST_SEQUENCE.because(last));
            }
        }
        Ok(true)
    }

    /// Sequence of the newest message of a literal subject, zero if there is none.
    pub(crate) fn last_of_subject(&mut self, literal: &[u8]) -> u64 {
        let ahead = self.flights.subject(literal).map(|(last, _)| last);
        ahead.unwrap_or_else(|| self.store.subject_state(literal).map_or(0, |state| state.last))
    }

    fn last_matching(&mut self, filter: &[u8]) -> Result<u64, ApiError> {
        if !subject::has_wildcard(filter) {
            return Ok(self.last_of_subject(filter));
        }
        if !subject::is_valid(filter) {
            return Ok(0);
        }
        if let Some(last) = self.flights.last_matching(filter) {
            return Ok(last);
        }
        let last = self.store.last(&Filter::Any(vec![filter.into()]), u64::MAX);
        last.map(Option::unwrap_or_default).map_err(|error| ErrorCode::STREAM_STORE_FAILED.because(error))
    }

    /// What the rollup header asks for.
    fn check_rollup(
        &self,
        known: &Known<'_>,
        subject: &[u8],
        view: Option<&View>,
    ) -> Result<Rollup, ApiError> {
        let Some(value) = known.rollup else { return Ok(Rollup::None) };
        let failed = |text: &str| Err(ErrorCode::STREAM_ROLLUP_FAILED.because(text));
        let config = &self.facts.config;
        if !config.allow_rollup_hdrs || config.deny_purge {
            return failed("rollup not permitted");
        }
        if value.eq_ignore_ascii_case(b"sub") {
            if view.is_some_and(|view| view.subjects.contains_key(subject)) {
                return failed("batch rollup sub invalid");
            }
            Ok(Rollup::Subject)
        } else if value.eq_ignore_ascii_case(b"all") {
            if view.is_some_and(|view| view.messages > 0) {
                return failed("batch rollup all invalid");
            }
            Ok(Rollup::All)
        } else {
            let value = super::ack::quoted(&String::from_utf8_lossy(value).to_lowercase());
            Err(ErrorCode::STREAM_ROLLUP_FAILED.because(format_args!("rollup value invalid: {value}")))
        }
    }

    /// Limits of server and account.
    pub(crate) fn check_resources(&self, outside: &dyn Outside, size: u64) -> Result<(), ApiError> {
        let limits = outside.limits();
        let storage = self.facts.config.storage;
        let ahead = self.flights.bytes() + size;
        if limits.server_exceeded(storage, ahead) {
            return Err(ErrorCode::INSUFFICIENT_RESOURCES.into());
        }
        if limits.account_exceeded(storage, self.replicas(), ahead) {
            return Err(ErrorCode::ACCOUNT_RESOURCES_EXCEEDED.into());
        }
        Ok(())
    }

    /// Limits of a stream that refuses what does not fit. False if it cannot be told yet.
    pub(super) fn check_room(
        &mut self,
        message: (&[u8], u64),
        rollup: Rollup,
        view: Option<&View>,
    ) -> Result<bool, ApiError> {
        let (subject, size) = message;
        if self.facts.config.discard == Discard::Old || rollup == Rollup::All {
            return Ok(true);
        }
        let config = &self.facts.config;
        if config.retention == Retention::Interest && !self.consumers.is_interested(subject) {
            return Ok(true);
        }
        let failed = |text: &str| Err(ErrorCode::STREAM_STORE_FAILED.because(text));
        let per_subject = u64::try_from(config.max_msgs_per_subject).ok().filter(|max| *max > 0);
        // Buckets have no such limit as a rule: what a key holds need not be looked up.
        let new_per_subject = config.discard_new_per_subject && per_subject.is_some();
        if config.max_msgs <= 0 && config.max_bytes <= 0 && !new_per_subject {
            return Ok(true);
        }
        let ahead_of_subject = match per_subject {
            Some(_) => self.flights.subject(subject).map_or(0, |(_, messages)| messages),
            None => 0,
        };
        let in_batch = view.and_then(|view| view.subjects.get(subject)).copied().unwrap_or(0);
        let (batch_messages, batch_bytes) = view.map_or((0, 0), |view| (view.messages, view.bytes));
        let held = self.store.subject_state(subject);
        let of_subject = held.map_or(0, |held| held.messages) + ahead_of_subject + in_batch;
        let at_limit = per_subject.is_some_and(|max| of_subject >= max);
        if at_limit && config.discard_new_per_subject && rollup == Rollup::None {
            if self.flights.has_removals() {
                return Ok(false);
            }
            return failed("maximum messages per subject exceeded");
        }
        let state = self.store.state();
        let reached = |max: i64, value: u64| max > 0 && value >= max.unsigned_abs();
        let messages_full =
            reached(config.max_msgs, state.messages + self.flights.messages() + batch_messages);
        let bytes_full = config.max_bytes > 0
            && state.bytes + self.flights.bytes() + batch_bytes + size > config.max_bytes.unsigned_abs();
        if !messages_full && !bytes_full {
            return Ok(true);
        }
        if self.flights.messages() > 0 || self.flights.has_removals() {
            return Ok(false);
        }
        // A batch that only fits because it replaces what it brings itself does not fit.
        let replaced = match held.filter(|_| at_limit && in_batch == 0) {
            Some(held) => self.store.load(held.first).ok().flatten(),
            None => None,
        };
        let replaced = replaced.map(|old| self.rules.stored_size(&old.subject, &old.headers, &old.payload));
        if messages_full && replaced.is_none() {
            return failed("maximum messages exceeded");
        }
        if bytes_full && replaced.is_none_or(|old| size > old) {
            return failed("maximum bytes exceeded");
        }
        Ok(true)
    }

    /// Value of a counter before this message. `None` if it cannot be told yet.
    pub(super) fn counter_value(
        &mut self,
        subject: &[u8],
        view: Option<&View>,
    ) -> Result<Option<Count>, ApiError> {
        if let Some(value) = view.and_then(|view| view.counters.get(subject)) {
            return Ok(Some(value.clone()));
        }
        if let Some(value) = self.counters.ahead(subject) {
            return Ok(Some(value.clone()));
        }
        if self.flights.has_removals() {
            return Ok(None);
        }
        let Some(state) = self.store.subject_state(subject) else { return Ok(Some(Count::default())) };
        match self.store.load(state.last) {
            Ok(Some(message)) => Ok(Some(Count::of(&message)?)),
            Ok(None) => Err(ErrorCode::MESSAGE_COUNTER_BROKEN.into()),
            Err(error) => Err(ErrorCode::STREAM_STORE_FAILED.because(error)),
        }
    }
}

/// A sequence in a header; what is none matches no sequence.
pub(crate) fn parse_sequence(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
