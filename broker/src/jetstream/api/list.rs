//! Lists of streams: names from the directory, infos gathered from the shards.

use std::sync::Arc;

use api::jetstream::request::{StreamInfoDetails, StreamList, StreamNames};
use api::jetstream::response::{self, LIST_LIMIT, NAMES_LIMIT, Paged};
use api::jetstream::stream::StreamInfo;
use jetstream::{Request, Response};
use parking_lot::Mutex;

use super::Ctx;
use crate::jetstream::directory::StreamEntry;
use crate::jetstream::shard::{Input, Outgoing, Respond};

pub(super) fn stream_names(ctx: Ctx, outgoing: &mut Outgoing) {
    let body = match ctx.lax_body::<StreamNames>() {
        Ok(body) => body,
        Err(error) => return ctx.answer::<response::StreamNames>(outgoing, Err(error)),
    };
    let (page, streams) = select(&ctx, body.offset, NAMES_LIMIT, &body.subject);
    let streams = streams.iter().map(|stream| stream.name.to_string()).collect();
    ctx.answer(outgoing, Ok(response::StreamNames { page, streams }));
}

pub(super) fn stream_list(ctx: Ctx, outgoing: &mut Outgoing) {
    let body = match ctx.lax_body::<StreamList>() {
        Ok(body) => body,
        Err(error) => return ctx.answer::<response::StreamList>(outgoing, Err(error)),
    };
    let (page, streams) = select(&ctx, body.offset, LIST_LIMIT, &body.subject);
    if streams.is_empty() {
        return ctx.answer(outgoing, Ok(response::StreamList { page, ..response::StreamList::default() }));
    }
    let gather =
        Gather { infos: vec![None; streams.len()], waiting: streams.len(), finish: Some((ctx, page)) };
    let gather = Arc::new(Mutex::new(gather));
    for (place, stream) in streams.iter().enumerate() {
        let gather = Arc::clone(&gather);
        let respond = Respond::new(move |outgoing, result| arrived(&gather, place, result.ok(), outgoing));
        let request = Box::new(Request::StreamInfo(StreamInfoDetails::default()));
        stream.inbox.push_request(Input::Request { group: stream.group, request, respond });
    }
}

/// Infos that come from several shards, in any order.
#[derive(Debug)]
struct Gather {
    infos: Vec<Option<StreamInfo>>,
    waiting: usize,
    finish: Option<(Ctx, Paged)>,
}

/// An info has come, or a stream is gone; the last one answers the request.
fn arrived(gather: &Mutex<Gather>, place: usize, answer: Option<Response>, outgoing: &mut Outgoing) {
    let mut gather = gather.lock();
    if let Some(Response::StreamPage { info, .. }) = answer {
        gather.infos[place] = Some(*info);
    }
    gather.waiting -= 1;
    if gather.waiting > 0 {
        return;
    }
    let streams = std::mem::take(&mut gather.infos).into_iter().flatten().collect();
    if let Some((ctx, page)) = gather.finish.take() {
        ctx.answer(outgoing, Ok(response::StreamList { page, streams, ..response::StreamList::default() }));
    }
}

/// Streams of one page, by name, that have a subject in common with `subject` if one is given.
fn select(ctx: &Ctx, offset: i64, limit: i64, subject: &str) -> (Paged, Vec<Arc<StreamEntry>>) {
    let mut streams = ctx.request.account.sorted();
    if !subject.is_empty() {
        let wanted = subject.as_bytes();
        streams.retain(|stream| {
            stream.config.load().subjects.iter().any(|own| subject::overlaps(own.as_bytes(), wanted))
        });
    }
    let total = i64::try_from(streams.len()).unwrap_or(i64::MAX);
    let offset = offset.clamp(0, total);
    let page = streams.into_iter().skip(usize::try_from(offset).unwrap_or(usize::MAX));
    let page = page.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
    (Paged { total, offset, limit }, page)
}
