//! The server: what all connections share, how it starts and how it stops.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use api::monitor::SubDetail;
use arc_swap::ArcSwap;
use config::options::Options;
use parking_lot::{Mutex, RwLock};
use protocol::error::CloseReason;
use protocol::info::Info;
use tokio::sync::Notify;

use crate::accounts::Registry;
use crate::auth::{Authenticator, Refusal};
use crate::clock;
use crate::cluster::Routes;
use crate::files::Written;
use crate::info;
use crate::jetstream::{self, JetStream};
use crate::monitor::Monitoring;
use crate::monitor::closed::ClosedClients;
use crate::net::client::Client;
use crate::net::dispatch::Tally;
use crate::net::listener::{BindError, Listeners};
use crate::reload::{Loaded, Origin};
use crate::system::System;
use crate::tls;

/// Version of this server.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Version of the reference whose protocol and behaviour this server keeps to; clients derive features from it.
pub const COMPATIBLE_VERSION: &str = "2.15.1";

/// Time given to connections to write their last bytes when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How often it is looked whether they have.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// Who this server is.
#[derive(Debug)]
pub struct Identity {
    /// Public server key, `N…`.
    pub id: String,
    /// Configured name, or the key.
    pub name: String,
    /// When it started.
    pub started: Instant,
    /// The same for people, in nanoseconds since 1970.
    pub started_unix: i64,
}

/// Counters of the whole server.
#[derive(Debug, Default)]
pub struct Stats {
    /// Messages from clients and routes.
    pub in_messages: AtomicU64,
    /// Their bytes.
    pub in_bytes: AtomicU64,
    /// Messages to clients and routes.
    pub out_messages: AtomicU64,
    /// Their bytes.
    pub out_bytes: AtomicU64,
    /// Messages from clients.
    pub in_client_messages: AtomicU64,
    /// Their bytes.
    pub in_client_bytes: AtomicU64,
    /// Messages to clients.
    pub out_client_messages: AtomicU64,
    /// Their bytes.
    pub out_client_bytes: AtomicU64,
    /// Clients closed because they were too slow.
    pub slow_clients: AtomicU64,
    /// Routes closed because they were too slow.
    pub slow_routes: AtomicU64,
    /// Clients that did not answer PING.
    pub stale_connections: AtomicU64,
    /// Routes that did not answer PING.
    pub stale_routes: AtomicU64,
    /// Pauses imposed on publishers.
    pub stalled_clients: AtomicU64,
    /// Client connections since the start.
    pub total_connections: AtomicU64,
}

impl Stats {
    /// Adds what one read or turn counted.
    pub fn add(&self, tally: &Tally, from_route: bool) {
        let add = |counter: &AtomicU64, value: u64| {
            if value > 0 {
                counter.fetch_add(value, Relaxed);
            }
        };
        add(&self.in_messages, tally.received.messages);
        add(&self.in_bytes, tally.received.bytes);
        if !from_route {
            add(&self.in_client_messages, tally.received.messages);
            add(&self.in_client_bytes, tally.received.bytes);
        }
        add(&self.out_messages, tally.sent.messages + tally.routed.messages);
        add(&self.out_bytes, tally.sent.bytes + tally.routed.bytes);
        add(&self.out_client_messages, tally.sent.messages);
        add(&self.out_client_bytes, tally.sent.bytes);
    }
}

/// Where the server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Life {
    /// Not all listeners are open yet.
    Starting = 0,
    /// Serving.
    Running = 1,
    /// Taking no new clients and sending the old ones away.
    LameDuck = 2,
    /// Closing everything.
    Stopping = 3,
}

/// The server. Shared by everything that runs in it.
#[derive(Debug)]
pub struct Server {
    /// Who it is.
    pub identity: Identity,
    /// Accounts.
    pub accounts: Registry,
    /// Addresses it listens on.
    pub listeners: Listeners,
    /// Clients that went, for monitoring.
    pub closed: ClosedClients,
    /// Monitoring over HTTP.
    pub monitoring: Monitoring,
    /// Numbers of what the server says as a participant of its system account.
    pub system: System,
    /// JetStream, once it has started.
    pub jetstream: OnceLock<JetStream>,
    /// Files that say where this server is; gone when they are dropped.
    pub files: Mutex<Written>,
    options: ArcSwap<Options>,
    auth: ArcSwap<Authenticator>,
    client_tls: ArcSwap<Option<tls::Acceptor>>,
    clients: RwLock<HashMap<u64, Arc<Client>>>,
    routes: Routes,
    stats: Stats,
    next_id: AtomicU64,
    life: AtomicU8,
    seed: u64,
    info: RwLock<Info>,
    stopped: Notify,
    /// When the options in force were loaded, and their digest.
    config_loaded: Mutex<(i64, Option<String>)>,
    /// Where they can be loaded from again.
    source: Origin,
    /// Held by a reload while it runs.
    reloading: tokio::sync::Mutex<()>,
}

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener does not open.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// TLS material does not load.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// JetStream does not start.
    #[error(transparent)]
    JetStream(#[from] jetstream::StartError),
    /// No key for the server's identity.
    #[error("server identity: {0}")]
    Identity(String),
}

impl Server {
    /// Builds everything, opens the listeners and starts to serve.
    pub async fn start(loaded: Loaded) -> Result<Arc<Self>, StartError> {
        let server = Arc::new(Self::build(loaded)?);
        server.log_identity();
        // Monitoring comes first: it shows how far the recovery is.
        crate::monitor::start(&server).await?;
        if let Some(jetstream) = jetstream::start(&server).await? {
            let set = server.jetstream.set(jetstream);
            assert!(set.is_ok(), "JetStream started twice");
        }
        Listeners::open(&server).await?;
        crate::cluster::start(&server).await?;
        crate::system::start(&server);
        crate::accounts::start(&server);
        server.life.store(Life::Running as u8, Ordering::Release);
        Ok(server)
    }

    fn log_identity(&self) {
        let options = self.options();
        tracing::info!("  Version:  {VERSION} (compatible with {COMPATIBLE_VERSION})");
        if options.cluster.is_some() {
            tracing::info!("  Cluster:  {}", self.routes.cluster_name());
        }
        tracing::info!("  Name:     {}", self.identity.name);
        tracing::info!("  ID:       {}", self.identity.id);
        if let Some(path) = &self.source.path {
            let digest = self.config_loaded().1.unwrap_or_default();
            tracing::info!("Using configuration file: {path} ({digest})");
        }
        if options.has_plain_passwords() {
            tracing::warn!("Plaintext passwords detected, use nkeys or bcrypt");
        }
    }

    fn build(loaded: Loaded) -> Result<Self, StartError> {
        let Loaded { options, digest, path, overrides } = loaded;
        let key = nkeys::KeyPair::new_server();
        let id = key.public_key();
        let name = options.server_name.clone().unwrap_or_else(|| id.clone());
        let accounts = Registry::new(&options);
        let auth = Authenticator::new(&options, &accounts);
        let client_tls = options.tls.as_ref().map(tls::Acceptor::new).transpose()?;
        let identity = Identity { id, name, started: clock::now(), started_unix: clock::unix_nanos() };
        let mut info = info::template(&identity, &options);
        let routes = Routes::new(&options, &identity)?;
        if options.cluster.is_some() {
            info.cluster = routes.cluster_name();
        }
        Ok(Self {
            closed: ClosedClients::new(options.limits.max_closed_clients as usize),
            monitoring: Monitoring::new(&options)?,
            system: System::default(),
            routes,
            identity,
            accounts,
            listeners: Listeners::default(),
            options: ArcSwap::from_pointee(options),
            auth: ArcSwap::from_pointee(auth),
            client_tls: ArcSwap::from_pointee(client_tls),
            clients: RwLock::default(),
            stats: Stats::default(),
            next_id: AtomicU64::new(1),
            life: AtomicU8::new(Life::Starting as u8),
            seed: rand::random(),
            info: RwLock::new(info),
            stopped: Notify::new(),
            config_loaded: Mutex::new((clock::unix_nanos(), digest)),
            source: Origin { path, overrides },
            reloading: tokio::sync::Mutex::new(()),
            files: Mutex::default(),
            jetstream: OnceLock::new(),
        })
    }

    /// The options in force.
    pub fn options(&self) -> Arc<Options> {
        self.options.load_full()
    }

    /// The users in force.
    pub fn auth(&self) -> Arc<Authenticator> {
        self.auth.load_full()
    }

    /// TLS of the client listener, if configured.
    pub fn client_tls(&self) -> Arc<Option<tls::Acceptor>> {
        self.client_tls.load_full()
    }

    /// Puts reloaded options, users and TLS material in force.
    pub fn replace(
        &self,
        options: Arc<Options>,
        auth: Arc<Authenticator>,
        client_tls: Arc<Option<tls::Acceptor>>,
    ) {
        self.auth.store(auth);
        self.client_tls.store(client_tls);
        self.options.store(options);
    }

    /// When the options were loaded (nanoseconds since 1970) and their digest.
    pub fn config_loaded(&self) -> (i64, Option<String>) {
        self.config_loaded.lock().clone()
    }

    /// Notes that options with this digest were loaded now.
    pub fn set_config_loaded(&self, digest: Option<String>) {
        *self.config_loaded.lock() = (clock::unix_nanos(), digest);
    }

    /// Where the options can be loaded from again.
    pub(crate) fn source(&self) -> &Origin {
        &self.source
    }

    /// Held by a reload while it runs.
    pub(crate) fn reloading(&self) -> &tokio::sync::Mutex<()> {
        &self.reloading
    }

    /// Links to peers.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Seed of this run's fair choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number for a new connection of any kind.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// Where it is in its life.
    pub fn life(&self) -> Life {
        match self.life.load(Ordering::Acquire) {
            0 => Life::Starting,
            1 => Life::Running,
            2 => Life::LameDuck,
            _ => Life::Stopping,
        }
    }

    /// Moves on in its life; false if it was there or further already.
    pub fn advance(&self, to: Life) -> bool {
        self.life.fetch_max(to as u8, Ordering::AcqRel) < to as u8
    }

    /// All clients.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.clients.read().values().cloned().collect()
    }

    /// Number of clients.
    pub fn client_count(&self) -> usize {
        self.clients.read().len()
    }

    /// The client of that number.
    pub fn client(&self, id: u64) -> Option<Arc<Client>> {
        self.clients.read().get(&id).cloned()
    }

    /// Takes a connection in, unless the server is full. `Err` gives the client back to be sent away.
    pub fn admit(&self, client: Arc<Client>) -> Result<Arc<Client>, Arc<Client>> {
        let max = self.options().limits.max_connections as usize;
        let mut clients = self.clients.write();
        if clients.len() >= max {
            return Err(client);
        }
        self.stats.total_connections.fetch_add(1, Relaxed);
        clients.insert(client.id, Arc::clone(&client));
        Ok(client)
    }

    /// A client was bound to an account.
    pub fn on_client_bound(self: &Arc<Self>, client: &Arc<Client>) {
        crate::system::events::client_connected(self, client);
    }

    /// A client's connection is over, and with it the subscriptions that it `lost` as a slow consumer.
    pub fn on_client_closed(self: &Arc<Self>, client: &Arc<Client>, lost: Box<[SubDetail]>) {
        use CloseReason::{SlowConsumerPendingBytes, SlowConsumerWriteDeadline};
        let known = self.clients.write().remove(&client.id).is_some();
        let reason = client.out.close_reason();
        let limits = client.out.limits();
        match reason {
            Some(SlowConsumerPendingBytes) => tracing::info!(
                "{} - cid:{} - Slow Consumer Detected: MaxPending of {} Exceeded",
                client.peer,
                client.id,
                limits.pending_max
            ),
            Some(SlowConsumerWriteDeadline) => tracing::info!(
                "{} - cid:{} - Slow Consumer Detected: WriteDeadline of {:?} exceeded",
                client.peer,
                client.id,
                limits.write_deadline
            ),
            _ => {}
        }
        if reason.is_some_and(CloseReason::is_slow_consumer) {
            self.stats.slow_clients.fetch_add(1, Relaxed);
        }
        if known {
            self.closed.add(client, lost);
            crate::system::events::client_disconnected(self, client);
        }
        let reason = reason.map_or("Client Closed", |reason| reason.as_str());
        tracing::debug!("{} - cid:{} - Client connection closed: {reason}", client.peer, client.id);
    }

    /// A client was refused.
    pub fn on_auth_error(self: &Arc<Self>, client: &Arc<Client>, refusal: &Refusal) {
        crate::system::events::auth_failed(self, client);
        let user = client.identity.lock().credentials.user().map(ToOwned::to_owned).unwrap_or_default();
        tracing::error!("{} - cid:{} - {refusal} - User {user:?}", client.peer, client.id);
    }

    /// A client got an `-ERR`.
    pub fn log_client_error(&self, client: &Client, text: &str) {
        tracing::error!("{} - cid:{} - {text}", client.peer, client.id);
    }

    /// INFO for a new connection, as a line.
    pub fn first_info(&self, client: &Client) -> Vec<u8> {
        let info = info::for_client(&self.info.read(), client, self.client_urls());
        protocol::client::encode::info(&info)
    }

    /// INFO for a connection that has no client yet, because TLS comes between.
    pub fn info_before_tls(&self, id: u64, peer: SocketAddr) -> Vec<u8> {
        let info = info::for_peer(&self.info.read(), id, peer, self.client_urls());
        protocol::client::encode::info(&info)
    }

    /// INFO after the first PONG: what the connection was bound to.
    pub fn connect_info(&self, client: &Client) -> Vec<u8> {
        let info = info::after_connect(&self.info.read(), client, self.client_urls());
        protocol::client::encode::info(&info)
    }

    /// Changes what INFO says, and tells every client that wants to know.
    pub fn update_info(&self, change: impl FnOnce(&mut Info)) {
        change(&mut self.info.write());
        self.announce_info();
    }

    /// Tells every client that wants to know that INFO has changed.
    pub fn announce_info(&self) {
        for client in self.clients() {
            if client.wants_info() {
                let info = info::for_client(&self.info.read(), &client, self.client_urls());
                client.out.append(&protocol::client::encode::info(&info));
                client.out.flush();
            }
        }
    }

    /// The INFO that all connections start from.
    pub fn info(&self) -> Info {
        self.info.read().clone()
    }

    /// Client addresses of the whole cluster, this server first; `None` if they are not to be told.
    pub fn client_urls(&self) -> Vec<String> {
        self.routes.client_urls(self)
    }

    /// Address that clients reach this server under.
    pub fn client_address(&self) -> Option<SocketAddr> {
        self.listeners.client()
    }

    /// Ends everything: no more clients, no more routes. Returns when connections are told.
    pub fn stop(self: &Arc<Self>) {
        if !self.advance(Life::Stopping) {
            return;
        }
        tracing::info!("Initiating Shutdown...");
        crate::system::events::shutdown(self);
        self.listeners.abort();
        self.monitoring.close();
        if let Some(jetstream) = self.jetstream.get() {
            jetstream.take_leave();
        }
        for client in self.clients() {
            client.out.finish(b"", CloseReason::ServerShutdown);
        }
        self.routes.shut_down();
        self.stopped.notify_waiters();
        self.stopped.notify_one();
        tracing::info!("Server Exiting..");
    }

    /// Waits until the connections are closed, but not for ever, and until JetStream is on stable storage.
    pub async fn drain(self: &Arc<Self>) {
        let until = clock::now() + DRAIN_MAX;
        while (self.client_count() > 0 || self.routes.peer_count() > 0) && clock::now() < until {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        let server = Arc::clone(self);
        // The disk takes its time, and sockets are still written to meanwhile.
        let stopped = tokio::task::spawn_blocking(move || server.jetstream.get().map(JetStream::stop)).await;
        if let Err(error) = stopped {
            tracing::error!("stopping JetStream: {error}");
        }
    }

    /// Waits for the end.
    pub async fn wait(&self) {
        if self.life() != Life::Stopping {
            self.stopped.notified().await;
        }
    }
}
