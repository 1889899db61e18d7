//! `INFO`: what an account uses and may use.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use api::jetstream::API_LEVEL;
use api::jetstream::account::{AccountStats, ApiStats, Limits};
use api::jetstream::response::AccountInfo;
use api::jetstream::stream::Storage;
use jetstream::limits::AccountLimits;
use parking_lot::Mutex;

use super::Ctx;
use crate::jetstream::AccountEntry;
use crate::jetstream::shard::{Call, Input, Outgoing, Respond, Shard};
use crate::jetstream::validate::document;

/// Counts what came before the request: messages and changes of consumers that are on their way to the log, on every shard.
pub(super) fn info(ctx: Ctx) {
    let (account, inboxes) = (Arc::clone(&ctx.request.account), ctx.shared.inboxes.clone());
    let waiting = AtomicUsize::new(inboxes.len());
    let settling = Arc::new(Settling { waiting, ctx: Mutex::new(Some(ctx)) });
    for inbox in &*inboxes {
        let (account, settling) = (Arc::clone(&account), Arc::clone(&settling));
        inbox.push_request(Input::Inspect(Call::new(move |shard: &mut Shard| {
            shard.ask_unsettled(&account, || {
                let settling = Arc::clone(&settling);
                settling.waiting.fetch_add(1, Relaxed);
                Respond::new(move |outgoing, _| settling.arrived(outgoing))
            });
            settling.arrived(shard.outgoing());
        })));
    }
}

/// A request for the information, while streams apply what came before it.
struct Settling {
    /// Shards and streams that have not answered.
    waiting: AtomicUsize,
    ctx: Mutex<Option<Ctx>>,
}

impl Settling {
    /// One of them has; the last one answers the request.
    fn arrived(&self, outgoing: &mut Outgoing) {
        if self.waiting.fetch_sub(1, AcqRel) > 1 {
            return;
        }
        let Some(ctx) = self.ctx.lock().take() else { return };
        let domain = ctx.shared.domain.clone().unwrap_or_default();
        let stats = stats(&ctx.request.account, domain);
        ctx.answer(outgoing, Ok(AccountInfo { stats: Some(stats) }));
    }
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
