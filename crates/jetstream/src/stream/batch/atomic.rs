//! Atomic batches: messages are kept until the one that commits, then all are checked against the state before the batch and proposed together.
//!
//! They ride in one entry of the log, and an entry is applied in one call: no reader sees a part of a batch, nor does a crash leave one.

use std::sync::atomic::Ordering::Relaxed;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::API_LEVEL;
use api::jetstream::advisory::{BatchAbandonReason, StreamBatchAbandoned};
use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use store::Timestamp;

use super::{ID_MAX, take_place};
use crate::effect::{Advisory, Effect, Effects, Send};
use crate::outside::Outside;
use crate::stream::Stream;
use crate::stream::counter::Count;
use crate::stream::flight::{Ack, Detailed};
use crate::stream::headers::{BATCH_COMMIT, Builder, Known};
use crate::stream::ingest::{Plan, Publish, Verdict, parse_sequence};

/// Bytes that one batch may hold in memory.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// A batch that is not committed yet.
#[derive(Debug)]
pub(super) struct Atomic {
    /// Messages, each with its subject in the store.
    messages: Vec<(Publish, Bytes)>,
    bytes: usize,
    pub(super) deadline: Timestamp,
}

/// What earlier messages of the same batch will have done; checks count it.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Messages of each subject.
    pub(crate) subjects: HashMap<Bytes, u64>,
    pub(crate) ids: HashSet<Bytes>,
    pub(crate) counters: HashMap<Bytes, Count>,
}

/// What a message says of its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    id: Bytes,
    sequence: u64,
    commit: Commit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commit {
    No,
    /// After this message.
    After,
    /// Before this message, which is not stored.
    Before,
}

/// A refused message, and what becomes of its batch.
struct Refusal {
    error: ApiError,
    /// The batch is given up, and this is told.
    reason: Option<BatchAbandonReason>,
}

impl Refusal {
    fn new(error: ErrorCode, reason: Option<BatchAbandonReason>) -> Self {
        Self { error: error.into(), reason }
    }
}

impl Stream {
    /// Takes a message of an atomic batch. Gives it back if it must wait.
    pub(crate) fn ingest_atomic(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        message: (Publish, Option<Bytes>),
    ) -> Option<Publish> {
        let (publish, transformed) = message;
        let subject = transformed.unwrap_or_else(|| publish.subject.clone());
        let reply = publish.reply.clone();
        let known = Known::parse(&publish.headers);
        let id = known.batch_id.map(|id| publish.headers.slice_ref(id)).unwrap_or_default();
        let place = match self.place(outside, &known, &id) {
            Ok(place) => place,
            Err(refusal) => {
                self.abandon(outside, effects, (&id, refusal.reason));
                self.refuse(effects, reply, &refusal.error);
                return None;
            }
        };
        if place.commit != Commit::No {
            return self.commit(outside, effects, (publish, subject, place));
        }
        let deadline = outside.now().saturating_add(outside.limits().server.batch.timeout);
        let size = publish.headers.len() + publish.payload.len() + subject.len();
        let batch = self.batches.atomic.entry(Bytes::copy_from_slice(&place.id));
        let batch = batch.or_insert_with(|| Atomic { messages: Vec::new(), bytes: 0, deadline });
        batch.deadline = deadline;
        batch.bytes += size;
        batch.messages.push((publish, subject));
        let too_large = batch.bytes > BYTES_MAX;
        self.batches.arm(deadline);
        if too_large {
            self.abandon(outside, effects, (&id, Some(BatchAbandonReason::Large)));
            let error = ErrorCode::ATOMIC_PUBLISH_TOO_LARGE_BATCH.because(place.sequence);
            self.refuse(effects, reply, &error);
        } else if let Some(subject) = reply.filter(|_| !self.facts.config.no_ack) {
            let nothing = Bytes::new();
            effects.push(Effect::Send(Send {
                subject,
                reply: None,
                headers: nothing.clone(),
                payload: nothing,
            }));
        }
        None
    }

    /// Where a message stands in its batch; a new batch is counted.
    fn place(&mut self, outside: &dyn Outside, known: &Known<'_>, id: &Bytes) -> Result<Place, Refusal> {
        let limits = &outside.limits().server.batch;
        if !self.facts.config.allow_atomic {
            return Err(Refusal::new(ErrorCode::ATOMIC_PUBLISH_DISABLED, None));
        }
        if id.len() > ID_MAX {
            return Err(Refusal::new(ErrorCode::ATOMIC_PUBLISH_INVALID_BATCH_ID, None));
        }
        let Some(sequence) = known.batch_sequence.and_then(parse_sequence) else {
            return Err(Refusal::new(ErrorCode::ATOMIC_PUBLISH_MISSING_SEQ, None));
        };
        if let Some(level) = known.api_level
            && parse_sequence(level).is_none_or(|level| level > API_LEVEL.unsigned_abs())
        {
            let reason = Some(BatchAbandonReason::Unsupported);
            return Err(Refusal::new(ErrorCode::REQUIRED_API_LEVEL, reason));
        }
        let commit = match known.batch_commit {
            None => Commit::No,
            Some(b"1") => Commit::After,
            Some(b"eob") => Commit::Before,
            Some(_) => {
                self.forget_atomic(outside, id);
                return Err(Refusal::new(ErrorCode::ATOMIC_PUBLISH_INVALID_BATCH_COMMIT, None));
            }
        };
        let incomplete = |reason| Refusal::new(ErrorCode::ATOMIC_PUBLISH_INCOMPLETE_BATCH, reason);
        let open = self.batches.atomic.get(id).map(|batch| batch.messages.len() as u64);
        let fits = match open {
            Some(held) => sequence == held + 1,
            None if sequence == 1 => commit != Commit::Before,
            None => return Err(incomplete(None)),
        };
        if !fits {
            return Err(incomplete(Some(BatchAbandonReason::Incomplete)));
        }
        if sequence > limits.atomic_messages && commit != Commit::Before {
            let error = ErrorCode::ATOMIC_PUBLISH_TOO_LARGE_BATCH.because(limits.atomic_messages);
            return Err(Refusal { error, reason: Some(BatchAbandonReason::Large) });
        }
        if open.is_none() && commit == Commit::No {
            let counter = &outside.limits().server_usage.atomic_batches;
            let full = self.batches.atomic.len() >= limits.atomic_per_stream;
            if full || !take_place(counter, limits.atomic_total) {
                return Err(Refusal::new(ErrorCode::ATOMIC_PUBLISH_TOO_MANY_INFLIGHT, None));
            }
        }
        Ok(Place { id: id.clone(), sequence, commit })
    }

    /// Checks all messages of a batch and proposes them, or none.
    fn commit(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        message: (Publish, Bytes, Place),
    ) -> Option<Publish> {
        let (publish, subject, place) = message;
        let reply = publish.reply.clone();
        let batch = self.batches.atomic.remove(&place.id);
        let counted = batch.is_some();
        let mut batch =
            batch.unwrap_or_else(|| Atomic { messages: Vec::new(), bytes: 0, deadline: Timestamp(0) });
        let staged = batch.messages.len();
        if place.commit == Commit::After {
            batch.messages.push((publish.clone(), subject));
        }
        match self.judge_batch(outside, &batch.messages) {
            Ok(None) => {
                batch.messages.truncate(staged);
                if counted {
                    self.batches.atomic.insert(place.id, batch);
                }
                return Some(publish);
            }
            Ok(Some(plans)) => self.propose_batch(outside, effects, (batch, plans, (place, reply))),
            Err(error) => self.refuse(effects, reply, &error),
        }
        if counted {
            outside.limits().server_usage.atomic_batches.fetch_sub(1, Relaxed);
        }
        None
    }

    /// How each message is stored. `None` if it cannot be told yet.
    fn judge_batch(
        &mut self,
        outside: &mut dyn Outside,
        messages: &[(Publish, Bytes)],
    ) -> Result<Option<Vec<Plan>>, ApiError> {
        let mut view = View::default();
        let mut plans = Vec::with_capacity(messages.len());
        for (publish, subject) in messages {
            let known = Known::parse(&publish.headers);
            let plan = match self.judge(outside, publish, (subject, &known, Some(&mut view)))? {
                Verdict::Store(plan) => plan,
                Verdict::Wait => return Ok(None),
                Verdict::Duplicate(_) => {
                    return Err(ErrorCode::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE.into());
                }
            };
            view.messages += 1;
            let headers = plan.headers.as_ref().unwrap_or(&publish.headers);
            let payload = plan.payload.as_ref().unwrap_or(&publish.payload);
            view.bytes += self.rules.stored_size(subject, headers, payload);
            *view.subjects.entry(subject.clone()).or_default() += 1;
            if let Some(id) = known.message_id {
                view.ids.insert(publish.headers.slice_ref(id));
            }
            if let Some(value) = &plan.value {
                view.counters.insert(subject.clone(), value.clone());
            }
            plans.push(plan);
        }
        Ok(Some(plans))
    }

    fn propose_batch(
        &mut self,
        outside: &dyn Outside,
        effects: &mut Effects,
        batch: (Atomic, Vec<Plan>, (Place, Option<Bytes>)),
    ) {
        let (batch, plans, (place, reply)) = batch;
        let now = outside.now();
        let count = batch.messages.len() as u64;
        let id = Bytes::copy_from_slice(&place.id);
        for (index, ((publish, subject), mut plan)) in batch.messages.into_iter().zip(plans).enumerate() {
            let last = index as u64 + 1 == count;
            if last && place.commit == Commit::Before {
                let mut headers = Builder::from(plan.headers.as_ref().unwrap_or(&publish.headers), 24);
                headers.line(BATCH_COMMIT, b"1");
                plan.headers = Some(headers.finish().into());
            }
            let ack = match &reply {
                Some(reply) if last => Ack::Detailed(Box::new(Detailed {
                    reply: reply.clone(),
                    value: plan.value.as_ref().map(ToString::to_string),
                    batch: Some((id.clone(), count)),
                })),
                _ => Ack::None,
            };
            self.propose(effects, now, (publish, Some(subject)), (plan, ack));
        }
    }

    /// Gives up a batch and tells why, if there is a reason to tell.
    fn abandon(
        &mut self,
        outside: &dyn Outside,
        effects: &mut Effects,
        batch: (&Bytes, Option<BatchAbandonReason>),
    ) {
        let (id, Some(reason)) = batch else { return };
        self.forget_atomic(outside, id);
        let advisory = StreamBatchAbandoned {
            stream: self.facts.name().to_owned(),
            batch: String::from_utf8_lossy(id).into_owned(),
            reason,
            ..StreamBatchAbandoned::default()
        };
        effects.push(Effect::Advise(Box::new(Advisory::BatchAbandoned(advisory))));
    }

    fn forget_atomic(&mut self, outside: &dyn Outside, id: &[u8]) {
        if self.batches.atomic.remove(id).is_some() {
            outside.limits().server_usage.atomic_batches.fetch_sub(1, Relaxed);
        }
    }

    pub(super) fn expire_atomic(&mut self, outside: &dyn Outside, effects: &mut Effects, now: Timestamp) {
        let open = self.batches.atomic.iter();
        let due = open.filter(|(_, batch)| batch.deadline <= now).map(|(id, _)| id.clone());
        let mut due: Vec<Bytes> = due.collect();
        due.sort_unstable();
        for id in due {
            self.abandon(outside, effects, (&id, Some(BatchAbandonReason::Timeout)));
        }
    }
}
