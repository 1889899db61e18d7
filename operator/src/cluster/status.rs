//! What is reported about a cluster. Pure: observed facts and decisions in, status and transitions out.

use std::collections::{BTreeMap, BTreeSet};

use crd::NatsClusterStatus;
use crd::conditions::{self, Finding, Status};
use crd::nats_cluster::status as report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::facts::Server;
use super::observe::Observed;
use super::reconcile::{Outcome, Pass};
use super::reload::Progress;
use super::rollout::plan::Step;
use super::tls;
use crate::objects::secrets::text;

/// How long a server may take to see a new file before the message says so.
const RELOAD_PATIENCE: SignedDuration = SignedDuration::from_mins(3);
/// Servers reported at most: twice the largest cluster, for one that shrinks.
const SERVERS_MAX: usize = 70;
/// Other lists.
const LIST_MAX: usize = 35;
/// A number is reported again when it moved by more than one part in this many.
const NOISE: i64 = 20;

/// The status after a pass, and the conditions that changed.
#[must_use]
pub fn build(
    pass: &Pass<'_>,
    observed: &Observed,
    outcome: &Outcome,
    image: &str,
) -> (NatsClusterStatus, Vec<Finding>) {
    let old = pass.cluster.status.clone().unwrap_or_default();
    let generation = pass.cluster.metadata.generation.unwrap_or_default();
    let certificates = certificates(observed);
    let findings = findings(pass, observed, outcome, &certificates);
    let mut conditions = old.conditions.clone();
    let now = Time(pass.now);
    let transitions = conditions::merge(&mut conditions, &findings, generation, &now);
    let servers: Vec<report::Server> =
        observed.servers.iter().take(SERVERS_MAX).map(|server| self::server(pass, server, &old)).collect();
    let status = NatsClusterStatus {
        observed_generation: Some(generation),
        replicas: count(&observed.servers, |_| true),
        ready_replicas: count(&observed.servers, Server::is_ready),
        selector: pass.identity.selector_text(),
        cluster_name: pass.cluster.cluster_name().to_owned(),
        version: versions(&observed.servers),
        image: images(&observed.servers, image),
        endpoints: Some(endpoints(pass, observed)),
        rollout: rollout(pass, observed, outcome, &old),
        scaling: scaling(pass, observed, outcome, &old),
        config: config(pass, outcome, &findings, &old),
        certificates,
        last_handled_reconcile_at: pass.cluster.annotation(crd::annotation::RECONCILE_AT).map(str::to_owned),
        conditions,
        servers,
    };
    (status, transitions)
}

/// Whether nothing is under way that has to be looked at again soon.
#[must_use]
pub fn is_settled(status: &NatsClusterStatus) -> bool {
    let holds = |type_: &str, wanted: &str| {
        conditions::find(&status.conditions, type_).is_some_and(|condition| condition.status == wanted)
    };
    holds("Progressing", "False") && holds("ConfigApplied", "True")
}

/// Figures that follow from a status.
pub fn record_metrics(pass: &Pass<'_>, status: &NatsClusterStatus) {
    let (metrics, namespace, name) = (&pass.context.metrics, &pass.identity.namespace, &pass.identity.name);
    let ready =
        conditions::find(&status.conditions, "Ready").is_some_and(|condition| condition.status == "True");
    metrics.ready.with_label_values(&["NatsCluster", namespace, name]).set(i64::from(ready));
    let waiting = status.rollout.as_ref().and_then(|rollout| rollout.since.as_ref());
    let waiting = waiting.map_or(0.0, |since| pass.now.duration_since(since.0).as_secs_f64());
    metrics.rollout_seconds.with_label_values(&[namespace, name]).set(waiting);
    for certificate in &status.certificates {
        if let Some(not_after) = &certificate.not_after {
            let left = not_after.0.duration_since(pass.now).as_secs_f64();
            metrics
                .certificate_seconds
                .with_label_values(&[namespace, name, &certificate.listener])
                .set(left);
        }
    }
}

fn count(servers: &[Server], wanted: impl Fn(&Server) -> bool) -> i32 {
    i32::try_from(servers.iter().filter(|server| wanted(server)).count()).unwrap_or(i32::MAX)
}

fn server(pass: &Pass<'_>, server: &Server, old: &NatsClusterStatus) -> report::Server {
    let name = format!("{}{}", pass.cluster.spec.server_name_prefix, server.pod);
    let before = old.servers.iter().find(|before| before.name == name);
    let answer = server.report.as_ref();
    let number = |fresh: Option<i64>, before: Option<i64>| match (fresh, before) {
        (Some(fresh), Some(before)) if (fresh - before).abs() * NOISE <= before => Some(before),
        (fresh, _) => fresh,
    };
    report::Server {
        ordinal: server.ordinal,
        pod: server.pod.clone(),
        node: server.node.clone(),
        server_id: answer.map(|report| report.server_id.clone()),
        version: answer.map(|report| report.version.clone()),
        ready: server.is_ready(),
        lame_duck: server.stopping,
        start_time: server.started.map(Time),
        config_hash: server.config_hash().map(str::to_owned),
        connections: number(answer.map(|report| report.connections), before.and_then(|b| b.connections)),
        routes: number(answer.map(|report| report.routes), before.and_then(|b| b.routes)),
        name,
    }
}

fn versions(servers: &[Server]) -> report::Versions {
    let mut running: BTreeMap<String, i32> = BTreeMap::new();
    for report in servers.iter().filter_map(|server| server.report.as_ref()) {
        *running.entry(report.version.clone()).or_default() += 1;
    }
    let current = running.keys().cloned().collect::<Vec<_>>().join(",");
    report::Versions { current, running }
}

fn images(servers: &[Server], desired: &str) -> report::Images {
    let running: BTreeSet<&String> =
        servers.iter().filter(|server| server.is_ready()).map(|server| &server.image).collect();
    report::Images {
        desired: desired.to_owned(),
        running: running.into_iter().take(LIST_MAX).cloned().collect(),
    }
}

fn endpoints(pass: &Pass<'_>, observed: &Observed) -> report::Endpoints {
    let (identity, spec) = (pass.identity, &pass.cluster.spec);
    let scheme = if spec.clients.tls.is_some() { "tls" } else { "nats" };
    let ingress = observed
        .service
        .as_ref()
        .and_then(|service| service.status.as_ref())
        .and_then(|status| status.load_balancer.as_ref())
        .and_then(|balancer| balancer.ingress.as_ref());
    let external = ingress
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.hostname.as_ref().or(entry.ip.as_ref()))
        .take(16)
        .map(|host| format!("{scheme}://{host}:{}", spec.clients.port))
        .collect();
    report::Endpoints {
        client: format!("{scheme}://{}.{}.svc:{}", identity.name, identity.namespace, spec.clients.port),
        monitoring: format!(
            "http://{}.{}.svc:{}",
            identity.headless(),
            identity.namespace,
            spec.monitoring.port
        ),
        external,
    }
}

fn rollout(
    pass: &Pass<'_>,
    observed: &Observed,
    outcome: &Outcome,
    old: &NatsClusterStatus,
) -> Option<report::Rollout> {
    if outcome.error.is_some() {
        return old.rollout.clone();
    }
    let revision = outcome.revision.clone()?;
    let step = outcome.step.as_ref()?;
    let updated = count(&observed.servers, |server| server.revision == revision);
    // The first pods of a cluster are no rollout.
    let outdated = observed.servers.iter().any(|server| server.revision != revision);
    if !outdated && old.rollout.is_none() {
        return None;
    }
    let before = old.rollout.as_ref().filter(|before| before.revision == revision);
    let since = before.and_then(|before| before.since.clone()).or(Some(Time(pass.now)));
    let base = report::Rollout { updated, since, revision, ..report::Rollout::default() };
    match step {
        Step::Done => None,
        Step::Restart { pod, .. } => Some(report::Rollout { current: Some(pod.clone()), ..base }),
        Step::Wait { waiting_for } => Some(report::Rollout {
            current: before.and_then(|before| before.current.clone()),
            waiting_for: Some(waiting_for.clone()),
            ..base
        }),
        Step::Approve { pod } => Some(report::Rollout {
            waiting_for: Some(format!("the annotation {}: {pod}", crd::annotation::FORCE_ROLLOUT)),
            ..base
        }),
        Step::Stalled { pod, problem } => {
            Some(report::Rollout { current: Some(pod.clone()), last_error: Some(problem.clone()), ..base })
        }
    }
}

fn scaling(
    pass: &Pass<'_>,
    observed: &Observed,
    outcome: &Outcome,
    old: &NatsClusterStatus,
) -> Option<report::Scaling> {
    let to = pass.cluster.desired_replicas();
    // Before there was a StatefulSet the cluster is being created, not scaled.
    let current = observed.replicas()?;
    let leaving = outcome.scale.as_ref().and_then(|scale| scale.leaving.clone());
    let before = old.scaling.as_ref().filter(|before| before.to == to);
    let under_way = current != to || leaving.is_some();
    let growing = before.is_some() && count(&observed.servers, Server::is_ready) < to;
    (under_way || growing).then(|| report::Scaling {
        from: before.map_or(current, |before| before.from),
        to,
        leaving,
    })
}

fn config(
    pass: &Pass<'_>,
    outcome: &Outcome,
    findings: &[Finding],
    old: &NatsClusterStatus,
) -> Option<report::ConfigStatus> {
    let before = old.config.clone();
    let Some(wanted) = &outcome.config else {
        return before;
    };
    let before = before.unwrap_or_default();
    let applied =
        findings.iter().any(|finding| finding.type_ == "ConfigApplied" && finding.status == Status::True);
    let restart_fields = match (applied, wanted.restart_fields.is_empty()) {
        (true, _) => Vec::new(),
        (false, false) => wanted.restart_fields.clone(),
        (false, true) => before.restart_fields,
    };
    let pending_since = match applied {
        true => None,
        false => before.pending_since.filter(|_| before.hash == wanted.hash).or(Some(Time(pass.now))),
    };
    Some(report::ConfigStatus {
        hash: wanted.hash.clone(),
        applied_hash: if applied { Some(wanted.hash.clone()) } else { before.applied_hash },
        restart_fields,
        last_reload: if outcome.reloaded { Some(Time(pass.now)) } else { before.last_reload },
        last_reload_error: match &outcome.refused {
            Some((pod, text)) => Some(format!("{pod}: {text}")),
            None if applied => None,
            None => before.last_reload_error,
        },
        pending_since,
    })
}

fn certificates(observed: &Observed) -> Vec<report::Certificate> {
    observed
        .certificates
        .iter()
        .map(|(files, secret)| {
            let pem = secret.as_ref().and_then(|secret| text(secret, &files.cert_key));
            report::Certificate {
                listener: files.listener.to_owned(),
                secret: files.secret.clone(),
                not_after: pem.and_then(|pem| tls::read(&pem).ok()).map(|reading| Time(reading.not_after)),
            }
        })
        .collect()
}

fn finding(
    type_: &'static str,
    status: impl Into<Status>,
    reason: &'static str,
    message: impl Into<String>,
) -> Finding {
    Finding { type_, status: status.into(), reason, message: message.into() }
}

fn findings(
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
