//! Requests to make or change a stream, checked against everything that the account has.

use api::ApiError;
use api::jetstream::account;
use api::jetstream::limits::{AccountLimits, AccountView, ServerLimits, Streams, Totals, tier_name};
use api::jetstream::request::StreamRequest;
use api::jetstream::stream::{self, Storage, StreamConfig};
use jetstream::limits::{self as used, Limits, TierLimits};
use jetstream::meta::Catalogue;

use super::directory::{AccountEntry, StreamEntry};

/// The streams of one account, as the catalogue has them.
struct OfAccount<'a> {
    catalogue: &'a Catalogue,
    account: &'a str,
}

impl Streams for OfAccount<'_> {
    fn stream(&self, name: &str) -> Option<&StreamConfig> {
        self.catalogue.get(self.account, name).map(|asset| &*asset.config)
    }

    fn visit(&self, function: &mut dyn FnMut(&StreamConfig)) {
        self.catalogue.streams(self.account).for_each(|asset| function(&asset.config));
    }

    fn visit_totals(&self, function: &mut dyn FnMut(Totals)) {
        self.catalogue.totals(self.account).for_each(function);
    }

    fn overlaps(&self, name: &str, subjects: &[String]) -> bool {
        self.catalogue.overlaps(self.account, name, subjects)
    }
}

/// The configuration that a request to create a stream comes to. If the account has such a stream already, it is the same one.
pub fn create(
    catalogue: &Catalogue,
    entry: &AccountEntry,
    name: &str,
    request: &StreamRequest,
) -> Result<StreamConfig, ApiError> {
    with_view(catalogue, entry, |server, view| stream::create_request(name, request, server, view))
}

/// The configuration that a request to change a stream comes to.
pub fn update(
    catalogue: &Catalogue,
    entry: &AccountEntry,
    name: &str,
    request: &StreamRequest,
) -> Result<StreamConfig, ApiError> {
    let consumers = entry.stream(name.as_bytes()).map(|stream| consumers(&stream)).unwrap_or_default();
    with_view(catalogue, entry, |server, view| {
        stream::update_request(name, request, server, view, consumers.iter().map(|config| &**config))
    })
}

fn consumers(stream: &StreamEntry) -> Vec<std::sync::Arc<api::jetstream::consumer::ConsumerConfig>> {
    stream.consumers.read().values().map(|known| std::sync::Arc::clone(&known.config)).collect()
}

fn with_view<T>(
    catalogue: &Catalogue,
    entry: &AccountEntry,
    check: impl FnOnce(&ServerLimits, &AccountView<'_>) -> T,
) -> T {
    let limits = entry.limits.load();
    let streams = OfAccount { catalogue, account: entry.account.name() };
    let view = AccountView { streams: &streams, limits: &of_account(&limits) };
    check(&of_server(&limits, catalogue), &view)
}

fn of_server(limits: &Limits, catalogue: &Catalogue) -> ServerLimits {
    let server = &limits.server;
    let reserved = |storage| {
        let totals = catalogue.totals_of_all().filter(|totals| totals.storage == storage);
        let bytes = totals.fold(0i128, |sum, totals| sum.saturating_add(totals.bytes));
        i64::try_from(bytes).unwrap_or(i64::MAX)
    };
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    ServerLimits {
        duplicate_window: server.duplicate_window_max.map(Into::into).unwrap_or_default(),
        max_ack_pending: server.ack_pending_max.unwrap_or(0),
        max_request_batch: server.request_batch_max.unwrap_or(0),
        default_max_consumers: server.consumers_default.unwrap_or(0),
        max_memory: bytes(server.memory_bytes_max),
        max_storage: bytes(server.storage_bytes_max),
        reserved_memory: reserved(Storage::Memory),
        reserved_storage: reserved(Storage::File),
        clustered: false,
        features: server.features,
    }
}

fn of_account(limits: &Limits) -> AccountLimits {
    match &limits.account {
        used::AccountLimits::Flat(limits) => AccountLimits::Flat(document(limits)),
        used::AccountLimits::Tiered(tiers) => {
            let named = tiers.iter().zip(1..).filter_map(|(limits, replicas)| {
                limits.as_ref().map(|limits| (tier_name(replicas), document(limits)))
            });
            AccountLimits::Tiered(named.collect())
        }
    }
}

/// Limits as documents write them.
pub fn document(limits: &TierLimits) -> account::Limits {
    account::Limits {
        max_memory: limits.memory_bytes_max,
        max_storage: limits.storage_bytes_max,
        max_streams: limits.streams_max,
        max_consumers: limits.consumers_max,
        max_ack_pending: limits.ack_pending_max,
        memory_max_stream_bytes: limits.memory_stream_bytes_max,
        storage_max_stream_bytes: limits.storage_stream_bytes_max,
        max_bytes_required: limits.bytes_required,
    }
}
