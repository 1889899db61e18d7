//! Deliveries to a subject: who listens, flow control, heartbeats, pacing.

use api::jetstream::consumer::AckPolicy;
use bytes::Bytes;
use store::Timestamp;

use super::lead::send_status;
use super::priority::random_text;
use super::pull::heartbeat;
use super::state::Position;
use super::{Consumer, Context};
use crate::effect::{Effect, Send};

/// Most bytes on their way under flow control.
const WINDOW_MAX: u64 = 32 * 1024 * 1024;
/// The window begins at this part of it.
const WINDOW_START: u64 = WINDOW_MAX / 16;
/// Characters that tell one flow control request from another.
const FLOW_ID_LENGTH: usize = 4;
/// Gaps shorter than this are not replayed.
const REPLAY_GAP_MIN: i64 = 1_000_000;
/// A rate limit lets so much time's worth of bytes through at once.
const RATE_BURST: i64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// What a push consumer's leader knows beside the state.
#[derive(Debug, Default)]
pub(super) struct Push {
    /// Where messages go.
    pub(super) subject: Bytes,
    /// Somebody listens to the deliver subject.
    pub(super) active: bool,
    heartbeat_at: Option<Timestamp>,
    flow: Option<Flow>,
}

/// Flow control.
#[derive(Debug)]
struct Flow {
    /// Bytes that may be on their way.
    window: u64,
    /// Bytes on their way.
    outstanding: u64,
    /// Subject that answers the open request, if there is one.
    open: Option<Bytes>,
    /// Bytes that its answer tells to have arrived.
    covered: u64,
}

/// Pacing of deliveries, for push consumers by rate and for all by original gaps.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the bytes sent so far are paid for.
    paid_at: Timestamp,
    /// Timestamp of the last message, and when it was sent.
    last: Option<(Timestamp, Timestamp)>,
    /// Replay goes up to this sequence.
    pub(super) replay_to: u64,
    /// Nothing is delivered before.
    pub(super) not_before: Option<Timestamp>,
}

impl Pace {
    /// When a message may be sent. `None`: now.
    pub(super) fn wait(&self, message: Timestamp, sequence: u64, now: Timestamp) -> Option<Timestamp> {
        let mut at = now;
        if let Some((last, sent)) = self.last
            && sequence <= self.replay_to
        {
            let gap = message.0.saturating_sub(last.0);
            if gap > REPLAY_GAP_MIN {
                at = at.max(Timestamp(sent.0.saturating_add(gap)));
            }
        }
        at = at.max(Timestamp(self.paid_at.0.saturating_sub(RATE_BURST)));
        (at > now).then_some(at)
    }

    /// A message was sent.
    pub(super) fn sent(&mut self, message: Timestamp, size: u64, rate: u64, now: Timestamp) {
        self.last = Some((message, now));
        if rate > 0 {
            let cost = u128::from(size) * u128::from(SECOND) / u128::from(rate);
            let cost = i64::try_from(cost).unwrap_or(i64::MAX);
            self.paid_at = Timestamp(self.paid_at.max(now).0.saturating_add(cost));
        }
    }
}

impl Push {
    pub(super) fn first_timeout(&self) -> Option<Timestamp> {
        self.heartbeat_at
    }

    /// Whether a message may be sent to the subject now.
    pub(super) fn is_open(&self) -> bool {
        self.active && self.flow.as_ref().is_none_or(|flow| flow.outstanding <= flow.window)
    }
}

impl Consumer {
    /// Begins to watch the deliver subject.
    pub(super) fn start_push(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let replay_to = if self.settings.replay_original { ctx.store.state().last_sequence } else { 0 };
        let is_heard = self.is_heard(ctx);
        let Some(lead) = &mut self.lead else { return };
        lead.pace.replay_to = replay_to;
        if self.config.is_pull() {
            return;
        }
        let subject = Bytes::copy_from_slice(self.config.deliver_subject.as_bytes());
        let silence = self.config.idle_heartbeat.0;
        let flow = Flow { window: WINDOW_START, outstanding: 0, open: None, covered: 0 };
        lead.push = Some(Box::new(Push {
            subject: subject.clone(),
            active: is_heard,
            heartbeat_at: (silence > 0).then(|| Timestamp(now.0.saturating_add(silence))),
            flow: self.config.flow_control.then_some(flow),
        }));
        ctx.effects.push(Effect::Watch(subject));
    }

    /// Does somebody listen who may get its messages: a member of its deliver group, if it has one?
    fn is_heard(&self, ctx: &Context<'_>) -> bool {
        let (subject, group) = (self.config.deliver_subject.as_bytes(), self.config.deliver_group.as_bytes());
        if group.is_empty() {
            ctx.outside.has_interest(subject)
        } else {
            ctx.outside.has_group_interest(subject, group)
        }
    }

    /// Interest in the deliver subject changed.
    pub fn handle_interest(&mut self, ctx: &mut Context<'_>) {
        let (now, present) = (ctx.outside.now(), self.is_heard(ctx));
        let Some(lead) = &mut self.lead else { return };
        let Some(push) = &mut lead.push else { return };
        if push.active == present {
            return;
        }
        push.active = present;
        // Whoever was to answer has gone, or another one has come: nothing is on its way to anybody.
        if let Some(flow) = &mut push.flow {
            (flow.outstanding, flow.open, flow.covered) = (0, None, 0);
        }
        lead.ready |= present;
        self.arm_inactive(ctx, now);
    }

    /// Whether somebody listens to its deliveries.
    pub fn is_push_bound(&self) -> bool {
        self.lead.as_ref().and_then(|lead| lead.push.as_ref()).is_some_and(|push| push.active)
    }

    /// A message of this size was sent.
    pub(super) fn push_sent(&mut self, ctx: &mut Context<'_>, size: u64, now: Timestamp) {
        let silence = self.config.idle_heartbeat.0;
        let Some(push) = self.lead.as_mut().and_then(|lead| lead.push.as_mut()) else { return };
        if silence > 0 {
            push.heartbeat_at = Some(Timestamp(now.0.saturating_add(silence)));
        }
        let Some(flow) = &mut push.flow else { return };
        flow.outstanding += size;
        if flow.open.is_none() {
            if flow.outstanding > flow.window / 2 {
                self.ask_flow(ctx);
            }
        } else if flow.outstanding - flow.covered.min(flow.outstanding) >= flow.window {
            flow.covered += size;
        }
    }

    /// Asks the receiver to tell that it got what was sent.
    fn ask_flow(&mut self, ctx: &mut Context<'_>) {
        let id = random_text(ctx, FLOW_ID_LENGTH);
        let subject = Bytes::from(format!("$JS.FC.{}.{}.{id}", ctx.facts.name(), self.name));
        let Some(push) = self.lead.as_mut().and_then(|lead| lead.push.as_mut()) else { return };
        let Some(flow) = &mut push.flow else { return };
        flow.covered = flow.outstanding;
        flow.open = Some(subject.clone());
        let message = Send {
            subject: push.subject.clone(),
            reply: Some(subject),
            headers: Bytes::from_static(b"NATS/1.0 100 FlowControl Request\r\n\r\n"),
            payload: Bytes::new(),
        };
        ctx.effects.push(Effect::Send(message));
    }

    /// Too many messages wait for their acknowledgement, which only an answer to flow control brings.
    pub(super) fn ask_flow_if_blocked(&mut self, ctx: &mut Context<'_>) {
        let Some(push) = self.lead.as_ref().and_then(|lead| lead.push.as_ref()) else { return };
        let silent = push.flow.as_ref().is_some_and(|flow| flow.open.is_none());
        if push.active && silent && self.settings.ack == AckPolicy::FlowControl {
            self.ask_flow(ctx);
        }
    }

    /// The receiver answered a flow control request. Its headers may say how far it is.
    pub fn handle_flow_control(&mut self, ctx: &mut Context<'_>, subject: &[u8], headers: &[u8]) {
        let Some(lead) = &mut self.lead else { return };
        let Some(flow) = lead.push.as_mut().and_then(|push| push.flow.as_mut()) else { return };
        if flow.open.as_deref() != Some(subject) {
            return;
        }
        flow.window = (flow.window * 2).min(WINDOW_MAX);
        flow.outstanding = flow.outstanding.saturating_sub(flow.covered);
        (flow.open, flow.covered) = (None, 0);
        lead.ready = true;
        if self.settings.ack == AckPolicy::FlowControl
            && let Some(sequence) = header_number(headers, b"\r\nNats-Last-Stream:")
        {
            self.ack_up_to(ctx, sequence);
        }
    }

    /// A heartbeat may be due.
    pub(super) fn push_timeout(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let silence = self.config.idle_heartbeat.0;
        let Some(lead) = &mut self.lead else { return };
        if lead.pace.not_before.is_some_and(|time| time <= now) {
            lead.pace.not_before = None;
            lead.ready = true;
        }
        let last = Position { consumer: self.state.delivered.consumer, stream: lead.next.saturating_sub(1) };
        let Some(push) = &mut lead.push else { return };
        if push.heartbeat_at.is_none_or(|due| due > now) {
            return;
        }
        push.heartbeat_at = (silence > 0).then(|| Timestamp(now.0.saturating_add(silence)));
        if push.active {
            let stalled = push.flow.as_ref().and_then(|flow| flow.open.as_deref());
            let headers = heartbeat(last, stalled);
            send_status(ctx, push.subject.clone(), headers);
        }
    }
}

/// The number in a header. `name` begins with the end of the line before it.
fn header_number(headers: &[u8], name: &[u8]) -> Option<u64> {
    let start = headers.windows(name.len()).position(|part| part == name)? + name.len();
    let value = headers[start..].split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}
