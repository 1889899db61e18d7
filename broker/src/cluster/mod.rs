//! Peers of the cluster: a full mesh of links, each a few connections (routes, section 2).

pub mod dial;
pub mod handshake;
pub mod info;
pub mod layout;
pub mod registry;
pub mod route;
pub mod session;

pub use registry::Routes;
pub use route::Route;

use std::sync::Arc;

use crate::net::listener;
use crate::server::{Server, StartError};

/// Opens the route listener and starts to dial the configured peers. Does nothing without a `cluster` block.
pub async fn start(server: &Arc<Server>) -> Result<(), StartError> {
    let options = server.options();
    let Some(cluster) = &options.cluster else { return Ok(()) };
    if let Some(address) = &cluster.listen {
        let listener = listener::bind(address).await?;
        let local = listener
            .local_addr()
            .map_err(|source| listener::BindError { address: address.to_string(), source })?;
        server.routes().set_address(local);
        tracing::info!("Cluster name is {}", server.routes().cluster_name());
        tracing::info!("Listening for route connections on {}", listener::with_port(address, local.port()));
        server.routes().keep(tokio::spawn(handshake::accept(Arc::clone(server), listener)).abort_handle());
    }
    for url in &cluster.routes {
        dial::start(server, dial::Target::configured(url.clone()));
    }
    Ok(())
}
