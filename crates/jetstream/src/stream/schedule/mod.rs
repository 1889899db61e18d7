//! Schedules: messages that make the stream publish other messages at their time (jetstream-api, section 8).
//!
//! There is one schedule for each subject, the newest message with a schedule header. Which there are and when each is due next belongs to the
//! replicated state; the leader fires, by proposing the produced message, and what that says of the next time moves the schedule on or removes it.

mod cron;

use std::collections::{BTreeMap, BTreeSet};

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::stream::StreamConfig;
use bytes::{Buf, BufMut, Bytes};
use store::Timestamp;
use store::stream::{Error as StoreError, Expiry, Filter, Message};

use super::Stream;
use super::flight::Ack;
use super::headers::{self, Builder, Known};
use super::ingest::{Plan, Publish};
use super::republish::time_text;
use super::ttl::Ttl;
use crate::command::{Rollup, Traits};
use crate::consumer::RemoveReason;
use crate::effect::Effects;
use crate::outside::Outside;
use cron::{Pattern, PatternError};

/// Schedules fired by one call.
const FIRE_MAX: usize = 1_000;

/// What the next-time header says when there is none.
const PURGE: &[u8] = b"purge";

/// A schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schedule {
    /// Sequence of its message.
    sequence: u64,
    due: Timestamp,
    /// The leader has proposed the message that is due.
    fired: bool,
}

/// All schedules of a stream. `queue` holds those of `subjects` that have not fired.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    subjects: BTreeMap<Bytes, Schedule>,
    queue: BTreeSet<(Timestamp, Bytes)>,
    /// Due, but something for their subject is in flight.
    held: Vec<(Timestamp, Bytes)>,
    dirty: bool,
}

impl Schedules {
    pub(crate) fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// When the next one is due.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// A message with a schedule was stored. One in the past is due at once.
    pub(crate) fn insert(&mut self, subject: &[u8], sequence: u64, message: (&[u8], Timestamp)) {
        let (block, stored) = message;
        let known = Known::parse(block);
        let Some(text) = known.schedule else { return };
        let Ok(pattern) = Pattern::parse(text, zone(&known)) else { return };
        let due = match &pattern {
            Pattern::At(time) => *time,
            other => match other.next(stored) {
                Some(due) => due,
                None => return,
            },
        };
        self.put(Bytes::copy_from_slice(subject), Schedule { sequence, due, fired: false });
    }

    fn put(&mut self, subject: Bytes, schedule: Schedule) {
        self.dirty = true;
        if let Some(old) = self.subjects.insert(subject.clone(), schedule) {
            self.queue.remove(&(old.due, subject.clone()));
        }
        self.queue.insert((schedule.due, subject));
    }

    /// A message left the store; it may have been a schedule.
    pub(crate) fn remove(&mut self, subject: &Bytes, sequence: u64) {
        if self.subjects.get(subject).is_some_and(|schedule| schedule.sequence == sequence)
            && let Some(old) = self.subjects.remove(subject)
        {
            self.queue.remove(&(old.due, subject.clone()));
            self.dirty = true;
        }
    }

    /// The schedule of this subject is due next at this time.
    fn move_on(&mut self, subject: &[u8], due: Timestamp) {
        let Some((subject, schedule)) = self.subjects.get_key_value(subject) else { return };
        let (subject, sequence) = (subject.clone(), schedule.sequence);
        self.put(subject, Schedule { sequence, due, fired: false });
    }

    /// Something in flight was applied: what waited for it is looked at again.
    pub(crate) fn release_held(&mut self) {
        for (due, subject) in self.held.drain(..) {
            if self.subjects.get(&subject).is_some_and(|schedule| schedule.due == due && !schedule.fired) {
                self.queue.insert((due, subject));
            }
        }
    }

    /// What this leader fired may never be committed.
    pub(crate) fn forget_fired(&mut self) {
        self.held.clear();
        for (subject, schedule) in &mut self.subjects {
            schedule.fired = false;
            self.queue.insert((schedule.due, subject.clone()));
        }
    }

    /// The schedules as an item of a checkpoint, if they changed since the last one.
    pub(crate) fn changes(&mut self) -> Option<Bytes> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let mut item = Vec::new();
        for (subject, schedule) in &self.subjects {
            item.put_u64_le(schedule.sequence);
            item.put_i64_le(schedule.due.0);
            item.put_u32_le(subject.len() as u32);
            item.put_slice(subject);
        }
        Some(item.into())
    }

    /// Reads such an item. False if it cannot be read.
    pub(crate) fn restore(&mut self, mut item: Bytes) -> bool {
        const FIXED: usize = 8 + 8 + 4;
        while item.len() >= FIXED {
            let (sequence, due) = (item.get_u64_le(), Timestamp(item.get_i64_le()));
            let length = item.get_u32_le() as usize;
            if item.len() < length {
                return false;
            }
            self.put(item.split_to(length), Schedule { sequence, due, fired: false });
        }
        self.dirty = false;
        item.is_empty()
    }
}

/// The time zone that a message names, perhaps an empty one.
fn zone<'a>(known: &Known<'a>) -> Option<&'a [u8]> {
    known.has_time_zone.then(|| known.schedule_time_zone.unwrap_or_default())
}

/// Checks the headers of schedules. True if the message is a schedule.
pub(crate) fn check(known: &Known<'_>, config: &StreamConfig, subject: &[u8]) -> Result<bool, ApiError> {
    if let Some(text) = known.schedule {
        if !config.allow_msg_schedules {
            return Err(ErrorCode::MESSAGE_SCHEDULES_DISABLED.into());
        }
        check_schedule(known, config, (text, subject))?;
    }
    match (known.scheduler, known.schedule_next) {
        (None, None) => {}
        (Some(scheduler), Some(next))
            if next == PURGE && subject::is_literal(scheduler) && scheduler != subject =>
        {
            if !config.allow_msg_schedules {
                return Err(ErrorCode::MESSAGE_SCHEDULES_DISABLED.into());
            }
        }
        _ => return Err(ErrorCode::MESSAGE_SCHEDULES_SCHEDULER_INVALID.into()),
    }
    Ok(known.schedule.is_some())
}

fn check_schedule(
    known: &Known<'_>,
    config: &StreamConfig,
    schedule: (&[u8], &[u8]),
) -> Result<(), ErrorCode> {
    let (text, subject) = schedule;
    let pattern = Pattern::parse(text, zone(known)).map_err(|error| match error {
        PatternError::Pattern => ErrorCode::MESSAGE_SCHEDULES_PATTERN_INVALID,
        PatternError::TimeZone => ErrorCode::MESSAGE_SCHEDULES_TIME_ZONE_INVALID,
    })?;
    if pattern.repeats() && pattern.next(Timestamp(0)).is_none() {
        return Err(ErrorCode::MESSAGE_SCHEDULES_PATTERN_INVALID);
    }
    if let Some(ttl) = known.schedule_ttl {
        Ttl::parse(ttl).map_err(|_| ErrorCode::MESSAGE_SCHEDULES_TTL_INVALID)?;
        if !config.allow_msg_ttl {
            return Err(ErrorCode::MESSAGE_TTL_DISABLED);
        }
    }
    let within = |literal: &[u8]| {
        let mut subjects = config.subjects.iter();
        subject::is_literal(literal) && subjects.any(|pattern| subject::matches(literal, pattern.as_bytes()))
    };
    let target = known.schedule_target.unwrap_or_default();
    if !within(target) || target == subject {
        return Err(ErrorCode::MESSAGE_SCHEDULES_TARGET_INVALID);
    }
    if known.schedule_source.is_some_and(|source| !within(source) || source == target || source == subject) {
        return Err(ErrorCode::MESSAGE_SCHEDULES_SOURCE_INVALID);
    }
    let is_sub = |value: &[u8]| value.eq_ignore_ascii_case(b"sub");
    if known.schedule_rollup.is_some_and(|value| value != b"sub")
        || known.rollup.is_some_and(|value| !is_sub(value))
    {
        return Err(ErrorCode::MESSAGE_SCHEDULES_ROLLUP_INVALID);
    }
    Ok(())
}

impl Stream {
    /// Proposes the messages of schedules that are due.
    pub(crate) fn fire_schedules(&mut self, outside: &mut dyn Outside, effects: &mut Effects) {
        let now = outside.now();
        for _ in 0..FIRE_MAX {
            let Some((due, subject)) = self.schedules.queue.first().cloned() else { break };
            if due > now {
                break;
            }
            self.schedules.queue.remove(&(due, subject.clone()));
            // A newer schedule of the subject is on its way: the old one is not fired over it.
            if self.flights.subject(&subject).is_some() {
                self.schedules.held.push((due, subject));
                continue;
            }
            let Some(schedule) = self.schedules.subjects.get_mut(&subject) else { continue };
            schedule.fired = true;
            let sequence = schedule.sequence;
            match self.store.load(sequence) {
                Ok(Some(message)) => self.fire(effects, now, &message),
                Ok(None) => {
                    self.schedules.remove(&subject, sequence);
                }
                Err(error) => return self.fail(effects, error.to_string()),
            }
        }
    }

    fn fire(&mut self, effects: &mut Effects, now: Timestamp, schedule: &Message) {
        let known = Known::parse(&schedule.headers);
        let pattern = known.schedule.and_then(|text| Pattern::parse(text, zone(&known)).ok());
        let next = pattern.filter(Pattern::repeats).and_then(|pattern| pattern.next(now));
        let source = known.schedule_source.and_then(|source| {
            let last = self.store.subject_state(source)?.last;
            self.store.load(last).ok().flatten()
        });
        let content = source.as_ref().unwrap_or(schedule);
        let mut built = Builder::filtered(&content.headers, 160, is_kept);
        built.line(headers::SCHEDULER, &schedule.subject);
        match next {
            Some(time) => built.line(headers::SCHEDULE_NEXT, time_text(time.0).as_bytes()),
            None => built.line(headers::SCHEDULE_NEXT, PURGE),
        };
        let mut expiry = Expiry::MaxAge;
        if let Some(text) = known.schedule_ttl
            && let Ok(ttl) = Ttl::parse(text)
        {
            built.line(headers::TTL, text);
            expiry = ttl.expiry(now);
        }
        let mut rollup = Rollup::None;
        if known.schedule_rollup.is_some() {
            built.line(headers::ROLLUP, b"sub");
            rollup = Rollup::Subject;
        }
        let publish = Publish {
            subject: Bytes::copy_from_slice(known.schedule_target.unwrap_or_default()),
            reply: None,
            headers: built.finish().into(),
            payload: content.payload.clone(),
        };
        let traits = Traits { rollup, scheduler: true, ..Traits::default() };
        let plan = Plan { traits, expiry, headers: None, payload: None, value: None };
        self.propose(effects, now, (publish, None), (plan, Ack::None));
    }

    /// A message was stored that a schedule produced, or that stops one.
    pub(crate) fn apply_scheduler(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        block: &[u8],
    ) -> Result<(), StoreError> {
        let known = Known::parse(block);
        let (Some(scheduler), Some(next)) = (known.scheduler, known.schedule_next) else { return Ok(()) };
        if next == PURGE {
            let filter = Filter::Any(vec![scheduler.into()]);
            return self.purge_up_to(outside, effects, (&filter, u64::MAX, RemoveReason::Purged));
        }
        let time = std::str::from_utf8(next).ok().and_then(|text| text.parse::<api::Time>().ok());
        if let Some(time) = time {
            self.schedules.move_on(scheduler, super::get::timestamp(time));
        }
        Ok(())
    }
}

/// Is this header of a schedule, or of its source, passed on to the produced message?
fn is_kept(name: &[u8]) -> bool {
    let dropped = name.starts_with(headers::SCHEDULE_PREFIX)
        || name.starts_with(headers::EXPECTED_PREFIX)
        || [headers::MESSAGE_ID, headers::TTL, headers::ROLLUP].contains(&name);
    !dropped
}
