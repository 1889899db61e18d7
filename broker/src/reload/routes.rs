//! After a reload: which links to peers stay, which are made anew, and which are new.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use config::options::{Cluster, Options, RouteUrl};
use protocol::client::encode;
use protocol::error::CloseReason;

use crate::cluster::registry::{ClusterName, RouteTls};
use crate::cluster::{dial, info};
use crate::server::Server;

/// Puts the new `cluster` block in force.
pub(super) async fn apply(server: &Arc<Server>, old: &Options, new: &Options, tls: Option<RouteTls>) {
    let routes = server.routes();
    routes.set_tls(Arc::new(tls));
    let none = Cluster::default();
    let (from, to) = (old.cluster.as_ref().unwrap_or(&none), new.cluster.as_ref().unwrap_or(&none));
    let (removed, added) = (without(&from.routes, &to.routes), without(&to.routes, &from.routes));
    for url in &removed {
        routes.stop_dialling(&url.authority());
    }
    if !removed.is_empty() {
        close_configured(server, &removed).await;
    }
    if is_agreed_anew(from, to) {
        // What was agreed with the peers does not hold any more; both sides dial again and agree on the new.
        routes.close_all(CloseReason::RouteRemoved);
    } else if tells_other_addresses(old, new) {
        announce(server);
    }
    if let Some(name) = to.name.as_ref().filter(|name| from.name.as_ref() != Some(*name)) {
        routes.adopt_name(server, ClusterName { name: name.clone(), dynamic: false });
    }
    for url in added {
        dial::start(server, dial::Target::configured(url));
    }
}

/// Addresses of `urls` that `others` does not have.
fn without(urls: &[RouteUrl], others: &[RouteUrl]) -> Vec<RouteUrl> {
    urls.iter().filter(|url| !others.contains(url)).cloned().collect()
}

/// Does something change that two servers settle when they meet?
fn is_agreed_anew(old: &Cluster, new: &Cluster) -> bool {
    let credentials =
        |cluster: &Cluster| (cluster.authorization.username.clone(), cluster.authorization.password.clone());
    old.permissions != new.permissions
        || old.pool != new.pool
        || old.pinned_accounts != new.pinned_accounts
        || old.compression != new.compression
        || credentials(old) != credentials(new)
        || old.tls.is_some() != new.tls.is_some()
}

fn tells_other_addresses(old: &Options, new: &Options) -> bool {
    let told = |options: &Options| {
        let cluster = options.cluster.as_ref();
        (
            options.listen.client_advertise.clone(),
            cluster.and_then(|cluster| cluster.advertise.clone()),
            cluster.is_some_and(|cluster| cluster.no_advertise),
        )
    };
    told(old) != told(new)
}

/// Tells every peer, and the clients, under which addresses this server is reached now.
fn announce(server: &Arc<Server>) {
    for route in server.routes().one_per_peer("") {
        let info = info::for_route(server, &route.agreement.slot);
        route.out.append(&encode::info(&info));
        route.out.flush();
    }
    server.announce_info();
}

/// Closes the connections that were dialled to addresses which are no longer configured.
async fn close_configured(server: &Arc<Server>, removed: &[RouteUrl]) {
    let mut addresses: HashSet<SocketAddr> = HashSet::new();
    for url in removed {
        match tokio::net::lookup_host((url.host.as_str(), url.port)).await {
            Ok(found) => addresses.extend(found),
            Err(error) => {
                tracing::warn!("Route {url} is no longer dialled, but has no address to close: {error}")
            }
        }
    }
    for route in server.routes().all() {
        if route.solicited && addresses.contains(&route.peer) {
            route.out.finish(b"", CloseReason::RouteRemoved);
        }
    }
}
