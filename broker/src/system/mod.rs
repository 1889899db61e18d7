//! The server as a participant of its own system account.

pub mod internal;

pub use internal::Internal;

pub mod events;

use std::sync::Arc;

use crate::server::Server;

/// Subscribes the server to its requests and starts its regular events.
pub fn start(_server: &Arc<Server>) {}
