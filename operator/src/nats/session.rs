//! A connection that lasts: many requests at a time, and what the server tells by itself.
//!
//! It goes to the addresses that it was given and never to those that a server advertises, bounds everything it reads, and sends its
//! login only to a server that encrypts when encryption was asked for. When the connection breaks it is made again, less and less
//! often while that fails.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use super::address::Address;
use super::client::Error;
use super::link::{self, Head, INBOX, Info, Stream, Tls, When, read_line, reply_to};
use super::login::Login;

/// Requests on their way at a time.
const PENDING_MAX: usize = 256;
/// Answers to one request at most.
const ANSWERS_MAX: usize = 4096;
/// Silence after which the server is asked whether it is there.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// First and longest pause between attempts to connect. The longest is how late a server that is back may be noticed.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// Addresses that share the time of one attempt; further ones come first in a later one.
const ADDRESSES_PER_ATTEMPT: usize = 3;
/// Addresses that a name may stand for.
const RESOLVED_MAX: usize = 16;
/// Advisories about streams and consumers that came, went or changed.
const ADVISORIES: [&str; 6] = [
    "$JS.EVENT.ADVISORY.STREAM.CREATED.*",
    "$JS.EVENT.ADVISORY.STREAM.UPDATED.*",
    "$JS.EVENT.ADVISORY.STREAM.DELETED.*",
    "$JS.EVENT.ADVISORY.CONSUMER.CREATED.*.*",
    "$JS.EVENT.ADVISORY.CONSUMER.UPDATED.*.*",
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.*.*",
];

/// Where to connect, and as whom.
#[derive(Clone)]
pub struct Options {
    /// Servers, tried in their order.
    pub addresses: Vec<Address>,
    /// Trust and the own certificate.
    pub tls: Arc<ClientConfig>,
    /// Refuse a server that does not encrypt.
    pub tls_required: bool,
    /// Encrypt before the server has said anything.
    pub tls_first: bool,
    /// Who this is.
    pub login: Login,
    /// Beginning of the subjects that answers come on.
    pub inbox_prefix: String,
    /// Longest time to connect.
    pub connect_timeout: Duration,
}

/// What a session tells its owner. It must not block.
pub trait Listener: Send + Sync {
    /// The connection is there, again or for the first time.
    fn up(&self);
    /// A stream, or a consumer of it, came, went or changed.
    fn changed(&self, stream: &str, consumer: Option<&str>);
    /// A stream has more or fewer consumers.
    fn counted(&self, stream: &str);
}

/// The server at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its cluster.
    pub cluster: String,
    /// It has a JetStream of its own.
    pub jetstream: bool,
    /// Domain of that.
    pub domain: String,
}

/// A connection that lasts. It ends when the last handle is dropped.
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    listener: Arc<dyn Listener>,
    link: tokio::sync::Mutex<Attempts>,
    broken: Arc<Notify>,
}

/// What became of attempts to connect.
#[derive(Default)]
struct Attempts {
    link: Option<Arc<Link>>,
    failures: u32,
    last_error: String,
    not_before: Option<Instant>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The keeper holds no strong reference; it wakes up and finds nobody.
        self.inner.broken.notify_one();
    }
}

impl Session {
    /// A session that connects when it is first used.
    #[must_use]
    pub fn new(options: Options, listener: Arc<dyn Listener>) -> Self {
        let inner = Arc::new(Inner {
            options,
            listener,
            link: tokio::sync::Mutex::default(),
            broken: Arc::new(Notify::new()),
        });
        tokio::spawn(keep(Arc::downgrade(&inner), Arc::clone(&inner.broken)));
        Self { inner }
    }

    /// Sends a request and returns the first answer.
    ///
    /// # Errors
    /// When there is no connection, nothing comes in time, or the server refuses.
    pub async fn request(&self, subject: &str, payload: &[u8], limit: Duration) -> Result<Vec<u8>, Error> {
        let link = self.inner.connected().await?;
        timeout(limit, link.request(subject, payload)).await.map_err(|_| Error::Timeout(limit))?
    }

    /// Sends a request that many may answer, and returns what came within `window`.
    ///
    /// # Errors
    /// When there is no connection, the server refuses, or nobody is there to answer.
    pub async fn gather(
        &self,
        subject: &str,
        payload: &[u8],
        window: Duration,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let link = self.inner.connected().await?;
        link.gather(subject, payload, window).await
    }

    /// The server at the other end.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn server(&self) -> Result<Server, Error> {
        let link = self.inner.connected().await?;
        Ok(Server {
            name: link.info.server_name.clone(),
            version: link.info.version.clone(),
            cluster: link.info.cluster.clone(),
            jetstream: link.info.jetstream,
            domain: link.info.domain.clone(),
        })
    }
}

/// Connects again whenever the connection breaks.
async fn keep(inner: Weak<Inner>, broken: Arc<Notify>) {
    loop {
        broken.notified().await;
        loop {
            let Some(inner) = inner.upgrade() else { return };
            if inner.connected().await.is_ok() {
                break;
            }
            let pause = inner.pause().await;
            drop(inner);
            tokio::time::sleep(pause).await;
        }
    }
}

impl Inner {
    /// The connection; made if there is none and the last failure is not too near.
    async fn connected(&self) -> Result<Arc<Link>, Error> {
        let mut attempts = self.link.lock().await;
        if let Some(link) = &attempts.link {
            if link.is_alive() {
                return Ok(Arc::clone(link));
            }
            attempts.link = None;
        }
        if attempts.not_before.is_some_and(|time| Instant::now() < time) {
            return Err(Error::Unreachable(attempts.last_error.clone()));
        }
        match self.open(attempts.failures as usize).await {
            Ok(link) => {
                *attempts = Attempts { link: Some(Arc::clone(&link)), ..Attempts::default() };
                self.listener.up();
                Ok(link)
            }
            Err(error) => {
                attempts.failures = attempts.failures.saturating_add(1);
                let pause = pause_after(attempts.failures).mul_f64(rand::random_range(0.8..1.2));
                attempts.not_before = Some(Instant::now() + pause);
                attempts.last_error = error.public();
                // The keeper goes on trying, so that what waits for this server is served soon after it is back.
                self.broken.notify_one();
                Err(error)
            }
        }
    }

    async fn pause(&self) -> Duration {
        let attempts = self.link.lock().await;
        let left = attempts.not_before.map(|time| time.saturating_duration_since(Instant::now()));
        left.unwrap_or(BACKOFF.0).max(Duration::from_millis(50))
    }

    /// Tries the addresses one after another, each time beginning with another one, for as long as one connection may take in all.
    async fn open(&self, attempt: usize) -> Result<Arc<Link>, Error> {
        let limit = self.options.connect_timeout;
        let end = Instant::now() + limit;
        let count = self.options.addresses.len();
        let share = limit / u32::try_from(count.clamp(1, ADDRESSES_PER_ATTEMPT)).unwrap_or(1);
        let mut last = Error::Unreachable("no address is given".to_owned());
        for at in 0..count {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let address = &self.options.addresses[(attempt + at) % count];
            let share = share.min(left);
            match timeout(share, self.dial(address)).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) => last = error,
                Err(_) => last = Error::Timeout(share),
            }
        }
        Err(last)
    }

    async fn dial(&self, address: &Address) -> Result<Arc<Link>, Error> {
        let found = tokio::net::lookup_host((address.host.as_str(), address.port)).await?;
        let found: Vec<_> = found.take(RESOLVED_MAX).collect();
        let (tls, login, prefix) = (self.tls(address), &self.options.login, &self.options.inbox_prefix);
        let link::Link { stream, info, inbox } = link::Link::open(&found, Some(&tls), login, prefix).await?;
        let (reader, writer) = split(stream);
        let link = Arc::new(Link {
            info,
            inbox,
            writer: tokio::sync::Mutex::new(writer),
            pending: Mutex::default(),
            next: AtomicU64::new(0),
            alive: AtomicBool::new(true),
        });
        let advisories = ADVISORIES.iter().zip(2..);
        let subscriptions: String =
            advisories.map(|(subject, sid)| format!("SUB {subject} {sid}\r\n")).collect();
        link.write(subscriptions.as_bytes()).await?;
        let task = Reading {
            reader: BufReader::new(reader),
            link: Arc::downgrade(&link),
            listener: Arc::clone(&self.listener),
            broken: Arc::clone(&self.broken),
        };
        tokio::spawn(task.run());
        Ok(link)
    }

    fn tls(&self, address: &Address) -> Tls {
        let options = &self.options;
        let name = address.certificate_name.as_ref().unwrap_or(&address.host).clone();
        let when = match (options.tls_first, options.tls_required || address.tls) {
            (true, _) => When::First,
            (false, true) => When::Required,
            (false, false) => When::Asked,
        };
        Tls { config: Arc::clone(&options.tls), server_name: ServerName::try_from(name).ok(), when }
    }
}

/// Pause before the next attempt to connect after so many failures in a row, chance aside: doubles each time up to its bound.
fn pause_after(failures: u32) -> Duration {
    let doubled = BACKOFF.0.saturating_mul(1 << failures.saturating_sub(1).min(8));
    doubled.min(BACKOFF.1)
}

/// One connection, as long as it holds.
struct Link {
    info: Info,
    inbox: String,
    writer: tokio::sync::Mutex<WriteHalf<BufReader<Box<dyn Stream>>>>,
    pending: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    alive: AtomicBool,
}

/// A request that waits for its answer.
struct Waiting {
    subject: String,
    answer: Receiver,
}

/// Who takes the answer.
enum Receiver {
    /// Somebody who waits for one.
    One(oneshot::Sender<Result<Vec<u8>, Error>>),
    /// Somebody who takes as many as come.
    Many(mpsc::Sender<Result<Vec<u8>, Error>>),
}

impl Receiver {
    /// Hands over an answer; nobody may be there any more. More than a full queue of them are of no use.
    fn send(self, result: Result<Vec<u8>, Error>) {
        match self {
            Self::One(sender) => {
                let _ = sender.send(result);
            }
            Self::Many(sender) => {
                let _ = sender.try_send(result);
            }
        }
    }
}

/// Forgets a request whose caller went away.
struct Forget<'a> {
    link: &'a Link,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.link.pending.lock().remove(&self.number);
    }
}

impl Link {
    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut writer = self.writer.lock().await;
        let result = async {
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        // A frame that was cut would make nonsense of the next one.
        if let Err(error) = result.await {
            self.alive.store(false, Ordering::Release);
            return Err(error.into());
        }
        Ok(())
    }

    async fn request(&self, subject: &str, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let (answer, answered) = oneshot::channel();
        let _forget = self.send(subject, payload, Receiver::One(answer)).await?;
        answered.await.unwrap_or_else(|_| Err(Error::Protocol("the server closed the connection".to_owned())))
    }

    async fn gather(&self, subject: &str, payload: &[u8], window: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let (answer, mut answers) = mpsc::channel(ANSWERS_MAX);
        let _forget = self.send(subject, payload, Receiver::Many(answer)).await?;
        let end = tokio::time::Instant::now() + window;
        let mut all = Vec::new();
        while all.len() < ANSWERS_MAX {
            match tokio::time::timeout_at(end, answers.recv()).await {
                Ok(Some(Ok(answer))) => all.push(answer),
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(all)
    }

    /// Sends a request and has its answers handed over as long as the result lives.
    async fn send(&self, subject: &str, payload: &[u8], answer: Receiver) -> Result<Forget<'_>, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut pending = self.pending.lock();
            if pending.len() >= PENDING_MAX {
                return Err(Error::Busy);
            }
            pending.insert(number, Waiting { subject: subject.to_owned(), answer });
        }
        let forget = Forget { link: self, number };
        let mut frame = format!("PUB {subject} {}.{number} {}\r\n", self.inbox, payload.len()).into_bytes();
        frame.extend_from_slice(payload);
        frame.extend_from_slice(b"\r\n");
        self.write(&frame).await?;
        Ok(forget)
    }

    /// Gives an answer to whoever waits for it. One that came too late is of no use to anybody.
    fn answer(&self, subject: &str, result: Result<Vec<u8>, Error>) {
        let number = subject.strip_prefix(self.inbox.as_str()).and_then(|rest| rest.strip_prefix('.'));
        let Some(number) = number.and_then(|number| number.parse().ok()) else { return };
        let mut pending = self.pending.lock();
        if let (Some(Waiting { answer: Receiver::Many(sender), .. }), Ok(_)) = (pending.get(&number), &result)
        {
            let _ = sender.try_send(result);
            return;
        }
        if let Some(waiting) = pending.remove(&number) {
            waiting.answer.send(match result {
                Err(Error::NoResponders(_)) => Err(Error::NoResponders(waiting.subject)),
                result => result,
            });
        }
    }

    /// Tells those whose request was refused.
    fn refuse(&self, text: &str) {
        let mut pending = self.pending.lock();
        let concerned: Vec<u64> = pending
            .iter()
            .filter(|(_, waiting)| text.contains(&format!("\"{}\"", waiting.subject)))
            .map(|(number, _)| *number)
            .collect();
        for number in concerned {
            if let Some(waiting) = pending.remove(&number) {
                waiting.answer.send(Err(Error::Denied(text.to_owned())));
            }
        }
    }

    /// Ends everything that waits.
    fn close(&self, why: &str) {
        self.alive.store(false, Ordering::Release);
        for (_, waiting) in self.pending.lock().drain() {
            waiting.answer.send(Err(Error::Unreachable(why.to_owned())));
        }
    }
}

/// The task that reads.
struct Reading {
    reader: BufReader<ReadHalf<BufReader<Box<dyn Stream>>>>,
    link: Weak<Link>,
    listener: Arc<dyn Listener>,
    broken: Arc<Notify>,
}

impl Reading {
    async fn run(mut self) {
        let error = loop {
            if let Err(error) = self.turn().await {
                break error;
            }
        };
        if let Some(link) = self.link.upgrade() {
            link.close(&error.public());
        }
        self.broken.notify_one();
    }

    /// Reads one line and does what it asks for.
    async fn turn(&mut self) -> Result<(), Error> {
        let line = self.next_line().await?;
        let link = self.link.upgrade().ok_or_else(|| Error::Unreachable("closed".to_owned()))?;
        if let Some(head) = Head::parse(&line)? {
            let payload = timeout(SILENCE_MAX, head.payload(&mut self.reader))
                .await
                .map_err(|_| Error::Timeout(SILENCE_MAX))??;
            self.take(&link, &head, payload);
            return Ok(());
        }
        let refusal = line.strip_prefix("-ERR ");
        if let Some(text) = refusal.filter(|text| text.to_ascii_lowercase().contains("permissions violation"))
        {
            link.refuse(text.trim_matches('\''));
            return Ok(());
        }
        match reply_to(&line)? {
            Some(reply) => link.write(reply).await,
            None => Ok(()),
        }
    }

    /// The next line; a server that is silent for long is asked whether it is there.
    async fn next_line(&mut self) -> Result<String, Error> {
        // Waiting for the first byte may be cut off; a line that has begun is read to its end.
        for _ in 0..2 {
            let waited = timeout(SILENCE_MAX, tokio::io::AsyncBufReadExt::fill_buf(&mut self.reader)).await;
            if let Ok(result) = waited {
                result?;
                let line = timeout(SILENCE_MAX, read_line(&mut self.reader)).await;
                return line.map_err(|_| Error::Timeout(SILENCE_MAX))?;
            }
            let link = self.link.upgrade().ok_or_else(|| Error::Unreachable("closed".to_owned()))?;
            link.write(b"PING\r\n").await?;
        }
        Err(Error::Timeout(SILENCE_MAX))
    }

    fn take(&self, link: &Link, head: &Head<'_>, payload: Option<Vec<u8>>) {
        if head.sid == INBOX {
            link.answer(head.subject, payload.ok_or_else(|| Error::NoResponders(String::new())));
            return;
        }
        let tokens: Vec<&str> = head.subject.split('.').collect();
        match tokens[..] {
            ["$JS", "EVENT", "ADVISORY", "STREAM", _, stream] => self.listener.changed(stream, None),
            ["$JS", "EVENT", "ADVISORY", "CONSUMER", what, stream, consumer] => {
                self.listener.changed(stream, Some(consumer));
                if what != "UPDATED" {
                    self.listener.counted(stream);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
