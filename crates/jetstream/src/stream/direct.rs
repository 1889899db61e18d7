//! Direct gets: messages sent to a reply subject as they are stored, with headers that tell where (jetstream-api, section 12).
//!
//! A long batch is sent a part in each turn, so that it does not hold up the shard. It reads the stream as it is at that time; what came after the
//! request is left out.

use std::collections::VecDeque;

use api::jetstream::request::MsgGet;
use bytes::Bytes;
use store::stream::{Error as StoreError, Filter, Message};

use super::Stream;
use super::get::{self, timestamp};
use super::headers::Builder;
use super::republish::stamp;
use crate::consumer::Budget;
use crate::effect::{Effect, Effects, Send};

/// Subjects that one request for last messages may match.
const SUBJECTS_MAX: usize = 1_024;

/// Bytes of one batch unless asked for less: what a client may have waiting.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Batches that go on at once. More are refused; their clients ask again.
const BATCHES_MAX: usize = 4_096;

/// Room for added lines.
const ADDED: usize = 224;

const EMPTY: &str = "408 Empty Request";
const BAD: &str = "408 Bad Request";
const NOT_FOUND: &str = "404 Message Not Found";
const NO_RESULTS: &str = "404 No Results";
/// Of a stream whose store failed.
pub(super) const OFFLINE: &str = "503 Stream Offline";
const TOO_MANY: &str = "413 Too Many Results";

/// A batch on its way.
#[derive(Debug)]
struct Batch {
    reply: Bytes,
    rest: Rest,
    /// Messages that may still be sent.
    messages: u64,
    /// Bytes that may still be sent.
    bytes: u64,
    /// Messages after the newest one sent.
    pending: u64,
    /// Sequence of the newest one sent.
    last: u64,
    plain: bool,
}

/// What is still to come.
#[derive(Debug)]
enum Rest {
    /// What a filter lets through.
    Range { filter: Filter, next: u64, up_to: u64 },
    /// These sequences.
    List { sequences: VecDeque<u64>, up_to: u64 },
}

/// Batches on their way.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    batches: VecDeque<Batch>,
}

impl Stream {
    /// Answers a direct get, or begins to.
    pub(crate) fn handle_direct(&mut self, effects: &mut Effects, reply: Bytes, request: &MsgGet) {
        let outcome = if request.multi_last.is_empty() {
            self.direct_range(&reply, request)
        } else {
            self.direct_multi(&reply, request)
        };
        match outcome {
            Ok(Ok(Some(batch))) if self.direct.batches.len() < BATCHES_MAX => {
                self.direct.batches.push_back(batch);
            }
            Ok(Ok(Some(_))) => status(effects, reply, "429 Too Many Requests"),
            Ok(Ok(None)) => self.direct_one(effects, reply, request),
            Ok(Err(text)) => status(effects, reply, text),
            Err(error) => {
                effects.push(Effect::Damaged(format!("stream {:?}: {error}", self.facts.name())));
                status(effects, reply, NOT_FOUND);
            }
        }
    }

    /// A batch in the order of the stream, or `None` for a single message.
    fn direct_range(
        &self,
        reply: &Bytes,
        request: &MsgGet,
    ) -> Result<Result<Option<Batch>, &'static str>, StoreError> {
        let by_last = !request.last_by_subj.is_empty();
        let by_next = !request.next_by_subj.is_empty();
        let by_place = request.seq > 0 || request.start_time.is_some();
        if !by_last && !by_next && !by_place {
            return Ok(Err(EMPTY));
        }
        let clash = (request.seq > 0 && request.start_time.is_some())
            || (by_last && (by_next || by_place || request.batch != 0))
            || (request.batch != 0 && (request.up_to_seq > 0 || request.up_to_time.is_some()));
        if clash {
            return Ok(Err(BAD));
        }
        if request.batch == 0 {
            return Ok(Ok(None));
        }
        let from = match request.start_time {
            Some(time) => self.store.sequence_at(timestamp(time))?,
            None => request.seq,
        };
        let filter = if by_next { get::filter(&request.next_by_subj) } else { Some(Filter::All) };
        let Some(filter) = filter else { return Ok(Err(NOT_FOUND)) };
        let up_to = self.store.state().last_sequence;
        let pending = if from > up_to { 0 } else { self.store.count(&filter, from..=up_to)? };
        if pending == 0 {
            return Ok(Err(NOT_FOUND));
        }
        Ok(Ok(Some(Batch {
            reply: reply.clone(),
            rest: Rest::Range { filter, next: from, up_to },
            messages: u64::try_from(request.batch).unwrap_or(0),
            bytes: bytes_max(request),
            pending,
            last: 0,
            plain: request.no_hdr,
        })))
    }

    /// The last messages of subjects.
    fn direct_multi(
        &self,
        reply: &Bytes,
        request: &MsgGet,
    ) -> Result<Result<Option<Batch>, &'static str>, StoreError> {
        let both = request.up_to_seq > 0 && request.up_to_time.is_some();
        if both || !request.last_by_subj.is_empty() || !request.next_by_subj.is_empty() {
            return Ok(Err(BAD));
        }
        let state = self.store.state();
        if request.up_to_seq > state.last_sequence {
            return Ok(Err(NO_RESULTS));
        }
        let up_to = match request.up_to_time {
            Some(time) => self.store.sequence_at(timestamp(time))?.saturating_sub(1),
            None if request.up_to_seq > 0 => request.up_to_seq,
            None => state.last_sequence,
        };
        let patterns: Vec<Box<[u8]>> = request
            .multi_last
            .iter()
            .filter(|subject| subject::is_valid(subject.as_bytes()))
            .map(|subject| subject.as_bytes().into())
            .collect();
        if patterns.is_empty() || up_to < state.first_sequence {
            return Ok(Err(NO_RESULTS));
        }
        let found = self.store.last_per_subject(&Filter::Any(patterns), up_to, SUBJECTS_MAX)?;
        let Some(found) = found else { return Ok(Err(TOO_MANY)) };
        let sequences: VecDeque<u64> =
            found.into_iter().filter(|sequence| *sequence >= request.seq).collect();
        if sequences.is_empty() {
            return Ok(Err(NO_RESULTS));
        }
        let messages = if request.batch > 0 { request.batch.unsigned_abs() } else { u64::MAX };
        Ok(Ok(Some(Batch {
            reply: reply.clone(),
            pending: sequences.len() as u64,
            rest: Rest::List { sequences, up_to },
            messages,
            bytes: bytes_max(request),
            last: 0,
            plain: false,
        })))
    }

    fn direct_one(&self, effects: &mut Effects, reply: Bytes, request: &MsgGet) {
        let Ok(Some(message)) = get::find(&*self.store, request) else {
            return status(effects, reply, NOT_FOUND);
        };
        let headers = if request.no_hdr {
            Bytes::new()
        } else {
            let mut headers = Builder::from(&message.headers, ADDED);
            self.stamp(&mut headers, &message);
            headers.finish().into()
        };
        let payload = message.payload;
        effects.push(Effect::Send(Send { subject: reply, reply: None, headers, payload }));
    }

    fn stamp(&self, headers: &mut Builder, message: &Message) {
        let place = (message.sequence, message.timestamp.0);
        stamp(headers, self.facts.name(), &message.subject, place);
    }

    /// Sends more of the batches on their way, within the budget. True if some are left.
    pub(crate) fn continue_direct(&mut self, effects: &mut Effects, budget: &mut Budget) -> bool {
        while let Some(mut batch) = self.direct.batches.pop_front() {
            loop {
                if budget.is_spent() {
                    self.direct.batches.push_back(batch);
                    return true;
                }
                match self.direct_next(&mut batch) {
                    Ok(Some(message)) => self.direct_send(effects, &mut batch, (message, budget)),
                    Ok(None) => break end(effects, &batch),
                    Err(error) => {
                        let reason = format!("stream {:?}: {error}", self.facts.name());
                        effects.push(Effect::Damaged(reason));
                        break end(effects, &batch);
                    }
                }
            }
        }
        false
    }

    /// The next message of a batch, `None` at its end.
    fn direct_next(&self, batch: &mut Batch) -> Result<Option<Message>, StoreError> {
        if batch.messages == 0 || batch.bytes == 0 {
            return Ok(None);
        }
        match &mut batch.rest {
            Rest::Range { filter, next, up_to } => {
                let found = self.store.next(filter, *next)?.filter(|message| message.sequence <= *up_to);
                *next = found.as_ref().map_or(u64::MAX, |message| message.sequence + 1);
                Ok(found)
            }
            Rest::List { sequences, .. } => {
                while let Some(sequence) = sequences.pop_front() {
                    if let Some(message) = self.store.load(sequence)? {
                        return Ok(Some(message));
                    }
                    batch.pending -= 1;
                }
                Ok(None)
            }
        }
    }

    fn direct_send(&self, effects: &mut Effects, batch: &mut Batch, next: (Message, &mut Budget)) {
        let (message, budget) = next;
        let size = (message.subject.len() + message.headers.len() + message.payload.len()) as u64;
        batch.messages -= 1;
        batch.bytes = batch.bytes.saturating_sub(size);
        budget.messages = budget.messages.saturating_sub(1);
        budget.bytes = budget.bytes.saturating_sub(size);
        let headers = if batch.plain {
            Bytes::new()
        } else {
            batch.pending = batch.pending.saturating_sub(1);
            let mut headers = Builder::from(&message.headers, ADDED);
            self.stamp(&mut headers, &message);
            headers.number(b"Nats-Num-Pending", batch.pending);
            headers.number(b"Nats-Last-Sequence", batch.last);
            headers.finish().into()
        };
        batch.last = message.sequence;
        let payload = message.payload;
        effects.push(Effect::Send(Send { subject: batch.reply.clone(), reply: None, headers, payload }));
    }
}

/// Bytes that a batch may send.
fn bytes_max(request: &MsgGet) -> u64 {
    u64::try_from(request.max_bytes).ok().filter(|max| *max > 0).unwrap_or(BYTES_MAX)
}

/// The message that ends a batch.
fn end(effects: &mut Effects, batch: &Batch) {
    let mut block = format!(
        "NATS/1.0 204 EOB\r\nNats-Num-Pending: {}\r\nNats-Last-Sequence: {}\r\n",
        batch.pending, batch.last
    );
    if let Rest::List { up_to, .. } = &batch.rest {
        block.push_str(&format!("Nats-UpTo-Sequence: {up_to}\r\n"));
    }
    block.push_str("\r\n");
    send_block(effects, batch.reply.clone(), block);
}

pub(super) fn status(effects: &mut Effects, reply: Bytes, text: &str) {
    send_block(effects, reply, format!("NATS/1.0 {text}\r\n\r\n"));
}

fn send_block(effects: &mut Effects, reply: Bytes, block: String) {
    let headers = Bytes::from(block);
    effects.push(Effect::Send(Send { subject: reply, reply: None, headers, payload: Bytes::new() }));
}
