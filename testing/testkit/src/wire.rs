//! A client of a server that may be killed at any time: everything that fails is an end, not a broken expectation.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::frame::{Frame, Message};

/// One connection, with an inbox of its own.
pub struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
    inbox: String,
}

impl Wire {
    /// Connects and listens to `<inbox>.*`; `inbox` must be unlike those of others.
    pub async fn connect(address: SocketAddr, inbox: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut wire = Self { stream, unread: Vec::new(), inbox: inbox.to_owned() };
        let options = r#"{"verbose":false,"headers":true,"no_responders":true,"lang":"testkit"}"#;
        wire.send(&format!("CONNECT {options}\r\nSUB {inbox}.* 1\r\n")).await?;
        Ok(wire)
    }

    /// Sends text as it is.
    pub async fn send(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes()).await
    }

    /// Publishes; the answer comes to `<inbox>.<reply>`. Headers may be empty.
    pub async fn publish(&mut self, subject: &str, reply: &str, headers: &str, body: &str) -> io::Result<()> {
        let (inbox, total) = (&self.inbox, headers.len() + body.len());
        let line = if headers.is_empty() {
            format!("PUB {subject} {inbox}.{reply} {total}")
        } else {
            format!("HPUB {subject} {inbox}.{reply} {} {total}", headers.len())
        };
        self.send(&format!("{line}\r\n{headers}{body}\r\n")).await
    }

    /// The next message. Pings are answered.
    pub async fn message(&mut self) -> io::Result<Message> {
        loop {
            let frame = self.frame().await?;
            match frame.verb().as_str() {
                "MSG" | "HMSG" => return Ok(frame.message()),
                "PING" => self.send("PONG\r\n").await?,
                _ => {}
            }
        }
    }

    /// Publishes and waits for the answer, a JSON document.
    pub async fn ask(&mut self, subject: &str, reply: &str, headers: &str, body: &str) -> io::Result<Value> {
        self.publish(subject, reply, headers, body).await?;
        let wanted = format!("{}.{reply}", self.inbox);
        loop {
            let message = self.message().await?;
            if message.subject == wanted {
                return serde_json::from_str(&message.payload).map_err(io::Error::other);
            }
        }
    }

    /// What follows the inbox in the subject of a message to it.
    pub fn reply_of<'a>(&self, message: &'a Message) -> Option<&'a str> {
        message.subject.strip_prefix(&self.inbox)?.strip_prefix('.')
    }

    async fn frame(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.cut_frame() {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn cut_frame(&mut self) -> Option<Frame> {
        let line_len = self.unread.iter().position(|byte| *byte == b'\n')? + 1;
        let payload = Frame::payload_len(&self.unread[..line_len]).map_or(0, |len| len + 2);
        let total = line_len + payload;
        (self.unread.len() >= total).then(|| Frame::new(self.unread.drain(..total).collect(), line_len))
    }
}
