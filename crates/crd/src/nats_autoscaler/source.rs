//! What work is judged by.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Duration;
use crate::jetstream::options::{AccountRef, ClusterRef};

/// The measure that says how many more or fewer are needed, and not how many.
pub(super) const SLOW_CONSUMERS: &str = "queueGroup.slowConsumers";

/// One thing that work is judged by, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.consumer), has(self.workqueue), has(self.queueGroup), has(self.service)].filter(x, x).size() == 1")
        .message("a source is exactly one of consumer, workqueue, queueGroup and service"),
    validation = Rule::new("[has(self.clusterRef), has(self.accountRef), has(self.account)].filter(x, x).size() == 1")
        .message("a source is reached by exactly one of clusterRef, accountRef and account"),
    validation = Rule::new("!has(self.queueGroup) || has(self.clusterRef)")
        .message("a queueGroup is seen from the system account, so it needs a clusterRef")
)]
pub struct Source {
    /// A NatsCluster, and which of its accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterRef>,
    /// An Account object, perhaps of another namespace that allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,
    /// Name of an Account object of this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub account: Option<String>,
    /// A consumer of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<ConsumerSource>,
    /// The messages of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workqueue: Option<WorkqueueSource>,
    /// Plain subscribers of a queue group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_group: Option<QueueGroupSource>,
    /// A service that tells its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSource>,
}

impl Source {
    /// What it is judged by: needs of sources with the same measure may be added up.
    #[must_use]
    pub const fn measure(&self) -> Option<&'static str> {
        if let Some(consumer) = &self.consumer {
            return Some(match (&consumer.backlog_per_replica, &consumer.drain_time) {
                (Some(_), _) => "consumer.backlogPerReplica",
                (None, Some(_)) => "consumer.drainTime",
                (None, None) => "consumer.pullUtilizationPercent",
            });
        }
        if self.workqueue.is_some() {
            return Some("workqueue");
        }
        if let Some(group) = &self.queue_group {
            return Some(match (&group.pending_bytes_per_member, &group.slow_consumers) {
                (Some(_), _) => "queueGroup.pendingBytesPerMember",
                (None, Some(_)) => SLOW_CONSUMERS,
                (None, None) => "queueGroup.messageRatePerMember",
            });
        }
        match &self.service {
            Some(service) if service.requests_per_second.is_some() => Some("service.requestsPerSecond"),
            Some(_) => Some("service.utilizationPercent"),
            None => None,
        }
    }

    /// What is read and where, without what is made of it: what was learnt from one source counts for another with the same place.
    #[must_use]
    pub fn place(&self) -> Self {
        Self {
            consumer: self.consumer.as_ref().map(|source| ConsumerSource {
                stream: source.stream.clone(),
                consumer: source.consumer.clone(),
                ..ConsumerSource::default()
            }),
            workqueue: self.workqueue.as_ref().map(|source| WorkqueueSource {
                stream: source.stream.clone(),
                filter: source.filter.clone(),
                ..WorkqueueSource::default()
            }),
            // Who was cut off is only read when that is asked for, and as far back as the window goes.
            queue_group: self.queue_group.as_ref().map(|source| QueueGroupSource {
                pending_bytes_per_member: None,
                message_rate_per_member: None,
                ..source.clone()
            }),
            service: self.service.as_ref().map(|source| ServiceSource {
                name: source.name.clone(),
                endpoint: source.endpoint.clone(),
                ..ServiceSource::default()
            }),
            ..self.clone()
        }
    }

    /// What it is, in a few words for people.
    #[must_use]
    pub fn describe(&self) -> String {
        if let Some(consumer) = &self.consumer {
            return format!("consumer {} > {}", consumer.stream, consumer.consumer);
        }
        if let Some(workqueue) = &self.workqueue {
            return match &workqueue.filter {
                Some(filter) => format!("stream {} ({filter})", workqueue.stream),
                None => format!("stream {}", workqueue.stream),
            };
        }
        if let Some(group) = &self.queue_group {
            return format!("queue group {} of {}", group.queue, group.subject);
        }
        self.service.as_ref().map_or_else(String::new, |service| format!("service {}", service.name))
    }
}

/// A consumer of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.backlogPerReplica), has(self.drainTime), has(self.pullUtilizationPercent)].filter(x, x).size() == 1")
    .message("choose exactly one of backlogPerReplica, drainTime and pullUtilizationPercent"))]
pub struct ConsumerSource {
    /// Name of the stream.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^.*>/\\\s]+$"))]
    pub stream: String,
    /// Name of the consumer.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^.*>/\\\s]+$"))]
    pub consumer: String,
    /// So many messages for each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_per_replica: Option<Backlog>,
    /// So many replicas that the backlog is gone within a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_time: Option<DrainTime>,
    /// Percent of the replicas that may work at a time. One that waits for work is known by its open pull, so each has one and no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub pull_utilization_percent: Option<i32>,
    /// Messages up to which nobody has to work.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub activation_threshold: i64,
}

/// So many messages for each replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// Messages for each replica.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub target: i64,
    /// Which messages of a consumer count.
    #[serde(default)]
    pub count: Count,
}

/// Which messages of a consumer count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Count {
    /// Those that were not delivered, and those that were and are not acknowledged.
    #[default]
    PendingAndAckPending,
    /// Those that were not delivered.
    Pending,
}

/// So many replicas that the backlog is gone within a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainTime {
    /// The time.
    #[serde(default = "default_drain_time")]
    pub target: Duration,
    /// Messages that a replica does in a second. Learnt while there is work when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub per_replica_rate: Option<i64>,
}

impl Default for DrainTime {
    fn default() -> Self {
        Self { target: default_drain_time(), per_replica_rate: None }
    }
}

fn default_drain_time() -> Duration {
    Duration::seconds(30)
}

/// The messages of a stream, such as one that removes them when they are done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkqueueSource {
    /// Name of the stream.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^.*>/\\\s]+$"))]
    pub stream: String,
    /// Only messages with such a subject; wildcards are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub filter: Option<String>,
    /// Messages for each replica.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub target: i64,
    /// Messages up to which nobody has to work.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub activation_threshold: i64,
}

/// Plain subscribers of a queue group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.pendingBytesPerMember), has(self.messageRatePerMember), has(self.slowConsumers)].filter(x, x).size() == 1")
    .message("choose exactly one of pendingBytesPerMember, messageRatePerMember and slowConsumers"))]
pub struct QueueGroupSource {
    /// Subject that the members subscribe to, as they write it.
    #[schemars(length(min = 1, max = 512))]
    pub subject: String,
    /// Name of the group.
    #[schemars(length(min = 1, max = 255))]
    pub queue: String,
    /// So many bytes on their way to each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000i64))]
    pub pending_bytes_per_member: Option<i64>,
    /// So many messages in a second to each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub message_rate_per_member: Option<i64>,
    /// As many members that servers do not cut them off for taking too slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_consumers: Option<SlowConsumers>,
}

/// When members that were cut off count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.window.matches('[dw]') ? false : duration(self.window) >= duration('10s') && duration(self.window) <= duration('1h')")
    .message("window must be between 10s and 1h"))]
pub struct SlowConsumers {
    /// Time in which nobody may have been cut off before one member fewer is tried.
    #[serde(default = "default_slow_window")]
    pub window: Duration,
}

impl Default for SlowConsumers {
    fn default() -> Self {
        Self { window: default_slow_window() }
    }
}

fn default_slow_window() -> Duration {
    Duration::seconds(300)
}

/// A service that tells its figures by `$SRV.STATS`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.requestsPerSecond) != has(self.utilizationPercent)")
    .message("choose exactly one of requestsPerSecond and utilizationPercent"))]
pub struct ServiceSource {
    /// Name of the service.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub name: String,
    /// Only this endpoint of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub endpoint: Option<String>,
    /// Requests in a second for each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub requests_per_second: Option<i64>,
    /// Percent of its time that a replica may spend on requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub utilization_percent: Option<i32>,
}
