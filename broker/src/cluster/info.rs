//! INFO and CONNECT between servers, and the addresses they tell each other.

use std::net::{IpAddr, SocketAddr};

use config::options::{Options, RouteUrl};
use protocol::info::{ConnectOptions, Info, SubjectPermission};

use super::layout::Slot;
use crate::server::Server;

/// What a peer must say if it offers compression that this server does not have: an old word, understood by all versions.
const COMPRESSION: &str = "not supported";

/// INFO of this server for a connection at `slot`.
pub fn for_route(server: &Server, slot: &Slot) -> Info {
    let options = server.options();
    let routes = server.routes();
    let name = routes.name();
    let template = server.info();
    let mut info = Info {
        server_id: template.server_id,
        server_name: template.server_name,
        version: template.version,
        go: template.go,
        proto: 1,
        headers: template.headers,
        max_payload: template.max_payload,
        cluster: name.name,
        cluster_dynamic: name.dynamic,
        lnoc: true,
        lnocu: true,
        compression: COMPRESSION.to_owned(),
        ldm: server.life() == crate::server::Life::LameDuck,
        ..Info::default()
    };
    if let Some(address) = routes.address() {
        info.host = address.ip().to_canonical().to_string();
        info.port = address.port();
    }
    let Some(cluster) = &options.cluster else { return info };
    info.auth_required = !cluster.authorization.username.is_empty();
    info.tls_required = cluster.tls.is_some();
    info.tls_verify = cluster.tls.is_some();
    if !cluster.no_advertise {
        info.connect_urls = own_client_urls(server);
    }
    if let Some(advertise) = &cluster.advertise {
        info.ip = format!("nats-route://{}/", with_default_port(advertise, info.port));
    }
    if let Some(permissions) = &cluster.permissions {
        info.import = told(&permissions.import);
        info.export = told(&permissions.export);
    }
    let layout = routes.wanted_layout(&options);
    info.route_pool_size = layout.pool.and_then(|size| i32::try_from(size).ok()).unwrap_or(0);
    match slot {
        Slot::Pool(index) => info.route_pool_idx = i32::try_from(*index).unwrap_or(i32::MAX),
        Slot::Account(name) => info.route_account = name.clone(),
    }
    info
}

/// Rules as the peer is told them; `None` if there are none.
fn told(rules: &config::options::SubjectPermission) -> Option<SubjectPermission> {
    let texts =
        |rules: &[config::options::SubjectRule]| rules.iter().map(|rule| rule.subject.clone()).collect();
    let told = SubjectPermission {
        allow: texts(rules.allow.as_deref().unwrap_or_default()),
        deny: texts(&rules.deny),
    };
    (!told.allow.is_empty() || !told.deny.is_empty()).then_some(told)
}

/// CONNECT of a connection that this server dials.
pub fn connect(server: &Server, url: &RouteUrl) -> ConnectOptions {
    let name = server.routes().name();
    let options = server.options();
    let own = options.cluster.as_ref().map(|cluster| &cluster.authorization);
    // A peer learnt from another peer has no credentials in its address: the cluster's own serve.
    let user =
        url.username.clone().or_else(|| own.map(|own| own.username.clone())).filter(|user| !user.is_empty());
    let pass = match (&url.password, own) {
        (Some(password), _) => Some(password.expose().to_owned()),
        (None, Some(own)) if url.username.is_none() && user.is_some() => {
            Some(own.password.expose().to_owned())
        }
        _ => None,
    };
    ConnectOptions {
        echo: true,
        verbose: false,
        pedantic: false,
        user,
        pass,
        tls_required: options.cluster.as_ref().is_some_and(|cluster| cluster.tls.is_some()),
        headers: server.info().headers,
        name: Some(server.identity.id.clone()),
        cluster: Some(name.name),
        cluster_dynamic: name.dynamic,
        lnoc: true,
        lnocu: true,
        ..ConnectOptions::default()
    }
}

/// Where other servers reach the peer that sent `info` from `peer`: what it says, or what is seen of it.
pub fn route_address(info: &Info, peer: SocketAddr) -> String {
    if info.ip.is_empty() {
        format!("nats-route://{}/", SocketAddr::new(peer.ip(), info.port))
    } else {
        info.ip.clone()
    }
}

/// Addresses that clients reach this server under.
pub fn own_client_urls(server: &Server) -> Vec<String> {
    let options = server.options();
    let Some(address) = server.client_address() else { return Vec::new() };
    if let Some(advertise) = &options.listen.client_advertise {
        return vec![with_default_port(advertise, address.port())];
    }
    if address.ip().is_unspecified() {
        return interface_addresses(address.is_ipv4())
            .into_iter()
            .map(|ip| SocketAddr::new(ip, address.port()).to_string())
            .collect();
    }
    vec![host_and_port(&options, address.port())]
}

fn host_and_port(options: &Options, port: u16) -> String {
    crate::net::listener::with_port(&options.listen.address, port)
}

/// `host` or `host:port` with a port for sure.
pub fn with_default_port(text: &str, port: u16) -> String {
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    if has_port { text.to_owned() } else { format!("{text}:{port}") }
}

/// Addresses of this machine that others can reach, in the system's order.
pub fn interface_addresses(v4_only: bool) -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let reachable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !v4_only && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    interfaces.iter().map(|interface| interface.ip()).filter(reachable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_added_only_where_there_is_none() {
        for (text, expected) in [
            ("host", "host:1"),
            ("host:7", "host:7"),
            ("10.0.0.1", "10.0.0.1:1"),
            ("[::1]:7", "[::1]:7"),
            ("[::1]", "[::1]:1"),
        ] {
            assert_eq!(with_default_port(text, 1), expected);
        }
    }

    #[test]
    fn a_peer_is_reached_where_it_says_or_where_it_is_seen() {
        let peer: SocketAddr = "10.1.2.3:40000".parse().unwrap();
        let mut info = Info { port: 6222, ..Info::default() };
        assert_eq!(route_address(&info, peer), "nats-route://10.1.2.3:6222/");
        info.ip = "nats-route://host:7/".into();
        assert_eq!(route_address(&info, peer), "nats-route://host:7/");
    }
}
