//! Events that the server publishes into its system account (monitoring, section 3).

use std::sync::Arc;

use crate::net::client::Client;
use crate::server::Server;

/// A client was bound to its account.
pub fn client_connected(_server: &Arc<Server>, _client: &Arc<Client>) {}

/// A client's connection is over.
pub fn client_disconnected(_server: &Arc<Server>, _client: &Arc<Client>) {}

/// A client was refused.
pub fn auth_failed(_server: &Arc<Server>, _client: &Arc<Client>) {}

/// The server is about to stop.
pub fn shutdown(_server: &Arc<Server>) {}

/// The server is about to send its clients away.
pub fn lame_duck(_server: &Arc<Server>) {}
