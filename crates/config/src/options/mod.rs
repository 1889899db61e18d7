//! Every option of the server, typed, with its default.
//!
//! One field per section; a room of the broker receives its section and not the whole.

mod accounts;
mod authorization;
mod cluster;
mod jetstream;
mod limits;
mod listen;
mod logging;
mod tls;

use std::collections::BTreeMap;
use std::time::Duration;

pub use accounts::{
    Account, AccountLimits, Destination, Export, ExportKind, Import, ImportKind, Mapping,
    RESPONSE_THRESHOLD_DEFAULT, ResponseType,
};
pub use authorization::{
    Authorization, ConnectionType, Credentials, Permissions, ResponsePermission, SubjectPermission,
    SubjectRule, User,
};
pub(crate) use authorization::{RESPONSES_EXPIRES_DEFAULT, RESPONSES_MAX_DEFAULT};
pub use cluster::{Cluster, Compression, RouteAuthorization, RoutePermissions, RoutePool, RouteUrl};
pub(crate) use cluster::{PING_INTERVAL_MAX, POOL_SIZE_DEFAULT};
pub use jetstream::{BatchLimits, Cipher, JetStream, JetStreamAccountLimits, JetStreamLimits, SyncMode};
pub use limits::{LameDuck, Limits, WriteTimeout};
pub use listen::{Address, Listen, Monitoring, Port};
pub(crate) use listen::{HOST_DEFAULT, PORT_DEFAULT};
pub use logging::{LogFormat, Logging};
pub(crate) use tls::HANDSHAKE_FIRST_FALLBACK_DEFAULT;
pub use tls::{Certificate, CipherSuite, Curve, HandshakeFirst, Tls, TlsVersion};

/// Name of the account of connections that belong to no configured account.
pub const GLOBAL_ACCOUNT: &str = "$G";
/// Name of the system account unless the configuration names another.
pub const DEFAULT_SYSTEM_ACCOUNT: &str = "$SYS";
/// Failed connection attempts of a link between two log lines.
pub const CONNECT_ERROR_REPORTS_DEFAULT: u32 = 3600;
/// Failed reconnection attempts of a link between two log lines.
pub const RECONNECT_ERROR_REPORTS_DEFAULT: u32 = 1;

/// All options of one server.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `server_name`; the broker uses its server id if there is none.
    pub server_name: Option<String>,
    /// `server_tags`, as written.
    pub server_tags: Vec<String>,
    /// `server_metadata`.
    pub server_metadata: BTreeMap<String, String>,
    /// The client listener.
    pub listen: Listen,
    /// `tls` of the client listener (and of https monitoring).
    pub tls: Option<Tls>,
    /// The `authorization` block.
    pub authorization: Authorization,
    /// `accounts`, sorted by name. `$G` is never among them; `$SYS` is when it is configured.
    pub accounts: Vec<Account>,
    /// `mappings` of the outermost map: those of account `$G`.
    pub mappings: Vec<Mapping>,
    /// `no_auth_user`.
    pub no_auth_user: Option<String>,
    /// `system_account` as configured; see [`Options::system_account_name`] for the one in effect.
    pub system_account: Option<String>,
    /// `no_system_account`.
    pub no_system_account: bool,
    /// The `cluster` block; `None` without one.
    pub cluster: Option<Cluster>,
    /// The `jetstream` block; see `enabled`.
    pub jetstream: JetStream,
    /// Log destination, level and form.
    pub logging: Logging,
    /// `http`, `https` and their kin.
    pub monitoring: Monitoring,
    /// Sizes, counts and times that bound a connection.
    pub limits: Limits,
    /// Lame duck times.
    pub lame_duck: LameDuck,
    /// `pid_file`.
    pub pid_file: Option<String>,
    /// `store_dir`, of the outermost map or of `jetstream`. Only JetStream stores; the broker has a default.
    pub store_dir: Option<String>,
    /// `ports_file_dir`.
    pub ports_file_dir: Option<String>,
    /// `connect_error_reports`.
    pub connect_error_reports: u32,
    /// `reconnect_error_reports`.
    pub reconnect_error_reports: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server_name: None,
            server_tags: Vec::new(),
            server_metadata: BTreeMap::new(),
            listen: Listen::default(),
            tls: None,
            authorization: Authorization::default(),
            accounts: Vec::new(),
            mappings: Vec::new(),
            no_auth_user: None,
            system_account: None,
            no_system_account: false,
            cluster: None,
            jetstream: JetStream::default(),
            logging: Logging::default(),
            monitoring: Monitoring::default(),
            limits: Limits::default(),
            lame_duck: LameDuck::default(),
            pid_file: None,
            store_dir: None,
            ports_file_dir: None,
            connect_error_reports: CONNECT_ERROR_REPORTS_DEFAULT,
            reconnect_error_reports: RECONNECT_ERROR_REPORTS_DEFAULT,
        }
    }
}

impl Options {
    /// The system account in effect: the configured one, else `$SYS`, else none with `no_system_account`.
    pub fn system_account_name(&self) -> Option<&str> {
        match &self.system_account {
            Some(name) => Some(name),
            None if self.no_system_account => None,
            None => Some(DEFAULT_SYSTEM_ACCOUNT),
        }
    }

    /// Is there a password or token that is kept in clear? Whoever reads the file then knows it.
    pub fn has_plain_passwords(&self) -> bool {
        let plain = |secret: &crate::Secret| !secret.is_empty() && !secret.is_bcrypt();
        let single = match &self.authorization.credentials {
            Credentials::Token(secret) | Credentials::Single { password: secret, .. } => plain(secret),
            Credentials::Open | Credentials::Users(_) => false,
        };
        single || self.users().any(|(_, user)| plain(&user.password))
    }

    /// The account of that name, if it is configured.
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.name == name)
    }

    /// Every user with the name of its account: those of `authorization` (account `$G`), then those of `accounts`.
    pub fn users(&self) -> impl Iterator<Item = (&str, &User)> {
        let global = self.authorization.users().iter().map(|user| (GLOBAL_ACCOUNT, user));
        let others = self
            .accounts
            .iter()
            .flat_map(|account| account.users.iter().map(|user| (account.name.as_str(), user)));
        global.chain(others)
    }

    /// True if a client may connect to `$G` without credentials although users exist: the system account is the only
    /// account and there is no `authorization` block. As soon as that block exists, or another account does, this is
    /// false, so that the system account never opens a server. The reference server still tells such clients that
    /// authorization is required.
    pub fn has_open_global_account(&self) -> bool {
        !self.authorization.is_configured
            && self.no_auth_user.is_none()
            && self.accounts.iter().all(|account| Some(account.name.as_str()) == self.system_account_name())
    }

    /// True if a connection must present credentials: there are some, and neither `no_auth_user` nor
    /// [`Options::has_open_global_account`] lets it in without.
    pub fn is_auth_required(&self) -> bool {
        let has_credentials =
            self.authorization.credentials != Credentials::Open || self.users().next().is_some();
        has_credentials && self.no_auth_user.is_none() && !self.has_open_global_account()
    }

    /// Time a client has to send its CONNECT: as configured, else 2 s, or the TLS timeout and one second more.
    pub fn auth_timeout(&self) -> Duration {
        let after_tls = self.tls.as_ref().map(|tls| tls.timeout + Duration::from_secs(1));
        self.authorization.timeout.or(after_tls).unwrap_or(authorization::AUTH_TIMEOUT_DEFAULT)
    }
}
