//! `/accountz` and `/accstatz`: accounts and their counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::subsz::SublistStats;
use crate::event::DataStats;
use crate::optional::{is_zero, null_is_zero};
use crate::query::{Query, QueryError};
use crate::time::Time;

/// The accounts of a server, or one of them in detail.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accountz {
    /// Identity of the answering server.
    pub server_id: String,
    /// When the page was made.
    pub now: Time,
    /// Name of the system account.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_account: String,
    /// Names of all accounts, when none was asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub accounts: Vec<String>,
    /// The account asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_detail: Option<Box<AccountDetail>>,
}

/// One account.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct AccountDetail {
    pub account_name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub update_time: Time,
    #[serde(skip_serializing_if = "is_zero")]
    pub is_system: bool,
    pub expired: bool,
    pub complete: bool,
    pub jetstream_enabled: bool,
    pub leafnode_connections: i64,
    pub client_connections: i64,
    pub subscriptions: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub mappings: BTreeMap<String, Vec<AccountMapping>>,
    #[serde(skip_serializing_if = "is_zero")]
    pub exports: Vec<AccountExport>,
    #[serde(skip_serializing_if = "is_zero")]
    pub imports: Vec<AccountImport>,
    #[serde(skip_serializing_if = "is_zero")]
    pub jwt: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub issuer_key: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub name_tag: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sublist_stats: Option<SublistStats>,
}

/// Where a mapping leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountMapping {
    /// The subject.
    pub subject: String,
    /// Percent, those of the destinations before it included.
    pub weight: u8,
    /// The cluster that it is for; empty is for all.
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster: String,
}

/// What an account gives to others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountExport {
    /// The subject.
    pub subject: String,
    /// `stream` or `service`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many answers a service gives.
    #[serde(skip_serializing_if = "is_zero")]
    pub response_type: String,
    /// Accounts that may import it; empty if all may.
    #[serde(skip_serializing_if = "is_zero")]
    pub approved_accounts: Vec<String>,
}

/// What an account takes from another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountImport {
    /// Its subject there.
    pub subject: String,
    /// The account that exports it.
    pub account: String,
    /// Where requests are sent here; empty for streams.
    #[serde(skip_serializing_if = "is_zero")]
    pub to: String,
    /// Its subject here.
    pub local_subject: String,
    /// `stream` or `service`.
    #[serde(rename = "type")]
    pub kind: String,
    /// It is not allowed.
    pub invalid: bool,
    /// The service is told who asks.
    pub share: bool,
    /// Its latency is measured.
    pub tracking: bool,
}

/// What a request for accounts asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountzOptions {
    /// The account to show in detail.
    pub account: String,
}

impl AccountzOptions {
    /// Reads the options from a query.
    pub fn from_query(query: &Query<'_>) -> Self {
        Self { account: query.text("acc").to_owned() }
    }
}

/// Counters of many accounts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accstatz {
    /// Identity of the answering server.
    pub server_id: String,
    /// When the page was made.
    pub now: Time,
    /// The accounts.
    #[serde(deserialize_with = "null_is_zero")]
    pub account_statz: Vec<AccountStat>,
}

/// Counters of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountStat {
    /// Identity of the account.
    #[serde(rename = "acc")]
    pub account: String,
    /// Its name.
    pub name: String,
    /// Client connections now.
    pub conns: i64,
    /// Leafnode connections now.
    pub leafnodes: i64,
    /// Both together.
    pub total_conns: i64,
    /// Subscriptions now.
    pub num_subscriptions: u32,
    /// What the server sent to connections of the account.
    pub sent: DataStats,
    /// What it received from them.
    pub received: DataStats,
    /// Connections closed because they did not keep up.
    pub slow_consumers: i64,
}

/// What a request for account counters asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccstatzOptions {
    /// Only these accounts; none means all.
    pub accounts: Vec<String>,
    /// Accounts without a connection too.
    pub include_unused: bool,
}

impl AccstatzOptions {
    /// Reads the options from a query.
    pub fn from_query(query: &Query<'_>) -> Result<Self, QueryError> {
        Ok(Self { accounts: Vec::new(), include_unused: query.boolean("unused")? })
    }
}
