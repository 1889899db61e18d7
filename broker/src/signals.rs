//! Signals of the process, and sending them to another one (config, sections 13 and 14).

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::server::{Life, Server};
use crate::{lame_duck, logging, reload};

/// Handles signals until the server has stopped.
pub async fn handle(server: Arc<Server>) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut user1 = signal(SignalKind::user_defined1())?;
    let mut user2 = signal(SignalKind::user_defined2())?;
    loop {
        tokio::select! {
            () = server.wait() => return Ok(()),
            _ = interrupt.recv() => {
                trapped("interrupt");
                server.stop();
            }
            _ = terminate.recv() => {
                trapped("terminated");
                terminated(&server);
            }
            _ = hangup.recv() => {
                trapped("hangup");
                // The outcome is in the log; whoever sent a signal cannot be answered.
                let _ = reload::reload(&server).await;
            }
            _ = user1.recv() => {
                trapped("user defined signal 1");
                logging::reopen();
            }
            _ = user2.recv() => {
                trapped("user defined signal 2");
                lame_duck::enter(&server);
            }
        }
    }
}

fn trapped(name: &str) {
    tracing::info!("Trapped \"{name}\" signal");
}

/// SIGTERM stops at once, or gently where that is configured; a lame duck goes on at its own pace.
fn terminated(server: &Arc<Server>) {
    if server.life() == Life::LameDuck {
        return;
    }
    if server.options().lame_duck.on_term {
        lame_duck::enter(server);
    } else {
        server.stop();
    }
}
