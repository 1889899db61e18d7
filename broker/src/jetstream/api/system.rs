//! Requests in the system account. It has no streams, so most are refused; those that are about the whole server are answered here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::error::jetstream::ErrorCode;
use api::jetstream::advisory::Action;
use api::jetstream::response;
use parking_lot::Mutex;

use super::Ctx;
use crate::jetstream::advise;
use crate::jetstream::catalogue::{CatalogueRequest, Wanted};
use crate::jetstream::shard::{Input, Outgoing, Respond};

/// Sorts a request of the system account by its path.
pub(super) fn dispatch(ctx: Ctx, outgoing: &mut Outgoing, tokens: &[&str]) {
    let refused = ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into();
    match tokens {
        ["INFO"] => ctx.answer::<response::AccountInfo>(outgoing, Err(refused)),
        ["ACCOUNT", "PURGE", account] if ctx.meets_level() => purge(ctx, outgoing, account),
        // What a cluster does; a server without one leaves it to others.
        ["ACCOUNT", _, ..] | ["META", "LEADER", "STEPDOWN"] | ["META", "RESCUE"] => ctx.ignore(),
        ["SERVER", "REMOVE" | "EVACUATE"] => ctx.ignore(),
        _ => ctx.answer::<response::System>(outgoing, Err(refused)),
    }
}

/// Deletes every stream of an account, even of one that has lost JetStream or is not configured any more.
fn purge(ctx: Ctx, outgoing: &mut Outgoing, account: &str) {
    let entry = ctx.shared.directory.entry(account);
    let streams = entry.as_ref().map(|entry| entry.sorted()).unwrap_or_default();
    let (Some(entry), false) = (entry, streams.is_empty()) else { return initiated(ctx, outgoing) };
    let keeper = Arc::clone(&ctx.shared.inboxes[0]);
    let shared = Arc::clone(&ctx.shared);
    let waiting = Arc::new((AtomicUsize::new(streams.len()), Mutex::new(Some(ctx))));
    for stream in streams {
        let (shared, waiting, account) = (Arc::clone(&shared), Arc::clone(&waiting), Arc::clone(&entry));
        let name = stream.name.clone();
        let respond = Respond::new(move |outgoing, result| {
            match result {
                Ok(_) => {
                    advise::stream_action(
                        &shared,
                        outgoing,
                        &stream.account.account,
                        &stream.name,
                        Action::Delete,
                    );
                }
                Err(error) => {
                    let (account, name) = (stream.account.account.name(), &stream.name);
                    tracing::error!("JetStream stream '{account} > {name}' was not deleted: {error}");
                }
            }
            if waiting.0.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(ctx) = waiting.1.lock().take()
            {
                initiated(ctx, outgoing);
            }
        });
        let wanted = Wanted::Delete { name };
        keeper.push(Input::Catalogue(Box::new(CatalogueRequest { account, wanted, respond })));
    }
}

fn initiated(ctx: Ctx, outgoing: &mut Outgoing) {
    ctx.answer(outgoing, Ok(response::AccountPurge { initiated: true }));
}
