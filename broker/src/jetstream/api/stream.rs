//! Requests about one stream.

use std::sync::Arc;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::advisory::Action;
use api::jetstream::cluster::ClusterInfo;
use api::jetstream::metadata;
use api::jetstream::request::{MsgDelete, MsgGet, Purge, StreamInfoDetails};
use api::jetstream::response::{self, Paged, SUBJECTS_LIMIT};
use api::jetstream::stream::{Storage, StreamInfo};
use config::options::SyncMode;
use jetstream::{Request, Response};

use super::Ctx;
use crate::jetstream::catalogue::{CatalogueRequest, Wanted};
use crate::jetstream::shard::{Input, Outgoing, Respond};
use crate::jetstream::{Shared, advise};
use crate::server::COMPATIBLE_VERSION;

pub(super) fn create(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    let request = match ctx.stream_request() {
        Ok(request) => request,
        Err(error) => return ctx.answer::<response::StreamCreate>(outgoing, Err(error)),
    };
    let wanted = Wanted::Create { name: name.into(), request: Box::new(request) };
    change(ctx, wanted, Action::Create, name.to_owned(), |ctx, outgoing, result| {
        let document = |answer| {
            // Only this answer does not tell the domain.
            let info = info_of(&ctx.shared, answer).map(|info| StreamInfo { domain: String::new(), ..info });
            response::StreamCreate { info, did_create: true }
        };
        let result = result.map(document);
        ctx.answer(outgoing, result);
    });
}

pub(super) fn update(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    let request = match ctx.stream_request() {
        Ok(request) => request,
        Err(error) => return ctx.answer::<response::StreamUpdate>(outgoing, Err(error)),
    };
    let wanted = Wanted::Update { name: name.into(), request: Box::new(request) };
    change(ctx, wanted, Action::Modify, name.to_owned(), |ctx, outgoing, result| {
        let result = result.map(|answer| response::StreamUpdate { info: info_of(&ctx.shared, answer) });
        ctx.answer(outgoing, result);
    });
}

pub(super) fn delete(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    if ctx.has_body() {
        return ctx.answer::<response::StreamDelete>(outgoing, Err(ErrorCode::NOT_EMPTY_REQUEST.into()));
    }
    let wanted = Wanted::Delete { name: name.into() };
    change(ctx, wanted, Action::Delete, name.to_owned(), |ctx, outgoing, result| {
        ctx.answer(outgoing, result.map(|_| response::StreamDelete::done()));
    });
}

/// Has the catalogue changed, and tells of it when it is.
fn change(
    ctx: Ctx,
    wanted: Wanted,
    action: Action,
    name: String,
    answer: impl FnOnce(Ctx, &mut Outgoing, Result<Response, ApiError>) + Send + 'static,
) {
    let account = Arc::clone(&ctx.request.account);
    let existed = account.stream(name.as_bytes()).is_some();
    let keeper = Arc::clone(&ctx.shared.inboxes[0]);
    let respond = Respond::new(move |outgoing, result| {
        let happened = result.is_ok() && !(action == Action::Create && existed);
        if happened {
            advise::stream_action(&ctx.shared, outgoing, &ctx.request.account.account, &name, action);
        }
        answer(ctx, outgoing, result);
    });
    keeper.push(Input::Catalogue(Box::new(CatalogueRequest { account, wanted, respond })));
}

pub(super) fn info_of(shared: &Shared, answer: Response) -> Option<StreamInfo> {
    match answer {
        Response::Stream(info) | Response::StreamPage { info, .. } => Some(with_server(shared, *info)),
        _ => None,
    }
}

/// The info with what this server is, and how safe it keeps messages, in the metadata; it is not stored there.
fn with_server(shared: &Shared, mut info: StreamInfo) -> StreamInfo {
    let shown = &mut info.config.metadata;
    *shown = metadata::with_server(shown, COMPATIBLE_VERSION);
    if let SyncMode::Interval(interval) = shared.server.options().jetstream.sync
        && info.config.storage == Storage::File
    {
        shown.insert(metadata::SYNC_INTERVAL.to_owned(), config::format_duration(interval));
    }
    info
}

pub(super) fn info(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    let asked = ctx.lax_body::<StreamInfoDetails>().and_then(|body| Ok((body, ctx.stream(name)?)));
    let (details, stream) = match asked {
        Ok(asked) => asked,
        Err(error) => return ctx.answer::<response::StreamInfoPage>(outgoing, Err(error)),
    };
    let (offset, filtered) = (details.offset.max(0), !details.subjects_filter.is_empty());
    let shared = Arc::clone(&ctx.shared);
    ctx.ask(&stream, Request::StreamInfo(details), move |answer| {
        let Response::StreamPage { info, subjects } = answer else {
            return response::StreamInfoPage::default();
        };
        let total = i64::try_from(subjects).unwrap_or(i64::MAX);
        let page = if filtered && total > 0 {
            Paged { total, offset, limit: SUBJECTS_LIMIT }
        } else {
            Paged::default()
        };
        let leader = shared.server.identity.name.clone();
        let mut info = with_server(&shared, *info);
        info.cluster = Some(ClusterInfo { leader, ..ClusterInfo::default() });
        response::StreamInfoPage { page, info: Some(info) }
    });
}

pub(super) fn purge(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    let asked = ctx.lax_body::<Purge>().and_then(|body| Ok((body, ctx.stream(name)?)));
    match asked {
        Err(error) => ctx.answer::<response::StreamPurge>(outgoing, Err(error)),
        Ok((purge, stream)) => ctx.ask(&stream, Request::Purge(purge), |answer| match answer {
            Response::Purged(purged) => response::StreamPurge { success: true, purged },
            _ => response::StreamPurge::default(),
        }),
    }
}

pub(super) fn get_message(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    if ctx.request.message.payload.is_empty() {
        return ctx.answer::<response::MsgGet>(outgoing, Err(ErrorCode::BAD_REQUEST.into()));
    }
    let asked = ctx.body::<MsgGet>().and_then(|body| Ok((body, ctx.stream(name)?)));
    match asked {
        Err(error) => ctx.answer::<response::MsgGet>(outgoing, Err(error)),
        Ok((get, stream)) => ctx.ask(&stream, Request::GetMessage(Box::new(get)), |answer| match answer {
            Response::Message(message) => response::MsgGet { message: Some(*message) },
            _ => response::MsgGet::default(),
        }),
    }
}

pub(super) fn delete_message(ctx: Ctx, outgoing: &mut Outgoing, name: &str) {
    if !ctx.has_body() {
        return ctx.answer::<response::MsgDelete>(outgoing, Err(ErrorCode::BAD_REQUEST.into()));
    }
    let asked = ctx.body::<MsgDelete>().and_then(|body| Ok((body, ctx.stream(name)?)));
    match asked {
        Err(error) => ctx.answer::<response::MsgDelete>(outgoing, Err(error)),
        Ok((delete, stream)) => {
            let request = Request::DeleteMessage { sequence: delete.seq, erase: !delete.no_erase };
            ctx.ask(&stream, request, |_| response::MsgDelete::done());
        }
    }
}
