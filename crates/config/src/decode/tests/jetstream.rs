//! `jetstream`, of the server and of accounts.

use std::time::Duration;

use super::{errors, options, warnings};
use crate::Secret;
use crate::options::*;

#[test]
fn short_forms_switch_it_on_and_off() {
    for (text, is_enabled) in [
        ("port: 1", false),
        ("jetstream: true", true),
        ("jetstream: false", false),
        ("jetstream: enabled", true),
        ("jetstream: Enable", true),
        ("jetstream: disabled", false),
        ("jetstream {}", true),
        ("jetstream { enabled: false }", false),
        ("jetstream { max_mem: 1G }", true),
    ] {
        assert_eq!(options(text).jetstream.enabled, is_enabled, "{text}");
    }
    let block = options("jetstream: true").jetstream;
    assert_eq!(block, JetStream { enabled: true, ..JetStream::default() });
    assert!(block.strict);
    assert_eq!((block.max_memory_store, block.max_file_store, block.sync), (None, None, SyncMode::Always));
    assert_eq!((block.max_buffered_messages, block.max_buffered_bytes), (100_000, 128 << 20));
    assert_eq!((block.request_queue_limit, block.info_queue_limit), (10_000, 10_000));
    assert_eq!((block.max_outstanding_catchup, block.max_working_memory), (64 << 20, 1 << 30));
}

#[test]
fn every_key_of_the_block_is_decoded() {
    let options = options(
        "jetstream { store_dir: /d, strict: false, max_mem: '2G', max_file: 10k, sync_interval: always, domain: hub\n\
         key: k1, prev_key: k0, cipher: AES, unique_tag: ' AZ: ', max_outstanding_catchup: '32M'\n\
         max_buffered_size: '1M', max_buffered_msgs: 7, max_working_memory: 9M, request_queue_limit: 8\n\
         limits { max_request_batch: 1, max_ack_pending: 2, max_ha_assets: 3, default_max_consumers: 4\n\
         duplicate_window: 5s, batch { max_inflight_per_stream: 6, max_inflight_total: 7, max_msgs: 8, timeout: 9s } } }",
    );
    assert_eq!(options.store_dir.as_deref(), Some("/d"));
    let expected = JetStream {
        enabled: true,
        strict: false,
        max_memory_store: Some(2 << 30),
        max_file_store: Some(10_000),
        sync: SyncMode::Always,
        domain: Some("hub".into()),
        encryption_key: Some(Secret::new("k1")),
        previous_encryption_key: Some(Secret::new("k0")),
        cipher: Cipher::Aes,
        unique_tag: Some("az:".into()),
        max_outstanding_catchup: 32 << 20,
        max_buffered_bytes: 1 << 20,
        max_buffered_messages: 7,
        max_working_memory: 9_000_000,
        request_queue_limit: 8,
        info_queue_limit: 8,
        limits: JetStreamLimits {
            max_request_batch: Some(1),
            max_ack_pending: Some(2),
            max_ha_assets: Some(3),
            default_max_consumers: Some(4),
            duplicate_window: Some(Duration::from_secs(5)),
            batch: BatchLimits {
                max_inflight_per_stream: Some(6),
                max_inflight_total: Some(7),
                max_messages: Some(8),
                timeout: Some(Duration::from_secs(9)),
            },
        },
    };
    assert_eq!(options.jetstream, expected);
    assert!(!format!("{:?}", options.jetstream).contains("k1"));
}

#[test]
fn numbers_that_mean_nothing_are_the_default() {
    let block = |text: &str| options(&format!("jetstream {{ {text} }}")).jetstream;
    assert_eq!(block("max_mem: -1, max_file: -1").max_memory_store, None);
    assert_eq!(block("max_mem: 0").max_memory_store, Some(0));
    assert_eq!(block("info_queue_limit: 5").info_queue_limit, 5);
    assert_eq!(block("info_queue_limit: 0, request_queue_limit: 3").info_queue_limit, 3);
    assert_eq!(
        block(
            "max_buffered_msgs: -1, max_buffered_size: 0, request_queue_limit: 0, max_outstanding_catchup: 0"
        ),
        JetStream { enabled: true, ..JetStream::default() }
    );
    assert_eq!(
        block("limits { max_ack_pending: -1, duplicate_window: '0s' }").limits,
        JetStreamLimits::default()
    );
}

/// As the reference: 0 is the default, and less is no limit.
#[test]
fn a_stream_has_at_most_a_thousand_consumers_unless_told_otherwise() {
    let limit = |text: &str| {
        options(&format!("jetstream {{ limits {{ {text} }} }}")).jetstream.limits.default_max_consumers
    };
    assert_eq!(limit("max_ack_pending: 5"), Some(1000));
    assert_eq!(limit("default_max_consumers: 0"), Some(1000));
    assert_eq!(limit("default_max_consumers: 2000"), Some(2000));
    assert_eq!(limit("default_max_consumers: -1"), None);
}

#[test]
fn a_weaker_mode_is_asked_for_by_name_and_warned_of() {
    let sync = |text: &str| options(&format!("jetstream {{ {text} }}")).jetstream.sync;
    assert_eq!(sync("sync_interval: '2m'"), SyncMode::Interval(Duration::from_secs(120)));
    assert_eq!(sync("sync: ALWAYS"), SyncMode::Always);
    assert_eq!(sync("sync: 0s"), SyncMode::Always);
    assert_eq!(
        warnings("jetstream { sync_interval: 10s }"),
        [
            ":1:13: sync_interval of 10s: messages are acknowledged before they are on stable storage, and a crash of \
          the machine may lose them; without this option, or with always, they are there first"
        ]
    );
    assert!(warnings("jetstream { sync_interval: always }").is_empty());
}

#[test]
fn errors_have_the_texts_of_the_reference() {
    for (text, expected) in [
        ("jetstream: x", ":1:12: Expected 'enabled' or 'disabled' for string value, got 'x'"),
        ("jetstream: 3", ":1:12: Expected map, bool or string to define JetStream, got integer"),
        ("jetstream { foo: 1 }", ":1:13: unknown field \"foo\""),
        ("jetstream { strict: 3 }", ":1:21: Expected 'true' or 'false' for bool value, got '3'"),
        ("store_dir: a, jetstream { store_dir: b }", ":1:38: Duplicate 'store_dir' configuration"),
        ("jetstream { max_mem: true }", ":1:22: max_mem_store must be int64 or string"),
        (
            "jetstream { max_mem: '5X' }",
            ":1:22: max_mem_store sizes defined as strings must end in K, M, G, T",
        ),
        (
            "jetstream { max_file: 'aK' }",
            ":1:23: max_file_store strconv.ParseInt: parsing \"a\": invalid syntax",
        ),
        ("jetstream { max_file: '9999999999T' }", ":1:23: max_file_store 9999999999T is out of range"),
        ("jetstream { cipher: des }", ":1:21: Unknown cipher type: \"des\""),
        (
            "jetstream { max_buffered_msgs: x }",
            ":1:32: Expected a parseable size for \"max_buffered_msgs\", got x",
        ),
        (
            "jetstream { request_queue_limit: x }",
            ":1:34: Expected a parseable size for \"request_queue_limit\", got x",
        ),
        (
            "jetstream { max_buffered_size: x }",
            ":1:32: max_buffered_size strconv.ParseInt: parsing \"\": invalid syntax",
        ),
        ("jetstream { max_outstanding_catchup: -1 }", ":1:38: jetstream max catchup cannot be negative"),
        ("jetstream { limits: 3 }", ":1:21: Expected a map to define JetStreamLimits, got integer"),
        ("jetstream { limits { batch: 3 } }", ":1:29: Expected a map to define batch limits, got integer"),
        ("jetstream { limits { foo: 3 } }", ":1:22: unknown field \"foo\""),
        (
            "jetstream { limits { duplicate_window: x } }",
            ":1:40: error parsing duplicate_window: time: invalid duration \"x\"",
        ),
        ("jetstream { domain: 'a.b' }", ":1:13: invalid domain name: may not contain ., * or >"),
        (
            "jetstream { domain: '>' }",
            ":1:13: invalid domain name: derived \"$JS.>.API.>\" is not a valid subject",
        ),
        ("jetstream { tpm { keys_file: a } }", ":1:13: \"tpm\" is not supported in this version"),
        (
            "jetstream: true, cluster { name: c, port: 1 }",
            ":1:1: jetstream cluster requires `server_name` to be set",
        ),
        (
            "jetstream: true, server_name: s, cluster { port: 1 }",
            ":1:1: jetstream cluster requires `cluster.name` to be set",
        ),
    ] {
        assert_eq!(errors(text), [expected], "{text}");
    }
}

#[test]
fn accounts_have_limits_of_their_own() {
    let limits =
        |text: &str| options(&format!("accounts {{ A {{ jetstream: {text} }} }}")).accounts[0].jetstream;
    assert_eq!(options("accounts { A {} }").accounts[0].jetstream, None);
    for (text, expected) in [
        ("true", Some(JetStreamAccountLimits::default())),
        ("enabled", Some(JetStreamAccountLimits::default())),
        ("{}", Some(JetStreamAccountLimits::default())),
        ("false", None),
        ("disable", None),
    ] {
        assert_eq!(limits(text), expected, "{text}");
    }
    assert_eq!(
        limits(
            "{ mem: 1k, disk: 2k, streams: 3, consumers: -1, max_bytes: true, mem_max_stream_bytes: 4, \
             store_max_stream_bytes: 5, max_ack_pending: 6, cluster_traffic: system }"
        ),
        Some(JetStreamAccountLimits {
            max_memory: Some(1000),
            max_store: Some(2000),
            max_streams: Some(3),
            max_consumers: None,
            max_ack_pending: Some(6),
            memory_max_stream_bytes: Some(4),
            disk_max_stream_bytes: Some(5),
            max_bytes_required: true,
        })
    );
    for (text, expected) in [
        ("x", "Expected 'enabled' or 'disabled' for string value, got 'x'"),
        ("3", "Expected map, bool or string to define JetStream, got integer"),
        ("{ max_mem: x }", "Expected a parseable size for \"max_mem\", got x"),
        ("{ max_bytes_required: 3 }", "Expected a parseable bool for \"max_bytes_required\", got 3"),
        (
            "{ cluster_traffic: x }",
            "Expected 'system' or 'owner' string value for \"cluster_traffic\", got x",
        ),
        ("{ cluster_traffic: owner }", "\"cluster_traffic\" of 'owner' is not supported in this version"),
        ("{ foo: 1 }", "unknown field \"foo\""),
    ] {
        let errors = errors(&format!("accounts {{ A {{ jetstream: {text} }} }}"));
        assert!(errors[0].ends_with(expected), "{text}: {errors:?}");
    }
}
