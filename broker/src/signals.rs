//! Signals of the process, and sending them to another one (config, sections 13 and 14).

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::server::{Life, Server};
use crate::{lame_duck, logging, reload};

/// The signals that this process handles instead of ending by them.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    /// Catches them from now on. Belongs before anything that tells others the process id: a hangup that nobody catches ends
    /// the process.
    pub fn catch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Handles them, those caught before included, until the server has stopped.
    pub async fn handle(mut self, server: Arc<Server>) {
        loop {
            tokio::select! {
                () = server.wait() => return,
                _ = self.interrupt.recv() => {
                    trapped("interrupt");
                    server.stop();
                }
                _ = self.terminate.recv() => {
                    trapped("terminated");
                    terminated(&server);
                }
                _ = self.hangup.recv() => {
                    trapped("hangup");
                    let server = Arc::clone(&server);
                    // A task of its own: hashing the passwords of many clients must not hold up the other signals.
                    tokio::spawn(async move {
                        // The outcome is in the log; whoever sent a signal cannot be answered.
                        let _ = reload::reload(&server).await;
                    });
                }
                _ = self.user1.recv() => {
                    trapped("user defined signal 1");
                    logging::reopen();
                }
                _ = self.user2.recv() => {
                    trapped("user defined signal 2");
                    lame_duck::enter(&server);
                }
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
