//! The JetStream part of the servers' configuration. Pure.

use config::lang::Value;
use crd::NatsCluster;
use crd::common::Size;
use crd::nats_cluster::jetstream::{AccountJetStream, Limits};
use crd::nats_cluster::sizes::{Sizes, bytes};

use super::render::duration;
use crate::error::Error;
use crate::objects::storage::FOLDER;

/// What the block depends on beside the spec.
#[derive(Clone)]
pub struct Inputs {
    /// Bytes that streams may hold.
    pub sizes: Sizes,
    /// Key of encryption at rest.
    pub key: Option<String>,
    /// The key before.
    pub previous_key: Option<String>,
}

/// The block of a server; `None` without JetStream.
///
/// # Errors
/// When a value cannot be written.
pub fn block(cluster: &NatsCluster, inputs: Option<&Inputs>) -> Result<Option<Value>, Error> {
    let (Some(settings), Some(inputs)) = (cluster.jetstream(), inputs) else {
        return Ok(None);
    };
    let mut block = Value::map();
    block.insert("store_dir", FOLDER);
    block.insert("max_memory_store", inputs.sizes.memory);
    if let Some(bytes) = inputs.sizes.file {
        block.insert("max_file_store", bytes);
    }
    if let Some(sync) = &settings.file_store.sync_interval {
        let text = match sync.duration() {
            None => "always".to_owned(),
            Some(interval) => duration("jetstream.fileStore.syncInterval", &interval)?,
        };
        block.insert("sync_interval", text);
    }
    if let Some(domain) = &settings.domain {
        block.insert("domain", domain);
    }
    if let Some(tag) = &settings.unique_tag {
        block.insert("unique_tag", tag);
    }
    if let Some(size) = &settings.max_outstanding_catchup {
        block.insert("max_outstanding_catchup", bytes("jetstream.maxOutstandingCatchup", size)?);
    }
    if let Some(limit) = settings.request_queue_limit {
        block.insert("request_queue_limit", limit);
    }
    if let (Some(encryption), Some(key)) = (&settings.encryption, &inputs.key) {
        block.insert("cipher", encryption.cipher.as_str());
        block.insert("encryption_key", key);
        if let Some(previous) = &inputs.previous_key {
            block.insert("prev_encryption_key", previous);
        }
    }
    if let Some(limits) = &settings.limits {
        block.insert("limits", self::limits(limits)?);
    }
    Ok(Some(block))
}

fn limits(limits: &Limits) -> Result<Value, Error> {
    let mut block = Value::map();
    for (name, number) in [
        ("max_ack_pending", limits.max_ack_pending),
        ("max_ha_assets", limits.max_ha_assets),
        ("max_request_batch", limits.max_request_batch),
        ("default_max_consumers", limits.default_max_consumers),
    ] {
        insert(&mut block, name, number);
    }
    if let Some(window) = &limits.duplicate_window {
        block.insert("duplicate_window", duration("jetstream.limits.duplicateWindow", window)?);
    }
    if let Some(batch) = &limits.batch {
        let mut inner = Value::map();
        insert(&mut inner, "max_inflight_per_stream", batch.max_inflight_per_stream);
        insert(&mut inner, "max_inflight_total", batch.max_inflight_total);
        insert(&mut inner, "max_msgs", batch.max_messages);
        if let Some(timeout) = &batch.timeout {
            inner.insert("timeout", duration("jetstream.limits.batch.timeout", timeout)?);
        }
        block.insert("batch", inner);
    }
    Ok(block)
}

fn insert(block: &mut Value, name: &str, number: Option<i32>) {
    if let Some(number) = number {
        block.insert(name, number);
    }
}

/// The entry of an account in a cluster with JetStream; `None` for an account that is to have none.
///
/// # Errors
/// When a value cannot be written.
pub fn account(settings: Option<&AccountJetStream>) -> Result<Option<Value>, Error> {
    let Some(settings) = settings else {
        return Ok(Some(Value::from(true)));
    };
    if !settings.enabled {
        return Ok(None);
    }
    let mut block = Value::map();
    let sizes: [(&str, &'static str, &Option<Size>); 4] = [
        ("max_memory", "auth.accounts.jetstream.maxMemory", &settings.max_memory),
        ("max_store", "auth.accounts.jetstream.maxFile", &settings.max_file),
        (
            "memory_max_stream_bytes",
            "auth.accounts.jetstream.memoryMaxStreamBytes",
            &settings.memory_max_stream_bytes,
        ),
        (
            "disk_max_stream_bytes",
            "auth.accounts.jetstream.fileMaxStreamBytes",
            &settings.file_max_stream_bytes,
        ),
    ];
    for (name, field, size) in sizes {
        if let Some(size) = size {
            block.insert(name, bytes(field, size)?);
        }
    }
    insert(&mut block, "max_streams", settings.max_streams);
    insert(&mut block, "max_consumers", settings.max_consumers);
    insert(&mut block, "max_ack_pending", settings.max_ack_pending);
    if settings.max_bytes_required {
        block.insert("max_bytes_required", true);
    }
    let is_empty = block.as_map_mut().is_none_or(|map| map.iter().next().is_none());
    // A map without entries and `true` mean the same; the word is what people expect to read.
    Ok(Some(if is_empty { Value::from(true) } else { block }))
}
