//! `/connz`: open and closed client connections.

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::page::{OptionsError, Page};
use crate::optional::{is_zero, null_is_zero};
use crate::query::{Query, QueryError};
use crate::time::Time;

/// One page of connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connz {
    /// Identity of the answering server.
    pub server_id: String,
    /// When the page was made.
    pub now: Time,
    /// Connections on this page.
    pub num_connections: i64,
    /// Connections that match the request.
    pub total: i64,
    /// Connections skipped before this page.
    pub offset: i64,
    /// Most connections on a page.
    pub limit: i64,
    /// The connections.
    #[serde(deserialize_with = "null_is_zero")]
    pub connections: Vec<ConnInfo>,
}

/// One connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the reference's names and say what they are")]
pub struct ConnInfo {
    pub cid: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub kind: String,
    #[serde(rename = "type", skip_serializing_if = "is_zero")]
    pub client_type: String,
    pub ip: String,
    pub port: i32,
    pub start: Time,
    pub last_activity: Time,
    /// Only for closed connections, as is the reason.
    #[serde(skip_serializing_if = "is_zero")]
    pub stop: Time,
    #[serde(skip_serializing_if = "is_zero")]
    pub reason: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub rtt: String,
    pub uptime: String,
    pub idle: String,
    pub pending_bytes: i64,
    pub in_msgs: i64,
    pub out_msgs: i64,
    pub in_bytes: i64,
    pub out_bytes: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub stalls: i64,
    pub subscriptions: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub lang: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_cipher_suite: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_peer_certs: Vec<TlsPeerCert>,
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_first: bool,
    /// Only when asked for with `auth`, as are the account and the fields from `jwt` to `tags`.
    #[serde(skip_serializing_if = "is_zero")]
    pub authorized_user: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub account: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub subscriptions_list: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub subscriptions_list_detail: Vec<SubDetail>,
    #[serde(skip_serializing_if = "is_zero")]
    pub jwt: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub issuer_key: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub name_tag: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub mqtt_client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
}

/// A certificate the other side presented.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsPeerCert {
    /// Distinguished name.
    #[serde(skip_serializing_if = "is_zero")]
    pub subject: String,
    /// Digest of the public key, hexadecimal.
    #[serde(skip_serializing_if = "is_zero")]
    pub spki_sha256: String,
    /// Digest of the certificate, hexadecimal.
    #[serde(skip_serializing_if = "is_zero")]
    pub cert_sha256: String,
}

/// The trusted proxy a connection came through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Proxy {
    /// Public key of the proxy.
    pub key: String,
}

/// One subscription with its counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubDetail {
    /// Account, where the page is not about a single connection.
    #[serde(skip_serializing_if = "is_zero")]
    pub account: String,
    /// Name of that account.
    #[serde(skip_serializing_if = "is_zero")]
    pub account_tag: String,
    /// Subject subscribed to.
    pub subject: String,
    /// Queue group.
    #[serde(rename = "qgroup", skip_serializing_if = "is_zero")]
    pub queue: String,
    /// Identity the client gave the subscription.
    pub sid: String,
    /// Messages delivered.
    pub msgs: i64,
    /// Messages after which it ends.
    #[serde(skip_serializing_if = "is_zero")]
    pub max: i64,
    /// Connection it belongs to.
    pub cid: u64,
}

/// Which connections to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConnState {
    /// Open ones.
    #[default]
    Open,
    /// Closed ones that are still remembered.
    Closed,
    /// Both.
    Any,
}

impl ConnState {
    fn from_query(text: &str) -> Result<Self, QueryError> {
        match text.to_ascii_lowercase().as_str() {
            "" | "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            "any" | "all" => Ok(Self::Any),
            _ => Err(QueryError::State { value: text.to_owned() }),
        }
    }
}

/// The number that stands for a state in a request body.
impl Serialize for ConnState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(match self {
            Self::Open => 0,
            Self::Closed => 1,
            Self::Any => 2,
        })
    }
}

impl<'de> Deserialize<'de> for ConnState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match i64::deserialize(deserializer)? {
            0 => Ok(Self::Open),
            1 => Ok(Self::Closed),
            2 => Ok(Self::Any),
            other => {
                Err(D::Error::invalid_value(Unexpected::Signed(other), &"0 (open), 1 (closed) or 2 (any)"))
            }
        }
    }
}

/// Order of a page of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the sort key of its name")]
pub enum ConnSort {
    #[default]
    Cid,
    Start,
    Subs,
    Pending,
    MsgsTo,
    MsgsFrom,
    BytesTo,
    BytesFrom,
    Last,
    Idle,
    Uptime,
    Stop,
    Reason,
    Rtt,
}

impl ConnSort {
    /// Every sort key with its name in requests.
    pub const NAMES: [(&'static str, Self); 14] = [
        ("cid", Self::Cid),
        ("start", Self::Start),
        ("subs", Self::Subs),
        ("pending", Self::Pending),
        ("msgs_to", Self::MsgsTo),
        ("msgs_from", Self::MsgsFrom),
        ("bytes_to", Self::BytesTo),
        ("bytes_from", Self::BytesFrom),
        ("last", Self::Last),
        ("idle", Self::Idle),
        ("uptime", Self::Uptime),
        ("stop", Self::Stop),
        ("reason", Self::Reason),
        ("rtt", Self::Rtt),
    ];

    /// Whether the smallest value comes first; all other keys put the largest first.
    pub fn is_ascending(self) -> bool {
        matches!(self, Self::Cid | Self::Start | Self::Reason | Self::Uptime)
    }
}

/// What a request for connections asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnzOptions {
    /// Sort key as it was sent; read it with [`ConnzOptions::sort_key`].
    pub sort: String,
    /// Show user and account.
    pub auth: bool,
    /// List subscriptions.
    pub subscriptions: bool,
    /// List subscriptions with their counters.
    pub subscriptions_detail: bool,
    /// Connections to skip.
    pub offset: i64,
    /// Most connections to show.
    pub limit: i64,
    /// Only this connection; zero is any.
    pub cid: u64,
    /// Only the connection of this MQTT client.
    pub mqtt_client: String,
    /// Open, closed or both.
    pub state: ConnState,
    /// Only connections of this user.
    pub user: String,
    /// Only connections of this account.
    pub acc: String,
    /// Only connections with a subscription that would match this subject.
    pub filter_subject: String,
}

impl ConnzOptions {
    /// Reads the options from a query.
    pub fn from_query(query: &Query<'_>) -> Result<Self, QueryError> {
        let auth = query.boolean("auth")?;
        let (subscriptions, subscriptions_detail) = query.subscriptions()?;
        Ok(Self {
            sort: query.text("sort").to_owned(),
            auth,
            subscriptions,
            subscriptions_detail,
            offset: query.signed("offset")?,
            limit: query.signed("limit")?,
            cid: query.unsigned("cid")?,
            mqtt_client: query.text("mqtt_client").to_owned(),
            state: ConnState::from_query(query.text("state"))?,
            user: query.text("user").to_owned(),
            acc: query.text("acc").to_owned(),
            filter_subject: query.text("filter_subject").to_owned(),
        })
    }

    /// The order asked for.
    pub fn sort_key(&self) -> Result<ConnSort, OptionsError> {
        if self.sort.is_empty() {
            return Ok(ConnSort::default());
        }
        let Some(&(name, key)) = ConnSort::NAMES.iter().find(|(name, _)| *name == self.sort) else {
            return Err(OptionsError::Sort(self.sort.clone()));
        };
        if matches!(key, ConnSort::Stop | ConnSort::Reason) && self.state != ConnState::Closed {
            return Err(OptionsError::SortNeedsClosed(name));
        }
        Ok(key)
    }

    /// The window asked for; a request for one connection has a window of one.
    pub fn page(&self) -> Page {
        if self.cid > 0 { Page::new(0, 1) } else { Page::new(self.offset, self.limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::decode_options;

    fn from_query(raw: &str) -> Result<ConnzOptions, QueryError> {
        ConnzOptions::from_query(&Query::parse(raw))
    }

    #[test]
    fn query_and_body_give_the_same_options() {
        let query = "sort=idle&auth=1&subs=detail&offset=3&limit=9&cid=7&mqtt_client=m&state=ALL&user=u&acc=A&filter_subject=a.%3E";
        let body =
            br#"{"sort":"idle","auth":true,"subscriptions":true,"subscriptions_detail":true,"offset":3,
            "limit":9,"cid":7,"mqtt_client":"m","state":2,"user":"u","acc":"A","filter_subject":"a.>"}"#;
        let options = from_query(query).unwrap();
        assert_eq!(decode_options::<ConnzOptions>(body).unwrap(), options);
        assert_eq!(options.filter_subject, "a.>");
        assert_eq!(options.state, ConnState::Any);
        assert_eq!(decode_options::<ConnzOptions>(&serde_json::to_vec(&options).unwrap()).unwrap(), options);
    }

    #[test]
    fn sort_keys_are_names_in_lower_case() {
        for (name, key) in ConnSort::NAMES {
            assert_eq!(from_query(&format!("sort={name}&state=closed")).unwrap().sort_key(), Ok(key));
        }
        assert_eq!(from_query("").unwrap().sort_key(), Ok(ConnSort::Cid));
        let error = from_query("sort=CID").unwrap().sort_key().unwrap_err();
        assert_eq!(error.to_string(), "invalid sorting option: CID");
    }

    #[test]
    fn stop_and_reason_need_closed_connections() {
        for state in ["", "open", "any"] {
            let error = from_query(&format!("sort=stop&state={state}")).unwrap().sort_key().unwrap_err();
            assert_eq!(error.to_string(), "sort by stop only valid on closed connections");
        }
        assert_eq!(from_query("sort=reason&state=closed").unwrap().sort_key(), Ok(ConnSort::Reason));
    }

    #[test]
    fn unknown_states_are_refused() {
        assert_eq!(from_query("state=foo").unwrap_err().to_string(), "Error decoding state for foo");
        assert!(decode_options::<ConnzOptions>(br#"{"state":3}"#).is_err());
        assert!(decode_options::<ConnzOptions>(br#"{"state":"open"}"#).is_err());
    }

    #[test]
    fn one_connection_has_a_page_of_one() {
        assert_eq!(from_query("cid=10&offset=4&limit=9").unwrap().page(), Page::new(0, 1));
        assert_eq!(from_query("offset=4&limit=9").unwrap().page(), Page::new(4, 9));
    }

    #[test]
    fn a_null_list_is_read_as_empty() {
        let page: Connz = serde_json::from_str(r#"{"connections":null}"#).unwrap();
        assert_eq!(page.connections, Vec::new());
    }
}
