//! `accounts`, and what they give to each other.

use std::time::Duration;

use super::authorization::{Permissions, User};
use super::jetstream::JetStreamAccountLimits;

/// A configured account.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// `users`.
    pub users: Vec<User>,
    /// `default_permissions`, already given to every user without its own.
    pub default_permissions: Option<Permissions>,
    /// `limits`.
    pub limits: AccountLimits,
    /// `jetstream`; `None` has none.
    pub jetstream: Option<JetStreamAccountLimits>,
    /// `exports`, in the order in which they are written.
    pub exports: Vec<Export>,
    /// `imports`, in the order in which they are written.
    pub imports: Vec<Import>,
    /// `mappings`, sorted by source.
    pub mappings: Vec<Mapping>,
}

/// `limits` of an account; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountLimits {
    /// `max_connections`.
    pub max_connections: Option<u32>,
    /// `max_subscriptions`.
    pub max_subscriptions: Option<u32>,
    /// `max_payload`, bytes.
    pub max_payload: Option<u32>,
    /// `max_leafnodes`.
    pub max_leafnodes: Option<u32>,
}

/// Time in which a service answers unless configured.
pub const RESPONSE_THRESHOLD_DEFAULT: Duration = Duration::from_secs(120);

/// An entry of `exports`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// What is exported.
    pub kind: ExportKind,
    /// `stream` or `service`: the subject.
    pub subject: String,
    /// `accounts` that may import it; `None` is all.
    pub accounts: Option<Vec<String>>,
    /// `account_token_position`: the token, from 1, that must be the name of the importing account.
    pub account_token_position: Option<u32>,
}

/// What an export is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportKind {
    /// Messages that others may subscribe to.
    Stream,
    /// Requests that others may send.
    Service {
        /// `response_type`.
        response: ResponseType,
        /// `response_threshold`: time in which answers have to come.
        threshold: Duration,
    },
}

/// `response_type` of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseType {
    /// One answer.
    #[default]
    Singleton,
    /// Any number of answers, until there was none for the threshold.
    Stream,
    /// The same, with parts of one answer.
    Chunked,
}

/// An entry of `imports`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// What is imported.
    pub kind: ImportKind,
    /// The account that exports it.
    pub account: String,
    /// Its subject there.
    pub subject: String,
    /// Its subject here, as a destination where it has placeholders: `to`, or `prefix` before `subject`, or `subject`.
    pub local: String,
}

/// What an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportKind {
    /// Messages to subscribe to.
    Stream,
    /// Requests to send.
    Service {
        /// `share`: tell the service who asks.
        share: bool,
    },
}

/// An entry of `mappings`: what is published to `source` goes to one of the destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The subjects it is about.
    pub source: String,
    /// Where they go.
    pub destinations: Vec<Destination>,
}

/// A destination of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The subject, with functions.
    pub subject: String,
    /// `weight` in percent.
    pub weight: u8,
    /// `cluster` in which it counts; `None` is all that have none of their own.
    pub cluster: Option<String>,
}
