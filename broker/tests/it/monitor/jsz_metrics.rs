//! JetStream in `/metrics`.

use serde_json::json;
use testkit::jetstream::JetStream;

use super::jsz::ACCOUNTS;
use crate::{monitored, target};

/// Value of the sample that begins with this and has all these labels.
fn sample(body: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has = |line: &&str| {
        line.starts_with(&format!("{name}{{"))
            && labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
    };
    body.lines().find(has)?.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test]
async fn streams_and_consumers_have_the_series_of_the_usual_exporter() {
    if !target().is_myelin() {
        return;
    }
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S1", "subjects": ["s1"], "storage": "file", "max_msgs": 77})).await;
    for _ in 0..3 {
        client.publish("s1", "hello").await;
    }
    client.consumer("S1", json!({"durable_name": "C1", "ack_policy": "explicit", "description": "d"})).await;
    assert_eq!(client.fetch("S1", "C1", 2).await.len(), 2);
    let body = server.get("/metrics").await.body;
    let base = [("server_name", "js"), ("domain", "hub"), ("is_meta_leader", "true")];
    for (name, value) in [
        ("jetstream_server_jetstream_disabled", 0.0),
        ("jetstream_server_total_streams", 1.0),
        ("jetstream_server_total_consumers", 1.0),
        ("jetstream_server_total_messages", 3.0),
        ("jetstream_server_max_memory", 100_000_000.0),
        ("jetstream_server_max_storage", 200_000_000.0),
    ] {
        assert_eq!(sample(&body, name, &base), Some(value), "{name}");
    }
    assert_eq!(sample(&body, "jetstream_account_max_storage", &[("account", "A")]), Some(20_000_000.0));
    let stream =
        [("account", "A"), ("stream_name", "S1"), ("stream_leader", "js"), ("is_stream_leader", "true")];
    for (name, value) in [
        ("jetstream_stream_total_messages", 3.0),
        ("jetstream_stream_first_seq", 1.0),
        ("jetstream_stream_last_seq", 3.0),
        ("jetstream_stream_consumer_count", 1.0),
        ("jetstream_stream_subject_count", 1.0),
        ("jetstream_stream_limit_messages", 77.0),
    ] {
        assert_eq!(sample(&body, name, &stream), Some(value), "{name}");
    }
    let consumer = [("stream_name", "S1"), ("consumer_name", "C1"), ("consumer_desc", "d")];
    for (name, value) in [
        ("jetstream_consumer_delivered_stream_seq", 2.0),
        ("jetstream_consumer_delivered_consumer_seq", 2.0),
        ("jetstream_consumer_num_ack_pending", 2.0),
        ("jetstream_consumer_num_pending", 1.0),
        ("jetstream_consumer_ack_floor_stream_seq", 0.0),
    ] {
        assert_eq!(sample(&body, name, &consumer), Some(value), "{name}");
    }
    assert!(sample(&body, "jetstream_consumer_last_delivery_seconds", &consumer).is_some());
    assert_eq!(sample(&body, "gnatsd_varz_jetstream_stats_accounts", &[]), Some(2.0));
}

#[tokio::test]
async fn the_log_and_its_syncs_are_measured() {
    if !target().is_myelin() {
        return;
    }
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S1", "subjects": ["s1"], "storage": "file"})).await;
    client.publish("s1", "hello").await;
    let body = server.get("/metrics").await.body;
    let syncs = sample(&body, "myelin_jetstream_log_sync_seconds_count", &[]).unwrap();
    assert!(syncs >= 2.0, "{syncs}");
    assert_eq!(sample(&body, "myelin_jetstream_log_sync_seconds_bucket", &[("le", "+Inf")]), Some(syncs));
    assert!(sample(&body, "myelin_jetstream_log_sync_seconds_sum", &[]).unwrap() > 0.0);
    assert!(sample(&body, "myelin_jetstream_log_written_bytes_total", &[]).unwrap() > 0.0);
    for (name, labels) in [
        ("myelin_jetstream_log_failed", &[][..]),
        ("myelin_jetstream_failed_streams", &[]),
        ("myelin_jetstream_damaged_streams", &[]),
        ("myelin_jetstream_aggregated", &[]),
        ("myelin_jetstream_recovering", &[]),
        ("myelin_jetstream_silent", &[]),
        ("myelin_jetstream_api_dropped_total", &[]),
        ("myelin_jetstream_slow_syncs_total", &[]),
        ("myelin_jetstream_inbox_messages", &[("shard", "0")]),
        ("myelin_jetstream_inbox_bytes", &[("shard", "0")]),
        ("myelin_jetstream_api_errors_total", &[("account", "A")]),
    ] {
        assert_eq!(sample(&body, name, labels), Some(0.0), "{name}");
    }
    for part in ["messages", "indexes", "files"] {
        assert!(sample(&body, "myelin_jetstream_cache_bytes", &[("part", part)]).is_some(), "{part}");
    }
    assert_eq!(sample(&body, "myelin_jetstream_account_streams", &[("account", "A")]), Some(1.0));
}

#[tokio::test]
async fn less_detail_can_be_asked_for() {
    if !target().is_myelin() {
        return;
    }
    let server = monitored(ACCOUNTS).await;
    let mut client = JetStream::user(&server, "a", "a").await;
    client.stream(json!({"name": "S1", "subjects": ["s1"], "storage": "file"})).await;
    client.consumer("S1", json!({"durable_name": "C1", "ack_policy": "explicit"})).await;
    for (query, streams, consumers) in [
        ("", true, true),
        ("?jetstream=consumers", true, true),
        ("?jetstream=streams", true, false),
        ("?jetstream=accounts", false, false),
    ] {
        let body = server.get(&format!("/metrics{query}")).await.body;
        assert_eq!(body.contains("jetstream_stream_total_messages{"), streams, "{query}");
        assert_eq!(body.contains("jetstream_consumer_num_pending{"), consumers, "{query}");
        assert!(body.contains("jetstream_account_storage_used{"), "{query}");
    }
    let refused = server.get("/metrics?jetstream=all").await;
    assert_eq!(refused.status, 400, "{}", refused.body);
}
