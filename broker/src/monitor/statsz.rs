//! The figures that a server sends about itself at intervals, and on request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use api::event::{DataStats, RouteStat, ServerStats};

use super::varz::{active_accounts, slow_consumers, stale_connections, total};
use super::{jsz, process, signed, subsz, time};
use crate::cluster::Route;
use crate::server::Server;

/// The figures now.
pub fn statsz(server: &Server) -> ServerStats {
    let stats = server.stats();
    let figures = server.monitoring.usage.figures();
    let data = |messages: &AtomicU64, bytes: &AtomicU64| {
        DataStats::total(signed(messages.load(Relaxed)), signed(bytes.load(Relaxed)))
    };
    let (slow, stale) = (slow_consumers(stats), stale_connections(stats));
    let mut routes = server.routes().all();
    routes.sort_unstable_by_key(|route| route.id);
    let cores = i32::try_from(process::cores()).unwrap_or(i32::MAX);
    ServerStats {
        start: time(server.identity.started_unix),
        mem: signed(figures.memory),
        cores,
        cpu: figures.cpu,
        connections: signed(server.client_count() as u64),
        total_connections: stats.total_connections.load(Relaxed),
        active_accounts: active_accounts(server),
        subscriptions: subsz::total(server),
        sent: data(&stats.out_messages, &stats.out_bytes),
        sent_to_clients: data(&stats.out_client_messages, &stats.out_client_bytes),
        received: data(&stats.in_messages, &stats.in_bytes),
        received_from_clients: data(&stats.in_client_messages, &stats.in_client_bytes),
        slow_consumers: total(slow),
        slow_consumer_stats: slow,
        stale_connections: total(stale),
        stale_connection_stats: stale,
        stalled_clients: signed(stats.stalled_clients.load(Relaxed)),
        routes: routes.iter().map(|route| route_stat(route)).collect(),
        active_servers: signed(server.routes().peer_count() as u64 + 1),
        jetstream: jsz::statsz(server),
        gomemlimit: 0,
        gomaxprocs: cores,
    }
}

fn route_stat(route: &Route) -> RouteStat {
    let sent = route.out.sent();
    let received = &route.received;
    RouteStat {
        rid: route.id,
        name: route.agreement.peer_name.clone(),
        sent: DataStats::total(signed(sent.messages), signed(sent.bytes)),
        received: DataStats::total(
            signed(received.messages.load(Relaxed)),
            signed(received.bytes.load(Relaxed)),
        ),
        pending: signed(route.out.pending() as u64),
    }
}
