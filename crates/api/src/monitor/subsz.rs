//! `/subsz`: the subscription tries and, on request, what is in them.

use serde::{Deserialize, Serialize};

use super::connz::SubDetail;
use super::page::Page;
use crate::optional::is_zero;
use crate::query::{Query, QueryError};
use crate::time::Time;

/// Figures of the subscription tries, and one page of subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subsz {
    /// Identity of the answering server.
    pub server_id: String,
    /// When the page was made.
    pub now: Time,
    /// Figures over all accounts asked for.
    #[serde(flatten)]
    pub stats: SublistStats,
    /// Subscriptions that match the request.
    pub total: i64,
    /// Subscriptions skipped before this page.
    pub offset: i64,
    /// Most subscriptions on a page.
    pub limit: i64,
    /// The subscriptions, when asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub subscriptions_list: Vec<SubDetail>,
}

/// Figures of a subscription trie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SublistStats {
    /// Subscriptions held.
    pub num_subscriptions: u32,
    /// Results held in the cache.
    pub num_cache: u32,
    /// Subscriptions ever inserted.
    pub num_inserts: u64,
    /// Subscriptions ever removed.
    pub num_removes: u64,
    /// Subjects ever matched.
    pub num_matches: u64,
    /// Share of matches answered from the cache.
    pub cache_hit_rate: f64,
    /// Most subscriptions in one cached result.
    pub max_fanout: u32,
    /// Mean number of subscriptions in a cached result.
    pub avg_fanout: f64,
}

/// What a request for subscriptions asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubszOptions {
    /// Subscriptions to skip.
    pub offset: i64,
    /// Most subscriptions to show.
    pub limit: i64,
    /// List subscriptions.
    pub subscriptions: bool,
    /// Only this account.
    #[serde(skip_serializing_if = "is_zero")]
    pub account: String,
    /// Only subscriptions that match this subject.
    #[serde(skip_serializing_if = "is_zero")]
    pub test: String,
}

impl SubszOptions {
    /// Reads the options from a query.
    pub fn from_query(query: &Query<'_>) -> Result<Self, QueryError> {
        Ok(Self {
            subscriptions: query.boolean("subs")?,
            offset: query.signed("offset")?,
            limit: query.signed("limit")?,
            test: query.text("test").to_owned(),
            account: query.text("acc").to_owned(),
        })
    }

    /// The window asked for.
    pub fn page(&self) -> Page {
        Page::new(self.offset, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{decode_options, to_vec};

    #[test]
    fn query_and_body_give_the_same_options() {
        let query =
            SubszOptions::from_query(&Query::parse("subs=1&offset=2&limit=3&test=a.b&acc=A")).unwrap();
        let body = br#"{"offset":2,"limit":3,"subscriptions":true,"account":"A","test":"a.b"}"#;
        assert_eq!(decode_options::<SubszOptions>(body).unwrap(), query);
        assert_eq!(query.page(), Page { offset: 2, limit: 3 });
    }

    #[test]
    fn figures_stand_between_time_and_total() {
        let text = String::from_utf8(to_vec(&Subsz::default()).unwrap()).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"server_id":"","now":"0001-01-01T00:00:00Z","num_subscriptions":0,"num_cache":0,"#,
                r#""num_inserts":0,"num_removes":0,"num_matches":0,"cache_hit_rate":0,"max_fanout":0,"#,
                r#""avg_fanout":0,"total":0,"offset":0,"limit":0}"#
            )
        );
    }
}
