//! `accounts`.

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
