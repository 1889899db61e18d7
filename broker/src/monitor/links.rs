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

/// `/jsz` without JetStream.
#[derive(Debug, Serialize)]
pub struct Jsz {
    memory: u64,
    storage: u64,
    reserved_memory: u64,
    reserved_storage: u64,
    accounts: u32,
    ha_assets: u32,
    api: JszApi,
    server_id: String,
    now: Time,
    disabled: bool,
    config: JszConfig,
    streams: u32,
    consumers: u32,
    messages: u64,
    bytes: u64,
    total: u32,
}

#[derive(Debug, Default, Serialize)]
struct JszApi {
    level: u32,
    total: u64,
    errors: u64,
}

#[derive(Debug, Default, Serialize)]
struct JszConfig {
    max_memory: i64,
    max_storage: i64,
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

/// `/jsz`.
pub fn jsz(server: &Server) -> Jsz {
    Jsz {
        memory: 0,
        storage: 0,
        reserved_memory: 0,
        reserved_storage: 0,
        accounts: 0,
        ha_assets: 0,
        api: JszApi::default(),
        server_id: server.identity.id.clone(),
        now: now(),
        disabled: true,
        config: JszConfig::default(),
        streams: 0,
        consumers: 0,
        messages: 0,
        bytes: 0,
        total: 0,
    }
}
