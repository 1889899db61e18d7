//! A connection to one server for requests.
//!
//! Not a general client on purpose: it connects to exactly the address it was given, never follows addresses that a
//! server advertises, never reconnects, and bounds everything it reads. A hostile server can waste one request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::document;

/// Longest protocol line taken from a server; an INFO with many addresses is the longest there is.
pub(super) const LINE_LENGTH_MAX: u64 = 256 * 1024;
/// Largest message taken from a server.
pub(super) const MESSAGE_LENGTH_MAX: usize = 8 * 1024 * 1024;
/// How long a server that speaks plainly may take to say INFO before the handshake is tried first.
pub(super) const INFO_WAIT: Duration = Duration::from_millis(800);
/// Lines between a request and its answer: keep-alive and INFO, never many.
const LINES_MAX: usize = 64;

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network.
    #[error("connection: {0}")]
    Io(#[from] std::io::Error),
    /// Nothing came in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server refused something, in its own words.
    #[error("server: {0}")]
    Refused(String),
    /// What came was not the protocol.
    #[error("unexpected answer `{0}`")]
    Protocol(String),
    /// The server does not encrypt although it should.
    #[error("the server does not offer TLS")]
    Plain,
    /// Nobody listens on the subject: the server is still starting, or is not ours.
    #[error("nobody answers `{0}`")]
    NoResponders(String),
    /// The login cannot be used.
    #[error("login: {0}")]
    Login(&'static str),
    /// There is no connection.
    #[error("not connected: {0}")]
    Unreachable(String),
    /// The server does not let this user do that, in its own words.
    #[error("server: {0}")]
    Denied(String),
    /// More requests are on their way than are allowed at a time.
    #[error("too many requests at a time")]
    Busy,
    /// Something in the answer was not what it should be.
    #[error("answer: {0}")]
    Decode(#[from] serde_json::Error),
}

impl Error {
    /// The error for people who chose the address themselves: what came from it is not shown, or whoever may write an object could read
    /// from any port that the operator reaches.
    #[must_use]
    pub fn public(&self) -> String {
        match self {
            Self::Protocol(_) | Self::Decode(_) => {
                "what answers there does not speak as a NATS server does".to_owned()
            }
            Self::Refused(text) | Self::Denied(text) => {
                let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
                format!("the server says: {text}")
            }
            other => other.to_string(),
        }
    }
}

/// How the connection is encrypted, when the server offers it.
#[derive(Clone)]
pub struct Tls {
    /// Trust and the own certificate.
    pub config: Arc<ClientConfig>,
    /// Name that the server's certificate must be for.
    pub server_name: ServerName<'static>,
    /// Refuse a server that does not encrypt.
    pub required: bool,
}

/// Where to connect and as whom.
#[derive(Clone)]
pub struct Target {
    /// Address of the server.
    pub address: SocketAddr,
    /// Encryption.
    pub tls: Option<Tls>,
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// Longest time for each step.
    pub timeout: Duration,
}

/// How a server introduces itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Info {
    pub(super) server_id: String,
    pub(super) server_name: String,
    pub(super) version: String,
    pub(super) cluster: String,
    pub(super) jetstream: bool,
    pub(super) domain: String,
    pub(super) nonce: String,
    pub(super) tls_required: bool,
    pub(super) tls_available: bool,
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection on which one request at a time is sent.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    server_id: String,
    inbox: String,
    requests: u64,
    timeout: Duration,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// When the server cannot be reached, is not trusted, or refuses the login.
    pub async fn open(target: &Target, inbox_prefix: &str) -> Result<Self, Error> {
        timeout(target.timeout, Self::open_without_limit(target, inbox_prefix))
            .await
            .map_err(|_| Error::Timeout(target.timeout))?
    }

    async fn open_without_limit(target: &Target, inbox_prefix: &str) -> Result<Self, Error> {
        let tcp = TcpStream::connect(target.address).await?;
        tcp.set_nodelay(true)?;
        let (stream, info) = greet(tcp, target).await?;
        let token: u64 = rand::random();
        let mut connection = Self {
            stream,
            server_id: info.server_id,
            inbox: format!("{inbox_prefix}.{token:016x}"),
            requests: 0,
            timeout: target.timeout,
        };
        connection.log_in(target).await?;
        Ok(connection)
    }

    /// Identity of the process at the other end.
    #[must_use]
    pub fn server_id(&self) -> &str {
        &self.server_id
    }

    async fn log_in(&mut self, target: &Target) -> Result<(), Error> {
        let mut connect = introduction(false);
        connect.insert("user".to_owned(), target.user.as_str().into());
        connect.insert("pass".to_owned(), target.password.as_str().into());
        let connect = Value::Object(connect);
        let lines = format!("CONNECT {connect}\r\nSUB {}.* 1\r\nPING\r\n", self.inbox);
        self.write(lines.as_bytes()).await?;
        for _ in 0..LINES_MAX {
            match self.line().await?.as_str() {
                "PONG" => return Ok(()),
                line => self.housekeeping(line).await?,
            }
        }
        Err(Error::Protocol("no PONG".to_owned()))
    }

    /// Sends a request and returns the first answer.
    ///
    /// # Errors
    /// When nothing comes in time or the server refuses.
    pub async fn request(&mut self, subject: &str, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let limit = self.timeout;
        timeout(limit, self.request_without_limit(subject, payload))
            .await
            .map_err(|_| Error::Timeout(limit))?
    }

    async fn request_without_limit(&mut self, subject: &str, payload: &[u8]) -> Result<Vec<u8>, Error> {
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        let mut frame = format!("PUB {subject} {reply} {}\r\n", payload.len()).into_bytes();
        frame.extend_from_slice(payload);
        frame.extend_from_slice(b"\r\n");
        self.write(&frame).await?;
        for _ in 0..LINES_MAX {
            let line = self.line().await?;
            let Some(message) = self.message(&line).await? else {
                self.housekeeping(&line).await?;
                continue;
            };
            if message.no_responders {
                return Err(Error::NoResponders(subject.to_owned()));
            }
            // An answer to an earlier request that came too late is of no use to anybody.
            if message.subject == reply {
                return Ok(message.payload);
            }
        }
        Err(Error::Protocol("no answer among many lines".to_owned()))
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.get_mut().write_all(bytes).await?;
        self.stream.get_mut().flush().await?;
        Ok(())
    }

    async fn line(&mut self) -> Result<String, Error> {
        read_line(&mut self.stream).await
    }

    /// Lines that come by themselves.
    async fn housekeeping(&mut self, line: &str) -> Result<(), Error> {
        if line == "PING" {
            return self.write(b"PONG\r\n").await;
        }
        if line == "PONG" || line == "+OK" || line.starts_with("INFO ") {
            return Ok(());
        }
        Err(refusal(line))
    }

    /// Reads the rest of a message whose first line this is; `None` for any other line.
    async fn message(&mut self, line: &str) -> Result<Option<Message>, Error> {
        let mut words = line.split_ascii_whitespace();
        let with_headers = match words.next() {
            Some("MSG") => false,
            Some("HMSG") => true,
            _ => return Ok(None),
        };
        let words: Vec<&str> = words.collect();
        let malformed = || unexpected(line);
        let number = |at: usize| -> Result<usize, Error> {
            let text =
                words.len().checked_sub(at).and_then(|index| words.get(index)).ok_or_else(malformed)?;
            text.parse().ok().filter(|size| *size <= MESSAGE_LENGTH_MAX).ok_or_else(malformed)
        };
        let total = number(1)?;
        let header_size = if with_headers { number(2)? } else { 0 };
        let subject = (*words.first().ok_or_else(malformed)?).to_owned();
        let mut bytes = vec![0; total + 2];
        self.stream.read_exact(&mut bytes).await?;
        bytes.truncate(total);
        if header_size > total {
            return Err(malformed());
        }
        let payload = bytes.split_off(header_size);
        let no_responders = bytes.starts_with(b"NATS/1.0 503");
        Ok(Some(Message { subject, payload, no_responders }))
    }
}

struct Message {
    subject: String,
    payload: Vec<u8>,
    no_responders: bool,
}

/// Waits for INFO and encrypts. A server that expects the handshake first says nothing, which is how it is recognised.
async fn greet(tcp: TcpStream, target: &Target) -> Result<(BufReader<Box<dyn Stream>>, Info), Error> {
    let Some(tls) = &target.tls else {
        let mut stream = boxed(tcp);
        let info = read_info(&mut stream).await?;
        return Ok((stream, info));
    };
    let silent = timeout(INFO_WAIT, tcp.readable()).await.is_err();
    if silent {
        let mut stream = boxed(handshake(tcp, tls).await?);
        let info = read_info(&mut stream).await?;
        return Ok((stream, info));
    }
    let mut plain = BufReader::with_capacity(1, tcp);
    let info = parse_info(&read_line(&mut plain).await?)?;
    if info.tls_required {
        // With a buffer of one byte nothing behind the line was taken from the socket.
        return Ok((boxed(handshake(plain.into_inner(), tls).await?), info));
    }
    if tls.required {
        return Err(Error::Plain);
    }
    Ok((boxed(plain.into_inner()), info))
}

pub(super) fn boxed(stream: impl Stream + 'static) -> BufReader<Box<dyn Stream>> {
    BufReader::new(Box::new(stream))
}

pub(super) async fn handshake(tcp: TcpStream, tls: &Tls) -> Result<impl Stream + 'static, Error> {
    Ok(TlsConnector::from(Arc::clone(&tls.config)).connect(tls.server_name.clone(), tcp).await?)
}

pub(super) async fn read_info<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> Result<Info, Error> {
    parse_info(&read_line(stream).await?)
}

pub(super) fn parse_info(line: &str) -> Result<Info, Error> {
    match line.strip_prefix("INFO ") {
        Some(document) => Ok(document::parse(document.as_bytes())?),
        None => Err(unexpected(line)),
    }
}

/// What the operator says of itself when it connects, without its login.
pub(super) fn introduction(echo: bool) -> Map<String, Value> {
    let members: [(&str, Value); 9] = [
        ("verbose", false.into()),
        ("pedantic", false.into()),
        ("echo", echo.into()),
        ("headers", true.into()),
        ("no_responders", true.into()),
        ("name", "myelin-operator".into()),
        ("lang", "rust".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("protocol", 1.into()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The error for a line that is none of those that were expected: what the server refuses, or no protocol.
pub(super) fn refusal(line: &str) -> Error {
    match line.strip_prefix("-ERR ") {
        Some(text) => Error::Refused(text.trim_matches('\'').to_owned()),
        None => unexpected(line),
    }
}

/// The error for a line that is not the protocol; its beginning is enough.
pub(super) fn unexpected(line: &str) -> Error {
    Error::Protocol(line.chars().take(80).collect())
}

/// One line without its end.
pub(super) async fn read_line<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> Result<String, Error> {
    let mut bytes = Vec::new();
    (&mut *stream).take(LINE_LENGTH_MAX).read_until(b'\n', &mut bytes).await?;
    if bytes.last() != Some(&b'\n') {
        let problem =
            if bytes.is_empty() { "the server closed the connection" } else { "a line without end" };
        return Err(Error::Protocol(problem.to_owned()));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A server of one connection that answers each line it knows.
    async fn serve(answers: &'static [(&'static str, &'static str)]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(socket);
            stream.get_mut().write_all(b"INFO {\"server_id\":\"S1\"}\r\n").await.unwrap();
            let mut inbox = String::new();
            while let Ok(line) = read_line(&mut stream).await {
                if line.starts_with("PUB ") {
                    inbox = line.split(' ').nth(2).unwrap_or_default().to_owned();
                }
                let answer =
                    answers.iter().find(|(start, _)| line.starts_with(start)).map_or("", |(_, text)| text);
                let answer = answer.replace("REPLY", &inbox);
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    fn target(address: SocketAddr) -> Target {
        Target {
            address,
            tls: None,
            user: "u".to_owned(),
            password: "p".to_owned(),
            timeout: Duration::from_secs(2),
        }
    }

    async fn ask(answers: &'static [(&'static str, &'static str)]) -> Result<String, Error> {
        let mut connection = Connection::open(&target(serve(answers).await), "_I").await?;
        assert_eq!(connection.server_id(), "S1");
        let answer = connection.request("a.b", b"hello").await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    #[tokio::test]
    async fn an_answer_is_found_among_keep_alive_and_late_answers() {
        let answers = &[
            ("PING", "PONG\r\n"),
            ("PUB", "PING\r\nINFO {}\r\nMSG other 1 2\r\nxx\r\nHMSG REPLY 1 12 14\r\nNATS/1.0\r\n\r\nok\r\n"),
        ];
        assert_eq!(ask(answers).await.unwrap(), "ok");
    }

    #[tokio::test]
    async fn refusals_come_in_the_words_of_the_server() {
        let answers = &[("PING", "-ERR 'Authorization Violation'\r\n")];
        assert!(matches!(ask(answers).await, Err(Error::Refused(text)) if text == "Authorization Violation"));
    }

    #[tokio::test]
    async fn nobody_there_is_its_own_answer() {
        let answers = &[("PING", "PONG\r\n"), ("PUB", "HMSG REPLY 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")];
        assert!(matches!(ask(answers).await, Err(Error::NoResponders(_))));
    }

    #[tokio::test]
    async fn sizes_above_the_bound_are_refused() {
        let answers = &[("PING", "PONG\r\n"), ("PUB", "MSG REPLY 1 999999999\r\n")];
        assert!(matches!(ask(answers).await, Err(Error::Protocol(_))));
    }
}
