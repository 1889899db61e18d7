//! `/varz`: identity, options in force and counters of one server.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::jsz::JetStreamVarz;
use crate::duration::nanos;
use crate::optional::is_zero;
use crate::time::Time;

/// The general page of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct Varz {
    pub server_id: String,
    pub server_name: String,
    pub version: String,
    pub proto: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub git_commit: String,
    pub go: String,
    pub host: String,
    pub port: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub auth_required: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_required: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_verify: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_ocsp_peer_verify: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub ip: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub connect_urls: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub ws_connect_urls: Vec<String>,
    pub max_connections: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_subscriptions: i64,
    #[serde(with = "nanos")]
    pub ping_interval: Duration,
    pub ping_max: i64,
    pub http_host: String,
    pub http_port: i32,
    pub http_base_path: String,
    pub https_port: i32,
    pub auth_timeout: f64,
    pub max_control_line: i64,
    pub max_payload: i64,
    pub max_pending: i64,
    pub cluster: ClusterVarz,
    /// Always written, and empty: gateways are not served.
    pub gateway: Empty,
    /// Always written, and empty: leafnodes are not served.
    pub leaf: Empty,
    /// Always written, and empty: MQTT is not served.
    pub mqtt: Empty,
    /// Always written, and empty: websockets are not served.
    pub websocket: Empty,
    /// Always written, and empty without JetStream.
    pub jetstream: JetStreamVarz,
    pub tls_timeout: f64,
    #[serde(with = "nanos")]
    pub write_deadline: Duration,
    #[serde(skip_serializing_if = "is_zero")]
    pub write_timeout: String,
    pub start: Time,
    pub now: Time,
    pub uptime: String,
    /// Resident memory in bytes.
    pub mem: i64,
    pub cores: i32,
    pub gomaxprocs: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub gomemlimit: i64,
    /// Processor use in percent of one core.
    pub cpu: f64,
    pub connections: i64,
    pub total_connections: u64,
    pub routes: i64,
    pub remotes: i64,
    pub leafnodes: i64,
    pub in_msgs: i64,
    pub in_bytes: i64,
    pub in_client_msgs: i64,
    pub in_client_bytes: i64,
    pub out_msgs: i64,
    pub out_bytes: i64,
    pub out_client_msgs: i64,
    pub out_client_bytes: i64,
    pub slow_consumers: i64,
    pub stale_connections: i64,
    pub stalled_clients: i64,
    pub subscriptions: u32,
    pub http_req_stats: BTreeMap<String, u64>,
    pub config_load_time: Time,
    pub config_digest: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub feature_flags: BTreeMap<String, bool>,
    #[serde(skip_serializing_if = "is_zero")]
    pub system_account: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub pinned_account_fails: u64,
    pub slow_consumer_stats: KindCounts,
    pub stale_connection_stats: KindCounts,
    pub disk_io_wait_stats: DiskIoWaitStats,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_cert_not_after: Time,
}

/// The cluster part of [`Varz`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct ClusterVarz {
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub addr: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster_port: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub auth_timeout: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub urls: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_timeout: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_required: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_verify: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub pool_size: i32,
    #[serde(with = "nanos", skip_serializing_if = "is_zero")]
    pub write_deadline: Duration,
    #[serde(skip_serializing_if = "is_zero")]
    pub write_timeout: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_cert_not_after: Time,
}

/// A part of a page that is written without members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// One count for each kind of connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KindCounts {
    /// Of clients.
    pub clients: u64,
    /// Of routes.
    pub routes: u64,
    /// Of gateways.
    pub gateways: u64,
    /// Of leafnodes.
    pub leafs: u64,
}

/// How long disk operations waited for their turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskIoWaitStats {
    /// Operations waiting now.
    pub waiters: i64,
    /// Operations that waited so far.
    pub waits: u64,
    /// Their waiting time in nanoseconds.
    pub wait_time: u64,
    /// The longest of these times.
    pub max_wait_time: u64,
}
