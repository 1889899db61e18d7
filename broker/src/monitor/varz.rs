//! `/varz`: identity, options in effect and counters of the whole server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use api::Time;
use api::duration::uptime_text;
use api::monitor::{ClusterVarz, KindCounts, Varz};
use config::options::{Address, Cluster, Options, RoutePool, Tls, WriteTimeout};

use super::accounts::count;
use super::{jsz, now, process, signed, subsz, time};
use crate::clock;
use crate::server::{Server, Stats};
use crate::tls::Acceptor;

/// Time of a TLS handshake that is shown where no TLS is configured.
const TLS_TIMEOUT_DEFAULT: f64 = 2.0;

/// `/varz`.
pub fn varz(server: &Server) -> Varz {
    let options = server.options();
    let info = server.info();
    let figures = server.monitoring.usage.figures();
    let (loaded, digest) = server.config_loaded();
    let cores = i32::try_from(process::cores()).unwrap_or(i32::MAX);
    let mut varz = Varz {
        server_id: server.identity.id.clone(),
        server_name: server.identity.name.clone(),
        version: info.version,
        proto: info.proto,
        go: info.go,
        host: info.host,
        port: i32::from(info.port),
        auth_required: info.auth_required,
        tls_required: info.tls_required,
        tls_verify: info.tls_verify,
        connect_urls: connect_urls(server),
        cluster: cluster(server, &options),
        jetstream: jsz::varz(server),
        start: time(server.identity.started_unix),
        now: now(),
        uptime: uptime_text(clock::now().saturating_duration_since(server.identity.started)),
        mem: signed(figures.memory),
        cores,
        gomaxprocs: cores,
        cpu: figures.cpu,
        connections: signed(server.client_count() as u64),
        routes: signed(server.routes().all().len() as u64),
        remotes: signed(server.routes().peer_count() as u64),
        subscriptions: subsz::total(server),
        http_req_stats: server
            .monitoring
            .requests
            .lock()
            .iter()
            .map(|(path, n)| ((*path).to_owned(), *n))
            .collect(),
        config_load_time: time(loaded),
        config_digest: digest.unwrap_or_default(),
        tags: tags(&options),
        metadata: options.server_metadata.clone(),
        system_account: server.accounts.system().map(|account| account.name().to_owned()).unwrap_or_default(),
        tls_cert_not_after: not_after(server.client_tls().as_ref().as_ref()),
        ..Varz::default()
    };
    show_options(&mut varz, &options, server);
    show_counters(&mut varz, server.stats());
    varz
}

/// What clients are told, once there are other servers that they could be told of.
fn connect_urls(server: &Server) -> Vec<String> {
    if server.routes().peer_count() == 0 { Vec::new() } else { server.client_urls() }
}

/// Tags as they are compared: in lower case.
pub(crate) fn tags(options: &Options) -> Vec<String> {
    options.server_tags.iter().map(|tag| tag.trim().to_lowercase()).collect()
}

fn show_options(varz: &mut Varz, options: &Options, server: &Server) {
    let limits = &options.limits;
    varz.max_connections = i64::from(limits.max_connections);
    varz.max_subscriptions = limits.max_subscriptions.map(i64::from).unwrap_or_default();
    varz.ping_interval = limits.ping_interval;
    varz.ping_max = i64::from(limits.ping_max);
    varz.max_control_line = i64::from(limits.max_control_line);
    varz.max_payload = i64::from(limits.max_payload);
    varz.max_pending = signed(limits.max_pending);
    varz.write_deadline = limits.write_deadline;
    varz.write_timeout = write_timeout(limits.write_timeout).to_owned();
    varz.auth_timeout = options.auth_timeout().as_secs_f64();
    varz.tls_timeout = tls_timeout(options.tls.as_ref());
    let monitoring = &options.monitoring;
    let port = server.monitoring.address().map(|address| i32::from(address.port())).unwrap_or_default();
    let configured = monitoring.http.as_ref().or(monitoring.https.as_ref());
    varz.http_host = configured.map(|address: &Address| address.host.clone()).unwrap_or_default();
    varz.http_base_path = monitoring.http_base_path.trim_end_matches('/').to_owned();
    if monitoring.http.is_some() {
        varz.http_port = port;
    } else {
        varz.https_port = port;
    }
}

fn show_counters(varz: &mut Varz, stats: &Stats) {
    let get = |counter: &AtomicU64| signed(counter.load(Relaxed));
    varz.total_connections = stats.total_connections.load(Relaxed);
    varz.in_msgs = get(&stats.in_messages);
    varz.in_bytes = get(&stats.in_bytes);
    varz.in_client_msgs = get(&stats.in_client_messages);
    varz.in_client_bytes = get(&stats.in_client_bytes);
    varz.out_msgs = get(&stats.out_messages);
    varz.out_bytes = get(&stats.out_bytes);
    varz.out_client_msgs = get(&stats.out_client_messages);
    varz.out_client_bytes = get(&stats.out_client_bytes);
    varz.slow_consumer_stats = slow_consumers(stats);
    varz.stale_connection_stats = stale_connections(stats);
    varz.slow_consumers = total(varz.slow_consumer_stats);
    varz.stale_connections = total(varz.stale_connection_stats);
    varz.stalled_clients = get(&stats.stalled_clients);
}

/// Connections closed for being too slow, by kind.
pub(super) fn slow_consumers(stats: &Stats) -> KindCounts {
    let (clients, routes) = (stats.slow_clients.load(Relaxed), stats.slow_routes.load(Relaxed));
    KindCounts { clients, routes, ..KindCounts::default() }
}

/// Connections closed for not answering PING, by kind.
pub(super) fn stale_connections(stats: &Stats) -> KindCounts {
    let (clients, routes) = (stats.stale_connections.load(Relaxed), stats.stale_routes.load(Relaxed));
    KindCounts { clients, routes, ..KindCounts::default() }
}

/// Sum over the kinds that there are.
pub(super) fn total(counts: KindCounts) -> i64 {
    signed(counts.clients.saturating_add(counts.routes))
}

fn cluster(server: &Server, options: &Options) -> ClusterVarz {
    let Some(cluster) = &options.cluster else { return ClusterVarz::default() };
    let bound = server.routes().address().map(|address| i32::from(address.port()));
    ClusterVarz {
        name: server.routes().cluster_name(),
        addr: cluster.listen.as_ref().map(|address| address.host.clone()).unwrap_or_default(),
        cluster_port: bound.unwrap_or_default(),
        auth_timeout: cluster.auth_timeout().as_secs_f64(),
        urls: cluster.routes.iter().map(config::options::RouteUrl::authority).collect(),
        tls_timeout: tls_timeout(cluster.tls.as_ref()),
        tls_required: cluster.tls.is_some(),
        tls_verify: cluster.tls.is_some(),
        pool_size: pool_size(cluster),
        write_deadline: cluster.write_deadline.unwrap_or(Duration::ZERO),
        write_timeout: write_timeout(cluster.write_timeout).to_owned(),
        tls_cert_not_after: not_after(server.routes().tls().as_ref().as_ref().map(|tls| &tls.acceptor)),
    }
}

/// When the certificate in use expires.
fn not_after(acceptor: Option<&Acceptor>) -> Time {
    let seconds = acceptor.and_then(Acceptor::not_after);
    seconds.map(|seconds| Time::from_unix_nanos(i128::from(seconds) * 1_000_000_000)).unwrap_or_default()
}

fn pool_size(cluster: &Cluster) -> i32 {
    match cluster.pool {
        RoutePool::Disabled => -1,
        RoutePool::Size(size) => i32::try_from(size.get()).unwrap_or(i32::MAX),
    }
}

fn tls_timeout(tls: Option<&Tls>) -> f64 {
    tls.map_or(TLS_TIMEOUT_DEFAULT, |tls| tls.timeout.as_secs_f64())
}

fn write_timeout(policy: WriteTimeout) -> &'static str {
    match policy {
        WriteTimeout::Default => "",
        WriteTimeout::Close => "close",
        WriteTimeout::Retry => "retry",
    }
}

/// Accounts that have connections or streams; the system account always counts, because the server itself is in it.
pub(super) fn active_accounts(server: &Server) -> i64 {
    let jetstream = server.jetstream.get();
    let has_streams = |name: &str| {
        let entry = jetstream.and_then(|jetstream| jetstream.shared.directory.account(name));
        entry.is_some_and(|entry| !entry.streams.read().is_empty())
    };
    let all = server.accounts.all();
    let active = all
        .iter()
        .filter(|account| account.is_system() || account.connections() > 0 || has_streams(account.name()));
    i64::from(count(active.count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_in_lower_case() {
        let options = Options { server_tags: vec!["AZ:A".into(), " ssd ".into()], ..Options::default() };
        assert_eq!(tags(&options), ["az:a", "ssd"]);
    }

    #[test]
    fn a_pool_that_is_off_is_written_as_the_configuration_writes_it() {
        let cluster = Cluster { pool: RoutePool::Disabled, ..Cluster::default() };
        assert_eq!((pool_size(&cluster), pool_size(&Cluster::default())), (-1, 3));
    }

    #[test]
    fn counters_are_summed_over_kinds() {
        let stats = Stats::default();
        stats.slow_clients.store(2, Relaxed);
        stats.slow_routes.store(1, Relaxed);
        stats.stale_connections.store(4, Relaxed);
        stats.in_bytes.store(u64::MAX, Relaxed);
        let mut varz = Varz::default();
        show_counters(&mut varz, &stats);
        assert_eq!((varz.slow_consumers, varz.stale_connections, varz.in_bytes), (3, 4, i64::MAX));
        assert_eq!(varz.slow_consumer_stats.routes, 1);
    }
}
