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
    fn query_and_body_share_the_names_with_dashes() {
        let query =
            HealthzOptions::from_query(&Query::parse("js-enabled-only=1&js-server-only=t&details=true"));
        let body = br#"{"js-enabled-only":true,"js-server-only":true,"details":true}"#;
        assert_eq!(query, Ok(decode_options(body).unwrap()));
        assert!(HealthzOptions::from_query(&Query::parse("js-enabled=x")).is_err());
    }
}
