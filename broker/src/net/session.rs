//! The session of one client: the operations of the protocol, in the order of checks that clients observe.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use protocol::client::{Limits, Op, Publish, encode};
use protocol::error::{self, CloseReason};
use protocol::header;
use protocol::info::{ConnectOptions, Info};
use routing::account::{Mapped, Mappings};
use routing::deliver;
use routing::session::client::{ConnectError, Denied, Publisher, Settings, SubscribeError, Subscribed};

use super::client::{Binding, Client};
use super::dispatch::{Dispatch, Finished, Message, Origin, Tally, remove_finished};
use super::flush::DirtySet;
use super::sink::{Sink, Subscription};
use crate::auth::{Presented, Refusal};
use crate::clock;
use crate::server::Server;

/// The first PING measures the round trip soon after CONNECT (core-protocol, section 5).
const FIRST_PING: Duration = Duration::from_secs(2);

/// Does the connection go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends; why is noted already.
    Close,
}

/// What the connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was said yet; credentials may be needed.
    AwaitConnect,
    /// Bound to an account.
    Running,
}

/// State of one client connection. Owned by its read task.
#[derive(Debug)]
pub struct Session {
    server: Arc<Server>,
    client: Arc<Client>,
    phase: Phase,
    connect: Box<ConnectOptions>,
    settings: Settings,
    limits: Limits,
    publisher: Publisher<Sink>,
    binding: Option<Arc<Binding>>,
    binding_epoch: u32,
    /// Mappings of the account, if it has any.
    mappings: Option<Arc<Mappings>>,
    dirty: DirtySet,
    tally: Tally,
    finished: Finished,
    stall: bool,
    drop_for_slow: bool,
    deadline: Instant,
    deadline_changed: bool,
    last_received: Instant,
    ping_sent: Option<Instant>,
    /// A PONG has told the round trip; before, it is the time from accept to CONNECT.
    measured: bool,
    greeted: bool,
}

impl Session {
    /// A session that waits for CONNECT.
    pub fn new(server: Arc<Server>, client: Arc<Client>) -> Self {
        let now = clock::now();
        let options = server.options();
        let auth_required = server.auth().is_required();
        let wait = if auth_required { options.auth_timeout() } else { options.limits.ping_interval };
        let limits = Limits {
            control_line_max: options.limits.max_control_line as usize,
            payload_max: Some(options.limits.max_payload as usize),
            headers: false,
        };
        Self {
            publisher: Publisher::new(client.id ^ server.seed()),
            drop_for_slow: options.listen.no_fast_producer_stall,
            server,
            client,
            phase: Phase::AwaitConnect,
            connect: Box::default(),
            settings: Settings::default(),
            limits,
            binding: None,
            binding_epoch: 0,
            mappings: None,
            dirty: DirtySet::default(),
            tally: Tally::default(),
            finished: Finished::new(),
            stall: false,
            deadline: now + wait,
            deadline_changed: false,
            last_received: now,
            ping_sent: None,
            measured: false,
            greeted: false,
        }
    }

    /// What the parser has to refuse.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The connection.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Bytes of a payload that the trace shows; zero is all.
    pub fn traced_payload_max(&self) -> usize {
        self.server.options().limits.max_traced_msg_len.unwrap_or(0) as usize
    }

    /// When `on_timer` is due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Has `deadline` moved since this was asked last?
    pub fn deadline_changed(&mut self) -> bool {
        std::mem::take(&mut self.deadline_changed)
    }

    fn set_deadline(&mut self, at: Instant) {
        self.deadline = at;
        self.deadline_changed = true;
    }

    /// Is the first operation still to come?
    #[inline]
    pub fn awaits_connect(&self) -> bool {
        self.phase == Phase::AwaitConnect
    }

    /// Bytes were read.
    pub fn begin_read(&mut self, available: usize) {
        if available > 0 {
            self.last_received = clock::now();
        }
        self.refresh_binding();
    }

    /// Looks whether a reload has changed rights.
    fn refresh_binding(&mut self) {
        let epoch = self.client.binding_epoch();
        if epoch != self.binding_epoch {
            self.take_binding(epoch);
        }
    }

    /// Everything in the buffer was handled: flush, count. True if the publisher has to pause.
    pub fn end_read(&mut self) -> bool {
        self.dirty.flush();
        let account = self.binding.as_ref().map(|binding| &*binding.account);
        let received = self.tally.received;
        if received.messages > 0 {
            self.client.received.messages.fetch_add(received.messages, Relaxed);
            self.client.received.bytes.fetch_add(received.bytes, Relaxed);
            self.tally.settle(account, self.server.stats(), false);
        }
        self.client.touch();
        let stall = std::mem::take(&mut self.stall);
        if stall {
            self.server.stats().stalled_clients.fetch_add(1, Relaxed);
        }
        stall
    }

    /// The first byte of the first operation. Without credentials only CONNECT may come first, unless a user is configured for
    /// those who bring none.
    pub async fn first_byte(&mut self, byte: u8) -> Flow {
        if matches!(byte, b'C' | b'c') {
            return Flow::Continue;
        }
        let auth = self.server.auth();
        if auth.is_required() && !auth.admits_strangers() {
            self.server.on_auth_error(&self.client, &Refusal::Violation);
            return self.refuse(error::AUTHORIZATION_VIOLATION, CloseReason::AuthenticationFailure);
        }
        self.authenticate(Presented::default()).await
    }

    /// CONNECT.
    pub async fn connect(&mut self, json: &[u8]) -> Flow {
        if self.connect.update(json).is_err() {
            return self.close(CloseReason::ProtocolViolation);
        }
        let connect = self.connect.clone();
        match Settings::from_connect(&connect, !self.server.options().listen.no_header_support) {
            Ok(settings) => self.settings = settings,
            Err(refusal) => return self.refuse_connect(refusal),
        }
        self.limits.headers = self.settings.headers;
        self.client.apply(&self.settings);
        if !self.measured {
            self.client.set_rtt(self.client.started.elapsed());
        }
        self.leave_account();
        {
            let mut identity = self.client.identity.lock();
            identity.name.clone_from(&connect.name);
            identity.lang.clone_from(&connect.lang);
            identity.version.clone_from(&connect.version);
        }
        if self.authenticate(Presented::from_connect(&connect)).await == Flow::Close {
            return Flow::Close;
        }
        self.ok()
    }

    fn refuse_connect(&mut self, refusal: ConnectError) -> Flow {
        let reason = match refusal {
            ConnectError::InvalidProtocol => CloseReason::BadClientProtocolVersion,
            ConnectError::NoRespondersNeedsHeaders => CloseReason::NoRespondersRequiresHeaders,
            ConnectError::AccountNamed => CloseReason::AuthenticationFailure,
        };
        self.refuse(&refusal.to_string(), reason)
    }

    async fn authenticate(&mut self, presented: Presented) -> Flow {
        let tls = self.client.identity.lock().tls.clone();
        loop {
            let auth = self.server.auth();
            let result = auth.authenticate(&presented, tls.as_ref()).await;
            self.client.identity.lock().credentials = presented.clone();
            let flow = match result {
                Ok(grant) => self.enter_account(Arc::new(grant.into_binding())),
                Err(refusal) => {
                    self.server.on_auth_error(&self.client, &refusal);
                    self.refuse(error::AUTHORIZATION_VIOLATION, CloseReason::AuthenticationFailure)
                }
            };
            // A reload may have looked at the bound clients before this one was bound.
            if flow == Flow::Close || Arc::ptr_eq(&auth, &self.server.auth()) {
                return flow;
            }
            self.leave_account();
        }
    }

    fn enter_account(&mut self, binding: Arc<Binding>) -> Flow {
        if !binding.account.try_connect() {
            return self
                .refuse(error::ACCOUNT_CONNECTIONS_EXCEEDED, CloseReason::MaximumAccountConnectionsExceeded);
        }
        self.client.bind(binding);
        self.take_binding(self.client.binding_epoch());
        if self.phase == Phase::AwaitConnect {
            self.phase = Phase::Running;
            let interval = self.server.options().limits.ping_interval;
            let first = interval.min(FIRST_PING);
            let jitter = first.mul_f64(f64::from(self.publisher.random.below(200)) / 1000.0);
            self.set_deadline(clock::now() + first + jitter);
        }
        self.server.on_client_bound(&self.client);
        Flow::Continue
    }

    /// Before another CONNECT takes effect the subscriptions of the first are dropped.
    fn leave_account(&mut self) {
        if let Some(binding) = self.binding.take() {
            self.client.subscriptions.lock().clear(&binding.account, false);
            binding.account.disconnect();
            self.publisher.rebind();
        }
    }

    /// Looks at a binding that is new: after CONNECT, or because a reload changed rights.
    fn take_binding(&mut self, epoch: u32) {
        self.binding_epoch = epoch;
        self.binding = self.client.binding();
        self.publisher.rebind();
        self.mappings = self.binding.as_ref().and_then(|binding| binding.account.mappings());
        let server_max = self.server.options().limits.max_payload as usize;
        let account_max = self.binding.as_ref().and_then(|binding| binding.account.limits().payload_max);
        self.limits.payload_max = Some(account_max.map_or(server_max, |max| max.min(server_max)));
        self.drop_for_slow = self.server.options().listen.no_fast_producer_stall;
    }

    /// PUB and HPUB.
    #[inline]
    pub fn publish(&mut self, publish: &Publish<'_>) -> Flow {
        self.tally.received.add(publish.payload.len());
        if self.settings.pedantic && !subject::is_literal(publish.subject) {
            self.client.out.append(&encode::err(error::INVALID_PUBLISH_SUBJECT));
            self.dirty.mark(&self.client.out);
        }
        if self.mappings.is_some() { self.publish_mapped(publish) } else { self.send(publish) }
    }

    /// The account maps subjects: what is done with the message is done under the new one.
    #[cold]
    fn publish_mapped(&mut self, publish: &Publish<'_>) -> Flow {
        let Some(mappings) = &self.mappings else { return self.send(publish) };
        match mappings.select(publish.subject, &mut self.publisher.random) {
            Mapped::Unchanged => self.send(publish),
            Mapped::To(subject) => self.send(&Publish { subject: &subject, ..*publish }),
            // Nobody can subscribe to it.
            Mapped::Lost => self.send(&Publish { subject: b"", ..*publish }),
        }
    }

    /// Checks a message and takes it to those who want it.
    #[inline]
    fn send(&mut self, publish: &Publish<'_>) -> Flow {
        let Some(binding) = self.binding.as_ref() else { return Flow::Close };
        let rights =
            binding.permissions.as_deref().map(|permissions| (permissions, binding.responses.as_deref()));
        let subjects = (publish.subject, publish.reply);
        if let Err(denied) = self.publisher.check(&binding.account, rights, subjects, clock::now) {
            return self.deny(denied, publish);
        }
        self.ok();
        let Some(binding) = self.binding.as_ref() else { return Flow::Close };
        let account = &*binding.account;
        let message = Message {
            subject: publish.subject,
            reply: publish.reply,
            header_len: publish.header_len,
            payload: publish.payload,
        };
        let mut dispatch = Dispatch {
            message,
            routed_by: publish.subject,
            account,
            publisher: Some(Origin { client: &self.client, server: &self.server }),
            skip: (!self.settings.echo).then_some(self.client.id),
            drop_for_slow: self.drop_for_slow,
            dirty: &mut self.dirty,
            tally: &mut self.tally,
            finished: &mut self.finished,
            stall: &mut self.stall,
        };
        let plan = self.publisher.plans.get(&account.interest, publish.subject);
        let receivers = deliver::from_client(plan, &mut self.publisher.random, &mut dispatch);
        if !self.finished.is_empty() {
            remove_finished(account, &mut self.finished);
            self.server.routes().mark_dirty(&mut self.dirty);
        }
        if receivers == 0
            && self.settings.no_responders
            && let Some(reply) = publish.reply
        {
            self.no_responders(publish.subject, reply);
        }
        Flow::Continue
    }

    #[cold]
    fn deny(&mut self, denied: Denied, publish: &Publish<'_>) -> Flow {
        let (text, kind, subject) = match denied {
            Denied::Subject => (error::publish_violation(publish.subject), "Publish", publish.subject),
            Denied::Reply => {
                let reply = publish.reply.unwrap_or_default();
                (error::reply_violation(reply), "Publish with Reply", reply)
            }
        };
        self.violation(kind, subject);
        self.say_error(&text);
        Flow::Continue
    }

    /// Nobody listens: the requester's own subscription for the reply hears of it.
    fn no_responders(&mut self, subject: &[u8], reply: &[u8]) {
        let sid = self.client.subscriptions.lock().find(reply).map(|subscription| subscription.sid.clone());
        let Some(sid) = sid else { return };
        let block = header::no_responders(subject);
        self.client.out.append_message(block.len(), |buffer| {
            encode::msg_header(buffer, reply, &sid, None, Some(block.len()), block.len());
            buffer.extend_from_slice(&block);
            buffer.extend_from_slice(b"\r\n");
        });
        self.dirty.mark(&self.client.out);
    }

    /// Every operation but PUB and CONNECT.
    pub fn handle(&mut self, op: &Op<'_>) -> Flow {
        match op {
            Op::Subscribe { subject, queue, sid } => self.subscribe(subject, *queue, sid),
            Op::Unsubscribe { sid, max } => self.unsubscribe(sid, *max),
            Op::Ping => self.ping(),
            Op::Pong => {
                self.pong();
                Flow::Continue
            }
            Op::Ok => Flow::Continue,
            // A client has nothing to say here, but it must say it well.
            Op::Info(json) if serde_json::from_slice::<Info>(json).is_err() => {
                self.close(CloseReason::ProtocolViolation)
            }
            Op::Info(_) => Flow::Continue,
            Op::Err(_) => self.close(CloseReason::ParseError),
            Op::Publish(_) | Op::Connect(_) => unreachable!("handled by its own method"),
        }
    }

    fn subscribe(&mut self, subject: &[u8], queue: Option<&[u8]>, sid: &[u8]) -> Flow {
        let client = Arc::clone(&self.client);
        // A reload changes rights first and then looks through the subscriptions: either it finds this one, or its rights hold.
        let mut subscriptions = client.subscriptions.lock();
        self.refresh_binding();
        let Some(binding) = self.binding.as_ref() else { return Flow::Close };
        let subscription = Subscription::local(Sink::Client(Arc::clone(&client)), subject, queue, sid);
        let options = self.server.options();
        let account_max = binding.account.limits().subscriptions_max;
        let count_max = match (options.limits.max_subscriptions, account_max) {
            (Some(server), Some(account)) => Some(server.min(account)),
            (server, account) => server.or(account),
        };
        let tokens_max = options.limits.max_sub_tokens.map(usize::from);
        let permissions = binding.permissions.as_deref();
        let result = subscriptions.add(&binding.account, subscription, permissions, (count_max, tokens_max));
        drop(subscriptions);
        match result {
            Ok(Subscribed::Added) => {
                self.server.routes().mark_dirty(&mut self.dirty);
                self.ok()
            }
            Ok(Subscribed::Duplicate) => self.ok(),
            Err(refusal) => {
                if matches!(refusal, SubscribeError::Denied { .. }) {
                    self.violation("Subscription", subject);
                }
                self.say_error(&refusal.to_string());
                Flow::Continue
            }
        }
    }

    fn unsubscribe(&mut self, sid: &[u8], max: Option<u64>) -> Flow {
        let Some(binding) = self.binding.as_ref() else { return Flow::Close };
        self.client.subscriptions.lock().remove(&binding.account, sid, max);
        self.server.routes().mark_dirty(&mut self.dirty);
        self.ok()
    }

    /// PING: the first after CONNECT is also answered by what the connection was bound to.
    fn ping(&mut self) -> Flow {
        self.client.out.append(encode::PONG);
        if !self.greeted && self.settings.async_info {
            self.greeted = true;
            self.client.set_wants_info();
            self.client.out.append(&self.server.connect_info(&self.client));
        }
        self.dirty.mark(&self.client.out);
        Flow::Continue
    }

    fn pong(&mut self) {
        self.client.count_pings(0);
        if let Some(sent) = self.ping_sent.take() {
            self.client.set_rtt(clock::now().saturating_duration_since(sent));
            self.measured = true;
        }
    }

    /// The deadline has come: no CONNECT in time, or a PING is due.
    pub fn on_timer(&mut self) {
        if self.phase == Phase::AwaitConnect && self.server.auth().is_required() {
            self.refuse(error::AUTHENTICATION_TIMEOUT, CloseReason::AuthenticationTimeout);
            return;
        }
        let options = self.server.options();
        let (interval, ping_max) = (options.limits.ping_interval, options.limits.ping_max);
        let now = clock::now();
        self.set_deadline(now + interval);
        let quiet = now.saturating_duration_since(self.last_received);
        if quiet < interval && self.measured {
            return;
        }
        if self.client.count_pings(1) > ping_max {
            self.server.stats().stale_connections.fetch_add(1, Relaxed);
            self.refuse(error::STALE_CONNECTION, CloseReason::StaleConnection);
            return;
        }
        self.ping_sent = Some(now);
        self.client.out.append(encode::PING);
        self.client.out.flush();
    }

    fn ok(&mut self) -> Flow {
        if self.settings.verbose {
            self.client.out.append(encode::OK);
            self.dirty.mark(&self.client.out);
        }
        Flow::Continue
    }

    fn say_error(&mut self, text: &str) {
        self.client.out.append(&encode::err(text));
        self.dirty.mark(&self.client.out);
    }

    /// Tells the operator of the server who tried what.
    fn violation(&self, kind: &str, subject: &[u8]) {
        let user = self.binding.as_ref().and_then(|binding| binding.user.clone()).unwrap_or_default();
        let subject = String::from_utf8_lossy(subject);
        let (peer, id) = (self.client.peer, self.client.id);
        tracing::error!("{peer} - cid:{id} - {kind} Violation - User {user:?}, Subject {subject:?}");
    }

    /// Sends `-ERR` and closes.
    pub fn refuse(&mut self, text: &str, reason: CloseReason) -> Flow {
        self.server.log_client_error(&self.client, text);
        self.client.refuse(text, reason);
        Flow::Close
    }

    /// Closes without a word.
    pub fn close(&mut self, reason: CloseReason) -> Flow {
        self.client.out.finish(b"", reason);
        Flow::Close
    }

    /// The connection is over. `reason` holds if none was noted before.
    pub fn end(&mut self, reason: CloseReason) {
        self.client.out.finish(b"", reason);
        let lost = crate::monitor::connz::lost(&self.client);
        if let Some(binding) = self.client.binding() {
            self.client.subscriptions.lock().clear(&binding.account, true);
            if self.binding.is_some() {
                binding.account.disconnect();
            }
        }
        self.server.routes().mark_dirty(&mut self.dirty);
        self.dirty.flush();
        self.server.on_client_closed(&self.client, lost);
    }
}
