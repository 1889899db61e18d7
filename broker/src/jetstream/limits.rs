//! Limits in force: from the options, and from what the machine has where they do not say.

use std::path::Path;
use std::sync::Arc;

use api::jetstream::feature::Features;
use config::options::{JetStreamAccountLimits, Options};
use jetstream::limits::{
    AccountLimits, AccountUsage, BatchLimits, Limits, ServerLimits, ServerUsage, TierLimits,
};
use store::disk::Disk;

use super::memory;

/// Share of the memory, and of the free space of the disk, that JetStream takes unless told otherwise.
const SHARE_PERCENT: u64 = 75;
/// Memory if the system does not say how much there is.
const MEMORY_FALLBACK: u64 = 256 << 20;
/// Space if the file system does not say how much there is.
const STORAGE_FALLBACK: u64 = 1 << 40;

/// Bytes that all streams of the server may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// In memory.
    pub memory: u64,
    /// In files.
    pub storage: u64,
}

impl Capacity {
    /// As configured, or a share of what there is. The directory exists.
    pub fn find(options: &Options, disk: &dyn Disk, dir: &Path) -> Self {
        let jetstream = &options.jetstream;
        let share = |bytes: u64| bytes / 100 * SHARE_PERCENT;
        let memory = || total_memory().map_or(MEMORY_FALLBACK, share);
        let storage = || match disk.free_space(dir) {
            Ok(Some(free)) => share(free),
            Ok(None) | Err(_) => STORAGE_FALLBACK,
        };
        Self {
            memory: jetstream.max_memory_store.unwrap_or_else(memory),
            storage: jetstream.max_file_store.unwrap_or_else(storage),
        }
    }

    /// As reloaded options have it: what was found out at the start stays.
    pub fn reloaded(self, options: &Options) -> Self {
        Self {
            memory: options.jetstream.max_memory_store.unwrap_or(self.memory),
            storage: options.jetstream.max_file_store.unwrap_or(self.storage),
        }
    }
}

/// Options of the block that a server without a cluster has no use for, and that are set all the same.
pub fn without_effect(options: &Options) -> Vec<&'static str> {
    let (set, default) = (&options.jetstream, config::options::JetStream::default());
    let all = [
        ("unique_tag", set.unique_tag != default.unique_tag),
        ("max_outstanding_catchup", set.max_outstanding_catchup != default.max_outstanding_catchup),
        ("max_ha_assets", set.limits.max_ha_assets != default.limits.max_ha_assets),
        ("info_queue_limit", set.info_queue_limit != set.request_queue_limit),
    ];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

/// Memory of the machine, in bytes.
fn total_memory() -> Option<u64> {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit);
    Some(info.totalram as u64).filter(|total| *total > 0).map(|total| total * unit)
}

/// Limits for an account under these options.
pub fn of_account(
    options: &Options,
    name: &str,
    capacity: Capacity,
    usage: (&Arc<ServerUsage>, &Arc<AccountUsage>),
) -> Limits {
    let configured = options.account(name).and_then(|account| account.jetstream).unwrap_or_default();
    Limits {
        server: of_server(options, capacity),
        account: AccountLimits::Flat(flat(&configured)),
        server_usage: Arc::clone(usage.0),
        account_usage: Arc::clone(usage.1),
    }
}

fn of_server(options: &Options, capacity: Capacity) -> ServerLimits {
    let configured = &options.jetstream.limits;
    let batch = &configured.batch;
    let default = BatchLimits::default();
    ServerLimits {
        memory_bytes_max: capacity.memory,
        storage_bytes_max: capacity.storage,
        duplicate_window_max: configured.duplicate_window,
        ack_pending_max: configured.max_ack_pending.map(i64::from),
        request_batch_max: configured.max_request_batch.map(i64::from),
        waiting_bytes_max: memory::waiting_max(options.jetstream.max_working_memory),
        consumers_default: configured.default_max_consumers.map(i64::from),
        batch: BatchLimits {
            atomic_per_stream: batch
                .max_inflight_per_stream
                .map_or(default.atomic_per_stream, |max| max as usize),
            atomic_total: batch.max_inflight_total.map_or(default.atomic_total, i64::from),
            atomic_messages: batch.max_messages.map_or(default.atomic_messages, u64::from),
            timeout: batch.timeout.unwrap_or(default.timeout),
            ..default
        },
        features: Features::OWN,
    }
}

fn flat(configured: &JetStreamAccountLimits) -> TierLimits {
    let bytes = |limit: Option<u64>| limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let count = |limit: Option<u32>| limit.map_or(-1, i64::from);
    TierLimits {
        memory_bytes_max: bytes(configured.max_memory),
        storage_bytes_max: bytes(configured.max_store),
        streams_max: count(configured.max_streams),
        consumers_max: count(configured.max_consumers),
        ack_pending_max: count(configured.max_ack_pending),
        memory_stream_bytes_max: bytes(configured.memory_max_stream_bytes),
        storage_stream_bytes_max: bytes(configured.disk_max_stream_bytes),
        bytes_required: configured.max_bytes_required,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_keeps_what_was_found_out() {
        let mut options = Options::default();
        options.jetstream.max_file_store = Some(30);
        let capacity = Capacity { memory: 10, storage: 20 }.reloaded(&options);
        assert_eq!(capacity, Capacity { memory: 10, storage: 30 });
    }

    #[test]
    fn options_that_do_nothing_here_are_named_if_they_are_set() {
        let mut options = Options::default();
        assert!(without_effect(&options).is_empty());
        options.jetstream.request_queue_limit = 5;
        options.jetstream.limits.max_ha_assets = Some(3);
        assert_eq!(without_effect(&options), ["max_ha_assets", "info_queue_limit"]);
    }

    #[test]
    fn an_account_without_limits_is_bounded_by_the_server_alone() {
        let options = Options::default();
        let capacity = Capacity { memory: 10, storage: 20 };
        let limits = of_account(&options, "A", capacity, (&Arc::default(), &Arc::default()));
        assert_eq!((limits.server.memory_bytes_max, limits.server.storage_bytes_max), (10, 20));
        assert_eq!(limits.account, AccountLimits::Flat(TierLimits::default()));
    }
}
