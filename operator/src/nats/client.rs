//! A connection to one server for requests.
//!
//! Not a general client on purpose: it connects to exactly the address it was given, never follows addresses that a
//! server advertises, never reconnects, and bounds everything it reads. A hostile server can waste one request.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::link::{Head, Link, Tls, read_line};
use super::login::Login;

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

/// Where to connect and as whom.
#[derive(Clone)]
pub struct Target {
    /// Address of the server.
    pub address: SocketAddr,
    /// Encryption.
    pub tls: Option<Tls>,
    /// Who this is.
    pub login: Login,
    /// Longest time for each step.
    pub timeout: Duration,
}

/// A connection on which one request at a time is sent.
pub struct Connection {
    link: Link,
    requests: u64,
    timeout: Duration,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// When the server cannot be reached, is not trusted, or refuses the login.
    pub async fn open(target: &Target, inbox_prefix: &str) -> Result<Self, Error> {
        let addresses = [target.address];
        let link = Link::open(&addresses, target.tls.as_ref(), &target.login, inbox_prefix);
        let link = timeout(target.timeout, link).await.map_err(|_| Error::Timeout(target.timeout))??;
        Ok(Self { link, requests: 0, timeout: target.timeout })
    }

    /// Identity of the process at the other end.
    #[must_use]
    pub fn server_id(&self) -> &str {
        &self.link.info.server_id
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
        let reply = format!("{}.{}", self.link.inbox, self.requests);
        let mut frame = format!("PUB {subject} {reply} {}\r\n", payload.len()).into_bytes();
        frame.extend_from_slice(payload);
        frame.extend_from_slice(b"\r\n");
        self.link.write(&frame).await?;
        for _ in 0..LINES_MAX {
            let line = read_line(&mut self.link.stream).await?;
            let Some(head) = Head::parse(&line)? else {
                self.link.keep(&line).await?;
                continue;
            };
            let payload = head.payload(&mut self.link.stream).await?;
            // An answer to an earlier request that came too late is of no use to anybody.
            if head.subject == reply {
                return payload.ok_or_else(|| Error::NoResponders(subject.to_owned()));
            }
        }
        Err(Error::Protocol("no answer among many lines".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, BufReader};
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
            login: Login::Password { user: "u".to_owned(), password: "p".to_owned() },
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
