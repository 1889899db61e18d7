//! A client connection as the rest of the server sees it: a handle to write to, to ask about and to close.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::error::CloseReason;
use routing::permission::{Permissions, Responses};
use routing::session::client::{Settings, Subscriptions};

use super::outbound::Outbound;
use super::sink::{Account, Sink};
use crate::clock;

/// What a connection is bound to by authentication. Replaced as a whole when a reload changes rights.
#[derive(Debug)]
pub struct Binding {
    /// The account it lives in.
    pub account: Arc<Account>,
    /// Name of the user, if it has one.
    pub user: Option<String>,
    /// Rights, if they are restricted at all.
    pub permissions: Option<Arc<Permissions>>,
    /// Open rights to answer.
    pub responses: Option<Arc<Responses>>,
}

/// What the client says of itself, and what was found out about it.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// `name` of CONNECT.
    pub name: Option<String>,
    /// `lang` of CONNECT.
    pub lang: Option<String>,
    /// `version` of CONNECT.
    pub version: Option<String>,
    /// TLS session, if any.
    pub tls: Option<crate::tls::Session>,
    /// The handshake came before INFO.
    pub tls_first: bool,
    /// What authentication needs again when a reload asks whether the client may stay.
    pub credentials: crate::auth::Presented,
}

/// Counters of what the client sent.
#[derive(Debug, Default)]
pub struct Received {
    /// Messages.
    pub messages: AtomicU64,
    /// Bytes of headers and payloads.
    pub bytes: AtomicU64,
}

/// A client connection.
#[derive(Debug)]
pub struct Client {
    /// Number of the connection.
    pub id: u64,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// When it was accepted.
    pub started: Instant,
    /// The same for people, in nanoseconds since 1970.
    pub started_unix: i64,
    /// The write side.
    pub out: Arc<Outbound>,
    /// What it sent.
    pub received: Received,
    /// Messages for which it slowed down their publisher.
    pub stalls: AtomicU64,
    /// Its subscriptions.
    pub subscriptions: Mutex<Subscriptions<Sink>>,
    /// What it says of itself.
    pub identity: Mutex<Identity>,
    binding: Mutex<Option<Arc<Binding>>>,
    /// Changes with the binding, so that the read task looks only when there is something new.
    binding_epoch: AtomicU32,
    headers: AtomicBool,
    echo: AtomicBool,
    wants_info: AtomicBool,
    tracks_responses: AtomicBool,
    rtt_nanos: AtomicU64,
    active_millis: AtomicU64,
    pings_out: AtomicU32,
}

impl Client {
    /// A connection that was just accepted.
    pub fn new(id: u64, peer: SocketAddr, out: Outbound) -> Self {
        Self {
            id,
            peer,
            started: clock::now(),
            started_unix: clock::unix_nanos(),
            out: Arc::new(out),
            received: Received::default(),
            stalls: AtomicU64::new(0),
            subscriptions: Mutex::default(),
            identity: Mutex::default(),
            binding: Mutex::default(),
            binding_epoch: AtomicU32::new(0),
            headers: AtomicBool::new(false),
            echo: AtomicBool::new(true),
            wants_info: AtomicBool::new(false),
            tracks_responses: AtomicBool::new(false),
            rtt_nanos: AtomicU64::new(0),
            active_millis: AtomicU64::new(0),
            pings_out: AtomicU32::new(0),
        }
    }

    /// What it is bound to; `None` before authentication.
    pub fn binding(&self) -> Option<Arc<Binding>> {
        self.binding.lock().clone()
    }

    /// Binds it anew.
    pub fn bind(&self, binding: Arc<Binding>) {
        self.tracks_responses.store(binding.responses.is_some(), Relaxed);
        *self.binding.lock() = Some(binding);
        self.binding_epoch.fetch_add(1, Relaxed);
    }

    /// Binds it anew unless it was bound otherwise since `old` was looked at: then somebody newer has decided.
    pub fn rebind(&self, old: &Arc<Binding>, new: Arc<Binding>) -> bool {
        let mut binding = self.binding.lock();
        let current = binding.as_ref().is_some_and(|binding| Arc::ptr_eq(binding, old));
        if current {
            self.tracks_responses.store(new.responses.is_some(), Relaxed);
            *binding = Some(new);
            self.binding_epoch.fetch_add(1, Relaxed);
        }
        current
    }

    /// Number of the binding.
    #[inline]
    pub fn binding_epoch(&self) -> u32 {
        self.binding_epoch.load(Relaxed)
    }

    /// Takes over what CONNECT asked for, as far as senders have to know.
    pub fn apply(&self, settings: &Settings) {
        self.headers.store(settings.headers, Relaxed);
        self.echo.store(settings.echo, Relaxed);
    }

    /// Does it understand headers?
    #[inline]
    pub fn headers(&self) -> bool {
        self.headers.load(Relaxed)
    }

    /// Does it want its own messages?
    #[inline]
    pub fn echo(&self) -> bool {
        self.echo.load(Relaxed)
    }

    /// It has seen its first PONG and understands INFO at any time.
    pub fn set_wants_info(&self) {
        self.wants_info.store(true, Relaxed);
    }

    /// May INFO be sent to it now?
    pub fn wants_info(&self) -> bool {
        self.wants_info.load(Relaxed)
    }

    /// A message with a reply subject goes to it: it may answer.
    #[inline]
    pub fn note_reply(&self, reply: &[u8]) {
        if self.tracks_responses.load(Relaxed)
            && let Some(responses) = self.binding().and_then(|binding| binding.responses.clone())
        {
            responses.delivered(clock::now(), reply);
        }
    }

    /// Something came from it or went to it.
    #[inline]
    pub fn touch(&self) {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.active_millis.store(millis, Relaxed);
    }

    /// Time of the last traffic, since the connection began.
    pub fn last_active(&self) -> Duration {
        Duration::from_millis(self.active_millis.load(Relaxed))
    }

    /// Measured round trip, if any.
    pub fn rtt(&self) -> Option<Duration> {
        Some(self.rtt_nanos.load(Relaxed)).filter(|nanos| *nanos > 0).map(Duration::from_nanos)
    }

    /// Keeps a measured round trip.
    pub fn set_rtt(&self, rtt: Duration) {
        // A round trip of zero would read as "unknown".
        self.rtt_nanos.store(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX).max(1), Relaxed);
    }

    /// PINGs that were not answered; the new count after `sent` more, or zero after an answer.
    pub fn count_pings(&self, sent: u32) -> u32 {
        if sent == 0 {
            self.pings_out.store(0, Relaxed);
            return 0;
        }
        self.pings_out.fetch_add(sent, Relaxed) + sent
    }

    /// Sends an `-ERR` and closes once it is written.
    pub fn refuse(&self, text: &str, reason: CloseReason) {
        self.out.finish(&protocol::client::encode::err(text), reason);
    }
}
