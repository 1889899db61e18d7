//! From a TCP connection between two servers to a registered route (routes, section 2, handshake).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::options::RouteUrl;
use protocol::error::{self, CloseReason};
use protocol::info::{ConnectOptions, Info};
use protocol::peer::{Link as LinkKind, PeerLimits, PeerOp as Op, Step, encode, parse};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};

use super::info::{connect, for_route, route_address};
use super::layout::Slot;
use super::registry::{ClusterName, Conflict};
use super::route::{Agreement, Route};
use super::session;
use crate::net::buffer::ReadBuffer;
use crate::net::listener::canonical;
use crate::net::outbound::{Limits as OutboundLimits, Outbound, WriteTimeout};
use crate::net::stream::{ReadHalf, Socket, WriteHalf, split_tls};
use crate::server::Server;
use crate::tls::TlsError;

/// Control lines between servers may be this much longer than those of clients (routes, section 1).
const CONTROL_LINE_FACTOR: u32 = 16;
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a connection between servers does not come about.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other end is this server.
    #[error("the address leads to this server itself")]
    Itself,
    /// There is such a connection already.
    #[error("duplicate route to {0}")]
    Duplicate(String),
    /// TLS failed.
    #[error("TLS route handshake error: {0}")]
    Tls(#[from] TlsError),
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The peer was silent.
    #[error("no answer within the time for authentication")]
    Timeout,
    /// The peer said something else, or an error.
    #[error("{0}")]
    Refused(String),
}

/// Takes in the peers that dial this server.
pub async fn accept(server: Arc<Server>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    let peer = canonical(peer);
                    match answer(&server, stream, peer).await {
                        Ok(_) => {}
                        Err(e @ HandshakeError::Tls(_)) => tracing::error!("{peer} - {e}"),
                        // What was refused is logged where it was refused.
                        Err(e) => tracing::debug!("{peer} - Route connection not taken: {e}"),
                    }
                });
            }
            Err(e) => {
                tracing::error!(
                    "Temporary Route Accept Error ({e}), sleeping {}ms",
                    ACCEPT_PAUSE.as_millis()
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection in its handshake.
struct Link {
    server: Arc<Server>,
    id: u64,
    peer: SocketAddr,
    out: Arc<Outbound>,
    read: ReadHalf,
    buffer: ReadBuffer,
    limits: PeerLimits,
    deadline: Instant,
    /// The peer has shown that it may talk to us, or we have dialled it.
    authorized: bool,
}

/// What the handshake is interested in.
enum Heard {
    Connect(Box<ConnectOptions>),
    Info(Box<Info>),
}

impl Link {
    fn new(server: &Arc<Server>, peer: SocketAddr, (read, write): (ReadHalf, WriteHalf)) -> Self {
        let options = server.options();
        let cluster = options.cluster.clone().unwrap_or_default();
        let outbound = OutboundLimits {
            pending_max: usize::try_from(options.limits.max_pending).unwrap_or(usize::MAX),
            write_deadline: cluster.write_deadline.unwrap_or(options.limits.write_deadline),
            write_timeout: match cluster.write_timeout {
                config::options::WriteTimeout::Close => WriteTimeout::Close,
                _ => WriteTimeout::Retry,
            },
        };
        let limits = PeerLimits {
            link: LinkKind::Route,
            control_line_max: (options.limits.max_control_line * CONTROL_LINE_FACTOR) as usize,
            payload_max: None,
            account: true,
            origin_unsub: true,
        };
        Self {
            server: Arc::clone(server),
            id: server.next_id(),
            peer,
            out: Arc::new(Outbound::new(write, outbound)),
            read,
            buffer: ReadBuffer::default(),
            limits,
            deadline: Instant::now() + cluster.auth_timeout(),
            authorized: false,
        }
    }

    fn send(&self, bytes: &[u8]) {
        self.out.append(bytes);
        self.out.flush();
    }

    /// Tells the peer why, and closes.
    fn refuse(&self, text: &str, reason: CloseReason) -> HandshakeError {
        tracing::error!("{} - rid:{} - {text}", self.peer, self.id);
        self.out.finish(&protocol::client::encode::err(text), reason);
        HandshakeError::Refused(text.to_owned())
    }

    /// The next CONNECT or INFO.
    async fn hear(&mut self) -> Result<Heard, HandshakeError> {
        loop {
            let (heard, consumed) = match parse(self.buffer.filled(), &self.limits) {
                Ok(Step::Op { op, consumed }) => (self.understand(&op)?, consumed),
                Ok(Step::NeedMore { .. }) => {
                    self.fill().await?;
                    continue;
                }
                Err(e) => return Err(HandshakeError::Refused(format!("protocol error: {e}"))),
            };
            self.buffer.consume(consumed);
            if let Some(heard) = heard {
                return Ok(heard);
            }
        }
    }

    fn understand(&self, op: &Op<'_>) -> Result<Option<Heard>, HandshakeError> {
        let bad = |e: serde_json::Error| HandshakeError::Refused(format!("bad JSON from the peer: {e}"));
        match op {
            Op::Connect(json) => {
                Ok(Some(Heard::Connect(Box::new(serde_json::from_slice(json).map_err(bad)?))))
            }
            Op::Info(json) => Ok(Some(Heard::Info(Box::new(serde_json::from_slice(json).map_err(bad)?)))),
            Op::Ping if self.authorized => {
                self.send(protocol::client::encode::PONG);
                Ok(None)
            }
            Op::Pong | Op::Ok if self.authorized => Ok(None),
            Op::Err(text) => Err(HandshakeError::Refused(String::from_utf8_lossy(text).into_owned())),
            // Whoever sends anything else before CONNECT has not shown that it may (GHSA-38x3-76xf-cq45).
            _ => Err(self.refuse(error::AUTHORIZATION_VIOLATION, CloseReason::AuthenticationFailure)),
        }
    }

    async fn fill(&mut self) -> Result<(), HandshakeError> {
        let count = timeout_at(self.deadline, self.read.read(self.buffer.space())).await;
        let Ok(count) = count else {
            self.out.finish(
                &protocol::client::encode::err(error::AUTHENTICATION_TIMEOUT),
                CloseReason::AuthenticationTimeout,
            );
            return Err(HandshakeError::Timeout);
        };
        match count? {
            0 => Err(HandshakeError::Io(std::io::ErrorKind::UnexpectedEof.into())),
            count => {
                self.buffer.read(count);
                Ok(())
            }
        }
    }

    async fn hear_info(&mut self) -> Result<Info, HandshakeError> {
        loop {
            if let Heard::Info(info) = self.hear().await? {
                return Ok(*info);
            }
        }
    }

    /// The checks of the first INFO: not this server, the same cluster.
    fn check(&self, info: &Info) -> Result<(), HandshakeError> {
        if info.server_id == self.server.identity.id {
            self.out.finish(b"", CloseReason::DuplicateRoute);
            return Err(HandshakeError::Itself);
        }
        let own = self.server.routes().name();
        let theirs = ClusterName { name: info.cluster.clone(), dynamic: info.cluster_dynamic };
        if theirs.name.is_empty() || theirs.name == own.name {
            return Ok(());
        }
        if own.dynamic && (!theirs.dynamic || theirs.name > own.name) {
            self.server.routes().adopt_name(&self.server, theirs);
            return Ok(());
        }
        if theirs.dynamic {
            // The peer gives way when it sees our INFO.
            return Ok(());
        }
        let text = error::cluster_name_conflict(&theirs.name, &own.name);
        Err(self.refuse(&text, CloseReason::ClusterNameConflict))
    }

    /// Makes it a route: agreed, registered, told all interest; its session runs as a task of its own.
    fn register(mut self, info: Info, slot: Slot, origin: Origin) -> Result<String, HandshakeError> {
        let options = self.server.options();
        let pool = pool_size(&info);
        let layout = self.server.routes().wanted_layout(&options).agree(pool);
        let slot = if layout.pool.is_none() { Slot::Pool(0) } else { slot };
        if let Slot::Account(name) = &slot
            && !layout.pinned.contains(name)
        {
            return Err(self.refuse(&error::no_route_for_account(name), CloseReason::RouteRemoved));
        }
        let agreement = Agreement {
            peer_id: info.server_id.clone(),
            peer_name: info.server_name.clone(),
            slot,
            layout,
            headers: info.headers,
            origin_unsub: info.lnocu,
        };
        let mut route = Route::new(self.id, self.peer, Arc::clone(&self.out), agreement);
        (route.solicited, route.configured) = (origin != Origin::Accepted, origin == Origin::Configured);
        let route = Arc::new(route);
        let peer_id = info.server_id.clone();
        let is_new = match self.server.routes().add(&route, &info) {
            Ok(is_new) => is_new,
            Err(Conflict::Duplicate) => {
                self.out.finish(b"", CloseReason::DuplicateRoute);
                return Err(HandshakeError::Duplicate(peer_id));
            }
            Err(Conflict::ServerName) => {
                return Err(self.refuse("Duplicate Server Name", CloseReason::DuplicateServerName));
            }
        };
        self.limits.account = route.account().is_none();
        self.limits.origin_unsub = route.agreement.origin_unsub;
        let input = session::Input { read: self.read, buffer: self.buffer, limits: self.limits };
        session::start(&self.server, route, input, is_new.then_some(info));
        Ok(peer_id)
    }
}

/// The pool that the peer wants; `None` if it knows of none.
fn pool_size(info: &Info) -> Option<u32> {
    u32::try_from(info.route_pool_size).ok().filter(|size| *size > 0)
}

/// How a connection came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The peer dialled.
    Accepted,
    /// This server dialled an address that the configuration names.
    Configured,
    /// This server dialled an address that a peer told.
    Gossiped,
}

/// The accepting side.
async fn answer(server: &Arc<Server>, stream: TcpStream, peer: SocketAddr) -> Result<String, HandshakeError> {
    let _ = stream.set_nodelay(true);
    let socket = Socket::new(stream);
    let tls = server.routes().tls();
    let halves = match tls.as_ref() {
        None => socket.split(),
        Some(tls) => {
            let (stream, session) = tls.acceptor.accept(socket).await?;
            server.routes().check_certificate(server, &session).map_err(HandshakeError::Refused)?;
            split_tls(stream.into())
        }
    };
    let mut link = Link::new(server, peer, halves);
    link.send(&protocol::client::encode::info(&for_route(server, &Slot::Pool(0))));
    let Heard::Connect(connect) = link.hear().await? else {
        return Err(link.refuse(error::AUTHORIZATION_VIOLATION, CloseReason::AuthenticationFailure));
    };
    authorize(&link, &connect)?;
    link.authorized = true;
    let mut info = link.hear_info().await?;
    link.check(&info)?;
    info.ip = route_address(&info, peer);
    let slot = if info.route_account.is_empty() {
        Slot::Pool(u32::try_from(info.route_pool_idx).unwrap_or(u32::MAX))
    } else {
        Slot::Account(info.route_account.clone())
    };
    let own_pool = server.routes().wanted_layout(&server.options()).pool;
    let pool = pool_size(&info).max(own_pool).unwrap_or(1);
    if matches!(slot, Slot::Pool(index) if index >= pool) {
        return Err(link.refuse("route pool index is out of range", CloseReason::ProtocolViolation));
    }
    link.register(info, slot, Origin::Accepted)
}

/// Is it a server at all, and one that knows the password?
fn authorize(link: &Link, connect: &ConnectOptions) -> Result<(), HandshakeError> {
    if connect.lang.as_deref().is_some_and(|lang| !lang.is_empty()) {
        return Err(link.refuse(error::CONNECTED_TO_ROUTE_PORT, CloseReason::IncorrectPort));
    }
    if let Some(gateway) = connect.gateway.as_deref().filter(|name| !name.is_empty()) {
        let text = error::gateway_on_route_port(gateway);
        return Err(link.refuse(&text, CloseReason::WrongGateway));
    }
    let options = link.server.options();
    let Some(own) = options.cluster.as_ref().map(|cluster| &cluster.authorization) else { return Ok(()) };
    if own.username.is_empty() {
        return Ok(());
    }
    let user_matches = connect.user.as_deref() == Some(own.username.as_str());
    let password = connect.pass.as_deref().unwrap_or_default();
    let password_matches = own.password.matches(password.as_bytes());
    if user_matches && password_matches {
        return Ok(());
    }
    tracing::error!("{} - rid:{} - authentication error", link.peer, link.id);
    Err(link.refuse(error::AUTHORIZATION_VIOLATION, CloseReason::AuthenticationFailure))
}

/// The dialling side. Returns the id of the server found there.
pub async fn solicit(
    server: &Arc<Server>,
    stream: TcpStream,
    url: &RouteUrl,
    (slot, origin): (Slot, Origin),
) -> Result<String, HandshakeError> {
    let peer = stream.peer_addr()?;
    let _ = stream.set_nodelay(true);
    let socket = Socket::new(stream);
    let tls = server.routes().tls();
    let halves = match tls.as_ref() {
        None => socket.split(),
        Some(tls) => {
            let (stream, session) = tls.connector.connect(&url.host, socket).await?;
            server.routes().check_certificate(server, &session).map_err(HandshakeError::Refused)?;
            split_tls(stream.into())
        }
    };
    let mut link = Link::new(server, canonical(peer), halves);
    link.authorized = true;
    link.send(&encode::connect(&connect(server, url)));
    let mut info = link.hear_info().await?;
    link.check(&info)?;
    if info.ip.is_empty() {
        info.ip = format!("nats-route://{}/", url.authority());
    }
    let own = for_route(server, if info.route_pool_size > 0 { &slot } else { &Slot::Pool(0) });
    link.send(&protocol::client::encode::info(&own));
    link.register(info, slot, origin)
}
