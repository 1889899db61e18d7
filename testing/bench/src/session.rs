//! A blocking connection that reads messages of every form, with headers or without, and asks the JetStream API.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::client::{Client, PATIENCE};
use crate::frames::publish;

/// Room for one read, and the most a single message may have.
const READ_BYTES: usize = 512 * 1024;
/// Words of a control line: `HMSG subject sid reply headers total`.
const WORDS_MAX: usize = 6;

/// A message as it lies in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) subject: &'a [u8],
    pub(crate) reply: Option<&'a [u8]>,
    /// With the version line; empty when there are none.
    pub(crate) headers: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The number and text after `NATS/1.0 `, which only messages of the server itself have.
    pub(crate) fn status(&self) -> Option<&'a [u8]> {
        let line = self.headers.strip_prefix(b"NATS/1.0 ")?;
        line.split(|byte| *byte == b'\r').next()
    }
}

/// A connection with one wildcard subscription below its own inbox.
pub(crate) struct Session {
    stream: TcpStream,
    inbox: String,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    pongs: u64,
    /// Besides that of the inbox.
    subscriptions: u64,
}

impl Session {
    /// Connects and subscribes to everything below `inbox()`.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let mut client = Client::connect(address)?;
        let stream = client.handle()?;
        // The port is this connection's alone as long as it lives, so the inbox is too; and it is as long as clients have it.
        let inbox = format!("_INBOX.Qh7vT2kLx0aWcRn4Y{:05}", stream.local_addr()?.port());
        client.send(format!("SUB {inbox}.* 1\r\n").as_bytes())?;
        client.round_trip()?;
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        Ok(Self { stream: client.into_stream(), inbox, buffer, start: 0, end: 0, pongs: 0, subscriptions: 0 })
    }

    /// The prefix of this connection's reply subjects; one token follows.
    pub(crate) fn inbox(&self) -> &str {
        &self.inbox
    }

    /// Subscribes to `name` below the inbox and returns the subject. A push consumer needs a subscription of this very subject:
    /// the reference takes no notice of a wildcard.
    pub(crate) fn subscribe(&mut self, name: &str) -> Result<String> {
        let subject = format!("{}.push.{name}", self.inbox);
        self.subscriptions += 1;
        self.send(format!("SUB {subject} {}\r\n", 1 + self.subscriptions).as_bytes())?;
        self.round_trip()?;
        Ok(subject)
    }

    /// Writes all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("cannot send")
    }

    /// Waits until there is at least one message and hands over all that are whole; returns their number.
    pub(crate) fn read(&mut self, visit: impl FnMut(Frame<'_>) -> Result<()>) -> Result<u64> {
        let mut visit = visit;
        loop {
            let seen = self.drain(&mut visit)?;
            if seen > 0 {
                return Ok(seen);
            }
            self.fill()?;
        }
    }

    /// Sends PING and waits for its PONG: the server has then read all that was sent before. Messages are skipped.
    pub(crate) fn round_trip(&mut self) -> Result<()> {
        let before = self.pongs;
        self.send(b"PING\r\n")?;
        while self.pongs == before {
            self.drain(&mut |_| Ok(()))?;
            if self.pongs == before {
                self.fill()?;
            }
        }
        Ok(())
    }

    /// Asks the API and returns its answer, which must not be an error. Other messages are skipped.
    pub(crate) fn request(&mut self, subject: &str, payload: &str) -> Result<Value> {
        let answer = self.ask(subject, payload)?;
        ensure!(answer.get("error").is_none(), "{subject} {payload}: {answer}");
        Ok(answer)
    }

    /// Asks the API and returns its answer, be it an error or not.
    pub(crate) fn ask(&mut self, subject: &str, payload: &str) -> Result<Value> {
        let reply = format!("{}.api", self.inbox);
        self.send(&publish(subject, Some(&reply), payload.as_bytes()))?;
        let mut answer = None;
        while answer.is_none() {
            self.read(|frame| {
                if frame.subject == reply.as_bytes() {
                    ensure!(frame.status().is_none(), "{subject}: nobody answers; is JetStream enabled?");
                    answer = Some(serde_json::from_slice(frame.payload)?);
                }
                Ok(())
            })
            .with_context(|| subject.to_owned())?;
        }
        answer.context("no answer")
    }

    /// Asks the API until `right` says yes; returns that answer. Ends with the last answer after `patience`.
    pub(crate) fn await_answer(
        &mut self,
        subject: &str,
        patience: Duration,
        right: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let started = Instant::now();
        loop {
            let answer = self.ask(subject, "")?;
            if right(&answer) {
                return Ok(answer);
            }
            ensure!(started.elapsed() < patience, "{subject} after {patience:?}: {answer}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn drain(&mut self, visit: &mut impl FnMut(Frame<'_>) -> Result<()>) -> Result<u64> {
        let mut seen = 0;
        while let Some((piece, length)) = parse(&self.buffer[self.start..self.end])? {
            match piece {
                Piece::Message(frame) => {
                    visit(frame)?;
                    seen += 1;
                }
                Piece::Ping => self.stream.write_all(b"PONG\r\n")?,
                Piece::Pong => self.pongs += 1,
                Piece::Info => {}
            }
            self.start += length;
        }
        Ok(seen)
    }

    fn fill(&mut self) -> Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        ensure!(self.end < self.buffer.len(), "a message has more than {READ_BYTES} bytes");
        match self.stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => bail!("connection closed by the server"),
            Ok(read) => self.end += read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("nothing came for {PATIENCE:?}")
            }
            Err(error) => return Err(error).context("cannot read"),
        }
        Ok(())
    }
}

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Message(Frame<'a>),
    Ping,
    Pong,
    Info,
}

/// The piece at the front of the buffer and its length; `None` when it is not whole yet.
fn parse(buffer: &[u8]) -> Result<Option<(Piece<'_>, usize)>> {
    let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
    let plain = |piece| Ok(Some((piece, end + 1)));
    match line.first() {
        Some(b'M' | b'H') => {}
        Some(b'P') if line == b"PING" => return plain(Piece::Ping),
        Some(b'P') if line == b"PONG" => return plain(Piece::Pong),
        Some(b'I') => return plain(Piece::Info),
        _ => bail!("unexpected line: {}", String::from_utf8_lossy(&line[..line.len().min(200)])),
    }
    let mut words = [line; WORDS_MAX];
    let mut count = 0;
    for word in line.split(|byte| *byte == b' ') {
        ensure!(count < WORDS_MAX, "malformed line: {}", String::from_utf8_lossy(line));
        words[count] = word;
        count += 1;
    }
    let (subject, reply, headers, total) = match (words[0], count) {
        (b"MSG", 4) => (words[1], None, 0, number(words[3])?),
        (b"MSG", 5) => (words[1], Some(words[3]), 0, number(words[4])?),
        (b"HMSG", 5) => (words[1], None, number(words[3])?, number(words[4])?),
        (b"HMSG", 6) => (words[1], Some(words[3]), number(words[4])?, number(words[5])?),
        _ => bail!("malformed line: {}", String::from_utf8_lossy(line)),
    };
    ensure!(headers <= total, "malformed line: {}", String::from_utf8_lossy(line));
    let body = end + 1;
    if buffer.len() < body + total + 2 {
        return Ok(None);
    }
    let (headers, payload) = buffer[body..body + total].split_at(headers);
    Ok(Some((Piece::Message(Frame { subject, reply, headers, payload }), body + total + 2)))
}

fn number(digits: &[u8]) -> Result<usize> {
    let text = std::str::from_utf8(digits)?;
    text.parse().with_context(|| format!("size {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_form_are_read_wherever_the_read_ends() {
        let bytes =
            b"MSG a.b 1 3\r\nxyz\r\nMSG a 1 r.1 0\r\n\r\nPING\r\nHMSG a 2 12 15\r\nNATS/1.0\r\n\r\nabc\r\n\
            PONG\r\nINFO {}\r\nHMSG a 2 r 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n";
        let mut rest = &bytes[..];
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (_, length) = parse(rest).unwrap().unwrap();
            for cut in 0..length {
                assert_eq!(parse(&rest[..cut]).unwrap(), None, "cut at {cut}");
            }
            pieces.push(parse(rest).unwrap().unwrap().0);
            rest = &rest[length..];
        }
        assert_eq!(pieces.len(), 7);
        let Piece::Message(with_headers) = &pieces[3] else { panic!("{pieces:?}") };
        assert_eq!((with_headers.headers, with_headers.payload), (&b"NATS/1.0\r\n\r\n"[..], &b"abc"[..]));
        assert_eq!(with_headers.status(), None);
        let Piece::Message(status) = &pieces[6] else { panic!("{pieces:?}") };
        assert_eq!(status.status(), Some(&b"404 No Messages"[..]));
        assert_eq!(status.reply, Some(&b"r"[..]));
        for wrong in
            ["-ERR 'no'\r\n", "MSG a 1\r\n", "MSG a 1 r x\r\n", "HMSG a 1 5 3\r\n", "MSG a 1 2 3 4 5\r\n"]
        {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
