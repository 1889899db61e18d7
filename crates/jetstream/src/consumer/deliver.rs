//! Which message goes next, and sending it.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

use api::jetstream::consumer::PriorityPolicy;
use bytes::{Bytes, BytesMut};
use store::Timestamp;
use store::stream::{Error, Message};

use super::command::Operation;
use super::keys::PARKED_MAX;
use super::lead::{Idle, Lead, put_decimal, send_status};
use super::pull::{Choice, Receiver};
use super::state::{Await, State};
use super::{Budget, Consumer, Context};
use crate::effect::{Deliver, Effect};
use crate::waiting::{ACKS_FREE, PAUSE};

/// Most digits and dots behind the prefix of an acknowledgement subject.
const ACK_TOKENS_BYTES_MAX: usize = 5 * 21;

/// A message that may go, and the number of its delivery.
struct Candidate {
    message: Message,
    delivery: u32,
}

/// Adds a header to the end of a block, which may be empty.
fn with_header(headers: &[u8], name: &str, value: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(headers.len() + name.len() + value.len() + 16);
    match headers.strip_suffix(b"\r\n") {
        Some(rest) => out.extend_from_slice(rest),
        None => out.extend_from_slice(b"NATS/1.0\r\n"),
    }
    for part in [name, ": ", value, "\r\n\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    out.freeze()
}

/// Sequences that an error says are lost.
fn lost(error: &Error) -> Option<RangeInclusive<u64>> {
    match error {
        Error::Damaged(damage) => damage.sequences.clone(),
        _ => None,
    }
}

impl Lead {
    /// The subject that acknowledges a delivery: what it is about is in its tokens.
    pub(super) fn ack_subject(
        &mut self,
        message: &Message,
        delivery: u32,
        position: u64,
        pending: u64,
    ) -> Bytes {
        let prefix = std::mem::take(&mut self.ack_prefix);
        let time = message.timestamp.0.max(0) as u64;
        let subject = self.scratch(|out| {
            out.reserve(prefix.len() + ACK_TOKENS_BYTES_MAX);
            out.extend_from_slice(&prefix);
            put_decimal(out, u64::from(delivery));
            for number in [message.sequence, position, time, pending] {
                out.extend_from_slice(b".");
                put_decimal(out, number);
            }
        });
        self.ack_prefix = prefix;
        subject
    }
}

impl Consumer {
    /// Sends what can be sent, redeliveries first, until the budget is spent. True if there is more.
    pub fn deliver(&mut self, ctx: &mut Context<'_>, budget: &mut Budget) -> bool {
        let now = ctx.outside.now();
        let Some(lead) = &mut self.lead else { return false };
        lead.turn += 1;
        lead.deadlines.trim(&self.state, &self.settings);
        let idle = loop {
            if budget.is_spent() {
                return true;
            }
            match self.step(ctx, now) {
                Ok(size) => budget.take(size),
                Err(idle) => break idle,
            }
        };
        if idle == Idle::Blocked {
            self.ask_flow_if_blocked(ctx);
        }
        self.settle_pulls(ctx, idle);
        if let Some(lead) = &mut self.lead {
            lead.rest();
        }
        false
    }

    /// Sends one message and gives its size.
    fn step(&mut self, ctx: &mut Context<'_>, now: Timestamp) -> Result<u64, Idle> {
        self.check_receiver()?;
        let mut candidate = self.candidate(ctx)?;
        let pending = self.num_pending(ctx) - u64::from(candidate.delivery == 1);
        let position = self.state.delivered.consumer + 1;
        let Some(lead) = &mut self.lead else { return Err(Idle::NoReceiver) };
        let message = &candidate.message;
        if let Some(time) = lead.pace.wait(message.timestamp, message.sequence, now) {
            lead.pace.not_before = Some(time);
            return Err(Idle::Later);
        }
        let reply = lead.ack_subject(message, candidate.delivery, position, pending);
        if self.settings.headers_only {
            let size = message.payload.len().to_string();
            candidate.message.headers = with_header(&message.headers, "Nats-Msg-Size", &size);
            candidate.message.payload = Bytes::new();
        }
        let message = &candidate.message;
        let size = message.subject.len() + reply.len() + message.headers.len() + message.payload.len();
        let receiver = self.receiver(ctx, now, size, &mut candidate)?;
        self.record_delivery(&candidate, position, now);
        self.send(ctx, candidate.message, reply, receiver, now);
        Ok(size as u64)
    }

    /// Whether anybody may take a message.
    fn check_receiver(&self) -> Result<(), Idle> {
        let Some(lead) = &self.lead else { return Err(Idle::NoReceiver) };
        if lead.pace.not_before.is_some() {
            return Err(Idle::Later);
        }
        let open = match &lead.push {
            Some(push) => push.is_open(),
            None => !lead.pulls.is_empty(),
        };
        if open && lead.paused_until.is_none() { Ok(()) } else { Err(Idle::NoReceiver) }
    }

    /// Who takes the message.
    fn receiver(
        &mut self,
        ctx: &mut Context<'_>,
        now: Timestamp,
        size: usize,
        candidate: &mut Candidate,
    ) -> Result<Receiver, Idle> {
        let overflow = self.settings.priority == PriorityPolicy::Overflow;
        let pending = if overflow { self.num_pending(ctx) } else { 0 };
        let Some(lead) = &mut self.lead else { return Err(Idle::NoReceiver) };
        if let Some(push) = &lead.push {
            return Ok(Receiver { to: push.subject.clone(), after: None });
        }
        let choice = Choice {
            now,
            turn: lead.turn,
            size: size as i64,
            pending: i64::try_from(pending).unwrap_or(i64::MAX),
            ack_pending: self.state.pending.len() as i64,
            policy: self.settings.priority,
        };
        let pinned = lead.pin.as_ref().map(|pin| pin.id.clone());
        let index = lead.pulls.choose(ctx, &choice, pinned.as_deref()).ok_or(Idle::Empty)?;
        if choice.policy == PriorityPolicy::PinnedClient {
            let id = match pinned {
                Some(id) => id.into_string(),
                None => self.assign_pin(ctx, now),
            };
            let headers = &mut candidate.message.headers;
            *headers = with_header(headers, "Nats-Pin-Id", &id);
            if let Some(lead) = &mut self.lead {
                lead.pulls.pin(index, &id);
            }
        }
        let Some(lead) = &mut self.lead else { return Err(Idle::NoReceiver) };
        lead.pulls.serve(index, &choice).ok_or(Idle::Empty)
    }

    /// The message to deliver next.
    fn candidate(&mut self, ctx: &mut Context<'_>) -> Result<Candidate, Idle> {
        if let Some(candidate) = self.queued(ctx) {
            return Ok(candidate);
        }
        if self.state.pending.len() >= self.settings.pending_max {
            return Err(Idle::Blocked);
        }
        self.check_memory(ctx)?;
        if self.lead.as_ref().is_some_and(|lead| lead.refiltering) {
            return Err(Idle::Later);
        }
        loop {
            let message = match self.next_new(ctx) {
                Ok(message) => message.ok_or(Idle::Empty)?,
                Err(error) => {
                    ctx.effects.push(Effect::Damaged(error.to_string()));
                    let Some(lead) = &mut self.lead else { return Err(Idle::Empty) };
                    // Whatever is lost there must not hold up what is behind.
                    match lost(&error) {
                        Some(range) if *range.end() >= lead.next => lead.next = range.end().saturating_add(1),
                        _ => return Err(Idle::NoReceiver),
                    }
                    continue;
                }
            };
            if !self.is_crowded(&message.subject) {
                return Ok(Candidate { message, delivery: 1 });
            }
            if self.state.parked.len() >= PARKED_MAX {
                return Err(Idle::Blocked);
            }
            self.park(ctx, &message);
        }
    }

    /// A message more to wait for takes memory, which may be used up.
    fn check_memory(&mut self, ctx: &Context<'_>) -> Result<(), Idle> {
        let limits = ctx.outside.limits();
        if self.state.pending.len() < ACKS_FREE || !limits.waiting_exceeded() {
            return Ok(());
        }
        limits.server_usage.waiting.held.fetch_add(1, Relaxed);
        if let Some(lead) = &mut self.lead {
            lead.pace.not_before = Some(ctx.outside.now().saturating_add(PAUSE));
        }
        Err(Idle::Later)
    }

    /// The first message that waits to be delivered again.
    fn queued(&mut self, ctx: &mut Context<'_>) -> Option<Candidate> {
        while let Some(sequence) = self.lead.as_mut()?.queue.first() {
            let count = self.state.pending.get(&sequence).map(|pending| pending.count);
            match (count, ctx.store.load(sequence)) {
                (Some(count), _) if count >= self.settings.deliver_max => self.give_up(ctx, sequence),
                (Some(count), Ok(Some(message))) => return Some(Candidate { message, delivery: count + 1 }),
                (_, Err(error)) => ctx.effects.push(Effect::Damaged(error.to_string())),
                _ => {}
            }
            self.lead.as_mut()?.queue.remove(sequence);
        }
        None
    }

    /// The first message that was not delivered yet.
    fn next_new(&mut self, ctx: &mut Context<'_>) -> Result<Option<Message>, Error> {
        let Some(lead) = &mut self.lead else { return Ok(None) };
        while let Some(sequence) = lead.keys.freed() {
            if let Some(message) = ctx.store.load(sequence)? {
                return Ok(Some(message));
            }
            lead.keys.forget_freed(sequence);
        }
        if let Some(chosen) = &self.state.chosen {
            for sequence in chosen.after(self.state.delivered.stream) {
                if let Some(message) = ctx.store.load(sequence)? {
                    return Ok(Some(message));
                }
            }
            lead.next = lead.next.max(chosen.up_to.saturating_add(1));
        }
        let message = ctx.store.next(&self.settings.filter, lead.next)?;
        lead.next = match &message {
            Some(message) => message.sequence,
            None => lead.next.max(ctx.store.state().last_sequence.saturating_add(1)),
        };
        Ok(message)
    }

    /// The state after a delivery.
    fn record_delivery(&mut self, candidate: &Candidate, position: u64, now: Timestamp) {
        let tracked = !self.is_unacknowledged();
        let sequence = candidate.message.sequence;
        let Self { lead, state, settings, .. } = self;
        let Some(lead) = lead else { return };
        let at = lead.batch.time(now);
        let operation = if candidate.delivery == 1 {
            lead.taken(state, sequence);
            state.deliver(sequence, position, at, if tracked { Await::Ack } else { Await::Apply });
            if !tracked {
                lead.floor = state.floor();
                if !lead.replicated && state.chosen.as_ref().is_some_and(|chosen| sequence > chosen.up_to) {
                    // No command will say so.
                    state.chosen = None;
                }
            }
            lead.keys.delivered(settings, &candidate.message.subject, sequence);
            Operation::Delivered { first: sequence, count: 1, position }
        } else {
            lead.queue.remove(sequence);
            state.redeliver(sequence, position, at, candidate.delivery);
            Operation::Redelivered { sequence, position, deliveries: candidate.delivery }
        };
        if let Some(wait) = settings.wait(candidate.delivery)
            && tracked
        {
            lead.deadlines.push(Timestamp(at.0.saturating_add(wait)), sequence);
        }
        lead.delivered_at = Some(now);
        if lead.replicated {
            lead.record(operation, now);
        }
        self.dirty = true;
    }

    fn send(
        &mut self,
        ctx: &mut Context<'_>,
        message: Message,
        reply: Bytes,
        receiver: Receiver,
        now: Timestamp,
    ) {
        let size = message.subject.len() + reply.len() + message.headers.len() + message.payload.len();
        if let Some(lead) = &mut self.lead {
            lead.pace.sent(message.timestamp, size as u64, self.settings.rate, now);
        }
        let to = receiver.to;
        let Message { subject, headers, payload, .. } = message;
        ctx.effects.push(Effect::Deliver(Deliver { to: to.clone(), subject, reply, headers, payload }));
        if let Some(status) = receiver.after {
            send_status(ctx, to, status);
        }
        self.push_sent(ctx, size as u64, now);
    }

    /// Number of messages still to deliver.
    pub fn num_pending(&mut self, ctx: &mut Context<'_>) -> u64 {
        let State { chosen, parked, delivered, .. } = &self.state;
        let chosen = chosen.as_ref().map_or(0, |chosen| chosen.after(delivered.stream).len());
        let own = (chosen + parked.len()) as u64;
        let Some(lead) = &mut self.lead else { return own };
        match lead.remaining.get(ctx.store, &self.settings.filter) {
            Ok(count) => own + count,
            Err(error) => {
                ctx.effects.push(Effect::Damaged(error.to_string()));
                own
            }
        }
    }

    /// Counts what is still to deliver anew, when somebody asks.
    pub(super) fn recount(&mut self) {
        let chosen = self.state.chosen.as_ref().map_or(0, |chosen| chosen.up_to.saturating_add(1));
        if let Some(lead) = &mut self.lead {
            lead.remaining = super::pending::Remaining::from(lead.next.max(chosen));
        }
    }
}

impl Lead {
    /// A message is not among those still to deliver any more.
    pub(super) fn taken(&mut self, state: &State, sequence: u64) {
        let chosen = state.chosen.as_ref().is_some_and(|chosen| sequence <= chosen.up_to);
        if !chosen && !state.parked.contains(&sequence) {
            self.remaining.taken(sequence);
        }
        self.next = self.next.max(sequence.saturating_add(1));
    }
}
