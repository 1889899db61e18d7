//! What clients say about messages they got.

use std::time::Duration;

use api::jetstream::consumer::AckPolicy;
use api::jetstream::decode::{Mode, decode};
use bytes::Bytes;
use store::Timestamp;

use super::advise::Delivery;
use super::command::Operation;
use super::lead::send_empty;
use super::settings::{SAMPLE_ALL, keeps_messages};
use super::{Consumer, Context};

/// What the tokens of an acknowledgement subject say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckTokens {
    /// How often the message was delivered.
    pub deliveries: u64,
    /// Sequence of the message.
    pub stream_sequence: u64,
    /// Number of the delivery.
    pub consumer_sequence: u64,
}

/// An acknowledgement subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckSubject<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The consumer.
    pub consumer: &'a str,
    /// The delivery; `None` if that is not numbers.
    pub tokens: Option<AckTokens>,
}

/// An acknowledgement, for the stream whose consumer it is for.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledgement<'a> {
    /// Number of the consumer.
    pub consumer: u64,
    /// The delivery.
    pub tokens: AckTokens,
    /// Where the confirmation goes.
    pub reply: Option<&'a Bytes>,
    /// What the client says.
    pub body: &'a [u8],
}

/// A subject that answers a flow control request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowControlSubject<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The consumer.
    pub consumer: &'a str,
}

/// Tokens that are looked at: domain, account, stream, consumer, and three numbers.
const TOKENS: usize = 7;

/// Stream, consumer and what follows, of either form: with domain and account in front, or without. Every acknowledgement comes through here, so
/// it is one pass and allocates nothing.
fn split<'a>(subject: &'a [u8], prefix: &[u8], following: usize) -> Option<[&'a [u8]; TOKENS]> {
    let rest = subject.strip_prefix(prefix)?;
    let mut tokens = [&rest[..0]; TOKENS];
    let (mut count, mut start) = (0, 0);
    let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
    for end in ends.chain([rest.len()]) {
        if let Some(token) = tokens.get_mut(count) {
            *token = &rest[start..end];
        }
        (count, start) = (count + 1, end + 1);
    }
    let short = 2 + following;
    if count >= short + 2 {
        tokens.rotate_left(2);
    } else if count != short {
        return None;
    }
    Some(tokens)
}

/// Decimal digits.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |value: u64, digit: &u8| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u64::from(digit)) }
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

impl<'a> AckSubject<'a> {
    /// Reads `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<delivery>.<time>.<pending>` and the form with `<domain>.<account>` in
    /// front. `None` if it is neither.
    pub fn parse(subject: &'a [u8]) -> Option<Self> {
        let [stream, consumer, deliveries, sequence, position, ..] = split(subject, b"$JS.ACK.", 5)?;
        let tokens = || {
            Some(AckTokens {
                deliveries: number(deliveries)?,
                stream_sequence: number(sequence)?,
                consumer_sequence: number(position)?,
            })
        };
        let name = |token| std::str::from_utf8(token).ok();
        Some(Self { stream: name(stream)?, consumer: name(consumer)?, tokens: tokens() })
    }
}

impl<'a> FlowControlSubject<'a> {
    /// Reads `$JS.FC.<stream>.<consumer>.<id>` and the form with `<domain>.<account>` in front. `None` if it is neither.
    pub fn parse(subject: &'a [u8]) -> Option<Self> {
        let [stream, consumer, ..] = split(subject, b"$JS.FC.", 1)?;
        let name = |token| std::str::from_utf8(token).ok();
        Some(Self { stream: name(stream)?, consumer: name(consumer)? })
    }
}

/// What a client says.
#[derive(Debug, PartialEq, Eq)]
enum Verb<'a> {
    Ack,
    /// And asks for more.
    Next(&'a [u8]),
    /// Again, after this many nanoseconds if given.
    Nak(Option<i64>),
    Progress,
    Terminate(&'a str),
    /// The answer of a stream to a publish.
    Answer,
    Unknown,
}

impl<'a> Verb<'a> {
    fn parse(body: &'a [u8]) -> Self {
        match body {
            b"" | b"+ACK" | b"+OK" => return Self::Ack,
            b"+WPI" => return Self::Progress,
            [b'{', ..] => return Self::Answer,
            _ => {}
        }
        if let Some(rest) = body.strip_prefix(b"+NXT") {
            Self::Next(rest.trim_ascii())
        } else if let Some(rest) = body.strip_prefix(b"-NAK") {
            Self::Nak(delay(rest.trim_ascii()))
        } else if let Some(rest) = body.strip_prefix(b"+TERM") {
            Self::Terminate(std::str::from_utf8(rest.trim_ascii()).unwrap_or_default())
        } else {
            Self::Unknown
        }
    }
}

/// The delay of a refusal; `None` if there is none that can be read.
fn delay(text: &[u8]) -> Option<i64> {
    if text.first() == Some(&b'{') {
        let options: api::jetstream::request::NakOptions = decode(text, Mode::Lenient).ok()?;
        return Some(options.delay.0);
    }
    crate::duration::parse(text)
}

impl Consumer {
    /// A client answers a delivery. It is told when that lasts, if it gave a subject for that.
    pub fn handle_ack(&mut self, ctx: &mut Context<'_>, ack: &Acknowledgement<'_>) {
        let Acknowledgement { tokens, reply, body, .. } = *ack;
        if self.lead.is_none() || matches!(self.settings.ack, AckPolicy::None | AckPolicy::FlowControl) {
            return;
        }
        let sequence = tokens.stream_sequence;
        let verb = Verb::parse(body);
        if sequence > self.state.delivered.stream || self.state.parked.contains(&sequence) {
            return self.answer_undelivered(ctx, &verb, reply);
        }
        let now = ctx.outside.now();
        let delivery =
            Delivery { stream: sequence, consumer: tokens.consumer_sequence, count: tokens.deliveries };
        self.touch(now);
        match verb {
            Verb::Ack => self.acknowledge(ctx, delivery, now),
            Verb::Next(request) => {
                self.acknowledge(ctx, delivery, now);
                if let Some(reply) = reply {
                    self.handle_pull(ctx, reply, &[], request);
                }
                return;
            }
            Verb::Nak(delay) => self.refuse_message(ctx, delivery, delay, now),
            Verb::Progress => {
                self.postpone(ctx, sequence, now);
                self.mark_delivered(now);
            }
            Verb::Terminate(reason) => {
                self.terminate(ctx, sequence, (reason, now));
                self.advise_terminated(ctx, delivery, reason);
            }
            Verb::Answer => {
                if self.letter_answered(ctx, sequence, body) {
                    return;
                }
            }
            Verb::Unknown => {}
        }
        self.confirm(ctx, reply);
    }

    /// A client speaks of a message that this consumer never delivered, one of the same name before it perhaps. Nothing changes; but whoever asks
    /// for more gets it, and only what would end the message is left without confirmation.
    fn answer_undelivered(&mut self, ctx: &mut Context<'_>, verb: &Verb<'_>, reply: Option<&Bytes>) {
        match verb {
            Verb::Ack | Verb::Terminate(_) => {}
            Verb::Next(request) => {
                if let Some(reply) = reply {
                    self.handle_pull(ctx, reply, &[], request);
                }
            }
            Verb::Nak(_) | Verb::Progress | Verb::Answer | Verb::Unknown => self.confirm(ctx, reply),
        }
    }

    /// Tells the client, once what it caused lasts.
    fn confirm(&mut self, ctx: &mut Context<'_>, reply: Option<&Bytes>) {
        if let Some(reply) = reply
            && let Some(lead) = &mut self.lead
        {
            lead.confirm(ctx, reply.clone());
        }
    }

    /// The message is done, as far as this client is concerned.
    fn acknowledge(&mut self, ctx: &mut Context<'_>, delivery: Delivery, now: Timestamp) {
        if let Some(pending) = self.state.pending.get(&delivery.stream)
            && self.settings.ack == AckPolicy::Explicit
            && self.is_sampled(ctx)
        {
            let waited = now.0.saturating_sub(pending.at.0).max(0);
            self.advise_acked(ctx, delivery, waited);
        }
        self.finish_acked(ctx, delivery.stream, now);
    }

    /// The client never wants the message again.
    fn terminate(&mut self, ctx: &mut Context<'_>, sequence: u64, how: (&str, Timestamp)) {
        let (reason, now) = how;
        if !self.state.pending.contains_key(&sequence) || !self.wants_letter(ctx, sequence) {
            return self.finish_acked(ctx, sequence, now);
        }
        self.condemn(sequence, Some(reason), now);
        if let Some(lead) = &mut self.lead {
            lead.acked_at = Some(now);
        }
    }

    fn finish_acked(&mut self, ctx: &mut Context<'_>, sequence: u64, now: Timestamp) {
        match self.settings.ack {
            AckPolicy::All | AckPolicy::FlowControl => self.ack_up_to(ctx, sequence),
            AckPolicy::Explicit | AckPolicy::None => self.ack_one(ctx, sequence),
        }
        if let Some(lead) = &mut self.lead {
            lead.acked_at = Some(now);
        }
    }

    fn is_sampled(&self, ctx: &mut Context<'_>) -> bool {
        let sample = self.settings.sample;
        sample > 0
            && (sample >= SAMPLE_ALL || ctx.outside.random() % u64::from(SAMPLE_ALL) < u64::from(sample))
    }

    /// One message is done.
    pub(super) fn ack_one(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        let done = self.state.pending.contains_key(&sequence);
        if !done && self.state.exhausted.remove(&sequence).is_none() {
            return;
        }
        let now = ctx.outside.now();
        if done {
            self.free_key(ctx, sequence);
            self.close_letter(sequence);
            self.state.finish(sequence);
        }
        if keeps_messages(ctx) {
            self.state.unapplied.insert(sequence);
        }
        self.dirty = true;
        let Some(lead) = &mut self.lead else { return };
        lead.queue.remove(sequence);
        if done {
            lead.finished(&self.state, sequence);
        }
        lead.record(Operation::Acked { first: sequence, count: 1 }, now);
        // A place among the pending messages became free, perhaps.
        lead.ready = true;
    }

    /// All messages up to this one are done.
    pub(super) fn ack_up_to(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        let sequence = sequence.min(self.state.delivered.stream);
        let now = ctx.outside.now();
        let keeps = keeps_messages(ctx);
        let mut changed = false;
        while let Some((first, _)) = self.state.pending.first_key_value()
            && *first <= sequence
        {
            let first = *first;
            changed = true;
            self.free_key(ctx, first);
            self.close_letter(first);
            self.state.finish(first);
            if keeps {
                self.state.unapplied.insert(first);
            }
            if let Some(lead) = &mut self.lead {
                lead.queue.remove(first);
            }
        }
        let exhausted: Vec<u64> = self.state.exhausted.range(..=sequence).map(|(first, _)| *first).collect();
        for first in exhausted {
            changed = true;
            self.state.exhausted.remove(&first);
            if keeps {
                self.state.unapplied.insert(first);
            }
        }
        if !changed {
            return;
        }
        self.dirty = true;
        if let Some(lead) = &mut self.lead {
            lead.finished(&self.state, sequence);
            lead.record(Operation::AckedUpTo { sequence }, now);
            lead.ready = true;
        }
    }

    /// The client does not want the message now.
    fn refuse_message(
        &mut self,
        ctx: &mut Context<'_>,
        delivery: Delivery,
        delay: Option<i64>,
        now: Timestamp,
    ) {
        let sequence = delivery.stream;
        if self.state.is_given_up(sequence) {
            return;
        }
        let Some(pending) = self.state.pending.get(&sequence) else { return };
        let count = pending.count;
        self.advise_naked(ctx, delivery);
        let Some(delay) = delay.filter(|delay| *delay > 0) else { return self.requeue(ctx, sequence) };
        // The wait is counted from a time that makes it end after the delay.
        let wait = self.settings.wait(count).unwrap_or(0);
        let at = Timestamp(now.0.saturating_add(delay).saturating_sub(wait));
        self.postpone(ctx, sequence, at);
        if let Some(lead) = &mut self.lead {
            lead.queue.remove(sequence);
            lead.deadlines.push(Timestamp(now.0.saturating_add(delay)), sequence);
        }
        self.mark_delivered(now);
    }

    /// The wait for the message's acknowledgement begins at this time. One that is queued already keeps its place.
    fn postpone(&mut self, ctx: &mut Context<'_>, sequence: u64, at: Timestamp) {
        let now = ctx.outside.now();
        if self.state.is_given_up(sequence) {
            return;
        }
        let Some(pending) = self.state.pending.get_mut(&sequence) else { return };
        pending.at = at;
        self.dirty = true;
        let Some(lead) = &mut self.lead else { return };
        lead.record(Operation::Moved { sequence, at }, now);
    }

    /// The newest delivery shows as active for people.
    fn mark_delivered(&mut self, now: Timestamp) {
        if let Some(lead) = &mut self.lead {
            lead.delivered_at = Some(now);
        }
    }

    /// A command that clients wait for is applied: they are told.
    pub(super) fn confirm_applied(&mut self, ctx: &mut Context<'_>) {
        let Some(lead) = &mut self.lead else { return };
        for reply in lead.in_flight.pop_front().unwrap_or_default() {
            send_empty(ctx, reply);
        }
    }
}

/// A nanosecond count as a duration, zero for a negative one.
pub(super) fn nanos(count: i64) -> Duration {
    Duration::from_nanos(count.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_acknowledgement_subjects_are_read() {
        let tokens = AckTokens { deliveries: 2, stream_sequence: 33, consumer_sequence: 44 };
        let expected = Some(AckSubject { stream: "S", consumer: "c", tokens: Some(tokens) });
        assert_eq!(AckSubject::parse(b"$JS.ACK.S.c.2.33.44.1796206330860469954.0"), expected);
        assert_eq!(AckSubject::parse(b"$JS.ACK._.abcdefgh.S.c.2.33.44.55.0"), expected);
        assert_eq!(AckSubject::parse(b"$JS.ACK.hub.abcdefgh.S.c.2.33.44.55.0.more"), expected);
        assert_eq!(AckSubject::parse(b"$JS.ACK.S.c.1.9.9"), None);
        let unreadable = Some(AckSubject { stream: "S", consumer: "c", tokens: None });
        for subject in ["1.x.9.0.0", "1..9.0.0", "1.+2.9.0.0", "1.18446744073709551616.9.0.0"] {
            let subject = format!("$JS.ACK.S.c.{subject}");
            assert_eq!(AckSubject::parse(subject.as_bytes()), unreadable, "{subject}");
        }
        assert_eq!(AckSubject::parse(b"$JS.ACK.S.c.1.9.9.0.0.0"), None);
    }

    #[test]
    fn both_forms_of_flow_control_subjects_are_read() {
        let expected = Some(FlowControlSubject { stream: "S", consumer: "c" });
        assert_eq!(FlowControlSubject::parse(b"$JS.FC.S.c.a1B2"), expected);
        assert_eq!(FlowControlSubject::parse(b"$JS.FC._.abcdefgh.S.c.a1B2"), expected);
        assert_eq!(FlowControlSubject::parse(b"$JS.FC.S.c"), None);
    }

    #[test]
    fn verbs_are_told_apart() {
        assert_eq!(Verb::parse(b"+NXT 2"), Verb::Next(b"2"));
        assert_eq!(Verb::parse(b"-NAK"), Verb::Nak(None));
        assert_eq!(Verb::parse(b"-NAK {\"delay\":5}"), Verb::Nak(Some(5)));
        assert_eq!(Verb::parse(b"-NAK 1m2.5s"), Verb::Nak(Some(62_500_000_000)));
        assert_eq!(Verb::parse(b"-NAK {bad"), Verb::Nak(None));
        assert_eq!(Verb::parse(b"-NAK soon"), Verb::Nak(None));
        assert_eq!(Verb::parse(b"+TERM because of it"), Verb::Terminate("because of it"));
        assert_eq!(Verb::parse(b"+ACKx"), Verb::Unknown);
        assert_eq!(Verb::parse(b"{\"stream\":\"D\",\"seq\":1}"), Verb::Answer);
    }
}
