//! Bytes of a client to operations.
//!
//! A whole frame in the buffer is one call: one search for the line end, one walk over the arguments, no copy.
//! The leniency is that of the reference server: names in any case, runs of blanks, LF with or without CR.

use crate::error::ParseError;
use crate::scan::{self, After, Args, Row};

/// What the parser refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of arguments on a line.
    pub control_line_max: usize,
    /// Most bytes of header block and body; `None` is unlimited.
    pub payload_max: Option<usize>,
    /// Whether HPUB is allowed.
    pub headers: bool,
}

/// An operation of a client; all slices point into the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// CONNECT with its JSON text, which may be anything.
    Connect(&'a [u8]),
    /// PUB or HPUB.
    Publish(Publish<'a>),
    /// SUB.
    Subscribe {
        /// What to subscribe to; not checked.
        subject: &'a [u8],
        /// The queue group to join.
        queue: Option<&'a [u8]>,
        /// The client's name for the subscription.
        sid: &'a [u8],
    },
    /// UNSUB.
    Unsubscribe {
        /// The client's name for the subscription.
        sid: &'a [u8],
        /// Messages to deliver before it ends; `None` ends it now.
        max: Option<u64>,
    },
    /// PING.
    Ping,
    /// PONG.
    Pong,
    /// INFO with its JSON text.
    Info(&'a [u8]),
    /// `+OK`.
    Ok,
    /// `-ERR` with its text. The reference server closes on it, reason [`crate::error::CloseReason::ParseError`].
    Err(&'a [u8]),
}

/// A message from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Where to; not checked.
    pub subject: &'a [u8],
    /// Where answers go.
    pub reply: Option<&'a [u8]>,
    /// Bytes of `payload` that are the header block; at most its length.
    pub header_len: usize,
    /// Header block and body, without the final CR LF.
    pub payload: &'a [u8],
}

/// Result of [`parse`].
pub type Step<'a> = scan::Step<Op<'a>>;

#[derive(Clone, Copy)]
enum Name {
    Publish,
    PublishWithHeaders,
    Subscribe,
    Unsubscribe,
    Ping,
    Pong,
    Connect,
    Info,
    Ok,
    Err,
}

const NAMES: &[Row<Name>] = &[
    (b"PUB", After::Blank, Name::Publish),
    (b"HPUB", After::Blank, Name::PublishWithHeaders),
    (b"SUB", After::Blank, Name::Subscribe),
    (b"UNSUB", After::Blank, Name::Unsubscribe),
    (b"PING", After::Anything, Name::Ping),
    (b"PONG", After::Anything, Name::Pong),
    (b"CONNECT", After::Anything, Name::Connect),
    (b"INFO", After::Anything, Name::Info),
    (b"+OK", After::Anything, Name::Ok),
    (b"-ERR", After::Blank, Name::Err),
];

/// Looks for one operation at the start of `buf`.
///
/// Limits and wrong names are noticed as early as they can be: a line that is too long without its end, a payload
/// that is too large before it arrives.
#[inline]
pub fn parse<'a>(buf: &'a [u8], limits: &Limits) -> Result<Step<'a>, ParseError> {
    if let [p, u, b, blank, ..] = buf
        && [p | 0x20, u | 0x20, b | 0x20] == *b"pub"
        && scan::is_blank(*blank)
    {
        return match publish_whole(buf, limits) {
            Some(step) => Ok(step),
            None => publish(buf, 3, limits, false),
        };
    }
    parse_any(buf, limits)
}

/// PUB as client libraries write it: one blank between words, CR LF, the whole frame here, nothing too large.
/// `None` leaves everything else, errors too, to [`publish`], which would read this the same way.
#[inline]
fn publish_whole<'a>(buf: &'a [u8], limits: &Limits) -> Option<Step<'a>> {
    let text = &buf[b"PUB ".len()..];
    let end = memchr::memchr(b'\n', text)?;
    let line = text[..end].strip_suffix(b"\r")?;
    let (subject, rest) = scan::split_word(line)?;
    let (reply, size) = match scan::split_word(rest) {
        None => (None, scan::number(rest)?),
        Some((reply, size)) => (Some(reply), scan::number(size)?),
    };
    let size = size as usize;
    if line.len() > limits.control_line_max || limits.payload_max.is_some_and(|max| size > max) {
        return None;
    }
    let frame = text.get(end + 1..end + 1 + size + 2)?;
    let payload = frame.strip_suffix(b"\r\n")?;
    let op = Op::Publish(Publish { subject, reply, header_len: 0, payload });
    Some(Step::Op { op, consumed: b"PUB ".len() + end + 1 + frame.len() })
}

fn parse_any<'a>(buf: &'a [u8], limits: &Limits) -> Result<Step<'a>, ParseError> {
    let Some((name, name_len)) = scan::operation(buf, NAMES)? else {
        return Ok(Step::NeedMore { hint: 0 });
    };
    match name {
        Name::Publish => return publish(buf, name_len, limits, false),
        Name::PublishWithHeaders => return publish(buf, name_len, limits, true),
        _ => {}
    }
    let Some((line, consumed)) = scan::line(buf, name_len, limits.control_line_max)? else {
        return Ok(Step::NeedMore { hint: 0 });
    };
    let op = match name {
        Name::Subscribe => subscribe(line)?,
        Name::Unsubscribe => unsubscribe(line)?,
        Name::Ping => Op::Ping,
        Name::Pong => Op::Pong,
        Name::Connect => Op::Connect(line),
        Name::Info => Op::Info(line),
        Name::Ok => Op::Ok,
        Name::Err => Op::Err(line),
        Name::Publish | Name::PublishWithHeaders => unreachable!("returned above"),
    };
    Ok(Step::Op { op, consumed })
}

#[inline]
fn publish<'a>(
    buf: &'a [u8],
    name_len: usize,
    limits: &Limits,
    headers: bool,
) -> Result<Step<'a>, ParseError> {
    let Some((line, start)) = scan::line(buf, name_len, limits.control_line_max)? else {
        return Ok(Step::NeedMore { hint: 0 });
    };
    if headers && !limits.headers {
        return Err(ParseError::HeadersNotSupported);
    }
    let mut args = Args::new(line);
    let size = scan::size(&mut args)?;
    let header_len = if headers { scan::size(&mut args)? } else { 0 };
    let Some(subject) = args.next() else {
        return Err(ParseError::BadArguments("wrong number of arguments"));
    };
    let reply = args.next();
    if !args.is_empty() {
        return Err(ParseError::BadArguments("wrong number of arguments"));
    }
    if header_len > size {
        return Err(ParseError::BadArguments("header size is larger than the total size"));
    }
    if limits.payload_max.is_some_and(|max| size > max) {
        return Err(ParseError::PayloadViolation { size });
    }
    Ok(match scan::payload(buf, start, size)? {
        Ok(payload) => Step::Op {
            op: Op::Publish(Publish { subject, reply, header_len, payload }),
            consumed: start + size + 2,
        },
        Err(hint) => Step::NeedMore { hint },
    })
}

fn subscribe(line: &[u8]) -> Result<Op<'_>, ParseError> {
    let mut args = Args::new(line);
    let (Some(subject), Some(sid)) = (args.next(), args.next_back()) else {
        return Err(ParseError::BadArguments("wrong number of arguments"));
    };
    let queue = args.next();
    if !args.is_empty() {
        return Err(ParseError::BadArguments("wrong number of arguments"));
    }
    Ok(Op::Subscribe { subject, queue, sid })
}

fn unsubscribe(line: &[u8]) -> Result<Op<'_>, ParseError> {
    let mut args = Args::new(line);
    let Some(sid) = args.next() else { return Err(ParseError::BadArguments("wrong number of arguments")) };
    let max = args.next();
    if !args.is_empty() {
        return Err(ParseError::BadArguments("wrong number of arguments"));
    }
    // What is not a number ends the subscription now, as zero does.
    let max = max.and_then(scan::number).filter(|max| *max > 0).map(u64::from);
    Ok(Op::Unsubscribe { sid, max })
}
