//! Events of the system account, and the envelope of its responses.

mod response;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration::nanos;
use crate::monitor::{AccountStat, JetStreamVarz, KindCounts};
use crate::optional::is_zero;
use crate::time::Time;

pub use response::{ClientRequest, Data, EventFilter, ServerApiResponse, UserInfo, decode_request};

/// `type` of [`ConnectEvent`].
pub const CONNECT_TYPE: &str = "io.nats.server.advisory.v1.client_connect";
/// `type` of [`DisconnectEvent`], which authentication failures use too.
pub const DISCONNECT_TYPE: &str = "io.nats.server.advisory.v1.client_disconnect";
/// `type` of [`AccountConnections`].
pub const ACCOUNT_CONNECTIONS_TYPE: &str = "io.nats.server.advisory.v1.account_connections";

/// Bits of [`ServerInfo::flags`].
pub mod capability {
    /// JetStream is enabled.
    pub const JETSTREAM: u64 = 1;
    /// Stream snapshots may be binary.
    pub const BINARY_STREAM_SNAPSHOT: u64 = 2;
    /// Replication traffic may use the account of the stream.
    pub const ACCOUNT_NRG: u64 = 4;
}

/// The server an event or a response comes from. Sequence and time are those of sending.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct ServerInfo {
    pub name: String,
    pub host: String,
    pub id: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub domain: String,
    #[serde(rename = "ver")]
    pub version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub feature_flags: BTreeMap<String, bool>,
    pub jetstream: bool,
    /// Bits of [`capability`].
    pub flags: u64,
    pub seq: u64,
    pub time: Time,
}

/// Answer to an identity request, and the only one without an envelope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerId {
    /// Name of the server.
    pub name: String,
    /// Host it listens on.
    pub host: String,
    /// Its identity.
    pub id: String,
}

/// Messages and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MsgBytes {
    /// Messages.
    pub msgs: i64,
    /// Bytes of their headers and payloads.
    pub bytes: i64,
}

/// Messages and bytes, with the share of each kind of link where it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataStats {
    /// Messages.
    pub msgs: i64,
    /// Bytes of their headers and payloads.
    pub bytes: i64,
    /// Share of gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateways: Option<MsgBytes>,
    /// Share of routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<MsgBytes>,
    /// Share of leafnodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leafs: Option<MsgBytes>,
}

impl DataStats {
    /// Totals without shares, as connections and routes have them.
    pub fn total(msgs: i64, bytes: i64) -> Self {
        Self { msgs, bytes, ..Self::default() }
    }

    /// Totals with the share of routes, and of the links that are not served, as accounts have them.
    pub fn with_routes(msgs: i64, bytes: i64, routes: MsgBytes) -> Self {
        let none = Some(MsgBytes::default());
        Self { msgs, bytes, gateways: none, routes: Some(routes), leafs: none }
    }
}

/// Periodic figures of a server, also the answer to a request for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatszMessage {
    /// Where it comes from.
    pub server: ServerInfo,
    /// The figures.
    pub statsz: ServerStats,
}

/// Figures of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct ServerStats {
    pub start: Time,
    pub mem: i64,
    pub cores: i32,
    pub cpu: f64,
    pub connections: i64,
    pub total_connections: u64,
    pub active_accounts: i64,
    pub subscriptions: u32,
    pub sent: DataStats,
    pub sent_to_clients: DataStats,
    pub received: DataStats,
    pub received_from_clients: DataStats,
    pub slow_consumers: i64,
    /// Left out while all counts are zero, as are the next three.
    #[serde(skip_serializing_if = "is_zero")]
    pub slow_consumer_stats: KindCounts,
    #[serde(skip_serializing_if = "is_zero")]
    pub stale_connections: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub stale_connection_stats: KindCounts,
    #[serde(skip_serializing_if = "is_zero")]
    pub stalled_clients: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub routes: Vec<RouteStat>,
    #[serde(skip_serializing_if = "is_zero")]
    pub active_servers: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<JetStreamVarz>,
    #[serde(skip_serializing_if = "is_zero")]
    pub gomemlimit: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub gomaxprocs: i32,
}

/// Figures of one route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteStat {
    /// Number of the connection.
    pub rid: u64,
    /// Name of the server at the other end.
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    /// What was sent to it.
    pub sent: DataStats,
    /// What came from it.
    pub received: DataStats,
    /// Bytes waiting to be written.
    pub pending: i64,
}

/// A client as events describe it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct ClientInfo {
    #[serde(skip_serializing_if = "is_zero")]
    pub start: Time,
    #[serde(skip_serializing_if = "is_zero")]
    pub host: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub id: u64,
    #[serde(rename = "acc", skip_serializing_if = "is_zero")]
    pub account: String,
    #[serde(rename = "svc", skip_serializing_if = "is_zero")]
    pub service: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub user: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub lang: String,
    #[serde(rename = "ver", skip_serializing_if = "is_zero")]
    pub version: String,
    #[serde(with = "nanos", skip_serializing_if = "is_zero")]
    pub rtt: Duration,
    #[serde(skip_serializing_if = "is_zero")]
    pub server: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster: String,
    #[serde(rename = "alts", skip_serializing_if = "is_zero")]
    pub alternates: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub stop: Time,
    #[serde(skip_serializing_if = "is_zero")]
    pub jwt: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub issuer_key: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub name_tag: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub kind: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub client_type: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub client_id: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub nonce: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub reply: String,
}

/// A client connected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectEvent {
    /// [`CONNECT_TYPE`].
    #[serde(rename = "type")]
    pub event_type: String,
    /// Identity of the event.
    pub id: String,
    /// When it happened.
    pub timestamp: Time,
    /// Where it comes from.
    pub server: ServerInfo,
    /// Who connected.
    pub client: ClientInfo,
}

impl ConnectEvent {
    /// The event with its type filled in.
    pub fn new(id: String, timestamp: Time, server: ServerInfo, client: ClientInfo) -> Self {
        Self { event_type: CONNECT_TYPE.to_owned(), id, timestamp, server, client }
    }
}

/// A client disconnected, or was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DisconnectEvent {
    /// [`DISCONNECT_TYPE`].
    #[serde(rename = "type")]
    pub event_type: String,
    /// Identity of the event.
    pub id: String,
    /// When it happened.
    pub timestamp: Time,
    /// Where it comes from.
    pub server: ServerInfo,
    /// Who disconnected.
    pub client: ClientInfo,
    /// What the client sent to the server.
    pub sent: DataStats,
    /// What the client received from it.
    pub received: DataStats,
    /// Why the connection ended.
    pub reason: String,
}

/// Connections of an account at one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountConnections {
    /// [`ACCOUNT_CONNECTIONS_TYPE`].
    #[serde(rename = "type")]
    pub event_type: String,
    /// Identity of the event.
    pub id: String,
    /// When it happened.
    pub timestamp: Time,
    /// Where it comes from.
    pub server: ServerInfo,
    /// The counters.
    #[serde(flatten)]
    pub stat: AccountStat,
}

impl AccountConnections {
    /// The event with its type filled in.
    pub fn new(id: String, timestamp: Time, server: ServerInfo, stat: AccountStat) -> Self {
        Self { event_type: ACCOUNT_CONNECTIONS_TYPE.to_owned(), id, timestamp, server, stat }
    }
}
