//! Requests in an account that has no JetStream: each is answered by saying so, in the form of its own answer.

use api::error::jetstream::ErrorCode;
use api::jetstream::response::{self, Body};

use super::Ctx;
use crate::jetstream::shard::Outgoing;

/// Answers a request.
pub(super) fn refuse(ctx: Ctx, outgoing: &mut Outgoing, tokens: &[&str]) {
    match tokens {
        ["INFO"] => say::<response::AccountInfo>(ctx, outgoing),
        ["STREAM", "CREATE", _] => say::<response::StreamCreate>(ctx, outgoing),
        ["STREAM", "UPDATE", _] => say::<response::StreamUpdate>(ctx, outgoing),
        ["STREAM", "NAMES"] => say::<response::StreamNames>(ctx, outgoing),
        ["STREAM", "LIST"] => say::<response::StreamList>(ctx, outgoing),
        ["STREAM", "INFO", _] => say::<response::StreamInfoPage>(ctx, outgoing),
        ["STREAM", "DELETE", _] => say::<response::StreamDelete>(ctx, outgoing),
        ["STREAM", "PURGE", _] => say::<response::StreamPurge>(ctx, outgoing),
        ["STREAM", "MSG", "GET", _] => say::<response::MsgGet>(ctx, outgoing),
        ["STREAM", "MSG", "DELETE", _] => say::<response::MsgDelete>(ctx, outgoing),
        ["STREAM", "SNAPSHOT", _] => say::<response::StreamSnapshot>(ctx, outgoing),
        ["STREAM", "RESTORE", _] => say::<response::StreamRestore>(ctx, outgoing),
        ["CONSUMER", "CREATE", ..] | ["CONSUMER", "DURABLE", "CREATE", ..] => {
            say::<response::ConsumerCreate>(ctx, outgoing)
        }
        ["CONSUMER", "NAMES", _] => say::<response::ConsumerNames>(ctx, outgoing),
        ["CONSUMER", "LIST", _] => say::<response::ConsumerList>(ctx, outgoing),
        ["CONSUMER", "INFO", _, _] => say::<response::ConsumerInfoResponse>(ctx, outgoing),
        ["CONSUMER", "DELETE", _, _] => say::<response::ConsumerDelete>(ctx, outgoing),
        ["CONSUMER", "PAUSE", _, _] => say::<response::ConsumerPause>(ctx, outgoing),
        ["CONSUMER", "UNPIN", _, _] => say::<response::ConsumerUnpin>(ctx, outgoing),
        ["CONSUMER", "RESET", _, _] => say::<response::ConsumerReset>(ctx, outgoing),
        _ => ctx.refuse(outgoing, ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into()),
    }
}

fn say<T: Body>(ctx: Ctx, outgoing: &mut Outgoing) {
    ctx.answer::<T>(outgoing, Err(ErrorCode::NOT_ENABLED_FOR_ACCOUNT.into()));
}
