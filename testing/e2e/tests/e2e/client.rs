//! A plain client of the protocol, for what the official one does not show: unasked information, errors, the moment at
//! which a connection ends.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// How long a connection may take to come about. A name may still lead to a pod that is gone.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How long an answer of a server may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// What a server sends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// About itself.
    Info(Value),
    /// A message: subject and payload.
    Message(String, String),
    /// The answer to a ping.
    Pong,
    /// An error, without quotes.
    Error(String),
    /// Nothing more.
    Closed,
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    /// Events that were passed over while an answer was awaited.
    skipped: VecDeque<Event>,
}

impl Client {
    /// Connects and logs in.
    pub(crate) fn connect(address: &str, user: &str, password: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, received: Vec::new(), skipped: VecDeque::new() };
        match client.next(CONNECT_LIMIT)? {
            Some(Event::Info(_)) => {}
            other => bail!("instead of information about the server came {other:?}"),
        }
        let options =
            json!({"verbose": false, "pedantic": false, "user": user, "pass": password, "protocol": 1});
        client.write(&format!("CONNECT {options}\r\n"))?;
        client.flush()?;
        Ok(client)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.stream.write_all(text.as_bytes()).context("the connection is gone")
    }

    /// Subscribes; the server knows when this returns.
    pub(crate) fn subscribe(&mut self, subject: &str) -> Result<()> {
        self.write(&format!("SUB {subject} 1\r\n"))?;
        self.flush()
    }

    /// Hands over messages; that the server has them is what [`Self::flush`] proves.
    pub(crate) fn publish<'a>(
        &mut self,
        messages: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Result<()> {
        let line =
            |(subject, payload): (&str, String)| format!("PUB {subject} {}\r\n{payload}\r\n", payload.len());
        let lines: String = messages.into_iter().map(line).collect();
        self.write(&lines)
    }

    /// Returns when the server has worked through everything that was sent. An error of the server is an error here.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.write("PING\r\n")?;
        let deadline = Instant::now() + ANSWER_LIMIT;
        loop {
            match self.read_event(deadline)? {
                Some(Event::Pong) => return Ok(()),
                Some(Event::Error(text)) => bail!("the server refused: {text}"),
                Some(Event::Closed) => bail!("the server closed the connection"),
                Some(event) => self.skipped.push_back(event),
                None => bail!("the server did not answer within {} s", ANSWER_LIMIT.as_secs()),
            }
        }
    }

    /// The next event, or none within the time.
    pub(crate) fn next(&mut self, limit: Duration) -> Result<Option<Event>> {
        match self.skipped.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.read_event(Instant::now() + limit),
        }
    }

    /// Reads until an event that is wanted; all before it are dropped.
    pub(crate) fn await_event(&mut self, limit: Duration, wanted: impl Fn(&Event) -> bool) -> Result<Event> {
        let deadline = Instant::now() + limit;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.next(rest)? {
                Some(event) if wanted(&event) => return Ok(event),
                Some(Event::Closed) => bail!("the connection ended before the event that was waited for"),
                Some(_) => {}
                None => bail!("the event that was waited for did not come within {} s", limit.as_secs()),
            }
        }
    }

    /// Whether an information about lame duck lies among the events that were passed over.
    pub(crate) fn was_sent_away(&self) -> bool {
        self.skipped.iter().any(is_farewell)
    }

    fn read_event(&mut self, deadline: Instant) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.take_event()? {
                return Ok(Some(event));
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(rest))?;
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Some(Event::Closed)),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    return Ok(Some(Event::Closed));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes one complete event from what was received. Pings are answered on the way.
    fn take_event(&mut self) -> Result<Option<Event>> {
        while let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&self.received[..end]).into_owned();
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let mut used = end + 2;
            let event = match word {
                "MSG" => {
                    let words: Vec<&str> = rest.split(' ').collect();
                    let length: usize = words.last().copied().unwrap_or_default().parse()?;
                    let Some(payload) = self.received.get(used..used + length) else {
                        return Ok(None);
                    };
                    if self.received.len() < used + length + 2 {
                        return Ok(None);
                    }
                    let payload = String::from_utf8_lossy(payload).into_owned();
                    used += length + 2;
                    Some(Event::Message(words[0].to_owned(), payload))
                }
                "INFO" => Some(Event::Info(serde_json::from_str(rest)?)),
                "PONG" => Some(Event::Pong),
                "-ERR" => Some(Event::Error(rest.trim_matches('\'').to_owned())),
                "PING" | "+OK" => None,
                _ => bail!("the server sent {line:?}"),
            };
            self.received.drain(..used);
            if word == "PING" {
                // A connection that is ending is noticed by the next read.
                let _ = self.write("PONG\r\n");
            }
            if event.is_some() {
                return Ok(event);
            }
        }
        ensure!(self.received.len() < 1 << 20, "the server sent a line without an end");
        Ok(None)
    }
}

/// Whether an event tells the client to go elsewhere.
pub(crate) fn is_farewell(event: &Event) -> bool {
    matches!(event, Event::Info(info) if info["ldm"] == true)
}
