//! `/healthz`: whether a server can do its work.

use serde::{Deserialize, Serialize};

use crate::optional::is_zero;
use crate::query::{Query, QueryError};

/// Answer of a health check.
///
/// Over HTTP `status_code` is the status of the response and is left out of the document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthStatus {
    /// `ok`, `unavailable` or `error`.
    pub status: String,
    /// HTTP status that goes with it.
    #[serde(skip_serializing_if = "is_zero")]
    pub status_code: u16,
    /// The first failure, unless details were asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub error: String,
    /// All failures, when details were asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: Vec<HealthError>,
}

impl HealthStatus {
    /// A healthy server.
    pub fn ok() -> Self {
        Self { status: "ok".to_owned(), status_code: 200, ..Self::default() }
    }

    /// A failure in the form the request asked for.
    pub fn failed(status_code: u16, kind: HealthErrorKind, error: impl Into<String>, details: bool) -> Self {
        let error = error.into();
        let status = if status_code == 503 && !details { "unavailable" } else { "error" }.to_owned();
        if details {
            let errors = vec![HealthError { kind, error, ..HealthError::default() }];
            return Self { status, status_code, errors, error: String::new() };
        }
        Self { status, status_code, error, errors: Vec::new() }
    }

    /// Faults of JetStream in the form the request asked for: all, or the first. None is a healthy server.
    pub fn of_jetstream(faults: &[JetStreamFault<'_>], details: bool) -> Self {
        let Some(first) = faults.first() else { return Self::ok() };
        let status_code = first.status_code();
        if details {
            let errors = faults.iter().map(JetStreamFault::error).collect();
            return Self { status: "error".to_owned(), status_code, errors, error: String::new() };
        }
        Self { status: "unavailable".to_owned(), status_code, error: first.to_string(), errors: Vec::new() }
    }

    /// The document as the HTTP page shows it.
    pub fn without_status_code(self) -> Self {
        Self { status_code: 0, ..self }
    }
}

/// One failure in detail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthError {
    /// What failed.
    #[serde(rename = "type")]
    pub kind: HealthErrorKind,
    /// Account concerned.
    #[serde(skip_serializing_if = "is_zero")]
    pub account: String,
    /// Stream concerned.
    #[serde(skip_serializing_if = "is_zero")]
    pub stream: String,
    /// Consumer concerned.
    #[serde(skip_serializing_if = "is_zero")]
    pub consumer: String,
    /// The failure in words.
    #[serde(skip_serializing_if = "is_zero")]
    pub error: String,
}

/// What a failure is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HealthErrorKind {
    /// The server does not accept connections.
    #[default]
    Connection,
    /// The request makes no sense.
    BadRequest,
    /// JetStream as a whole.
    #[serde(rename = "JETSTREAM")]
    JetStream,
    /// An account.
    Account,
    /// A stream.
    Stream,
    /// A consumer.
    Consumer,
}

/// What may be wrong with JetStream. The texts are those that tools know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the names in the text")]
pub enum JetStreamFault<'a> {
    /// It is configured, but does not run.
    #[error("JetStream not enabled (10076)")]
    NotEnabled,
    /// The account asked for has no JetStream.
    #[error("JetStream account {account:?} not found")]
    AccountMissing { account: &'a str },
    /// The stream asked for is not there.
    #[error("JetStream stream {stream:?} not found on account {account:?}")]
    StreamMissing { account: &'a str, stream: &'a str },
    /// The consumer asked for is not there.
    #[error("JetStream consumer {consumer:?} not found for stream {stream:?} on account {account:?}")]
    ConsumerMissing { account: &'a str, stream: &'a str, consumer: &'a str },
    /// A stream is on disk and was not opened.
    #[error("JetStream stream '{account} > {stream}' could not be recovered")]
    StreamLost { account: &'a str, stream: &'a str },
    /// A stream can not be written.
    #[error("JetStream stream '{account} > {stream}' write error: {reason}")]
    StreamUnwritable { account: &'a str, stream: &'a str, reason: &'a str },
    /// A replica of a stream lacks messages.
    #[error("JetStream stream '{account} > {stream}' is not current: {reason}")]
    StreamBehind { account: &'a str, stream: &'a str, reason: &'a str },
    /// A replica of a consumer lacks acknowledgements.
    #[error("JetStream consumer '{account} > {stream} > {consumer}' is not current: {reason}")]
    ConsumerBehind { account: &'a str, stream: &'a str, consumer: &'a str, reason: &'a str },
    /// The catalogue can not be written.
    #[error("JetStream meta layer write error: {reason}")]
    MetaUnwritable { reason: &'a str },
    /// The catalogue does not run.
    #[error("JetStream meta layer is not running")]
    MetaStopped,
    /// The catalogue is being read.
    #[error("JetStream is still recovering meta layer")]
    MetaRecovering,
    /// Nobody leads the catalogue.
    #[error("JetStream has not established contact with a meta leader")]
    MetaLeaderless,
    /// The catalogue lacks entries.
    #[error("JetStream is not current with the meta leader")]
    MetaBehind,
}

impl JetStreamFault<'_> {
    /// HTTP status of a check that ends with this.
    pub fn status_code(&self) -> u16 {
        match self {
            Self::AccountMissing { .. } | Self::StreamMissing { .. } | Self::ConsumerMissing { .. } => 404,
            _ => 503,
        }
    }

    /// The fault in detail.
    pub fn error(&self) -> HealthError {
        let (kind, names) = match *self {
            Self::AccountMissing { account } => (HealthErrorKind::Account, [account, "", ""]),
            Self::StreamMissing { account, stream }
            | Self::StreamLost { account, stream }
            | Self::StreamUnwritable { account, stream, .. }
            | Self::StreamBehind { account, stream, .. } => (HealthErrorKind::Stream, [account, stream, ""]),
            Self::ConsumerMissing { account, stream, consumer }
            | Self::ConsumerBehind { account, stream, consumer, .. } => {
                (HealthErrorKind::Consumer, [account, stream, consumer])
            }
            _ => (HealthErrorKind::JetStream, ["", "", ""]),
        };
        let [account, stream, consumer] = names.map(str::to_owned);
        HealthError { kind, account, stream, consumer, error: self.to_string() }
    }
}

/// What a health check looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct HealthzOptions {
    /// Old name of `js_enabled_only`.
    #[serde(skip_serializing_if = "is_zero")]
    pub js_enabled: bool,
    /// Stop after checking that JetStream is enabled.
    #[serde(skip_serializing_if = "is_zero")]
    pub js_enabled_only: bool,
    /// Leave JetStream out.
    #[serde(skip_serializing_if = "is_zero")]
    pub js_server_only: bool,
    /// Stop after checking the meta group.
    #[serde(skip_serializing_if = "is_zero")]
    pub js_meta_only: bool,
    /// Only this account.
    #[serde(skip_serializing_if = "is_zero")]
    pub account: String,
    /// Only this stream of the account.
    #[serde(skip_serializing_if = "is_zero")]
    pub stream: String,
    /// Only this consumer of the stream.
    #[serde(skip_serializing_if = "is_zero")]
    pub consumer: String,
    /// List all failures.
    #[serde(skip_serializing_if = "is_zero")]
    pub details: bool,
}

impl HealthzOptions {
    /// Reads the options from a query.
    pub fn from_query(query: &Query<'_>) -> Result<Self, QueryError> {
        Ok(Self {
            js_enabled: query.boolean("js-enabled")?,
            js_enabled_only: query.boolean("js-enabled-only")?,
            js_server_only: query.boolean("js-server-only")?,
            js_meta_only: query.boolean("js-meta-only")?,
            details: query.boolean("details")?,
            account: query.text("account").to_owned(),
            stream: query.text("stream").to_owned(),
            consumer: query.text("consumer").to_owned(),
        })
    }

    /// The answer for options that contradict each other, if they do.
    pub fn contradiction(&self) -> Option<HealthStatus> {
        let text = if self.account.is_empty() && !self.stream.is_empty() {
            r#""account" must not be empty when checking stream health"#
        } else if self.stream.is_empty() && !self.consumer.is_empty() {
            r#""stream" must not be empty when checking consumer health"#
        } else {
            return None;
        };
        Some(HealthStatus::failed(400, HealthErrorKind::BadRequest, text, self.details))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{decode_options, to_vec};

    fn text(status: &HealthStatus) -> String {
        String::from_utf8(to_vec(status).unwrap()).unwrap()
    }

    #[test]
    fn healthy_answer_has_a_code_only_outside_http() {
        assert_eq!(text(&HealthStatus::ok()), r#"{"status":"ok","status_code":200}"#);
        assert_eq!(text(&HealthStatus::ok().without_status_code()), r#"{"status":"ok"}"#);
    }

    #[test]
    fn contradicting_options_are_a_bad_request() {
        let options: HealthzOptions = decode_options(br#"{"stream":"s"}"#).unwrap();
        assert_eq!(
            text(&options.contradiction().unwrap()),
            r#"{"status":"error","status_code":400,"error":"\"account\" must not be empty when checking stream health"}"#
        );
        let options: HealthzOptions =
            decode_options(br#"{"details":true,"consumer":"s","account":"a"}"#).unwrap();
        assert_eq!(
            text(&options.contradiction().unwrap()),
            concat!(
                r#"{"status":"error","status_code":400,"errors":[{"type":"BAD_REQUEST","#,
                r#""error":"\"stream\" must not be empty when checking consumer health"}]}"#
            )
        );
        let options: HealthzOptions =
            decode_options(br#"{"account":"a","stream":"s","consumer":"c"}"#).unwrap();
        assert_eq!(options.contradiction(), None);
    }

    #[test]
    fn unavailable_is_called_so_only_without_details() {
        let failed = |details| HealthStatus::failed(503, HealthErrorKind::JetStream, "x", details);
        assert_eq!(text(&failed(false)), r#"{"status":"unavailable","status_code":503,"error":"x"}"#);
        assert_eq!(
            text(&failed(true)),
            r#"{"status":"error","status_code":503,"errors":[{"type":"JETSTREAM","error":"x"}]}"#
        );
    }

    #[test]
    fn faults_of_jetstream_are_told_as_by_the_reference() {
        let missing = JetStreamFault::StreamMissing { account: "A", stream: "NO" };
        let lost = JetStreamFault::StreamLost { account: "A", stream: "S" };
        assert_eq!(
            text(&HealthStatus::of_jetstream(&[missing.clone(), lost.clone()], false)),
            r#"{"status":"unavailable","status_code":404,"error":"JetStream stream \"NO\" not found on account \"A\""}"#
        );
        assert_eq!(
            text(&HealthStatus::of_jetstream(&[lost, missing], true)),
            concat!(
                r#"{"status":"error","status_code":503,"errors":[{"type":"STREAM","account":"A","stream":"S","#,
                r#""error":"JetStream stream 'A \u003e S' could not be recovered"},{"type":"STREAM","account":"A","#,
                r#""stream":"NO","error":"JetStream stream \"NO\" not found on account \"A\""}]}"#
            )
        );
        let consumer = JetStreamFault::ConsumerMissing { account: "A", stream: "SRC", consumer: "q" };
        assert_eq!(
            text(&HealthStatus::of_jetstream(&[consumer], true).without_status_code()),
            concat!(
                r#"{"status":"error","errors":[{"type":"CONSUMER","account":"A","stream":"SRC","consumer":"q","#,
                r#""error":"JetStream consumer \"q\" not found for stream \"SRC\" on account \"A\""}]}"#
            )
        );
        assert_eq!(HealthStatus::of_jetstream(&[], true), HealthStatus::ok());
        assert_eq!(JetStreamFault::NotEnabled.error().kind, HealthErrorKind::JetStream);
    }

    #[test]
    fn query_and_body_share_the_names_with_dashes() {
        let query =
            HealthzOptions::from_query(&Query::parse("js-enabled-only=1&js-server-only=t&details=true"));
        let body = br#"{"js-enabled-only":true,"js-server-only":true,"details":true}"#;
        assert_eq!(query, Ok(decode_options(body).unwrap()));
        assert!(HealthzOptions::from_query(&Query::parse("js-enabled=x")).is_err());
    }
}
