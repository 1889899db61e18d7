//! The header that tells a service who asks.
//!
//! Only servers say that: what a client put there itself, in whatever spelling, is taken out.

use std::borrow::Cow;

use api::event::ClientInfo;

use crate::monitor::connz::Snapshot;
use crate::net::dispatch::{Message, Origin};

/// Name of the header.
const NAME: &[u8] = b"Nats-Request-Info";
/// First line of a header block.
const VERSION: &[u8] = b"NATS/1.0\r\n";
/// End of a reply whose requestor has to be known as it was.
const FAST_BATCH_SUFFIX: &[u8] = b".$FI";

/// What is known of a request beside who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// Account that asks.
    pub(super) importer: &'a str,
    /// Reply as the account that asks has it.
    pub(super) reply: Option<&'a [u8]>,
    /// The first import of the way shares who asks.
    pub(super) shared_first: bool,
    /// So does this one.
    pub(super) shared_here: bool,
    /// The service is one of the system account.
    pub(super) for_system: bool,
}

/// Who asks: the account and the round trip, and all the rest if it is shared. `before` is what the services before were told.
pub(super) fn describe(
    origin: Option<Origin<'_>>,
    before: Option<&ClientInfo>,
    request: &Request<'_>,
) -> ClientInfo {
    let mut info = match before {
        Some(before) => ClientInfo { service: request.importer.to_owned(), ..before.clone() },
        None => first(origin, request),
    };
    let is_shared_later = before.is_some() && request.shared_here;
    if !request.shared_first && (is_shared_later || request.for_system) {
        add_server(&mut info, origin);
    }
    info
}

fn first(origin: Option<Origin<'_>>, request: &Request<'_>) -> ClientInfo {
    let mut info = ClientInfo { account: request.importer.to_owned(), ..ClientInfo::default() };
    if let Some(origin) = origin {
        info.rtt = origin.client.rtt().unwrap_or_default();
        if request.shared_first {
            let account = info.account;
            info = crate::system::events::client_info(&Snapshot::open(origin.client));
            (info.name_tag, info.account) = (String::new(), account);
            add_server(&mut info, Some(origin));
        }
    }
    if let Some(reply) = request.reply.filter(|reply| reply.ends_with(FAST_BATCH_SUFFIX)) {
        info.reply = String::from_utf8_lossy(reply).into_owned();
    }
    info
}

fn add_server(info: &mut ClientInfo, origin: Option<Origin<'_>>) {
    let Some(Origin { server, .. }) = origin else { return };
    info.server.clone_from(&server.identity.name);
    if server.options().cluster.is_some() {
        info.cluster = server.routes().cluster_name();
    }
}

/// The payload with the header, and the new length of its header block.
pub(super) fn set(message: &Message<'_>, info: &ClientInfo) -> (Vec<u8>, usize) {
    let (block, body) = message.payload.split_at(message.header_len);
    // Texts of a client and numbers are always JSON.
    let json = serde_json::to_string(info).unwrap_or_default();
    let kept = without(block);
    let mut payload = Vec::with_capacity(kept.len() + NAME.len() + json.len() + 6 + body.len());
    payload.extend_from_slice(&kept);
    payload.extend_from_slice(NAME);
    payload.extend_from_slice(b": ");
    payload.extend_from_slice(json.as_bytes());
    payload.extend_from_slice(b"\r\n\r\n");
    let header_len = payload.len();
    payload.extend_from_slice(body);
    (payload, header_len)
}

/// The lines of a block, without its end and without any header of this name.
fn without(block: &[u8]) -> Cow<'_, [u8]> {
    let block = block.strip_suffix(b"\r\n").unwrap_or(block);
    if block.is_empty() {
        return Cow::Borrowed(VERSION);
    }
    let is_kept = |line: &&[u8]| {
        let Some((name, rest)) = line.split_at_checked(NAME.len()) else { return true };
        !(name.eq_ignore_ascii_case(NAME) && rest.trim_ascii_start().starts_with(b":"))
    };
    let lines = || block.split_inclusive(|byte| *byte == b'\n');
    if lines().all(|line| is_kept(&line)) {
        return Cow::Borrowed(block);
    }
    Cow::Owned(lines().filter(is_kept).flatten().copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_on(block: &str, body: &str) -> (String, usize) {
        let payload = format!("{block}{body}");
        let message =
            Message { subject: b"s", reply: None, header_len: block.len(), payload: payload.as_bytes() };
        let info = ClientInfo { account: "A".into(), ..ClientInfo::default() };
        let (payload, header_len) = set(&message, &info);
        (String::from_utf8(payload).unwrap(), header_len)
    }

    #[test]
    fn the_header_comes_last_and_the_body_stays() {
        let own = "Nats-Request-Info: {\"acc\":\"A\"}\r\n\r\n";
        assert_eq!(set_on("", "body"), (format!("NATS/1.0\r\n{own}body"), 10 + own.len()));
        let block = "NATS/1.0 100 x\r\nA: b\r\n\r\n";
        let expected = format!("NATS/1.0 100 x\r\nA: b\r\n{own}body");
        assert_eq!(set_on(block, "body"), (expected, block.len() - 2 + own.len()));
    }

    #[test]
    fn forged_headers_are_taken_out_in_every_spelling() {
        let block = "NATS/1.0\r\nnats-request-info: x\r\nA: b\r\nNats-Request-Info:y\r\nNATS-REQUEST-INFO : z\r\n\
                     X-Nats-Request-Info: kept\r\nNats-Request-Info-X: kept\r\n\r\n";
        let (payload, _) = set_on(block, "");
        let expected = "NATS/1.0\r\nA: b\r\nX-Nats-Request-Info: kept\r\nNats-Request-Info-X: kept\r\n\
                        Nats-Request-Info: {\"acc\":\"A\"}\r\n\r\n";
        assert_eq!(payload, expected);
    }

    #[test]
    fn a_second_service_hears_of_the_first_and_of_the_account_in_between() {
        let request = Request {
            importer: "A",
            reply: Some(b"x.$FI"),
            shared_first: false,
            shared_here: false,
            for_system: false,
        };
        let first = describe(None, None, &request);
        assert_eq!(
            (first.account.as_str(), first.service.as_str(), first.reply.as_str()),
            ("A", "", "x.$FI")
        );
        let second = describe(None, Some(&first), &Request { importer: "B", ..request });
        let facts = (second.account.as_str(), second.service.as_str(), second.reply.as_str());
        assert_eq!(facts, ("A", "B", "x.$FI"));
    }
}
