//! What the server says at intervals.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::events;
use crate::net::sink::Account;
use crate::server::{Life, Server};

/// Time to the first figures; each pause after is twice as long, up to `INTERVAL`.
const FIRST: Duration = Duration::from_millis(250);
/// Time between two sets of figures.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time between two counts of connections for each account that has some.
const ACCOUNTS_INTERVAL: Duration = Duration::from_secs(30);

/// Runs until the server stops.
pub(super) async fn run(server: Arc<Server>, account: Arc<Account>) {
    let mut pause = FIRST;
    let mut accounts_due = Instant::now() + ACCOUNTS_INTERVAL;
    while server.life() < Life::Stopping {
        sleep(pause).await;
        pause = (pause * 2).min(INTERVAL);
        events::statistics(&server, &account);
        if Instant::now() >= accounts_due {
            accounts_due += ACCOUNTS_INTERVAL;
            for other in server.accounts.all().iter().filter(|other| other.connections() > 0) {
                events::account_connections(&server, &account, other);
            }
        }
    }
}
