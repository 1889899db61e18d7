//! The read task of a connection to a peer: its interest into our accounts, its messages to our clients.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use protocol::client::encode as text;
use protocol::error::{self, CloseReason};
use protocol::info::Info;
use protocol::peer::{Message as PeerMessage, PeerLimits, PeerOp as Op, Step, parse};
use routing::deliver::{self, PlanCache};
use routing::permission::Permissions;
use routing::random::Random;
use tokio::io::AsyncReadExt;
use tokio::time::sleep_until;

use super::dial;
use super::route::{InterestKey, Route};
use crate::clock;
use crate::net::buffer::ReadBuffer;
use crate::net::dispatch::{Dispatch, Finished, Message, Tally, remove_finished};
use crate::net::flush::DirtySet;
use crate::net::session::Flow;
use crate::net::sink::{Account, Sink, Subscription};
use crate::net::stream::ReadHalf;
use crate::server::Server;

/// The first PING measures the round trip soon after the handshake (core-protocol, section 5).
const FIRST_PING: Duration = Duration::from_secs(1);

/// The read side of a connection, with what was read beyond the handshake.
pub struct Input {
    /// Socket.
    pub read: ReadHalf,
    /// Bytes read and not parsed.
    pub buffer: ReadBuffer,
    /// What the parser has to refuse.
    pub limits: PeerLimits,
}

/// Tells the peer all interest and starts to read from it. `news` is the INFO of a peer that was not known before.
pub fn start(server: &Arc<Server>, route: Arc<Route>, input: Input, news: Option<Info>) {
    tracing::info!(
        "{} - rid:{} - Route connection created to {:?}",
        route.peer,
        route.id,
        route.agreement.peer_name
    );
    set_permissions(server, &route);
    for account in server.accounts.everywhere() {
        if route.carries(account.name()) {
            account.interest.attach(account.name(), Arc::clone(&route) as _);
        }
    }
    route.take_announced();
    route.out.flush();
    if let Some(info) = news {
        spread(server, &route, &info);
        server.announce_info();
    }
    let session = Session::new(Arc::clone(server), route);
    tokio::spawn(session.run(input));
}

/// Puts the configured restrictions of interest on a connection.
pub fn set_permissions(server: &Server, route: &Route) {
    let options = server.options();
    let configured = options.cluster.as_ref().and_then(|cluster| cluster.permissions.as_ref());
    let permissions = configured.map(|configured| Permissions {
        publish: crate::auth::lower_rules(&configured.import),
        subscribe: crate::auth::lower_rules(&configured.export),
        responses: None,
    });
    route.set_permissions(permissions.map(Arc::new));
}

/// Tells the other peers of a new one, so that they connect to it.
fn spread(server: &Server, route: &Route, info: &Info) {
    let line = text::info(info);
    for other in server.routes().one_per_peer(&route.agreement.peer_id) {
        other.out.append(&line);
        other.out.flush();
    }
}

/// What a line about interest names.
struct Line<'a> {
    origin: Option<&'a [u8]>,
    account: Option<&'a [u8]>,
    subject: &'a [u8],
    queue: Option<&'a [u8]>,
}

/// An account as this connection uses it.
struct Lane {
    account: Arc<Account>,
    plans: PlanCache<Sink>,
}

struct Session {
    server: Arc<Server>,
    route: Arc<Route>,
    lanes: HashMap<Box<[u8]>, Lane>,
    random: Random,
    dirty: DirtySet,
    finished: Finished,
    deadline: Instant,
    last_received: Instant,
    ping_sent: Option<Instant>,
}

impl Session {
    fn new(server: Arc<Server>, route: Arc<Route>) -> Self {
        let now = clock::now();
        Self {
            random: Random::new(server.seed() ^ route.id),
            server,
            route,
            lanes: HashMap::new(),
            dirty: DirtySet::default(),
            finished: Finished::new(),
            deadline: now + FIRST_PING,
            last_received: now,
            ping_sent: None,
        }
    }

    async fn run(mut self, mut input: Input) {
        let timer = sleep_until(self.deadline.into());
        tokio::pin!(timer);
        loop {
            if self.work(&mut input) == Flow::Close || self.route.out.is_closing() {
                break;
            }
            self.dirty.flush();
            tokio::select! {
                biased;
                result = input.read.read(input.buffer.space()) => match result {
                    Ok(0) => {
                        self.route.out.finish(b"", CloseReason::ClientClosed);
                        break;
                    }
                    Ok(count) => {
                        input.buffer.read(count);
                        self.last_received = clock::now();
                        self.route.touch();
                    }
                    Err(_) => {
                        self.route.out.abort(CloseReason::ReadError);
                        break;
                    }
                },
                () = &mut timer => {
                    self.on_timer();
                    timer.as_mut().reset(self.deadline.into());
                }
            }
        }
        self.end();
    }

    /// Handles every whole operation in the buffer.
    fn work(&mut self, input: &mut Input) -> Flow {
        let mut tally = Tally::default();
        let flow = loop {
            let (flow, consumed) = match parse(input.buffer.filled(), &input.limits) {
                Ok(Step::Op { op: Op::Message(message), consumed }) => {
                    (self.message(&message, &mut tally), consumed)
                }
                Ok(Step::Op { op, consumed }) => (self.handle(&op), consumed),
                Ok(Step::NeedMore { .. }) => break Flow::Continue,
                Err(e) => {
                    tracing::error!("{} - rid:{} - {e}", self.route.peer, self.route.id);
                    self.route
                        .out
                        .finish(&text::err(error::UNKNOWN_OPERATION), CloseReason::ProtocolViolation);
                    break Flow::Close;
                }
            };
            input.buffer.consume(consumed);
            if flow == Flow::Close {
                break flow;
            }
        };
        input.buffer.settle();
        if tally.received.messages > 0 {
            self.route.received.messages.fetch_add(tally.received.messages, Relaxed);
            self.route.received.bytes.fetch_add(tally.received.bytes, Relaxed);
            tally.settle(None, self.server.stats(), true);
        }
        flow
    }

    /// The account a line names, or the connection's own. Interest may come for accounts that are not configured here yet.
    fn lane(&mut self, name: Option<&[u8]>) -> Option<&mut Lane> {
        let own = self.route.account().map(str::as_bytes);
        let name = name.or(own)?;
        if !self.lanes.contains_key(name) {
            let account = self.server.accounts.for_peer(std::str::from_utf8(name).ok()?)?;
            self.lanes.insert(name.into(), Lane { account, plans: PlanCache::default() });
        }
        self.lanes.get_mut(name)
    }

    /// A message goes to local clients only.
    fn message(&mut self, message: &PeerMessage<'_>, tally: &mut Tally) -> Flow {
        tally.received.add(message.payload.len());
        let (mut dirty, mut finished) = (std::mem::take(&mut self.dirty), std::mem::take(&mut self.finished));
        let mut random = self.random.clone();
        let mut own = Tally::default();
        if let Some(lane) = self.lane(message.account) {
            own.received.add(message.payload.len());
            let (subject, reply) = shown(message.subject, message.reply);
            let mut dispatch = Dispatch {
                message: Message { subject, reply, header_len: message.header_len, payload: message.payload },
                routed_by: message.subject,
                account: &lane.account,
                publisher: None,
                skip: None,
                drop_for_slow: false,
                dirty: &mut dirty,
                tally: &mut own,
                finished: &mut finished,
                stall: &mut false,
            };
            let plan = lane.plans.get(&lane.account.interest, message.subject);
            deliver::from_route(plan, message.queues, &mut random, &mut dispatch);
            remove_finished(&lane.account, &mut finished);
            let traffic = &lane.account.traffic;
            traffic.route_received_messages.fetch_add(1, Relaxed);
            traffic.route_received_bytes.fetch_add(message.payload.len() as u64, Relaxed);
            traffic.sent_messages.fetch_add(own.sent.messages, Relaxed);
            traffic.sent_bytes.fetch_add(own.sent.bytes, Relaxed);
            tally.sent.messages += own.sent.messages;
            tally.sent.bytes += own.sent.bytes;
        }
        (self.dirty, self.finished, self.random) = (dirty, finished, random);
        Flow::Continue
    }

    fn handle(&mut self, op: &Op<'_>) -> Flow {
        match op {
            Op::Subscribe { origin, account, subject, queue } => {
                self.subscribe(
                    &Line { origin: *origin, account: *account, subject, queue: queue.map(|(name, _)| name) },
                    *queue,
                );
            }
            Op::Unsubscribe { origin, account, subject, queue } => {
                self.unsubscribe(&Line { origin: *origin, account: *account, subject, queue: *queue });
            }
            Op::Ping => {
                self.route.out.append(text::PONG);
                self.dirty.mark(&self.route.out);
            }
            Op::Pong => {
                self.route.count_pings(0);
                if let Some(sent) = self.ping_sent.take() {
                    self.route.set_rtt(clock::now().saturating_duration_since(sent));
                }
            }
            Op::Info(json) => self.info(json),
            Op::Connect(_) | Op::Ok | Op::Account { .. } => {}
            Op::Err(text) => {
                let text = String::from_utf8_lossy(text);
                tracing::error!("{} - rid:{} - Route Error {text}", self.route.peer, self.route.id);
                self.route.out.finish(b"", CloseReason::ParseError);
                return Flow::Close;
            }
            Op::Message(_) => unreachable!("handled by its own method"),
        }
        Flow::Continue
    }

    fn subscribe(&mut self, line: &Line<'_>, queue: Option<(&[u8], u32)>) {
        if !self.route.may_export(line.subject) {
            return;
        }
        let key = self.key(line);
        let sink = Sink::Route(Arc::clone(&self.route));
        let route = Arc::clone(&self.route);
        let Some(lane) = self.lane(line.account) else { return };
        let mut interest = route.interest.lock();
        if let Some((account, subscription)) = interest.get(&key) {
            if let Some((_, weight)) = queue {
                account.interest.set_weight(subscription, weight);
            }
            return;
        }
        let subscription = Arc::new(Subscription::route(sink, line.subject, queue));
        if lane.account.interest.insert(lane.account.name(), &subscription).is_ok() {
            interest.insert(key, (Arc::clone(&lane.account), subscription));
        }
    }

    fn unsubscribe(&mut self, line: &Line<'_>) {
        let removed = self.route.interest.lock().remove(&self.key(line));
        if let Some((account, subscription)) = removed {
            account.interest.remove(account.name(), &subscription);
        }
    }

    fn key(&self, line: &Line<'_>) -> InterestKey {
        let account = line.account.or_else(|| self.route.account().map(str::as_bytes)).unwrap_or_default();
        InterestKey {
            origin: line.origin.map(Into::into),
            account: account.into(),
            subject: line.subject.into(),
            queue: line.queue.map(Into::into),
        }
    }

    /// INFO at any time: news of the peer itself, or of a server that it has met.
    fn info(&mut self, json: &[u8]) {
        let Ok(mut info) = serde_json::from_slice::<Info>(json) else { return };
        if info.server_id != self.route.agreement.peer_id {
            dial::meet(&self.server, &info);
            return;
        }
        if info.ip.is_empty() {
            info.ip = super::info::route_address(&info, self.route.peer);
        }
        if self.server.routes().update_peer(&self.route.agreement.peer_id, info) {
            self.server.announce_info();
        }
    }

    fn on_timer(&mut self) {
        let options = self.server.options();
        let cluster = options.cluster.clone().unwrap_or_default();
        let interval = cluster.effective_ping_interval(options.limits.ping_interval);
        let ping_max = cluster.ping_max.unwrap_or(options.limits.ping_max);
        let now = clock::now();
        self.deadline = now + interval;
        if self.route.count_pings(1) > ping_max {
            self.server.stats().stale_routes.fetch_add(1, Relaxed);
            self.route.out.finish(&text::err(error::STALE_CONNECTION), CloseReason::StaleConnection);
            return;
        }
        self.ping_sent = Some(now);
        self.route.out.append(text::PING);
        self.route.out.flush();
    }

    /// The connection is over: what the peer wanted through it is forgotten.
    fn end(mut self) {
        let route = &self.route;
        let interest = std::mem::take(&mut *route.interest.lock());
        for (account, subscription) in interest.values() {
            account.interest.remove(account.name(), subscription);
        }
        for account in self.server.accounts.everywhere() {
            account.interest.detach(route.id);
        }
        let was_last = self.server.routes().remove(route);
        self.dirty.flush();
        let reason = route.out.close_reason();
        if matches!(
            reason,
            Some(CloseReason::SlowConsumerPendingBytes | CloseReason::SlowConsumerWriteDeadline)
        ) {
            self.server.stats().slow_routes.fetch_add(1, Relaxed);
        }
        let reason = reason.map_or("Client Closed", |reason| reason.as_str());
        tracing::info!("{} - rid:{} - Router connection closed: {reason}", route.peer, route.id);
        if was_last {
            self.server.announce_info();
        }
    }
}

/// Subject and reply as receivers see them. A stored message travels under its consumer's delivery subject, and the subject it was stored
/// with follows the acknowledgement subject (jetstream-api, section 9).
fn shown<'a>(subject: &'a [u8], reply: Option<&'a [u8]>) -> (&'a [u8], Option<&'a [u8]>) {
    let Some(ack) = reply.filter(|reply| reply.starts_with(b"$JS.ACK.")) else { return (subject, reply) };
    match ack.iter().position(|byte| *byte == b'@') {
        Some(at) => (&ack[at + 1..], Some(&ack[..at])),
        None => (subject, reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_message_is_shown_under_its_own_subject() {
        let ack = b"$JS.ACK.S.C.1.2.3.4.5@orders.new";
        assert_eq!(shown(b"_INBOX.x", Some(ack)), (&b"orders.new"[..], Some(&ack[..21])));
        assert_eq!(shown(b"_INBOX.x", Some(b"a@b")), (&b"_INBOX.x"[..], Some(&b"a@b"[..])));
        assert_eq!(shown(b"_INBOX.x", None), (&b"_INBOX.x"[..], None));
    }
}
