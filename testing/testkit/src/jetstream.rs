//! JetStream over the raw client: requests, publishes, pulls and acknowledgements, each with its answer.

use serde_json::{Value, json};

use crate::client::Client;
use crate::frame::Message;
use crate::server::{Builder, Server};
use crate::target::Target;
use crate::wait::eventually_ok;

/// Subject prefix of the API.
pub const API: &str = "$JS.API.";
/// What a server needs for JetStream, with its files in the server's own directory.
pub const CONFIG: &str = "server_name: js\njetstream { store_dir: \"%DIR%/js\" }\n";

/// A client that speaks JetStream. Every request has an inbox of its own, so late answers are not taken for others.
pub struct JetStream {
    /// The connection.
    pub client: Client,
    inbox: String,
    requests: u64,
}

/// A server with JetStream in a directory of its own, kept over restarts.
pub async fn server(target: &Target) -> Server {
    Builder::new(target).config(CONFIG).start().await
}

/// Block of headers from names and values.
pub fn headers(pairs: &[(&str, &str)]) -> String {
    let mut block = "NATS/1.0\r\n".to_owned();
    for (name, value) in pairs {
        block.push_str(name);
        block.push_str(": ");
        block.push_str(value);
        block.push_str("\r\n");
    }
    block + "\r\n"
}

/// Value of a header in a block.
pub fn header<'a>(block: &'a str, name: &str) -> Option<&'a str> {
    block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

impl JetStream {
    /// A new connection to this server.
    pub async fn connect(server: &Server) -> Self {
        Self::over(Client::ready(server).await, "js").await
    }

    /// A new connection with this user.
    pub async fn user(server: &Server, user: &str, password: &str) -> Self {
        Self::over(Client::user(server, user, password).await, user).await
    }

    /// Over a connection that is there already; `name` makes its inboxes unlike those of others.
    pub async fn over(mut client: Client, name: &str) -> Self {
        let inbox = format!("_INBOX.{name}");
        client.subscribe(&format!("{inbox}.*"), "js").await;
        Self { client, inbox, requests: 0 }
    }

    /// Inbox of the latest request.
    pub fn inbox(&self) -> String {
        format!("{}.{}", self.inbox, self.requests)
    }

    /// A new inbox.
    pub fn new_inbox(&mut self) -> String {
        self.requests += 1;
        self.inbox()
    }

    /// Sends a request and returns its first answer.
    pub async fn request(&mut self, subject: &str, headers: &str, body: &str) -> Message {
        let inbox = self.new_inbox();
        self.send(subject, &inbox, headers, body).await;
        self.client.message().await
    }

    /// Publishes with a reply subject and headers, either of which may be empty.
    pub async fn send(&mut self, subject: &str, reply: &str, headers: &str, body: &str) {
        let total = headers.len() + body.len();
        let line = if headers.is_empty() {
            format!("PUB {subject} {reply} {total}")
        } else {
            format!("HPUB {subject} {reply} {} {total}", headers.len())
        };
        self.client.send(format!("{line}\r\n{headers}{body}\r\n")).await;
    }

    /// An API request; the answer as text.
    pub async fn api_text(&mut self, subject: &str, body: &str) -> String {
        self.request(&format!("{API}{subject}"), "", body).await.payload
    }

    /// An API request; the answer as JSON, errors too.
    pub async fn api(&mut self, subject: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        parse(&self.api_text(subject, &body).await)
    }

    /// An API request that must succeed.
    pub async fn ok(&mut self, subject: &str, body: Value) -> Value {
        let answer = self.api(subject, &body).await;
        assert!(answer.get("error").is_none(), "{subject} {body}: {answer}");
        answer
    }

    /// Creates a stream.
    pub async fn stream(&mut self, config: Value) -> Value {
        let name = config["name"].as_str().unwrap_or_default().to_owned();
        self.ok(&format!("STREAM.CREATE.{name}"), config).await
    }

    /// Creates a durable consumer.
    pub async fn consumer(&mut self, stream: &str, config: Value) -> Value {
        let name = config["durable_name"].as_str().unwrap_or_default().to_owned();
        let body = json!({"stream_name": stream, "config": config});
        self.ok(&format!("CONSUMER.DURABLE.CREATE.{stream}.{name}"), body).await
    }

    /// Publishes and returns the answer, errors too.
    pub async fn publish_with(&mut self, subject: &str, pairs: &[(&str, &str)], body: &str) -> Value {
        let block = if pairs.is_empty() { String::new() } else { headers(pairs) };
        parse(&self.request(subject, &block, body).await.payload)
    }

    /// Publishes; must be stored. Returns the sequence.
    pub async fn publish(&mut self, subject: &str, body: &str) -> u64 {
        let answer = self.publish_with(subject, &[], body).await;
        match answer["seq"].as_u64() {
            Some(sequence) if answer.get("error").is_none() => sequence,
            _ => panic!("publish to {subject}: {answer}"),
        }
    }

    /// Pulls without waiting: what is there, up to `batch`.
    pub async fn fetch(&mut self, stream: &str, consumer: &str, batch: usize) -> Vec<Message> {
        self.pull(stream, consumer, json!({"batch": batch, "no_wait": true}), batch).await
    }

    /// Pulls this many messages, waiting for them as long as the server does; fewer if a status comes before.
    pub async fn fetch_wait(&mut self, stream: &str, consumer: &str, batch: usize) -> Vec<Message> {
        self.pull(stream, consumer, json!({"batch": batch, "expires": 10_000_000_000_u64}), batch).await
    }

    async fn pull(&mut self, stream: &str, consumer: &str, body: Value, batch: usize) -> Vec<Message> {
        let inbox = self.new_inbox();
        self.send(&format!("{API}CONSUMER.MSG.NEXT.{stream}.{consumer}"), &inbox, "", &body.to_string())
            .await;
        let mut messages = Vec::new();
        while messages.len() < batch {
            let message = self.client.message().await;
            if is_status(&message) {
                break;
            }
            messages.push(message);
        }
        messages
    }

    /// Acknowledges and waits for the confirmation.
    pub async fn ack(&mut self, message: &Message) {
        let answer = self.request(ack_subject(message), "", "").await;
        assert!(answer.payload.is_empty() && answer.subject == self.inbox(), "confirmation: {answer:?}");
    }

    /// Acknowledges in any way, without waiting.
    pub async fn ack_with(&mut self, message: &Message, payload: &str) {
        self.client.publish(ack_subject(message), payload).await;
    }

    /// Asks again and again until the answer satisfies a condition.
    pub async fn until(&mut self, subject: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually_ok(what, async || {
            let answer = self.api(subject, &Value::Null).await;
            if holds(&answer) { Ok(answer) } else { Err(answer) }
        })
        .await
    }
}

/// Whether this is a status without content, not a message.
pub fn is_status(message: &Message) -> bool {
    message.headers.starts_with("NATS/1.0 ")
}

/// Where to acknowledge a message.
pub fn ack_subject(message: &Message) -> &str {
    match &message.reply {
        Some(reply) => reply,
        None => panic!("no reply subject: {message:?}"),
    }
}

/// What the ack subject of a delivered message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// How many times the message was delivered, this one included.
    pub deliveries: u64,
    /// Its sequence in the stream.
    pub stream_sequence: u64,
    /// Sequence of this delivery.
    pub consumer_sequence: u64,
    /// Messages that wait after it.
    pub pending: u64,
}

/// Reads the ack subject of a delivered message.
pub fn delivery(message: &Message) -> Delivery {
    let subject = ack_subject(message);
    let tokens: Vec<&str> = subject.split('.').collect();
    assert!(subject.starts_with("$JS.ACK.") && tokens.len() == 9, "ack subject {subject:?}");
    let number = |at: usize| match tokens[at].parse() {
        Ok(number) => number,
        Err(error) => panic!("token {at} of {subject:?}: {error}"),
    };
    Delivery {
        deliveries: number(4),
        stream_sequence: number(5),
        consumer_sequence: number(6),
        pending: number(8),
    }
}

fn parse(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => panic!("answer is not JSON: {error}: {text:?}"),
    }
}
