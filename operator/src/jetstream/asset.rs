//! What the four kinds that live on a server have in common for the reconciler.

use api::jetstream::cluster::ClusterInfo;
use api::jetstream::consumer::ConsumerInfo;
use api::jetstream::stream::StreamInfo;
use crd::jetstream::options::AssetOptions;
use crd::jetstream::status::{
    BucketState, ConsumerState, ConsumerStatus, LIST_MAX, Peer, Replication, Report, SourceState,
    StreamState, StreamStatus,
};
use crd::jetstream::{Consumer, KeyValue, ObjectStore, Stream, finalizer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::desired::{self, Desired, SpecProblem, is_token};
use crate::apply::Object;

/// What was found on the server.
#[derive(Clone, Debug)]
pub enum Found {
    /// A stream.
    Stream(Box<StreamInfo>),
    /// A consumer.
    Consumer(Box<ConsumerInfo>),
}

impl Found {
    /// A server whose JetStream is not clustered, which has no name of a cluster then, names itself as the leader of a stream when it is asked
    /// for that one, and nobody in lists, in answers to changes, and of a consumer: so it is the one that answers, if that is known, in any case.
    pub fn settle_leader(&mut self, answering: Option<&str>) {
        let cluster = match self {
            Self::Stream(info) => &mut info.cluster,
            Self::Consumer(info) => &mut info.cluster,
        };
        if cluster.as_ref().is_none_or(|cluster| cluster.name.is_empty()) {
            *cluster =
                answering.map(|name| ClusterInfo { leader: name.to_owned(), ..ClusterInfo::default() });
        }
    }
}

/// Names on the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The stream that is managed, or whose consumer is.
    pub stream: String,
    /// The consumer.
    pub consumer: Option<String>,
}

impl Target {
    /// A stream, or a consumer of it.
    #[must_use]
    pub fn new(stream: &str, consumer: Option<&str>) -> Self {
        Self { stream: stream.to_owned(), consumer: consumer.map(str::to_owned) }
    }

    /// Both names, if they may stand in subjects.
    fn checked(stream: String, consumer: Option<String>) -> Option<Self> {
        let valid = is_token(&stream) && consumer.as_deref().is_none_or(is_token);
        valid.then_some(Self { stream, consumer })
    }
}

/// A status of one of the kinds.
pub trait Status: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync {
    /// What every status has.
    fn report(&self) -> &Report;
    /// What every status has, to change.
    fn report_mut(&mut self) -> &mut Report;
    /// Whether it was there when this was written.
    fn existed(&self) -> bool;
    /// Takes over what was found.
    fn observe(&mut self, target: &Target, found: Option<&Found>);
    /// How many consumers there are, which a server tells of.
    fn consumers(&self) -> Option<i64> {
        None
    }
    /// Where a consumer goes on when it is made anew.
    fn resume_at(&self) -> Option<u64> {
        None
    }
    /// Notes where a consumer goes on.
    fn set_resume_at(&mut self, _: Option<u64>) {}
}

/// An object of one of the kinds.
pub trait Asset: Object + 'static {
    /// Name of the kind.
    const KIND: &'static str;
    /// Its finalizer.
    const FINALIZER: &'static str;
    /// Its status.
    type Status: Status;

    /// How to connect and what may be done.
    fn options(&self) -> &AssetOptions;
    /// What it asks for.
    ///
    /// # Errors
    /// When no server would take it.
    fn desired(&self) -> Result<Desired, SpecProblem>;
    /// Names on the server; `None` when they are no names.
    fn target(&self) -> Option<Target>;
    /// Its status.
    fn status(&self) -> Option<&Self::Status>;
}

macro_rules! asset {
    ($kind:ident, $name:literal, $finalizer:expr, $status:ty, $desired:expr, $target:expr) => {
        impl Asset for $kind {
            const KIND: &'static str = $name;
            const FINALIZER: &'static str = $finalizer;
            type Status = $status;

            fn options(&self) -> &AssetOptions {
                &self.spec.options
            }

            fn desired(&self) -> Result<Desired, SpecProblem> {
                $desired(&self.spec)
            }

            fn target(&self) -> Option<Target> {
                $target(&self.spec)
            }

            fn status(&self) -> Option<&Self::Status> {
                self.status.as_ref()
            }
        }
    };
}

asset!(
    Stream,
    "Stream",
    finalizer::STREAM,
    StreamStatus,
    |spec| desired::stream(spec).map(|config| Desired::Stream(Box::new(config))),
    |spec: &crd::jetstream::StreamSpec| Target::checked(spec.name.clone(), None)
);
asset!(
    KeyValue,
    "KeyValue",
    finalizer::KEY_VALUE,
    StreamStatus,
    |spec| desired::key_value(spec).map(|config| Desired::Stream(Box::new(config))),
    |spec: &crd::jetstream::KeyValueSpec| Target::checked(format!("KV_{}", spec.bucket), None)
);
asset!(
    ObjectStore,
    "ObjectStore",
    finalizer::OBJECT_STORE,
    StreamStatus,
    |spec| desired::object_store(spec).map(|config| Desired::Stream(Box::new(config))),
    |spec: &crd::jetstream::ObjectStoreSpec| Target::checked(format!("OBJ_{}", spec.bucket), None)
);
asset!(
    Consumer,
    "Consumer",
    finalizer::CONSUMER,
    ConsumerStatus,
    |spec| desired::consumer(spec).map(|consumer| Desired::Consumer(Box::new(consumer))),
    |spec: &crd::jetstream::ConsumerSpec| Target::checked(
        spec.stream_name.clone(),
        Some(spec.consumer_name().to_owned())
    )
);

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A time in whole seconds, as statuses keep it: one with more would differ from itself once it was written, at every look.
fn instant(time: api::Time) -> Option<Time> {
    const SECOND: i128 = 1_000_000_000;
    let seconds = i64::try_from(time.unix_nanos().div_euclid(SECOND)).ok()?;
    Timestamp::from_second(seconds).ok().map(Time)
}

/// A time that is none, such as that of the first message of an empty stream, is left out.
fn time_text(time: api::Time) -> String {
    if time.is_zero() { String::new() } else { time.to_string() }
}

/// Texts of a server, without what does not belong into a status.
fn text(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(256).collect()
}

fn replication(cluster: &ClusterInfo) -> Replication {
    Replication {
        leader: text(&cluster.leader),
        peers: cluster
            .replicas
            .iter()
            .take(LIST_MAX)
            .map(|peer| Peer {
                name: text(&peer.name),
                current: peer.current,
                offline: peer.offline,
                lag: count(peer.lag),
            })
            .collect(),
    }
}

/// A source that said something lately is active.
fn source(info: &api::jetstream::stream::StreamSourceInfo) -> SourceState {
    const LATELY: i64 = 60_000_000_000;
    SourceState {
        name: text(&info.name),
        lag: count(info.lag),
        active: (0..LATELY).contains(&info.active.0),
        error: info.error.as_ref().map(|error| text(&error.description)).unwrap_or_default(),
    }
}

impl Status for StreamStatus {
    fn report(&self) -> &Report {
        &self.report
    }

    fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }

    fn existed(&self) -> bool {
        self.created.is_some()
    }

    fn consumers(&self) -> Option<i64> {
        self.state.as_ref().map(|state| state.consumers)
    }

    fn observe(&mut self, target: &Target, found: Option<&Found>) {
        self.stream_name.clone_from(&target.stream);
        let Some(Found::Stream(info)) = found else {
            *self = Self {
                report: self.report.clone(),
                stream_name: self.stream_name.clone(),
                created: self.created.clone(),
                ..Self::default()
            };
            return;
        };
        let (config, state) = (&info.config, &info.state);
        self.created = instant(info.created);
        self.state = Some(StreamState {
            messages: count(state.messages),
            bytes: count(state.bytes),
            first_seq: count(state.first_seq),
            last_seq: count(state.last_seq),
            first_time: time_text(state.first_ts),
            last_time: time_text(state.last_ts),
            subjects: state.num_subjects,
            consumers: state.consumer_count,
            deleted: state.num_deleted,
            lost: state.lost.as_ref().map_or(0, |lost| count(lost.msgs.len() as u64)),
        });
        self.cluster = info.cluster.as_ref().map(replication);
        self.mirror = info.mirror.as_ref().map(source);
        self.sources = info.sources.iter().take(LIST_MAX).map(source).collect();
        let is_bucket = target.stream.starts_with("KV_") || target.stream.starts_with("OBJ_");
        self.bucket = is_bucket.then(|| BucketState {
            values: count(state.messages),
            bytes: count(state.bytes),
            history: config.max_msgs_per_subject.max(0),
            ttl: if config.max_age.is_zero() { String::new() } else { config.max_age.to_string() },
        });
    }
}

impl Status for ConsumerStatus {
    fn report(&self) -> &Report {
        &self.report
    }

    fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }

    fn existed(&self) -> bool {
        self.created.is_some()
    }

    fn observe(&mut self, target: &Target, found: Option<&Found>) {
        self.stream_name.clone_from(&target.stream);
        self.consumer_name = target.consumer.clone().unwrap_or_default();
        let Some(Found::Consumer(info)) = found else {
            self.state = None;
            self.cluster = None;
            return;
        };
        self.created = instant(info.created);
        self.state = Some(ConsumerState {
            pending: count(info.num_pending),
            ack_pending: info.num_ack_pending,
            redelivered: info.num_redelivered,
            waiting: info.num_waiting,
            delivered: count(info.delivered.stream_seq),
            ack_floor: count(info.ack_floor.stream_seq),
            paused: info.paused,
            push_bound: info.push_bound,
            pinned_client: info
                .priority_groups
                .first()
                .map(|group| text(&group.pinned_client_id))
                .unwrap_or_default(),
        });
        self.cluster = info.cluster.as_ref().map(replication);
    }

    fn resume_at(&self) -> Option<u64> {
        self.resume_at.and_then(|sequence| u64::try_from(sequence).ok())
    }

    fn set_resume_at(&mut self, sequence: Option<u64>) {
        self.resume_at = sequence.map(count);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether a status that was written and read again is what the same look shows once more.
    fn rests<S: Status + std::fmt::Debug>(target: &Target, found: &Found) {
        let mut first = S::default();
        first.observe(target, Some(found));
        assert!(first.existed());
        let mut again: S = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        again.observe(target, Some(found));
        let written: S = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        assert_eq!(again, written);
    }

    #[test]
    fn what_does_not_change_on_the_server_does_not_change_in_a_status() {
        let created = "2024-01-02T03:04:05.123456789Z";
        let cluster = json!({ "name": "n", "leader": "a", "replicas": [{ "name": "b", "current": true, "active": 12_345 }] });
        let info = json!({
            "config": { "name": "KV_s", "max_age": 1_500_000_000_u64, "retention": "limits", "storage": "file" },
            "created": created, "ts": "2024-01-02T03:04:06.987654321Z", "cluster": cluster,
            "state": {
                "messages": 2, "bytes": 99, "first_seq": 1, "first_ts": created, "last_seq": 2, "last_ts": created,
                "consumer_count": 1,
            },
            "mirror": { "name": "m", "lag": 0, "active": 123_456_789 },
        });
        let target = Target { stream: "KV_s".to_owned(), consumer: None };
        rests::<StreamStatus>(&target, &Found::Stream(Box::new(serde_json::from_value(info).unwrap())));
        let info = json!({
            "stream_name": "KV_s", "name": "c", "created": created, "ts": created, "cluster": cluster,
            "config": { "durable_name": "c", "ack_policy": "explicit", "deliver_policy": "all", "replay_policy": "instant" },
            "delivered": { "consumer_seq": 1, "stream_seq": 1, "last_active": created },
            "ack_floor": { "consumer_seq": 1, "stream_seq": 1, "last_active": created },
            "num_ack_pending": 0, "num_redelivered": 0, "num_waiting": 1, "num_pending": 1,
        });
        let target = Target { consumer: Some("c".to_owned()), ..target };
        rests::<ConsumerStatus>(&target, &Found::Consumer(Box::new(serde_json::from_value(info).unwrap())));
    }

    #[test]
    fn a_server_that_is_not_clustered_leads_whatever_it_says() {
        let shown = |cluster: serde_json::Value, answering| {
            let cluster: Option<ClusterInfo> = serde_json::from_value(cluster).unwrap();
            let stream = StreamInfo { cluster: cluster.clone(), ..StreamInfo::default() };
            let consumer = ConsumerInfo { cluster, ..ConsumerInfo::default() };
            let all = [Found::Stream(Box::new(stream)), Found::Consumer(Box::new(consumer))];
            all.map(|mut found| {
                found.settle_leader(answering);
                let (mut stream, mut consumer) = (StreamStatus::default(), ConsumerStatus::default());
                let target = Target::new("S", None);
                stream.observe(&target, Some(&found));
                consumer.observe(&target, Some(&found));
                stream.cluster.or(consumer.cluster).map(|cluster| cluster.leader)
            })
        };
        let both = |leader: &str| [Some(leader.to_owned()), Some(leader.to_owned())];
        for said in [json!({ "leader": "a" }), json!(null)] {
            assert_eq!(shown(said.clone(), Some("a")), both("a"));
            assert_eq!(shown(said, None), [None, None]);
        }
        assert_eq!(shown(json!({ "name": "n", "leader": "b" }), Some("a")), both("b"));
        assert_eq!(shown(json!({ "name": "n" }), Some("a")), both(""));
    }

    #[test]
    fn times_of_before_1970_are_cut_to_the_second_in_which_they_are() {
        let at = |nanos| instant(api::Time::from_unix_nanos(nanos)).unwrap().0.as_second();
        assert_eq!((at(-1), at(0), at(1_999_999_999)), (-1, 0, 1));
    }
}
