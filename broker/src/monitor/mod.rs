//! Monitoring: what the server says about itself over HTTP.

pub mod closed;

use std::sync::Arc;

use crate::server::{Server, StartError};

/// Opens the monitoring listeners.
pub async fn start(_server: &Arc<Server>) -> Result<(), StartError> {
    Ok(())
}
