//! Requests about the consumers of one stream.

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::consumer::ConsumerInfo;
use api::jetstream::metadata;
use api::jetstream::request::{Consumers, CreateConsumerRequest, Pause, Reset, Unpin};
use api::jetstream::response::{self, LIST_LIMIT, NAMES_LIMIT, Paged};
use jetstream::{Request, Response};

use super::Ctx;
use crate::jetstream::directory::StreamEntry;
use crate::jetstream::letters;
use crate::jetstream::shard::Outgoing;
use crate::server::COMPATIBLE_VERSION;

pub(super) fn create(
    ctx: Ctx,
    outgoing: &mut Outgoing,
    stream: &str,
    name: Option<&str>,
    filter: Option<&str>,
) {
    let checked = read(&ctx, stream).and_then(|mut request| {
        check(&mut request, name, filter)?;
        Ok(request)
    });
    send_create(ctx, outgoing, stream, checked);
}

pub(super) fn create_durable(ctx: Ctx, outgoing: &mut Outgoing, stream: &str, name: &str) {
    let checked = read(&ctx, stream).and_then(|mut request| {
        check_name(name)?;
        if request.config.durable_name.is_empty() {
            return Err(ErrorCode::CONSUMER_DURABLE_NAME_NOT_SET.into());
        }
        if request.config.durable_name != name {
            return Err(ErrorCode::CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT.into());
        }
        name.clone_into(&mut request.config.name);
        Ok(request)
    });
    send_create(ctx, outgoing, stream, checked);
}

fn read(ctx: &Ctx, stream: &str) -> Result<CreateConsumerRequest, ApiError> {
    let request: CreateConsumerRequest = ctx.body()?;
    if request.stream_name != stream {
        return Err(ErrorCode::STREAM_MISMATCH.into());
    }
    if request.config.num_replicas > 1 {
        return Err(ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED.into());
    }
    Ok(request)
}

fn check_name(name: &str) -> Result<(), ApiError> {
    if api::jetstream::name::has_path_separator(name) {
        return Err(ErrorCode::CONSUMER_NAME_CONTAINS_PATH_SEPARATORS.into());
    }
    Ok(())
}

/// What subject and body say of name and filter has to agree.
fn check(
    request: &mut CreateConsumerRequest,
    name: Option<&str>,
    filter: Option<&str>,
) -> Result<(), ApiError> {
    let config = &mut request.config;
    check_name(name.unwrap_or(&config.name))?;
    let Some(name) = name else {
        if !config.durable_name.is_empty() {
            return Err(ErrorCode::CONSUMER_EPHEMERAL_WITH_DURABLE_NAME.into());
        }
        return Ok(());
    };
    if !config.durable_name.is_empty() && config.durable_name != name {
        return Err(ErrorCode::CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT.into());
    }
    name.clone_into(&mut config.name);
    let Some(filter) = filter else { return Ok(()) };
    if !config.filter_subjects.is_empty() {
        return Err(ErrorCode::CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED.into());
    }
    if config.filter_subject != filter {
        return Err(ErrorCode::CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH.into());
    }
    Ok(())
}

/// Header by which a source tells which stream it expects.
const IDENTITY: &[u8] = b"Nats-Stream-Identity";

/// A mirror or source hears which of all streams of its name this one is, and is refused if it expects another one.
fn identify(ctx: &mut Ctx, request: &CreateConsumerRequest, stream: &StreamEntry) -> Result<(), ApiError> {
    if !request.config.is_internal() {
        return Ok(());
    }
    ctx.identify(stream);
    let expected = protocol::header::find(&ctx.request.message.headers, IDENTITY);
    match expected.filter(|expected| !expected.is_empty() && *expected != stream.identity.as_bytes()) {
        Some(_) => Err(ErrorCode::CONSUMER_STREAM_IDENTITY_MISMATCH.because(&stream.identity)),
        None => Ok(()),
    }
}

fn send_create(
    mut ctx: Ctx,
    outgoing: &mut Outgoing,
    stream: &str,
    request: Result<CreateConsumerRequest, ApiError>,
) {
    let asked = request.and_then(|request| {
        let stream = ctx.stream(stream)?;
        identify(&mut ctx, &request, &stream)?;
        let announced = letters::announce_consumer(&ctx.request.account, &stream, &request.config)?;
        Ok((request, stream, announced))
    });
    let (request, stream, announced) = match asked {
        Ok(asked) => asked,
        Err(error) => return ctx.answer::<response::ConsumerCreate>(outgoing, Err(error)),
    };
    let request = Request::CreateConsumer {
        config: Box::new(request.config),
        action: request.action,
        pedantic: request.pedantic,
    };
    ctx.ask(&stream, request, move |answer| {
        drop(announced);
        response::ConsumerCreate { info: info_of(answer) }
    });
}

fn info_of(answer: Response) -> Option<ConsumerInfo> {
    match answer {
        Response::Consumer(info) | Response::Reset { info, .. } => Some(with_version(*info)),
        _ => None,
    }
}

/// The info with what this server is in the metadata; it is not stored there.
fn with_version(mut info: ConsumerInfo) -> ConsumerInfo {
    if let Some(config) = &mut info.config {
        config.metadata = metadata::with_server(&config.metadata, COMPATIBLE_VERSION);
    }
    info
}

pub(super) fn names(ctx: Ctx, outgoing: &mut Outgoing, stream: &str) {
    let asked = ctx.lax_body::<Consumers>().and_then(|body| Ok((body, ctx.stream(stream)?)));
    let (body, stream) = match asked {
        Ok(asked) => asked,
        Err(error) => return ctx.answer::<response::ConsumerNames>(outgoing, Err(error)),
    };
    let offset = body.offset.max(0);
    ctx.ask(&stream, page(offset, NAMES_LIMIT, false), move |answer| {
        let Response::Consumers { total, names, .. } = answer else {
            return response::ConsumerNames::default();
        };
        response::ConsumerNames { page: paged(total, offset, NAMES_LIMIT), consumers: names }
    });
}

pub(super) fn list(ctx: Ctx, outgoing: &mut Outgoing, stream: &str) {
    let asked = ctx.lax_body::<Consumers>().and_then(|body| Ok((body, ctx.stream(stream)?)));
    let (body, stream) = match asked {
        Ok(asked) => asked,
        Err(error) => return ctx.answer::<response::ConsumerList>(outgoing, Err(error)),
    };
    let offset = body.offset.max(0);
    ctx.ask(&stream, page(offset, LIST_LIMIT, true), move |answer| {
        let Response::Consumers { total, infos, .. } = answer else {
            return response::ConsumerList::default();
        };
        let page = paged(total, offset, LIST_LIMIT);
        response::ConsumerList { page, consumers: infos, ..response::ConsumerList::default() }
    });
}

fn page(offset: i64, limit: i64, infos: bool) -> Request {
    let number = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
    Request::ListConsumers { offset: number(offset), limit: number(limit), infos }
}

fn paged(total: usize, offset: i64, limit: i64) -> Paged {
    let total = i64::try_from(total).unwrap_or(i64::MAX);
    Paged { total, offset: offset.min(total), limit }
}

pub(super) fn info(ctx: Ctx, outgoing: &mut Outgoing, stream: &str, name: &str) {
    if ctx.has_body() {
        return ctx
            .answer::<response::ConsumerInfoResponse>(outgoing, Err(ErrorCode::NOT_EMPTY_REQUEST.into()));
    }
    match ctx.stream(stream) {
        Err(error) => ctx.answer::<response::ConsumerInfoResponse>(outgoing, Err(error)),
        Ok(stream) => {
            let request = Request::ConsumerInfo { consumer: name.into() };
            ctx.ask(&stream, request, |answer| response::ConsumerInfoResponse { info: info_of(answer) });
        }
    }
}

pub(super) fn delete(ctx: Ctx, outgoing: &mut Outgoing, stream: &str, name: &str) {
    if ctx.has_body() {
        return ctx.answer::<response::ConsumerDelete>(outgoing, Err(ErrorCode::NOT_EMPTY_REQUEST.into()));
    }
    match ctx.stream(stream) {
        Err(error) => ctx.answer::<response::ConsumerDelete>(outgoing, Err(error)),
        Ok(stream) => {
            let request = Request::DeleteConsumer { consumer: name.into() };
            ctx.ask(&stream, request, |_| response::ConsumerDelete::done());
        }
    }
}

pub(super) fn pause(ctx: Ctx, outgoing: &mut Outgoing, stream: &str, name: &str) {
    let asked = ctx.lax_body::<Pause>().and_then(|body| Ok((body, ctx.stream(stream)?)));
    match asked {
        Err(error) => ctx.answer::<response::ConsumerPause>(outgoing, Err(error)),
        Ok((pause, stream)) => {
            let request = Request::PauseConsumer { consumer: name.into(), until: pause.pause_until };
            ctx.ask(&stream, request, |answer| match answer {
                Response::Paused(state) => state,
                _ => response::ConsumerPause::default(),
            });
        }
    }
}

pub(super) fn unpin(ctx: Ctx, outgoing: &mut Outgoing, stream: &str, name: &str) {
    let asked = ctx.loose_body::<Unpin>().and_then(|body| {
        if body.group.is_empty() {
            return Err(ErrorCode::INVALID_JSON.because("consumer group not specified"));
        }
        if !api::jetstream::name::is_valid_group(&body.group) {
            return Err(ErrorCode::CONSUMER_INVALID_GROUP_NAME.into());
        }
        Ok((body, ctx.stream(stream)?))
    });
    match asked {
        Err(error) => ctx.answer::<response::ConsumerUnpin>(outgoing, Err(error)),
        Ok((unpin, stream)) => {
            let request = Request::UnpinConsumer { consumer: name.into(), group: unpin.group.into() };
            ctx.ask(&stream, request, |_| response::ConsumerUnpin::default());
        }
    }
}

pub(super) fn reset(mut ctx: Ctx, outgoing: &mut Outgoing, stream: &str, name: &str) {
    // The consumer itself serves it: without one nobody answers.
    let known = ctx.stream(stream).is_ok_and(|stream| stream.consumers.read().contains_key(name));
    if !known {
        return ctx.ignore();
    }
    let body = if ctx.has_body() { ctx.loose_body::<Reset>() } else { Ok(Reset::default()) };
    let asked = body.and_then(|body| Ok((body, ctx.stream(stream)?)));
    match asked {
        Err(error) => ctx.answer::<response::ConsumerReset>(outgoing, Err(error)),
        Ok((reset, stream)) => {
            if protocol::header::find(&ctx.request.message.headers, IDENTITY).is_some() {
                ctx.identify(&stream);
            }
            let request = Request::ResetConsumer { consumer: name.into(), sequence: reset.seq };
            ctx.ask(&stream, request, |answer| match answer {
                Response::Reset { info, sequence } => {
                    response::ConsumerReset { info: Some(with_version(*info)), reset_seq: sequence }
                }
                _ => response::ConsumerReset::default(),
            });
        }
    }
}
