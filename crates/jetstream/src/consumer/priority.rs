//! The pinned client of a priority group.

use std::time::Duration;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::advisory::{ConsumerGroupPinned, ConsumerGroupUnpinned};
use api::jetstream::consumer::PriorityPolicy;
use store::Timestamp;

use super::{Consumer, Context};
use crate::effect::{Advisory, Effect};

/// A pin lasts this long without a sign of life, unless configured.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// Characters of the id that a pinned client is given.
const ID_LENGTH: usize = 22;

/// The client that gets all messages.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) id: Box<str>,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
}

/// Random letters and digits.
pub(super) fn random_text(ctx: &mut Context<'_>, length: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..length).map(|_| char::from(DIGITS[(ctx.outside.random() % DIGITS.len() as u64) as usize])).collect()
}

impl Consumer {
    fn pin_timeout(&self) -> Duration {
        match self.config.priority_timeout.0 {
            nanos @ 1.. => Duration::from_nanos(nanos as u64),
            _ => TIMEOUT_DEFAULT,
        }
    }

    /// A client names itself as the pinned one. False if another one is.
    pub(super) fn refresh_pin(&mut self, ctx: &mut Context<'_>, id: &str) -> bool {
        let until = ctx.outside.now().saturating_add(self.pin_timeout());
        let Some(pin) = self.lead.as_mut().and_then(|lead| lead.pin.as_mut()) else { return true };
        if *pin.id != *id {
            return false;
        }
        pin.until = until;
        true
    }

    /// Pins a client and gives its new id.
    pub(super) fn assign_pin(&mut self, ctx: &mut Context<'_>, now: Timestamp) -> String {
        let id = random_text(ctx, ID_LENGTH);
        let until = now.saturating_add(self.pin_timeout());
        if let Some(lead) = &mut self.lead {
            lead.pin = Some(Box::new(Pin { id: id.as_str().into(), since: now, until }));
        }
        let advisory = ConsumerGroupPinned {
            account: ctx.facts.account().to_owned(),
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            domain: ctx.facts.domain().unwrap_or_default().to_owned(),
            group: self.config.priority_groups.first().cloned().unwrap_or_default(),
            pinned_id: id.clone(),
        };
        ctx.effects.push(Effect::Advise(Box::new(Advisory::Pinned(advisory))));
        id
    }

    fn remove_pin(&mut self, ctx: &mut Context<'_>, reason: &str) {
        let Some(lead) = &mut self.lead else { return };
        lead.pin = None;
        lead.ready = true;
        let advisory = ConsumerGroupUnpinned {
            account: ctx.facts.account().to_owned(),
            stream: ctx.facts.name().to_owned(),
            consumer: self.name.to_string(),
            domain: ctx.facts.domain().unwrap_or_default().to_owned(),
            group: self.config.priority_groups.first().cloned().unwrap_or_default(),
            reason: reason.to_owned(),
        };
        ctx.effects.push(Effect::Advise(Box::new(Advisory::Unpinned(advisory))));
    }

    /// The pinned client may have been silent for too long.
    pub(super) fn expire_pin(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let pin = self.lead.as_ref().and_then(|lead| lead.pin.as_ref());
        if pin.is_some_and(|pin| pin.until <= now) {
            self.remove_pin(ctx, "timeout");
        }
    }

    /// Whether a request to unpin names a group of this consumer.
    pub fn check_unpin(&self, group: &str) -> Result<(), ApiError> {
        let known = self.config.priority_groups.iter().any(|name| name == group);
        if known { Ok(()) } else { Err(ErrorCode::CONSUMER_INVALID_PRIORITY_GROUP.into()) }
    }

    /// Lets another client be pinned, where clients are.
    pub fn unpin(&mut self, ctx: &mut Context<'_>) {
        if self.settings.priority == PriorityPolicy::PinnedClient {
            self.remove_pin(ctx, "admin");
        }
    }
}
