//! What a stream and its consumers know of the stream beside its messages.

use std::sync::Arc;

use api::jetstream::stream::StreamConfig;
use store::Timestamp;

/// Who a stream is. None of it changes while the stream lives.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Account it belongs to.
    pub account: Arc<str>,
    /// Name within the account.
    pub name: Arc<str>,
    /// Raft group that replicates it. Never used again by another stream.
    pub group: u64,
    /// Domain of the server, if it has one.
    pub domain: Option<Arc<str>>,
    /// When it was made.
    pub created: Timestamp,
}

/// Facts that consumers of a stream need.
#[derive(Debug, Clone)]
pub struct StreamFacts {
    /// Who it is.
    pub identity: Identity,
    /// Configuration in force.
    pub config: Arc<StreamConfig>,
}

impl StreamFacts {
    /// Account it belongs to.
    pub fn account(&self) -> &str {
        &self.identity.account
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// Domain of the server, if it has one.
    pub fn domain(&self) -> Option<&str> {
        self.identity.domain.as_deref()
    }

    /// When it was made.
    pub fn created(&self) -> Timestamp {
        self.identity.created
    }
}
