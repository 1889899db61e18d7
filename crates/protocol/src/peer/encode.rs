//! What other servers are sent.

use super::Link;
use crate::client::encode::{json, number};
use crate::info::ConnectOptions;

/// Where a line goes and on whose behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// Kind of connection.
    pub link: Link,
    /// Cluster of the leafnode that stands behind it; on routes only.
    pub origin: Option<&'a [u8]>,
    /// The account, if lines on this connection name it.
    pub account: Option<&'a [u8]>,
}

/// What the line before a payload says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Where to.
    pub subject: &'a [u8],
    /// Where answers go.
    pub reply: Option<&'a [u8]>,
    /// Bytes of the payload that are the header block.
    pub header_len: usize,
    /// Bytes of header block and body.
    pub total_len: usize,
}

impl Target<'_> {
    /// Whether the line is of the leafnode form.
    fn is_leaf_form(&self) -> bool {
        self.link == Link::Leaf || self.origin.is_some()
    }

    fn start(&self, out: &mut Vec<u8>, plain: &[u8], leaf: &[u8], origin: bool) {
        assert!(self.origin.is_none() || self.link == Link::Route, "only routes name an origin");
        assert!(self.account.is_none() || self.link != Link::Leaf, "leafnode lines name no account");
        out.extend_from_slice(if self.is_leaf_form() { leaf } else { plain });
        if origin {
            self.origin.into_iter().for_each(|origin| word(out, origin));
        }
        self.account.into_iter().for_each(|account| word(out, account));
    }
}

/// Appends a blank and a word.
fn word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

/// Appends RS+ or LS+. The second part of `queue` is the number of members.
pub fn subscribe(out: &mut Vec<u8>, target: Target<'_>, subject: &[u8], queue: Option<(&[u8], u32)>) {
    target.start(out, b"RS+", b"LS+", true);
    word(out, subject);
    if let Some((queue, weight)) = queue {
        word(out, queue);
        number(out, weight as usize);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends RS- or LS-. `origin_unsub` tells if the peer announced `lnocu`; others do not expect an origin here.
pub fn unsubscribe(
    out: &mut Vec<u8>,
    target: Target<'_>,
    subject: &[u8],
    queue: Option<&[u8]>,
    origin_unsub: bool,
) {
    target.start(out, b"RS-", b"LS-", origin_unsub);
    word(out, subject);
    queue.into_iter().for_each(|queue| word(out, queue));
    out.extend_from_slice(b"\r\n");
}

/// Appends the line before a payload: RMSG, HMSG or LMSG.
#[inline]
pub fn message<'q>(
    out: &mut Vec<u8>,
    target: Target<'_>,
    envelope: &Envelope<'_>,
    queues: impl IntoIterator<Item = &'q [u8]>,
) {
    let with_headers = envelope.header_len > 0;
    if with_headers && target.origin.is_none() {
        target.start(out, b"HMSG", b"HMSG", false);
    } else {
        target.start(out, b"RMSG", b"LMSG", true);
    }
    word(out, envelope.subject);
    let mut queues = queues.into_iter().peekable();
    match (envelope.reply, queues.peek().is_some()) {
        (Some(reply), true) => {
            out.extend_from_slice(b" +");
            word(out, reply);
        }
        (Some(reply), false) => word(out, reply),
        (None, true) => out.extend_from_slice(b" |"),
        (None, false) => {}
    }
    queues.for_each(|queue| word(out, queue));
    if with_headers || target.origin.is_some() {
        number(out, envelope.header_len);
    }
    number(out, envelope.total_len);
    out.extend_from_slice(b"\r\n");
}

/// A CONNECT line.
pub fn connect(options: &ConnectOptions) -> Vec<u8> {
    let mut line = b"CONNECT ".to_vec();
    json(&mut line, options);
    line.extend_from_slice(b"\r\n");
    line
}

#[cfg(test)]
mod tests {
    use super::super::{Message, PeerLimits, PeerOp, Step, parse};
    use super::*;

    fn target(link: Link, origin: bool, account: bool) -> Target<'static> {
        Target { link, origin: origin.then_some(b"leafc"), account: account.then_some(b"$G") }
    }

    fn limits(target: Target<'_>) -> PeerLimits {
        PeerLimits {
            link: target.link,
            control_line_max: 4096,
            payload_max: None,
            account: target.account.is_some(),
            origin_unsub: true,
        }
    }

    /// Every kind of line on every kind of connection, with what follows its operation.
    fn targets() -> Vec<(Target<'static>, &'static str, &'static str)> {
        vec![
            (target(Link::Route, false, true), "R", " $G"),
            (target(Link::Route, false, false), "R", ""),
            (target(Link::Route, true, true), "L", " leafc $G"),
            (target(Link::Route, true, false), "L", " leafc"),
            (target(Link::Gateway, false, true), "R", " $G"),
            (target(Link::Leaf, false, false), "L", ""),
        ]
    }

    #[test]
    fn interest_lines_are_exact_and_read_back() {
        for (target, letter, place) in targets() {
            for queue in [None, Some((&b"q"[..], 3))] {
                let tail = if queue.is_some() { " q" } else { "" };
                let weight = if queue.is_some() { " 3" } else { "" };
                let mut out = Vec::new();
                subscribe(&mut out, target, b"a.b", queue);
                assert_eq!(out, format!("{letter}S+{place} a.b{tail}{weight}\r\n").into_bytes());
                let (origin, account) = (target.origin, target.account);
                let op = PeerOp::Subscribe { origin, account, subject: b"a.b", queue };
                assert_eq!(parse(&out, &limits(target)), Ok(Step::Op { op, consumed: out.len() }));

                let queue = queue.map(|(queue, _)| queue);
                out.clear();
                unsubscribe(&mut out, target, b"a.b", queue, true);
                assert_eq!(out, format!("{letter}S-{place} a.b{tail}\r\n").into_bytes());
                let op = PeerOp::Unsubscribe { origin, account, subject: b"a.b", queue };
                assert_eq!(parse(&out, &limits(target)), Ok(Step::Op { op, consumed: out.len() }));
            }
        }
    }

    #[test]
    fn unsubscribe_names_no_origin_to_a_peer_that_does_not_expect_it() {
        let mut out = Vec::new();
        let target = target(Link::Route, true, true);
        unsubscribe(&mut out, target, b"a", None, false);
        assert_eq!(out, b"LS- $G a\r\n");
        let limits = PeerLimits { origin_unsub: false, ..limits(target) };
        let op = PeerOp::Unsubscribe { origin: None, account: Some(b"$G"), subject: b"a", queue: None };
        assert_eq!(parse(&out, &limits), Ok(Step::Op { op, consumed: out.len() }));
    }

    #[test]
    fn message_lines_are_exact_and_read_back() {
        let payload = b"NATS/1.0\r\n\r\nbody";
        for (target, letter, place) in targets() {
            for (reply, queues, middle) in [
                (None, &[][..], ""),
                (Some(&b"r.x"[..]), &[][..], " r.x"),
                (None, &[&b"q1"[..], b"q2"][..], " | q1 q2"),
                (Some(&b"+"[..]), &[&b"q1"[..]][..], " + + q1"),
                (Some(&b"|"[..]), &[][..], " |"),
            ] {
                for header_len in [0, 12] {
                    let envelope = Envelope { subject: b"a", reply, header_len, total_len: payload.len() };
                    let mut out = Vec::new();
                    message(&mut out, target, &envelope, queues.iter().copied());
                    let name = match (header_len, target.origin) {
                        (0, _) | (_, Some(_)) => letter,
                        _ => "H",
                    };
                    let header = match (header_len, target.origin) {
                        (0, None) => String::new(),
                        _ => format!(" {header_len}"),
                    };
                    assert_eq!(out, format!("{name}MSG{place} a{middle}{header} 16\r\n").into_bytes());
                    out.extend_from_slice(payload);
                    out.extend_from_slice(b"\r\n");
                    let Ok(Step::Op { op: PeerOp::Message(read), consumed }) = parse(&out, &limits(target))
                    else {
                        panic!("not read back: {}", String::from_utf8_lossy(&out));
                    };
                    assert_eq!(consumed, out.len());
                    assert_eq!(read.queues.collect::<Vec<_>>(), queues);
                    let (origin, account) = (target.origin, target.account);
                    let queues = read.queues;
                    assert_eq!(
                        read,
                        Message { origin, account, subject: b"a", reply, queues, header_len, payload }
                    );
                }
            }
        }
    }
}
