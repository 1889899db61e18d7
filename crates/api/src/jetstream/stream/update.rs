//! What of a stream may change.

use super::validate::{Context, check, check_overlap, invalid};
use super::{Discard, Retention, StreamConfig};
use crate::ApiError;
use crate::duration::Nanos;
use crate::error::jetstream::ErrorCode;
use crate::jetstream::consumer::ConsumerConfig;
use crate::jetstream::limits::{AccountView, ServerLimits, check_room};
use crate::jetstream::metadata;
use crate::jetstream::request::StreamRequest;

/// Checks a request to update the stream of this name, and fills in what it leaves out.
///
/// # Errors
/// The error to answer with.
pub fn update_request<'c>(
    name: &str,
    request: &StreamRequest,
    server: &ServerLimits,
    account: &AccountView<'_>,
    consumers: impl IntoIterator<Item = &'c ConsumerConfig>,
) -> Result<StreamConfig, ApiError> {
    let mut config = check(&request.config, Context { server, account, pedantic: request.pedantic })?;
    if config.name != name {
        return Err(ErrorCode::STREAM_MISMATCH.into());
    }
    let present = account.streams.stream(name).ok_or(ErrorCode::STREAM_NOT_FOUND)?;
    let level = metadata::stream_level(&config);
    metadata::set_required_level(&mut config.metadata, level);
    let config = validate_update(present, &config, server, account, request.pedantic)?;
    check_consumers(present, &config, consumers)?;
    check_overlap(&config, account)?;
    Ok(config)
}

/// Checks the change of a stream, and fills in what the new configuration leaves out.
///
/// # Errors
/// The error to answer with.
pub fn validate_update(
    old: &StreamConfig,
    new: &StreamConfig,
    server: &ServerLimits,
    account: &AccountView<'_>,
    pedantic: bool,
) -> Result<StreamConfig, ApiError> {
    let mut config = check(new, Context { server, account, pedantic })?;
    check_changes(old, &config, server)?;
    if config.sealed {
        seal(&mut config);
    }
    check_update_room(old, &config, server, account)?;
    Ok(config)
}

fn check_changes(old: &StreamConfig, new: &StreamConfig, server: &ServerLimits) -> Result<(), ApiError> {
    if new.name != old.name {
        return Err(invalid("stream configuration name must match original"));
    }
    if new.num_replicas > 1 && !server.clustered {
        return Err(ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED.into());
    }
    let work_queue = [old.retention, new.retention].contains(&Retention::WorkQueue);
    let refused = [
        (new.storage != old.storage, "stream configuration update can not change storage type"),
        (
            new.retention != old.retention && work_queue,
            "stream configuration update can not change retention policy to/from workqueue",
        ),
        (old.sealed && !new.sealed, "stream configuration update can not unseal a sealed stream"),
        (
            old.deny_delete && !new.deny_delete,
            "stream configuration update can not cancel deny message deletes",
        ),
        (old.deny_purge && !new.deny_purge, "stream configuration update can not cancel deny purge"),
    ];
    if let Some((_, text)) = refused.iter().find(|(applies, _)| *applies) {
        return Err(invalid(text));
    }
    // A mirror may become a stream of its own, and nothing else.
    if new.mirror.is_some() && new.mirror != old.mirror {
        return Err(ErrorCode::STREAM_MIRROR_NOT_UPDATABLE.into());
    }
    let refused = [
        (old.allow_msg_ttl && !new.allow_msg_ttl, "message TTL status can not be disabled"),
        (
            old.allow_msg_counter != new.allow_msg_counter,
            "stream configuration update can not change message counter setting",
        ),
        (old.allow_msg_schedules && !new.allow_msg_schedules, "message schedules can not be disabled"),
        (old.persist_mode != new.persist_mode, "stream configuration update can not change persist mode"),
    ];
    match refused.iter().find(|(applies, _)| *applies) {
        Some((_, text)) => Err(invalid(text)),
        None => Ok(()),
    }
}

/// A sealed stream keeps its messages for ever and takes no more.
fn seal(config: &mut StreamConfig) {
    config.max_age = Nanos::ZERO;
    config.discard = Discard::New;
    config.deny_delete = true;
    config.deny_purge = true;
    config.allow_rollup_hdrs = false;
}

/// A stream that grows needs room for the difference.
fn check_update_room(
    old: &StreamConfig,
    new: &StreamConfig,
    server: &ServerLimits,
    account: &AccountView<'_>,
) -> Result<(), ApiError> {
    let selected = match account.limits.select(new.num_replicas) {
        Err(_) if old.num_replicas != new.num_replicas => account.limits.select(old.num_replicas)?,
        selected => selected?,
    };
    let added = (new.max_bytes.max(0) - old.max_bytes.max(0)).max(0);
    let kept = selected.reservation(new.num_replicas, new.max_bytes.saturating_sub(added));
    let reserved = account.reserved(selected, new).saturating_add(kept);
    check_room(new, added, reserved, selected, server)
}

/// Consumers must keep within new limits for them.
fn check_consumers<'c>(
    old: &StreamConfig,
    new: &StreamConfig,
    consumers: impl IntoIterator<Item = &'c ConsumerConfig>,
) -> Result<(), ApiError> {
    let (before, limits) = (old.consumer_limits, new.consumer_limits);
    let threshold_changed =
        limits.inactive_threshold.0 > 0 && limits.inactive_threshold != before.inactive_threshold;
    let pending_changed = limits.max_ack_pending > 0 && limits.max_ack_pending != before.max_ack_pending;
    if !threshold_changed && !pending_changed {
        return Ok(());
    }
    let exceeds = |consumer: &&ConsumerConfig| {
        (limits.inactive_threshold.0 > 0 && consumer.inactive_threshold > limits.inactive_threshold)
            || (limits.max_ack_pending > 0 && consumer.max_ack_pending > limits.max_ack_pending)
    };
    let mut names: Vec<&str> =
        consumers.into_iter().filter(exceeds).map(ConsumerConfig::effective_name).collect();
    if names.is_empty() {
        return Ok(());
    }
    names.sort_unstable();
    let names = names.join(", ");
    Err(ErrorCode::STREAM_UPDATE.because(format_args!("change to limits violates consumers: {names}")))
}
