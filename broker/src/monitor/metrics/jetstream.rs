//! JetStream in `/metrics`: the series of the usual exporter (`jetstream_…`), and what only this server knows (`myelin_jetstream_…`).
//!
//! A series for each stream and consumer is too much where there are very many, so beyond a bound only sums for each account are shown.

use std::sync::atomic::Ordering::Relaxed;

use api::jetstream::consumer::ConsumerInfo;
use api::jetstream::stream::StreamSourceInfo;
use api::monitor::{JetStreamAccount, Jsz, JszOptions, StreamDetail};
use api::query::Query;

use super::Exposition;
use crate::jetstream::{JetStream, Progress, SYNC_BUCKETS, Shared};
use crate::monitor::{PageError, jsz};
use crate::server::Server;

/// Streams that have series of their own, at most. Each has a few kilobytes of text.
const STREAMS_MAX: i64 = 2_000;
/// Consumers that have series of their own, at most.
const CONSUMERS_MAX: i64 = 5_000;

/// How much is shown of each: parameter `jetstream` of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Sums for each account.
    Accounts,
    /// Streams too.
    Streams,
    /// Consumers too: the default.
    Consumers,
}

type Labels = Vec<(&'static str, String)>;
/// Name without prefix, help, value.
type Series<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

const SERVER: [Series<Jsz>; 7] = [
    ("jetstream_disabled", "JetStream disabled or not", |page| Some(f64::from(u8::from(page.disabled)))),
    ("max_memory", "JetStream Max Memory", |page| Some(page.config.max_memory as f64)),
    ("max_storage", "JetStream Max Storage", |page| Some(page.config.max_storage as f64)),
    ("total_streams", "Total number of streams in JetStream", |page| Some(page.streams as f64)),
    ("total_consumers", "Total number of consumers in JetStream", |page| Some(page.consumers as f64)),
    ("total_messages", "Total number of stored messages in JetStream", |page| Some(page.messages as f64)),
    ("total_message_bytes", "Total number of bytes stored in JetStream", |page| Some(page.bytes as f64)),
];

const ACCOUNT: [Series<JetStreamAccount>; 4] = [
    ("max_memory", "JetStream Account Max Memory in bytes", |account| {
        Some(account.stats.reserved_memory as f64)
    }),
    ("max_storage", "JetStream Account Max Storage in bytes", |account| {
        Some(account.stats.reserved_storage as f64)
    }),
    ("memory_used", "Total number of bytes used by JetStream memory", |account| {
        Some(account.stats.memory as f64)
    }),
    ("storage_used", "Total number of bytes used by JetStream storage", |account| {
        Some(account.stats.storage as f64)
    }),
];

const STREAM: [Series<StreamDetail>; 8] = [
    ("total_messages", "Total number of messages from a stream", |stream| Some(stream.state.messages as f64)),
    ("total_bytes", "Total stored bytes from a stream", |stream| Some(stream.state.bytes as f64)),
    ("first_seq", "First sequence from a stream", |stream| Some(stream.state.first_seq as f64)),
    ("last_seq", "Last sequence from a stream", |stream| Some(stream.state.last_seq as f64)),
    ("consumer_count", "Total number of consumers from a stream", |stream| {
        Some(stream.state.consumer_count as f64)
    }),
    ("subject_count", "Total number of subjects in a stream", |stream| {
        Some(stream.state.num_subjects as f64)
    }),
    ("limit_bytes", "The maximum configured storage limit (in bytes) for a JetStream stream", |stream| {
        stream.config.as_ref().map(|config| config.max_bytes as f64)
    }),
    ("limit_messages", "The maximum number of messages allowed in a JetStream stream", |stream| {
        stream.config.as_ref().map(|config| config.max_msgs as f64)
    }),
];

const CONSUMER: [Series<ConsumerInfo>; 10] = [
    ("delivered_consumer_seq", "Latest sequence number of a stream consumer", |consumer| {
        Some(consumer.delivered.consumer_seq as f64)
    }),
    ("delivered_stream_seq", "Latest sequence number of a stream", |consumer| {
        Some(consumer.delivered.stream_seq as f64)
    }),
    ("last_delivery_seconds", "Time in seconds since last delivery", |consumer| {
        consumer.delivered.last_active.map(|last| consumer.ts.saturating_since(last).as_secs_f64())
    }),
    ("last_ack_seconds", "Time in seconds since last acknowledgement", |consumer| {
        consumer.ack_floor.last_active.map(|last| consumer.ts.saturating_since(last).as_secs_f64())
    }),
    ("num_ack_pending", "Number of pending acks from a consumer", |consumer| {
        Some(consumer.num_ack_pending as f64)
    }),
    ("num_redelivered", "Number of redelivered messages from a consumer", |consumer| {
        Some(consumer.num_redelivered as f64)
    }),
    ("num_waiting", "Number of inflight fetch requests from a pull consumer", |consumer| {
        Some(consumer.num_waiting as f64)
    }),
    ("num_pending", "Number of pending messages from a consumer", |consumer| {
        Some(consumer.num_pending as f64)
    }),
    ("ack_floor_stream_seq", "Number of ack floor stream seq from a consumer", |consumer| {
        Some(consumer.ack_floor.stream_seq as f64)
    }),
    ("ack_floor_consumer_seq", "Number of ack floor consumer seq from a consumer", |consumer| {
        Some(consumer.ack_floor.consumer_seq as f64)
    }),
];

const SOURCE: [Series<StreamSourceInfo>; 2] = [
    ("lag", "Number of messages still to come from the other stream", |source| Some(source.lag as f64)),
    ("active_duration_ns", "Time since something came, in nanoseconds; -1 for never", |source| {
        Some(source.active.0 as f64)
    }),
];

impl Detail {
    /// Reads the parameter.
    pub(crate) fn from_query(query: &Query<'_>) -> Result<Self, PageError> {
        match query.text("jetstream") {
            "" | "consumers" => Ok(Self::Consumers),
            "streams" => Ok(Self::Streams),
            "accounts" => Ok(Self::Accounts),
            other => Err(PageError::MetricsDetail(other.to_owned())),
        }
    }

    /// As much of it as the bounds allow.
    fn within_bounds(self, streams: i64, consumers: i64) -> Self {
        if streams > STREAMS_MAX {
            Self::Accounts
        } else if consumers > CONSUMERS_MAX {
            self.min(Self::Streams)
        } else {
            self
        }
    }
}

/// Everything about JetStream.
pub(super) fn show(text: &mut Exposition, server: &Server, wanted: Detail) {
    let jetstream = server.jetstream.get();
    let entries = jetstream.map(|jetstream| jetstream.shared.directory.accounts()).unwrap_or_default();
    let streams: i64 = entries.iter().map(|entry| entry.streams.read().len() as i64).sum();
    let consumers: i64 = entries.iter().map(|entry| jsz::consumers(entry)).sum();
    let detail = wanted.within_bounds(streams, consumers);
    let options = JszOptions {
        accounts: true,
        streams: detail >= Detail::Streams,
        consumer: detail >= Detail::Consumers,
        config: true,
        limit: i64::MAX,
        ..JszOptions::default()
    };
    let page = jsz::jsz(server, &options);
    let silent = if page.is_ok() { 0.0 } else { 1.0 };
    if let Ok(page) = page {
        documents(text, server, &page);
    }
    if let Some(jetstream) = jetstream {
        text.gauge("myelin_jetstream_silent", "1 if a thread of JetStream did not answer in time", silent);
        own(text, jetstream, (detail, wanted));
    }
    let recovering = server.monitoring.recovery().is_some_and(|progress| progress != Progress::Done);
    text.gauge("myelin_jetstream_recovering", "1 while JetStream starts", f64::from(u8::from(recovering)));
}

/// The series of the exporter.
fn documents(text: &mut Exposition, server: &Server, page: &Jsz) {
    let base: Labels = vec![
        ("server_name", server.identity.name.clone()),
        ("cluster", String::new()),
        ("domain", page.config.domain.clone()),
        ("meta_leader", String::new()),
        ("is_meta_leader", "true".to_owned()),
    ];
    families(text, "jetstream_server", &SERVER, &[(base.clone(), page)]);
    let mut accounts = Vec::new();
    let (mut streams, mut consumers) = (Vec::new(), Vec::new());
    let (mut sources, mut mirrors) = (Vec::new(), Vec::new());
    for account in &page.account_details {
        let of_account = with(
            &base,
            [("account", &*account.name), ("account_name", &account.name), ("account_id", &account.id)],
        );
        for stream in &account.streams {
            let leader = &server.identity.name;
            let labels = with(
                &of_account,
                [("stream_name", &*stream.name), ("stream_leader", leader), ("is_stream_leader", "true")],
            );
            let labels = with(&labels, [("stream_raft_group", &*stream.raft_group)]);
            sources.extend(stream.sources.iter().map(|source| (origin(&labels, "source", source), source)));
            mirrors.extend(stream.mirror.iter().map(|mirror| (origin(&labels, "mirror", mirror), mirror)));
            consumers
                .extend(stream.consumers.iter().map(|consumer| (of_consumer(&labels, consumer), consumer)));
            streams.push((labels, stream));
        }
        accounts.push((of_account, account));
    }
    families(text, "jetstream_account", &ACCOUNT, &accounts);
    families(text, "jetstream_stream", &STREAM, &streams);
    families(text, "jetstream_stream_source", &SOURCE, &sources);
    families(text, "jetstream_stream_mirror", &SOURCE, &mirrors);
    families(text, "jetstream_consumer", &CONSUMER, &consumers);
}

fn with<'a>(labels: &Labels, more: impl IntoIterator<Item = (&'static str, &'a str)>) -> Labels {
    let mut all = labels.clone();
    all.extend(more.into_iter().map(|(name, value)| (name, value.to_owned())));
    all
}

fn origin(labels: &Labels, kind: &str, source: &StreamSourceInfo) -> Labels {
    let external = source.external.as_ref();
    let api = external.map(|external| &*external.api).unwrap_or_default();
    let deliver = external.map(|external| &*external.deliver).unwrap_or_default();
    let names = if kind == "mirror" {
        ["mirror_name", "mirror_api", "mirror_deliver"]
    } else {
        ["source_name", "source_api", "source_deliver"]
    };
    with(labels, names.into_iter().zip([&*source.name, api, deliver]))
}

fn of_consumer(labels: &Labels, consumer: &ConsumerInfo) -> Labels {
    let description = consumer.config.as_ref().map(|config| &*config.description).unwrap_or_default();
    with(
        labels,
        [
            ("consumer_name", &*consumer.name),
            ("consumer_leader", ""),
            ("is_consumer_leader", "true"),
            ("consumer_desc", description),
        ],
    )
}

/// Each series with a sample for each row that has a value.
fn families<T>(text: &mut Exposition, prefix: &str, series: &[Series<T>], rows: &[(Labels, &T)]) {
    for (name, help, value) in series {
        let name = format!("{prefix}_{name}");
        let mut is_new = true;
        for (labels, row) in rows {
            let Some(value) = value(row) else { continue };
            if std::mem::take(&mut is_new) {
                text.family(&name, "gauge", help);
            }
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
            text.sample(&name, &labels, value);
        }
    }
}

/// What only this server has to say.
fn own(text: &mut Exposition, jetstream: &JetStream, (detail, wanted): (Detail, Detail)) {
    let shared = &jetstream.shared;
    text.gauge(
        "myelin_jetstream_aggregated",
        "1 if streams or consumers are too many for series of their own",
        f64::from(u8::from(detail < wanted)),
    );
    let (failed, damaged) = shared.health.counts();
    text.gauge("myelin_jetstream_failed_streams", "Streams that take no changes", failed as f64);
    text.gauge("myelin_jetstream_damaged_streams", "Streams of which a part is lost", damaged as f64);
    log(text, shared);
    text.counter(
        "myelin_jetstream_api_dropped_total",
        "Requests dropped because too many waited",
        shared.overflow.total() as f64,
    );
    let waiting = shared.waiting();
    let shards: Vec<String> = (0..waiting.len()).map(|number| number.to_string()).collect();
    text.family("myelin_jetstream_inbox_messages", "gauge", "Messages of clients that wait for a shard");
    for (shard, (messages, _)) in shards.iter().zip(&waiting) {
        text.sample("myelin_jetstream_inbox_messages", &[("shard", shard)], *messages as f64);
    }
    text.family("myelin_jetstream_inbox_bytes", "gauge", "Bytes of messages that wait for a shard");
    for (shard, (_, bytes)) in shards.iter().zip(&waiting) {
        text.sample("myelin_jetstream_inbox_bytes", &[("shard", shard)], *bytes as f64);
    }
    text.family("myelin_jetstream_cache_bytes", "gauge", "Memory that holds parts of files");
    for (part, bytes) in shared.cache().bytes_by_part() {
        text.sample("myelin_jetstream_cache_bytes", &[("part", part)], bytes as f64);
    }
    memory(text, shared);
    accounts(text, shared);
}

fn memory(text: &mut Exposition, shared: &Shared) {
    let memory = shared.working_memory();
    for (name, help, value) in [
        (
            "myelin_jetstream_working_memory_max_bytes",
            "Bound of caches and of what waits for clients",
            memory.max,
        ),
        ("myelin_jetstream_waiting_bytes", "Memory for what waits for clients", memory.waiting),
        ("myelin_jetstream_waiting_pulls", "Pull requests that wait", memory.pull_requests),
        ("myelin_jetstream_waiting_acks", "Messages that wait for their acknowledgement", memory.ack_pending),
    ] {
        text.gauge(name, help, value as f64);
    }
    text.counter(
        "myelin_jetstream_pulls_refused_total",
        "Pull requests refused because working memory was used up",
        memory.refused as f64,
    );
    text.counter(
        "myelin_jetstream_deliveries_held_total",
        "Times that a consumer stopped to deliver because working memory was used up",
        memory.held as f64,
    );
}

fn log(text: &mut Exposition, shared: &Shared) {
    let stats = &shared.log.stats;
    let failed = stats.failure.get().is_some();
    text.gauge("myelin_jetstream_log_failed", "1 if the log takes nothing more", f64::from(u8::from(failed)));
    text.gauge("myelin_jetstream_log_bytes", "Size of the log", stats.held.load(Relaxed) as f64);
    let written = stats.bytes.load(Relaxed) as f64;
    text.counter("myelin_jetstream_log_written_bytes_total", "Bytes written to the log", written);
    let counts: Vec<u64> = stats.histogram.iter().map(|count| count.load(Relaxed)).collect();
    let bounds: Vec<f64> = SYNC_BUCKETS.iter().map(|micros| *micros as f64 / 1e6).collect();
    text.histogram(
        "myelin_jetstream_log_sync_seconds",
        "Time of a sync of the log",
        (&bounds, &counts),
        stats.sync_micros.load(Relaxed) as f64 / 1e6,
    );
    let slow = stats.slow.slow() as f64;
    text.counter("myelin_jetstream_slow_syncs_total", "Syncs of the log that took more than a second", slow);
    let checkpoints = shared.checkpoints();
    text.counter(
        "myelin_jetstream_checkpoints_total",
        "Checkpoints of streams",
        checkpoints.checkpoints.load(Relaxed) as f64,
    );
    text.counter(
        "myelin_jetstream_slow_checkpoints_total",
        "Checkpoints of streams that took more than a second",
        checkpoints.slow.slow() as f64,
    );
}

fn accounts(text: &mut Exposition, shared: &Shared) {
    let entries = shared.directory.accounts();
    type Series = (&'static str, &'static str, &'static str, fn(&crate::jetstream::AccountEntry) -> f64);
    let series: [Series; 5] = [
        ("account_streams", "gauge", "Streams of an account", |entry| entry.streams.read().len() as f64),
        ("account_consumers", "gauge", "Consumers of an account", |entry| jsz::consumers(entry) as f64),
        ("api_requests_total", "counter", "Requests to the API of an account", |entry| {
            entry.api.total.load(Relaxed) as f64
        }),
        ("api_errors_total", "counter", "Those that were answered by an error", |entry| {
            entry.api.errors.load(Relaxed) as f64
        }),
        ("api_inflight", "gauge", "Those that wait for their answer", |entry| {
            entry.api.inflight.load(Relaxed) as f64
        }),
    ];
    for (name, kind, help, value) in series {
        let name = format!("myelin_jetstream_{name}");
        text.family(&name, kind, help);
        for entry in &entries {
            text.sample(&name, &[("account", entry.account.name())], value(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_is_less_where_there_is_too_much() {
        let all = Detail::Consumers;
        assert_eq!(all.within_bounds(STREAMS_MAX, CONSUMERS_MAX), Detail::Consumers);
        assert_eq!(all.within_bounds(STREAMS_MAX, CONSUMERS_MAX + 1), Detail::Streams);
        assert_eq!(all.within_bounds(STREAMS_MAX + 1, 0), Detail::Accounts);
        assert_eq!(Detail::Accounts.within_bounds(0, CONSUMERS_MAX + 1), Detail::Accounts);
    }

    #[test]
    fn the_parameter_has_three_values() {
        let read = |text| Detail::from_query(&Query::parse(text));
        assert_eq!(read("").unwrap(), Detail::Consumers);
        assert_eq!(read("jetstream=streams").unwrap(), Detail::Streams);
        assert_eq!(read("jetstream=accounts").unwrap(), Detail::Accounts);
        assert!(read("jetstream=everything").is_err());
    }

    #[test]
    fn series_without_a_value_have_no_family() {
        let mut text = Exposition::new("N1");
        let never = ConsumerInfo { name: "C".to_owned(), num_pending: 7, ..ConsumerInfo::default() };
        families(&mut text, "jetstream_consumer", &CONSUMER, &[(of_consumer(&Vec::new(), &never), &never)]);
        let text = text.finish();
        let expected = "jetstream_consumer_num_pending{server_id=\"N1\",consumer_name=\"C\",consumer_leader=\"\",is_consumer_leader=\"true\",consumer_desc=\"\"} 7\n";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("last_delivery_seconds"), "{text}");
    }
}
