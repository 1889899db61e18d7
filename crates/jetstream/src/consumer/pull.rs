//! Requests of pull clients: what they may ask, how they wait, and how they end.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use api::jetstream::consumer::PriorityPolicy;
use api::jetstream::decode::{DecodeError, Mode, decode};
use api::jetstream::request::Pull as Request;
use bytes::{Bytes, BytesMut};
use store::Timestamp;

use super::lead::{Idle, put_decimal, send_status};
use super::state::Position;
use super::{Consumer, Context};
use crate::waiting::PULLS_FREE;

/// Header block for a request that does not wait when there is nothing to deliver.
const NO_MESSAGES: &[u8] = b"NATS/1.0 404 No Messages\r\n\r\n";

/// Pull requests that wait at one consumer, whatever its configuration says.
const WAITING_MAX: usize = 1 << 20;
/// Places for requests that a consumer keeps when none waits.
const CAPACITY_KEPT: usize = 8;
/// Headers and body of a request, in bytes, that stay in memory with its reply subject. Of longer ones the subject is copied.
const REQUEST_BYTES_KEPT: usize = 128;
/// So many waiting requests are looked at for every one that finds no room.
const SWEPT_ALWAYS: usize = 512;
/// Pause between looks at more of them.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
/// Highest number of a priority.
const PRIORITY_MAX: i64 = 9;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Pull {
    /// Where messages go.
    pub(super) reply: Bytes,
    /// Messages still wanted. May be below one from the start: the first message ends it.
    pub(super) batch: i64,
    /// Bytes still wanted; below one without limit.
    pub(super) bytes: i64,
    /// Messages it got.
    delivered: u64,
    expires: Option<Timestamp>,
    no_wait: bool,
    /// Nanoseconds of silence; below one for any.
    heartbeat: i64,
    heartbeat_at: Option<Timestamp>,
    /// Value of `Lead::turn` in which interest was looked up.
    seen: u64,
    pub(super) id: Box<str>,
    min_pending: i64,
    min_ack_pending: i64,
    priority: i64,
}

/// Who gets the next message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Receiver {
    /// Subject that routes to it.
    pub(super) to: Bytes,
    /// Status to send after the message.
    pub(super) after: Option<Bytes>,
}

/// What choosing a receiver depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) now: Timestamp,
    pub(super) turn: u64,
    /// Of the message, as `max_bytes` counts it.
    pub(super) size: i64,
    /// Messages to deliver, and waiting for acknowledgement.
    pub(super) pending: i64,
    pub(super) ack_pending: i64,
    pub(super) policy: PriorityPolicy,
}

/// Requests in the order in which they are served.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    waiting: VecDeque<Pull>,
    /// Length of all their reply subjects together.
    reply_bytes: usize,
    no_wait: usize,
    /// No timeout comes before this one.
    timeout: Option<Timestamp>,
    /// When it was looked last who has gone, to make room.
    swept: Option<Timestamp>,
}

/// A status line with what is left of a request.
fn ended(line: &str, pull: &Pull) -> Bytes {
    let mut out = BytesMut::with_capacity(96);
    out.extend_from_slice(b"NATS/1.0 ");
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\nNats-Pending-Messages: ");
    out.extend_from_slice(pull.batch.to_string().as_bytes());
    out.extend_from_slice(b"\r\nNats-Pending-Bytes: ");
    out.extend_from_slice(pull.bytes.to_string().as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    out.freeze()
}

/// The header of a heartbeat. `stalled` is the flow control request that is not answered.
pub(super) fn heartbeat(last: Position, stalled: Option<&[u8]>) -> Bytes {
    let mut out = BytesMut::with_capacity(128);
    out.extend_from_slice(b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: ");
    put_decimal(&mut out, last.consumer);
    out.extend_from_slice(b"\r\nNats-Last-Stream: ");
    put_decimal(&mut out, last.stream);
    if let Some(subject) = stalled {
        out.extend_from_slice(b"\r\nNats-Consumer-Stalled: ");
        out.extend_from_slice(subject);
    }
    out.extend_from_slice(b"\r\n\r\n");
    out.freeze()
}

impl Pulls {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Length of the reply subjects of all requests.
    pub(super) fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Pull> {
        std::mem::take(self).waiting.into_iter()
    }

    pub(super) fn first_timeout(&self) -> Option<Timestamp> {
        self.timeout
    }

    /// Gives back memory after many requests.
    pub(super) fn shrink(&mut self) {
        if self.waiting.is_empty() && self.waiting.capacity() > CAPACITY_KEPT {
            self.waiting = VecDeque::new();
        }
    }

    fn wanted(&self) -> u64 {
        self.waiting.iter().map(|pull| pull.batch.max(0) as u64).fold(0, u64::saturating_add)
    }

    fn earlier(&mut self, time: Option<Timestamp>) {
        if let Some(time) = time {
            self.timeout = Some(self.timeout.map_or(time, |first| first.min(time)));
        }
    }

    fn add(&mut self, pull: Pull, policy: PriorityPolicy) {
        self.no_wait += usize::from(pull.no_wait);
        self.reply_bytes += pull.reply.len();
        self.earlier(pull.expires);
        self.earlier(pull.heartbeat_at);
        self.insert(pull, policy);
    }

    /// Behind all others, or behind those of the same priority.
    fn insert(&mut self, pull: Pull, policy: PriorityPolicy) {
        if policy == PriorityPolicy::Prioritized {
            let index = self.waiting.partition_point(|other| other.priority <= pull.priority);
            self.waiting.insert(index, pull);
        } else {
            self.waiting.push_back(pull);
        }
    }

    fn take(&mut self, index: usize) -> Option<Pull> {
        let pull = self.waiting.remove(index)?;
        self.no_wait -= usize::from(pull.no_wait);
        self.reply_bytes -= pull.reply.len();
        Some(pull)
    }

    /// Ends requests that are over or whose client has gone. Gives the number that is left.
    pub(super) fn sweep(&mut self, ctx: &mut Context<'_>, now: Timestamp) -> usize {
        let mut index = 0;
        while let Some(pull) = self.waiting.get(index) {
            let over = pull.expires.is_some_and(|expires| now >= expires);
            if !over && ctx.outside.has_interest(&pull.reply) {
                index += 1;
                continue;
            }
            let Some(pull) = self.take(index) else { break };
            if over {
                send_status(ctx, pull.reply.clone(), ended("408 Request Timeout", &pull));
            }
        }
        self.waiting.len()
    }

    /// Ends requests that are over or whose client has gone, but if very many wait only once in a while, because looking at each of them for
    /// each that is refused would take all the time there is. Gives the number that is left.
    fn make_room(&mut self, ctx: &mut Context<'_>, now: Timestamp) -> usize {
        let lately = self.swept.is_some_and(|swept| swept.saturating_add(SWEEP_PAUSE) > now);
        if lately && self.waiting.len() > SWEPT_ALWAYS {
            return self.waiting.len();
        }
        self.swept = Some(now);
        self.sweep(ctx, now)
    }

    /// Whether anybody still waits.
    pub(super) fn any_interest(&mut self, ctx: &mut Context<'_>, now: Timestamp) -> bool {
        self.sweep(ctx, now) > 0
    }

    /// Sends heartbeats and ends what is over.
    pub(super) fn handle_timeout(&mut self, ctx: &mut Context<'_>, now: Timestamp, last: Position) {
        self.sweep(ctx, now);
        self.end_served_no_wait(ctx, now);
        self.timeout = None;
        for index in 0..self.waiting.len() {
            let pull = &mut self.waiting[index];
            if pull.heartbeat_at.is_some_and(|due| due <= now) {
                pull.heartbeat_at = Some(Timestamp(now.0.saturating_add(pull.heartbeat)));
                send_status(ctx, pull.reply.clone(), heartbeat(last, None));
            }
            let (expires, heartbeat_at) = (pull.expires, pull.heartbeat_at);
            self.earlier(expires);
            self.earlier(heartbeat_at);
        }
    }

    /// A request that does not wait, got something and has nothing more for the time of a heartbeat ends, whatever holds the next message back.
    fn end_served_no_wait(&mut self, ctx: &mut Context<'_>, now: Timestamp) {
        let mut index = 0;
        while self.no_wait > 0 && index < self.waiting.len() {
            let pull = &self.waiting[index];
            let silent = pull.heartbeat_at.is_some_and(|due| due <= now);
            if !pull.no_wait || pull.delivered == 0 || !silent {
                index += 1;
                continue;
            }
            let Some(pull) = self.take(index) else { break };
            send_status(ctx, pull.reply, NO_MESSAGES);
        }
    }

    /// There is nothing to deliver: requests that do not wait end.
    pub(super) fn end_no_wait(&mut self, ctx: &mut Context<'_>) {
        let mut index = 0;
        while self.no_wait > 0 && index < self.waiting.len() {
            let pull = &self.waiting[index];
            if !pull.no_wait || (pull.expires.is_some() && pull.delivered == 0) {
                index += 1;
                continue;
            }
            let Some(pull) = self.take(index) else { break };
            send_status(ctx, pull.reply, NO_MESSAGES);
        }
    }

    /// The first request that can have the next message, if its client is there. `pinned` is the client that may have messages.
    /// Says where it stands; what is in its way is ended.
    pub(super) fn choose(
        &mut self,
        ctx: &mut Context<'_>,
        choice: &Choice,
        pinned: Option<&str>,
    ) -> Option<usize> {
        let mut index = 0;
        while let Some(pull) = self.waiting.get_mut(index) {
            let status = if pull.expires.is_some_and(|expires| choice.now >= expires) {
                Some("408 Request Timeout")
            } else if pull.seen != choice.turn && !ctx.outside.has_interest(&pull.reply) {
                None
            } else {
                pull.seen = choice.turn;
                match pull.standing(choice, pinned) {
                    Standing::Served => return Some(index),
                    Standing::Waits => {
                        index += 1;
                        continue;
                    }
                    Standing::Ends(line) => Some(line),
                }
            };
            let pull = self.take(index)?;
            if let Some(line) = status {
                send_status(ctx, pull.reply.clone(), ended(line, &pull));
            }
        }
        None
    }

    /// Names the client that asks at `index`, when it becomes the pinned one.
    pub(super) fn pin(&mut self, index: usize, id: &str) {
        if let Some(pull) = self.waiting.get_mut(index) {
            pull.id = id.into();
        }
    }

    /// Gives the next message to the request at `index`.
    pub(super) fn serve(&mut self, index: usize, choice: &Choice) -> Option<Receiver> {
        let pull = self.waiting.get_mut(index)?;
        if pull.bytes > 0 {
            pull.bytes -= choice.size;
            if pull.bytes == 0 {
                pull.batch = 1;
            }
        }
        pull.batch -= 1;
        pull.delivered += 1;
        if pull.batch <= 0 {
            let pull = self.take(index)?;
            let after = (pull.bytes > 0).then(|| ended("409 Batch Completed", &pull));
            return Some(Receiver { to: pull.reply, after });
        }
        if pull.heartbeat > 0 {
            pull.heartbeat_at = Some(Timestamp(choice.now.0.saturating_add(pull.heartbeat)));
        }
        let to = pull.reply.clone();
        if self.waiting.len() > 1 {
            let pull = self.waiting.remove(index)?;
            self.insert(pull, choice.policy);
        }
        Some(Receiver { to, after: None })
    }
}

enum Standing {
    Served,
    Waits,
    Ends(&'static str),
}

impl Pull {
    fn standing(&self, choice: &Choice, pinned: Option<&str>) -> Standing {
        match choice.policy {
            PriorityPolicy::PinnedClient => match pinned {
                None if !self.id.is_empty() => return Standing::Ends("423 Nats-Wrong-Pin-Id"),
                Some(_) if self.id.is_empty() => return Standing::Waits,
                Some(pinned) if *self.id != *pinned => return Standing::Ends("423 Nats-Wrong-Pin-Id"),
                _ => {}
            },
            PriorityPolicy::Overflow => {
                let unset = self.min_pending <= 0 && self.min_ack_pending <= 0;
                let pending = self.min_pending > 0 && self.min_pending <= choice.pending;
                let ack_pending = self.min_ack_pending > 0 && self.min_ack_pending <= choice.ack_pending;
                if !(unset || pending || ack_pending) {
                    return Standing::Waits;
                }
            }
            PriorityPolicy::None | PriorityPolicy::Prioritized => {}
        }
        if self.bytes > 0 && choice.size > self.bytes {
            return Standing::Ends("409 Message Size Exceeds MaxBytes");
        }
        Standing::Served
    }
}

/// Reads the body of a request: nothing, a number, or a document.
fn parse(body: &[u8]) -> Result<Request, String> {
    if body.first() != Some(&b'{') {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let batch = text.parse().unwrap_or(1);
        return Ok(Request { batch, ..Request::default() });
    }
    // The type has no name in the texts that clients know.
    let named = |error: DecodeError| error.to_string().replace("JSApiConsumerGetNextRequest", "");
    let request: Request = decode(body, Mode::Lenient).map_err(named)?;
    let silence = request.idle_heartbeat.0;
    if silence != 0 && silence.saturating_mul(2) > request.expires.0 {
        return Err("heartbeat value too large".to_owned());
    }
    Ok(request)
}

/// The value of a header that asks for a level of the API above ours.
fn wants_newer_api(headers: &[u8]) -> bool {
    const NAME: &[u8] = b"\r\nNats-Required-Api-Level:";
    let Some(start) = headers.windows(NAME.len()).position(|part| part == NAME) else { return false };
    let value = headers[start + NAME.len()..].split(|byte| *byte == b'\r').next().unwrap_or_default();
    let level: Option<i64> = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    level.is_none_or(|level| level > api::jetstream::API_LEVEL)
}

impl Consumer {
    /// A client asks for messages.
    pub fn handle_pull(&mut self, ctx: &mut Context<'_>, reply: &Bytes, headers: &[u8], body: &[u8]) {
        if self.lead.is_none() || reply.is_empty() {
            return;
        }
        if !self.config.is_pull() {
            refuse(ctx, reply, "409 Consumer is push based");
        } else if wants_newer_api(headers) {
            refuse(ctx, reply, "412 Required Api Level");
        } else {
            // Only a document can name a group; what is none may ask for messages all the same.
            let is_document = body.first() == Some(&b'{');
            let checked = parse(body).and_then(|request| match is_document {
                true => self.check_group(ctx, &request).map(|()| request),
                false => Ok(request),
            });
            match checked {
                Ok(request) => self.accept(ctx, reply, &request, headers.len() + body.len()),
                Err(text) if text.starts_with("423 ") => refuse(ctx, reply, &text),
                Err(text) => refuse(ctx, reply, &format!("400 Bad Request - {text}")),
            }
        }
    }

    /// What a request says about priority must fit the consumer. An error with a status is sent as it is.
    fn check_group(&mut self, ctx: &mut Context<'_>, request: &Request) -> Result<(), String> {
        let policy = self.settings.priority;
        let conditions = request.min_pending != 0 || request.min_ack_pending != 0;
        if conditions && policy != PriorityPolicy::Overflow {
            return Err("Not a Overflow Priority consumer".to_owned());
        }
        if !request.id.is_empty() && policy != PriorityPolicy::PinnedClient {
            return Err("Not a Pinned Client Priority consumer".to_owned());
        }
        if !(0..=PRIORITY_MAX).contains(&request.priority) {
            return Err(format!("Priority must be between 0 and {PRIORITY_MAX}"));
        }
        if policy == PriorityPolicy::None {
            return Ok(());
        }
        if request.group.is_empty() {
            return Err("Priority Group missing".to_owned());
        }
        if !self.config.priority_groups.contains(&request.group) {
            return Err("Invalid Priority Group".to_owned());
        }
        if !request.id.is_empty() && !self.refresh_pin(ctx, &request.id) {
            return Err("423 Nats-Pin-Id mismatch".to_owned());
        }
        Ok(())
    }

    fn accept(&mut self, ctx: &mut Context<'_>, reply: &Bytes, request: &Request, length: usize) {
        let now = ctx.outside.now();
        self.touch(now);
        let config = &self.config;
        if config.max_batch > 0 && request.batch > config.max_batch {
            let line = format!("409 Exceeded MaxRequestBatch of {}", config.max_batch);
            return refuse(ctx, reply, &line);
        }
        if config.max_expires.0 > 0 && request.expires > config.max_expires {
            let line = format!("409 Exceeded MaxRequestExpires of {}", config.max_expires);
            return refuse(ctx, reply, &line);
        }
        if config.max_bytes > 0 && request.max_bytes > config.max_bytes {
            let line = format!("409 Exceeded MaxRequestMaxBytes of {}", config.max_bytes);
            return refuse(ctx, reply, &line);
        }
        let expires = (request.expires.0 != 0).then(|| Timestamp(now.0.saturating_add(request.expires.0)));
        if request.no_wait && self.ends_at_once(ctx, reply, expires, now) {
            return;
        }
        if !self.has_room(ctx, now) {
            // A client with heartbeats notices by itself; an answer would make it ask again at once.
            if request.idle_heartbeat.0 == 0 {
                refuse(ctx, reply, "409 Exceeded MaxWaiting");
            }
            return;
        }
        let Some(lead) = &mut self.lead else { return };
        let silence = request.idle_heartbeat.0;
        let pull = Pull {
            // It was cut from the whole message, which may be long.
            reply: if length > REQUEST_BYTES_KEPT { Bytes::copy_from_slice(reply) } else { reply.clone() },
            batch: request.batch,
            bytes: request.max_bytes,
            delivered: 0,
            expires,
            no_wait: request.no_wait,
            heartbeat: silence,
            heartbeat_at: (silence > 0).then(|| Timestamp(now.0.saturating_add(silence))),
            seen: 0,
            id: request.id.as_str().into(),
            min_pending: request.min_pending,
            min_ack_pending: request.min_ack_pending,
            priority: request.priority,
        };
        lead.pulls.add(pull, self.settings.priority);
        lead.account(&self.state);
        lead.ready = true;
    }

    /// Whether one more request may wait. Those whose clients have gone make room first.
    fn has_room(&mut self, ctx: &mut Context<'_>, now: Timestamp) -> bool {
        let configured = usize::try_from(self.config.max_waiting).unwrap_or(0).clamp(1, WAITING_MAX);
        let Some(lead) = &mut self.lead else { return false };
        let scarce = lead.pulls.len() >= PULLS_FREE && ctx.outside.limits().waiting_exceeded();
        let waiting_max = if scarce { configured.min(PULLS_FREE) } else { configured };
        if lead.pulls.len() < waiting_max || lead.pulls.make_room(ctx, now) < waiting_max {
            return true;
        }
        if scarce {
            ctx.outside.limits().server_usage.waiting.refused.fetch_add(1, Relaxed);
        }
        false
    }

    /// A request that does not wait ends at once if nothing is there for it.
    fn ends_at_once(
        &mut self,
        ctx: &mut Context<'_>,
        reply: &Bytes,
        expires: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        let pending = self.num_pending(ctx);
        let Some(lead) = &mut self.lead else { return true };
        let pending = pending + lead.queue.len() as u64;
        if pending == 0 && expires.is_none() {
            refuse(ctx, reply, "404 No Messages");
            return true;
        }
        if pending > 0 && !lead.pulls.is_empty() {
            lead.pulls.sweep(ctx, now);
            if pending < lead.pulls.wanted() {
                refuse(ctx, reply, "408 Requests Pending");
                return true;
            }
        }
        false
    }

    /// Deliveries stopped: ends what does not wait for more.
    pub(super) fn settle_pulls(&mut self, ctx: &mut Context<'_>, idle: Idle) {
        let Some(lead) = &mut self.lead else { return };
        if matches!(idle, Idle::Empty | Idle::NoReceiver) {
            lead.pulls.end_no_wait(ctx);
        }
    }
}

impl Consumer {
    /// The server ends: clients that wait are told.
    pub(crate) fn take_leave(&mut self, ctx: &mut Context<'_>) {
        let Some(lead) = &mut self.lead else { return };
        for pull in lead.pulls.drain() {
            send_status(ctx, pull.reply.clone(), ended("409 Server Shutdown", &pull));
        }
    }
}

fn refuse(ctx: &mut Context<'_>, reply: &Bytes, line: &str) {
    send_status(ctx, reply.clone(), format!("NATS/1.0 {line}\r\n\r\n").into_bytes());
}
