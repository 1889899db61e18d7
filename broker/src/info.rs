//! INFO: what the server tells a connection about itself (core-protocol, section 1).

use std::net::SocketAddr;

use api::jetstream::API_LEVEL;
use config::options::{Credentials, Options};
use protocol::info::Info;

use crate::net::client::Client;
use crate::server::{COMPATIBLE_VERSION, Identity, VERSION};

/// Name of this server in the `go` field, where the reference gives its language runtime.
pub fn runtime() -> String {
    format!("myelin-{VERSION}")
}

/// What does not differ between client connections.
pub fn template(identity: &Identity, options: &Options) -> Info {
    let jetstream = &options.jetstream;
    let mut info = Info {
        server_id: identity.id.clone(),
        server_name: identity.name.clone(),
        version: COMPATIBLE_VERSION.to_owned(),
        proto: 1,
        go: runtime(),
        jetstream: jetstream.enabled,
        domain: jetstream.domain.clone().filter(|_| jetstream.enabled).unwrap_or_default(),
        api_lvl: if jetstream.enabled { i32::try_from(API_LEVEL).unwrap_or(i32::MAX) } else { 0 },
        ..Info::default()
    };
    apply(&mut info, options);
    info
}

/// Brings the fields that depend on options in line with them.
pub fn apply(info: &mut Info, options: &Options) {
    let tls = options.tls.as_ref();
    info.headers = !options.listen.no_header_support;
    // True also where an open account makes credentials optional: clients that have some then send them.
    let has_credentials =
        !matches!(options.authorization.credentials, Credentials::Open) || options.users().next().is_some();
    info.auth_required = has_credentials && options.no_auth_user.is_none();
    info.tls_required = tls.is_some() && !options.listen.allow_non_tls;
    info.tls_available = tls.is_some() && options.listen.allow_non_tls;
    info.tls_verify = tls.is_some_and(|tls| tls.verify);
    info.max_payload = i64::from(options.limits.max_payload);
    if let Some(name) = options.cluster.as_ref().and_then(|cluster| cluster.name.clone()) {
        info.cluster = name;
    }
}

/// Where clients reach this server, as INFO says it: the advertised address, or the configured host with the port in use.
pub fn set_address(info: &mut Info, options: &Options, port: u16) {
    let address = &options.listen.address;
    let reached = match &options.listen.client_advertise {
        Some(advertise) => crate::cluster::info::with_default_port(advertise, port),
        None => crate::net::listener::with_port(address, port),
    };
    let (host, port_text) = reached.rsplit_once(':').unwrap_or((&reached, ""));
    info.host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    info.port = port_text.parse().unwrap_or(port);
}

/// INFO for a connection that is bound to nothing yet.
pub fn for_peer(template: &Info, id: u64, peer: SocketAddr, urls: Vec<String>) -> Info {
    let mut info = template.clone();
    info.client_id = id;
    info.client_ip = peer.ip().to_canonical().to_string();
    info.connect_urls = urls;
    info
}

/// INFO for one client.
pub fn for_client(template: &Info, client: &Client, urls: Vec<String>) -> Info {
    let mut info = for_peer(template, client.id, client.peer, urls);
    let account_max = client.binding().and_then(|binding| binding.account.limits().payload_max);
    if let Some(max) = account_max.and_then(|max| i64::try_from(max).ok()) {
        info.max_payload = info.max_payload.min(max);
    }
    info
}

/// INFO once the client is bound to an account.
pub fn after_connect(template: &Info, client: &Client, urls: Vec<String>) -> Info {
    let mut info = for_client(template, client, urls);
    if let Some(binding) = client.binding() {
        info.connect_info = true;
        info.remote_account = binding.account.name().to_owned();
        info.acc_is_sys = binding.account.is_system();
    }
    info
}
