//! What bounds a connection, and the times of lame duck mode.

use std::time::Duration;

/// What happens to a connection whose write deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteTimeout {
    /// `default`: close a client, retry on a link between servers.
    #[default]
    Default,
    /// `close`.
    Close,
    /// `retry`.
    Retry,
}

/// Limits of client connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `max_control_line`, bytes.
    pub max_control_line: u32,
    /// `max_payload`, bytes.
    pub max_payload: u32,
    /// `max_pending`, bytes.
    pub max_pending: u64,
    /// `max_connections`; 0 refuses every client.
    pub max_connections: u32,
    /// `max_subscriptions` of a connection; `None` is unlimited.
    pub max_subscriptions: Option<u32>,
    /// `max_sub_tokens`; `None` is unlimited.
    pub max_sub_tokens: Option<u8>,
    /// `max_traced_msg_len`, bytes; `None` is unlimited.
    pub max_traced_msg_len: Option<u32>,
    /// `max_closed_clients` kept for monitoring.
    pub max_closed_clients: u32,
    /// `ping_interval`.
    pub ping_interval: Duration,
    /// `ping_max`: unanswered PINGs before the connection is stale.
    pub ping_max: u32,
    /// `write_deadline`.
    pub write_deadline: Duration,
    /// `write_timeout`.
    pub write_timeout: WriteTimeout,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_control_line: 4096,
            max_payload: 1024 * 1024,
            max_pending: 64 * 1024 * 1024,
            max_connections: 65536,
            max_subscriptions: None,
            max_sub_tokens: None,
            max_traced_msg_len: None,
            max_closed_clients: 10_000,
            ping_interval: Duration::from_secs(120),
            ping_max: 2,
            write_deadline: Duration::from_secs(10),
            write_timeout: WriteTimeout::Default,
        }
    }
}

/// Lame duck mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LameDuck {
    /// `lame_duck_duration`, with the grace period.
    pub duration: Duration,
    /// `lame_duck_grace_period` before the first client is closed.
    pub grace_period: Duration,
    /// `lame_duck_on_term`: SIGTERM starts lame duck mode instead of an immediate stop. Not an option of the
    /// reference server; an orchestrator sends SIGTERM and nothing else.
    pub on_term: bool,
}

impl Default for LameDuck {
    fn default() -> Self {
        Self { duration: Duration::from_secs(120), grace_period: Duration::from_secs(10), on_term: false }
    }
}
