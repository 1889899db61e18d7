//! `/routez`: connections to other servers of the cluster.

use serde::{Deserialize, Serialize};

use super::connz::SubDetail;
use crate::optional::{is_zero, null_is_zero};
use crate::query::{Query, QueryError};
use crate::time::Time;

/// All routes of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Routez {
    /// Identity of the answering server.
    pub server_id: String,
    /// Its name.
    pub server_name: String,
    /// When the page was made.
    pub now: Time,
    /// What the cluster's permissions let in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<SubjectPermission>,
    /// What the cluster's permissions let out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<SubjectPermission>,
    /// Number of routes.
    pub num_routes: i64,
    /// The routes.
    #[serde(deserialize_with = "null_is_zero")]
    pub routes: Vec<RouteInfo>,
}

/// One connection to another server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct RouteInfo {
    pub rid: u64,
    pub remote_id: String,
    pub remote_name: String,
    pub did_solicit: bool,
    pub is_configured: bool,
    pub ip: String,
    pub port: i32,
    pub start: Time,
    pub last_activity: Time,
    #[serde(skip_serializing_if = "is_zero")]
    pub rtt: String,
    pub uptime: String,
    pub idle: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<SubjectPermission>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<SubjectPermission>,
    pub pending_size: i64,
    pub in_msgs: i64,
    pub out_msgs: i64,
    pub in_bytes: i64,
    pub out_bytes: i64,
    pub subscriptions: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub subscriptions_list: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub subscriptions_list_detail: Vec<SubDetail>,
    /// The account a dedicated route carries.
    #[serde(skip_serializing_if = "is_zero")]
    pub account: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub compression: String,
}

/// Subjects allowed and denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubjectPermission {
    /// Allowed subjects; none means all.
    #[serde(skip_serializing_if = "is_zero")]
    pub allow: Vec<String>,
    /// Denied subjects.
    #[serde(skip_serializing_if = "is_zero")]
    pub deny: Vec<String>,
}

/// What a request for routes asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoutezOptions {
    /// List subscriptions.
    pub subscriptions: bool,
    /// List subscriptions with their counters.
    pub subscriptions_detail: bool,
}

impl RoutezOptions {
    /// Reads the options from a query.
    pub fn from_query(query: &Query<'_>) -> Result<Self, QueryError> {
        let (subscriptions, subscriptions_detail) = query.subscriptions()?;
        Ok(Self { subscriptions, subscriptions_detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_in_the_query_sets_both_switches() {
        let read = |raw| RoutezOptions::from_query(&Query::parse(raw));
        assert_eq!(
            read("subs=detail"),
            Ok(RoutezOptions { subscriptions: true, subscriptions_detail: true })
        );
        assert_eq!(read("subs=true"), Ok(RoutezOptions { subscriptions: true, subscriptions_detail: false }));
        assert_eq!(read(""), Ok(RoutezOptions::default()));
        assert!(read("subs=q").is_err());
    }
}
