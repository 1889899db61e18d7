//! Reading of direct gets: `DIRECT.GET.<stream>` with a body, `DIRECT.GET.<stream>.<subject>` for the last message of a subject.

use api::jetstream::decode::{self, Mode};
use api::jetstream::metadata;
use api::jetstream::request::{DirectGetLast, MsgGet};

use crate::jetstream::inbox::Inbound;

const EMPTY: &str = "408 Empty Request";
const MALFORMED: &str = "408 Malformed Request";
const LEVEL: &str = "412 Required Api Level";

/// What is asked for, or the status to answer with.
pub(super) fn read(stream: &str, message: &Inbound) -> Result<MsgGet, &'static str> {
    let level = protocol::header::find(&message.headers, b"Nats-Required-Api-Level");
    if let Some(level) = level.and_then(|level| std::str::from_utf8(level).ok())
        && !metadata::is_supported_level(level)
    {
        return Err(LEVEL);
    }
    match subject_of(stream, &message.subject) {
        Some(subject) => {
            let body: DirectGetLast =
                decode::decode(&message.payload, Mode::Lenient).map_err(|_| MALFORMED)?;
            Ok(MsgGet { last_by_subj: subject, no_hdr: body.no_hdr, ..MsgGet::default() })
        }
        None if message.payload.is_empty() => Err(EMPTY),
        None => decode::decode(&message.payload, Mode::Lenient).map_err(|_| MALFORMED),
    }
}

/// What follows the name of the stream.
fn subject_of(stream: &str, subject: &[u8]) -> Option<String> {
    let marker = format!("DIRECT.GET.{stream}.");
    let text = std::str::from_utf8(subject).ok()?;
    text.split_once(&marker).map(|(_, rest)| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_is_what_follows_the_stream() {
        assert_eq!(subject_of("S", b"$JS.API.DIRECT.GET.S.a.b").as_deref(), Some("a.b"));
        assert_eq!(subject_of("S", b"$JS.hub.API.DIRECT.GET.S.$KV.x").as_deref(), Some("$KV.x"));
        assert_eq!(subject_of("S", b"$JS.API.DIRECT.GET.S"), None);
    }
}
