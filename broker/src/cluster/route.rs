//! One connection to a peer, as the rest of the server sees it: messages and changes of interest go out through it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use protocol::peer::Link;
use protocol::peer::encode::{self, Target};
use routing::interest::Announce;
use routing::permission::Permissions;

use super::layout::{Layout, Slot};
use crate::clock;
use crate::net::client::Received;
use crate::net::dispatch::Message;
use crate::net::outbound::{Appended, Outbound};
use crate::net::sink::{Account, Subscription};

/// Interest of the peer as this connection brought it, by what its lines name.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct InterestKey {
    /// Origin cluster of a leafnode's interest.
    pub origin: Option<Box<[u8]>>,
    /// Account.
    pub account: Box<[u8]>,
    /// Subject.
    pub subject: Box<[u8]>,
    /// Queue group.
    pub queue: Option<Box<[u8]>>,
}

/// Interest of the peer, with the account it was entered in.
pub type RemoteInterest = HashMap<InterestKey, (Arc<Account>, Arc<Subscription>)>;

/// What a connection to a peer was agreed to be.
#[derive(Debug, Clone)]
pub struct Agreement {
    /// Server id of the peer.
    pub peer_id: String,
    /// Its name.
    pub peer_name: String,
    /// This connection's place.
    pub slot: Slot,
    /// How accounts are spread over the connections of the pair.
    pub layout: Layout,
    /// The peer understands headers.
    pub headers: bool,
    /// The peer understands the origin in `LS-`.
    pub origin_unsub: bool,
}

/// A registered connection to a peer.
#[derive(Debug)]
pub struct Route {
    /// Number among the connections.
    pub id: u64,
    /// Address of the peer's end.
    pub peer: SocketAddr,
    /// This server dialled.
    pub solicited: bool,
    /// The configuration names the peer.
    pub configured: bool,
    /// When it was made.
    pub started: Instant,
    /// The same for people, in nanoseconds since 1970.
    pub started_unix: i64,
    /// What was agreed.
    pub agreement: Agreement,
    /// The write side.
    pub out: Arc<Outbound>,
    /// What the peer sent.
    pub received: Received,
    /// What the peer wants.
    pub interest: Mutex<RemoteInterest>,
    /// What may be told to the peer (`publish`) and taken from it (`subscribe`).
    permissions: RwLock<Option<Arc<Permissions>>>,
    announced: AtomicBool,
    rtt_nanos: AtomicU64,
    active_millis: AtomicU64,
    pings_out: AtomicU32,
}

impl Route {
    /// A connection whose handshake is done.
    pub fn new(id: u64, peer: SocketAddr, out: Arc<Outbound>, agreement: Agreement) -> Self {
        Self {
            id,
            peer,
            solicited: false,
            configured: false,
            started: clock::now(),
            started_unix: clock::unix_nanos(),
            agreement,
            out,
            received: Received::default(),
            interest: Mutex::default(),
            permissions: RwLock::default(),
            announced: AtomicBool::new(false),
            rtt_nanos: AtomicU64::new(0),
            active_millis: AtomicU64::new(0),
            pings_out: AtomicU32::new(0),
        }
    }

    /// Does this connection carry the account?
    pub fn carries(&self, account: &str) -> bool {
        self.agreement.layout.slot(account) == self.agreement.slot
    }

    /// The account it is for alone: lines then do not name it.
    pub fn account(&self) -> Option<&str> {
        match &self.agreement.slot {
            Slot::Account(name) => Some(name),
            Slot::Pool(_) => None,
        }
    }

    /// Restricts what interest crosses the link.
    pub fn set_permissions(&self, permissions: Option<Arc<Permissions>>) {
        *self.permissions.write() = permissions;
    }

    /// May interest in this subject be told to the peer?
    pub fn may_import(&self, subject: &[u8]) -> bool {
        self.permissions.read().as_ref().is_none_or(|permissions| permissions.can_publish(subject))
    }

    /// May interest in this subject be taken from the peer?
    pub fn may_export(&self, subject: &[u8]) -> bool {
        self.permissions.read().as_ref().is_none_or(|permissions| permissions.can_subscribe(subject, None))
    }

    /// Were changes of interest appended since this was asked last?
    pub fn take_announced(&self) -> bool {
        self.announced.load(Relaxed) && self.announced.swap(false, Ordering::AcqRel)
    }

    /// Writes a message for the peer. False if the link is closing. `routed_by` is the message's own subject but for stored messages: they travel
    /// by it, with their own subject behind the acknowledgement subject.
    pub fn send(&self, account: &str, message: &Message<'_>, routed_by: &[u8], queues: &[&[u8]]) -> bool {
        let header_len = if self.agreement.headers { message.header_len } else { 0 };
        let payload =
            if self.agreement.headers { message.payload } else { &message.payload[message.header_len..] };
        let appended = self.out.append_message(payload.len(), |buffer| {
            let stored = message.reply.filter(|_| routed_by != message.subject);
            let ack = stored.map(|ack| [ack, b"@", message.subject].concat());
            let (subject, reply) = (routed_by, ack.as_deref().or(message.reply));
            let envelope = encode::Envelope { subject, reply, header_len, total_len: payload.len() };
            encode::message(buffer, self.line(account), &envelope, queues.iter().copied());
            buffer.extend_from_slice(payload);
            buffer.extend_from_slice(b"\r\n");
        });
        matches!(appended, Appended::Ok | Appended::Stall)
    }

    /// Form of a line about `account`.
    fn line<'a>(&self, account: &'a str) -> Target<'a> {
        Target {
            link: Link::Route,
            origin: None,
            account: self.account().is_none().then_some(account.as_bytes()),
        }
    }

    /// Something came from the peer.
    pub fn touch(&self) {
        self.active_millis
            .store(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
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
        self.rtt_nanos.store(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX).max(1), Relaxed);
    }

    /// PINGs that were not answered: counts `sent` more, or starts again with zero.
    pub fn count_pings(&self, sent: u32) -> u32 {
        if sent == 0 {
            self.pings_out.store(0, Relaxed);
            return 0;
        }
        self.pings_out.fetch_add(sent, Relaxed) + sent
    }
}

impl Announce for Route {
    fn interest(&self, account: &str, subject: &[u8], queue: Option<&[u8]>, count: u32) {
        if !self.carries(account) || !self.may_import(subject) {
            return;
        }
        let mut line = Vec::with_capacity(subject.len() + 64);
        if count == 0 {
            encode::unsubscribe(&mut line, self.line(account), subject, queue, self.agreement.origin_unsub);
        } else {
            encode::subscribe(&mut line, self.line(account), subject, queue.map(|queue| (queue, count)));
        }
        self.out.append(&line);
        self.announced.store(true, Ordering::Release);
    }

    fn id(&self) -> u64 {
        self.id
    }
}
