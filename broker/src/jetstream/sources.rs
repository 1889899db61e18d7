//! What mirrors and sources listen to: the answers of their origins, and the messages that come from there.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;

use super::Shared;
use super::directory::StreamEntry;
use super::inbox::Inbound;
use super::shard::Input;
use crate::net::dispatch::Message;
use crate::net::sink::{Sink, Subscription};

/// Takes what comes for one subscription of a mirror or source.
#[derive(Debug)]
pub struct SourceSink {
    /// Number among the connections.
    pub id: u64,
    /// The stream that listens.
    pub stream: Arc<StreamEntry>,
    /// Number of the subscription in the stream.
    pub inbox: u64,
}

impl SourceSink {
    /// Hands the message to the shard. One that finds no room is dropped: the stream sees the gap and has it sent again.
    pub fn deliver(&self, message: &Message<'_>) -> bool {
        let group = self.stream.group;
        let size = Inbound::size_of(message);
        let sourced = || Input::Sourced { group, inbox: self.inbox, message: Inbound::copy(message, None) };
        self.stream.inbox.push_message(size, sourced, None)
    }
}

/// The subscriptions of one stream's mirror and sources, by their numbers.
#[derive(Debug, Default)]
pub struct Subscriptions {
    open: HashMap<u64, Arc<Subscription>>,
}

impl Subscriptions {
    /// Listens to a subject.
    pub fn open(&mut self, shared: &Shared, stream: &Arc<StreamEntry>, inbox: u64, subject: &Bytes) {
        let sink = SourceSink { id: shared.server.next_id(), stream: Arc::clone(stream), inbox };
        let sink = Sink::Source(Arc::new(sink));
        let subscription = Arc::new(Subscription::local(sink, subject, None, b"js"));
        let account = &stream.account.account;
        match account.interest.insert(account.name(), &subscription) {
            Ok(()) => {
                self.open.insert(inbox, subscription);
                crate::system::flush_interest(&shared.server);
            }
            // The stream hears nothing, and asks again.
            Err(error) => tracing::error!("JetStream stream '{} > {}': {error}", account.name(), stream.name),
        }
    }

    /// Listens no longer.
    pub fn close(&mut self, shared: &Shared, stream: &StreamEntry, inbox: u64) {
        if let Some(subscription) = self.open.remove(&inbox) {
            let account = &stream.account.account;
            account.interest.remove(account.name(), &subscription);
            crate::system::flush_interest(&shared.server);
        }
    }

    /// Listens to nothing any more.
    pub fn close_all(&mut self, shared: &Shared, stream: &StreamEntry) {
        let inboxes: Vec<u64> = self.open.keys().copied().collect();
        for inbox in inboxes {
            self.close(shared, stream, inbox);
        }
    }
}
