//! Dialling peers: configured ones for ever, gossiped ones a few times; names are resolved anew at every attempt.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use config::options::RouteUrl;
use protocol::info::Info;
use routing::random::Random;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::handshake::{self, HandshakeError, Origin};
use super::layout::Slot;
use crate::server::{Life, Server};

/// Time between two attempts for the same place, before jitter: a peer that refuses us is not asked faster (case O76).
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);
/// Random part added to it, so that two servers do not dial each other in step for ever.
const JITTER_MS: u32 = 500;
/// Longest pause with `connect_backoff`.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Time for the TCP connection.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a complete set of connections is left alone before it is looked at again.
const WATCH_INTERVAL: Duration = Duration::from_secs(10);

/// An address to keep connections to.
#[derive(Debug, Clone)]
pub struct Target {
    url: RouteUrl,
    origin: Origin,
    /// Server expected there, once known.
    peer_id: Option<String>,
}

impl Target {
    /// An address of the configuration.
    pub fn configured(url: RouteUrl) -> Self {
        Self { url, origin: Origin::Configured, peer_id: None }
    }

    /// Name of the task that dials it.
    pub fn key(&self) -> String {
        self.url.authority()
    }
}

/// Starts to dial `target`.
pub fn start(server: &Arc<Server>, target: Target) {
    let key = target.key();
    let task = tokio::spawn(keep(Arc::clone(server), target));
    server.routes().keep_dialling(&key, task.abort_handle());
}

/// A peer told of another server: connect to it unless that is done or under way.
pub fn meet(server: &Arc<Server>, info: &Info) {
    let routes = server.routes();
    if info.server_id == server.identity.id || routes.is_connected(&info.server_id) {
        return;
    }
    let Some(url) = parse_url(&info.ip) else { return };
    let target = Target { url, origin: Origin::Gossiped, peer_id: Some(info.server_id.clone()) };
    if !routes.is_dialling(&target.key()) {
        tracing::debug!("Route to {} learnt from a peer", target.key());
        start(server, target);
    }
}

/// `nats-route://host:port/` as servers tell it.
fn parse_url(text: &str) -> Option<RouteUrl> {
    let (scheme, rest) = text.split_once("://")?;
    let (host, port) = rest.trim_end_matches('/').rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().ok()?;
    Some(RouteUrl { scheme: scheme.to_owned(), username: None, password: None, host: host.to_owned(), port })
}

/// Fills every place of the pair's layout, and does so again when a connection is lost.
async fn keep(server: Arc<Server>, mut target: Target) {
    let mut random = Random::new(server.seed() ^ server.next_id());
    let mut attempted: HashMap<Slot, Instant> = HashMap::new();
    let mut failures = 0;
    let mut changes = server.routes().changes();
    while server.life() < Life::Stopping {
        // What changes after this look ends the wait below at once.
        changes.mark_unchanged();
        let Some(slot) = next_slot(&server, &target) else {
            // Either way it looks again.
            let _ = timeout(WATCH_INTERVAL, changes.changed()).await;
            continue;
        };
        if let Some(last) = attempted.get(&slot) {
            let pause = pause(&server, failures) + Duration::from_millis(u64::from(random.below(JITTER_MS)));
            sleep(pause.saturating_sub(last.elapsed())).await;
        }
        attempted.insert(slot.clone(), Instant::now());
        match attempt(&server, &target, slot, &mut random).await {
            Ok(peer_id) | Err(HandshakeError::Duplicate(peer_id)) => {
                failures = 0;
                target.peer_id = Some(peer_id);
            }
            Err(HandshakeError::Itself) => return,
            Err(e) => {
                failures += 1;
                report(&server, &target, failures, &e);
                let retries = server.options().cluster.as_ref().map_or(0, |cluster| cluster.connect_retries);
                let gone = target.peer_id.as_ref().is_none_or(|id| !server.routes().is_connected(id));
                if target.origin == Origin::Gossiped && failures > retries && gone {
                    return;
                }
            }
        }
    }
}

/// The place to fill next. The side that dialled the first connection of a pair dials the others too.
fn next_slot(server: &Server, target: &Target) -> Option<Slot> {
    let Some(peer_id) = &target.peer_id else { return Some(Slot::Pool(0)) };
    let routes = server.routes();
    let missing = routes.missing_slot(peer_id, &routes.wanted_layout(&server.options()))?;
    let ours = missing == Slot::Pool(0) || !routes.is_led_by_peer(peer_id);
    ours.then_some(missing)
}

fn pause(server: &Server, failures: u32) -> Duration {
    let backoff = server.options().cluster.as_ref().is_some_and(|cluster| cluster.connect_backoff);
    if backoff {
        (ATTEMPT_INTERVAL * 2u32.saturating_pow(failures.min(5))).min(BACKOFF_MAX)
    } else {
        ATTEMPT_INTERVAL
    }
}

/// Tries every address that the name has now, in random order.
async fn attempt(
    server: &Arc<Server>,
    target: &Target,
    slot: Slot,
    random: &mut Random,
) -> Result<String, HandshakeError> {
    let found = tokio::net::lookup_host((target.url.host.as_str(), target.url.port)).await?;
    let mut addresses: Vec<_> = found.collect();
    for last in (1..addresses.len()).rev() {
        addresses.swap(last, random.below(u32::try_from(last + 1).unwrap_or(u32::MAX)) as usize);
    }
    let mut failure = HandshakeError::Io(std::io::Error::other("the host name has no address"));
    for address in addresses {
        let connected = timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => {
                failure = e.into();
                continue;
            }
            Err(_) => {
                failure = std::io::Error::from(std::io::ErrorKind::TimedOut).into();
                continue;
            }
        };
        return handshake::solicit(server, stream, &target.url, (slot, target.origin)).await;
    }
    Err(failure)
}

/// Says so at the first failure and then every N (`connect_error_reports`).
fn report(server: &Server, target: &Target, failures: u32, error: &HandshakeError) {
    let every = server.options().connect_error_reports.max(1);
    if failures == 1 || failures.is_multiple_of(every) {
        tracing::error!("Error trying to connect to route (attempt {failures}) {}: {error}", target.url);
    } else {
        tracing::debug!("Error trying to connect to route (attempt {failures}) {}: {error}", target.url);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_told_by_peers_are_understood() {
        let url = parse_url("nats-route://10.0.0.7:6222/").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("10.0.0.7", 6222));
        assert_eq!(parse_url("nats-route://[::1]:6222/").unwrap().host, "::1");
        for bad in ["", "nats-route://", "nats-route://host/", "host:1"] {
            assert!(parse_url(bad).is_none(), "{bad:?}");
        }
    }
}
