//! What a request for a value asks for. Pure.

use std::collections::BTreeMap;

use crd::jetstream::options::{AccountRef, ClusterRef};
use crd::nats_autoscaler::source::{
    Backlog, ConsumerSource, QueueGroupSource, ServiceSource, Source, WorkqueueSource,
};

/// API group that is served.
pub const GROUP: &str = "external.metrics.k8s.io";
/// Its version.
pub const VERSION: &str = "v1beta1";
/// Longest value of a label, as in Kubernetes.
const LABEL_LENGTH_MAX: usize = 63;
/// Longest selector.
const SELECTOR_LENGTH_MAX: usize = 1024;

/// A value that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Messages that a consumer has not delivered.
    ConsumerPending,
    /// Messages that a consumer has delivered and that are not acknowledged.
    ConsumerAckPending,
    /// Messages of a stream.
    StreamMessages,
    /// Bytes on their way to all members of a queue group.
    QueueGroupPendingBytes,
    /// The part of its time that an instance of a service spends on requests, on average.
    ServiceUtilisation,
}

impl Metric {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 5] = [
        Self::ConsumerAckPending,
        Self::ConsumerPending,
        Self::QueueGroupPendingBytes,
        Self::ServiceUtilisation,
        Self::StreamMessages,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConsumerPending => "nats_consumer_pending",
            Self::ConsumerAckPending => "nats_consumer_ack_pending",
            Self::StreamMessages => "nats_stream_messages",
            Self::QueueGroupPendingBytes => "nats_queue_group_pending_bytes",
            Self::ServiceUtilisation => "nats_service_utilisation",
        }
    }

    /// The one of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Labels that a request has to give.
    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::ConsumerPending | Self::ConsumerAckPending => &["stream", "consumer"],
            Self::StreamMessages => &["stream"],
            Self::QueueGroupPendingBytes => &["cluster", "subject", "queue"],
            Self::ServiceUtilisation => &["service"],
        }
    }
}

/// A request for a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Namespace that asks.
    pub namespace: String,
    /// What it asks for.
    pub metric: Metric,
    /// Labels that it was told by.
    pub labels: BTreeMap<String, String>,
    /// Where the value is read.
    pub source: Source,
}

impl Query {
    /// Reads a request for a metric in a namespace; `query` is what follows the `?` of its address.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(namespace: &str, metric: Metric, query: Option<&str>) -> Result<Self, String> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if namespace.is_empty() || namespace.len() > LABEL_LENGTH_MAX || !namespace.bytes().all(is_name) {
            return Err("the address names no namespace".to_owned());
        }
        let labels = selector(query.unwrap_or_default())?;
        let missing: Vec<&str> =
            metric.required().iter().copied().filter(|label| !labels.contains_key(*label)).collect();
        if !missing.is_empty() {
            return Err(format!("{} needs labels for {}", metric.name(), missing.join(", ")));
        }
        let known = |label: &str| {
            metric.required().contains(&label) || matches!(label, "account" | "cluster" | "namespace")
        };
        if let Some(other) = labels.keys().find(|label| !known(label)) {
            return Err(format!("{} has no label {other}", metric.name()));
        }
        let source = source(metric, &labels)?;
        Ok(Self { namespace: namespace.to_owned(), metric, labels, source })
    }
}

fn source(metric: Metric, labels: &BTreeMap<String, String>) -> Result<Source, String> {
    let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
    let token = |name: &str| {
        let value = label(name);
        if value.contains('.') { Err(format!("{name}: `{value}` is not a name")) } else { Ok(value) }
    };
    let mut source = Source::default();
    match (labels.get("cluster"), labels.get("account")) {
        // Whether another namespace lets this one in is for the one that is named to say.
        (Some(cluster), _) => {
            let (namespace, account) = (label("namespace"), label("account"));
            source.cluster_ref = Some(ClusterRef { name: cluster.clone(), namespace, account });
        }
        (None, Some(account)) if labels.contains_key("namespace") => {
            source.account_ref = Some(AccountRef { name: account.clone(), namespace: label("namespace") });
        }
        (None, Some(account)) => source.account = Some(account.clone()),
        (None, None) => {
            return Err("give a label account, with the name of an Account, or cluster, with that of a \
                        NatsCluster"
                .to_owned());
        }
    }
    match metric {
        Metric::ConsumerPending | Metric::ConsumerAckPending => {
            source.consumer = Some(ConsumerSource {
                stream: token("stream")?,
                consumer: token("consumer")?,
                backlog_per_replica: Some(Backlog { target: 1, ..Backlog::default() }),
                ..ConsumerSource::default()
            });
        }
        Metric::StreamMessages => {
            let stream = token("stream")?;
            source.workqueue = Some(WorkqueueSource { stream, target: 1, ..WorkqueueSource::default() });
        }
        Metric::QueueGroupPendingBytes => {
            source.queue_group = Some(QueueGroupSource {
                subject: label("subject"),
                queue: label("queue"),
                pending_bytes_per_member: Some(1),
                ..QueueGroupSource::default()
            });
        }
        Metric::ServiceUtilisation => {
            source.service = Some(ServiceSource {
                name: token("service")?,
                utilization_percent: Some(100),
                ..ServiceSource::default()
            });
        }
    }
    Ok(source)
}

/// Labels of the selector in a query. Only equality: a value is of one thing.
fn selector(query: &str) -> Result<BTreeMap<String, String>, String> {
    let text = query.split('&').find_map(|part| part.strip_prefix("labelSelector=")).unwrap_or_default();
    if text.len() > SELECTOR_LENGTH_MAX {
        return Err(format!("labelSelector has more than {SELECTOR_LENGTH_MAX} bytes"));
    }
    let text = decoded(&text.replace('+', " ")).ok_or("labelSelector cannot be read")?;
    let mut labels = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let wrong = || format!("labelSelector: `{part}` is not a label, `=`, and one value");
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let value = value.strip_prefix('=').unwrap_or(value);
        if name.is_empty() || !is_label_value(name) || !is_label_value(value) {
            return Err(wrong());
        }
        if labels.insert(name.to_owned(), value.to_owned()).is_some_and(|before| before != value) {
            return Err(format!("labelSelector: two values for {name}"));
        }
    }
    Ok(labels)
}

/// Whether Kubernetes takes a text as the value of a label. So it is no path and no pattern either.
fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.len() <= LABEL_LENGTH_MAX
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

/// A text as it was before it was put into an address.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metric: Metric, query: &str) -> Result<Query, String> {
        Query::read("team", metric, Some(query))
    }

    #[test]
    fn a_request_says_what_is_read_and_where() {
        let query =
            read(Metric::ConsumerPending, "labelSelector=account%3Dmail%2Cconsumer%3Dw%2Cstream%3D%3DS")
                .unwrap();
        assert_eq!(query.source.account.as_deref(), Some("mail"));
        let consumer = query.source.consumer.unwrap();
        assert_eq!((consumer.stream.as_str(), consumer.consumer.as_str()), ("S", "w"));
        let query = read(
            Metric::QueueGroupPendingBytes,
            "timeout=5s&labelSelector=cluster=nats,account=APP,subject=a.b,queue=q",
        );
        let source = query.unwrap().source;
        let cluster = source.cluster_ref.unwrap();
        assert_eq!((cluster.name.as_str(), cluster.account.as_str()), ("nats", "APP"));
        assert_eq!(source.queue_group.unwrap().subject, "a.b");
        let elsewhere = "labelSelector=namespace=platform,account=mail,stream=S";
        let account = read(Metric::StreamMessages, elsewhere).unwrap().source.account_ref.unwrap();
        assert_eq!((account.namespace.as_str(), account.name.as_str()), ("platform", "mail"));
    }

    #[test]
    fn the_controller_may_read_what_there_is() {
        let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(crd::rbac::EXTERNAL_METRICS_READER[0].resources, names);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (query, part) in [
            ("", "needs labels for stream, consumer"),
            ("labelSelector=stream=S,consumer=w", "give a label account"),
            ("labelSelector=stream=S,consumer=w,account=a,colour=red", "has no label colour"),
            ("labelSelector=stream=S,consumer=w,account=a,stream=T", "two values for stream"),
            ("labelSelector=stream=A.B,consumer=w,account=a", "is not a name"),
            ("labelSelector=stream", "is not a label"),
            ("labelSelector=stream!=S", "is not a label"),
            ("labelSelector=stream=S,consumer=w,account=..", "is not a label"),
            ("labelSelector=stream=S,consumer=w,account=a%2Fb", "is not a label"),
            ("labelSelector=stream=%zz", "cannot be read"),
            ("labelSelector=stream=%e", "cannot be read"),
        ] {
            let refused = read(Metric::ConsumerPending, query).unwrap_err();
            assert!(refused.contains(part), "{query}: {refused}");
        }
        assert!(Query::read("..", Metric::StreamMessages, Some("labelSelector=stream=S,account=a")).is_err());
        let long = format!("labelSelector=stream={}", "x".repeat(2000));
        assert!(read(Metric::StreamMessages, &long).unwrap_err().contains("1024"));
    }
}
