//! The receiving ends of JetStream's subscriptions: what a connection does with a message for a stream, a consumer or the API.
//!
//! Everything here runs on the publisher's thread: it finds the shard and puts the message into its inbox.

use std::sync::Arc;

use api::jetstream::consumer::AckPolicy;
use jetstream::consumer::AckSubject;
use tokio::sync::mpsc;

use super::api::ApiRequest;
use super::directory::{AccountEntry, ConsumerEntry, StreamEntry};
use super::inbox::{Ack, Inbound};
use super::shard::Input;
use super::transfers;
use crate::net::dispatch::Message;

const API: &[u8] = b"$JS.API.";
const NEXT: &[u8] = b"CONSUMER.MSG.NEXT.";
const DIRECT: &[u8] = b"DIRECT.GET.";
/// What there is behind the prefix of a domain.
const ROOTS: [&[u8]; 7] = [b"INFO", b"STREAM.", b"CONSUMER.", b"DIRECT.", b"META.", b"SERVER.", b"ACCOUNT."];
/// Subjects of buckets, which may be written to through the prefix of a domain.
const BUCKETS: [&[u8]; 2] = [b"$KV.", b"$OBJ."];
const DIRECT_ALONE: &[u8] = b"DIRECT.GET";
const ACK: &[u8] = b"$JS.ACK.";
const FLOW_CONTROL: &[u8] = b"$JS.FC.";

/// Takes the messages of one stream's subjects.
#[derive(Debug)]
pub struct StreamSink {
    /// Number among the connections.
    pub id: u64,
    /// The stream.
    pub stream: Arc<StreamEntry>,
}

impl StreamSink {
    /// Hands the message to the shard. A full inbox is answered with 429 there, so this always counts as taken.
    pub fn deliver(&self, message: &Message<'_>) -> bool {
        let group = self.stream.group;
        let size = Inbound::size_of(message);
        let refuse = message.reply.map(|reply| Input::Refuse { group, reply: reply.to_vec().into() });
        let publish = || Input::Publish { group, message: Inbound::copy(message, None) };
        self.stream.inbox.push_message(size, publish, refuse);
        true
    }
}

/// Takes requests, acknowledgements and flow control replies of one account.
#[derive(Debug)]
pub struct ApiSink {
    /// Number among the connections.
    pub id: u64,
    /// The account.
    pub account: Arc<AccountEntry>,
    /// Subject prefix of this server's domain, `$JS.<domain>.API.`.
    pub domain_prefix: Option<Box<[u8]>>,
    /// Where requests go that no shard answers alone.
    pub requests: mpsc::Sender<ApiRequest>,
    /// What to do when that is full.
    pub overflow: Arc<super::api::Overflow>,
    /// Snapshots and restores that are under way.
    pub transfers: Arc<transfers::Transfers>,
}

impl ApiSink {
    /// Sorts the message to where it belongs. False if nobody is there to take it, so that a requester hears of it at once.
    pub fn deliver(&self, message: &Message<'_>, publisher: Option<u64>) -> bool {
        let subject = message.subject;
        if !self.account.is_enabled() {
            return self.refuse(message, publisher);
        }
        if subject.starts_with(ACK) {
            return self.ack(message);
        }
        if let Some(rest) = subject.strip_prefix(FLOW_CONTROL) {
            return self.flow_control(rest, message);
        }
        if let Some(rest) = subject.strip_prefix(transfers::PREFIX) {
            return self.transfers.take(&self.account, rest, message);
        }
        if let Some(rest) = self.domain_prefix.as_ref().and_then(|prefix| subject.strip_prefix(&**prefix)) {
            if BUCKETS.iter().any(|bucket| rest.starts_with(bucket)) {
                return self.publish(rest, message);
            }
            if !ROOTS.iter().any(|root| rest.starts_with(root)) {
                return false;
            }
        }
        let Some(rest) = self.path(subject) else { return false };
        if let Some(rest) = rest.strip_prefix(NEXT) {
            return self.next(rest, message);
        }
        if let Some(rest) = rest.strip_prefix(DIRECT) {
            return self.direct(rest, message);
        }
        rest != DIRECT_ALONE && self.request(rest, message, publisher)
    }

    /// A message for a bucket that was sent through the prefix of the domain.
    fn publish(&self, subject: &[u8], message: &Message<'_>) -> bool {
        let streams = self.account.sorted();
        let takes = |stream: &&Arc<StreamEntry>| {
            let config = stream.config.load();
            config.subjects.iter().any(|pattern| subject::matches(subject, pattern.as_bytes()))
        };
        let Some(stream) = streams.iter().find(takes) else { return false };
        let message = Message { subject, ..*message };
        self.hand_over(stream, &message, |group| Input::Publish {
            group,
            message: Inbound::copy(&message, None),
        })
    }

    /// What follows the prefix of the API.
    fn path<'a>(&self, subject: &'a [u8]) -> Option<&'a [u8]> {
        let by_domain = self.domain_prefix.as_ref().and_then(|prefix| subject.strip_prefix(&**prefix));
        subject.strip_prefix(API).or(by_domain)
    }

    /// The account has no JetStream: requests are answered by saying so, and for the rest nobody is there.
    fn refuse(&self, message: &Message<'_>, publisher: Option<u64>) -> bool {
        match self.path(message.subject) {
            // What comes over a route is for the server that its requester is connected to.
            Some(rest) if self.account.account.is_system() => {
                publisher.is_some() && self.request(rest, message, publisher)
            }
            Some(rest) if !rest.starts_with(NEXT) && !rest.starts_with(DIRECT) => {
                self.request(rest, message, publisher)
            }
            _ => false,
        }
    }

    fn request(&self, path: &[u8], message: &Message<'_>, publisher: Option<u64>) -> bool {
        let Some(reply) = message.reply else { return false };
        let request = ApiRequest {
            account: Arc::clone(&self.account),
            path: path.to_vec(),
            reply: reply.to_vec(),
            message: Inbound::copy(message, publisher),
        };
        if let Err(error) = self.requests.try_send(request) {
            self.overflow.dropped(error);
        }
        true
    }

    fn ack(&self, message: &Message<'_>) -> bool {
        let Some(AckSubject { stream, consumer, tokens }) = AckSubject::parse(message.subject) else {
            return false;
        };
        let Some(stream) = self.account.stream(stream.as_bytes()) else { return false };
        // Of the other policies nothing is acknowledged, and nobody listens.
        let listens =
            |known: &&ConsumerEntry| matches!(known.config.ack_policy, AckPolicy::All | AckPolicy::Explicit);
        let number = stream.consumers.read().get(consumer).filter(listens).map(|known| known.number);
        let Some(consumer) = number else { return false };
        if let Some(tokens) = tokens {
            let (group, ack) = (stream.group, Ack::copy(consumer, tokens, message));
            stream.inbox.push_message(ack.size(), || Input::Ack { group, ack }, None);
        }
        true
    }

    fn flow_control(&self, rest: &[u8], message: &Message<'_>) -> bool {
        let skip = if subject::tokens(rest).count() > 3 { 2 } else { 0 };
        let Some(stream) = subject::tokens(rest).nth(skip).and_then(|name| self.account.stream(name)) else {
            return false;
        };
        self.hand_over(&stream, message, |group| Input::FlowControl {
            group,
            message: Inbound::copy(message, None),
        })
    }

    fn next(&self, rest: &[u8], message: &Message<'_>) -> bool {
        let mut tokens = subject::tokens(rest);
        let (Some(stream), Some(consumer), None) = (tokens.next(), tokens.next(), tokens.next()) else {
            return false;
        };
        let Some(stream) = self.account.stream(stream) else { return false };
        let known = std::str::from_utf8(consumer)
            .is_ok_and(|consumer| stream.consumers.read().contains_key(consumer));
        if !known || message.reply.is_none() {
            return false;
        }
        self.hand_over(&stream, message, |group| Input::Pull { group, message: Inbound::copy(message, None) })
    }

    fn direct(&self, rest: &[u8], message: &Message<'_>) -> bool {
        let Some(name) = subject::tokens(rest).next().filter(|_| message.reply.is_some()) else {
            return false;
        };
        let own = self.account.stream(name).filter(|stream| stream.config.load().allow_direct);
        let Some(stream) = own.or_else(|| self.account.mirror_of(name)) else { return false };
        self.hand_over(&stream, message, |group| Input::DirectGet {
            group,
            message: Inbound::copy(message, None),
        })
    }

    /// Puts it into the shard's inbox; a full one drops it, and the client's own time limit tells it.
    fn hand_over(
        &self,
        stream: &StreamEntry,
        message: &Message<'_>,
        input: impl FnOnce(u64) -> Input,
    ) -> bool {
        let size = Inbound::size_of(message);
        stream.inbox.push_message(size, || input(stream.group), None);
        true
    }
}
