//! The API: requests come in order of arrival, are read and sorted here, and are answered by the shard that owns the answer.

pub mod account;
pub mod answer;
mod consumer;
mod list;
mod refusal;
mod restore;
mod snapshot;
mod stream;
mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use api::error::jetstream::ErrorCode;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

pub use answer::Ctx;

use super::Shared;
use super::directory::AccountEntry;
use super::inbox::Inbound;
use super::shard::Outgoing;

/// Requests taken in one go before the answers are flushed.
const BATCH_MAX: usize = 256;

/// A request as it came.
#[derive(Debug)]
pub struct ApiRequest {
    /// The account it came in.
    pub account: Arc<AccountEntry>,
    /// What follows `$JS.API.`.
    pub path: Vec<u8>,
    /// Where the answer goes.
    pub reply: Vec<u8>,
    /// The whole message.
    pub message: Inbound,
}

/// Requests that were dropped because too many wait.
#[derive(Debug, Default)]
pub struct Overflow {
    dropped: AtomicI64,
    total: AtomicU64,
}

impl Overflow {
    /// The request found no room.
    pub fn dropped(&self, error: TrySendError<ApiRequest>) {
        if let TrySendError::Full(_) = error {
            self.dropped.fetch_add(1, Relaxed);
            self.total.fetch_add(1, Relaxed);
        }
    }

    /// How many ever.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// How many since this was asked last.
    pub fn take(&self) -> i64 {
        self.dropped.swap(0, Relaxed)
    }
}

/// Answers requests until the queue is closed.
pub async fn serve(shared: Arc<Shared>, mut queue: mpsc::Receiver<ApiRequest>) {
    let mut outgoing = Outgoing::new(Arc::clone(&shared.server), shared.server.seed() ^ u64::from(u32::MAX));
    let mut requests = Vec::with_capacity(BATCH_MAX);
    while queue.recv_many(&mut requests, BATCH_MAX).await > 0 {
        for request in requests.drain(..) {
            dispatch(Ctx::new(Arc::clone(&shared), request), &mut outgoing);
        }
        let dropped = shared.overflow.take();
        if dropped > 0 {
            answer::limit_reached(&shared, &mut outgoing, dropped);
        }
        outgoing.flush();
    }
}

/// Sorts a request by its path.
fn dispatch(ctx: Ctx, outgoing: &mut Outgoing) {
    let path = String::from_utf8_lossy(&ctx.request.path).into_owned();
    let tokens: Vec<&str> = path.split('.').collect();
    if ctx.request.account.account.is_system() {
        return system::dispatch(ctx, outgoing, &tokens);
    }
    if refusal::is_of_cluster(&tokens) {
        return refusal::refuse(ctx, outgoing, &tokens, ErrorCode::CLUSTER_REQUIRED.into());
    }
    if !ctx.request.account.is_enabled() {
        return refusal::refuse(ctx, outgoing, &tokens, ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into());
    }
    if !ctx.meets_level() {
        return refusal::refuse(ctx, outgoing, &tokens, ErrorCode::REQUIRED_API_LEVEL.into());
    }
    match tokens[..] {
        ["INFO"] => account::info(ctx),
        ["STREAM", "CREATE", name] => stream::create(ctx, outgoing, name),
        ["STREAM", "UPDATE", name] => stream::update(ctx, outgoing, name),
        ["STREAM", "NAMES"] => list::stream_names(ctx, outgoing),
        ["STREAM", "LIST"] => list::stream_list(ctx, outgoing),
        ["STREAM", "INFO", name] => stream::info(ctx, outgoing, name),
        ["STREAM", "DELETE", name] => stream::delete(ctx, outgoing, name),
        ["STREAM", "PURGE", name] => stream::purge(ctx, outgoing, name),
        ["STREAM", "MSG", "GET", name] => stream::get_message(ctx, outgoing, name),
        ["STREAM", "MSG", "DELETE", name] => stream::delete_message(ctx, outgoing, name),
        ["STREAM", "SNAPSHOT", name] => snapshot::snapshot(ctx, outgoing, name),
        ["STREAM", "RESTORE", name] => restore::restore(ctx, outgoing, name),
        ["CONSUMER", "CREATE", stream] => consumer::create(ctx, outgoing, stream, None, None),
        ["CONSUMER", "CREATE", stream, name] => consumer::create(ctx, outgoing, stream, Some(name), None),
        ["CONSUMER", "CREATE", stream, name, ..] => {
            let filter = tokens[4..].join(".");
            consumer::create(ctx, outgoing, stream, Some(name), Some(&filter));
        }
        ["CONSUMER", "DURABLE", "CREATE", stream, name] => {
            consumer::create_durable(ctx, outgoing, stream, name)
        }
        ["CONSUMER", "NAMES", stream] => consumer::names(ctx, outgoing, stream),
        ["CONSUMER", "LIST", stream] => consumer::list(ctx, outgoing, stream),
        ["CONSUMER", "INFO", stream, name] => consumer::info(ctx, outgoing, stream, name),
        ["CONSUMER", "DELETE", stream, name] => consumer::delete(ctx, outgoing, stream, name),
        ["CONSUMER", "PAUSE", stream, name] => consumer::pause(ctx, outgoing, stream, name),
        ["CONSUMER", "UNPIN", stream, name] => consumer::unpin(ctx, outgoing, stream, name),
        ["CONSUMER", "RESET", stream, name] => consumer::reset(ctx, outgoing, stream, name),
        _ => ctx.ignore(),
    }
}

/// A time as documents carry it, from nanoseconds since 1970.
fn time_of(nanos: i64) -> api::Time {
    api::Time::from_unix_nanos(i128::from(nanos))
}
