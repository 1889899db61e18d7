//! Lame duck mode: take no new clients, tell everybody, send the clients away a few at a time, then stop.

use std::sync::Arc;
use std::time::Duration;

use protocol::error::CloseReason;
use routing::random::Random;
use tokio::time::sleep;

use crate::server::{Life, Server};

/// Longest pause between two clients, so that few clients do not take the whole duration.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Enters lame duck mode; the server stops at its end. Does nothing if it is on its way out already.
pub fn enter(server: &Arc<Server>) {
    if !server.advance(Life::LameDuck) {
        return;
    }
    tracing::info!("Entering lame duck mode, stop accepting new clients");
    tokio::spawn(run(Arc::clone(server)));
}

async fn run(server: Arc<Server>) {
    server.listeners.close().await;
    crate::system::events::lame_duck(&server);
    server.routes().announce_lame_duck(&server);
    server.update_info(|info| info.ldm = true);
    if server.client_count() > 0 {
        let times = server.options().lame_duck.clone();
        sleep(times.grace_period).await;
        close_clients(&server, times.duration.saturating_sub(times.grace_period)).await;
    }
    server.stop();
}

/// Closes the clients spread over `duration`: the pause between two is random, at least half of an even share.
async fn close_clients(server: &Arc<Server>, duration: Duration) {
    let clients = server.clients();
    let count = u32::try_from(clients.len()).unwrap_or(u32::MAX).max(1);
    let share = (duration / count).min(PAUSE_MAX);
    let mut random = Random::new(server.seed());
    tracing::info!("Closing existing clients");
    for client in clients {
        client.out.finish(b"", CloseReason::ServerShutdown);
        let part = f64::from(500 + random.below(500)) / 1000.0;
        sleep(share.mul_f64(part)).await;
    }
}
