//! Accepting clients: one listener, limits before anything else, TLS before or after INFO.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::options::{Address, HandshakeFirst, WriteTimeout as Configured};
use parking_lot::Mutex;
use protocol::error::{self, CloseReason};
use socket2::{Domain, Protocol, Socket as RawSocket, Type};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::client::Client;
use super::connection;
use super::outbound::{Limits, Outbound, WriteTimeout};
use super::stream::{ReadHalf, Socket, WriteHalf, split_tls};
use crate::clock;
use crate::server::{Life, Server};
use crate::tls;

/// Connections that the kernel may hold for us.
const BACKLOG: i32 = 4096;
/// Pause after a failed accept, which mostly means that the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener does not open.
#[derive(Debug, thiserror::Error)]
#[error("error listening on {address}: {source}")]
pub struct BindError {
    /// Where.
    pub address: String,
    /// Why.
    pub source: std::io::Error,
}

/// Addresses and accept tasks.
#[derive(Debug, Default)]
pub struct Listeners {
    client: Mutex<Option<(SocketAddr, JoinHandle<()>)>>,
}

impl Listeners {
    /// Opens the client listener.
    pub async fn open(server: &Arc<Server>) -> Result<(), BindError> {
        let address = server.options().listen.address.clone();
        let listener = bind(&address).await?;
        let local =
            listener.local_addr().map_err(|source| BindError { address: address.to_string(), source })?;
        server.update_info(|info| crate::info::set_address(info, &server.options(), local.port()));
        let task = tokio::spawn(accept(Arc::clone(server), listener));
        *server.listeners.client.lock() = Some((local, task));
        tracing::info!("Listening for client connections on {}", with_port(&address, local.port()));
        Ok(())
    }

    /// Where clients connect to.
    pub fn client(&self) -> Option<SocketAddr> {
        self.client.lock().as_ref().map(|(address, _)| *address)
    }

    /// Takes no more clients. Returns once the socket is closed, so that nobody gets in after others were told.
    pub async fn close(&self) {
        let listener = self.client.lock().take();
        if let Some((_, task)) = listener {
            task.abort();
            // It ends as aborted, which is what was asked for.
            let _ = task.await;
        }
    }

    /// Takes no more clients, soon.
    pub fn abort(&self) {
        if let Some((_, task)) = self.client.lock().take() {
            task.abort();
        }
    }
}

/// `host:port` with the port that was really taken.
pub fn with_port(address: &Address, port: u16) -> String {
    if address.host.contains(':') {
        format!("[{}]:{port}", address.host)
    } else {
        format!("{}:{port}", address.host)
    }
}

/// Opens a listener; `0.0.0.0` also takes IPv6 where the system has it, as the reference does.
pub async fn bind(address: &Address) -> Result<TcpListener, BindError> {
    let failed = |source| BindError { address: address.to_string(), source };
    let port = address.port.to_bind();
    if matches!(address.host.as_str(), "0.0.0.0" | "::")
        && let Ok(listener) = listen(SocketAddr::from(([0u16; 8], port)), false)
    {
        return Ok(listener);
    }
    let mut addresses = tokio::net::lookup_host((address.host.as_str(), port)).await.map_err(failed)?;
    let Some(first) = addresses.next() else {
        return Err(failed(std::io::Error::other("the host name has no address")));
    };
    listen(first, true).map_err(failed)
}

fn listen(address: SocketAddr, v6_only: bool) -> std::io::Result<TcpListener> {
    let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(v6_only)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

async fn accept(server: Arc<Server>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(greet(Arc::clone(&server), stream, canonical(peer)));
            }
            Err(e) => {
                tracing::error!(
                    "Temporary Client Accept Error ({e}), sleeping {}ms",
                    ACCEPT_PAUSE.as_millis()
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// An IPv4 peer of a dual-stack listener is an IPv4 peer.
pub fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Limits of a client's write side.
fn outbound_limits(options: &config::options::Options) -> Limits {
    Limits {
        pending_max: usize::try_from(options.limits.max_pending).unwrap_or(usize::MAX),
        write_deadline: options.limits.write_deadline,
        write_timeout: match options.limits.write_timeout {
            Configured::Default | Configured::Close => WriteTimeout::Close,
            Configured::Retry => WriteTimeout::Retry,
        },
    }
}

/// From a TCP connection to a served client: INFO and TLS in the configured order, then the limit of connections.
async fn greet(server: Arc<Server>, stream: TcpStream, peer: SocketAddr) {
    // Small messages must not wait for the kernel to collect more.
    let _ = stream.set_nodelay(true);
    let id = server.next_id();
    let accepted = clock::unix_nanos();
    tracing::debug!("{peer} - cid:{id} - Client connection created");
    let socket = Socket::new(stream);
    match handshake(&server, socket, peer, id).await {
        // Accepted just before the listener was closed.
        Ok((client, _)) if server.life() > Life::Running => client.out.abort(CloseReason::ServerShutdown),
        Ok((client, read)) => match server.admit(client) {
            Ok(client) => connection::serve(server, client, read).await,
            Err(client) => {
                tracing::error!("{peer} - cid:{id} - {}", error::CONNECTIONS_EXCEEDED);
                client.refuse(error::CONNECTIONS_EXCEEDED, CloseReason::MaximumConnectionsExceeded);
                server.closed.add(&client, Box::default());
            }
        },
        Err(e) => {
            if e.is_noise() {
                tracing::debug!("{peer} - cid:{id} - TLS handshake error: {e}");
            } else {
                tracing::error!("{peer} - cid:{id} - TLS handshake error: {e}");
            }
            server.closed.add_unserved((id, peer, accepted), CloseReason::TlsHandshakeFailure);
        }
    }
}

type Greeted = (Arc<Client>, ReadHalf);

async fn handshake(
    server: &Arc<Server>,
    mut socket: Socket,
    peer: SocketAddr,
    id: u64,
) -> Result<Greeted, tls::TlsError> {
    let options = server.options();
    let acceptor = server.client_tls();
    let client = |write: WriteHalf| Client::new(id, peer, Outbound::new(write, outbound_limits(&options)));
    let Some(acceptor) = acceptor.as_ref() else {
        let (read, write) = socket.split();
        let client = client(write);
        say_hello(server, &client);
        return Ok((Arc::new(client), read));
    };
    let first = options.tls.as_ref().map(|tls| tls.handshake_first).unwrap_or_default();
    let handshake_first = match first {
        HandshakeFirst::Off => false,
        HandshakeFirst::On => true,
        HandshakeFirst::Auto(wait) => sniff(&mut socket, wait).await == Some(tls::HANDSHAKE_RECORD),
    };
    if !handshake_first {
        // The client object exists only with its write half, so INFO is written to the socket itself here.
        let info = server.info_before_tls(id, peer);
        socket.write_all(&info).await?;
        if options.listen.allow_non_tls
            && sniff(&mut socket, acceptor.timeout()).await != Some(tls::HANDSHAKE_RECORD)
        {
            let (read, write) = socket.split();
            return Ok((Arc::new(client(write)), read));
        }
    }
    if !acceptor.admit() {
        socket.write_all(&protocol::client::encode::err(error::THROTTLED)).await?;
        return Err(tls::TlsError::Throttled);
    }
    let (stream, session) = acceptor.accept(socket).await?;
    let (read, write) = split_tls(stream.into());
    let client = client(write);
    {
        let mut identity = client.identity.lock();
        identity.tls = Some(session);
        identity.tls_first = handshake_first;
    }
    if handshake_first {
        say_hello(server, &client);
    }
    Ok((Arc::new(client), read))
}

/// Waits for the first byte and gives it back to the socket.
async fn sniff(socket: &mut Socket, wait: Duration) -> Option<u8> {
    let mut byte = [0];
    match tokio::time::timeout(wait, socket.read(&mut byte)).await {
        Ok(Ok(1)) => {
            socket.unread(&byte);
            Some(byte[0])
        }
        _ => None,
    }
}

fn say_hello(server: &Server, client: &Client) {
    client.out.append(&server.first_info(client));
    client.out.flush();
}
