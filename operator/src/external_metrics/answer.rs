//! What is answered: documents that say what there is, values, and refusals.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::{HeaderMap, Method, StatusCode};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::front::{self, Front};
use super::query::{GROUP, Metric, Query, VERSION};
use crate::autoscaler::need::{self, Reading, Sample, Track};
use crate::autoscaler::read::{self, Link};
use crate::context::Context;
use crate::jetstream::problem::Problem;

/// Values that are remembered at a time, of all namespaces and of one.
const SLOTS_MAX: (usize, usize) = (4096, 128);
/// A value that nobody has asked for in this time is forgotten, and with it the connection that only it used. A rate since then would
/// say nothing about now either.
const SLOT_AGE_MAX: Duration = Duration::from_secs(300);
/// Within this time an answer is given again: a rate needs time to be one, and servers are not asked for each who asks.
const LOOK_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// How often a HorizontalPodAutoscaler asks unless its controller was told otherwise.
const ASK_INTERVAL: Duration = Duration::from_secs(15);

/// What all requests share.
pub struct State {
    /// Clients and settings.
    pub context: Arc<Context>,
    slots: Mutex<HashMap<SlotKey, Slot>>,
}

/// Namespace, metric and labels.
type SlotKey = (String, Metric, String);

/// What is remembered of a value.
struct Slot {
    used: Instant,
    look: Arc<tokio::sync::Mutex<Look>>,
}

/// How a value is reached, what a rate needs, and what was answered last.
#[derive(Default)]
struct Look {
    link: Option<Link>,
    track: Track,
    last: Option<(Instant, Result<Answer, Refusal>)>,
}

/// A value as Kubernetes writes quantities, and when it was so.
#[derive(Clone)]
struct Answer {
    quantity: String,
    at: Timestamp,
}

/// Why there is no value.
#[derive(Clone, Debug)]
struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Refusal {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    /// As Kubernetes writes it.
    fn document(&self) -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": self.message, "reason": self.reason, "code": self.code.as_u16() })
    }
}

impl State {
    /// A state with nothing remembered.
    #[must_use]
    pub fn new(context: Arc<Context>) -> Self {
        Self { context, slots: Mutex::default() }
    }

    /// Forgets values that nobody asks for any more.
    pub fn prune(&self) {
        self.slots.lock().retain(|_, slot| slot.used.elapsed() < SLOT_AGE_MAX);
    }

    /// The place of a value; `None` when there is no room for another one.
    fn look(&self, query: &Query) -> Option<Arc<tokio::sync::Mutex<Look>>> {
        self.prune();
        let labels: Vec<String> =
            query.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let key = (query.namespace.clone(), query.metric, labels.join(","));
        let mut slots = self.slots.lock();
        if !slots.contains_key(&key) {
            let beside = slots.keys().filter(|(namespace, ..)| *namespace == query.namespace).count();
            if slots.len() >= SLOTS_MAX.0 || beside >= SLOTS_MAX.1 {
                return None;
            }
        }
        let slot = slots.entry(key).or_insert_with(|| Slot { used: Instant::now(), look: Arc::default() });
        slot.used = Instant::now();
        Some(Arc::clone(&slot.look))
    }
}

/// Answers a request of the API server.
pub async fn answer(
    state: &State,
    front: &Front,
    (method, path, query): (&Method, &str, Option<&str>),
    headers: &HeaderMap,
) -> (StatusCode, Value) {
    let result = if method != Method::GET {
        Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "values can be read only"))
    } else if let Some(document) = document(path) {
        Ok(document)
    } else {
        match asked(path) {
            Some((namespace, metric)) => {
                Box::pin(value(state, front, (namespace, metric, query), headers)).await
            }
            None => Err(Refusal::new(StatusCode::NOT_FOUND, "NotFound", "there is no such page")),
        }
    };
    match result {
        Ok(document) => (StatusCode::OK, document),
        Err(refusal) => (refusal.code, refusal.document()),
    }
}

/// Pages that say what there is.
fn document(path: &str) -> Option<Value> {
    let version = json!({ "groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION });
    let group = json!({ "name": GROUP, "versions": [version], "preferredVersion": version });
    let with = |kind: &str, mut document: Value| {
        document["kind"] = json!(kind);
        document["apiVersion"] = json!("v1");
        document
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    match path.strip_prefix("/apis") {
        Some("") => return Some(with("APIGroupList", json!({ "groups": [group] }))),
        Some(rest) if rest.strip_prefix('/') == Some(GROUP) => return Some(with("APIGroup", group)),
        Some(rest) if rest.strip_prefix('/') == Some(&format!("{GROUP}/{VERSION}")) => {
            let resource = |metric: Metric| {
                json!({ "name": metric.name(), "singularName": "", "namespaced": true,
                        "kind": "ExternalMetricValueList", "verbs": ["get"] })
            };
            let resources: Vec<Value> = Metric::ALL.into_iter().map(resource).collect();
            let list = json!({ "groupVersion": format!("{GROUP}/{VERSION}"), "resources": resources });
            return Some(with("APIResourceList", list));
        }
        _ => {}
    }
    let info = json!({ "title": "Myelin external metrics", "version": env!("CARGO_PKG_VERSION") });
    match path {
        "/openapi/v2" => Some(json!({ "swagger": "2.0", "info": info, "paths": {} })),
        "/openapi/v3" => Some(json!({ "paths": {} })),
        "/healthz" | "/livez" | "/readyz" => Some(json!("ok")),
        _ => None,
    }
}

/// Namespace and name of the metric in a path.
fn asked(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/apis/")?.strip_prefix(GROUP)?.strip_prefix('/')?.strip_prefix(VERSION)?;
    let (namespace, metric) = rest.strip_prefix("/namespaces/")?.split_once('/')?;
    (!namespace.is_empty() && !metric.contains('/')).then_some((namespace, metric))
}

async fn value(
    state: &State,
    front: &Front,
    (namespace, metric, query): (&str, &str, Option<&str>),
    headers: &HeaderMap,
) -> Result<Value, Refusal> {
    let caller = front
        .caller(headers)
        .ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", "the request names no user"))?;
    let metric = Metric::of(metric).ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, "NotFound", format!("there is no metric {metric}"))
    })?;
    let query = Query::read(namespace, metric, query)
        .map_err(|problem| Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", problem))?;
    let watched = &state.context.settings.watch_namespaces;
    if !watched.is_empty() && !watched.contains(&query.namespace) {
        let text = format!("the operator does not look after namespace {namespace}");
        return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFound", text));
    }
    let allowed = front::is_allowed(&state.context.client, &caller, &query)
        .await
        .map_err(|error| unavailable(error.to_string()))?;
    if !allowed {
        let text = format!("{} may not list {} in namespace {namespace}", caller.user, metric.name());
        return Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", text));
    }
    let look = state.look(&query).ok_or_else(|| {
        let text = format!("{} other values are asked for in namespace {namespace} already", SLOTS_MAX.1);
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", text)
    })?;
    let Answer { quantity, at } = Box::pin(read(state, &query, &mut *look.lock().await)).await?;
    let item = json!({ "metricName": metric.name(), "metricLabels": query.labels, "timestamp": at.to_string(),
                       "value": quantity });
    Ok(json!({ "kind": "ExternalMetricValueList", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {},
               "items": [item] }))
}

/// Reads a value, unless it was read a moment ago.
async fn read(state: &State, query: &Query, look: &mut Look) -> Result<Answer, Refusal> {
    if let Some((at, last)) = &look.last
        && at.elapsed() < LOOK_INTERVAL_MIN
    {
        return last.clone();
    }
    let (context, namespace, source) = (&state.context, &query.namespace, &query.source);
    let reading = Box::pin(read::read(context, namespace, source, &mut look.link, ASK_INTERVAL)).await;
    let answer = reading.map_err(|problem| refused(&problem)).and_then(|reading| {
        let at = reading.at;
        let quantity = quantity(query, &mut look.track, reading)
            .ok_or_else(|| unavailable("a rate takes two looks: ask again in a moment"))?;
        Ok(Answer { quantity, at })
    });
    look.last = Some((Instant::now(), answer.clone()));
    answer
}

fn unavailable(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
}

/// The value as Kubernetes writes quantities; `None` when it takes another look.
fn quantity(query: &Query, track: &mut Track, reading: Reading) -> Option<String> {
    match (query.metric, &reading.sample) {
        (Metric::ConsumerPending, Sample::Consumer { pending, .. }) => Some(pending.to_string()),
        (Metric::ConsumerAckPending, Sample::Consumer { ack_pending, .. }) => Some(ack_pending.to_string()),
        (Metric::StreamMessages, Sample::Stream { messages }) => Some(messages.to_string()),
        (Metric::QueueGroupPendingBytes | Metric::ServiceUtilisation, _) => {
            let value = need::need(&query.source, track, &reading, 1)?.value;
            // A percentage is so many hundredths.
            Some(if query.metric == Metric::ServiceUtilisation {
                format!("{}m", value.saturating_mul(10))
            } else {
                value.to_string()
            })
        }
        _ => None,
    }
}

fn refused(problem: &Problem) -> Refusal {
    let (code, reason) = match problem.reason() {
        "SourceMissing" | "ClusterMissing" | "AccountMissing" => (StatusCode::NOT_FOUND, "NotFound"),
        "GrantMissing" | "PermissionDenied" => (StatusCode::FORBIDDEN, "Forbidden"),
        "InvalidSpec" => (StatusCode::BAD_REQUEST, "BadRequest"),
        _ => return unavailable(problem.to_string()),
    };
    Refusal::new(code, reason, problem.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn paths_lead_to_documents_and_values() {
        let group = document("/apis/external.metrics.k8s.io").unwrap();
        assert_eq!(group["preferredVersion"]["version"], "v1beta1");
        let list = document("/apis/external.metrics.k8s.io/v1beta1/").unwrap();
        assert_eq!(list["resources"].as_array().unwrap().len(), Metric::ALL.len());
        for other in ["/", "/apis/apps", "/apis/external.metrics.k8s.io.evil", "/metrics"] {
            assert!(document(other).is_none(), "{other}");
        }
        let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/nats_stream_messages";
        assert_eq!(asked(path), Some(("team", "nats_stream_messages")));
        for other in [
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/team",
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/a/b",
            "/apis/external.metrics.k8s.io/v2/namespaces/team/a",
        ] {
            assert_eq!(asked(other), None, "{other}");
        }
    }

    #[test]
    fn a_share_of_time_is_written_in_thousandths_and_takes_two_looks() {
        let labels = "labelSelector=service=s,account=a";
        let query = Query::read("team", Metric::ServiceUtilisation, Some(labels)).unwrap();
        let reading = |second: i64, busy: i64| Reading {
            at: Timestamp::from_second(second).unwrap(),
            sample: Sample::Service {
                instances: BTreeMap::from([("i".to_owned(), (0, busy * 1_000_000_000))]),
            },
        };
        let mut track = Track::default();
        assert_eq!(quantity(&query, &mut track, reading(0, 0)), None);
        assert_eq!(quantity(&query, &mut track, reading(10, 7)).as_deref(), Some("700m"));
    }
}
