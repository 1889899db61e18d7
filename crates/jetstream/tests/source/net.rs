//! Streams of one account and everything between them: subscriptions, the consumer API, time, and faults on request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::jetstream::consumer::ConsumerAction;
use api::jetstream::request::CreateConsumerRequest;
use api::jetstream::stream::{StreamConfig, StreamInfo, StreamSourceInfo};
use bytes::Bytes;
use jetstream::consumer::Budget;
use jetstream::effect::{Deliver, Effect, Effects, Send};
use jetstream::limits::Limits;
use jetstream::snapshot::archive::MAGIC;
use jetstream::snapshot::{Entry, Image, Packer};
use jetstream::source::{Sourced, identity};
use jetstream::stream::facts::Identity;
use jetstream::stream::restore::Restore;
use jetstream::stream::{Incoming, Publish};
use jetstream::{Outside, Request, Response, Stream, Token};
use store::Timestamp;
use store::stream::{Filter, MemoryStore, Message, Recovered};

/// 2026-01-01.
pub(crate) const START: i64 = 1_767_225_600_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000_000;
/// Steps after which something goes round in circles.
const STEPS_MAX: usize = 1_000_000;

struct World {
    now: i64,
    interest: BTreeSet<Vec<u8>>,
    random: u64,
    limits: Limits,
}

impl Outside for World {
    fn now(&self) -> Timestamp {
        Timestamp(self.now)
    }

    fn has_group_interest(&self, subject: &[u8], _group: &[u8]) -> bool {
        self.has_interest(subject)
    }

    fn has_interest(&self, subject: &[u8]) -> bool {
        self.interest.contains(subject)
    }

    fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 3
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

struct Node {
    stream: Stream,
    effects: Effects,
    /// Committed entries.
    log: Vec<Bytes>,
    config: StreamConfig,
    created: Timestamp,
}

/// A message on its way.
#[derive(Debug, Clone)]
struct Wire {
    to: Bytes,
    subject: Bytes,
    reply: Option<Bytes>,
    headers: Bytes,
    payload: Bytes,
}

/// The network.
pub(crate) struct Net {
    world: World,
    nodes: BTreeMap<String, Node>,
    /// Stream and number of its subscription, by subject.
    subscriptions: BTreeMap<(Bytes, String, u64), ()>,
    wires: VecDeque<Wire>,
    replies: BTreeMap<u64, Bytes>,
    next_token: u64,
    /// One of so many messages between streams is lost; zero for none.
    pub(crate) loss: u64,
    /// Subjects of all requests, in order.
    pub(crate) requests: Vec<(String, String)>,
    /// What was published to nobody's knowledge: flow control answers and the like.
    pub(crate) sent: Vec<Send>,
    /// Streams whose proposals are not committed for now.
    pub(crate) held: BTreeSet<String>,
}

fn open(config: &StreamConfig, created: Timestamp) -> Stream {
    let identity =
        Identity { account: "$G".into(), name: config.name.as_str().into(), group: 7, domain: None, created };
    Stream::new(identity, config.clone(), Box::new(MemoryStore::new()), Recovered::default()).expect("stream")
}

impl Net {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            world: World { now: START, interest: BTreeSet::new(), random: seed, limits: Limits::default() },
            nodes: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            wires: VecDeque::new(),
            replies: BTreeMap::new(),
            next_token: 0,
            loss: 0,
            requests: Vec::new(),
            sent: Vec::new(),
            held: BTreeSet::new(),
        }
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.world.random()
    }

    pub(crate) fn now(&self) -> i64 {
        self.world.now
    }

    /// Makes a stream from a JSON document.
    pub(crate) fn create(&mut self, config: &str) {
        let config: StreamConfig = serde_json::from_str(config).expect("configuration");
        let created = Timestamp(self.world.now);
        let stream = open(&config, created);
        let node = Node { stream, effects: Effects::default(), log: Vec::new(), config, created };
        let name = node.config.name.clone();
        self.nodes.insert(name.clone(), node);
        self.with(&name, |stream, outside, effects| stream.lead(outside, effects));
        self.settle();
    }

    /// Deletes a stream.
    pub(crate) fn delete(&mut self, name: &str) {
        self.with(name, |stream, outside, effects| stream.delete(outside, effects));
        self.settle();
        self.nodes.remove(name);
        self.subscriptions.retain(|(_, owner, _), ()| owner != name);
        self.refresh_interest();
    }

    /// The process of a stream dies; another one replays its log.
    pub(crate) fn restart(&mut self, name: &str) {
        self.subscriptions.retain(|(_, owner, _), ()| owner != name);
        self.refresh_interest();
        let world = &mut self.world;
        let node = self.nodes.get_mut(name).expect("stream");
        node.stream = open(&node.config, node.created);
        node.effects = Effects::default();
        for (index, entry) in (1..).zip(&node.log) {
            node.stream.apply(world, &mut Effects::default(), index, entry);
        }
        assert!(node.stream.failure().is_none(), "{:?}", node.stream.failure());
        self.with(name, |stream, outside, effects| stream.lead(outside, effects));
        self.settle();
    }

    /// Takes a stream with its messages away; they come back with `restore`.
    pub(crate) fn archive(&mut self, name: &str) -> Vec<u8> {
        let stream = self.stream(name);
        let image = Image::new(stream, false);
        let mut entries = vec![image.state_entry(1).expect("state")];
        let messages = Image::messages(stream, (image.first, image.last), usize::MAX).expect("messages");
        entries.extend(messages.into_iter().map(Entry::from));
        entries.push(Entry::default());
        let mut content = MAGIC.to_vec();
        for entry in &entries {
            entry.encode_head(&mut content);
            content.extend_from_slice(&entry.headers);
            content.extend_from_slice(&entry.payload);
        }
        let (mut packer, mut archive) = (Packer::default(), Vec::new());
        packer.write(&content, &mut archive);
        packer.flush(&mut archive);
        self.delete(name);
        archive
    }

    /// Makes a stream from an archive.
    pub(crate) fn restore(&mut self, config: &str, archive: &[u8]) {
        let config: StreamConfig = serde_json::from_str(config).expect("configuration");
        let created = Timestamp(self.world.now);
        let mut restore = Restore::new(open(&config, created), 1 << 20);
        restore.push(archive);
        while restore.advance(&mut self.world).expect("archive") {}
        restore.finish(&mut self.world).expect("archive");
        let (stream, name) = (restore.into_stream(), config.name.clone());
        let node = Node { stream, effects: Effects::default(), log: Vec::new(), config, created };
        self.nodes.insert(name.clone(), node);
        self.with(&name, |stream, outside, effects| stream.lead(outside, effects));
        self.settle();
    }

    pub(crate) fn update(&mut self, config: &str) {
        let config: StreamConfig = serde_json::from_str(config).expect("configuration");
        let name = config.name.clone();
        self.request(&name, Request::UpdateStream(Box::new(config)));
    }

    pub(crate) fn request(&mut self, name: &str, request: Request) {
        self.next_token += 1;
        let token = Token(self.next_token);
        self.with(name, |stream, outside, effects| stream.handle_request(outside, effects, token, request));
        self.settle();
    }

    pub(crate) fn publish(&mut self, stream: &str, subject: &str, headers: &[&str], payload: &str) {
        let publish = Publish {
            subject: Bytes::copy_from_slice(subject.as_bytes()),
            reply: None,
            headers: block(headers),
            payload: Bytes::copy_from_slice(payload.as_bytes()),
        };
        self.with(stream, |stream, outside, effects| stream.handle_publish(outside, effects, publish));
        self.settle();
    }

    pub(crate) fn remove(&mut self, stream: &str, sequence: u64) {
        self.request(stream, Request::DeleteMessage { sequence, erase: false });
    }

    pub(crate) fn stream(&self, name: &str) -> &Stream {
        &self.nodes[name].stream
    }

    pub(crate) fn info(&self, name: &str) -> StreamInfo {
        self.nodes[name].stream.info(&self.world)
    }

    pub(crate) fn mirror(&self, name: &str) -> StreamSourceInfo {
        self.info(name).mirror.expect("mirror")
    }

    /// Everything that a stream holds.
    pub(crate) fn messages(&self, name: &str) -> Vec<Message> {
        let store = self.nodes[name].stream.store();
        let mut messages = Vec::new();
        let mut next = 1;
        while let Some(message) = store.next(&Filter::All, next).expect("read") {
            next = message.sequence + 1;
            messages.push(message);
        }
        messages
    }

    /// Bodies of what a stream holds.
    pub(crate) fn bodies(&self, name: &str) -> Vec<String> {
        let messages = self.messages(name);
        messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
    }

    fn with<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Stream, &mut dyn Outside, &mut Effects) -> T,
    ) -> Option<T> {
        let node = self.nodes.get_mut(name)?;
        Some(work(&mut node.stream, &mut self.world, &mut node.effects))
    }

    fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Works until nothing is on its way.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            let mut idle = true;
            for name in self.names() {
                idle &= !self.turn(&name);
            }
            while let Some(wire) = self.wires.pop_front() {
                idle = false;
                self.route(&wire);
            }
            if idle {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// One turn of one stream. True if something happened.
    fn turn(&mut self, name: &str) -> bool {
        let mut budget = Budget { messages: 16, bytes: 1 << 20 };
        let more = self.with(name, |stream, outside, effects| stream.turn(outside, effects, &mut budget));
        let mut worked = more.unwrap_or(false);
        let hold = self.held.contains(name);
        let world = &mut self.world;
        let Some(node) = self.nodes.get_mut(name) else { return worked };
        if !hold && !node.effects.proposal.is_empty() {
            let entry = node.effects.proposal.split().freeze();
            node.log.push(entry.clone());
            node.stream.apply(world, &mut node.effects, node.log.len() as u64, &entry);
            worked = true;
        }
        let queue: Vec<Effect> = node.effects.queue.drain(..).collect();
        worked |= !queue.is_empty();
        queue.into_iter().for_each(|effect| self.carry_out(name, effect));
        worked
    }

    fn carry_out(&mut self, name: &str, effect: Effect) {
        match effect {
            Effect::Send(send) => {
                self.sent.push(send.clone());
                let Send { subject, reply, headers, payload } = send;
                self.wires.push_back(Wire { to: subject.clone(), subject, reply, headers, payload });
            }
            Effect::Deliver(Deliver { to, subject, reply, headers, payload }) => {
                self.wires.push_back(Wire { to, subject, reply: Some(reply), headers, payload });
            }
            Effect::Subscribe { inbox, subject } => {
                self.subscriptions.insert((subject, name.to_owned(), inbox), ());
                self.refresh_interest();
            }
            Effect::Unsubscribe(inbox) => {
                self.subscriptions.retain(|(_, owner, number), ()| owner != name || *number != inbox);
                self.refresh_interest();
            }
            Effect::Reply(token, result) => self.reply(name, token, result),
            Effect::Damaged(text) => panic!("{text}"),
            _ => {}
        }
    }

    fn reply(&mut self, name: &str, token: Token, result: Result<Response, api::ApiError>) {
        let Some(to) = self.replies.remove(&token.0) else {
            if let Err(error) = result {
                panic!("{error}");
            }
            return;
        };
        let (document, headers) = match result {
            Ok(Response::Consumer(info)) => {
                let identity = format!("Nats-Stream-Identity: {}", identity(self.nodes[name].created));
                (serde_json::to_vec(&info), block(&[&identity]))
            }
            Ok(Response::Reset { info, .. }) => (serde_json::to_vec(&info), Bytes::new()),
            Ok(_) => (Ok(b"{}".to_vec()), Bytes::new()),
            Err(error) => (serde_json::to_vec(&serde_json::json!({ "error": error })), Bytes::new()),
        };
        let payload = document.expect("document").into();
        self.wires.push_back(Wire { to: to.clone(), subject: to, reply: None, headers, payload });
    }

    fn refresh_interest(&mut self) {
        let now: BTreeSet<Vec<u8>> =
            self.subscriptions.keys().map(|(subject, ..)| subject.to_vec()).collect();
        let before = std::mem::replace(&mut self.world.interest, now.clone());
        for subject in before.symmetric_difference(&now) {
            for name in self.names() {
                self.with(&name, |stream, outside, effects| {
                    stream.handle_interest(outside, effects, subject);
                });
            }
        }
    }

    fn route(&mut self, wire: &Wire) {
        if self.loss > 0 && self.world.random().is_multiple_of(self.loss) {
            return;
        }
        let text = String::from_utf8_lossy(&wire.to).into_owned();
        let tokens: Vec<&str> = text.split('.').collect();
        match tokens[..] {
            ["$JS", "API", "CONSUMER", operation, stream, ..] => {
                self.requests.push((operation.to_owned(), text.clone()));
                self.serve(wire, (operation, stream, tokens.get(5).copied().unwrap_or_default()));
            }
            ["$JS", "FC", stream, ..] => {
                let answer =
                    Incoming { subject: &wire.to, reply: None, headers: &wire.headers, payload: b"" };
                self.with(stream, |stream, outside, effects| {
                    stream.handle_flow_control(outside, effects, answer);
                });
            }
            _ => {
                let listeners: Vec<(String, u64)> = self
                    .subscriptions
                    .keys()
                    .filter(|(subject, ..)| *subject == wire.to)
                    .map(|(_, name, inbox)| (name.clone(), *inbox))
                    .collect();
                for (name, inbox) in listeners {
                    let Wire { subject, reply, headers, payload, .. } = wire.clone();
                    let message = Sourced { subject, reply, headers, payload };
                    self.with(&name, |stream, outside, effects| {
                        stream.handle_sourced(outside, effects, inbox, message);
                    });
                }
            }
        }
    }

    /// The consumer API of a stream.
    fn serve(&mut self, wire: &Wire, what: (&str, &str, &str)) {
        let (operation, stream, consumer) = what;
        let Some(reply) = wire.reply.clone() else { return };
        let refuse = |net: &mut Self, code: u16| {
            let error = serde_json::json!({ "error": { "code": 400, "err_code": code } }).to_string();
            let (to, payload) = (reply.clone(), error.into());
            net.wires.push_back(Wire {
                to: to.clone(),
                subject: to,
                reply: None,
                headers: Bytes::new(),
                payload,
            });
        };
        let Some(node) = self.nodes.get(stream) else { return refuse(self, 10059) };
        let expected = header(&wire.headers, "Nats-Stream-Identity");
        if operation == "CREATE"
            && expected.is_some_and(|text| !text.is_empty() && text != identity(node.created))
        {
            return refuse(self, 10225);
        }
        let request = match operation {
            "CREATE" => {
                let request: CreateConsumerRequest = serde_json::from_slice(&wire.payload).expect("request");
                let config = Box::new(request.config);
                Request::CreateConsumer { config, action: ConsumerAction::default(), pedantic: false }
            }
            "RESET" => Request::ResetConsumer { consumer: consumer.into(), sequence: 0 },
            _ => Request::DeleteConsumer { consumer: consumer.into() },
        };
        self.next_token += 1;
        let token = Token(self.next_token);
        self.replies.insert(token.0, reply);
        self.with(stream, |stream, outside, effects| stream.handle_request(outside, effects, token, request));
    }

    /// Lets time pass, with everything in it.
    pub(crate) fn pass(&mut self, nanos: i64) {
        let end = self.world.now + nanos;
        self.settle();
        for _ in 0..STEPS_MAX {
            let due = self.nodes.values().filter_map(|node| node.stream.poll_timeout()).min();
            let Some(due) = due.filter(|due| due.0 <= end) else {
                self.world.now = end;
                return;
            };
            self.world.now = self.world.now.max(due.0);
            for name in self.names() {
                self.with(&name, |stream, outside, effects| stream.handle_timeout(outside, effects));
            }
            self.settle();
        }
        panic!("time does not pass");
    }
}

/// The value of a header.
pub(crate) fn header(block: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(block).expect("text");
    let prefix = format!("{name}: ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

/// A header block from `name: value` parts.
pub(crate) fn block(lines: &[&str]) -> Bytes {
    if lines.is_empty() {
        return Bytes::new();
    }
    let mut block = String::from("NATS/1.0\r\n");
    for line in lines {
        block.push_str(line);
        block.push_str("\r\n");
    }
    block.push_str("\r\n");
    block.into()
}
