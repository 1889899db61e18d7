//! `/jsz`: JetStream of this server, and the parts of it that other pages show.

mod gather;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use api::duration::Nanos;
use api::jetstream::API_LEVEL;
use api::jetstream::account::ApiStats;
use api::jetstream::stream::Storage;
use api::monitor::{
    JetStreamAccount, JetStreamConfig, JetStreamLimits, JetStreamStats, JetStreamVarz, Jsz, JszOptions,
};
use config::options::{Options, SyncMode};
use jetstream::limits::AccountLimits;

use super::{PageError, now};
use crate::jetstream::{AccountEntry, Shared};
use crate::server::Server;

/// `default_max_consumers` without a limit, as documents write it.
const UNLIMITED: i64 = -1;

/// What all streams of all accounts hold together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Streams that lead.
    pub streams_leading: i64,
    /// Consumers of those.
    pub consumers_leading: i64,
}

/// `/jsz`. Asks all shards, so it must not run where connections are served.
pub fn jsz(server: &Server, options: &JszOptions) -> Result<Jsz, PageError> {
    let mut page = Jsz { server_id: server.identity.id.clone(), now: now(), ..Jsz::default() };
    let Some(jetstream) = server.jetstream.get() else {
        page.disabled = true;
        return Ok(page);
    };
    let shared = &jetstream.shared;
    let options = options.clone().implied();
    let entries = shared.directory.accounts();
    let totals = totals(shared)?;
    page.stats = stats(shared);
    page.config = config(shared, &server.options());
    page.limits = Some(limits(&server.options()));
    page.working_memory = Some(shared.working_memory());
    page.streams = entries.iter().map(|entry| entry.streams.read().len() as i64).sum();
    page.consumers = entries.iter().map(|entry| consumers(entry)).sum();
    if options.raft {
        page.streams_leader = totals.streams_leading;
        page.consumers_leader = totals.consumers_leading;
    }
    page.messages = totals.messages;
    page.bytes = totals.bytes;
    page.total = entries.len() as i64;
    let one = entries.iter().find(|entry| entry.account.name() == options.account);
    let listed = match one {
        Some(one) => std::slice::from_ref(one),
        None if options.accounts => &entries[options.page().range(entries.len())],
        None => &[],
    };
    for entry in listed {
        page.account_details.push(account(shared, entry, &options)?);
    }
    Ok(page)
}

/// JetStream of one account, as the request for it shows it. Unlike on the page, consumers alone do not stand for their streams.
pub fn of_account(server: &Server, name: &str, options: &JszOptions) -> Result<JetStreamAccount, PageError> {
    let Some(jetstream) = server.jetstream.get() else { return Err(PageError::NoJetStream) };
    if server.accounts.get(name).is_none() {
        return Err(PageError::AccountNotFound(name.to_owned()));
    }
    let shared = &jetstream.shared;
    let entry = shared.directory.account(name);
    let entry = entry.ok_or_else(|| PageError::AccountWithoutJetStream(name.to_owned()))?;
    account(shared, &entry, options)
}

fn account(
    shared: &Shared,
    entry: &AccountEntry,
    options: &JszOptions,
) -> Result<JetStreamAccount, PageError> {
    let streams = if options.streams { gather::streams(shared, entry, options)? } else { Vec::new() };
    let name = entry.account.name().to_owned();
    Ok(JetStreamAccount { id: name.clone(), name, stats: account_stats(entry), streams })
}

/// Use of an account. What it may use stands where other pages have what is promised.
pub fn account_stats(entry: &AccountEntry) -> JetStreamStats {
    let limits = entry.limits.load();
    let max = |storage| match &limits.account {
        AccountLimits::Flat(limits) => u64::try_from(limits.bytes_max(storage)).unwrap_or(u64::MAX),
        AccountLimits::Tiered(_) => 0,
    };
    JetStreamStats {
        memory: entry.usage.used(Storage::Memory),
        storage: entry.usage.used(Storage::File),
        reserved_memory: max(Storage::Memory),
        reserved_storage: max(Storage::File),
        api: ApiStats { level: 0, ..api_stats(entry) },
        ..JetStreamStats::default()
    }
}

fn api_stats(entry: &AccountEntry) -> ApiStats {
    let get = |counter: &AtomicU64| counter.load(Relaxed);
    ApiStats {
        level: API_LEVEL,
        total: get(&entry.api.total),
        errors: get(&entry.api.errors),
        inflight: get(&entry.api.inflight),
    }
}

/// Consumers of an account that users have made.
pub fn consumers(entry: &AccountEntry) -> i64 {
    let streams = entry.streams.read();
    let counts = streams.values().map(|stream| {
        stream.consumers.read().values().filter(|known| !known.config.is_internal()).count() as i64
    });
    counts.sum()
}

/// Use of the server.
fn stats(shared: &Shared) -> JetStreamStats {
    let entries = shared.directory.accounts();
    let mut api = ApiStats { level: API_LEVEL, ..ApiStats::default() };
    let (mut memory, mut storage) = (0u64, 0u64);
    for entry in &entries {
        let of_account = api_stats(entry);
        api.total += of_account.total;
        api.errors += of_account.errors;
        api.inflight += of_account.inflight;
        memory = memory.saturating_add(entry.reserved(Storage::Memory));
        storage = storage.saturating_add(entry.reserved(Storage::File));
    }
    JetStreamStats {
        memory: shared.usage.used.get(Storage::Memory),
        storage: shared.usage.used.get(Storage::File),
        reserved_memory: memory,
        reserved_storage: storage,
        accounts: entries.len() as i64,
        ha_assets: 0,
        api,
    }
}

fn config(shared: &Shared, options: &Options) -> JetStreamConfig {
    let capacity = *shared.capacity.lock();
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let (sync_always, sync_interval) = match options.jetstream.sync {
        SyncMode::Always => (true, Duration::ZERO),
        SyncMode::Interval(interval) => (false, interval),
    };
    JetStreamConfig {
        max_memory: bytes(capacity.memory),
        max_storage: bytes(capacity.storage),
        store_dir: shared.dir().display().to_string(),
        sync_interval,
        sync_always,
        domain: shared.domain.clone().unwrap_or_default(),
        compress_ok: false,
        unique_tag: options.jetstream.unique_tag.clone().unwrap_or_default(),
        strict: options.jetstream.strict,
    }
}

/// Limits as they are configured; what is not is left out, but for the number of consumers.
fn limits(options: &Options) -> JetStreamLimits {
    let (limits, batch) = (&options.jetstream.limits, &options.jetstream.limits.batch);
    let count = |limit: Option<u32>| limit.map(i64::from).unwrap_or_default();
    let time = |limit: Option<Duration>| limit.map(Nanos::from).unwrap_or_default();
    JetStreamLimits {
        max_request_batch: count(limits.max_request_batch),
        max_ack_pending: count(limits.max_ack_pending),
        max_ha_assets: count(limits.max_ha_assets),
        max_duplicate_window: time(limits.duplicate_window),
        max_batch_inflight_per_stream: count(batch.max_inflight_per_stream),
        max_batch_inflight_total: count(batch.max_inflight_total),
        max_batch_size: count(batch.max_messages),
        max_batch_timeout: time(batch.timeout),
        default_max_consumers: limits.default_max_consumers.map_or(UNLIMITED, i64::from),
    }
}

/// JetStream on the general page.
pub fn varz(server: &Server) -> JetStreamVarz {
    let Some(jetstream) = server.jetstream.get() else { return JetStreamVarz::default() };
    let (shared, options) = (&jetstream.shared, server.options());
    JetStreamVarz {
        config: Some(config(shared, &options)),
        stats: Some(stats(shared)),
        meta: None,
        limits: Some(limits(&options)),
    }
}

/// JetStream in the periodic figures: others need not know where it stores.
pub fn statsz(server: &Server) -> Option<JetStreamVarz> {
    server.jetstream.get()?;
    let mut varz = varz(server);
    if let Some(config) = &mut varz.config {
        config.store_dir.clear();
    }
    Some(varz)
}

/// Sums over all streams of accounts with JetStream.
pub fn totals(shared: &Shared) -> Result<Totals, PageError> {
    let of_shards = shared.inspect(|shard| {
        let mut totals = Totals::default();
        for hosted in shard.hosted().filter(|hosted| hosted.entry.account.is_enabled()) {
            let state = hosted.stream.state();
            totals.messages += state.messages;
            totals.bytes += state.bytes;
            if hosted.leads {
                totals.streams_leading += 1;
                let consumers = hosted.stream.consumers();
                totals.consumers_leading +=
                    consumers.filter(|consumer| !consumer.config().is_internal()).count() as i64;
            }
        }
        totals
    });
    let sums = of_shards.ok_or(PageError::Busy)?.into_iter().reduce(|one, other| Totals {
        messages: one.messages + other.messages,
        bytes: one.bytes + other.bytes,
        streams_leading: one.streams_leading + other.streams_leading,
        consumers_leading: one.consumers_leading + other.consumers_leading,
    });
    Ok(sums.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_if_they_are_set_and_that_of_consumers_always() {
        let mut options = Options::default();
        let shown = |options: &Options| serde_json::to_string(&limits(options)).unwrap();
        assert_eq!(shown(&options), r#"{"default_max_consumers":1000}"#);
        options.jetstream.limits.default_max_consumers = None;
        options.jetstream.limits.batch.timeout = Some(Duration::from_secs(3));
        options.jetstream.limits.batch.max_messages = Some(77);
        assert_eq!(
            shown(&options),
            r#"{"max_batch_size":77,"max_batch_timeout":3000000000,"default_max_consumers":-1}"#
        );
    }
}
