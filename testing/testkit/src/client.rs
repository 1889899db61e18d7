//! A raw protocol client: sends bytes, reads frames, compares them byte for byte.
//!
//! Servers ping their clients and push INFO whenever they like, so an ordinary client answers the first and keeps the
//! second aside ([`Client::infos`]). [`Client::raw`] shows everything as it comes, as a scripted route peer needs it.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::frame::{Frame, Message};
use crate::schema;
use crate::server::Server;
use crate::wait::{PATIENCE, within};

/// A byte stream: TCP or TLS.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Frames of the past that are shown when an expectation breaks.
const HISTORY_MAX: usize = 40;

/// One connection to a server.
pub struct Client {
    stream: Box<dyn Io>,
    unread: Vec<u8>,
    pending: VecDeque<Frame>,
    history: VecDeque<String>,
    raw: bool,
    /// INFO documents in the order they came; the greeting is the first.
    pub infos: Vec<Value>,
}

impl Client {
    /// Speaks over a stream that is already there, without waiting for a greeting.
    pub fn over(stream: Box<dyn Io>) -> Self {
        Self {
            stream,
            unread: Vec::new(),
            pending: VecDeque::new(),
            history: VecDeque::new(),
            raw: false,
            infos: Vec::new(),
        }
    }

    /// Opens a TCP connection and waits for nothing.
    pub async fn dial(address: SocketAddr) -> Self {
        match within(PATIENCE, "TCP connect", TcpStream::connect(address)).await {
            Ok(stream) => {
                // A test that splits its writes wants them on the wire one by one.
                if let Err(error) = stream.set_nodelay(true) {
                    panic!("no delay on {address}: {error}");
                }
                Self::over(Box::new(stream))
            }
            Err(error) => panic!("connect {address}: {error}"),
        }
    }

    /// Opens a TCP connection and reads the greeting.
    pub async fn open(address: SocketAddr) -> Self {
        let mut client = Self::dial(address).await;
        client.greet().await;
        client
    }

    /// A connected client with headers and no-responders, as the usual libraries are.
    pub async fn ready(server: &Server) -> Self {
        Self::ready_with(server, json!({})).await
    }

    /// A connected client with these CONNECT fields on top of the usual ones.
    pub async fn ready_with(server: &Server, fields: Value) -> Self {
        let mut client = Self::open(server.client_addr()).await;
        client.connect(fields).await;
        client
    }

    /// A connected client with user and password.
    pub async fn user(server: &Server, user: &str, password: &str) -> Self {
        Self::ready_with(server, json!({"user": user, "pass": password})).await
    }

    /// Shows PING and INFO as ordinary frames from now on, and answers nothing by itself.
    pub fn raw(&mut self) -> &mut Self {
        self.raw = true;
        self
    }

    /// Waits for the greeting and returns it.
    pub async fn greet(&mut self) -> Value {
        let raw = std::mem::replace(&mut self.raw, true);
        let frame = self.next().await;
        self.raw = raw;
        let info = parse_info(&frame);
        self.infos.push(info.clone());
        info
    }

    /// The latest INFO.
    pub fn info(&self) -> &Value {
        match self.infos.last() {
            Some(info) => info,
            None => panic!("no INFO has come yet"),
        }
    }

    /// Sends CONNECT with these fields on top of the usual ones, and waits until the server has answered a PING.
    pub async fn connect(&mut self, fields: Value) {
        let line = connect_line(fields);
        self.send(format!("{line}PING\r\n")).await;
        self.expect("PONG\r\n").await;
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        if let Err(error) = self.try_send(bytes.as_ref()).await {
            panic!("send: {error}; before: {}", self.story());
        }
    }

    /// Sends bytes to a server that may have closed already.
    pub async fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.note(">", bytes);
        let write = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        within(PATIENCE, "the server takes what was sent", write).await
    }

    /// Sends a line.
    pub async fn op(&mut self, line: &str) {
        self.send(format!("{line}\r\n")).await;
    }

    /// Publishes.
    pub async fn publish(&mut self, subject: &str, payload: &str) {
        self.send(format!("PUB {subject} {}\r\n{payload}\r\n", payload.len())).await;
    }

    /// Publishes with a reply subject.
    pub async fn request(&mut self, subject: &str, reply: &str, payload: &str) {
        self.send(format!("PUB {subject} {reply} {}\r\n{payload}\r\n", payload.len())).await;
    }

    /// Publishes with a header block (`NATS/1.0\r\n...\r\n\r\n`).
    pub async fn publish_with_headers(&mut self, subject: &str, headers: &str, payload: &str) {
        let (header_len, total) = (headers.len(), headers.len() + payload.len());
        self.send(format!("HPUB {subject} {header_len} {total}\r\n{headers}{payload}\r\n")).await;
    }

    /// Subscribes and waits until the server has taken it.
    pub async fn subscribe(&mut self, subject: &str, sid: &str) {
        self.op(&format!("SUB {subject} {sid}")).await;
        self.flush().await;
    }

    /// Subscribes in a queue group and waits until the server has taken it.
    pub async fn queue_subscribe(&mut self, subject: &str, queue: &str, sid: &str) {
        self.op(&format!("SUB {subject} {queue} {sid}")).await;
        self.flush().await;
    }

    /// Waits until the server has handled all that was sent. Frames that come before the PONG stay readable.
    pub async fn flush(&mut self) {
        self.op("PING").await;
        let mut before = VecDeque::new();
        loop {
            let frame = self.read_frame().await;
            if frame.bytes == b"PONG\r\n" {
                break;
            }
            before.push_back(frame);
        }
        self.pending.append(&mut before);
    }

    /// Requires that nothing unread has come, with a PING as the barrier.
    pub async fn expect_silence(&mut self) {
        self.flush().await;
        assert!(
            self.pending.is_empty(),
            "expected nothing, came {:?}; before: {}",
            self.pending,
            self.story()
        );
    }

    /// Next frame.
    pub async fn next(&mut self) -> Frame {
        match self.pending.pop_front() {
            Some(frame) => frame,
            None => self.read_frame().await,
        }
    }

    /// Next frame, if one can be had within the bound; `None` also when the server closes.
    pub async fn next_within(&mut self, bound: std::time::Duration) -> Option<Frame> {
        if let Some(frame) = self.pending.pop_front() {
            return Some(frame);
        }
        tokio::time::timeout(bound, self.try_read_frame()).await.ok().flatten()
    }

    /// Next frame as a message.
    pub async fn message(&mut self) -> Message {
        self.next().await.message()
    }

    /// This many next frames.
    pub async fn take(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::with_capacity(count);
        for _ in 0..count {
            frames.push(self.next().await);
        }
        frames
    }

    /// Takes what has arrived by the time the server answers a PING.
    pub async fn drain(&mut self) -> Vec<Frame> {
        self.flush().await;
        self.pending.drain(..).collect()
    }

    /// Requires exactly these bytes next.
    pub async fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut seen = Vec::new();
        while seen.len() < expected.len() {
            seen.extend_from_slice(&self.next().await.bytes);
            assert!(
                expected.starts_with(&seen),
                "expected {:?}, came {:?}; before: {}",
                String::from_utf8_lossy(expected),
                String::from_utf8_lossy(&seen),
                self.story()
            );
        }
    }

    /// Requires `-ERR 'text'` next.
    pub async fn expect_error(&mut self, text: &str) {
        self.expect(format!("-ERR '{text}'\r\n")).await;
    }

    /// Requires `-ERR 'text'` and then the end of the connection.
    pub async fn expect_fatal(&mut self, text: &str) {
        self.expect_error(text).await;
        self.expect_closed().await;
    }

    /// Requires the end of the connection, with nothing before it.
    pub async fn expect_closed(&mut self) {
        let what = format!("the server closes; before: {}", self.story());
        if let Some(frame) = within(PATIENCE, &what, self.next_or_end()).await {
            panic!("expected the connection to close, came {frame:?}; before: {}", self.story());
        }
    }

    /// Reads until a PONG (`true`) or the end of the connection (`false`).
    pub async fn read_until_pong(&mut self) -> bool {
        loop {
            match within(PATIENCE, "a PONG or the end", self.next_or_end()).await {
                None => return false,
                Some(frame) if frame.bytes == b"PONG\r\n" => return true,
                Some(_) => {}
            }
        }
    }

    /// Reads whatever comes until the server closes, protocol or not, and returns it as text.
    pub async fn read_until_lost(&mut self) -> String {
        within(PATIENCE, "the server closes", async {
            while matches!(self.stream.read_buf(&mut self.unread).await, Ok(size) if size > 0) {}
        })
        .await;
        String::from_utf8_lossy(&std::mem::take(&mut self.unread)).into_owned()
    }

    /// Reads until the server closes and returns all that came.
    pub async fn read_to_end(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = within(PATIENCE, "the server closes", self.next_or_end()).await {
            frames.push(frame);
        }
        frames
    }

    /// Waits for another INFO than those already seen, and returns it.
    pub async fn next_info(&mut self) -> Value {
        let seen = self.infos.len();
        within(PATIENCE, "another INFO", async {
            while self.infos.len() == seen {
                match self.cut_frame() {
                    Some(frame) => {
                        let shown = self.sort(frame).await;
                        self.pending.extend(shown);
                    }
                    None => {
                        assert!(self.fill().await, "closed while waiting for INFO; before: {}", self.story())
                    }
                }
            }
        })
        .await;
        self.info().clone()
    }

    async fn next_or_end(&mut self) -> Option<Frame> {
        match self.pending.pop_front() {
            Some(frame) => Some(frame),
            None => self.try_read_frame().await,
        }
    }

    async fn read_frame(&mut self) -> Frame {
        let what = format!("a frame from the server; before: {}", self.story());
        match within(PATIENCE, &what, self.try_read_frame()).await {
            Some(frame) => frame,
            None => panic!("the server closed; before: {}", self.story()),
        }
    }

    /// Next frame that is to be shown, or `None` at the end of the connection.
    async fn try_read_frame(&mut self) -> Option<Frame> {
        loop {
            match self.cut_frame() {
                Some(frame) => {
                    let shown = self.sort(frame).await;
                    if shown.is_some() {
                        return shown;
                    }
                }
                None if self.fill().await => {}
                None => return None,
            }
        }
    }

    /// Answers PING and keeps INFO aside, unless raw; anything else is to be shown.
    async fn sort(&mut self, frame: Frame) -> Option<Frame> {
        self.note("<", &frame.bytes);
        if self.raw {
            return Some(frame);
        }
        if frame.bytes == b"PING\r\n" {
            // The server may be gone; the read that follows will tell.
            let _ = self.try_send(b"PONG\r\n").await;
            return None;
        }
        if frame.bytes.starts_with(b"INFO ") {
            self.infos.push(parse_info(&frame));
            return None;
        }
        if frame.is_message() {
            schema::check_payload(frame.body());
        }
        Some(frame)
    }

    /// Cuts one frame from what was read, if it is complete.
    fn cut_frame(&mut self) -> Option<Frame> {
        let line_len = self.unread.iter().position(|&byte| byte == b'\n')? + 1;
        let payload_len = Frame::payload_len(&self.unread[..line_len]).map_or(0, |len| len + 2);
        let total = line_len + payload_len;
        if self.unread.len() < total {
            return None;
        }
        let bytes = self.unread.drain(..total).collect();
        Some(Frame::new(bytes, line_len))
    }

    /// Reads more; `false` at the end of the connection, also when it was reset.
    async fn fill(&mut self) -> bool {
        let size = self.stream.read_buf(&mut self.unread).await.unwrap_or(0);
        assert!(
            size > 0 || self.unread.is_empty(),
            "closed amid a frame: {:?}",
            String::from_utf8_lossy(&self.unread)
        );
        size > 0
    }

    fn note(&mut self, direction: &str, bytes: &[u8]) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        let shown = &bytes[..bytes.len().min(300)];
        self.history.push_back(format!("{direction} {}", String::from_utf8_lossy(shown)));
    }

    fn story(&self) -> String {
        format!("{:#?}", self.history)
    }
}

/// A CONNECT line with these fields on top of the usual ones; a `null` takes a usual field away.
fn connect_line(fields: Value) -> String {
    let mut all = json!({
        "verbose": false, "pedantic": false, "lang": "testkit", "version": "1.0", "protocol": 1,
        "echo": true, "headers": true, "no_responders": true,
    });
    let Value::Object(all) = &mut all else { panic!("an object is an object") };
    let Value::Object(fields) = fields else { panic!("CONNECT takes an object, not {fields}") };
    merge(all, fields);
    format!("CONNECT {}\r\n", Value::Object(all.clone()))
}

fn merge(all: &mut Map<String, Value>, fields: Map<String, Value>) {
    for (key, value) in fields {
        if value.is_null() {
            all.remove(&key);
        } else {
            all.insert(key, value);
        }
    }
}

fn parse_info(frame: &Frame) -> Value {
    let line = frame.line();
    let Some(text) = line.strip_prefix("INFO ") else { panic!("expected INFO, came {line:?}") };
    match serde_json::from_str(text) {
        Ok(info) => info,
        Err(error) => panic!("INFO is not JSON: {error}: {text:?}"),
    }
}
