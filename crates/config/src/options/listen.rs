//! Addresses: the client listener and the monitoring listeners.

use std::fmt;

/// Host that stands for all addresses of the machine.
pub(crate) const HOST_DEFAULT: &str = "0.0.0.0";
/// Port of clients.
pub(crate) const PORT_DEFAULT: u16 = 4222;

/// A port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Port {
    /// Any free port (written `-1`).
    Random,
    /// This port.
    Fixed(u16),
}

impl Port {
    /// The number for `bind`, where 0 asks for any free port.
    pub const fn to_bind(self) -> u16 {
        match self {
            Self::Random => 0,
            Self::Fixed(port) => port,
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => formatter.write_str("-1"),
            Self::Fixed(port) => write!(formatter, "{port}"),
        }
    }
}

/// A host (name or address, without brackets) and a port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: Port,
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// The client listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// `host` and `port`, or `listen`.
    pub address: Address,
    /// `client_advertise`: `host` or `host:port`, as written.
    pub client_advertise: Option<String>,
    /// `allow_non_tls`: TLS and plain clients on one port.
    pub allow_non_tls: bool,
    /// `no_header_support`.
    pub no_header_support: bool,
    /// `no_fast_producer_stall`.
    pub no_fast_producer_stall: bool,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: Address { host: HOST_DEFAULT.into(), port: Port::Fixed(PORT_DEFAULT) },
            client_advertise: None,
            allow_non_tls: false,
            no_header_support: false,
            no_fast_producer_stall: false,
        }
    }
}

/// The monitoring listeners. At most one of `http` and `https` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitoring {
    /// `http`, or `http_port`.
    pub http: Option<Address>,
    /// `https`, or `https_port`; uses the client `tls` block.
    pub https: Option<Address>,
    /// `http_base_path`, always with a leading slash.
    pub http_base_path: String,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self { http: None, https: None, http_base_path: "/".into() }
    }
}
