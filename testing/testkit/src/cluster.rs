//! Several servers in one cluster, of one kind or mixed.

use std::ops::{Index, IndexMut};

use serde_json::Value;

use crate::server::{Builder, Server};
use crate::target::Target;
use crate::wait::eventually_ok;

/// How one member of a cluster is started.
pub struct Member {
    /// Ours or the reference.
    pub target: Target,
    /// Lines inside the `cluster` block.
    pub cluster: String,
    /// Lines outside of it.
    pub top: String,
    /// User and password in the route URL, as `user:password@`.
    pub route_user: String,
    /// Files in its directory.
    pub files: Vec<(String, String)>,
}

impl Member {
    /// A member without anything special.
    pub fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            cluster: String::new(),
            top: String::new(),
            route_user: String::new(),
            files: Vec::new(),
        }
    }

    /// With lines inside the `cluster` block.
    pub fn cluster(mut self, lines: &str) -> Self {
        self.cluster = lines.to_owned();
        self
    }

    /// With lines outside the `cluster` block.
    pub fn top(mut self, lines: &str) -> Self {
        self.top = lines.to_owned();
        self
    }

    /// Dialing with these credentials, written `user:password@`.
    pub fn route_user(mut self, user: &str) -> Self {
        self.route_user = user.to_owned();
        self
    }

    /// With a file in its directory.
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// The configuration text, with routes to these addresses.
    fn config(&self, index: usize, routes: &[String]) -> String {
        format!(
            "server_name: n{index}\n{}\ncluster {{\n  name: c1\n  listen: \"127.0.0.1:%CLUSTER_PORT%\"\n  routes: [{}]\n{}\n}}\n",
            self.top,
            routes.join(", "),
            self.cluster
        )
    }
}

/// Servers that know the first of them and learn of the others.
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// This many plain servers of one kind, meshed.
    pub async fn of(count: usize, target: &Target) -> Self {
        Self::start((0..count).map(|_| Member::new(target)).collect()).await
    }

    /// These members, meshed.
    pub async fn start(members: Vec<Member>) -> Self {
        let cluster = Self::start_unmeshed(members).await;
        cluster.await_mesh().await;
        cluster
    }

    /// These members, without waiting until they have found each other.
    pub async fn start_unmeshed(members: Vec<Member>) -> Self {
        let mut servers: Vec<Server> = Vec::with_capacity(members.len());
        for (index, member) in members.into_iter().enumerate() {
            let user = &member.route_user;
            let route =
                servers.first().map(|first| format!("\"nats-route://{user}{}\"", first.cluster_addr()));
            let routes: Vec<String> = route.into_iter().collect();
            let config = member.config(index, &routes);
            let mut builder = Builder::new(&member.target).config(config).monitoring();
            for (name, text) in member.files {
                builder = builder.file(&name, text);
            }
            servers.push(builder.start().await);
        }
        Self { servers }
    }

    /// Waits until every running member has a full set of routes to every other.
    pub async fn await_mesh(&self) {
        self.await_peers_of_each(self.servers.len() - 1).await;
    }

    /// Waits until every member sees exactly this many peers, each with a full set of routes.
    pub async fn await_peers_of_each(&self, peers: usize) {
        for server in &self.servers {
            await_peers(server, peers).await;
        }
    }

    /// The members.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }
}

impl Index<usize> for Cluster {
    type Output = Server;

    fn index(&self, index: usize) -> &Server {
        &self.servers[index]
    }
}

impl IndexMut<usize> for Cluster {
    fn index_mut(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }
}

/// Waits until a server sees exactly this many peers and no route of a set is missing.
pub(crate) async fn await_peers(server: &Server, peers: usize) {
    eventually_ok(&format!("{peers} peers"), async || {
        let routez = server.get_json("/routez").await;
        let varz = server.get_json("/varz").await;
        let pool = varz["cluster"]["pool_size"].as_u64().unwrap_or(1).max(1);
        if mesh_is_whole(&routez, peers, pool) { Ok(()) } else { Err(format!("{routez:#}")) }
    })
    .await;
}

/// Whether every peer has at least `pool` routes that are not dedicated to an account.
fn mesh_is_whole(routez: &Value, peers: usize, pool: u64) -> bool {
    let Some(routes) = routez["routes"].as_array() else { return peers == 0 };
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    for route in routes {
        let Some(id) = route["remote_id"].as_str() else { return false };
        let counted = u64::from(route.get("account").is_none());
        *counts.entry(id).or_default() += counted;
    }
    counts.len() == peers && counts.values().all(|&count| count >= pool)
}
