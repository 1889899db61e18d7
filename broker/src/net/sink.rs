//! Where a subscription's messages go: the type that the routing core sees only as `S`.

use std::sync::Arc;

use crate::accounts::deliver::Import;
use crate::cluster::Route;
use crate::jetstream::{ApiSink, SourceSink, StreamSink};
use crate::net::client::Client;
use crate::system::Internal;

/// A receiver of messages. Cheap to clone, equal by connection.
#[derive(Debug, Clone)]
pub enum Sink {
    /// A client connection.
    Client(Arc<Client>),
    /// A connection to a peer.
    Route(Arc<Route>),
    /// The server itself.
    Internal(Arc<Internal>),
    /// Another account.
    Import(Arc<Import>),
    /// A stream of this server.
    Stream(Arc<StreamSink>),
    /// A mirror or source of a stream of this server.
    Source(Arc<SourceSink>),
    /// JetStream's requests and acknowledgements.
    Api(Arc<ApiSink>),
}

impl Sink {
    /// Number of the connection, unique in this server's life.
    pub fn id(&self) -> u64 {
        match self {
            Self::Client(client) => client.id,
            Self::Route(route) => route.id,
            Self::Internal(internal) => internal.id,
            // No connection has this number.
            Self::Import(_) => 0,
            Self::Stream(stream) => stream.id,
            Self::Source(source) => source.id,
            Self::Api(api) => api.id,
        }
    }
}

impl PartialEq for Sink {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Import(one), Self::Import(other)) => Arc::ptr_eq(one, other),
            _ => self.id() == other.id(),
        }
    }
}

/// A subscription as this server holds it.
pub type Subscription = routing::Subscription<Sink>;
/// An account as this server holds it.
pub type Account = routing::Account<Sink>;
