//! What a pass found out, as conditions. Pure.

use crd::conditions::{self, Finding, Status, finding};
use crd::nats_cluster::status as report;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::facts::Server;
use super::observe::Observed;
use super::reconcile::{Outcome, Pass};
use super::reload::Progress;
use super::rollout::plan::Step;
use super::status::count;
use super::tls;

mod jetstream;

/// How long a server may take to see a new file before the message says so.
const RELOAD_PATIENCE: SignedDuration = SignedDuration::from_mins(3);

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
    let jetstream = jetstream::healthy(pass, observed);
    let ready =
        ready(pass, observed, outcome, (&available, &progressing, &applied, &stalled), jetstream.as_ref());
    let mut all = vec![ready, reconciled, stalled, available, progressing];
    all.extend(applied);
    all.push(valid);
    all.extend(jetstream);
    all.extend(jetstream::expanded(pass, outcome));
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

/// Nothing was decided in this pass; what was said last still describes the servers.
fn held_up(last_reason: &str) -> Finding {
    match last_reason {
        "RollingUpdate" => finding("Progressing", true, "RollingUpdate", "held up"),
        "ScalingUp" => finding("Progressing", true, "ScalingUp", "held up"),
        "ScalingDown" => finding("Progressing", true, "ScalingDown", "held up"),
        "RecreatingStatefulSet" => finding("Progressing", true, "RecreatingStatefulSet", "held up"),
        "RolloutStalled" => finding("Progressing", false, "RolloutStalled", "held up"),
        _ => finding("Progressing", false, "Idle", "nothing is under way"),
    }
}

fn progressing(pass: &Pass<'_>, observed: &Observed, outcome: &Outcome) -> Finding {
    let old =
        pass.cluster.status.as_ref().and_then(|status| conditions::find(&status.conditions, "Progressing"));
    if outcome.error.is_some() || pass.cluster.paused() {
        return held_up(old.map_or("", |condition| condition.reason.as_str()));
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
    if outcome.recreating {
        return finding(
            "Progressing",
            true,
            "RecreatingStatefulSet",
            "the StatefulSet is made anew for its claims; servers keep running",
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
        Some(Step::Done) | None => finding(
            "Progressing",
            false,
            "Idle",
            format!("{ready} of {wanted} servers are ready, nothing is under way"),
        ),
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
    jetstream: Option<&Finding>,
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
    // A store that is nearly full still works; what to do about it stands in its own condition.
    if let Some(ill) = jetstream.filter(|found| found.status == Status::False && found.reason != "StorageLow")
    {
        return finding("Ready", false, "Degraded", ill.message.clone());
    }
    finding(
        "Ready",
        true,
        "Ready",
        format!("{wanted} of {wanted} servers are ready and run the configuration"),
    )
}

#[cfg(test)]
mod tests {
    use crd::NatsCluster;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use kube::{Client, Config};
    use serde_json::json;

    use super::*;
    use crate::cluster::reconcile::Wanted;
    use crate::cluster::scale::Scale;
    use crate::context::Context;
    use crate::error::Error;
    use crate::metrics::Metrics;
    use crate::nats::system::Report;
    use crate::objects::identity::Identity;
    use crate::settings::{self, Command};

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).unwrap()
    }

    fn server(ordinal: i32, revision: &str) -> Server {
        Server {
            pod: format!("demo-{ordinal}"),
            ordinal,
            revision: revision.to_owned(),
            ready_since: Some(now()),
            report: Some(Report::default()),
            ..Server::default()
        }
    }

    /// Everything done: two servers on the revision, ready, with the configuration proved.
    fn done() -> Outcome {
        Outcome {
            config: Some(Wanted {
                hash: "h".to_owned(),
                restart_hash: "r".to_owned(),
                restart_fields: Vec::new(),
            }),
            scale: Some(Scale { replicas: 2, leaving: None }),
            step: Some(Step::Done),
            revision: Some("new".to_owned()),
            reload: Some(Progress::Applied),
            ..Outcome::default()
        }
    }

    /// Reasons of the conditions after a pass; `before` is the earlier reason of `Progressing`.
    async fn reasons(before: Option<&str>, servers: Vec<Server>, outcome: Outcome) -> Vec<(String, String)> {
        let Ok(Command::Run(settings)) = settings::parse([], |_| None) else { panic!("settings") };
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let context = Context::new(client, settings, Metrics::new().unwrap(), None);
        let mut cluster: NatsCluster = serde_json::from_value(json!({
            "apiVersion": "myelin.dev/v1alpha1", "kind": "NatsCluster",
            "metadata": { "name": "demo", "namespace": "ns", "uid": "u" }, "spec": { "replicas": 2 },
        }))
        .unwrap();
        cluster.status = before.map(|reason| crd::NatsClusterStatus {
            conditions: vec![Condition {
                type_: "Progressing".to_owned(),
                status: "True".to_owned(),
                reason: reason.to_owned(),
                message: String::new(),
                last_transition_time: Time(now()),
                observed_generation: None,
            }],
            ..crd::NatsClusterStatus::default()
        });
        let identity = Identity::of(&cluster).unwrap();
        let pass = Pass { cluster: &cluster, identity: &identity, context: &context, now: now() };
        let observed = Observed {
            servers,
            stateful_set: None,
            config: None,
            operator: None,
            authority: None,
            certificates: Vec::new(),
            service: None,
            claims: Vec::new(),
        };
        let findings = findings(&pass, &observed, &outcome, &[]);
        let word = |finding: &Finding| format!("{} {}", finding.status.as_str(), finding.reason);
        findings.iter().map(|finding| (finding.type_.to_owned(), word(finding))).collect()
    }

    async fn expect(before: Option<&str>, servers: Vec<Server>, outcome: Outcome, expected: &[(&str, &str)]) {
        let found = reasons(before, servers, outcome).await;
        for (type_, word) in expected {
            let said = found.iter().find(|(found, _)| found == type_).map(|(_, word)| word.as_str());
            assert_eq!(said, Some(*word), "{type_} in {found:?}");
        }
    }

    fn waiting() -> Outcome {
        Outcome { step: Some(Step::Wait { waiting_for: "something".to_owned() }), ..done() }
    }

    #[tokio::test]
    async fn a_cluster_is_ready_when_all_servers_are_and_run_the_configuration() {
        let servers = || vec![server(0, "new"), server(1, "new")];
        expect(
            Some("Creating"),
            servers(),
            done(),
            &[("Ready", "True Ready"), ("Progressing", "False Idle"), ("ConfigApplied", "True Applied")],
        )
        .await;
        let pending = Outcome { reload: Some(Progress::Reload { pod: "demo-0".to_owned() }), ..done() };
        expect(
            None,
            servers(),
            pending,
            &[("Ready", "False Progressing"), ("ConfigApplied", "False ReloadPending")],
        )
        .await;
        let refused = Outcome { refused: Some(("demo-0".to_owned(), "no".to_owned())), ..done() };
        expect(
            None,
            servers(),
            refused,
            &[
                ("Ready", "False Degraded"),
                ("ConfigApplied", "False ReloadRejected"),
                ("Stalled", "False Progressing"),
            ],
        )
        .await;
        let ill = vec![server(0, "new"), Server { ready_since: None, ..server(1, "new") }];
        expect(None, ill, done(), &[("Ready", "False Degraded"), ("Available", "True ServersReady")]).await;
        expect(None, Vec::new(), waiting(), &[("Available", "False NoServers")]).await;
    }

    #[tokio::test]
    async fn what_is_under_way_has_a_name() {
        let (old, new) = (|| vec![server(0, "old"), server(1, "new")], || vec![server(0, "new")]);
        expect(None, Vec::new(), waiting(), &[("Progressing", "True Creating")]).await;
        expect(
            Some("Idle"),
            old(),
            waiting(),
            &[("Progressing", "True RollingUpdate"), ("Ready", "False Progressing")],
        )
        .await;
        // The last new pod of a rollout starts: nothing is outdated any more, but it is still the rollout.
        expect(Some("RollingUpdate"), new(), waiting(), &[("Progressing", "True RollingUpdate")]).await;
        expect(Some("Idle"), new(), waiting(), &[("Progressing", "True ScalingUp")]).await;
        let both = || vec![server(0, "new"), Server { ready_since: None, ..server(1, "new") }];
        expect(Some("Idle"), both(), waiting(), &[("Progressing", "True Recovering")]).await;
        let leaving =
            Outcome { scale: Some(Scale { replicas: 2, leaving: Some("demo-2".to_owned()) }), ..done() };
        expect(Some("Idle"), both(), leaving, &[("Progressing", "True ScalingDown")]).await;
        let approve = Outcome { step: Some(Step::Approve { pod: "demo-1".to_owned() }), ..done() };
        expect(
            Some("Idle"),
            old(),
            approve,
            &[("Progressing", "False AwaitingApproval"), ("Ready", "False Progressing")],
        )
        .await;
    }

    #[tokio::test]
    async fn what_only_a_person_can_change_is_stalled() {
        let servers = || vec![server(0, "new"), server(1, "new")];
        let wrong = Outcome { error: Some(Error::Config("colour".to_owned())), ..Outcome::default() };
        expect(
            None,
            servers(),
            wrong,
            &[
                ("Stalled", "True InvalidSpec"),
                ("Reconciled", "False InvalidSpec"),
                ("ConfigApplied", "False RenderFailed"),
                ("Ready", "False Failed"),
                ("Available", "True ServersReady"),
            ],
        )
        .await;
        let step = Step::Stalled { pod: "demo-1".to_owned(), problem: "ErrImagePull".to_owned() };
        let broken = Outcome { step: Some(step), ..done() };
        expect(
            None,
            servers(),
            broken,
            &[("Stalled", "True RolloutStalled"), ("Progressing", "False RolloutStalled")],
        )
        .await;
        let passing = Outcome { error: Some(Error::Certificate("x".to_owned())), ..Outcome::default() };
        expect(None, servers(), passing, &[("Stalled", "False Progressing"), ("Ready", "False Degraded")])
            .await;
    }

    #[test]
    fn certificates_are_judged_by_the_worst() {
        let reason = |days: &[i64]| {
            let certificates: Vec<report::Certificate> = days
                .iter()
                .map(|days| report::Certificate {
                    not_after: Some(Time(now() + SignedDuration::from_hours(24 * days))),
                    ..report::Certificate::default()
                })
                .collect();
            certificates_valid(&certificates, now()).reason
        };
        assert_eq!(reason(&[]), "Valid");
        assert_eq!(reason(&[40]), "Valid");
        assert_eq!(reason(&[40, 20]), "ExpiringSoon");
        assert_eq!(reason(&[20, -1]), "Expired");
    }
}
