//! What every connection to a server begins with: TCP, encryption, the introduction and the login; and how its lines are read.
//!
//! It goes to the addresses it is given and never to those that a server advertises, says nothing secret before it knows who listens, and
//! bounds everything it reads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::client::Error;
use super::document;
use super::login::Login;

/// Longest protocol line taken from a server; an INFO with many addresses is the longest there is.
pub(super) const LINE_LENGTH_MAX: u64 = 256 * 1024;
/// Largest message taken from a server.
pub(super) const MESSAGE_LENGTH_MAX: usize = 8 * 1024 * 1024;
/// How long a server that speaks plainly may take to say INFO before the handshake is tried first.
const INFO_WAIT: Duration = Duration::from_millis(800);
/// Lines between the login and its confirmation: keep-alive and INFO, never many.
const GREETING_LINES_MAX: usize = 64;
/// Subscription of answers.
pub(super) const INBOX: &str = "1";

/// How the connection is encrypted.
#[derive(Clone)]
pub struct Tls {
    /// Trust and the own certificate.
    pub config: Arc<ClientConfig>,
    /// Name that the server's certificate must be for; `None` when the host can be none.
    pub server_name: Option<ServerName<'static>>,
    /// When.
    pub when: When,
}

/// When a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// If the server asks for it.
    Asked,
    /// The same, or if it waits for that without a word.
    Expected,
    /// In any case: a server that does not encrypt is refused.
    Required,
    /// Before the server has said anything.
    First,
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

/// A connection that is logged in and subscribed to its inbox.
pub(super) struct Link {
    pub(super) stream: BufReader<Box<dyn Stream>>,
    pub(super) info: Info,
    /// Beginning of the subjects of answers.
    pub(super) inbox: String,
}

impl Link {
    /// Connects to the first address that answers, and logs in.
    pub(super) async fn open(
        addresses: &[SocketAddr],
        tls: Option<&Tls>,
        login: &Login,
        inbox_prefix: &str,
    ) -> Result<Self, Error> {
        let tcp = TcpStream::connect(addresses).await?;
        tcp.set_nodelay(true)?;
        let (stream, info) = greet(tcp, tls).await?;
        let inbox = format!("{inbox_prefix}.{:016x}", rand::random::<u64>());
        let mut link = Self { stream, info, inbox };
        link.log_in(login).await?;
        Ok(link)
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Error> {
        let mut connect = json!({
            "verbose": false, "pedantic": false, "echo": true, "headers": true, "no_responders": true,
            "name": "myelin-operator", "lang": "rust", "version": env!("CARGO_PKG_VERSION"), "protocol": 1,
        });
        for (name, value) in login.members(&self.info.nonce)? {
            connect[name] = value;
        }
        let lines = format!("CONNECT {connect}\r\nSUB {}.* {INBOX}\r\nPING\r\n", self.inbox);
        self.write(lines.as_bytes()).await?;
        for _ in 0..GREETING_LINES_MAX {
            let line = read_line(&mut self.stream).await?;
            if line == "PONG" {
                return Ok(());
            }
            self.keep(&line).await?;
        }
        Err(Error::Protocol("no PONG".to_owned()))
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Does what a line asks for that came by itself.
    pub(super) async fn keep(&mut self, line: &str) -> Result<(), Error> {
        match reply_to(line)? {
            Some(reply) => self.write(reply).await,
            None => Ok(()),
        }
    }
}

/// Waits for INFO and encrypts. A server that expects the handshake first says nothing, which is how it is recognised.
async fn greet(tcp: TcpStream, tls: Option<&Tls>) -> Result<(BufReader<Box<dyn Stream>>, Info), Error> {
    let when = tls.map_or(When::Asked, |tls| tls.when);
    let first = match when {
        When::First => true,
        When::Asked => false,
        When::Expected | When::Required => timeout(INFO_WAIT, tcp.readable()).await.is_err(),
    };
    if let Some(tls) = tls.filter(|_| first) {
        let mut stream = encrypted(tcp, tls).await?;
        let info = parse_info(&read_line(&mut stream).await?)?;
        return Ok((stream, info));
    }
    // With a buffer of one byte nothing behind the line is taken from the socket.
    let mut plain = BufReader::with_capacity(1, tcp);
    let info = parse_info(&read_line(&mut plain).await?)?;
    let tcp = plain.into_inner();
    let required = when == When::Required;
    match tls {
        Some(tls) if info.tls_required || (required && info.tls_available) => {
            Ok((encrypted(tcp, tls).await?, info))
        }
        _ if required => Err(Error::Plain),
        _ => Ok((BufReader::new(Box::new(tcp)), info)),
    }
}

async fn encrypted(tcp: TcpStream, tls: &Tls) -> Result<BufReader<Box<dyn Stream>>, Error> {
    let name = tls
        .server_name
        .clone()
        .ok_or_else(|| Error::Unreachable("the host is no name of a certificate".to_owned()))?;
    let stream = TlsConnector::from(Arc::clone(&tls.config)).connect(name, tcp).await?;
    Ok(BufReader::new(Box::new(stream)))
}

fn parse_info(line: &str) -> Result<Info, Error> {
    match line.strip_prefix("INFO ") {
        Some(document) => Ok(document::parse(document.as_bytes())?),
        None => Err(unexpected(line)),
    }
}

/// What is to be said to a line that came by itself.
pub(super) fn reply_to(line: &str) -> Result<Option<&'static [u8]>, Error> {
    match line {
        "PING" => Ok(Some(b"PONG\r\n")),
        "PONG" | "+OK" => Ok(None),
        line if line.starts_with("INFO ") => Ok(None),
        line => match line.strip_prefix("-ERR ") {
            Some(text) => Err(Error::Refused(text.trim_matches('\'').to_owned())),
            None => Err(unexpected(line)),
        },
    }
}

/// The error for a line that is not the protocol; its beginning is enough.
fn unexpected(line: &str) -> Error {
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

/// The first line of a message.
pub(super) struct Head<'a> {
    pub(super) subject: &'a str,
    pub(super) sid: &'a str,
    headers: usize,
    total: usize,
}

impl<'a> Head<'a> {
    /// Reads the line; `None` for any other.
    pub(super) fn parse(line: &'a str) -> Result<Option<Self>, Error> {
        let words: Vec<&str> = line.split_ascii_whitespace().take(7).collect();
        let malformed = || unexpected(line);
        let size =
            |text: &str| text.parse().ok().filter(|size| *size <= MESSAGE_LENGTH_MAX).ok_or_else(malformed);
        let (subject, sid, headers, total) = match words[..] {
            ["MSG", subject, sid, total] | ["MSG", subject, sid, _, total] => (subject, sid, 0, size(total)?),
            ["HMSG", subject, sid, headers, total] | ["HMSG", subject, sid, _, headers, total] => {
                (subject, sid, size(headers)?, size(total)?)
            }
            ["MSG" | "HMSG", ..] => return Err(malformed()),
            _ => return Ok(None),
        };
        if headers > total {
            return Err(malformed());
        }
        Ok(Some(Self { subject, sid, headers, total }))
    }

    /// Reads what follows: the payload, or `None` when it says that nobody is there to answer.
    pub(super) async fn payload(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = vec![0; self.total + 2];
        stream.read_exact(&mut bytes).await?;
        bytes.truncate(self.total);
        let payload = bytes.split_off(self.headers);
        Ok((!bytes.starts_with(b"NATS/1.0 503")).then_some(payload))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use rustls::ServerConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::cluster::tls;
    use crate::nats::trust;

    /// What a server does before a client has said anything.
    #[derive(Clone, Copy, Debug)]
    enum Manner {
        Plain,
        Offers,
        Demands,
        WaitsForTheHandshake,
    }

    /// Serves one connection, and says whether its login came encrypted.
    async fn serve(manner: Manner, acceptor: TlsAcceptor) -> (SocketAddr, tokio::task::JoinHandle<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let info = match manner {
                Manner::Plain => "{}",
                Manner::Offers => r#"{"tls_available":true}"#,
                Manner::Demands | Manner::WaitsForTheHandshake => r#"{"tls_required":true}"#,
            };
            let info = format!("INFO {info}\r\n");
            if !matches!(manner, Manner::WaitsForTheHandshake) {
                socket.write_all(info.as_bytes()).await.unwrap();
            }
            // A handshake begins with this byte, and a login does not.
            let mut first = [0];
            let handshake = matches!(socket.peek(&mut first).await, Ok(1)) && first[0] == 22;
            let mut stream: BufReader<Box<dyn Stream>> = if handshake {
                BufReader::new(Box::new(acceptor.accept(socket).await.unwrap()))
            } else {
                BufReader::new(Box::new(socket))
            };
            if matches!(manner, Manner::WaitsForTheHandshake) {
                stream.write_all(info.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
            }
            while let Ok(line) = read_line(&mut stream).await {
                assert!(!line.starts_with("CONNECT ") || line.contains(r#""pass":"secret""#), "{line}");
                if line == "PING" {
                    stream.write_all(b"+OK\r\nPING\r\nINFO {}\r\nPONG\r\n").await.unwrap();
                    stream.flush().await.unwrap();
                }
                if line == "PONG" {
                    return handshake;
                }
            }
            panic!("no login");
        });
        (address, task)
    }

    #[tokio::test]
    async fn a_login_is_encrypted_when_it_is_to_be_and_the_server_can() {
        let now = Timestamp::now();
        let authority = tls::new_authority("link", now).unwrap();
        let issued = tls::issue(&authority, &["127.0.0.1".to_owned()], now).unwrap();
        let chain =
            CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let config = trust::with_roots(Some(&authority.certificate), None).unwrap();
        let login = Login::Password { user: "u".to_owned(), password: "secret".to_owned() };
        for (when, manner, encrypted) in [
            (When::Asked, Manner::Plain, Some(false)),
            (When::Asked, Manner::Offers, Some(false)),
            (When::Asked, Manner::Demands, Some(true)),
            (When::Expected, Manner::Plain, Some(false)),
            (When::Expected, Manner::Demands, Some(true)),
            (When::Expected, Manner::WaitsForTheHandshake, Some(true)),
            (When::Required, Manner::Plain, None),
            (When::Required, Manner::Offers, Some(true)),
            (When::Required, Manner::Demands, Some(true)),
            (When::Required, Manner::WaitsForTheHandshake, Some(true)),
            (When::First, Manner::WaitsForTheHandshake, Some(true)),
        ] {
            let (address, served) = serve(manner, acceptor.clone()).await;
            let server_name = ServerName::try_from("127.0.0.1").ok();
            let tls = Tls { config: Arc::clone(&config), server_name, when };
            let link = Link::open(&[address], Some(&tls), &login, "_I").await;
            match encrypted {
                None => {
                    assert!(matches!(link, Err(Error::Plain)), "{when:?} {manner:?}");
                    served.abort();
                }
                Some(encrypted) => {
                    assert!(link.unwrap().inbox.starts_with("_I."));
                    assert_eq!(served.await.unwrap(), encrypted, "{when:?} {manner:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_host_that_no_certificate_can_name_is_reached_where_none_is_needed() {
        let config = trust::with_roots(Some(""), None).unwrap();
        let greeted = async |info: &'static str| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(info.as_bytes()).await.unwrap();
            let tls = Tls { config: Arc::clone(&config), server_name: None, when: When::Asked };
            greet(tcp, Some(&tls)).await.map(|_| ())
        };
        greeted("INFO {}\r\n").await.unwrap();
        assert!(matches!(greeted("INFO {\"tls_required\":true}\r\n").await, Err(Error::Unreachable(_))));
    }
}
