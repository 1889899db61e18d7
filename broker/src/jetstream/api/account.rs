//! `INFO`: what an account uses and may use.

use std::sync::atomic::Ordering::Relaxed;

use api::jetstream::API_LEVEL;
use api::jetstream::account::{AccountStats, ApiStats, Limits};
use api::jetstream::response::AccountInfo;
use api::jetstream::stream::Storage;
use jetstream::limits::AccountLimits;

use super::Ctx;
use crate::jetstream::AccountEntry;
use crate::jetstream::shard::Outgoing;
use crate::jetstream::validate::document;

pub(super) fn info(ctx: Ctx, outgoing: &mut Outgoing) {
    let domain = ctx.shared.domain.clone().unwrap_or_default();
    let stats = stats(&ctx.request.account, domain);
    ctx.answer(outgoing, Ok(AccountInfo { stats: Some(stats) }));
}

/// Use and limits of an account.
pub fn stats(entry: &AccountEntry, domain: String) -> AccountStats {
    let usage = &entry.usage;
    let limits = entry.limits.load();
    AccountStats {
        memory: usage.used(Storage::Memory),
        storage: usage.used(Storage::File),
        reserved_memory: entry.reserved(Storage::Memory),
        reserved_storage: entry.reserved(Storage::File),
        streams: i64::try_from(entry.streams.read().len()).unwrap_or(i64::MAX),
        consumers: usage.consumers(),
        limits: match &limits.account {
            AccountLimits::Flat(limits) => document(limits),
            AccountLimits::Tiered(_) => Limits::default(),
        },
        domain,
        api: ApiStats {
            level: API_LEVEL,
            // The request that asks is counted when it is answered, and is not one of those that wait.
            total: entry.api.total.load(Relaxed).saturating_sub(1),
            errors: entry.api.errors.load(Relaxed),
            inflight: entry.api.inflight.load(Relaxed).saturating_sub(1),
        },
        tiers: std::collections::BTreeMap::new(),
    }
}
