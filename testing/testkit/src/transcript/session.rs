//! Plays the steps of a transcript against a server.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::normal::normal;
use super::script::Step;
use crate::client::Client;
use crate::frame::Frame;
use crate::jetstream::{API, header};
use crate::server::{Builder, Server};
use crate::target::Target;
use crate::wait::{PATIENCE, eventually_ok};

/// Subscription id of the inboxes.
const INBOX_SID: &str = "_";
/// Steps after which nothing is read.
const QUIET: [&str; 6] = ["close", "connect", "restart", "kill", "stop", "start"];

/// A server, its connections and what was said so far.
pub(super) struct Session {
    server: Server,
    clients: BTreeMap<String, Client>,
    users: BTreeMap<String, String>,
    names: Vec<(String, String)>,
    replies: Vec<String>,
    inboxes: usize,
    inbox: String,
}

impl Session {
    pub(super) async fn start(target: &Target, config: &str) -> Self {
        let server = Builder::new(target).config(config).start().await;
        Self {
            server,
            clients: BTreeMap::new(),
            users: BTreeMap::new(),
            names: Vec::new(),
            replies: Vec::new(),
            inboxes: 0,
            inbox: String::new(),
        }
    }

    /// Does a step and returns the messages that it brought, as many as expected, and whether all came.
    pub(super) async fn play(&mut self, step: &Step) -> (Vec<String>, bool) {
        let mut frames = self.act(step).await;
        while frames.len() < step.expected.len() && step.words().0 != "stop" {
            match self.client(&step.client).await.next_within(PATIENCE).await {
                Some(frame) => frames.push(frame),
                None => break,
            }
        }
        let complete = frames.len() >= step.expected.len();
        if step.expected.is_empty() && !QUIET.contains(&step.words().0) {
            frames.extend(self.client(&step.client).await.drain().await);
        }
        (self.show(step, &frames), complete)
    }

    /// Does a step and returns all messages that come within the time it has.
    pub(super) async fn observe(&mut self, step: &Step) -> Vec<String> {
        let mut frames = self.act(step).await;
        if !QUIET.contains(&step.words().0) {
            let client = self.client(&step.client).await;
            let end = tokio::time::Instant::now() + step.look;
            loop {
                let left = end.saturating_duration_since(tokio::time::Instant::now());
                match client.next_within(left.max(Duration::from_millis(1))).await {
                    Some(frame) => frames.push(frame),
                    None => break,
                }
            }
        }
        self.show(step, &frames)
    }

    /// What nobody has read.
    pub(super) async fn end(&mut self) -> Option<String> {
        let mut rest = Vec::new();
        for client in self.clients.values_mut() {
            rest.extend(client.drain().await.iter().map(Frame::text));
        }
        (!rest.is_empty()).then(|| rest.join(""))
    }

    /// The end of the server's log.
    pub(super) fn log_tail(&self) -> String {
        let log = self.server.log();
        let lines: Vec<&str> = log.lines().rev().take(6).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    async fn client(&mut self, name: &str) -> &mut Client {
        if !self.clients.contains_key(name) {
            let user = self.users.get(name);
            let mut client = match user {
                Some(user) => Client::user(&self.server, user, user).await,
                None => Client::ready(&self.server).await,
            };
            client.subscribe(&format!("_INBOX.{}.*", inbox_name(name)), INBOX_SID).await;
            self.clients.insert(name.to_owned(), client);
        }
        match self.clients.get_mut(name) {
            Some(client) => client,
            None => panic!("no connection {name}"),
        }
    }

    /// Does a step; the frames are those that were read while doing it.
    async fn act(&mut self, step: &Step) -> Vec<Frame> {
        let (verb, rest) = step.words();
        match verb {
            "until" => self.until(step, rest).await,
            "repeat" => self.repeat(step, rest).await,
            "restart" | "kill" => {
                self.clients.clear();
                if verb == "kill" {
                    self.server.kill().await;
                } else {
                    self.server.stop().await;
                }
                self.server.restart().await;
                Vec::new()
            }
            "stop" => {
                self.server.stop().await;
                let frames = self.client(&step.client).await.read_to_end().await;
                self.clients.clear();
                frames
            }
            "start" => {
                self.server.restart().await;
                Vec::new()
            }
            "connect" => {
                if let Some((name, user)) = rest.split_once(' ') {
                    self.users.insert(name.to_owned(), user.to_owned());
                }
                Vec::new()
            }
            "close" => {
                self.clients.remove(&step.client);
                Vec::new()
            }
            _ => {
                let bytes = self.bytes(&step.client, verb, rest);
                if !bytes.is_empty() {
                    self.client(&step.client).await.send(bytes).await;
                }
                Vec::new()
            }
        }
    }

    /// What a step sends.
    fn bytes(&mut self, client: &str, verb: &str, rest: &str) -> String {
        let rest = self.fill(rest);
        let (first, tail) = rest.split_once(' ').unwrap_or((&rest, ""));
        match verb {
            "api" => publish(&format!("{API}{first}"), &self.new_inbox(client), tail),
            "pub" => publish(first, &self.new_inbox(client), tail),
            "send" => publish(first, "", tail),
            "post" => {
                let (reply, tail) = tail.split_once(' ').unwrap_or((tail, ""));
                publish(first, reply, tail)
            }
            "next" => {
                let (consumer, tail) = tail.split_once(' ').unwrap_or((tail, ""));
                publish(&format!("{API}CONSUMER.MSG.NEXT.{first}.{consumer}"), &self.new_inbox(client), tail)
            }
            "ack" => publish(&self.reply(first), &self.new_inbox(client), tail),
            "ack!" => publish(&self.reply(first), "", tail),
            "sub" => {
                let (subject, queue) = tail.split_once(' ').unwrap_or((tail, ""));
                format!("SUB {subject} {queue} {first}\r\n")
            }
            "unsub" => format!("UNSUB {first}\r\n"),
            "read" => String::new(),
            _ => panic!("no such step: {verb:?}"),
        }
    }

    fn reply(&self, number: &str) -> String {
        let number: usize = number.parse().unwrap_or(0);
        match number.checked_sub(1).and_then(|at| self.replies.get(at)) {
            Some(reply) => reply.clone(),
            None => panic!("no frame {number} with a reply among {:?}", self.replies),
        }
    }

    fn new_inbox(&mut self, client: &str) -> String {
        self.inboxes += 1;
        self.inbox = format!("_INBOX.{}.{}", inbox_name(client), self.inboxes);
        self.inbox.clone()
    }

    async fn until(&mut self, step: &Step, rest: &str) -> Vec<Frame> {
        let Some((condition, command)) = rest.split_once(' ') else { panic!("until what: {}", step.text) };
        let Some((pointer, wanted)) = condition.split_once('=') else {
            panic!("POINTER=JSON: {}", step.text)
        };
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let inboxes = self.inboxes;
        let frame = eventually_ok(&step.text, async || {
            // How often it is asked must not show in later inboxes.
            self.inboxes = inboxes;
            let bytes = self.bytes(&step.client, verb, rest);
            let client = self.client(&step.client).await;
            client.send(bytes).await;
            let frame = client.next().await;
            let text = frame.message().payload;
            let value = serde_json::from_str::<Value>(&text).unwrap_or_default();
            let found = value.pointer(pointer).map_or_else(|| "null".to_owned(), Value::to_string);
            if found == wanted { Ok(frame) } else { Err(text) }
        })
        .await;
        vec![frame]
    }

    async fn repeat(&mut self, step: &Step, rest: &str) -> Vec<Frame> {
        let Some((count, command)) = rest.split_once(' ') else { panic!("repeat what: {}", step.text) };
        let Ok(count) = count.parse::<usize>() else { panic!("repeat how often: {}", step.text) };
        let mut last = Vec::new();
        for number in 1..=count {
            let command = command.replace("{i}", &number.to_string());
            let (verb, rest) = command.split_once(' ').unwrap_or((&command, ""));
            let bytes = self.bytes(&step.client, verb, rest);
            let client = self.client(&step.client).await;
            client.send(bytes).await;
            last = vec![client.next().await];
        }
        last
    }

    /// Variables and repetitions in the text of a step.
    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.names {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        while let Some(start) = text.find("<x*") {
            let Some(len) = text[start..].find('>') else { panic!("<x*N> without an end: {text}") };
            let Ok(count) = text[start + 3..start + len].parse() else { panic!("<x*N>: {text}") };
            text.replace_range(start..=start + len, &"x".repeat(count));
        }
        text
    }

    fn show(&mut self, step: &Step, frames: &[Frame]) -> Vec<String> {
        if let Some(last) = frames.last() {
            self.take_names(step, last);
        }
        let mut lines: Vec<String> = frames.iter().map(|frame| self.line(frame)).collect();
        if step.unordered {
            lines.sort();
        }
        lines
    }

    fn take_names(&mut self, step: &Step, frame: &Frame) {
        for (name, part) in &step.lets {
            let message = frame.message();
            let document = serde_json::from_str::<Value>(&message.payload).unwrap_or_default();
            let value = match (part.strip_prefix('#'), document.pointer(part)) {
                (Some(name), _) => header(&message.headers, name).unwrap_or_default().to_owned(),
                (None, Some(Value::String(text))) => text.clone(),
                (None, Some(value)) => value.to_string(),
                (None, None) => panic!("{}: no {part} in {frame:?}", step.text),
            };
            self.names.retain(|(known, _)| known != name);
            self.names.push((name.clone(), value));
        }
    }

    fn line(&mut self, frame: &Frame) -> String {
        if !matches!(frame.verb().as_str(), "MSG" | "HMSG") {
            return frame.line();
        }
        let mut message = frame.message();
        // An empty reply subject, which is two spaces in a row, is none.
        message.reply = message.reply.filter(|reply| !reply.is_empty());
        self.replies.extend(message.reply.clone());
        let mut text = String::new();
        if message.sid != INBOX_SID || message.subject != self.inbox || message.reply.is_some() {
            text += &format!("[{}] {} ", message.sid, message.subject);
        }
        if let Some(reply) = &message.reply {
            text += &format!("({}) ", reply);
        }
        if !message.headers.is_empty() {
            text += &format!("{:?} ", message.headers);
        }
        text += &message.payload;
        text = text.replace(&self.inbox, "<inbox>");
        for (name, value) in &self.names {
            text = text.replace(value.as_str(), &format!("${{{name}}}"));
        }
        normal(text.trim_end_matches(' ')).replace("\r\n", "\\r\\n")
    }
}

fn inbox_name(client: &str) -> &str {
    if client.is_empty() { "main" } else { client }
}

/// A publish; the text may begin with headers in brackets.
fn publish(subject: &str, reply: &str, text: &str) -> String {
    let (block, body) = split_headers(text);
    let total = block.len() + body.len();
    if block.is_empty() {
        format!("PUB {subject} {reply} {total}\r\n{body}\r\n")
    } else {
        format!("HPUB {subject} {reply} {} {total}\r\n{block}{body}\r\n", block.len())
    }
}

fn split_headers(text: &str) -> (String, &str) {
    let Some((list, body)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) else {
        return (String::new(), text);
    };
    // JSON arrays are bodies.
    if list.starts_with(['{', '"']) {
        return (String::new(), text);
    }
    let lines: String = list.split("; ").map(|line| format!("{line}\r\n")).collect();
    (format!("NATS/1.0\r\n{lines}\r\n"), body.strip_prefix(' ').unwrap_or(body))
}
