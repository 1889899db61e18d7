//! `STREAM.RESTORE`: a stream from an archive that a client sends in chunks.
//!
//! The stream is built apart, as a draft with a group of its own, and the catalogue takes it when it is complete and on stable storage. Until then
//! nobody sees it, and when anything goes wrong nothing of it is left.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::advisory;
use api::jetstream::request::{Restore, StreamRequest};
use api::jetstream::response::{self, Body, Response as Document};
use bytes::Bytes;
use jetstream::Response;
use jetstream::meta::Asset;

use super::{Ctx, time_of};
use crate::clock;
use crate::jetstream::catalogue::{CatalogueRequest, Wanted};
use crate::jetstream::directory::AccountEntry;
use crate::jetstream::draft::{Draft, DraftError};
use crate::jetstream::shard::{Input, Outbound, Outgoing, Respond};
use crate::jetstream::transfers::RestorePlace;
use crate::jetstream::{Shared, advise};

/// How long the next chunk is waited for.
const CHUNK_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn restore(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    if !ctx.has_body() {
        return ctx.answer::<response::StreamRestore>(outgoing, Err(ErrorCode::BAD_REQUEST.into()));
    }
    let mut config = match ctx.body::<Restore>() {
        Ok(body) => body.config,
        Err(error) => return ctx.answer::<response::StreamRestore>(outgoing, Err(error)),
    };
    if config.name.is_empty() {
        name.clone_into(&mut config.name);
    }
    let request = StreamRequest { config, pedantic: false, storage_given: true };
    let reserved = Arc::new(OnceLock::new());
    let wanted = Wanted::Reserve {
        name: name.into(),
        request: Box::new(request.clone()),
        reserved: Arc::clone(&reserved),
    };
    let account = Arc::clone(&ctx.request.account);
    let keeper = Arc::clone(&ctx.shared.inboxes[0]);
    let respond = Respond::new(move |outgoing, result| match (result, reserved.get()) {
        (Ok(_), Some(asset)) => begin(ctx, outgoing, (request, asset.clone())),
        (Ok(_), None) => unreachable!("the keeper reserves before it says so"),
        (Err(error), _) => ctx.answer::<response::StreamRestore>(outgoing, Err(error)),
    });
    keeper.push(Input::Catalogue(Box::new(CatalogueRequest { account, wanted, respond })));
}

/// There may be such a stream.
fn begin(ctx: Ctx, outgoing: &mut Outgoing, wanted: (StreamRequest, Asset)) {
    let token = crate::system::event_id(&ctx.shared.server);
    let Some(place) = ctx.shared.transfers.begin_restore(&ctx.request.account, &token) else {
        let error = ErrorCode::STREAM_RESTORE.because("too many restores are under way");
        return ctx.answer::<response::StreamRestore>(outgoing, Err(error));
    };
    tokio::spawn(receive(ctx, wanted, (place, token)));
}

/// Does something that waits for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => {
            tracing::error!("JetStream restore: {error}");
            None
        }
    }
}

async fn receive(ctx: Ctx, wanted: (StreamRequest, Asset), place: (RestorePlace, String)) {
    let ((request, asset), (place, token)) = (wanted, place);
    let start = clock::unix_nanos();
    let (shared, account) = (Arc::clone(&ctx.shared), Arc::clone(&ctx.request.account));
    let client = crate::system::events::client_of(&shared.server, ctx.request.message.publisher);
    let mut outgoing = Outgoing::new(Arc::clone(&shared.server), rand::random());
    let name = asset.config.name.clone();
    let opened = {
        let (shared, account) = (Arc::clone(&shared), Arc::clone(&account));
        blocking(move || Draft::open(&shared, &account, asset)).await
    };
    let draft = match opened {
        Some(Ok(draft)) => draft,
        failed => {
            let error = failed.and_then(Result::err).map_or_else(broken, |error| error.answer());
            ctx.answer::<response::StreamRestore>(&mut outgoing, Err(error));
            return outgoing.flush();
        }
    };
    let domain = shared.domain.clone().unwrap_or_default();
    let created =
        advisory::RestoreCreate { stream: name.clone(), client: client.clone(), domain: domain.clone() };
    let subject = format!("ADVISORY.STREAM.RESTORE_CREATE.{name}");
    advise::tell(&shared, &mut outgoing, &account.account, (&subject, created));
    let deliver_subject = format!("$JS.SNAPSHOT.RESTORE.{name}.{token}");
    ctx.answer(&mut outgoing, Ok(response::StreamRestore { deliver_subject }));
    outgoing.flush();
    let mut receiver = Receiver { shared, account, outgoing, name, request, bytes: 0 };
    let Some((reply, result)) = receiver.run(draft, place).await else { return };
    let Receiver { shared, account, mut outgoing, name, bytes, .. } = receiver;
    if result.is_ok() {
        advise::stream_action(&shared, &mut outgoing, &account.account, &name, advisory::Action::Create);
    }
    let (start, end) = (time_of(start), time_of(clock::unix_nanos()));
    let complete = advisory::RestoreComplete { stream: name.clone(), start, end, bytes, client, domain };
    let subject = format!("ADVISORY.STREAM.RESTORE_COMPLETE.{name}");
    advise::tell(&shared, &mut outgoing, &account.account, (&subject, complete));
    match &result {
        Ok(_) => tracing::info!("JetStream restored stream '{} > {name}'", account.account.name()),
        Err(error) => {
            tracing::warn!(
                "JetStream restore of '{} > {name}': {}",
                account.account.name(),
                error.description
            );
        }
    }
    if let Some(reply) = reply {
        let info = result.map(|answer| super::stream::info_of(&shared, answer));
        let document = info.map(|info| response::StreamCreate { info, did_create: false });
        answer(&mut outgoing, &account, &reply, document);
    }
    outgoing.flush();
}

fn broken() -> ApiError {
    ErrorCode::STREAM_RESTORE.because("the server failed")
}

/// An archive on its way in.
struct Receiver {
    shared: Arc<Shared>,
    account: Arc<AccountEntry>,
    outgoing: Outgoing,
    name: String,
    request: StreamRequest,
    /// Received.
    bytes: i64,
}

/// Whom to tell what came of it.
type Outcome = (Option<Bytes>, Result<Response, ApiError>);

impl Receiver {
    /// Takes chunks until the end, or until something goes wrong. `None` if the client has gone; then there is nobody to tell.
    async fn run(&mut self, mut draft: Draft, mut place: RestorePlace) -> Option<Outcome> {
        loop {
            let Ok(chunk) = tokio::time::timeout(CHUNK_WITHIN, place.next()).await else {
                tracing::warn!(
                    "restore for stream '{} > {}' is stalled",
                    self.account.account.name(),
                    self.name
                );
                discard(draft).await;
                return None;
            };
            let Some(chunk) = chunk else {
                discard(draft).await;
                return Some((None, Err(ErrorCode::STREAM_RESTORE.because("too many chunks wait"))));
            };
            let Some(reply) = chunk.reply else {
                discard(draft).await;
                let text = format!(
                    "restore for stream '{} > {}' requires reply subject for each chunk",
                    self.account.account.name(),
                    self.name
                );
                return Some((None, Err(ErrorCode::STREAM_RESTORE.because(text))));
            };
            if chunk.payload.is_empty() {
                drop(place);
                return Some((Some(reply), self.complete(draft).await));
            }
            self.bytes = self.bytes.saturating_add(i64::try_from(chunk.payload.len()).unwrap_or(i64::MAX));
            let pushed = blocking(move || {
                let pushed = draft.push(&chunk.payload);
                pushed.map(|()| draft)
            });
            draft = match pushed.await {
                Some(Ok(draft)) => draft,
                failed => return Some((Some(reply), Err(refusal(failed.and_then(Result::err))))),
            };
            let message = Outbound { to: &reply, subject: &reply, reply: None, headers: b"", payload: b"" };
            self.outgoing.send(&self.account.account, &message);
            self.outgoing.flush();
        }
    }

    /// The archive is there: the catalogue takes the stream.
    async fn complete(&self, mut draft: Draft) -> Result<Response, ApiError> {
        let finished = blocking(move || {
            let finished = draft.finish();
            finished.map(|()| draft)
        });
        let draft = match finished.await {
            Some(Ok(draft)) => draft,
            failed => return Err(refusal(failed.and_then(Result::err))),
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // The server may be ending; then nobody waits any more.
        let respond = Respond::new(move |_, result| drop(sender.send(result)));
        let wanted = Wanted::Adopt { request: Box::new(self.request.clone()), draft: Box::new(draft) };
        let account = Arc::clone(&self.account);
        let request = CatalogueRequest { account, wanted, respond };
        self.shared.inboxes[0].push(Input::Catalogue(Box::new(request)));
        receiver.await.unwrap_or_else(|_| Err(broken()))
    }
}

fn refusal(error: Option<DraftError>) -> ApiError {
    error.map_or_else(broken, |error| error.answer())
}

/// Removes a draft, which waits for the disk.
async fn discard(draft: Draft) {
    blocking(move || drop(draft)).await;
}

/// Answers a chunk.
fn answer<T: Body>(
    outgoing: &mut Outgoing,
    account: &AccountEntry,
    reply: &[u8],
    result: Result<T, ApiError>,
) {
    let document = match result {
        Ok(body) => Document::ok(body),
        Err(error) => Document::failed(error),
    };
    let Ok(payload) = api::json::to_vec(&document) else { unreachable!("plain data has a JSON form") };
    let message = Outbound { to: reply, subject: reply, reply: None, headers: b"", payload: &payload };
    outgoing.send(&account.account, &message);
}
