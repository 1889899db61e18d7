//! Dead letters: a message that is given up goes to another stream before it counts as done.
//!
//! Giving up and storing the letter happen in two groups, so the order is what keeps messages: first it is durable that the message is given up
//! (it is not delivered again, but still pending), then the letter is published, and only the other stream's confirmation makes the message done.
//! Until then the letter is published again, also by the next leader. Its id lets the other stream take it once within its window.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use api::ApiError;
use api::jetstream::advisory::DeadLetterFailed;
use bytes::Bytes;
use serde::Deserialize;
use store::Timestamp;
use store::stream::Message;

use super::command::Operation;
use super::settings::keeps_messages;
use super::state::{Cause, Pending, State};
use super::{Consumer, Context};
use crate::effect::{Advisory, Effect, Send};
use crate::stream::headers::{self, Builder};

/// How long the other stream's answer is waited for, and how long after a refusal the letter is published again.
const RETRY: Duration = Duration::from_secs(5);
/// Letters of one consumer whose answer is waited for, so that many of them do not flood the other stream.
const IN_FLIGHT_MAX: usize = 256;
/// Bytes that are kept of the reason that a client gave.
const REASON_BYTES_MAX: usize = 256;
/// Room for the lines that a letter gets.
const HEADERS_ADDED: usize = 384;

/// Text for people when no stream took a letter.
const UNANSWERED: &str = "no stream has answered";

/// Letters that no stream has confirmed, as far as their leader has come with them.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    waiting: BTreeSet<(Timestamp, u64)>,
    in_flight: BTreeSet<(Timestamp, u64)>,
    /// Where each stands: its time, and whether it is in flight.
    places: BTreeMap<u64, (Timestamp, bool)>,
    /// Done on this leader while the command that says so is not applied: to the stream they are still what they were.
    closing: BTreeMap<u64, Closing>,
    /// Why the newest attempt failed, until one succeeds.
    error: Option<Box<str>>,
}

/// A message that was given up, as it was before it was done.
#[derive(Debug)]
struct Closing {
    pending: Pending,
    cause: Cause,
    /// The command that gave it up is applied.
    given_up: bool,
}

impl DeadLetters {
    /// When there is something to do.
    pub(super) fn first(&self) -> Option<Timestamp> {
        let room = self.in_flight.len() < IN_FLIGHT_MAX;
        let waiting = self.waiting.first().filter(|_| room);
        waiting.into_iter().chain(self.in_flight.first()).map(|(at, _)| *at).min()
    }

    /// Why the newest attempt failed, until one succeeds.
    pub(super) fn error(&self) -> &str {
        self.error.as_deref().unwrap_or_default()
    }

    /// To be published at this time, if it is not known already.
    pub(super) fn add(&mut self, sequence: u64, at: Timestamp) {
        if !self.places.contains_key(&sequence) {
            self.put(sequence, at, false);
        }
    }

    fn put(&mut self, sequence: u64, at: Timestamp, in_flight: bool) {
        self.remove(sequence);
        self.places.insert(sequence, (at, in_flight));
        let set = if in_flight { &mut self.in_flight } else { &mut self.waiting };
        set.insert((at, sequence));
    }

    fn remove(&mut self, sequence: u64) {
        if let Some((at, in_flight)) = self.places.remove(&sequence) {
            let set = if in_flight { &mut self.in_flight } else { &mut self.waiting };
            set.remove(&(at, sequence));
        }
    }

    /// No letter is published any more.
    fn forget(&mut self) {
        *self = Self { closing: std::mem::take(&mut self.closing), ..Self::default() };
    }

    /// It is applied that these messages are done, or they left the stream. False if none of them was to be closed.
    pub(super) fn closed(&mut self, sequences: RangeInclusive<u64>) -> bool {
        let before = self.closing.len();
        if before > 0 {
            self.closing.retain(|sequence, _| !sequences.contains(sequence));
        }
        self.closing.len() < before
    }

    /// The next one to publish.
    fn take_due(&mut self, now: Timestamp) -> Option<u64> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let (_, sequence) = self.waiting.first().copied().filter(|(at, _)| *at <= now)?;
        self.remove(sequence);
        Some(sequence)
    }

    /// The next one whose answer does not come.
    fn take_unanswered(&mut self, now: Timestamp) -> Option<u64> {
        let (_, sequence) = self.in_flight.first().copied().filter(|(at, _)| *at <= now)?;
        self.remove(sequence);
        Some(sequence)
    }
}

/// What a stream answers to a publish.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    stream: String,
    seq: u64,
    error: Option<ApiError>,
}

/// The reason that a client gave, as a header can carry it.
fn clean(reason: &str) -> Box<str> {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let printable = |letter: char| if letter.is_control() { ' ' } else { letter };
    reason[..end].chars().map(printable).collect::<String>().trim().into()
}

/// Whether a header of the message goes into its letter. Those that tell a stream what to do were obeyed when the message was stored; in the
/// letter they would delete, delay or refuse.
fn is_kept(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 4] =
        [headers::EXPECTED_PREFIX, headers::SCHEDULE_PREFIX, b"Nats-Batch-", b"Nats-Dead-Letter-"];
    let names: [&[u8]; 6] = [
        headers::MESSAGE_ID,
        headers::ROLLUP,
        headers::TTL,
        b"Nats-Incr",
        b"Nats-Stream-Source",
        b"Nats-Required-Api-Level",
    ];
    !prefixes.iter().any(|prefix| name.starts_with(prefix)) && !names.contains(&name)
}

impl Consumer {
    /// Messages that are given up and whose letter is not stored.
    pub(crate) fn open_letters(&self) -> impl Iterator<Item = u64> {
        self.state.letters.iter().flat_map(|letters| letters.open.keys().copied())
    }

    /// The state with letters as applied commands have them: what limits leave alone in the stream follows from them. What was given up, or done
    /// after that, and is not applied yet is in the log, and holds from its place there on.
    pub(super) fn lasting_state(&self) -> Cow<'_, State> {
        let (Some(lead), Some(letters)) = (&self.lead, &self.state.letters) else {
            return Cow::Borrowed(&self.state);
        };
        let led = lead.letters.as_deref();
        let is_applied = |sequence: &u64| led.is_some_and(|letters| letters.places.contains_key(sequence));
        let is_closing = led.is_some_and(|letters| !letters.closing.is_empty());
        if !is_closing && letters.open.keys().all(is_applied) {
            return Cow::Borrowed(&self.state);
        }
        let mut state = self.state.clone();
        if let Some(letters) = &mut state.letters {
            letters.open.retain(|sequence, _| is_applied(sequence));
        }
        for (sequence, closing) in led.iter().flat_map(|letters| &letters.closing) {
            state.reopen(*sequence, closing.pending);
            if closing.given_up {
                state.give_up(*sequence, closing.cause.clone());
            }
        }
        if state.letters.as_ref().is_some_and(|letters| letters.open.is_empty() && letters.stored == 0) {
            state.letters = None;
        }
        Cow::Owned(state)
    }

    /// What is not applied of letters may never be: who leads no longer goes back to what is.
    pub(super) fn keep_lasting(&mut self) {
        if let Cow::Owned(state) = self.lasting_state() {
            self.state = state;
            self.dirty = true;
        }
    }

    /// A message is about to be done; if it was given up, it is remembered as it was until that is applied.
    pub(super) fn close_letter(&mut self, sequence: u64) {
        let Some(cause) = self.state.given_up(sequence) else { return };
        let Some(pending) = self.state.pending.get(&sequence) else { return };
        let Some(lead) = &mut self.lead else { return };
        let letters = lead.letters.get_or_insert_default();
        let given_up = letters.places.contains_key(&sequence);
        letters.closing.insert(sequence, Closing { pending: *pending, cause: cause.clone(), given_up });
    }

    /// Whether a letter is written when this message is given up. One that came back as a message to this consumer is not: that would never end.
    pub(super) fn wants_letter(&self, ctx: &Context<'_>, sequence: u64) -> bool {
        let own = self.config.dead_letter_subject.as_bytes();
        self.settings.dead_letters
            && !matches!(ctx.store.subject_of(sequence), Ok(Some(subject)) if subject == own)
    }

    /// A pending message is given up. Its letter is published when that lasts. `reason` is what the client said that terminated it.
    pub(super) fn condemn(&mut self, sequence: u64, reason: Option<&str>, now: Timestamp) {
        let cause = reason.map_or(Cause::MaxDeliver, |reason| Cause::Terminated(clean(reason)));
        if !self.state.give_up(sequence, cause.clone()) {
            return;
        }
        self.dirty = true;
        let Some(lead) = &mut self.lead else { return };
        lead.queue.remove(sequence);
        lead.batch.push_given_up(sequence, &cause, now);
    }

    /// It lasts that these messages are given up: their letters go out.
    pub(super) fn publish_letter(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        let now = ctx.outside.now();
        let Some(lead) = &mut self.lead else { return };
        let letters = lead.letters.get_or_insert_default();
        match letters.closing.get_mut(&sequence) {
            Some(closing) => closing.given_up = true,
            None => letters.add(sequence, now),
        }
        self.send_letters(ctx, now);
    }

    /// A new leader goes on with all letters.
    pub(super) fn resume_letters(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let Some(lead) = &mut self.lead else { return };
        let Some(letters) = &self.state.letters else { return };
        let resumed = lead.letters.get_or_insert_default();
        letters.open.keys().for_each(|sequence| resumed.add(*sequence, now));
        self.send_letters(ctx, now);
    }

    /// Publishes letters that are due.
    pub(super) fn send_letters(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        if !self.settings.dead_letters {
            return self.forgo_letters(ctx, now);
        }
        loop {
            let Some(letters) = self.lead.as_mut().and_then(|lead| lead.letters.as_mut()) else { return };
            if let Some(sequence) = letters.take_unanswered(now) {
                self.letter_failed(ctx, sequence, (UNANSWERED, now));
            } else if let Some(sequence) = letters.take_due(now) {
                self.send_letter(ctx, sequence, now);
            } else {
                return;
            }
        }
    }

    fn send_letter(&mut self, ctx: &mut Context<'_>, sequence: u64, now: Timestamp) {
        let (Some(pending), Some(cause)) =
            (self.state.pending.get(&sequence).copied(), self.state.given_up(sequence).cloned())
        else {
            return;
        };
        let message = match ctx.store.load(sequence) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => {
                let text = error.to_string();
                if self.letter_failed(ctx, sequence, (&text, now.saturating_add(RETRY))) {
                    ctx.effects.push(Effect::Damaged(text));
                }
                return;
            }
        };
        let headers = self.letter_headers(ctx, &message, (pending.count, &cause));
        let subject = Bytes::copy_from_slice(self.config.dead_letter_subject.as_bytes());
        let Some(lead) = &mut self.lead else { return };
        lead.letters.get_or_insert_default().put(sequence, now.saturating_add(RETRY), true);
        let reply = lead.ack_subject(&message, pending.count, pending.position, 0);
        let payload = message.payload;
        ctx.effects.push(Effect::Send(Send { subject, reply: Some(reply), headers, payload }));
    }

    /// The message's headers, and why and whence it comes. The id is that of this consumer's letter about this message, whoever sends it how often;
    /// the time of the consumer's making tells it from an earlier one of its name.
    fn letter_headers(&self, ctx: &Context<'_>, message: &Message, why: (u32, &Cause)) -> Bytes {
        let (stream, consumer, sequence) = (ctx.facts.name(), &*self.name, message.sequence);
        let (deliveries, cause) = why;
        let id = format!("{stream}:{consumer}:{:x}:{sequence}", self.created.0);
        let mut built = Builder::filtered(&message.headers, HEADERS_ADDED, is_kept);
        built.line(headers::MESSAGE_ID, id.as_bytes());
        match cause {
            Cause::MaxDeliver => built.line(b"Nats-Dead-Letter-Reason", b"max_deliver"),
            Cause::Terminated(_) => built.line(b"Nats-Dead-Letter-Reason", b"terminated"),
        };
        if let Cause::Terminated(reason) = cause
            && !reason.is_empty()
        {
            built.line(b"Nats-Dead-Letter-Term-Reason", reason.as_bytes());
        }
        built.line(b"Nats-Dead-Letter-Stream", stream.as_bytes());
        built.line(b"Nats-Dead-Letter-Consumer", consumer.as_bytes());
        built.line(b"Nats-Dead-Letter-Subject", &message.subject);
        built.number(b"Nats-Dead-Letter-Sequence", sequence);
        built.number(b"Nats-Dead-Letter-Deliveries", u64::from(deliveries));
        let time = api::Time::from_unix_nanos(i128::from(message.timestamp.0)).to_string();
        built.line(b"Nats-Dead-Letter-Time-Stamp", time.as_bytes());
        if let Some(original) = headers::find(&message.headers, headers::MESSAGE_ID) {
            built.line(b"Nats-Dead-Letter-Msg-Id", original);
        }
        built.finish().into()
    }

    /// Somebody answers a letter. False if this message has none.
    pub(super) fn letter_answered(&mut self, ctx: &mut Context<'_>, sequence: u64, body: &[u8]) -> bool {
        if !self.state.is_given_up(sequence) {
            return false;
        }
        let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
        let now = ctx.outside.now();
        match answer.error {
            Some(error) => {
                let text = match error.description.as_str() {
                    "" => format!("refused with code {}", error.code),
                    text => text.to_owned(),
                };
                self.letter_failed(ctx, sequence, (&text, now.saturating_add(RETRY)));
            }
            None if answer.stream.is_empty() || answer.seq == 0 => {
                // Whoever listens there is no stream: the answer of one is still waited for.
            }
            None => self.bury(ctx, sequence, now),
        }
        self.send_letters(ctx, now);
        true
    }

    /// The letter is stored: the message is done.
    fn bury(&mut self, ctx: &mut Context<'_>, sequence: u64, now: Timestamp) {
        self.free_key(ctx, sequence);
        self.close_letter(sequence);
        self.state.finish(sequence);
        if keeps_messages(ctx) {
            self.state.unapplied.insert(sequence);
        }
        self.dirty = true;
        let Some(lead) = &mut self.lead else { return };
        if let Some(letters) = &mut lead.letters {
            letters.remove(sequence);
            letters.error = None;
        }
        lead.finished(&self.state, sequence);
        lead.record(Operation::Buried { sequence }, now);
        lead.ready = true;
    }

    /// A letter is not stored, and goes out again at the given time. True if the one before was.
    fn letter_failed(&mut self, ctx: &mut Context<'_>, sequence: u64, failure: (&str, Timestamp)) -> bool {
        let (error, again) = failure;
        if !self.state.is_given_up(sequence) {
            return false;
        }
        let Some(lead) = &mut self.lead else { return false };
        let letters = lead.letters.get_or_insert_default();
        letters.put(sequence, again, false);
        let first = letters.error.is_none();
        letters.error = Some(error.into());
        if first {
            let advisory = DeadLetterFailed {
                stream: ctx.facts.name().to_owned(),
                consumer: self.name.to_string(),
                stream_seq: sequence,
                dead_letter_subject: self.config.dead_letter_subject.clone(),
                error: error.to_owned(),
                domain: ctx.facts.domain().unwrap_or_default().to_owned(),
            };
            ctx.effects.push(Effect::Advise(Box::new(Advisory::DeadLetterFailed(advisory))));
        }
        first
    }

    /// There is no subject for letters any more: what waits for one is given up as without.
    fn forgo_letters(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let open = self.state.letters.iter().flat_map(|letters| &letters.open);
        let open: Vec<(u64, Cause)> = open.map(|(sequence, cause)| (*sequence, cause.clone())).collect();
        for (sequence, cause) in open {
            match cause {
                Cause::MaxDeliver => self.exhaust(ctx, sequence, now),
                Cause::Terminated(_) => self.ack_one(ctx, sequence),
            }
        }
        if let Some(letters) = self.lead.as_mut().and_then(|lead| lead.letters.as_mut()) {
            letters.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_letters_are_under_way_than_allowed() {
        let mut letters = DeadLetters::default();
        let now = Timestamp(10);
        for sequence in 1..=IN_FLIGHT_MAX as u64 + 1 {
            letters.add(sequence, now);
        }
        assert_eq!(letters.first(), Some(now));
        while let Some(sequence) = letters.take_due(now) {
            letters.put(sequence, Timestamp(100), true);
        }
        assert_eq!((letters.in_flight.len(), letters.waiting.len()), (IN_FLIGHT_MAX, 1));
        // The one that waits must not make anybody look before there is room.
        assert_eq!(letters.first(), Some(Timestamp(100)));
        assert_eq!(letters.take_unanswered(Timestamp(99)), None);
        assert_eq!(letters.take_unanswered(Timestamp(100)), Some(1));
        assert_eq!(letters.first(), Some(now));
        letters.remove(2);
        letters.add(3, now);
        assert_eq!((letters.in_flight.len(), letters.places.len()), (IN_FLIGHT_MAX - 2, IN_FLIGHT_MAX - 1));
    }

    #[test]
    fn reasons_fit_into_a_header() {
        assert_eq!(&*clean(" a\r\nb: c\u{0} "), "a  b: c");
        assert_eq!(clean(&"ä".repeat(200)).len(), REASON_BYTES_MAX);
        assert_eq!(clean(&format!("a{}", "ä".repeat(200))).len(), REASON_BYTES_MAX - 1);
    }

    #[test]
    fn headers_that_command_a_stream_stay_behind() {
        let block = b"NATS/1.0\r\nA: 1\r\nNats-Rollup: all\r\nNats-Expected-Stream: S\r\nNats-Msg-Id: m\r\nNats-TTL: 5\r\n\
            Nats-Scheduler: x\r\nNats-Dead-Letter-Reason: terminated\r\nNats-Marker-Reason: MaxAge\r\n\r\n";
        let kept = Builder::filtered(block, 0, is_kept).finish();
        assert_eq!(kept, b"NATS/1.0\r\nA: 1\r\nNats-Marker-Reason: MaxAge\r\n\r\n");
    }
}
