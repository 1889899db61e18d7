//! What must hold for any bytes given to the parser of lines between servers.

use protocol::peer::{Link, Message, PeerLimits, PeerOp, Step, parse};

/// Reads `data` as every kind of connection would, and checks every step.
pub(crate) fn check(data: &[u8]) {
    for link in [Link::Route, Link::Gateway, Link::Leaf] {
        for (account, origin_unsub) in [(true, true), (true, false), (false, true)] {
            let account = account && link != Link::Leaf;
            let limits =
                PeerLimits { link, control_line_max: 512, payload_max: Some(4096), account, origin_unsub };
            check_link(data, &limits);
        }
    }
}

fn check_link(data: &[u8], limits: &PeerLimits) {
    let mut rest = data;
    while !rest.is_empty() {
        match parse(rest, limits) {
            Ok(Step::Op { op, consumed }) => {
                assert!(consumed > 0 && consumed <= rest.len());
                check_op(&op, limits);
                check_prefixes(&rest[..consumed], limits);
                rest = &rest[consumed..];
            }
            Ok(Step::NeedMore { hint }) => {
                assert!(hint == 0 || hint > rest.len());
                break;
            }
            Err(error) => {
                assert!(error.wire_error().is_none_or(protocol::error::closes));
                break;
            }
        }
    }
}

fn check_op(op: &PeerOp<'_>, limits: &PeerLimits) {
    let word = |word: &[u8]| assert!(!word.is_empty() && !word.contains(&b' ') && !word.contains(&b'\n'));
    match op {
        PeerOp::Message(Message { origin, account, subject, reply, queues, header_len, payload }) => {
            word(subject);
            reply.iter().for_each(|reply| word(reply));
            queues.for_each(word);
            assert!(*header_len <= payload.len());
            assert!(limits.payload_max.is_none_or(|max| payload.len() <= max));
            assert_eq!(account.is_some(), limits.account);
            assert!(origin.is_none() || limits.link == Link::Route);
        }
        PeerOp::Subscribe { origin, account, subject, queue } => {
            word(subject);
            queue.iter().for_each(|(queue, weight)| {
                word(queue);
                assert!(*weight > 0);
            });
            assert_eq!(account.is_some(), limits.account);
            assert!(origin.is_none() || limits.link == Link::Route);
        }
        PeerOp::Unsubscribe { origin, account, subject, queue } => {
            word(subject);
            queue.iter().for_each(|queue| word(queue));
            assert_eq!(account.is_some(), limits.account);
            assert!(origin.is_none() || (limits.link == Link::Route && limits.origin_unsub));
        }
        PeerOp::Account { account, .. } => {
            word(account);
            assert_eq!(limits.link, Link::Gateway);
        }
        PeerOp::Connect(text) | PeerOp::Info(text) | PeerOp::Err(text) => {
            assert!(text.len() <= limits.control_line_max);
        }
        PeerOp::Ping | PeerOp::Pong | PeerOp::Ok => {}
    }
}

/// A part of a good frame is never an error, and never promises more than the frame.
fn check_prefixes(frame: &[u8], limits: &PeerLimits) {
    for length in (0..frame.len()).filter(|length| *length < 64 || frame.len() - length < 8) {
        match parse(&frame[..length], limits) {
            Ok(Step::NeedMore { hint }) => assert!(hint == 0 || hint == frame.len()),
            other => panic!("{length} of {} bytes: {other:?}", frame.len()),
        }
    }
}
