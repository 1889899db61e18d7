//! The `cluster` block.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::authorization::SubjectPermission;
use super::limits::WriteTimeout;
use super::listen::Address;
use super::tls::Tls;
use crate::Secret;

/// Connections of a pool unless configured.
pub(crate) const POOL_SIZE_DEFAULT: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);
/// Longest `ping_interval` of a route.
pub(crate) const PING_INTERVAL_MAX: Duration = Duration::from_secs(30);

/// Connections to each peer that are shared by accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutePool {
    /// `-1`: one connection, as before pools existed.
    Disabled,
    /// This many.
    Size(NonZeroU32),
}

impl Default for RoutePool {
    fn default() -> Self {
        Self::Size(POOL_SIZE_DEFAULT)
    }
}

/// `compression` of routes, as far as this version has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// `not supported`: not negotiated.
    NotSupported,
    /// `off`.
    Off,
    /// `accept`: whatever the peer wants, if it can be had.
    #[default]
    Accept,
}

/// A configured route.
#[derive(Clone, PartialEq, Eq)]
pub struct RouteUrl {
    /// Scheme as written, such as `nats-route`.
    pub scheme: String,
    /// User to present.
    pub username: Option<String>,
    /// Password to present.
    pub password: Option<Secret>,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl RouteUrl {
    /// `host:port`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for RouteUrl {
    /// The URL without its password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://", self.scheme)?;
        match (&self.username, &self.password) {
            (Some(user), Some(_)) => write!(formatter, "{user}:xxxxx@")?,
            (Some(user), None) => write!(formatter, "{user}@")?,
            (None, _) => {}
        }
        formatter.write_str(&self.authority())
    }
}

impl fmt::Debug for RouteUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// `authorization` of the cluster: what a peer presents, and what is presented to peers found by gossip.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteAuthorization {
    /// `user`; empty asks for nothing.
    pub username: String,
    /// `password`, plain or bcrypt.
    pub password: Secret,
    /// `timeout`; see [`Cluster::auth_timeout`].
    pub timeout: Option<Duration>,
}

/// `permissions` of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoutePermissions {
    /// `import` (`publish`): interest that is announced to peers.
    pub import: SubjectPermission,
    /// `export` (`subscribe`): interest that is taken from peers.
    pub export: SubjectPermission,
}

/// The `cluster` block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// `name`; the broker makes a dynamic one if there is none.
    pub name: Option<String>,
    /// `listen`, or `host` and `port`; without it routes are only dialled.
    pub listen: Option<Address>,
    /// `authorization`.
    pub authorization: RouteAuthorization,
    /// `permissions`.
    pub permissions: Option<RoutePermissions>,
    /// `routes`.
    pub routes: Vec<RouteUrl>,
    /// `tls`.
    pub tls: Option<Tls>,
    /// `advertise`: `host` or `host:port`, as written.
    pub advertise: Option<String>,
    /// `no_advertise`: do not tell clients the addresses of peers.
    pub no_advertise: bool,
    /// `connect_retries` for routes found by gossip.
    pub connect_retries: u32,
    /// `connect_backoff`.
    pub connect_backoff: bool,
    /// `pool_size`.
    pub pool: RoutePool,
    /// `accounts` with a connection of their own.
    pub pinned_accounts: Vec<String>,
    /// `compression`.
    pub compression: Compression,
    /// `ping_interval`; `None` is the smaller of the global one and 30 s.
    pub ping_interval: Option<Duration>,
    /// `ping_max`; `None` is the global one.
    pub ping_max: Option<u32>,
    /// `write_deadline`; `None` is the global one.
    pub write_deadline: Option<Duration>,
    /// `write_timeout`.
    pub write_timeout: WriteTimeout,
}

impl Cluster {
    /// Time a peer has to authenticate: as configured, else 2 s, or the TLS timeout and one second more.
    pub fn auth_timeout(&self) -> Duration {
        let after_tls = self.tls.as_ref().map(|tls| tls.timeout + Duration::from_secs(1));
        self.authorization.timeout.or(after_tls).unwrap_or(super::authorization::AUTH_TIMEOUT_DEFAULT)
    }

    /// `ping_interval` in effect, given the global one: never above 30 s.
    pub fn effective_ping_interval(&self, global: Duration) -> Duration {
        self.ping_interval.unwrap_or(global).min(PING_INTERVAL_MAX)
    }
}
