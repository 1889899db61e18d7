//! Requests that are refused before anybody looks at what they want: each is answered in the form of its own answer, and those that no endpoint
//! knows are not answered at all.

use api::ApiError;
use api::jetstream::response::{self, Body};

use super::Ctx;
use crate::jetstream::shard::Outgoing;

/// Is this something that only a cluster can do? It is refused whoever asks.
pub(super) fn is_of_cluster(tokens: &[&str]) -> bool {
    matches!(
        tokens,
        ["STREAM", "PEER", "REMOVE" | "EVACUATE", _]
            | ["STREAM", "LEADER", "STEPDOWN", _]
            | ["STREAM", "CANCEL_MOVE", _]
            | ["CONSUMER", "LEADER", "STEPDOWN", _, _]
    )
}

/// Answers a request with this error.
pub(super) fn refuse(ctx: Ctx, outgoing: &mut Outgoing, tokens: &[&str], error: ApiError) {
    match tokens {
        ["INFO"] => say::<response::AccountInfo>(ctx, outgoing, error),
        ["STREAM", "CREATE", _] => say::<response::StreamCreate>(ctx, outgoing, error),
        ["STREAM", "UPDATE", _] => say::<response::StreamUpdate>(ctx, outgoing, error),
        ["STREAM", "NAMES"] => say::<response::StreamNames>(ctx, outgoing, error),
        ["STREAM", "LIST"] => say::<response::StreamList>(ctx, outgoing, error),
        ["STREAM", "INFO", _] => say::<response::StreamInfoPage>(ctx, outgoing, error),
        ["STREAM", "DELETE", _] => say::<response::StreamDelete>(ctx, outgoing, error),
        ["STREAM", "PURGE", _] => say::<response::StreamPurge>(ctx, outgoing, error),
        ["STREAM", "MSG", "GET", _] => say::<response::MsgGet>(ctx, outgoing, error),
        ["STREAM", "MSG", "DELETE", _] => say::<response::MsgDelete>(ctx, outgoing, error),
        ["STREAM", "SNAPSHOT", _] => say::<response::StreamSnapshot>(ctx, outgoing, error),
        ["STREAM", "RESTORE", _] => say::<response::StreamRestore>(ctx, outgoing, error),
        ["STREAM", "PEER", "REMOVE", _] => say::<response::StreamRemovePeer>(ctx, outgoing, error),
        ["STREAM", "PEER", "EVACUATE", _] => say::<response::StreamEvacuatePeer>(ctx, outgoing, error),
        ["STREAM", "LEADER", "STEPDOWN", _] => say::<response::StreamLeaderStepdown>(ctx, outgoing, error),
        ["STREAM", "CANCEL_MOVE", _] => say::<response::StreamCancelMove>(ctx, outgoing, error),
        ["CONSUMER", "LEADER", "STEPDOWN", _, _] => {
            say::<response::ConsumerLeaderStepdown>(ctx, outgoing, error)
        }
        ["CONSUMER", "CREATE", _, ..] | ["CONSUMER", "DURABLE", "CREATE", _, _] => {
            say::<response::ConsumerCreate>(ctx, outgoing, error)
        }
        ["CONSUMER", "NAMES", _] => say::<response::ConsumerNames>(ctx, outgoing, error),
        ["CONSUMER", "LIST", _] => say::<response::ConsumerList>(ctx, outgoing, error),
        ["CONSUMER", "INFO", _, _] => say::<response::ConsumerInfoResponse>(ctx, outgoing, error),
        ["CONSUMER", "DELETE", _, _] => say::<response::ConsumerDelete>(ctx, outgoing, error),
        ["CONSUMER", "PAUSE", _, _] => say::<response::ConsumerPause>(ctx, outgoing, error),
        ["CONSUMER", "UNPIN", _, _] => say::<response::ConsumerUnpin>(ctx, outgoing, error),
        ["CONSUMER", "RESET", _, _] => say::<response::ConsumerReset>(ctx, outgoing, error),
        _ => ctx.ignore(),
    }
}

fn say<T: Body>(ctx: Ctx, outgoing: &mut Outgoing, error: ApiError) {
    ctx.answer::<T>(outgoing, Err(error));
}
