//! Advisories and metrics: who is told what happened, under which subject.
//!
//! Nothing is written unless somebody listens, here or on a peer: busy consumers have much to tell and mostly nobody asks.

use api::Time;
use api::jetstream::advisory::{self, Action, Kind};
use jetstream::effect::Advisory;
use serde::Serialize;

use super::Shared;
use super::shard::{Outbound, Outgoing};
use crate::net::sink::Account;

/// Tells what a machine has to tell.
pub fn publish(shared: &Shared, outgoing: &mut Outgoing, account: &Account, advisory: Advisory) {
    let domain = shared.domain.clone().unwrap_or_default();
    let mut say = Teller { shared, outgoing, account };
    match advisory {
        Advisory::Consumer(body) => {
            let subject = match body.action {
                Action::Create => format!("ADVISORY.CONSUMER.CREATED.{}.{}", body.stream, body.consumer),
                Action::Delete | Action::Modify => {
                    format!("ADVISORY.CONSUMER.DELETED.{}.{}", body.stream, body.consumer)
                }
            };
            say.tell(&subject, advisory::ConsumerAction { domain, ..body });
        }
        Advisory::Paused(body) => {
            let subject = format!("ADVISORY.CONSUMER.PAUSE.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::ConsumerPause { domain, ..body });
        }
        Advisory::Pinned(body) => {
            let subject = format!("ADVISORY.CONSUMER.PINNED.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::ConsumerGroupPinned { domain, ..body });
        }
        Advisory::Unpinned(body) => {
            let subject = format!("ADVISORY.CONSUMER.UNPINNED.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::ConsumerGroupUnpinned { domain, ..body });
        }
        Advisory::MaxDeliveries(body) => {
            let subject = format!("ADVISORY.CONSUMER.MAX_DELIVERIES.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::MaxDeliveries { domain, ..body });
        }
        Advisory::Naked(body) => {
            let subject = format!("ADVISORY.CONSUMER.MSG_NAKED.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::MessageNaked { domain, ..body });
        }
        Advisory::Terminated(body) => {
            let subject = format!("ADVISORY.CONSUMER.MSG_TERMINATED.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::MessageTerminated { domain, ..body });
        }
        Advisory::Acked(body) => {
            let subject = format!("METRIC.CONSUMER.ACK.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::ConsumerAck { domain, ..body });
        }
        Advisory::DeadLetterFailed(body) => {
            let subject = format!("ADVISORY.CONSUMER.DEAD_LETTER_FAILED.{}.{}", body.stream, body.consumer);
            say.tell(&subject, advisory::DeadLetterFailed { domain, ..body });
        }
        Advisory::BatchAbandoned(body) => {
            let subject = format!("ADVISORY.STREAM.BATCH_ABANDONED.{}", body.stream);
            say.tell(&subject, advisory::StreamBatchAbandoned { domain, ..body });
        }
    }
}

/// Tells that a stream was made, changed or deleted.
pub fn stream_action(
    shared: &Shared,
    outgoing: &mut Outgoing,
    account: &Account,
    stream: &str,
    action: Action,
) {
    let verb = match action {
        Action::Create => "CREATED",
        Action::Delete => "DELETED",
        Action::Modify => "UPDATED",
    };
    let domain = shared.domain.clone().unwrap_or_default();
    let body = advisory::StreamAction { stream: stream.to_owned(), action, domain };
    Teller { shared, outgoing, account }.tell(&format!("ADVISORY.STREAM.{verb}.{stream}"), body);
}

/// Tells of an answered request.
pub fn audit(
    shared: &Shared,
    outgoing: &mut Outgoing,
    account: &Account,
    body: impl FnOnce() -> advisory::ApiAudit,
) {
    let mut say = Teller { shared, outgoing, account };
    if say.is_heard("$JS.EVENT.ADVISORY.API") {
        say.tell("ADVISORY.API", body());
    }
}

/// Tells something under a subject, which is given without its first two tokens.
pub fn tell<T: Kind + Serialize>(
    shared: &Shared,
    outgoing: &mut Outgoing,
    account: &Account,
    event: (&str, T),
) {
    Teller { shared, outgoing, account }.tell(event.0, event.1);
}

struct Teller<'a> {
    shared: &'a Shared,
    outgoing: &'a mut Outgoing,
    account: &'a Account,
}

impl Teller<'_> {
    fn is_heard(&mut self, subject: &str) -> bool {
        self.outgoing.has_interest(self.account, subject.as_bytes())
    }

    fn tell<T: Kind + Serialize>(&mut self, subject: &str, body: T) {
        let subject = format!("$JS.EVENT.{subject}");
        if !self.is_heard(&subject) {
            return;
        }
        let timestamp = Time::from_unix_nanos(i128::from(crate::clock::unix_nanos()));
        let id = crate::system::event_id(&self.shared.server);
        let advisory = advisory::Advisory::new(id, timestamp, body);
        let Ok(payload) = api::json::to_vec(&advisory) else { unreachable!("plain data has a JSON form") };
        let message = Outbound {
            to: subject.as_bytes(),
            subject: subject.as_bytes(),
            reply: None,
            headers: b"",
            payload: &payload,
        };
        self.outgoing.send(self.account, &message);
    }
}
