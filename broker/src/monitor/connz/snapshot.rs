//! What is known of a client at one moment. Of a client that went, it is all that is kept.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use api::Time;
use api::duration::{short_text, uptime_text};
use api::monitor::{ConnInfo, SubDetail, TlsPeerCert};
use protocol::error::CloseReason;

use crate::monitor::accounts::count;
use crate::monitor::{signed, subsz, time};
use crate::net::client::Client;
use crate::net::sink::Subscription;
use crate::tls::Session;

/// Kind of all connections that `/connz` shows.
pub(crate) const KIND: &str = "Client";
/// What they speak.
pub(crate) const CLIENT_TYPE: &str = "nats";
/// Subscriptions that are kept of a slow consumer.
const LOST_MAX: usize = 16;

/// Facts about one client.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) cid: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) start: Time,
    pub(crate) last_activity: Time,
    /// When it went; `None` while it is there.
    pub(crate) stop: Option<Time>,
    /// Why it went.
    pub(crate) reason: &'static str,
    pub(crate) rtt: Option<Duration>,
    pub(crate) pending_bytes: i64,
    pub(crate) in_msgs: i64,
    pub(crate) out_msgs: i64,
    pub(crate) in_bytes: i64,
    pub(crate) out_bytes: i64,
    pub(crate) stalls: i64,
    pub(crate) subscriptions: u32,
    pub(crate) name: String,
    pub(crate) lang: String,
    pub(crate) version: String,
    pub(crate) tls: Option<Session>,
    /// Its handshake came before INFO.
    pub(crate) tls_first: bool,
    /// User it is, or claimed to be.
    pub(crate) user: String,
    /// Account it is in; empty before authentication.
    pub(crate) account: String,
    /// Subscriptions that it lost when it was closed as a slow consumer; of others that went they are not kept.
    pub(crate) lost: Box<[SubDetail]>,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            cid: 0,
            peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            start: Time::ZERO,
            last_activity: Time::ZERO,
            stop: None,
            reason: "",
            rtt: None,
            pending_bytes: 0,
            in_msgs: 0,
            out_msgs: 0,
            in_bytes: 0,
            out_bytes: 0,
            stalls: 0,
            subscriptions: 0,
            name: String::new(),
            lang: String::new(),
            version: String::new(),
            tls: None,
            tls_first: false,
            user: String::new(),
            account: String::new(),
            lost: Box::default(),
        }
    }
}

impl Snapshot {
    /// Facts about a client that is there.
    pub(crate) fn open(client: &Client) -> Self {
        let sent = client.out.sent();
        let last = i64::try_from(client.last_active().as_nanos()).unwrap_or(0);
        let binding = client.binding();
        let subscriptions = count(client.subscriptions.lock().len());
        let pending = client.out.pending();
        let identity = client.identity.lock();
        let claimed = || identity.credentials.user().map(ToOwned::to_owned);
        Self {
            cid: client.id,
            peer: client.peer,
            start: time(client.started_unix),
            last_activity: time(client.started_unix.saturating_add(last)),
            stop: None,
            reason: "",
            rtt: client.rtt(),
            pending_bytes: signed(pending as u64),
            in_msgs: signed(client.received.messages.load(Relaxed)),
            out_msgs: signed(sent.messages),
            in_bytes: signed(client.received.bytes.load(Relaxed)),
            out_bytes: signed(sent.bytes),
            stalls: signed(client.stalls.load(Relaxed)),
            subscriptions,
            user: binding.as_ref().map_or_else(claimed, |binding| binding.user.clone()).unwrap_or_default(),
            account: binding.map(|binding| binding.account.name().to_owned()).unwrap_or_default(),
            name: identity.name.clone().unwrap_or_default(),
            lang: identity.lang.clone().unwrap_or_default(),
            version: identity.version.clone().unwrap_or_default(),
            tls: identity.tls.clone(),
            tls_first: identity.tls_first,
            lost: Box::default(),
        }
    }

    /// Facts about a client that goes now.
    pub(crate) fn closed(client: &Client, now: Time) -> Self {
        let reason = client.out.close_reason().map_or("Client Closed", |reason| reason.as_str());
        Self { stop: Some(now), reason, ..Self::open(client) }
    }

    /// The facts as the page shows them, user and account only with `auth`.
    pub(super) fn describe(&self, auth: bool, now: Time) -> ConnInfo {
        let end = self.stop.unwrap_or(now);
        let secret = |text: &String| if auth { text.clone() } else { String::new() };
        ConnInfo {
            cid: self.cid,
            kind: KIND.to_owned(),
            client_type: CLIENT_TYPE.to_owned(),
            ip: self.peer.ip().to_string(),
            port: i32::from(self.peer.port()),
            start: self.start,
            last_activity: self.last_activity,
            stop: self.stop.unwrap_or_default(),
            reason: self.reason.to_owned(),
            rtt: self.rtt.map(short_text).unwrap_or_default(),
            uptime: uptime_text(end.saturating_since(self.start)),
            idle: uptime_text(end.saturating_since(self.last_activity)),
            pending_bytes: self.pending_bytes,
            in_msgs: self.in_msgs,
            out_msgs: self.out_msgs,
            in_bytes: self.in_bytes,
            out_bytes: self.out_bytes,
            stalls: self.stalls,
            subscriptions: self.subscriptions,
            name: self.name.clone(),
            lang: self.lang.clone(),
            version: self.version.clone(),
            tls_version: self.tls.as_ref().map(|tls| tls.version().to_owned()).unwrap_or_default(),
            tls_cipher_suite: self.tls.as_ref().map(|tls| tls.cipher_suite().to_owned()).unwrap_or_default(),
            tls_peer_certs: self.tls.as_ref().map(certificates).unwrap_or_default(),
            tls_first: self.tls_first,
            authorized_user: secret(&self.user),
            account: secret(&self.account),
            name_tag: secret(&self.account),
            ..ConnInfo::default()
        }
    }
}

/// Subscriptions that a client loses when it is closed as a slow consumer, those of queue groups first; none of any other. To be asked before
/// they are ended.
pub fn lost(client: &Client) -> Box<[SubDetail]> {
    if !client.out.close_reason().is_some_and(CloseReason::is_slow_consumer) {
        return Box::default();
    }
    let account = client.binding().map(|binding| binding.account.name().to_owned()).unwrap_or_default();
    let subscriptions = client.subscriptions.lock();
    let mut lost: Vec<_> = subscriptions.iter().collect();
    lost.sort_unstable_by_key(|subscription| {
        (subscription.queue.is_none(), &subscription.subject, &subscription.sid)
    });
    lost.truncate(LOST_MAX);
    lost.sort_unstable_by_key(|subscription| (&subscription.subject, &subscription.sid));
    let describe = |subscription: &Arc<Subscription>| SubDetail {
        account: account.clone(),
        account_tag: account.clone(),
        cid: client.id,
        ..subsz::describe(subscription)
    };
    lost.into_iter().map(describe).collect()
}

fn certificates(session: &Session) -> Vec<TlsPeerCert> {
    let certificates = session.peer_certificates().iter();
    let shown = certificates.map(|certificate| TlsPeerCert {
        subject: certificate.subject.clone(),
        spki_sha256: certificate.spki_sha256.clone(),
        cert_sha256: certificate.cert_sha256.clone(),
    });
    shown.collect()
}
