//! Fast batches: messages are stored as they come, and the publisher hears of groups of them on the reply subjects it gives.
//!
//! A reply subject ends with `<id>.<flow>.<gap>.<sequence>.<operation>.$FI`. A group is acknowledged when its last message is durable; groups grow
//! and shrink with the number of open batches.

use std::sync::atomic::Ordering::Relaxed;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use bytes::Bytes;
use store::Timestamp;

use super::{ID_MAX, take_place};
use crate::effect::{Effect, Effects, Send};
use crate::outside::Outside;
use crate::stream::Stream;
use crate::stream::ack::quoted;
use crate::stream::flight::{Ack, Detailed};
use crate::stream::headers::Known;
use crate::stream::ingest::{Publish, Verdict, parse_sequence};

/// Messages of a group unless the client says.
const FLOW_DEFAULT: u64 = 10;
/// Most that a client may say.
const FLOW_MAX: u64 = u16::MAX as u64;
/// Messages that all batches of a stream may have unacknowledged together.
const FLOW_SHARED: u64 = 500;

/// An open batch.
#[derive(Debug)]
pub(super) struct Fast {
    /// Highest sequence in the batch that was seen.
    last: u64,
    /// Sequence in the stream of the newest message of the batch; zero if none was stored.
    stored: u64,
    /// Messages of a group that the client wants at most.
    flow: u64,
    /// Messages of the group that is open.
    group: u64,
    /// Sequence in the batch that the last acknowledgement named.
    acknowledged: u64,
    pub(super) deadline: Timestamp,
}

/// What is due when a message of a fast batch is durable.
#[derive(Debug)]
pub(crate) struct FastAck {
    id: Bytes,
    sequence: u64,
    reply: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Start,
    Append,
    Commit,
    CommitBefore,
    Ping,
}

/// What a reply subject says.
#[derive(Debug)]
struct Pattern {
    id: Bytes,
    flow: u64,
    gap_fails: bool,
    sequence: u64,
    operation: Operation,
}

impl Pattern {
    fn parse(reply: &Bytes) -> Result<Self, ErrorCode> {
        const INVALID: ErrorCode = ErrorCode::BATCH_PUBLISH_INVALID_PATTERN;
        let mut tokens = reply.rsplit(|byte| *byte == b'.').skip(1);
        let mut next = || tokens.next().ok_or(INVALID);
        let (operation, sequence, gap, flow, id) = (next()?, next()?, next()?, next()?, next()?);
        let operation = match operation {
            b"0" => Operation::Start,
            b"1" => Operation::Append,
            b"2" => Operation::Commit,
            b"3" => Operation::CommitBefore,
            b"4" => Operation::Ping,
            _ => return Err(INVALID),
        };
        let gap_fails = match gap {
            b"ok" => false,
            b"fail" => true,
            _ => return Err(INVALID),
        };
        let sequence = parse_sequence(sequence).filter(|sequence| *sequence > 0).ok_or(INVALID)?;
        let first = sequence == 1;
        match operation {
            Operation::Start if !first => return Err(INVALID),
            Operation::Append | Operation::CommitBefore if first => return Err(INVALID),
            _ => {}
        }
        if id.is_empty() || id.len() > ID_MAX {
            return Err(ErrorCode::BATCH_PUBLISH_INVALID_BATCH_ID);
        }
        let flow = parse_sequence(flow).filter(|flow| *flow > 0).unwrap_or(FLOW_DEFAULT).min(FLOW_MAX);
        Ok(Self { id: Bytes::copy_from_slice(id), flow, gap_fails, sequence, operation })
    }
}

impl Stream {
    /// Takes a message of a fast batch. Gives it back if it must wait.
    pub(crate) fn ingest_fast(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        message: (Publish, Option<Bytes>),
    ) -> Option<Publish> {
        let (publish, transformed) = message;
        let subject = transformed.unwrap_or_else(|| publish.subject.clone());
        let reply = publish.reply.clone().unwrap_or_default();
        let checked = Pattern::parse(&reply).map_err(ApiError::from).and_then(|pattern| {
            self.check_size(&publish)?;
            let known = self.batches.fast.contains_key(&pattern.id);
            let opens = pattern.sequence == 1 && pattern.operation != Operation::Ping;
            if known || opens { Ok(pattern) } else { Err(ErrorCode::BATCH_PUBLISH_UNKNOWN_BATCH_ID.into()) }
        });
        let pattern = match checked {
            Ok(pattern) => pattern,
            Err(error) => {
                self.refuse(effects, Some(reply), &error);
                return None;
            }
        };
        let expected = self.batches.fast.get(&pattern.id).map_or(1, |batch| batch.last + 1);
        if pattern.operation == Operation::Ping {
            self.ping_fast(outside, effects, (&pattern, reply, expected));
            return None;
        }
        if pattern.sequence < expected || (pattern.sequence > expected && pattern.gap_fails) {
            send_gap(effects, &reply, expected, pattern.sequence);
            self.finish_fast(outside, effects, (&pattern.id, reply, expected - 1));
            return None;
        }
        let verdict = if pattern.operation == Operation::CommitBefore {
            None
        } else {
            let known = Known::parse(&publish.headers);
            match self.judge(outside, &publish, (&subject, &known, None)) {
                Ok(Verdict::Wait) => return Some(publish),
                other => Some(other),
            }
        };
        if expected == 1 && pattern.operation == Operation::Start && !self.open_fast(outside, &pattern) {
            self.refuse(effects, Some(reply), &ErrorCode::BATCH_PUBLISH_TOO_MANY_INFLIGHT.into());
            return None;
        }
        if expected == 1 && pattern.operation == Operation::Start {
            self.send_flow(effects, &pattern.id, &reply);
        }
        if pattern.sequence > expected {
            send_gap(effects, &reply, expected, pattern.sequence);
        }
        self.touch_fast(outside, &pattern);
        match verdict {
            Some(verdict) => self.store_fast(outside, effects, (verdict, (publish, subject, reply), pattern)),
            None => self.finish_fast(outside, effects, (&pattern.id, reply, pattern.sequence - 1)),
        }
        None
    }

    /// Opens a batch, if there is a place.
    fn open_fast(&mut self, outside: &dyn Outside, pattern: &Pattern) -> bool {
        let limits = outside.limits();
        let full = self.batches.fast.len() >= limits.server.batch.fast_per_stream;
        if full || !take_place(&limits.server_usage.fast_batches, limits.server.batch.fast_total) {
            return false;
        }
        let alone = self.batches.fast.is_empty();
        let batch = Fast {
            last: 0,
            stored: 0,
            flow: pattern.flow,
            group: if alone { pattern.flow.min(FLOW_SHARED) } else { 1 },
            acknowledged: 0,
            deadline: outside.now().saturating_add(limits.server.batch.timeout),
        };
        self.batches.fast.insert(pattern.id.clone(), batch);
        true
    }

    /// A message of the batch came.
    fn touch_fast(&mut self, outside: &dyn Outside, pattern: &Pattern) {
        let deadline = outside.now().saturating_add(outside.limits().server.batch.timeout);
        if let Some(batch) = self.batches.fast.get_mut(&pattern.id) {
            batch.last = batch.last.max(pattern.sequence);
            batch.deadline = deadline;
            self.batches.arm(deadline);
        }
    }

    fn store_fast(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        message: (Result<Verdict, ApiError>, (Publish, Bytes, Bytes), Pattern),
    ) {
        let (verdict, (publish, subject, reply), pattern) = message;
        let commits = pattern.operation == Operation::Commit;
        match verdict {
            Ok(Verdict::Store(plan)) => {
                let ack = if commits {
                    let value = plan.value.as_ref().map(ToString::to_string);
                    let batch = Some((pattern.id.clone(), pattern.sequence));
                    Ack::Detailed(Box::new(Detailed { reply, value, batch }))
                } else {
                    Ack::Fast(Box::new(FastAck { id: pattern.id.clone(), sequence: pattern.sequence, reply }))
                };
                let sequence = self.propose(effects, outside.now(), (publish, Some(subject)), (plan, ack));
                if commits {
                    self.close_fast(outside, &pattern.id);
                } else if let Some(batch) = self.batches.fast.get_mut(&pattern.id) {
                    batch.stored = sequence;
                }
            }
            Ok(Verdict::Duplicate(first)) => {
                if let Some(batch) = self.batches.fast.get_mut(&pattern.id) {
                    batch.stored = first;
                    if commits {
                        self.finish_fast(outside, effects, (&pattern.id, reply, pattern.sequence));
                    }
                } else {
                    self.answer_duplicate(effects, Some(reply), first);
                }
            }
            Ok(Verdict::Wait) => {}
            Err(error) => self.refuse_fast(outside, effects, (&error, reply, &pattern)),
        }
    }

    /// A message of a batch was refused: it goes on without it, or ends before it.
    fn refuse_fast(
        &mut self,
        outside: &dyn Outside,
        effects: &mut Effects,
        message: (&ApiError, Bytes, &Pattern),
    ) {
        let (error, reply, pattern) = message;
        let ends = pattern.gap_fails || pattern.operation == Operation::Commit;
        if pattern.sequence == 1 && ends {
            self.close_fast(outside, &pattern.id);
            return self.refuse(effects, Some(reply), error);
        }
        let description = quoted(&error.description);
        let body = format!(
            "{{\"type\":\"err\",\"seq\":{},\"error\":{{\"code\":{},\"err_code\":{},\"description\":{description}}}}}",
            pattern.sequence, error.code, error.err_code
        );
        send(effects, &reply, body);
        if ends {
            self.finish_fast(outside, effects, (&pattern.id, reply, pattern.sequence - 1));
        }
    }

    /// Ends a batch after so many messages. The publisher hears of it when the newest one stored is durable.
    fn finish_fast(&mut self, outside: &dyn Outside, effects: &mut Effects, batch: (&Bytes, Bytes, u64)) {
        let (id, reply, count) = batch;
        let Some(batch) = self.close_fast(outside, id) else { return };
        let sequence = batch.stored;
        let detailed = Detailed { reply, value: None, batch: Some((id.clone(), count)) };
        let payload = self.acks.detailed(sequence, &detailed);
        let message = Send { subject: detailed.reply, reply: None, headers: Bytes::new(), payload };
        self.send_after(effects, sequence, message);
    }

    fn close_fast(&mut self, outside: &dyn Outside, id: &Bytes) -> Option<Fast> {
        let batch = self.batches.fast.remove(id)?;
        outside.limits().server_usage.fast_batches.fetch_sub(1, Relaxed);
        Some(batch)
    }

    /// The publisher asks whether all came: what is missing is told, and the last acknowledgement repeated.
    fn ping_fast(&mut self, outside: &dyn Outside, effects: &mut Effects, ping: (&Pattern, Bytes, u64)) {
        let (pattern, reply, expected) = ping;
        if pattern.sequence >= expected {
            send_gap(effects, &reply, expected, pattern.sequence + 1);
            if pattern.gap_fails {
                return self.finish_fast(outside, effects, (&pattern.id, reply, expected - 1));
            }
        }
        self.touch_fast(outside, pattern);
        self.send_flow(effects, &pattern.id, &reply);
    }

    fn send_flow(&self, effects: &mut Effects, id: &Bytes, reply: &Bytes) {
        let Some(batch) = self.batches.fast.get(id) else { return };
        let (sequence, group) = (batch.acknowledged, batch.group);
        send(effects, reply, format!("{{\"type\":\"ack\",\"seq\":{sequence},\"msgs\":{group}}}"));
    }

    /// A message of a fast batch is durable: a group may be full.
    pub(crate) fn fast_stored(&mut self, effects: &mut Effects, ack: &FastAck) {
        let open = self.batches.fast.len() as u64;
        let Some(batch) = self.batches.fast.get_mut(&ack.id) else { return };
        if ack.sequence < batch.acknowledged + batch.group {
            return;
        }
        batch.acknowledged = ack.sequence;
        let target = batch.flow.min(FLOW_SHARED / open.max(1)).max(1);
        batch.group =
            if batch.group < target { (batch.group * 2).min(target) } else { (batch.group / 2).max(target) };
        self.send_flow(effects, &ack.id, &ack.reply);
    }

    pub(super) fn expire_fast(&mut self, outside: &dyn Outside, now: Timestamp) {
        let before = self.batches.fast.len();
        self.batches.fast.retain(|_, batch| batch.deadline > now);
        let gone = before - self.batches.fast.len();
        outside.limits().server_usage.fast_batches.fetch_sub(gone as i64, Relaxed);
    }
}

fn send_gap(effects: &mut Effects, reply: &Bytes, expected: u64, sequence: u64) {
    send(effects, reply, format!("{{\"type\":\"gap\",\"last_seq\":{expected},\"seq\":{sequence}}}"));
}

fn send(effects: &mut Effects, reply: &Bytes, body: String) {
    let (headers, payload) = (Bytes::new(), Bytes::from(body));
    effects.push(Effect::Send(Send { subject: reply.clone(), reply: None, headers, payload }));
}
