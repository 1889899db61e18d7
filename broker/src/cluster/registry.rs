//! All peers and their connections, and what clients are told of them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use config::options::{Options, RoutePool};
use parking_lot::{Mutex, RwLock};
use protocol::error::CloseReason;
use protocol::info::Info;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::layout::{Layout, Slot};
use super::route::Route;
use crate::net::flush::DirtySet;
use crate::net::sink::Account;
use crate::server::{Identity, Server};
use crate::tls;

/// A server that this one has connections to.
#[derive(Debug, Clone)]
struct Peer {
    slots: BTreeMap<Slot, Arc<Route>>,
    layout: Layout,
    info: Info,
}

/// The cluster's name, and whether it was made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterName {
    /// Name.
    pub name: String,
    /// Made up at the start; a configured name wins over it.
    pub dynamic: bool,
}

/// Why a connection to a peer cannot be taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// The place is taken, by a connection that stays.
    Duplicate,
    /// Another server has the same name.
    ServerName,
}

/// Links to all peers.
#[derive(Debug)]
pub struct Routes {
    peers: RwLock<HashMap<String, Peer>>,
    name: RwLock<ClusterName>,
    address: Mutex<Option<SocketAddr>>,
    /// Counts changes of `peers`, for those who wait for one.
    changes: watch::Sender<u64>,
    /// Tasks that accept and dial, by what they dial.
    tasks: Mutex<HashMap<String, AbortHandle>>,
    own_id: String,
    tls: ArcSwap<Option<RouteTls>>,
    had_peers: AtomicBool,
    own_name: String,
}

/// TLS of both directions of dialling.
#[derive(Debug)]
pub struct RouteTls {
    /// For peers that dial this server.
    pub acceptor: tls::Acceptor,
    /// For peers that this server dials.
    pub connector: tls::Connector,
    /// The certificate of a peer must name a configured address.
    check_known_urls: bool,
}

impl RouteTls {
    /// Loads the material that the options name.
    pub fn new(options: &config::options::Tls) -> Result<Self, tls::TlsError> {
        Ok(Self {
            acceptor: tls::Acceptor::for_peers(options)?,
            connector: tls::Connector::new(options)?,
            check_known_urls: options.check_known_urls,
        })
    }
}

impl Routes {
    /// No links yet.
    pub fn new(options: &Options, identity: &Identity) -> Result<Self, tls::TlsError> {
        let configured = options.cluster.as_ref().and_then(|cluster| cluster.name.clone());
        let dynamic = configured.is_none();
        // Any unique text serves as a name that is made up; the server's key is one.
        let name = configured.unwrap_or_else(|| identity.id.clone());
        let tls = options
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.tls.as_ref())
            .map(RouteTls::new)
            .transpose()?;
        Ok(Self {
            peers: RwLock::default(),
            name: RwLock::new(ClusterName { name, dynamic }),
            address: Mutex::new(None),
            changes: watch::Sender::new(0),
            tasks: Mutex::default(),
            own_id: identity.id.clone(),
            tls: ArcSwap::from_pointee(tls),
            had_peers: AtomicBool::new(false),
            own_name: identity.name.clone(),
        })
    }

    /// TLS of route connections, if configured.
    pub fn tls(&self) -> Arc<Option<RouteTls>> {
        self.tls.load_full()
    }

    /// Puts other TLS material in force for new connections.
    pub fn set_tls(&self, tls: Arc<Option<RouteTls>>) {
        self.tls.store(tls);
    }

    /// With `verify_cert_and_check_known_urls` the peer's certificate must name one of the configured peers.
    pub fn check_certificate(&self, server: &Server, session: &tls::Session) -> Result<(), String> {
        let check = self.tls.load().as_ref().as_ref().is_some_and(|tls| tls.check_known_urls);
        let options = server.options();
        let hosts =
            options.cluster.iter().flat_map(|cluster| cluster.routes.iter().map(|url| url.host.clone()));
        if check && !session.matches_known_hosts(&hosts.collect::<Vec<_>>()) {
            return Err("the certificate names none of the configured routes".to_owned());
        }
        Ok(())
    }

    /// Name of the cluster.
    pub fn cluster_name(&self) -> String {
        self.name.read().name.clone()
    }

    /// Name of the cluster and where it comes from.
    pub fn name(&self) -> ClusterName {
        self.name.read().clone()
    }

    /// Takes over a peer's name for the cluster; links under the old one are closed.
    pub fn adopt_name(&self, server: &Server, name: ClusterName) {
        tracing::info!("Cluster name updated to {}", name.name);
        server.update_info(|info| info.cluster = name.name.clone());
        *self.name.write() = name;
        self.close_all(CloseReason::ClusterNameConflict);
    }

    /// Notes where peers connect to.
    pub fn set_address(&self, address: SocketAddr) {
        *self.address.lock() = Some(address);
    }

    /// Where peers connect to.
    pub fn address(&self) -> Option<SocketAddr> {
        *self.address.lock()
    }

    /// Keeps the task that accepts peers.
    pub fn keep(&self, task: AbortHandle) {
        self.keep_dialling("", task);
    }

    /// Keeps the task that dials `target`, and ends an older one.
    pub fn keep_dialling(&self, target: &str, task: AbortHandle) {
        if let Some(older) = self.tasks.lock().insert(target.to_owned(), task) {
            older.abort();
        }
    }

    /// Is `target` being dialled?
    pub fn is_dialling(&self, target: &str) -> bool {
        self.tasks.lock().get(target).is_some_and(|task| !task.is_finished())
    }

    /// Stops to dial `target`.
    pub fn stop_dialling(&self, target: &str) {
        if let Some(task) = self.tasks.lock().remove(target) {
            task.abort();
        }
    }

    /// How this server wants accounts spread over connections.
    pub fn wanted_layout(&self, options: &Options) -> Layout {
        let Some(cluster) = &options.cluster else {
            return Layout { pool: None, pinned: Default::default() };
        };
        let RoutePool::Size(size) = cluster.pool else {
            return Layout { pool: None, pinned: Default::default() };
        };
        let mut pinned: std::collections::BTreeSet<String> =
            cluster.pinned_accounts.iter().cloned().collect();
        // The system account never waits behind the traffic of others.
        pinned.extend(options.system_account_name().map(ToOwned::to_owned));
        Layout { pool: Some(size.get()), pinned }
    }

    /// Takes a connection in whose handshake is done. A peer that is new is returned with the connections to tell of it.
    pub fn add(&self, route: &Arc<Route>, info: &Info) -> Result<bool, Conflict> {
        let agreement = &route.agreement;
        let mut peers = self.peers.write();
        let same_name = |(id, peer): (&String, &Peer)| {
            *id != agreement.peer_id && peer.info.server_name == agreement.peer_name
        };
        let is_own_name = agreement.peer_name == self.own_name;
        if !route.solicited && (is_own_name || peers.iter().any(same_name)) {
            return Err(Conflict::ServerName);
        }
        let is_new = !peers.contains_key(&agreement.peer_id);
        let peer = peers.entry(agreement.peer_id.clone()).or_insert_with(|| Peer {
            slots: BTreeMap::new(),
            layout: agreement.layout.clone(),
            info: info.clone(),
        });
        if let Some(existing) = peer.slots.get(&agreement.slot)
            && !existing.out.is_closing()
        {
            if !self.newcomer_wins(existing, route) {
                return Err(Conflict::Duplicate);
            }
            existing.out.abort(CloseReason::DuplicateRoute);
        }
        self.had_peers.store(true, Ordering::Relaxed);
        peer.slots.insert(agreement.slot.clone(), Arc::clone(route));
        peer.layout = agreement.layout.clone();
        drop(peers);
        self.changes.send_modify(|count| *count += 1);
        Ok(is_new)
    }

    /// Two connections for one place, each dialled by the other side: both sides keep the one that the smaller id dialled.
    fn newcomer_wins(&self, existing: &Route, newcomer: &Route) -> bool {
        if existing.solicited == newcomer.solicited {
            return false;
        }
        let own_is_smaller = self.own_id < newcomer.agreement.peer_id;
        newcomer.solicited == own_is_smaller
    }

    /// Takes a connection out. True if it was the peer's last.
    pub fn remove(&self, route: &Route) -> bool {
        let mut peers = self.peers.write();
        let Some(peer) = peers.get_mut(&route.agreement.peer_id) else { return false };
        if peer.slots.get(&route.agreement.slot).is_some_and(|current| current.id == route.id) {
            peer.slots.remove(&route.agreement.slot);
        }
        let last = peer.slots.is_empty();
        if last {
            peers.remove(&route.agreement.peer_id);
        }
        drop(peers);
        self.changes.send_modify(|count| *count += 1);
        last
    }

    /// The first place in the pair's layout without a connection. `None` if nothing is missing.
    pub fn missing_slot(&self, peer_id: &str, wanted: &Layout) -> Option<Slot> {
        let peers = self.peers.read();
        let Some(peer) = peers.get(peer_id) else { return Some(Slot::Pool(0)) };
        let taken = |slot: &Slot| peer.slots.get(slot).is_some_and(|route| !route.out.is_closing());
        let layout = if peer.layout.pool.is_some() { &peer.layout } else { wanted };
        let slots = if peer.layout.pool.is_none() { vec![Slot::Pool(0)] } else { layout.slots() };
        slots.into_iter().find(|slot| !taken(slot))
    }

    /// Did the peer dial the first connection? Then it also dials the others.
    pub fn is_led_by_peer(&self, peer_id: &str) -> bool {
        let peers = self.peers.read();
        let first = peers.get(peer_id).and_then(|peer| peer.slots.get(&Slot::Pool(0)));
        first.is_some_and(|route| !route.solicited)
    }

    /// Is there any connection to that server?
    pub fn is_connected(&self, peer_id: &str) -> bool {
        self.peers.read().contains_key(peer_id)
    }

    /// Tells of changes of the peers. Who looks at the peers and then waits has to ask for it before he looks.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// All connections.
    pub fn all(&self) -> Vec<Arc<Route>> {
        self.peers.read().values().flat_map(|peer| peer.slots.values().cloned()).collect()
    }

    /// One connection of every peer but `except`.
    pub fn one_per_peer(&self, except: &str) -> Vec<Arc<Route>> {
        let peers = self.peers.read();
        let others = peers.iter().filter(|(id, _)| *id != except);
        others.filter_map(|(_, peer)| peer.slots.values().next().cloned()).collect()
    }

    /// Number of peers.
    pub fn peer_count(&self) -> usize {
        self.peers.read().len()
    }

    /// What the peers have said of themselves last.
    pub fn peer_infos(&self) -> Vec<Info> {
        self.peers.read().values().map(|peer| peer.info.clone()).collect()
    }

    /// A peer has changed what it says of itself. True if the addresses for clients are others now.
    pub fn update_peer(&self, peer_id: &str, info: Info) -> bool {
        let mut peers = self.peers.write();
        let Some(peer) = peers.get_mut(peer_id) else { return false };
        let changed = peer.info.connect_urls != info.connect_urls || peer.info.ldm != info.ldm;
        peer.info = info;
        changed
    }

    /// Starts to tell the peers of an account's interest, on the connections that carry it.
    pub fn attach_account(&self, account: &Account) {
        for route in self.all().into_iter().filter(|route| route.carries(account.name())) {
            account.interest.attach(account.name(), Arc::clone(&route) as _);
            route.out.flush();
        }
    }

    /// Marks the connections that were told of a change of interest.
    pub fn mark_dirty(&self, dirty: &mut DirtySet) {
        for peer in self.peers.read().values() {
            for route in peer.slots.values().filter(|route| route.take_announced()) {
                dirty.mark(&route.out);
            }
        }
    }

    /// Addresses that clients reach the cluster under: this server's, then its peers'.
    pub fn client_urls(&self, server: &Server) -> Vec<String> {
        let options = server.options();
        let Some(cluster) = options.cluster.as_ref().filter(|cluster| !cluster.no_advertise) else {
            return Vec::new();
        };
        if cluster.listen.is_none() && cluster.routes.is_empty() {
            return Vec::new();
        }
        if !self.had_peers.load(Ordering::Relaxed) {
            // A server that has never had a peer has nothing to tell that the client does not know.
            return Vec::new();
        }
        let mut urls = super::info::own_client_urls(server);
        if server.life() == crate::server::Life::LameDuck {
            urls.clear();
        }
        for peer in self.peers.read().values().filter(|peer| !peer.info.ldm) {
            urls.extend(
                peer.info.connect_urls.iter().filter(|url| !urls.contains(url)).cloned().collect::<Vec<_>>(),
            );
        }
        urls
    }

    /// Tells every peer that this server takes no more clients.
    pub fn announce_lame_duck(&self, server: &Server) {
        for route in self.one_per_peer("") {
            let mut info = super::info::for_route(server, &route.agreement.slot);
            info.ldm = true;
            info.connect_urls.clear();
            route.out.append(&protocol::client::encode::info(&info));
            route.out.flush();
        }
    }

    /// Closes every connection.
    pub fn close_all(&self, reason: CloseReason) {
        for route in self.all() {
            route.out.finish(b"", reason);
        }
    }

    /// Stops to accept and to dial, and closes every connection.
    pub fn shut_down(&self) {
        for (_, task) in self.tasks.lock().drain() {
            task.abort();
        }
        self.close_all(CloseReason::ServerShutdown);
    }
}
