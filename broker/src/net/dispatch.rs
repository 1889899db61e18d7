//! Delivery of one message: writes it to the buffers of those whom the plan names.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use protocol::client::encode;
use routing::deliver::Deliver;
use routing::interest::Count;

use super::client::Client;
use super::flush::DirtySet;
use super::outbound::Appended;
use super::sink::{Account, Sink, Subscription};
use super::trace;
use crate::accounts::deliver::import;
use crate::server::{Server, Stats};

/// A message on its way, all slices of the buffer it was read into.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Subject it was published to.
    pub subject: &'a [u8],
    /// Where an answer goes.
    pub reply: Option<&'a [u8]>,
    /// Length of the header block at the front of `payload`; zero for none.
    pub header_len: usize,
    /// Headers and body.
    pub payload: &'a [u8],
}

/// Who published a message.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The client.
    pub client: &'a Client,
    /// Its server.
    pub server: &'a Server,
}

/// Messages and bytes of one read or turn; added to the shared counters once at its end.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Came in.
    pub received: Volume,
    /// Went to clients.
    pub sent: Volume,
    /// Went to routes.
    pub routed: Volume,
}

/// Messages and bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// Messages.
    pub messages: u64,
    /// Bytes of headers and payloads.
    pub bytes: u64,
}

impl Volume {
    /// Counts one message.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }
}

impl Tally {
    /// Adds what was counted to account and server, and starts again. `from_route` tells whose input it was.
    pub fn settle(&mut self, account: Option<&Account>, stats: &Stats, from_route: bool) {
        let tally = std::mem::take(self);
        stats.add(&tally, from_route);
        let Some(traffic) = account.map(|account| &account.traffic) else { return };
        let (messages, bytes) = if from_route {
            (&traffic.route_received_messages, &traffic.route_received_bytes)
        } else {
            (&traffic.received_messages, &traffic.received_bytes)
        };
        for (counter, value) in [
            (messages, tally.received.messages),
            (bytes, tally.received.bytes),
            (&traffic.sent_messages, tally.sent.messages),
            (&traffic.sent_bytes, tally.sent.bytes),
            (&traffic.route_sent_messages, tally.routed.messages),
            (&traffic.route_sent_bytes, tally.routed.bytes),
        ] {
            if value > 0 {
                counter.fetch_add(value, Relaxed);
            }
        }
    }
}

/// Subscriptions that got their last message and have to be removed once the delivery is over.
pub type Finished = Vec<Arc<Subscription>>;

/// Delivery of one message.
#[derive(Debug)]
pub struct Dispatch<'a> {
    /// The message.
    pub message: Message<'a>,
    /// Subject by which receivers were found: the message's own, but for stored messages, which go to a consumer's inbox under the subject they
    /// were stored with.
    pub routed_by: &'a [u8],
    /// The account it is in.
    pub account: &'a Account,
    /// The client that published it, if it is one of this server's.
    pub publisher: Option<Origin<'a>>,
    /// Connection that must not get it: the publisher, if it does not want its own messages.
    pub skip: Option<u64>,
    /// Leave slow receivers out instead of slowing the publisher.
    pub drop_for_slow: bool,
    /// Who has to be flushed.
    pub dirty: &'a mut DirtySet,
    /// Counters.
    pub tally: &'a mut Tally,
    /// Subscriptions at their end.
    pub finished: &'a mut Finished,
    /// Set when a receiver is slow.
    pub stall: &'a mut bool,
}

impl Dispatch<'_> {
    /// Writes the message for one subscription of a client.
    #[inline]
    fn write_to(&mut self, client: &Arc<Client>, sid: &[u8]) -> bool {
        let Message { subject, reply, header_len, payload } = self.message;
        if self.drop_for_slow && client.out.is_slow() {
            return false;
        }
        let headers = header_len > 0 && client.headers();
        let payload = if headers { payload } else { &payload[header_len..] };
        let header_len = headers.then_some(header_len);
        if trace::is_on() {
            trace::sent(client, subject, sid, reply, payload.len());
        }
        let appended = client.out.append_message(payload.len(), |buffer| {
            encode::msg_header(buffer, subject, sid, reply, header_len, payload.len());
            buffer.extend_from_slice(payload);
            buffer.extend_from_slice(b"\r\n");
        });
        match appended {
            Appended::Ok => {}
            // With `drop_for_slow` nobody waits for the message that made it slow either; only clients can be slowed down.
            Appended::Stall if self.drop_for_slow || self.publisher.is_none() => {}
            Appended::Stall => {
                client.stalls.fetch_add(1, Relaxed);
                *self.stall = true;
            }
            Appended::Closed => return false,
            Appended::Overflow => {
                self.account.traffic.slow_consumers.fetch_add(1, Relaxed);
                return false;
            }
        }
        self.dirty.mark(&client.out);
        if let Some(reply) = reply {
            client.note_reply(reply);
        }
        self.tally.sent.add(payload.len());
        true
    }
}

impl Deliver<Sink> for Dispatch<'_> {
    #[inline]
    fn local(&mut self, subscription: &Arc<Subscription>) -> bool {
        if subscription.denies(self.routed_by) {
            return false;
        }
        match &subscription.sink {
            Sink::Client(client) => {
                if self.skip == Some(client.id) || client.out.is_closing() {
                    return false;
                }
                match subscription.count() {
                    Count::Deliver => {}
                    Count::Last => self.finished.push(Arc::clone(subscription)),
                    Count::Over => return false,
                }
                self.write_to(client, &subscription.sid)
            }
            Sink::Internal(internal) => {
                internal.deliver(&self.message, self.publisher.map(|origin| origin.client.id))
            }
            Sink::Import(taken) => import(self, taken),
            Sink::Stream(stream) => stream.deliver(&self.message),
            Sink::Source(source) => source.deliver(&self.message),
            Sink::Api(api) => api.deliver(&self.message, self.publisher.map(|origin| origin.client.id)),
            Sink::Route(_) => false,
        }
    }

    fn route(&mut self, route: &Sink, queues: &[&[u8]]) -> bool {
        let Sink::Route(route) = route else { return false };
        let sent = route.send(self.account.name(), &self.message, self.routed_by, queues);
        if sent {
            self.dirty.mark(&route.out);
            self.tally.routed.add(self.message.payload.len());
        }
        sent
    }
}

/// Removes the subscriptions that got their last message. They may be in other accounts than the one it was published in.
pub fn remove_finished(account: &Account, finished: &mut Finished) {
    for subscription in finished.drain(..) {
        if let Sink::Client(client) = &subscription.sink {
            let binding = client.binding();
            let account = binding.as_ref().map_or(account, |binding| &binding.account);
            client.subscriptions.lock().finished(account, &subscription);
        }
    }
}
