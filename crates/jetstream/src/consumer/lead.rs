//! The leader's part of a consumer: clients, timers, and what waits to be proposed or applied.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use store::Timestamp;

use super::command::{Batch, Operation};
use super::keys::Keys;
use super::letters::DeadLetters;
use super::pending::{Deadlines, Remaining};
use super::priority::Pin;
use super::pull::Pulls;
use super::push::{Pace, Push};
use super::queue::Queue;
use super::settings::keeps_messages;
use super::{Consumer, Context, Position, Settings, State};
use crate::effect::{Effect, Send};
use crate::waiting::Charge;

/// Acknowledgement subjects are cut from blocks, so that few of them cost an allocation: the first of a turn is small, for the turn may be short.
const SCRATCH_FIRST_BYTES: usize = 512;
/// Size of the others.
const SCRATCH_BYTES: usize = 8 * 1024;
/// A block with less space than this is given up. Longer subjects make it grow.
const SCRATCH_REST_BYTES: usize = 256;

/// A consumer without clients goes this much later than its threshold says, at least and at most, so that many of them do not go at once.
const INACTIVE_JITTER_MILLIS: std::ops::Range<u64> = 100..1_000;

/// Why deliveries stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Idle {
    /// There is no message.
    #[default]
    Empty,
    /// Too many messages wait for their acknowledgement.
    Blocked,
    /// Nobody takes messages now.
    NoReceiver,
    /// It is not time for the next message.
    Later,
}

#[derive(Debug)]
pub(super) struct Lead {
    /// Where the search for the next new message begins.
    pub(super) next: u64,
    pub(super) remaining: Remaining,
    /// What people see as the acknowledgement floor.
    pub(super) floor: Position,
    /// To be delivered again, in this order.
    pub(super) queue: Queue,
    pub(super) deadlines: Deadlines,
    pub(super) batch: Batch,
    /// Who waits for each command that is proposed and not applied.
    pub(super) in_flight: VecDeque<Vec<Bytes>>,
    pub(super) pulls: Pulls,
    pub(super) push: Option<Box<Push>>,
    pub(super) pace: Pace,
    pub(super) pin: Option<Box<Pin>>,
    pub(super) letters: Option<Box<DeadLetters>>,
    pub(super) keys: Keys,
    /// Changes are written into commands.
    pub(super) replicated: bool,
    /// Deliveries may be possible.
    pub(super) ready: bool,
    /// Changes whenever `deliver` is called, so that interest is looked up once a call.
    pub(super) turn: u64,
    /// Time of the last delivery, and of the last acknowledgement, for people.
    pub(super) delivered_at: Option<Timestamp>,
    pub(super) acked_at: Option<Timestamp>,
    /// When it is looked whether anybody still uses the consumer.
    pub(super) inactive_at: Option<Timestamp>,
    pub(super) active_at: Timestamp,
    pub(super) wants_deletion: bool,
    /// Another filter is proposed and not applied.
    pub(super) refiltering: bool,
    /// Deliveries are stopped until then.
    pub(super) paused_until: Option<Timestamp>,
    /// `$JS.ACK.<stream>.<consumer>.`
    pub(super) ack_prefix: Box<[u8]>,
    scratch: BytesMut,
    charge: Charge,
}

impl Lead {
    /// Cuts a string of bytes that `write` produces from the scratch block.
    pub(super) fn scratch(&mut self, write: impl FnOnce(&mut BytesMut)) -> Bytes {
        if self.scratch.capacity() < SCRATCH_REST_BYTES {
            let first = self.scratch.capacity() == 0;
            self.scratch = BytesMut::with_capacity(if first { SCRATCH_FIRST_BYTES } else { SCRATCH_BYTES });
        }
        write(&mut self.scratch);
        self.scratch.split().freeze()
    }

    /// A message is done: the floor moves if none that is open lies before it.
    pub(super) fn finished(&mut self, state: &State, sequence: u64) {
        if state.pending.first_key_value().is_none_or(|(first, _)| sequence < *first) {
            self.floor = state.floor();
        }
    }

    /// Gives back memory that only a busy consumer needs.
    pub(super) fn rest(&mut self) {
        self.ready = false;
        self.scratch = BytesMut::new();
        self.pulls.shrink();
    }

    /// Says how much memory it holds because of clients.
    pub(super) fn account(&mut self, state: &State) {
        self.charge.set(self.pulls.len(), self.pulls.reply_bytes(), state.pending.len());
    }

    /// Records a change of the state.
    pub(super) fn record(&mut self, operation: Operation, now: Timestamp) {
        self.batch.push(operation, now);
    }

    /// Drops what this turn changed so far; whoever waits for it gets the confirmation with what is before.
    pub(super) fn forget_turn(&mut self, ctx: &mut Context<'_>) {
        self.batch.forget_operations();
        let mut replies = std::mem::take(&mut self.batch.replies);
        match self.in_flight.back_mut() {
            Some(last) => last.append(&mut replies),
            None => replies.into_iter().for_each(|reply| send_empty(ctx, reply)),
        }
    }

    /// Confirms to `reply` as soon as everything that happened so far lasts.
    pub(super) fn confirm(&mut self, ctx: &mut Context<'_>, reply: Bytes) {
        if self.batch.is_empty() && self.in_flight.is_empty() {
            send_empty(ctx, reply);
        } else {
            self.batch.replies.push(reply);
        }
    }
}

/// Publishes an empty message.
pub(super) fn send_empty(ctx: &mut Context<'_>, subject: Bytes) {
    let message = Send { subject, reply: None, headers: Bytes::new(), payload: Bytes::new() };
    ctx.effects.push(Effect::Send(message));
}

/// Publishes a status line, which is a header block.
pub(super) fn send_status(ctx: &mut Context<'_>, subject: Bytes, headers: impl Into<Bytes>) {
    let message = Send { subject, reply: None, headers: headers.into(), payload: Bytes::new() };
    ctx.effects.push(Effect::Send(message));
}

/// Writes a number in decimal digits.
pub(super) fn put_decimal(out: &mut BytesMut, value: u64) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

impl Consumer {
    /// Takes the lead: watches for clients, sets timers, proposes again what was acknowledged but may be lost.
    pub fn lead(&mut self, ctx: &mut Context<'_>) {
        let now = ctx.outside.now();
        let ack_prefix = format!("$JS.ACK.{}.{}.", ctx.facts.name(), self.name).into_bytes().into();
        let mut lead = Lead {
            next: self.state.delivered.stream.saturating_add(1),
            remaining: Remaining::default(),
            floor: self.state.floor(),
            queue: Queue::default(),
            deadlines: Deadlines::default(),
            batch: Batch::default(),
            in_flight: VecDeque::new(),
            pulls: Pulls::default(),
            push: None,
            pace: Pace::default(),
            pin: None,
            letters: None,
            keys: Keys::default(),
            replicated: Settings::is_replicated(&self.config, ctx),
            ready: true,
            turn: 0,
            delivered_at: None,
            acked_at: None,
            inactive_at: None,
            active_at: now,
            wants_deletion: false,
            refiltering: false,
            paused_until: None,
            ack_prefix,
            scratch: BytesMut::new(),
            charge: Charge::new(&ctx.outside.limits().server_usage),
        };
        lead.deadlines.rebuild(&self.state, &self.settings);
        if keeps_messages(ctx) {
            self.propose_again(&mut lead, now);
        }
        self.lead = Some(Box::new(lead));
        self.recount();
        self.count_keys(ctx);
        self.resume_letters(ctx, now);
        self.start_push(ctx, now);
        self.set_pause(now);
        if std::mem::take(&mut self.fresh) && self.pause_remaining(now).is_some() {
            self.advise_paused(ctx, now);
        }
        self.arm_inactive(ctx, now);
    }

    /// Acknowledgements in the state whose commands never came are proposed once more.
    pub(super) fn propose_again(&self, lead: &mut Lead, now: Timestamp) {
        for sequence in &self.state.unapplied {
            lead.record(Operation::Acked { first: *sequence, count: 1 }, now);
        }
        if self.is_unacknowledged() && self.state.applied < self.state.delivered.stream {
            lead.record(Operation::AckedUpTo { sequence: self.state.delivered.stream }, now);
        }
    }

    /// Whether messages are done when they are delivered.
    pub(super) fn is_unacknowledged(&self) -> bool {
        self.settings.ack == api::jetstream::consumer::AckPolicy::None
    }

    /// Gives up the lead: clients are told, and what only the leader knows is forgotten.
    pub fn step_down(&mut self, ctx: &mut Context<'_>) {
        self.keep_lasting();
        self.leave(ctx, b"NATS/1.0 409 Leadership Change\r\n\r\n");
    }

    /// The consumer was deleted.
    pub fn shut(&mut self, ctx: &mut Context<'_>) {
        self.leave(ctx, b"NATS/1.0 409 Consumer Deleted\r\n\r\n");
    }

    fn leave(&mut self, ctx: &mut Context<'_>, status: &'static [u8]) {
        let Some(mut lead) = self.lead.take() else { return };
        for pull in lead.pulls.drain() {
            send_status(ctx, pull.reply, Bytes::from_static(status));
        }
        if let Some(push) = lead.push {
            ctx.effects.push(Effect::Unwatch(push.subject));
        }
    }

    /// Whether `deliver` may find something to do.
    pub fn is_ready(&self) -> bool {
        self.lead.as_ref().is_some_and(|lead| lead.ready)
    }

    /// Whether nobody has used it for its inactive threshold, so that it should be deleted.
    pub fn wants_deletion(&self) -> bool {
        self.lead.as_ref().is_some_and(|lead| lead.wants_deletion)
    }

    /// A message was stored that it may want.
    pub fn handle_appended(&mut self) {
        if let Some(lead) = &mut self.lead {
            lead.ready = true;
        }
    }

    /// Something was done by a client.
    pub(super) fn touch(&mut self, now: Timestamp) {
        if let Some(lead) = &mut self.lead {
            lead.active_at = now;
        }
    }

    /// Sets the time at which it is looked whether anybody uses the consumer.
    pub(super) fn arm_inactive(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let threshold = self.config.inactive_threshold.0;
        let Some(lead) = &mut self.lead else { return };
        let bound = lead.push.as_ref().is_some_and(|push| push.active);
        if threshold <= 0 || bound {
            lead.inactive_at = None;
            return;
        }
        let spread = INACTIVE_JITTER_MILLIS.end - INACTIVE_JITTER_MILLIS.start;
        let jitter = INACTIVE_JITTER_MILLIS.start + ctx.outside.random() % spread;
        let pull = lead.push.is_none();
        let since = if pull { lead.active_at } else { now };
        let jitter = if pull { Duration::from_millis(jitter) } else { Duration::ZERO };
        lead.inactive_at =
            Some(since.saturating_add(Duration::from_nanos(threshold as u64)).saturating_add(jitter));
    }

    /// The threshold passed: is it really unused?
    fn check_inactive(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let threshold = Duration::from_nanos(self.config.inactive_threshold.0.max(0) as u64);
        if self.state.has_open_letters() {
            // With the consumer its letters would go.
            self.touch(now);
            return self.arm_inactive(ctx, now);
        }
        let Some(lead) = &mut self.lead else { return };
        if lead.push.is_none() {
            let waiting = lead.pulls.any_interest(ctx, now);
            // A client may work on what it has for longer than it asks for more.
            let working = !self.state.pending.is_empty()
                && lead.delivered_at.is_some_and(|at| at.saturating_add(threshold) > now);
            if waiting || working || lead.active_at.saturating_add(threshold) > now {
                if waiting || working {
                    lead.active_at = lead.active_at.max(now.saturating_sub(threshold / 2));
                }
                self.arm_inactive(ctx, now);
                return;
            }
        }
        lead.inactive_at = None;
        lead.wants_deletion = true;
    }

    /// When `handle_timeout` is wanted.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let lead = self.lead.as_ref()?;
        let own = [
            lead.deadlines.first(),
            lead.pulls.first_timeout(),
            lead.inactive_at,
            lead.paused_until,
            lead.letters.as_ref().and_then(|letters| letters.first()),
            lead.pace.not_before,
            lead.pin.as_ref().map(|pin| pin.until),
        ];
        let push = lead.push.as_ref().and_then(|push| push.first_timeout());
        own.into_iter().chain([push]).flatten().min()
    }

    /// The time that `poll_timeout` named has come.
    pub fn handle_timeout(&mut self, ctx: &mut Context<'_>) {
        let now = ctx.outside.now();
        self.check_overdue(ctx, now);
        self.send_letters(ctx, now);
        self.expire_pin(ctx, now);
        self.check_pause(ctx, now);
        self.push_timeout(ctx, now);
        let Some(lead) = &mut self.lead else { return };
        if lead.pulls.first_timeout().is_some_and(|due| due <= now) {
            let last =
                Position { consumer: self.state.delivered.consumer, stream: lead.next.saturating_sub(1) };
            lead.pulls.handle_timeout(ctx, now, last);
        }
        if lead.inactive_at.is_some_and(|due| due <= now) {
            self.check_inactive(ctx, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_idle_consumer_holds_is_small() {
        let config = size_of::<api::jetstream::consumer::ConsumerConfig>();
        let sizes = [size_of::<Consumer>(), size_of::<Lead>(), config];
        assert!(sizes.iter().sum::<usize>() <= 1_408, "{sizes:?}");
    }
}
