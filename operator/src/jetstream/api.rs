//! Requests of the JetStream API.

use std::time::Duration;

use api::ApiError;
use api::Time;
use api::error::jetstream::ErrorCode;
use api::jetstream::account::AccountStats;
use api::jetstream::consumer::{ConsumerAction, ConsumerConfig, ConsumerInfo};
use api::jetstream::request::{self, CreateConsumerRequest};
use api::jetstream::response;
use api::jetstream::stream::StreamInfo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::asset::{Found, Target};
use super::problem::Problem;
use crate::metrics::Metrics;
use crate::nats::client::Error;
use crate::nats::document;
use crate::nats::session::Session;

/// Pages of a list at most: 65,536 entries, far above what one account should have.
const PAGES_MAX: usize = 256;

/// The API of one account or domain.
#[derive(Clone, Copy)]
pub struct Js<'a> {
    /// The connection.
    pub session: &'a Session,
    /// Beginning of the subjects.
    pub prefix: &'a str,
    /// Longest time to wait for an answer.
    pub timeout: Duration,
    /// Figures.
    pub metrics: &'a Metrics,
}

/// A response before it is known whether it is one.
#[derive(serde::Deserialize)]
struct Envelope {
    #[serde(default)]
    error: Option<ApiError>,
}

fn nonsense() -> Problem {
    Problem::transient("NatsError", "the server's answer is not what JetStream answers")
}

/// Names end up in subjects; every name was checked when its spec was read.
fn assert_token(name: &str) {
    assert!(super::desired::is_token(name), "a name that is none reached a subject");
}

impl Js<'_> {
    async fn ask<T: DeserializeOwned>(
        &self,
        op: &'static str,
        subject: &str,
        body: &[u8],
    ) -> Result<T, Problem> {
        let bytes = self.raw(op, subject, body).await?;
        serde_json::from_slice(&bytes).map_err(|_| nonsense())
    }

    /// The bytes of an answer that is no error and not nested too deep.
    async fn raw(&self, op: &'static str, subject: &str, body: &[u8]) -> Result<Vec<u8>, Problem> {
        let timer = self.metrics.request_seconds.with_label_values(&[op]).start_timer();
        let answer = self.session.request(&format!("{}.{subject}", self.prefix), body, self.timeout).await;
        timer.observe_duration();
        let bytes = answer.map_err(|error: Error| {
            self.metrics.request_errors.with_label_values(&[op]).inc();
            Problem::from(error)
        })?;
        let envelope: Envelope = document::parse(&bytes).map_err(|_| nonsense())?;
        match envelope.error {
            Some(error) => Err(ApiProblem(error).into()),
            None => Ok(bytes),
        }
    }

    /// What the account uses and may use, and the level of the API.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn account(&self) -> Result<AccountStats, Problem> {
        self.ask("account_info", "INFO", b"").await
    }

    /// Everything about a stream or consumer; `None` when it, or its stream, is not there.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn look(&self, target: &Target) -> Result<Option<Found>, Problem> {
        Ok(match &target.consumer {
            None => self.stream(&target.stream).await?.map(|info| Found::Stream(Box::new(info))),
            Some(name) => {
                self.consumer(&target.stream, name).await?.map(|info| Found::Consumer(Box::new(info)))
            }
        })
    }

    /// Everything about a stream; `None` when there is none.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn stream(&self, name: &str) -> Result<Option<StreamInfo>, Problem> {
        assert_token(name);
        let found: Result<StreamInfo, Problem> =
            self.ask("stream_info", &format!("STREAM.INFO.{name}"), b"").await;
        // A hostile server may answer with another stream.
        absent_is_none(found)?
            .map_or(Ok(None), |info| if info.config.name == name { Ok(Some(info)) } else { Err(nonsense()) })
    }

    /// The configuration of a stream as the server wrote it, with fields that this version does not know.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn stream_fields(&self, name: &str) -> Result<Map<String, Value>, Problem> {
        assert_token(name);
        let bytes = self.raw("stream_info", &format!("STREAM.INFO.{name}"), b"").await?;
        config_fields(&bytes)
    }

    /// Everything about a consumer; `None` when it or its stream is not there.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn consumer(&self, stream: &str, name: &str) -> Result<Option<ConsumerInfo>, Problem> {
        assert_token(stream);
        assert_token(name);
        let found: Result<ConsumerInfo, Problem> =
            self.ask("consumer_info", &format!("CONSUMER.INFO.{stream}.{name}"), b"").await;
        absent_is_none(found)?.map_or(Ok(None), |info| {
            if info.name == name && info.config.is_some() { Ok(Some(info)) } else { Err(nonsense()) }
        })
    }

    /// The configuration of a consumer as the server wrote it.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn consumer_fields(&self, stream: &str, name: &str) -> Result<Map<String, Value>, Problem> {
        assert_token(stream);
        assert_token(name);
        let bytes = self.raw("consumer_info", &format!("CONSUMER.INFO.{stream}.{name}"), b"").await?;
        config_fields(&bytes)
    }

    /// Makes or changes a stream; `verb` is CREATE or UPDATE.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn put_stream(
        &self,
        verb: &str,
        name: &str,
        config: &impl Serialize,
    ) -> Result<StreamInfo, Problem> {
        assert_token(name);
        self.ask("stream_put", &format!("STREAM.{verb}.{name}"), &body(config)?).await
    }

    /// Makes or changes a consumer.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn put_consumer(
        &self,
        stream: &str,
        name: &str,
        config: Map<String, Value>,
        action: ConsumerAction,
    ) -> Result<ConsumerInfo, Problem> {
        assert_token(stream);
        assert_token(name);
        let request = CreateConsumerRequest {
            stream_name: stream.to_owned(),
            config: ConsumerConfig::default(),
            action,
            pedantic: false,
        };
        let mut request = serde_json::to_value(request).map_err(|_| nonsense())?;
        request["config"] = Value::Object(config);
        self.ask("consumer_put", &format!("CONSUMER.CREATE.{stream}.{name}"), &body(&request)?).await
    }

    /// Stops deliveries, or with the zero time lets them go on.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn pause(&self, stream: &str, name: &str, until: Time) -> Result<(), Problem> {
        assert_token(stream);
        assert_token(name);
        let request = body(&request::Pause { pause_until: until })?;
        self.raw("consumer_pause", &format!("CONSUMER.PAUSE.{stream}.{name}"), &request).await.map(|_| ())
    }

    /// Deletes a stream. Absence is success.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn delete_stream(&self, name: &str) -> Result<(), Problem> {
        assert_token(name);
        absent_is_none(self.raw("stream_delete", &format!("STREAM.DELETE.{name}"), b"").await).map(|_| ())
    }

    /// Deletes a consumer. Absence is success.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn delete_consumer(&self, stream: &str, name: &str) -> Result<(), Problem> {
        assert_token(stream);
        assert_token(name);
        let subject = format!("CONSUMER.DELETE.{stream}.{name}");
        absent_is_none(self.raw("consumer_delete", &subject, b"").await).map(|_| ())
    }

    /// Streams of the account that `wanted` names, page by page.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn streams(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<StreamInfo>, Problem> {
        let mut all = Vec::new();
        let mut offset = 0;
        for _ in 0..PAGES_MAX {
            let request = body(&request::StreamList { offset, subject: String::new() })?;
            let page: response::StreamList = self.ask("stream_list", "STREAM.LIST", &request).await?;
            let count = i64::try_from(page.streams.len()).unwrap_or(i64::MAX);
            all.extend(page.streams.into_iter().filter(|info| wanted(&info.config.name)));
            offset += count;
            if count == 0 || offset >= page.page.total {
                break;
            }
        }
        Ok(all)
    }

    /// Consumers of a stream that `wanted` names, page by page.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn consumers(
        &self,
        stream: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<ConsumerInfo>, Problem> {
        let mut all = Vec::new();
        let mut offset = 0;
        for _ in 0..PAGES_MAX {
            let Some(page) = self.consumers_from(stream, offset).await? else { break };
            let count = i64::try_from(page.consumers.len()).unwrap_or(i64::MAX);
            all.extend(page.consumers.into_iter().filter(|info| wanted(&info.name) && info.config.is_some()));
            offset += count;
            if count == 0 || offset >= page.page.total {
                break;
            }
        }
        Ok(all)
    }

    /// One page of the consumers of a stream, from the one at `offset` on; `None` when there is no such stream.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn consumers_from(
        &self,
        stream: &str,
        offset: i64,
    ) -> Result<Option<response::ConsumerList>, Problem> {
        assert_token(stream);
        let request = body(&request::Consumers { offset })?;
        let subject = format!("CONSUMER.LIST.{stream}");
        absent_is_none(self.ask("consumer_list", &subject, &request).await)
    }
}

fn config_fields(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    #[derive(serde::Deserialize)]
    struct Info {
        config: Map<String, Value>,
    }
    let info: Info = serde_json::from_slice(bytes).map_err(|_| nonsense())?;
    Ok(info.config)
}

fn body(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|_| nonsense())
}

/// An error of the API on its way to a [`Problem`].
struct ApiProblem(ApiError);

impl From<ApiProblem> for Problem {
    fn from(ApiProblem(error): ApiProblem) -> Self {
        if ErrorCode::CONSUMER_NOT_FOUND.is(&error) {
            return Self::transient("ConsumerNotFound", "the server has no such consumer");
        }
        error.into()
    }
}

fn absent_is_none<T>(result: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Problem::Transient { reason: "StreamNotFound" | "ConsumerNotFound", .. }) => Ok(None),
        Err(problem) => Err(problem),
    }
}
