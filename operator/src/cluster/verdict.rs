//! What a pass found out, as conditions. Pure.

use crd::conditions::{self, Finding, Status};
use crd::nats_cluster::status as report;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::facts::Server;
use super::observe::Observed;
use super::reconcile::{Outcome, Pass};
use super::reload::Progress;
use super::rollout::plan::Step;
use super::status::count;
use super::tls;

/// How long a server may take to see a new file before the message says so.
const RELOAD_PATIENCE: SignedDuration = SignedDuration::from_mins(3);

fn finding(
    type_: &'static str,
    status: impl Into<Status>,
    reason: &'static str,
    message: impl Into<String>,
) -> Finding {
    Finding { type_, status: status.into(), reason, message: message.into() }
}

/// All conditions after a pass.
#[must_use]
pub fn findings(
    pass: &Pass<'_>,
    observed: &Observed,
    outcome: &Outcome,
    certificates: &[report::Certificate],
) -> Vec<Finding> {
    let available = available(pass, observed);
    let progressing = progressing(pass, observed, outcome);
    let applied = config_applied(pass, observed, outcome);
    let valid = certificates_valid(certificates, pass.now);
    let reconciled = match &outcome.error {
        None => finding("Reconciled", true, "Success", "the last pass finished"),
        Some(error) => finding("Reconciled", false, error.reconciled_reason(), error.to_string()),
    };
    let stalled = stalled(outcome);
    let ready = ready(pass, observed, outcome, (&available, &progressing, &applied, &stalled));
    let mut all = vec![ready, reconciled, stalled, available, progressing];
    all.extend(applied);
    all.push(valid);
    let was_paused =
        pass.cluster.status.as_ref().is_some_and(|s| conditions::find(&s.conditions, "Paused").is_some());
    if pass.cluster.paused() {
        all.push(finding(
            "Paused",
            true,
            "Paused",
            "the annotation myelin.dev/paused is set: nothing is written",
        ));
    } else if was_paused {
        all.push(finding("Paused", false, "Active", "the cluster is looked after"));
    }
    all
}

fn stalled(outcome: &Outcome) -> Finding {
    if let Some(error) = &outcome.error
        && let Some(reason) = error.stalled_reason()
    {
        return finding("Stalled", true, reason, format!("{error}; the running servers are not touched"));
    }
    if let Some(Step::Stalled { pod, problem }) = &outcome.step {
        let message = format!("{pod} does not become ready: {problem}; the other servers are not touched");
        return finding("Stalled", true, "RolloutStalled", message);
    }
    finding("Stalled", false, "Progressing", "nothing is in the way")
}

fn available(pass: &Pass<'_>, observed: &Observed) -> Finding {
    let ready = count(&observed.servers, Server::is_ready);
    let message = format!("{ready} of {} servers are ready", pass.cluster.desired_replicas());
    if ready == 0 {
        return finding("Available", false, "NoServers", message);
    }
    finding("Available", true, "ServersReady", message)
}

fn progressing(pass: &Pass<'_>, observed: &Observed, outcome: &Outcome) -> Finding {
    let old =
        pass.cluster.status.as_ref().and_then(|status| conditions::find(&status.conditions, "Progressing"));
    if outcome.error.is_some() || pass.cluster.paused() {
        // Nothing was decided; what was said last still describes the servers.
        let kept = old.map_or("", |condition| condition.reason.as_str());
        return match kept {
            "RollingUpdate" => finding("Progressing", true, "RollingUpdate", "held up"),
            "ScalingUp" => finding("Progressing", true, "ScalingUp", "held up"),
            "ScalingDown" => finding("Progressing", true, "ScalingDown", "held up"),
            "RolloutStalled" => finding("Progressing", false, "RolloutStalled", "held up"),
            _ => finding("Progressing", false, "Idle", "nothing is under way"),
        };
    }
    let wanted = pass.cluster.desired_replicas();
    let there = count(&observed.servers, |_| true);
    let ready = count(&observed.servers, Server::is_ready);
    if let Some(leaving) = outcome.scale.as_ref().and_then(|scale| scale.leaving.as_ref()) {
        return finding(
            "Progressing",
            true,
            "ScalingDown",
            format!("{leaving} is leaving; {there} servers, {wanted} wanted"),
        );
    }
    let outdated = outcome
        .revision
        .as_ref()
        .is_some_and(|revision| observed.servers.iter().any(|s| s.revision != *revision));
    let rolling =
        outdated || old.is_some_and(|old| matches!(old.reason.as_str(), "RollingUpdate" | "RolloutStalled"));
    match &outcome.step {
        Some(Step::Stalled { pod, problem }) => {
            finding("Progressing", false, "RolloutStalled", format!("{pod} does not become ready: {problem}"))
        }
        Some(Step::Approve { pod }) => finding(
            "Progressing",
            false,
            "AwaitingApproval",
            format!("set the annotation {}: {pod} to replace the next pod", crd::annotation::FORCE_ROLLOUT),
        ),
        Some(Step::Restart { pod, .. }) => {
            finding("Progressing", true, "RollingUpdate", format!("replacing {pod}"))
        }
        Some(Step::Wait { waiting_for }) => {
            let created = old.is_none_or(|old| old.reason == "Creating");
            let reason = if rolling {
                "RollingUpdate"
            } else if created {
                "Creating"
            } else if there < wanted || old.is_some_and(|old| old.reason == "ScalingUp") {
                "ScalingUp"
            } else {
                "Recovering"
            };
            finding(
                "Progressing",
                true,
                reason,
                format!("waiting for {waiting_for}; {ready} of {wanted} servers are ready"),
            )
        }
        Some(Step::Done) | None => finding("Progressing", false, "Idle", "nothing is under way"),
    }
}

/// `None` before there is a configuration to speak of.
fn config_applied(pass: &Pass<'_>, observed: &Observed, outcome: &Outcome) -> Option<Finding> {
    if let Some(error) = &outcome.error
        && error.stalled_reason().is_some()
    {
        return Some(finding("ConfigApplied", false, "RenderFailed", error.to_string()));
    }
    if let Some((pod, text)) = &outcome.refused {
        let message = format!("{pod} refused its configuration: {text}; no other server was asked");
        return Some(finding("ConfigApplied", false, "ReloadRejected", message));
    }
    let wanted = outcome.config.as_ref()?;
    let pending = |who: String| {
        let since = pass
            .cluster
            .status
            .as_ref()
            .and_then(|s| s.config.as_ref())
            .and_then(|c| c.pending_since.clone());
        let late = since.is_some_and(|since| since.0 + RELOAD_PATIENCE < pass.now);
        let hint = if late { "; its node has not refreshed the file for minutes" } else { "" };
        finding(
            "ConfigApplied",
            false,
            "ReloadPending",
            format!("waiting for {who} to run configuration {}{hint}", wanted.hash),
        )
    };
    Some(match outcome.reload.as_ref() {
        Some(Progress::Applied) if !observed.servers.is_empty() => finding(
            "ConfigApplied",
            true,
            "Applied",
            format!("every server runs configuration {}", wanted.hash),
        ),
        Some(Progress::Applied) => {
            finding("ConfigApplied", true, "Applied", "servers will start with the configuration")
        }
        Some(Progress::Reload { pod }) => pending(pod.clone()),
        Some(Progress::Silent { pods }) => pending(pods.join(", ")),
        Some(Progress::Restart { pods }) => {
            let fields = if wanted.restart_fields.is_empty() {
                String::new()
            } else {
                format!(" ({})", wanted.restart_fields.join(", "))
            };
            let message =
                format!("the change needs new processes{fields}; not yet replaced: {}", pods.join(", "));
            finding("ConfigApplied", false, "RestartRequired", message)
        }
        None => pending("a pod to be replaced".to_owned()),
    })
}

fn certificates_valid(certificates: &[report::Certificate], now: Timestamp) -> Finding {
    let mut verdict = finding("CertificatesValid", true, "Valid", "all certificates are valid");
    if certificates.is_empty() {
        verdict.message = "no certificates are in use".to_owned();
    }
    for certificate in certificates {
        let what = format!("certificate of {} in secret `{}`", certificate.listener, certificate.secret);
        match &certificate.not_after {
            None => return finding("CertificatesValid", false, "Missing", format!("{what} cannot be read")),
            Some(not_after) if not_after.0 <= now => {
                return finding(
                    "CertificatesValid",
                    false,
                    "Expired",
                    format!("{what} ended at {}", not_after.0),
                );
            }
            // Our own are made again in time; only those of others need a warning.
            Some(not_after) if tls::ends_soon(not_after.0, now) => {
                verdict = finding(
                    "CertificatesValid",
                    false,
                    "ExpiringSoon",
                    format!("{what} ends at {}", not_after.0),
                );
            }
            Some(_) => {}
        }
    }
    verdict
}

fn ready(
    pass: &Pass<'_>,
    observed: &Observed,
    outcome: &Outcome,
    (available, progressing, applied, stalled): (&Finding, &Finding, &Option<Finding>, &Finding),
) -> Finding {
    if pass.cluster.paused() {
        return finding("Ready", Status::Unknown, "Paused", "the cluster is not looked after");
    }
    if pass.cluster.spec.hibernate && outcome.error.is_none() && observed.servers.is_empty() {
        return finding("Ready", true, "Hibernating", "no server runs, as asked");
    }
    if stalled.status == Status::True {
        return finding("Ready", false, "Failed", stalled.message.clone());
    }
    if let Some(error) = &outcome.error {
        return finding("Ready", false, "Degraded", error.to_string());
    }
    if progressing.status == Status::True || progressing.reason != "Idle" {
        return finding("Ready", false, "Progressing", progressing.message.clone());
    }
    match applied {
        Some(applied) if applied.status == Status::True => {}
        Some(applied) if applied.reason == "ReloadRejected" => {
            return finding("Ready", false, "Degraded", applied.message.clone());
        }
        Some(applied) => return finding("Ready", false, "Progressing", applied.message.clone()),
        None => return finding("Ready", false, "Progressing", "there is no configuration yet"),
    }
    let wanted = pass.cluster.desired_replicas();
    if count(&observed.servers, Server::is_ready) != wanted {
        return finding("Ready", false, "Degraded", available.message.clone());
    }
    finding(
        "Ready",
        true,
        "Ready",
        format!("{wanted} of {wanted} servers are ready and run the configuration"),
    )
}
