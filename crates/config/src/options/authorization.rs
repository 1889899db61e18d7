//! Who may connect and what they may do: credentials, users, permissions.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Secret;

/// Time to authenticate when neither the block nor TLS says otherwise.
pub(crate) const AUTH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
/// Messages a reply permission allows.
pub(crate) const RESPONSES_MAX_DEFAULT: u32 = 1;
/// Life of a reply permission.
pub(crate) const RESPONSES_EXPIRES_DEFAULT: Duration = Duration::from_secs(120);

/// What the `authorization` block asks of a client. The ways exclude each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Credentials {
    /// Nothing.
    #[default]
    Open,
    /// `token`.
    Token(Secret),
    /// `user` and `password`.
    Single {
        /// `user`.
        username: String,
        /// `password`, plain or bcrypt.
        password: Secret,
    },
    /// `users`; they live in account `$G`.
    Users(Vec<User>),
}

/// The `authorization` block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Authorization {
    /// The block exists, or a flag stands for it.
    pub is_configured: bool,
    /// What is asked of a client.
    pub credentials: Credentials,
    /// `timeout`; see `Options::auth_timeout` for the time in effect.
    pub timeout: Option<Duration>,
    /// `default_permissions`, already given to every user of the block without its own.
    pub default_permissions: Option<Permissions>,
}

impl Authorization {
    /// The users of the block.
    pub fn users(&self) -> &[User] {
        match &self.credentials {
            Credentials::Users(users) => users,
            _ => &[],
        }
    }
}

/// A user of `authorization` or of an account.
#[derive(Debug, Clone, PartialEq)]
pub struct User {
    /// `user`.
    pub username: String,
    /// `password`, plain or bcrypt; may be empty when certificates are mapped.
    pub password: Secret,
    /// Its own permissions, else the default ones of its block; `None` allows everything.
    pub permissions: Option<Permissions>,
    /// `allowed_connection_types`; empty allows all.
    pub allowed_connection_types: BTreeSet<ConnectionType>,
}

/// Kinds of connection a user can be held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionType {
    /// `STANDARD`: the client protocol over TCP or TLS.
    Standard,
    /// `WEBSOCKET`.
    Websocket,
    /// `LEAFNODE`.
    Leafnode,
    /// `LEAFNODE_WS`.
    LeafnodeWebsocket,
    /// `MQTT`.
    Mqtt,
    /// `MQTT_WS`.
    MqttWebsocket,
    /// `IN_PROCESS`.
    InProcess,
}

/// Permissions of a user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// `publish`.
    pub publish: SubjectPermission,
    /// `subscribe`.
    pub subscribe: SubjectPermission,
    /// `allow_responses`.
    pub responses: Option<ResponsePermission>,
}

/// What is allowed and what is denied; deny wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubjectPermission {
    /// `None` allows everything, an empty list nothing.
    pub allow: Option<Vec<SubjectRule>>,
    /// Denied subjects.
    pub deny: Vec<SubjectRule>,
}

/// A subject with wildcards and, for `subscribe`, the queue name (with wildcards) it is held to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectRule {
    /// Subject pattern.
    pub subject: String,
    /// Queue pattern.
    pub queue: Option<String>,
}

/// Temporary permission to publish to the reply subject of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponsePermission {
    /// `max` messages; `None` is unlimited.
    pub max: Option<u32>,
    /// `expires`; `None` never.
    pub expires: Option<Duration>,
}

impl Default for ResponsePermission {
    fn default() -> Self {
        Self { max: Some(RESPONSES_MAX_DEFAULT), expires: Some(RESPONSES_EXPIRES_DEFAULT) }
    }
}
