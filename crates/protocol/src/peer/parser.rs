//! Bytes of another server to operations.

use super::Link;
use crate::error::ParseError;
use crate::scan::{self, After, Args, Row};

/// How lines on this connection look, and what is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerLimits {
    /// Kind of connection.
    pub link: Link,
    /// Most bytes of arguments on a line.
    pub control_line_max: usize,
    /// Most bytes of header block and body; `None` is unlimited.
    pub payload_max: Option<usize>,
    /// Whether lines name the account. They do not on leafnodes and on routes that belong to one account.
    pub account: bool,
    /// Whether `LS-` on a route names the origin, which a peer that announced `lnocu` does.
    pub origin_unsub: bool,
}

/// An operation of another server; all slices point into the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerOp<'a> {
    /// CONNECT with its JSON text.
    Connect(&'a [u8]),
    /// INFO with its JSON text.
    Info(&'a [u8]),
    /// PING.
    Ping,
    /// PONG.
    Pong,
    /// `+OK`.
    Ok,
    /// `-ERR` with its text, quotes included.
    Err(&'a [u8]),
    /// RS+ or LS+: somebody over there is interested.
    Subscribe {
        /// Cluster of the leafnode that is interested.
        origin: Option<&'a [u8]>,
        /// Account of the interest.
        account: Option<&'a [u8]>,
        /// What it is about; not checked.
        subject: &'a [u8],
        /// Queue group and its number of members, at least one.
        queue: Option<(&'a [u8], u32)>,
    },
    /// RS- or LS-: nobody over there is interested any more.
    Unsubscribe {
        /// Cluster of the leafnode that was interested.
        origin: Option<&'a [u8]>,
        /// Account of the interest.
        account: Option<&'a [u8]>,
        /// What it was about.
        subject: &'a [u8],
        /// Queue group.
        queue: Option<&'a [u8]>,
    },
    /// A+ or A- on a gateway: the other cluster knows the account, or does not.
    Account {
        /// The account.
        account: &'a [u8],
        /// Whether there may be interest.
        interest: bool,
    },
    /// RMSG, HMSG or LMSG.
    Message(Message<'a>),
}

/// A message from another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Cluster of the leafnode that it came from.
    pub origin: Option<&'a [u8]>,
    /// Account it belongs to.
    pub account: Option<&'a [u8]>,
    /// Where to.
    pub subject: &'a [u8],
    /// Where answers go.
    pub reply: Option<&'a [u8]>,
    /// Queue groups of which one member here is to receive it.
    pub queues: Queues<'a>,
    /// Bytes of `payload` that are the header block; at most its length.
    pub header_len: usize,
    /// Header block and body, without the final CR LF.
    pub payload: &'a [u8],
}

/// Names of queue groups on a message line, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queues<'a>(Args<'a>);

impl Queues<'_> {
    /// Whether there is no name left.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for Queues<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }
}

/// Result of [`parse`].
pub type Step<'a> = scan::Step<PeerOp<'a>>;

#[derive(Clone, Copy)]
enum Name {
    Message(Form),
    Subscribe { leaf: bool },
    Unsubscribe { leaf: bool },
    Account { interest: bool },
    Ping,
    Pong,
    Connect,
    Info,
    Ok,
    Err,
}

/// Form of a message line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Headers,
    Leaf,
}

const NAMES: &[Row<Name>] = &[
    (b"RMSG", After::Blank, Name::Message(Form::Plain)),
    (b"HMSG", After::Blank, Name::Message(Form::Headers)),
    (b"LMSG", After::Blank, Name::Message(Form::Leaf)),
    (b"RS+", After::Blank, Name::Subscribe { leaf: false }),
    (b"RS-", After::Blank, Name::Unsubscribe { leaf: false }),
    (b"LS+", After::Blank, Name::Subscribe { leaf: true }),
    (b"LS-", After::Blank, Name::Unsubscribe { leaf: true }),
    (b"A+", After::Blank, Name::Account { interest: true }),
    (b"A-", After::Blank, Name::Account { interest: false }),
    (b"PING", After::Anything, Name::Ping),
    (b"PONG", After::Anything, Name::Pong),
    (b"INFO", After::Anything, Name::Info),
    (b"CONNECT", After::Anything, Name::Connect),
    (b"+OK", After::Anything, Name::Ok),
    (b"-ERR", After::Blank, Name::Err),
];

const WRONG_COUNT: ParseError = ParseError::BadArguments("wrong number of arguments");

/// Looks for one operation at the start of `buf`.
pub fn parse<'a>(buf: &'a [u8], limits: &PeerLimits) -> Result<Step<'a>, ParseError> {
    let Some((name, name_len)) = scan::operation(buf, NAMES)? else {
        return Ok(Step::NeedMore { hint: 0 });
    };
    check_link(name, limits.link)?;
    let Some((line, consumed)) = scan::line(buf, name_len, limits.control_line_max)? else {
        return Ok(Step::NeedMore { hint: 0 });
    };
    let op = match name {
        Name::Message(form) => return message(buf, (line, consumed), limits, form),
        Name::Subscribe { leaf } => subscribe(line, limits, leaf)?,
        Name::Unsubscribe { leaf } => unsubscribe(line, limits, leaf)?,
        Name::Account { interest } => {
            PeerOp::Account { account: Args::new(line).only().ok_or(WRONG_COUNT)?, interest }
        }
        Name::Ping => PeerOp::Ping,
        Name::Pong => PeerOp::Pong,
        Name::Connect => PeerOp::Connect(line),
        Name::Info => PeerOp::Info(line),
        Name::Ok => PeerOp::Ok,
        Name::Err => PeerOp::Err(line),
    };
    Ok(Step::Op { op, consumed })
}

/// Refuses lines of another kind of connection: their arguments would be taken for something else.
fn check_link(name: Name, link: Link) -> Result<(), ParseError> {
    let fits = match name {
        Name::Message(Form::Leaf) | Name::Subscribe { leaf: true } | Name::Unsubscribe { leaf: true } => {
            link != Link::Gateway
        }
        Name::Message(Form::Plain) | Name::Subscribe { leaf: false } | Name::Unsubscribe { leaf: false } => {
            link != Link::Leaf
        }
        Name::Account { .. } => link == Link::Gateway,
        _ => true,
    };
    if fits { Ok(()) } else { Err(ParseError::UnknownOperation) }
}

/// The arguments that come first: origin, account, subject.
struct Place<'a> {
    origin: Option<&'a [u8]>,
    account: Option<&'a [u8]>,
    subject: &'a [u8],
}

fn place<'a>(args: &mut Args<'a>, account: bool, origin: bool) -> Result<Place<'a>, ParseError> {
    let mut take = |wanted: bool| match wanted {
        true => args.next().map(Some).ok_or(WRONG_COUNT),
        false => Ok(None),
    };
    let (origin, account) = (take(origin)?, take(account)?);
    let subject = args.next().ok_or(WRONG_COUNT)?;
    Ok(Place { origin, account, subject })
}

fn subscribe<'a>(line: &'a [u8], limits: &PeerLimits, leaf: bool) -> Result<PeerOp<'a>, ParseError> {
    let mut args = Args::new(line);
    let origin = leaf && limits.link == Link::Route;
    let Place { origin, account, subject } = place(&mut args, limits.account, origin)?;
    let queue = match args.next() {
        None => None,
        Some(queue) => {
            let weight = scan::number(args.only().ok_or(WRONG_COUNT)?).filter(|weight| *weight > 0);
            Some((queue, weight.ok_or(ParseError::BadArguments("bad queue weight"))?))
        }
    };
    Ok(PeerOp::Subscribe { origin, account, subject, queue })
}

fn unsubscribe<'a>(line: &'a [u8], limits: &PeerLimits, leaf: bool) -> Result<PeerOp<'a>, ParseError> {
    let mut args = Args::new(line);
    let origin = leaf && limits.link == Link::Route && limits.origin_unsub;
    let Place { origin, account, subject } = place(&mut args, limits.account, origin)?;
    let queue = args.next();
    if !args.is_empty() {
        return Err(WRONG_COUNT);
    }
    Ok(PeerOp::Unsubscribe { origin, account, subject, queue })
}

fn message<'a>(
    buf: &'a [u8],
    (line, start): (&'a [u8], usize),
    limits: &PeerLimits,
    form: Form,
) -> Result<Step<'a>, ParseError> {
    let mut args = Args::new(line);
    // With an origin the header size is there even if it is zero.
    let with_origin = form == Form::Leaf && limits.link == Link::Route;
    let Place { origin, account, subject } = place(&mut args, limits.account, with_origin)?;
    let size = scan::size(&mut args)?;
    let header_len = if form == Form::Headers || with_origin { scan::size(&mut args)? } else { 0 };
    let (reply, queues) = reply_and_queues(args)?;
    if header_len > size {
        return Err(ParseError::BadArguments("header size is larger than the total size"));
    }
    if limits.payload_max.is_some_and(|max| size > max) {
        return Err(ParseError::PayloadViolation { size });
    }
    Ok(match scan::payload(buf, start, size)? {
        Ok(payload) => Step::Op {
            op: PeerOp::Message(Message { origin, account, subject, reply, queues, header_len, payload }),
            consumed: start + size + 2,
        },
        Err(hint) => Step::NeedMore { hint },
    })
}

/// What stands between subject and sizes: nothing, a reply, `+ reply queues`, or `| queues`.
fn reply_and_queues(mut args: Args<'_>) -> Result<(Option<&[u8]>, Queues<'_>), ParseError> {
    let Some(first) = args.next() else { return Ok((None, Queues::default())) };
    if args.is_empty() {
        // Alone it is a reply, whatever it looks like.
        return Ok((Some(first), Queues::default()));
    }
    match first {
        b"+" => {
            let reply = args.next();
            Ok((reply, Queues(args)))
        }
        b"|" => Ok((None, Queues(args))),
        _ => Err(ParseError::BadArguments("bad or missing indicator")),
    }
}
