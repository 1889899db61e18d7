//! A plain blocking connection to a server: handshake, lines, and the counting of a flood of messages.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::frames::Expected;

/// No server answer takes longer than this; a case that waits longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a subscriber waits in one read before it looks whether it has been told to stop.
const READ_SLICE: Duration = Duration::from_millis(50);
/// A control line of the server (INFO is the longest) fits in this.
const LINE_BYTES: usize = 64 * 1024;
/// Room for one read of a subscriber.
const FLOOD_BYTES: usize = 256 * 1024;

const CONNECT: &str = concat!(
    r#"CONNECT {"verbose":false,"pedantic":false,"name":"bench","lang":"rust","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","protocol":1,"echo":true,"headers":true,"no_responders":true}"#,
    "\r\nPING\r\n"
);

/// A connection that has finished its handshake.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    consumed: usize,
}

impl Client {
    /// Connects, sends CONNECT and PING, and waits for PONG.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut client = Self { stream, buffer: Vec::with_capacity(2048), consumed: 0 };
        client.send(CONNECT.as_bytes())?;
        client.await_pong().context("handshake")?;
        Ok(client)
    }

    /// Writes all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let Err(cause) = self.stream.write_all(bytes) else { return Ok(()) };
        // The server's last words say more than the broken pipe.
        while let Ok(line) = self.line() {
            if line.starts_with("-ERR") {
                bail!("server closed the connection: {line}");
            }
        }
        Err(cause).context("cannot send")
    }

    /// Sends PING and waits for PONG: the server has then read all that was sent before.
    pub(crate) fn round_trip(&mut self) -> Result<()> {
        self.send(b"PING\r\n")?;
        self.await_pong()
    }

    fn await_pong(&mut self) -> Result<()> {
        loop {
            match self.line()?.as_str() {
                "PONG" => return Ok(()),
                line if line.starts_with("INFO ") => {}
                "PING" => self.send(b"PONG\r\n")?,
                line => bail!("unexpected answer: {line}"),
            }
        }
    }

    /// The next line without its end.
    fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.buffer[self.consumed..].iter().position(|byte| *byte == b'\n') {
                let line = &self.buffer[self.consumed..self.consumed + end];
                let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
                self.consumed += end + 1;
                return Ok(line);
            }
            ensure!(self.buffer.len() - self.consumed < LINE_BYTES, "line longer than {LINE_BYTES} bytes");
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.consumed);
        self.consumed = 0;
        let mut chunk = [0; 4096];
        let read = self.stream.read(&mut chunk).context("no answer")?;
        ensure!(read > 0, "connection closed by the server");
        self.buffer.extend_from_slice(&chunk[..read]);
        Ok(())
    }

    /// The next `MSG`: its reply subject and its payload. Answers PING on the way.
    pub(crate) fn message(&mut self) -> Result<(Option<String>, Vec<u8>)> {
        loop {
            let line = self.line()?;
            let mut words = line.split(' ');
            match words.next() {
                Some("PING") => self.send(b"PONG\r\n")?,
                Some("INFO") => {}
                Some("MSG") => {
                    let words: Vec<&str> = words.collect();
                    let (reply, size) = match words[..] {
                        [_, _, size] => (None, size),
                        [_, _, reply, size] => (Some(reply.to_owned()), size),
                        _ => bail!("malformed line: {line}"),
                    };
                    let size: usize = size.parse().with_context(|| format!("size in {line}"))?;
                    return Ok((reply, self.take(size)?));
                }
                _ => bail!("unexpected line: {line}"),
            }
        }
    }

    fn take(&mut self, size: usize) -> Result<Vec<u8>> {
        while self.buffer.len() - self.consumed < size + 2 {
            self.fill()?;
        }
        let payload = self.buffer[self.consumed..self.consumed + size].to_vec();
        self.consumed += size + 2;
        Ok(payload)
    }

    /// Gives the connection up to the caller as a bare socket, without a buffer.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// A second handle, by which another thread can end a blocked read.
    pub(crate) fn handle(&self) -> Result<TcpStream> {
        Ok(self.stream.try_clone()?)
    }
}

/// A connection that only counts messages of one fixed form.
pub(crate) struct Counter {
    stream: TcpStream,
    expected: Expected,
    buffer: Box<[u8]>,
    filled: usize,
}

impl Counter {
    /// Takes over a client that has subscribed and has nothing unread.
    pub(crate) fn new(client: Client, expected: Expected) -> Result<Self> {
        let unread = client.buffer.len() - client.consumed;
        ensure!(unread == 0, "{unread} bytes unread before the case began");
        let stream = client.into_stream();
        stream.set_read_timeout(Some(READ_SLICE))?;
        assert!(expected.length() < FLOOD_BYTES, "a frame of {} bytes has no room", expected.length());
        Ok(Self { stream, expected, buffer: vec![0; FLOOD_BYTES].into_boxed_slice(), filled: 0 })
    }

    /// Bytes of one message on this connection.
    pub(crate) fn frame_length(&self) -> usize {
        self.expected.length()
    }

    /// Reads once and returns the number of messages; `None` when nothing came in time.
    pub(crate) fn read(&mut self) -> Result<Option<u64>> {
        let read = match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => bail!("connection closed by the server"),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error).context("cannot read"),
        };
        let end = self.filled + read;
        let found = self.expected.scan(&self.buffer[..end])?;
        self.buffer.copy_within(found.consumed..end, 0);
        self.filled = end - found.consumed;
        for _ in 0..found.pings {
            self.stream.write_all(b"PONG\r\n")?;
        }
        Ok(Some(found.messages))
    }
}
