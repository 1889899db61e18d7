//! What an account uses of JetStream, and what it may use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::optional::is_zero;

/// Use and limits of an account. With tiers, these are sums without limits.
// Some members have no default, so that a response without them is seen to be without this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountStats {
    /// Bytes of streams in memory.
    pub memory: u64,
    /// Bytes of streams on disk.
    pub storage: u64,
    /// Bytes in memory that streams may grow to.
    #[serde(default)]
    pub reserved_memory: u64,
    /// Bytes on disk that streams may grow to.
    #[serde(default)]
    pub reserved_storage: u64,
    /// Streams.
    #[serde(default)]
    pub streams: i64,
    /// Consumers.
    #[serde(default)]
    pub consumers: i64,
    /// What the account may use.
    #[serde(default)]
    pub limits: Limits,
    /// Domain of the server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub domain: String,
    /// Requests of the account.
    #[serde(default)]
    pub api: ApiStats,
    /// Use and limits by number of replicas: `R1`, `R3`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tiers: BTreeMap<String, Tier>,
}

/// Use and limits of the streams with one number of replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tier {
    /// Bytes of streams in memory.
    pub memory: u64,
    /// Bytes of streams on disk.
    pub storage: u64,
    /// Bytes in memory that streams may grow to.
    pub reserved_memory: u64,
    /// Bytes on disk that streams may grow to.
    pub reserved_storage: u64,
    /// Streams.
    pub streams: i64,
    /// Consumers.
    pub consumers: i64,
    /// What may be used.
    pub limits: Limits,
}

/// What an account may use; -1 stands for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes of streams in memory.
    pub max_memory: i64,
    /// Bytes of streams on disk.
    pub max_storage: i64,
    /// Streams.
    pub max_streams: i64,
    /// Consumers of one stream.
    pub max_consumers: i64,
    /// Messages of one consumer waiting for their acknowledgement.
    pub max_ack_pending: i64,
    /// Bytes of one stream in memory; below one without limit.
    pub memory_max_stream_bytes: i64,
    /// Bytes of one stream on disk; below one without limit.
    pub storage_max_stream_bytes: i64,
    /// Every stream must have a limit of bytes.
    pub max_bytes_required: bool,
}

impl Limits {
    /// No limit at all.
    pub const UNLIMITED: Self = Self {
        max_memory: -1,
        max_storage: -1,
        max_streams: -1,
        max_consumers: -1,
        max_ack_pending: -1,
        memory_max_stream_bytes: -1,
        storage_max_stream_bytes: -1,
        max_bytes_required: false,
    };
}

/// Requests and how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiStats {
    /// [`super::API_LEVEL`] of the server.
    pub level: i64,
    /// Requests.
    pub total: u64,
    /// Those that failed.
    pub errors: u64,
    /// Those being served.
    #[serde(skip_serializing_if = "is_zero")]
    pub inflight: u64,
}
