//! Requests to the system account: which servers answer, what they are asked, and the envelope of the answer.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ServerInfo;
use crate::duration::nanos;
use crate::error::ApiError;
use crate::json::{DecodeError, options_object};
use crate::monitor::Empty;
use crate::optional::is_zero;

/// Envelope of a response: the server with either data or an error.
///
/// A request that could not be read has no `data` member, one that failed while it was served has `null` there, and one
/// that only asked for an action has neither member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerApiResponse<T> {
    /// Where it comes from.
    pub server: ServerInfo,
    /// The document asked for.
    #[serde(skip_serializing_if = "Data::is_absent")]
    pub data: Data<T>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
}

impl<T> ServerApiResponse<T> {
    /// A response with its document.
    pub fn data(server: ServerInfo, data: T) -> Self {
        Self { server, data: Data::Document(data), error: None }
    }

    /// The answer to a request that could not be read.
    pub fn unreadable(server: ServerInfo, error: &DecodeError) -> Self {
        Self { server, data: Data::Absent, error: Some(ApiError::bad_request(error.to_string())) }
    }

    /// The answer to a request that failed while its document was made.
    pub fn failed(server: ServerInfo, error: ApiError) -> Self {
        Self { server, data: Data::Null, error: Some(error) }
    }
}

impl ServerApiResponse<Empty> {
    /// The answer to an action.
    pub fn action(server: ServerInfo, outcome: Result<(), ApiError>) -> Self {
        Self { server, data: Data::Absent, error: outcome.err() }
    }
}

/// The `data` member of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Data<T> {
    /// The member is not there.
    #[default]
    Absent,
    /// The member is `null`.
    Null,
    /// The document.
    Document(T),
}

impl<T> Data<T> {
    /// Whether the member is left out.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// The document, if there is one.
    pub fn document(self) -> Option<T> {
        match self {
            Self::Document(document) => Some(document),
            Self::Absent | Self::Null => None,
        }
    }
}

impl<T: Serialize> Serialize for Data<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Document(document) => document.serialize(serializer),
            Self::Absent | Self::Null => serializer.serialize_none(),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Data<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Document))
    }
}

/// Which servers shall answer a request that all of them receive. The others stay silent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventFilter {
    /// Name, or a part of it.
    #[serde(skip_serializing_if = "is_zero")]
    pub server_name: String,
    /// Cluster, or a part of its name.
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster: String,
    /// Host, or a part of it.
    #[serde(skip_serializing_if = "is_zero")]
    pub host: String,
    /// Compare whole names instead of parts.
    #[serde(skip_serializing_if = "is_zero")]
    pub exact_match: bool,
    /// Tags a server must all have.
    #[serde(skip_serializing_if = "is_zero")]
    pub tags: Vec<String>,
    /// JetStream domain.
    #[serde(skip_serializing_if = "is_zero")]
    pub domain: String,
}

impl EventFilter {
    /// Whether the server is one of those asked for.
    pub fn selects(&self, server: &ServerInfo) -> bool {
        let fits = |wanted: &str, actual: &str| {
            wanted.is_empty() || if self.exact_match { wanted == actual } else { actual.contains(wanted) }
        };
        fits(&self.server_name, &server.name)
            && fits(&self.cluster, &server.cluster)
            && fits(&self.host, &server.host)
            && (self.domain.is_empty() || self.domain == server.domain)
            && self.tags.iter().all(|tag| server.tags.iter().any(|own| own.eq_ignore_ascii_case(tag)))
    }
}

/// Reads a request body into the filter for servers and the options of the page.
pub fn decode_request<T: DeserializeOwned>(body: &[u8]) -> Result<(EventFilter, T), DecodeError> {
    let members = options_object(body)?;
    let filter = serde_json::from_value(members.clone())?;
    Ok((filter, serde_json::from_value(members)?))
}

/// Body of a request to close a client, or to tell it to go elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientRequest {
    /// Number of the connection.
    pub cid: u64,
}

/// Answer to a client that asks who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// User.
    pub user: String,
    /// Account.
    pub account: String,
    /// Name of the account.
    #[serde(skip_serializing_if = "is_zero")]
    pub account_name: String,
    /// Name of the user.
    #[serde(skip_serializing_if = "is_zero")]
    pub user_name: String,
    /// What the user may do, when it is restricted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<serde_json::Value>,
    /// Time left until the user expires.
    #[serde(with = "nanos", skip_serializing_if = "is_zero")]
    pub expires: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_vec;
    use crate::monitor::ConnzOptions;

    #[test]
    fn each_outcome_has_its_own_members() {
        let text = |response: &ServerApiResponse<Empty>| {
            let text = String::from_utf8(to_vec(response).unwrap()).unwrap();
            text.split_once(r#""time":"0001-01-01T00:00:00Z"}"#).unwrap().1.to_owned()
        };
        let server = ServerInfo::default;
        assert_eq!(text(&ServerApiResponse::data(server(), Empty {})), r#","data":{}}"#);
        assert_eq!(text(&ServerApiResponse::action(server(), Ok(()))), "}");
        let error = ApiError::internal("no such client or leafnode id");
        assert_eq!(
            text(&ServerApiResponse::action(server(), Err(error.clone()))),
            r#","error":{"code":500,"description":"no such client or leafnode id"}}"#
        );
        assert_eq!(
            text(&ServerApiResponse::failed(server(), error)),
            r#","data":null,"error":{"code":500,"description":"no such client or leafnode id"}}"#
        );
        assert_eq!(
            text(&ServerApiResponse::unreadable(server(), &DecodeError::NotAnObject)),
            r#","error":{"code":400,"description":"json: request body is not an object"}}"#
        );
    }

    #[test]
    fn one_body_carries_filter_and_options() {
        let body = br#"{"server_name":"n1","Limit":5,"tags":["az:1"]}"#;
        let (filter, options) = decode_request::<ConnzOptions>(body).unwrap();
        assert_eq!((filter.server_name.as_str(), options.limit), ("n1", 5));
        assert!(decode_request::<ConnzOptions>(br#"{"tags":"az:1"}"#).is_err());
    }

    #[test]
    fn filter_compares_parts_or_whole_names() {
        let server =
            ServerInfo { name: "ref1".to_owned(), tags: vec!["az:1".to_owned()], ..ServerInfo::default() };
        let filter = |exact_match, name: &str| EventFilter {
            server_name: name.to_owned(),
            exact_match,
            ..EventFilter::default()
        };
        assert!(EventFilter::default().selects(&server));
        assert!(filter(false, "ref").selects(&server));
        assert!(!filter(true, "ref").selects(&server));
        assert!(filter(true, "ref1").selects(&server));
        assert!(!filter(false, "other").selects(&server));
        let tagged = |tags: &[&str]| EventFilter {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..EventFilter::default()
        };
        assert!(tagged(&["az:1"]).selects(&server));
        assert!(!tagged(&["az:1", "ssd"]).selects(&server));
    }
}
