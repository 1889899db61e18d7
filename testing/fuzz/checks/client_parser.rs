//! What must hold for any bytes given to the client parser.

use protocol::client::{Limits, Op, Publish, Step, parse};

const LIMITS: Limits = Limits { control_line_max: 256, payload_max: Some(4096), headers: true };

/// Reads `data` as a connection would, and checks every step.
pub(crate) fn check(data: &[u8]) {
    for limits in [LIMITS, Limits { headers: false, payload_max: None, ..LIMITS }] {
        let mut rest = data;
        while !rest.is_empty() {
            match parse(rest, &limits) {
                Ok(Step::Op { op, consumed }) => {
                    assert!(consumed > 0 && consumed <= rest.len());
                    check_op(&op, &limits);
                    check_prefixes(&rest[..consumed], &limits);
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
}

fn check_op(op: &Op<'_>, limits: &Limits) {
    let word = |word: &[u8]| assert!(!word.is_empty() && !word.contains(&b' ') && !word.contains(&b'\n'));
    match op {
        Op::Publish(Publish { subject, reply, header_len, payload }) => {
            word(subject);
            reply.iter().for_each(|reply| word(reply));
            assert!(*header_len <= payload.len());
            assert!(limits.payload_max.is_none_or(|max| payload.len() <= max));
        }
        Op::Subscribe { subject, queue, sid } => {
            word(subject);
            word(sid);
            queue.iter().for_each(|queue| word(queue));
        }
        Op::Unsubscribe { sid, max } => {
            word(sid);
            assert_ne!(*max, Some(0));
        }
        Op::Connect(text) | Op::Info(text) | Op::Err(text) => assert!(text.len() <= limits.control_line_max),
        Op::Ping | Op::Pong | Op::Ok => {}
    }
}

/// A part of a good frame is never an error, and never promises more than the frame.
fn check_prefixes(frame: &[u8], limits: &Limits) {
    // Every length of a long frame would make a run slow; its ends are where something happens.
    for length in (0..frame.len()).filter(|length| *length < 64 || frame.len() - length < 8) {
        match parse(&frame[..length], limits) {
            Ok(Step::NeedMore { hint }) => assert!(hint == 0 || hint == frame.len()),
            other => panic!("{length} of {} bytes: {other:?}", frame.len()),
        }
    }
}
