//! Pages of what this server does not serve: what the reference shows when the feature is off.

use api::Time;
use serde::Serialize;

use super::now;
use crate::server::Server;

/// `/gatewayz` without gateways.
#[derive(Debug, Serialize)]
pub struct Gatewayz {
    server_id: String,
    now: Time,
    outbound_gateways: Empty,
    inbound_gateways: Empty,
}

/// `/leafz` without leafnodes.
#[derive(Debug, Serialize)]
pub struct Leafz {
    server_id: String,
    now: Time,
    leafnodes: u32,
    leafs: [u32; 0],
}

#[derive(Debug, Serialize)]
struct Empty {}

/// `/gatewayz`.
pub fn gatewayz(server: &Server) -> Gatewayz {
    Gatewayz {
        server_id: server.identity.id.clone(),
        now: now(),
        outbound_gateways: Empty {},
        inbound_gateways: Empty {},
    }
}

/// `/leafz`.
pub fn leafz(server: &Server) -> Leafz {
    Leafz { server_id: server.identity.id.clone(), now: now(), leafnodes: 0, leafs: [] }
}
