//! One event per transition of a condition, never per pass.

use crd::NatsCluster;
use crd::conditions::{Finding, Status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::runtime::events::{Event, EventType};

use crate::context::Context;

/// What to tell people when a condition changed from `old` to `finding`; `None` when nobody needs to know.
#[must_use]
pub fn of_transition(old: Option<&Condition>, finding: &Finding) -> Option<Event> {
    let was = old.map_or("", |condition| condition.reason.as_str());
    let holds = finding.status == Status::True;
    let (type_, reason) = match finding.type_ {
        "Ready" if holds => (EventType::Normal, "Ready"),
        "Stalled" if holds => (EventType::Warning, finding.reason),
        "CertificatesValid" if !holds => (EventType::Warning, finding.reason),
        "JetStreamHealthy" => match finding.status {
            Status::False => (EventType::Warning, finding.reason),
            Status::True if old.is_some_and(|old| old.status == "False") => {
                (EventType::Normal, "JetStreamHealthy")
            }
            _ => return None,
        },
        "StorageExpanded" => match (was, finding.reason) {
            (_, "NotSupported" | "ShrinkRefused") => (EventType::Warning, finding.reason),
            ("Resizing" | "FileSystemPending", "UpToDate") => (EventType::Normal, "VolumeExpanded"),
            _ => return None,
        },
        "ConfigApplied" => match finding.reason {
            "Applied" if !was.is_empty() => (EventType::Normal, "ConfigReloaded"),
            "ReloadRejected" => (EventType::Warning, "ReloadRejected"),
            _ => return None,
        },
        "Progressing" => match (was, finding.reason) {
            ("", "Creating") => (EventType::Normal, "Created"),
            (_, "RollingUpdate") => (EventType::Normal, "RolloutStarted"),
            ("RollingUpdate" | "RolloutStalled", "Idle") => (EventType::Normal, "RolloutFinished"),
            ("ScalingUp", "Idle") => (EventType::Normal, "ScaledUp"),
            ("ScalingDown", "Idle") => (EventType::Normal, "ScaledDown"),
            (_, "AwaitingApproval") => (EventType::Normal, "AwaitingApproval"),
            _ => return None,
        },
        _ => return None,
    };
    Some(event(type_, reason, finding.type_, finding.message.clone()))
}

/// An event about a step that the operator takes.
#[must_use]
pub fn event(type_: EventType, reason: &str, action: &str, note: String) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        // The API server takes no more than 1024 bytes.
        note: Some(note.chars().take(250).collect()),
        action: action.to_owned(),
        secondary: None,
    }
}

/// Publishes an event. An event that is lost changes nothing, so it is only logged.
pub async fn publish(context: &Context, cluster: &NatsCluster, event: &Event) {
    if let Err(error) = context.recorder.publish(event, &cluster.object_ref(&())).await {
        tracing::warn!(%error, reason = event.reason, "an event could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(
        old: Option<&str>,
        type_: &'static str,
        status: Status,
        reason: &'static str,
    ) -> Option<String> {
        let old = old.map(|reason| Condition {
            reason: reason.to_owned(),
            type_: type_.to_owned(),
            status: "True".to_owned(),
            message: String::new(),
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
            ),
            observed_generation: None,
        });
        of_transition(old.as_ref(), &Finding { type_, status, reason, message: String::new() })
            .map(|e| e.reason)
    }

    #[test]
    fn transitions_have_names() {
        let idle = |old| reason(Some(old), "Progressing", Status::False, "Idle");
        assert_eq!(idle("RollingUpdate").as_deref(), Some("RolloutFinished"));
        assert_eq!(idle("ScalingDown").as_deref(), Some("ScaledDown"));
        assert_eq!(idle("Creating"), None);
        assert_eq!(reason(None, "Progressing", Status::True, "Creating").as_deref(), Some("Created"));
        assert_eq!(reason(None, "Stalled", Status::True, "InvalidSpec").as_deref(), Some("InvalidSpec"));
        assert_eq!(reason(Some("InvalidSpec"), "Stalled", Status::False, "Progressing"), None);
        assert_eq!(reason(None, "ConfigApplied", Status::True, "Applied"), None);
        assert_eq!(
            reason(Some("ReloadPending"), "ConfigApplied", Status::True, "Applied").as_deref(),
            Some("ConfigReloaded")
        );
    }
}
