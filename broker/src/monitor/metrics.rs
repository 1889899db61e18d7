//! `/metrics`: the numbers of the other pages in Prometheus text.
//!
//! What the usual exporter derives from the pages has the exporter's names (`gnatsd_…`), so dashboards made for it work. What
//! it does not have begins with `myelin_`.

mod jetstream;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use api::monitor::{AccountStat, AccstatzOptions, HealthzOptions, KindCounts, SubszOptions};
use serde::Serialize;
use serde_json::Value;

use super::{accounts, health, signed, subsz, varz};
pub(super) use jetstream::Detail;

use crate::server::{COMPATIBLE_VERSION, Life, Server, VERSION};

/// Type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Texts of `/varz` that the exporter shows as the label `value` of a series that is always 1.
const TEXTS: [&str; 3] = ["server_id", "server_name", "version"];

/// The page.
pub(super) fn page(server: &Server, detail: Detail) -> String {
    let mut text = Exposition::new(&server.identity.id);
    let varz = varz::varz(server);
    text.document("varz", &varz);
    connections(&mut text, server);
    text.gauge("gnatsd_routez_num_routes", "num_routes", varz.routes as f64);
    if let Ok(subsz) = subsz::subsz(server, &SubszOptions::default()) {
        text.document("subsz", &subsz);
    }
    let healthy = health::healthz(server, &HealthzOptions::default()).status_code == 200;
    text.gauge("gnatsd_healthz_status", "status", if healthy { 0.0 } else { 1.0 });
    let options = AccstatzOptions { include_unused: true, ..AccstatzOptions::default() };
    account_counters(&mut text, &accounts::accstatz(server, &options).account_statz);
    own(&mut text, server);
    kinds(
        &mut text,
        "myelin_slow_consumers_total",
        "Connections closed for being too slow",
        varz.slow_consumer_stats,
    );
    kinds(
        &mut text,
        "myelin_stale_connections_total",
        "Connections closed for not answering PING",
        varz.stale_connection_stats,
    );
    peers(&mut text, server);
    jetstream::show(&mut text, server, detail);
    text.finish()
}

/// Sums over all client connections.
fn connections(text: &mut Exposition, server: &Server) {
    let clients = server.clients();
    let mut sums = [0u64; 6];
    for client in &clients {
        let sent = client.out.sent();
        let values = [
            client.out.pending() as u64,
            client.subscriptions.lock().len() as u64,
            client.received.bytes.load(Relaxed),
            sent.bytes,
            client.received.messages.load(Relaxed),
            sent.messages,
        ];
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(value);
        }
    }
    for name in ["num_connections", "total"] {
        text.gauge(&format!("gnatsd_connz_{name}"), name, clients.len() as f64);
    }
    text.gauge("gnatsd_connz_offset", "offset", 0.0);
    text.gauge("gnatsd_connz_limit", "limit", api::monitor::LIMIT_DEFAULT as f64);
    let names = ["pending_bytes", "subscriptions", "in_bytes", "out_bytes", "in_msgs", "out_msgs"];
    for (name, sum) in names.iter().zip(sums) {
        text.gauge(&format!("gnatsd_connz_{name}"), name, sum as f64);
    }
}

fn account_counters(text: &mut Exposition, accounts: &[AccountStat]) {
    type Series = (&'static str, fn(&AccountStat) -> i64);
    let series: [Series; 9] = [
        ("current_connections", |stat| stat.conns),
        ("total_connections", |stat| stat.total_conns),
        ("subscriptions", |stat| i64::from(stat.num_subscriptions)),
        ("leaf_nodes", |stat| stat.leafnodes),
        ("sent_messages", |stat| stat.sent.msgs),
        ("sent_bytes", |stat| stat.sent.bytes),
        ("received_messages", |stat| stat.received.msgs),
        ("received_bytes", |stat| stat.received.bytes),
        ("slow_consumers", |stat| stat.slow_consumers),
    ];
    for (name, value) in series {
        let family = format!("gnatsd_accstatz_{name}");
        text.family(&family, "gauge", name);
        for stat in accounts {
            let labels =
                [("account", &*stat.account), ("account_id", &*stat.account), ("account_name", &*stat.name)];
            text.sample(&family, &labels, value(stat) as f64);
        }
    }
}

/// What only this server has to say.
fn own(text: &mut Exposition, server: &Server) {
    text.family("myelin_build_info", "gauge", "Version of the server and the version it is compatible with");
    let versions = [("version", VERSION), ("compatible_version", COMPATIBLE_VERSION)];
    text.sample("myelin_build_info", &versions, 1.0);
    let seconds = |nanos: i64| nanos as f64 / 1e9;
    text.gauge(
        "myelin_start_time_seconds",
        "When the server started, in seconds since 1970",
        seconds(server.identity.started_unix),
    );
    text.gauge(
        "myelin_config_load_time_seconds",
        "When the options in force were loaded, in seconds since 1970",
        seconds(server.config_loaded().0),
    );
    let leaving = server.life() >= Life::LameDuck;
    text.gauge("myelin_lame_duck", "1 if the server takes no more clients", f64::from(u8::from(leaving)));
    text.gauge(
        "myelin_cluster_peers",
        "Servers this one is connected to",
        server.routes().peer_count() as f64,
    );
    let closed = server.closed.total() as f64;
    text.counter("myelin_closed_connections_total", "Client connections that have ended", closed);
}

fn kinds(text: &mut Exposition, name: &str, help: &str, counts: KindCounts) {
    text.family(name, "counter", help);
    for (kind, count) in [("client", counts.clients), ("route", counts.routes)] {
        text.sample(name, &[("kind", kind)], count as f64);
    }
}

/// Sums over the connections to one peer.
#[derive(Debug, Default)]
struct Peer {
    name: String,
    connections: i64,
    in_msgs: i64,
    in_bytes: i64,
    out_msgs: i64,
    out_bytes: i64,
    pending: i64,
    rtt_max: Duration,
}

fn peers(text: &mut Exposition, server: &Server) {
    let mut peers: BTreeMap<String, Peer> = BTreeMap::new();
    for route in server.routes().all() {
        let sent = route.out.sent();
        let peer = peers.entry(route.agreement.peer_id.clone()).or_default();
        peer.name.clone_from(&route.agreement.peer_name);
        peer.connections += 1;
        peer.in_msgs = peer.in_msgs.saturating_add(signed(route.received.messages.load(Relaxed)));
        peer.in_bytes = peer.in_bytes.saturating_add(signed(route.received.bytes.load(Relaxed)));
        peer.out_msgs = peer.out_msgs.saturating_add(signed(sent.messages));
        peer.out_bytes = peer.out_bytes.saturating_add(signed(sent.bytes));
        peer.pending = peer.pending.saturating_add(signed(route.out.pending() as u64));
        peer.rtt_max = peer.rtt_max.max(route.rtt().unwrap_or_default());
    }
    type Series = (&'static str, &'static str, fn(&Peer) -> f64);
    let series: [Series; 7] = [
        ("connections", "Connections to the peer", |peer| peer.connections as f64),
        ("in_messages", "Messages from the peer over its present connections", |peer| peer.in_msgs as f64),
        ("in_bytes", "Bytes from the peer over its present connections", |peer| peer.in_bytes as f64),
        ("out_messages", "Messages to the peer over its present connections", |peer| peer.out_msgs as f64),
        ("out_bytes", "Bytes to the peer over its present connections", |peer| peer.out_bytes as f64),
        ("pending_bytes", "Bytes waiting to be written to the peer", |peer| peer.pending as f64),
        ("rtt_seconds", "Longest round trip of the peer's connections", |peer| peer.rtt_max.as_secs_f64()),
    ];
    for (name, help, value) in series {
        let family = format!("myelin_route_{name}");
        text.family(&family, "gauge", help);
        for (id, peer) in &peers {
            text.sample(&family, &[("remote_id", id), ("remote_name", &peer.name)], value(peer));
        }
    }
}

/// Text in the making. Every sample names the server.
#[derive(Debug)]
struct Exposition {
    server_id: String,
    out: String,
}

impl Exposition {
    fn new(server_id: &str) -> Self {
        Self { server_id: server_id.to_owned(), out: String::with_capacity(16 * 1024) }
    }

    /// Begins the samples of one name.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.out, "{name}{{server_id=\"{}\"", escape(&self.server_id));
        for (label, text) in labels {
            let _ = write!(self.out, ",{label}=\"{}\"", escape(text));
        }
        let _ = writeln!(self.out, "}} {value}");
    }

    /// A family with one sample.
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// A family with one sample, of something that only grows.
    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    /// A histogram from the upper bounds of its buckets and what is in each; the last bucket has no bound.
    fn histogram(&mut self, name: &str, help: &str, (bounds, counts): (&[f64], &[u64]), sum: f64) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut total = 0;
        for (bound, count) in bounds.zip(counts) {
            total += count;
            self.sample(&bucket, &[("le", &bound)], total as f64);
        }
        self.sample(&format!("{name}_sum"), &[], sum);
        self.sample(&format!("{name}_count"), &[], total as f64);
    }

    /// Every number at the top of a document and of what it says of JetStream, as the exporter finds them.
    fn document(&mut self, endpoint: &str, document: &impl Serialize) {
        let Ok(Value::Object(members)) = serde_json::to_value(document) else { return };
        self.members(endpoint, &members);
    }

    fn members(&mut self, endpoint: &str, members: &serde_json::Map<String, Value>) {
        for (key, value) in members {
            let name = format!("gnatsd_{endpoint}_{key}");
            match value {
                Value::Object(inner) if key == "jetstream" || endpoint.starts_with("varz_jetstream") => {
                    self.members(&format!("{endpoint}_{key}"), inner);
                }
                Value::Number(number) => self.gauge(&name, key, number.as_f64().unwrap_or_default()),
                Value::String(text) if endpoint == "varz" && TEXTS.contains(&key.as_str()) => {
                    self.family(&name, "gauge", key);
                    self.sample(&name, &[("value", text)], 1.0);
                }
                _ => {}
            }
        }
    }

    fn finish(self) -> String {
        self.out
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use api::monitor::Varz;

    use super::*;

    #[test]
    fn numbers_of_a_document_become_gauges_and_some_texts_labels() {
        let mut text = Exposition::new("N1");
        let varz = Varz {
            server_name: "a\"b\\c\nd".into(),
            connections: 3,
            cpu: 1.5,
            host: "h".into(),
            ..Varz::default()
        };
        text.document("varz", &varz);
        let text = text.finish();
        for line in [
            "# TYPE gnatsd_varz_connections gauge",
            "gnatsd_varz_connections{server_id=\"N1\"} 3",
            "gnatsd_varz_cpu{server_id=\"N1\"} 1.5",
            "gnatsd_varz_server_name{server_id=\"N1\",value=\"a\\\"b\\\\c\\nd\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
        assert!(!text.contains("gnatsd_varz_host") && !text.contains("gnatsd_varz_uptime"), "{text}");
    }

    #[test]
    fn jetstream_in_a_document_is_shown_too() {
        let mut text = Exposition::new("N1");
        let stats = api::monitor::JetStreamStats { storage: 5, ..Default::default() };
        let jetstream = api::monitor::JetStreamVarz { stats: Some(stats), ..Default::default() };
        text.document("varz", &Varz { jetstream, ..Varz::default() });
        let text = text.finish();
        assert!(text.contains("gnatsd_varz_jetstream_stats_storage{server_id=\"N1\"} 5\n"), "{text}");
        assert!(text.contains("gnatsd_varz_jetstream_stats_api_total{server_id=\"N1\"} 0\n"), "{text}");
        assert!(!text.contains("disk_io"), "{text}");
    }

    #[test]
    fn a_bucket_counts_what_the_smaller_ones_have_too() {
        let mut text = Exposition::new("N1");
        text.histogram("h", "help", (&[0.001, 1.0], &[2, 3, 4]), 5.5);
        let text = text.finish();
        for line in [
            "# TYPE h histogram",
            "h_bucket{server_id=\"N1\",le=\"0.001\"} 2",
            "h_bucket{server_id=\"N1\",le=\"1\"} 5",
            "h_bucket{server_id=\"N1\",le=\"+Inf\"} 9",
            "h_sum{server_id=\"N1\"} 5.5",
            "h_count{server_id=\"N1\"} 9",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }

    #[test]
    fn samples_of_one_account_name_it() {
        let mut text = Exposition::new("N1");
        account_counters(
            &mut text,
            &[AccountStat { account: "A".into(), name: "A".into(), conns: 2, ..Default::default() }],
        );
        let expected = "gnatsd_accstatz_current_connections{server_id=\"N1\",account=\"A\",account_id=\"A\",account_name=\"A\"} 2\n";
        assert!(text.finish().contains(expected));
    }
}
