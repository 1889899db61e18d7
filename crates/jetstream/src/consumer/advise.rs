//! Advisories and metrics about single messages.

use api::Time;
use api::jetstream::advisory::{
    Action, ConsumerAck, ConsumerAction, ConsumerPause, MaxDeliveries, MessageNaked, MessageTerminated,
};
use store::Timestamp;

use super::{Consumer, Context};
use crate::effect::{Advisory, Effect};

/// Which delivery something is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    /// Sequence of the message.
    pub(super) stream: u64,
    /// Number of the delivery.
    pub(super) consumer: u64,
    /// How often the message was delivered.
    pub(super) count: u64,
}

fn domain(ctx: &Context<'_>) -> String {
    ctx.facts.domain().unwrap_or_default().to_owned()
}

fn advise(ctx: &mut Context<'_>, advisory: Advisory) {
    ctx.effects.push(Effect::Advise(Box::new(advisory)));
}

impl Consumer {
    /// It was made or deleted.
    pub(crate) fn advise_action(&self, ctx: &mut Context<'_>, action: Action) {
        let advisory = ConsumerAction {
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            action,
            domain: domain(ctx),
        };
        advise(ctx, Advisory::Consumer(advisory));
    }

    pub(super) fn advise_max_deliveries(&self, ctx: &mut Context<'_>, stream_seq: u64, deliveries: u64) {
        let advisory = MaxDeliveries {
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            stream_seq,
            deliveries,
            domain: domain(ctx),
        };
        advise(ctx, Advisory::MaxDeliveries(advisory));
    }

    pub(super) fn advise_naked(&self, ctx: &mut Context<'_>, delivery: Delivery) {
        let advisory = MessageNaked {
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            consumer_seq: delivery.consumer,
            stream_seq: delivery.stream,
            deliveries: delivery.count,
            domain: domain(ctx),
        };
        advise(ctx, Advisory::Naked(advisory));
    }

    pub(super) fn advise_terminated(&self, ctx: &mut Context<'_>, delivery: Delivery, reason: &str) {
        let advisory = MessageTerminated {
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            consumer_seq: delivery.consumer,
            stream_seq: delivery.stream,
            deliveries: delivery.count,
            reason: reason.to_owned(),
            domain: domain(ctx),
        };
        advise(ctx, Advisory::Terminated(advisory));
    }

    /// Measures an acknowledgement.
    pub(super) fn advise_acked(&self, ctx: &mut Context<'_>, delivery: Delivery, ack_time: i64) {
        let advisory = ConsumerAck {
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            consumer_seq: delivery.consumer,
            stream_seq: delivery.stream,
            ack_time,
            deliveries: delivery.count,
            domain: domain(ctx),
        };
        advise(ctx, Advisory::Acked(advisory));
    }

    pub(super) fn advise_paused(&self, ctx: &mut Context<'_>, now: Timestamp) {
        let until = self.config.pause_until.unwrap_or(Time::ZERO);
        let advisory = ConsumerPause {
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            paused: until > Time::from_unix_nanos(i128::from(now.0)),
            pause_until: until,
            domain: domain(ctx),
        };
        advise(ctx, Advisory::Paused(advisory));
    }
}
