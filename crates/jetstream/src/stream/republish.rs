//! Stored messages are published again under another subject (jetstream-api, sections 2 and 4).

use bytes::Bytes;

use super::Stream;
use super::headers::Builder;
use crate::command::Store;
use crate::effect::{Effect, Effects, Send};

/// Room for the lines that are added.
const ADDED: usize = 192;

impl Stream {
    /// Publishes a stored message again, if its subject is among those concerned. `previous` is the newest sequence its subject had before, or zero.
    pub(crate) fn republish(&self, effects: &mut Effects, message: (&Store<'_>, u64)) {
        let (store, previous) = message;
        let Some(subject) = self.rules.republish.as_ref().and_then(|to| to.apply(store.subject)) else {
            return;
        };
        let mut headers = Builder::from(store.headers, ADDED);
        stamp(&mut headers, self.facts.name(), store.subject, (store.sequence, store.timestamp.0));
        headers.number(b"Nats-Last-Sequence", previous);
        let payload = if self.rules.republish_headers_only {
            headers.number(b"Nats-Msg-Size", store.payload.len() as u64);
            Bytes::new()
        } else {
            Bytes::copy_from_slice(store.payload)
        };
        effects.push(Effect::Send(Send {
            subject: subject.into(),
            reply: None,
            headers: headers.finish().into(),
            payload,
        }));
    }
}

/// Adds what tells where a message is stored: stream, subject, sequence and time.
pub(crate) fn stamp(headers: &mut Builder, stream: &str, subject: &[u8], place: (u64, i64)) {
    let (sequence, nanos) = place;
    headers.line(b"Nats-Stream", stream.as_bytes()).line(b"Nats-Subject", subject);
    headers.number(b"Nats-Sequence", sequence);
    headers.line(b"Nats-Time-Stamp", time_text(nanos).as_bytes());
}

/// A time as headers carry it.
pub(crate) fn time_text(nanos: i64) -> String {
    api::Time::from_unix_nanos(i128::from(nanos)).to_string()
}
