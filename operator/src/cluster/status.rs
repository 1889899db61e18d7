//! What is reported about a cluster. Pure: observed facts and decisions in, status and transitions out.

use std::collections::{BTreeMap, BTreeSet};

use crd::NatsClusterStatus;
use crd::conditions::{self, Finding, Status};
use crd::nats_cluster::status as report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::facts::Server;
use super::observe::Observed;
use super::reconcile::{Outcome, Pass};
use super::rollout::plan::Step;
use super::storage::Claim;
use super::{tls, verdict};
use crate::nats::system::JetStreamReport;
use crate::objects::secrets::text;

/// Servers reported at most: twice the largest cluster, for one that shrinks.
const SERVERS_MAX: usize = 70;
/// Other lists.
const LIST_MAX: usize = 35;
/// A number is reported again when it moved by more than one part in this many.
const NOISE: i64 = 20;

/// Bytes in use are reported in this many steps.
const STEPS: i64 = 100;

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
    let findings = verdict::findings(pass, observed, outcome, &certificates);
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
        jetstream: jetstream(pass, &observed.servers),
        volumes: volumes(pass, observed),
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

/// Number of servers of a kind.
#[must_use]
pub fn count(servers: &[Server], wanted: impl Fn(&Server) -> bool) -> i32 {
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

/// What all servers hold; `None` without JetStream, and what was known before while none answers.
fn jetstream(pass: &Pass<'_>, servers: &[Server]) -> Option<report::JetStreamStatus> {
    pass.cluster.jetstream()?;
    let answers: Vec<&JetStreamReport> = servers
        .iter()
        .filter_map(|server| server.report.as_ref().and_then(|report| report.jetstream.as_ref()))
        .collect();
    if answers.is_empty() {
        return pass.cluster.status.as_ref().and_then(|status| status.jetstream.clone());
    }
    let mut sum = report::JetStreamStatus::default();
    for answer in answers {
        sum.streams += answer.streams;
        sum.consumers += answer.consumers;
        for (usage, (used, limit)) in [(&mut sum.storage, answer.storage), (&mut sum.memory, answer.memory)] {
            let step = (limit / STEPS).max(1);
            usage.used += used / step * step;
            usage.limit += limit;
        }
    }
    Some(sum)
}

fn volumes(pass: &Pass<'_>, observed: &Observed) -> Vec<report::Volume> {
    if pass.cluster.jetstream().is_none() {
        return Vec::new();
    }
    let volume = |claim: &Claim| report::Volume {
        claim: claim.name.clone(),
        requested: claim.requested.clone(),
        capacity: claim.capacity.clone(),
        state: claim.state().to_owned(),
    };
    observed.claims.iter().take(SERVERS_MAX).map(volume).collect()
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
