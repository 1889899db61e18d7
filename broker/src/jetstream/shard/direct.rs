//! Reading of direct gets: `DIRECT.GET.<stream>` with a body, `DIRECT.GET.<stream>.<subject>` for the last message of a subject.

use api::jetstream::decode;
use api::jetstream::metadata;
use api::jetstream::request::MsgGet;

use crate::jetstream::inbox::Inbound;

const EMPTY: &str = "408 Empty Request";
const MALFORMED: &str = "408 Malformed Request";
const BAD: &str = "408 Bad Request";
const LEVEL: &str = "412 Required Api Level";

/// What is asked for, or the status to answer with.
pub(super) fn read(message: &Inbound) -> Result<MsgGet, &'static str> {
    let level = protocol::header::find(&message.headers, b"Nats-Required-Api-Level");
    if let Some(level) = level.and_then(|level| std::str::from_utf8(level).ok())
        && !metadata::is_supported_level(level)
    {
        return Err(LEVEL);
    }
    match subject_of(&message.subject) {
        Some(subject) => {
            let body = if message.payload.is_empty() { MsgGet::default() } else { body(message)? };
            // Whatever else it says would contradict the subject.
            if body != (MsgGet { no_hdr: body.no_hdr, ..MsgGet::default() }) {
                return Err(BAD);
            }
            Ok(MsgGet { last_by_subj: subject, no_hdr: body.no_hdr, ..MsgGet::default() })
        }
        None if message.payload.is_empty() => Err(EMPTY),
        None => body(message),
    }
}

fn body(message: &Inbound) -> Result<MsgGet, &'static str> {
    decode::decode_one(&message.payload).map_err(|_| MALFORMED)
}

/// What follows the name of the stream, which is that of the origin when a mirror answers.
fn subject_of(subject: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(subject).ok()?;
    let (_, rest) = text.split_once(".API.DIRECT.GET.")?;
    rest.split_once('.').map(|(_, subject)| subject.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_is_what_follows_the_stream() {
        assert_eq!(subject_of(b"$JS.API.DIRECT.GET.S.a.b").as_deref(), Some("a.b"));
        assert_eq!(subject_of(b"$JS.hub.API.DIRECT.GET.S.$KV.x").as_deref(), Some("$KV.x"));
        assert_eq!(subject_of(b"$JS.API.DIRECT.GET.S"), None);
        assert_eq!(
            subject_of(b"$JS.API.DIRECT.GET.S.x.API.DIRECT.GET.y").as_deref(),
            Some("x.API.DIRECT.GET.y")
        );
    }
}
