//! Messages that were not acknowledged: again after a while, and given up after too many times.
//!
//! Given up means: the consumer does not deliver the message any more, while the stream keeps it. With a dead letter subject a copy is published
//! there first, and the message counts as done once that copy is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use store::Timestamp;
use store::stream::Message;

use super::command::Operation;
use super::pending::Overdue;
use super::{Consumer, Context};
use crate::effect::{Effect, Send};

/// Messages whose wait is over that are looked at in one call, so that one call never takes long.
const OVERDUE_PER_CALL: usize = 4_096;
/// A dead letter is published again until its storage is confirmed.
const LETTER_RETRY: Duration = Duration::from_secs(5);
/// Dead letters published in one call.
const LETTERS_PER_CALL: usize = 256;

/// Copies that are not known to be stored, with the time at which they are sent again.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    by_time: BTreeSet<(Timestamp, u64)>,
    times: BTreeMap<u64, Timestamp>,
}

impl DeadLetters {
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    fn is_open(&self, sequence: u64) -> bool {
        self.times.contains_key(&sequence)
    }

    fn set(&mut self, sequence: u64, at: Timestamp) {
        self.remove(sequence);
        self.by_time.insert((at, sequence));
        self.times.insert(sequence, at);
    }

    fn remove(&mut self, sequence: u64) {
        if let Some(at) = self.times.remove(&sequence) {
            self.by_time.remove(&(at, sequence));
        }
    }

    /// The next one that is due.
    fn pop(&mut self, now: Timestamp) -> Option<u64> {
        let (_, sequence) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.remove(sequence);
        Some(sequence)
    }
}

impl Consumer {
    /// Queues what waited too long: what is found at once is queued by sequence, whatever the order of the deadlines was.
    pub(super) fn check_overdue(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let mut overdue = Vec::new();
        for _ in 0..OVERDUE_PER_CALL {
            let Some(lead) = &mut self.lead else { return };
            match lead.deadlines.pop(now, &self.state, &self.settings, &lead.queue) {
                Some(Overdue::Redeliver(sequence)) => overdue.push(sequence),
                Some(Overdue::GiveUp(sequence)) => self.give_up(ctx, sequence),
                None => break,
            }
        }
        if let Some(lead) = &mut self.lead
            && !overdue.is_empty()
        {
            overdue.sort_unstable();
            overdue.into_iter().for_each(|sequence| lead.queue.push(sequence));
            lead.ready = true;
        }
    }

    /// The client wants the message again, now.
    pub(super) fn requeue(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        let Some(pending) = self.state.pending.get(&sequence) else { return };
        if pending.count >= self.settings.deliver_max {
            return self.give_up(ctx, sequence);
        }
        if let Some(lead) = &mut self.lead {
            lead.queue.push(sequence);
            lead.ready = true;
        }
    }

    /// The message was delivered as often as allowed.
    pub(super) fn give_up(&mut self, ctx: &mut Context<'_>, sequence: u64) {
        let now = ctx.outside.now();
        let Some(pending) = self.state.pending.get(&sequence).copied() else { return };
        if self.extensions.dead_letter.is_some() {
            let Some(lead) = &mut self.lead else { return };
            if lead.letters.is_open(sequence) {
                return;
            }
            lead.letters.set(sequence, now);
            self.advise_max_deliveries(ctx, sequence, u64::from(pending.count));
            self.send_letters(ctx, now);
            return;
        }
        self.advise_max_deliveries(ctx, sequence, u64::from(pending.count));
        self.free_key(ctx, sequence);
        self.state.exhaust(sequence);
        self.dirty = true;
        let Some(lead) = &mut self.lead else { return };
        lead.queue.remove(sequence);
        lead.finished(&self.state, sequence);
        lead.ready = true;
        if lead.replicated {
            lead.record(Operation::Exhausted { sequence }, now);
        }
    }

    /// Publishes copies that are due.
    pub(super) fn send_letters(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        for _ in 0..LETTERS_PER_CALL {
            let Some(lead) = &mut self.lead else { return };
            let Some(sequence) = lead.letters.pop(now) else { return };
            let Some(pending) = self.state.pending.get(&sequence).copied() else { continue };
            let Some(subject) = self.extensions.dead_letter.clone() else { continue };
            let message = match ctx.store.load(sequence) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(error) => {
                    ctx.effects.push(Effect::Damaged(error.to_string()));
                    continue;
                }
            };
            lead.letters.set(sequence, now.saturating_add(LETTER_RETRY));
            let reply = lead.ack_subject(&message, pending.count, pending.position, 0);
            let headers = self.letter_headers(ctx, &message, pending.count);
            let payload = message.payload;
            ctx.effects.push(Effect::Send(Send { subject, reply: Some(reply), headers, payload }));
        }
    }

    /// The message's headers, and where it comes from. The id lets the other stream take one copy only.
    fn letter_headers(&self, ctx: &Context<'_>, message: &Message, deliveries: u32) -> Bytes {
        let (stream, consumer) = (ctx.facts.name(), &self.name);
        let mut out = BytesMut::with_capacity(message.headers.len() + 256);
        match message.headers.strip_suffix(b"\r\n") {
            Some(rest) => out.extend_from_slice(&without_header(rest, b"Nats-Msg-Id:")),
            None => out.extend_from_slice(b"NATS/1.0\r\n"),
        }
        let sequence = message.sequence;
        let subject = String::from_utf8_lossy(&message.subject);
        let own = format!(
            "Nats-Msg-Id: {stream}:{consumer}:{sequence}\r\nNats-Dead-Letter-Reason: max_deliver\r\n\
             Nats-Dead-Letter-Stream: {stream}\r\nNats-Dead-Letter-Consumer: {consumer}\r\n\
             Nats-Dead-Letter-Subject: {subject}\r\nNats-Dead-Letter-Sequence: {sequence}\r\n\
             Nats-Dead-Letter-Deliveries: {deliveries}\r\n\r\n"
        );
        out.extend_from_slice(own.as_bytes());
        out.freeze()
    }

    /// The stream of dead letters answered: `stored` if it has the copy. False if nobody waits for that.
    pub(super) fn letter_answered(&mut self, ctx: &mut Context<'_>, sequence: u64, stored: bool) -> bool {
        let Some(lead) = &mut self.lead else { return false };
        if !lead.letters.is_open(sequence) {
            return false;
        }
        if stored {
            lead.letters.remove(sequence);
            self.ack_one(ctx, sequence);
        }
        true
    }
}

/// A header block without the lines that begin with `name`.
fn without_header(block: &[u8], name: &[u8]) -> Vec<u8> {
    let lines = block.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(name)).flatten().copied().collect()
}
