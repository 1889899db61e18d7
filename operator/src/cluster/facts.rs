//! What was observed about a cluster's servers, in the words that decisions need.

use crd::annotation;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::jiff::Timestamp;

use crate::nats::system::Report;
use crate::objects::stateful_set::CONTAINER;

/// Waiting reasons of a container that do not pass by waiting.
const FAILURES: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// One server: its pod, and what the process said about itself.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Name of the pod.
    pub pod: String,
    /// Number of the pod.
    pub ordinal: i32,
    /// Uid of the pod.
    pub uid: String,
    /// Revision of the template that the pod was made from.
    pub revision: String,
    /// Restart hash of the template that the pod was made from.
    pub restart_hash: String,
    /// Configuration hash last written on the pod.
    pub annotated_hash: Option<String>,
    /// Address of the pod.
    pub ip: Option<String>,
    /// Node that runs it.
    pub node: Option<String>,
    /// Image that it should run.
    pub image: String,
    /// When the pod started.
    pub started: Option<Timestamp>,
    /// When the pod was made.
    pub created: Option<Timestamp>,
    /// Since when Kubernetes holds it ready; `None` when it does not.
    pub ready_since: Option<Timestamp>,
    /// Whether it was told to stop.
    pub stopping: bool,
    /// Whether no StatefulSet owns the pod: the old one is gone and the new one has not found it yet.
    pub orphan: bool,
    /// Why it cannot start, when waiting does not help.
    pub failure: Option<String>,
    /// What the process answered; `None` when it did not.
    pub report: Option<Report>,
}

impl Server {
    /// Whether Kubernetes holds it ready and it is to stay.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready_since.is_some() && !self.stopping
    }

    /// The configuration that the process proved to run.
    #[must_use]
    pub fn config_hash(&self) -> Option<&str> {
        self.report.as_ref()?.config_hash.as_deref()
    }

    /// Facts of a pod of the StatefulSet `owner`; `None` for a pod with another kind of name.
    #[must_use]
    pub fn of(pod: &Pod, owner: &str) -> Option<Self> {
        let name = pod.metadata.name.clone()?;
        let ordinal = name.strip_prefix(owner)?.strip_prefix('-')?.parse().ok()?;
        let label = |key: &str| pod.metadata.labels.as_ref().and_then(|l| l.get(key)).cloned();
        let annotation = |key: &str| pod.metadata.annotations.as_ref().and_then(|a| a.get(key)).cloned();
        let status = pod.status.as_ref();
        let container = status
            .and_then(|status| status.container_statuses.as_ref())
            .and_then(|statuses| statuses.iter().find(|status| status.name == CONTAINER));
        let spec = pod.spec.as_ref();
        let image = spec
            .and_then(|spec| spec.containers.iter().find(|container| container.name == CONTAINER))
            .and_then(|container| container.image.clone());
        Some(Self {
            ordinal,
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            revision: label("controller-revision-hash").unwrap_or_default(),
            restart_hash: annotation(annotation::RESTART_HASH).unwrap_or_default(),
            annotated_hash: annotation(annotation::CONFIG_HASH),
            ip: status.and_then(|status| status.pod_ip.clone()),
            node: spec.and_then(|spec| spec.node_name.clone()),
            image: image.unwrap_or_default(),
            started: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            ready_since: ready_since(pod),
            orphan: !pod
                .metadata
                .owner_references
                .iter()
                .flatten()
                .any(|owner| owner.controller == Some(true)),
            stopping: pod.metadata.deletion_timestamp.is_some(),
            failure: container.and_then(failure),
            report: None,
            pod: name,
        })
    }
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "True")?;
    // A pod that is ready without saying since when has been so for as long as anybody can tell.
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

fn failure(status: &ContainerStatus) -> Option<String> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if !FAILURES.contains(&reason) {
        return None;
    }
    Some(waiting.message.as_ref().map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_pod_tells_ordinal_revision_and_failure() {
        let pod = pod(json!({
            "metadata": {"name": "demo-2", "uid": "u", "labels": {"controller-revision-hash": "r1"},
                         "annotations": {"myelin.dev/restart-hash": "h"}},
            "spec": {"containers": [{"name": "nats", "image": "i:1"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False"}],
                       "containerStatuses": [{"name": "nats", "image": "i:1", "imageID": "", "ready": false, "restartCount": 0,
                           "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]},
        }));
        let server = Server::of(&pod, "demo").unwrap();
        assert_eq!((server.ordinal, server.revision.as_str(), server.restart_hash.as_str()), (2, "r1", "h"));
        assert_eq!(server.failure.as_deref(), Some("ImagePullBackOff: no such image"));
        assert!(!server.is_ready());
        assert!(Server::of(&pod, "other").is_none());
    }

    #[test]
    fn a_starting_container_is_no_failure() {
        let pod = pod(json!({
            "metadata": {"name": "demo-0"},
            "status": {"containerStatuses": [{"name": "nats", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                           "state": {"waiting": {"reason": "ContainerCreating"}}}]},
        }));
        assert_eq!(Server::of(&pod, "demo").unwrap().failure, None);
    }
}
