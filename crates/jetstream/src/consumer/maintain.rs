//! What happens to a consumer from outside: its messages go, its configuration changes, it is paused or set back.

use std::sync::Arc;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::consumer::{ConsumerConfig, DeliverPolicy};
use bytes::Bytes;
use store::Timestamp;
use store::stream::{Error as StoreError, Removed};

use super::ack::nanos;
use super::advise::Delivery;
use super::settings::{Settings, keeps_messages};
use super::{Consumer, Context, RemoveReason};
use crate::effect::Effect;

/// Why a message that left the stream is not delivered again.
const REMOVED_TEXT: &str = "Unacknowledged message was deleted";

impl Consumer {
    /// A message left the store.
    pub fn handle_removed(&mut self, ctx: &mut Context<'_>, removed: &Removed, reason: RemoveReason) {
        let sequence = removed.sequence;
        let fresh = self.lead.as_ref().is_some_and(|lead| sequence >= lead.next);
        let chosen = self.state.chosen.as_ref().is_some_and(|chosen| sequence <= chosen.up_to);
        if fresh
            && !chosen
            && self.settings.filter.matches(&removed.subject)
            && let Some(lead) = &mut self.lead
        {
            lead.remaining.removed(sequence);
        }
        if sequence > self.state.delivered.stream && !chosen {
            return;
        }
        let parked = self.state.parked.contains(&sequence);
        let exhausted = self.state.exhausted.contains_key(&sequence);
        let unapplied = self.state.unapplied.contains(&sequence);
        let pending = self.state.remove(sequence);
        self.dirty |= chosen || parked || exhausted || unapplied || pending.is_some();
        let Some(lead) = &mut self.lead else { return };
        if let Some(letters) = &mut lead.letters {
            self.dirty |= letters.closed(sequence..=sequence);
        }
        if parked {
            lead.keys.removed(&self.settings, &removed.subject, sequence);
            lead.ready = true;
        }
        if exhausted && reason == RemoveReason::Deleted {
            lead.acked_at = Some(ctx.outside.now());
        }
        let Some(pending) = pending else { return };
        lead.queue.remove(sequence);
        lead.keys.finished(&self.settings, &removed.subject);
        lead.ready = true;
        lead.finished(&self.state, sequence);
        if reason == RemoveReason::Acked {
            return;
        }
        lead.acked_at = Some(ctx.outside.now());
        if reason == RemoveReason::Purged {
            return;
        }
        let delivery =
            Delivery { stream: sequence, consumer: pending.position, count: u64::from(pending.count) };
        self.advise_terminated(ctx, delivery, REMOVED_TEXT);
    }

    /// All messages up to this one left the store.
    pub fn handle_purged(&mut self, ctx: &mut Context<'_>, up_to: u64) {
        let waited = self.state.pending.first_key_value().is_some_and(|(first, _)| *first <= up_to);
        self.state.purge(up_to);
        self.dirty = true;
        let now = ctx.outside.now();
        let Some(lead) = &mut self.lead else { return };
        lead.queue.remove_up_to(up_to);
        if let Some(letters) = &mut lead.letters {
            letters.closed(0..=up_to);
        }
        lead.next = lead.next.max(up_to.saturating_add(1));
        lead.finished(&self.state, up_to);
        if waited {
            lead.acked_at = Some(now);
        }
        lead.ready = true;
        self.recount();
        self.count_keys(ctx);
    }

    /// A new configuration is proposed. With another filter nothing new is delivered until it is in force: what the old one passes over is needed by the
    /// new one as far as the log says, and would be passed over all the same.
    pub fn announce(&mut self, config: &ConsumerConfig) {
        if let Some(lead) = &mut self.lead {
            lead.refiltering |= self.config.filters() != config.filters();
        }
    }

    /// The stream keeps messages by another rule.
    pub(crate) fn handle_retention(&mut self, ctx: &mut Context<'_>) {
        let now = ctx.outside.now();
        let Some(mut lead) = self.lead.take() else { return };
        lead.replicated = Settings::is_replicated(&self.config, ctx);
        if keeps_messages(ctx) {
            // Deliveries that are acknowledgements too did not count so far.
            self.propose_again(&mut lead, now);
        }
        self.lead = Some(lead);
    }

    /// A new configuration is in force; pausing is one.
    pub fn update(&mut self, ctx: &mut Context<'_>, config: Arc<ConsumerConfig>) -> Result<(), StoreError> {
        let before = std::mem::replace(&mut self.config, config);
        self.settings = Settings::new(&self.config);
        self.dirty = true;
        let refiltered = before.filters() != self.config.filters();
        if refiltered {
            self.restrict_chosen(ctx)?;
        }
        let now = ctx.outside.now();
        if self.lead.is_none() {
            return Ok(());
        }
        if before.deliver_subject != self.config.deliver_subject {
            ctx.effects.push(Effect::Unwatch(Bytes::copy_from_slice(before.deliver_subject.as_bytes())));
            self.start_push(ctx, now);
        }
        if let Some(lead) = &mut self.lead {
            lead.deadlines.rebuild(&self.state, &self.settings);
            lead.replicated = Settings::is_replicated(&self.config, ctx);
            lead.refiltering = false;
            if refiltered {
                // What the old filter let the search pass over behind the last delivery may match now; a new leader would find it too.
                lead.next = self.state.delivered.stream.saturating_add(1);
            }
            lead.ready = true;
        }
        self.recount();
        self.count_keys(ctx);
        self.send_letters(ctx, now);
        self.arm_inactive(ctx, now);
        if before.pause_until != self.config.pause_until {
            self.set_pause(now);
            self.advise_paused(ctx, now);
        }
        Ok(())
    }

    /// Of the messages chosen at the start only those that match now are left.
    fn restrict_chosen(&mut self, ctx: &Context<'_>) -> Result<(), StoreError> {
        let Some(chosen) = &mut self.state.chosen else { return Ok(()) };
        let mut kept = std::collections::VecDeque::new();
        for sequence in &chosen.sequences {
            let subject = ctx.store.subject_of(*sequence)?;
            if subject.is_some_and(|subject| self.settings.filter.matches(&subject)) {
                kept.push_back(*sequence);
            }
        }
        chosen.sequences = kept;
        Ok(())
    }

    /// Starts over at `start`, which is above zero.
    pub fn reset(&mut self, ctx: &mut Context<'_>, start: u64) {
        self.state.reset(start);
        self.dirty = true;
        let Some(lead) = &mut self.lead else { return };
        lead.next = start;
        lead.floor = self.state.floor();
        lead.queue.clear();
        lead.forget_turn(ctx);
        lead.ready = true;
        lead.deadlines.rebuild(&self.state, &self.settings);
        lead.letters = None;
        (lead.delivered_at, lead.acked_at) = (None, None);
        self.recount();
        self.count_keys(ctx);
    }

    /// Whether a client may set the consumer back to `sequence` (zero: to the first message that is not done), and where it goes on then.
    pub fn check_reset(&self, ctx: &Context<'_>, sequence: u64) -> Result<u64, ApiError> {
        if sequence == 0 {
            return Ok(self.ack_floor().stream.saturating_add(1));
        }
        let refused = |text: &str| ErrorCode::CONSUMER_INVALID_RESET.because(text);
        match self.config.deliver_policy {
            DeliverPolicy::All => Ok(sequence),
            DeliverPolicy::ByStartSequence if sequence >= self.config.opt_start_seq => Ok(sequence),
            DeliverPolicy::ByStartSequence => Err(refused("below start seq")),
            DeliverPolicy::ByStartTime => {
                let nanos = self.config.opt_start_time.map_or(0, api::Time::unix_nanos);
                let time = i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX });
                match ctx.store.sequence_at(Timestamp(time)) {
                    Ok(first) if sequence >= first => Ok(sequence),
                    Ok(_) => Err(refused("below start time")),
                    Err(error) => Err(refused(&error.to_string())),
                }
            }
            DeliverPolicy::Last | DeliverPolicy::New | DeliverPolicy::LastPerSubject => {
                Err(refused("not allowed"))
            }
        }
    }

    /// Deliveries are stopped if the configuration says so.
    pub(super) fn set_pause(&mut self, now: Timestamp) {
        let until = self.config.pause_until.map_or(0, api::Time::unix_nanos);
        let until = Timestamp(i64::try_from(until).unwrap_or(if until < 0 { i64::MIN } else { i64::MAX }));
        if let Some(lead) = &mut self.lead {
            lead.paused_until = (until > now).then_some(until);
            lead.ready = true;
        }
    }

    /// The pause may be over.
    pub(super) fn check_pause(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let Some(lead) = &mut self.lead else { return };
        if lead.paused_until.is_some_and(|until| until <= now) {
            lead.paused_until = None;
            lead.ready = true;
            self.advise_paused(ctx, now);
        }
    }

    /// How long deliveries are still stopped.
    pub(super) fn pause_remaining(&self, now: Timestamp) -> Option<std::time::Duration> {
        let until = self.lead.as_ref()?.paused_until?;
        (until > now).then(|| nanos(until.0 - now.0))
    }
}
