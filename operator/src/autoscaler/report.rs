//! What is reported about an autoscaler: conditions, numbers, events. Pure.

use crd::NatsAutoscaler;
use crd::conditions::{self, Finding, Status, finding};
use crd::nats_autoscaler::status::{NatsAutoscalerStatus, RecentScale, SourceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::events::{Event, EventType};

use super::decide::{Decision, Known, Reason};
use super::memory::Memory;
use super::need::Need;
use super::target::Unscalable;
use crate::events;

/// How old a time in the status may become that moves with every look, before it is worth a write of its own.
const TIMES_AGE_MAX: SignedDuration = SignedDuration::from_mins(10);

/// What a look found out and did, as far as it came.
#[derive(Default)]
pub struct Outcome {
    /// Replicas that the target asks for; `None` when it is not there or was not looked at.
    pub current: Option<i32>,
    /// Why the target cannot be scaled: reason and message.
    pub unscalable: Option<Unscalable>,
    /// Somebody else who scales the target.
    pub conflict: Option<String>,
    /// What the sources said.
    pub sources: Vec<Known>,
    /// The reason why one of them cannot be read.
    pub source_reason: Option<&'static str>,
    /// The decision.
    pub decision: Option<Decision>,
    /// Why it is not known which pods are idle, when some had to go.
    pub unranked: Option<String>,
    /// Whether the target was changed.
    pub scaled: bool,
    /// Why nothing helps until somebody changes something: reason and message.
    pub stalled: Option<(&'static str, String)>,
    /// Why the look ended early: reason and message.
    pub failed: Option<(&'static str, String)>,
}

/// The status after a look, and the conditions that changed.
#[must_use]
pub fn build(
    object: &NatsAutoscaler,
    outcome: &Outcome,
    memory: Option<&Memory>,
    now: Timestamp,
) -> (NatsAutoscalerStatus, Vec<Finding>) {
    let old = object.status.clone().unwrap_or_default();
    let mut conditions = old.conditions.clone();
    let generation = object.metadata.generation.unwrap_or_default();
    let transitions = conditions::merge(&mut conditions, &findings(object, outcome), generation, &Time(now));
    let sources =
        if outcome.sources.is_empty() { old.sources.clone() } else { sources(object, outcome, &old, now) };
    let status = NatsAutoscalerStatus {
        observed_generation: Some(generation),
        conditions,
        current_replicas: outcome.current.or(old.current_replicas).filter(|_| outcome.unscalable.is_none()),
        desired_replicas: outcome.decision.map(|decision| decision.desired).or(old.desired_replicas),
        sources,
        last_scale_time: if outcome.scaled { Some(Time(now)) } else { old.last_scale_time },
        recent_scales: memory.map_or(old.recent_scales, |memory| recent(memory, now)),
        last_active_time: memory
            .filter(|_| outcome.decision.is_some())
            .map(|memory| Time(memory.last_active))
            .or(old.last_active_time),
        last_handled_reconcile_at: object.annotation(crd::annotation::RECONCILE_AT).map(str::to_owned),
    };
    (status, transitions)
}

fn recent(memory: &Memory, now: Timestamp) -> Vec<RecentScale> {
    // Kubernetes keeps whole seconds; more would look like a change each time.
    let whole = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
    memory.recent(now).map(|(at, by)| RecentScale { time: Time(whole(at)), by }).collect()
}

/// Whether a status tells a reader nothing that the one before does not. Times that every look moves count when they have become old.
#[must_use]
pub fn says_the_same(old: Option<&NatsAutoscalerStatus>, new: &NatsAutoscalerStatus) -> bool {
    let Some(old) = old else { return false };
    let settle = |old: Option<&Time>, new: &mut Option<Time>| {
        if let (Some(old), Some(fresh)) = (old, new.as_ref())
            && fresh.0.duration_since(old.0) < TIMES_AGE_MAX
        {
            *new = Some(old.clone());
        }
    };
    let mut new = new.clone();
    settle(old.last_active_time.as_ref(), &mut new.last_active_time);
    for (old, new) in old.sources.iter().zip(&mut new.sources) {
        settle(old.last_read.as_ref(), &mut new.last_read);
    }
    *old == new
}

/// Whether a status says that there was no work.
#[must_use]
pub fn was_idle(status: Option<&NatsAutoscalerStatus>) -> bool {
    status
        .and_then(|status| conditions::find(&status.conditions, "Active"))
        .is_some_and(|active| active.status == "False")
}

#[expect(clippy::cast_possible_truncation, reason = "rates and replicas are far below the largest number")]
fn sources(
    object: &NatsAutoscaler,
    outcome: &Outcome,
    old: &NatsAutoscalerStatus,
    now: Timestamp,
) -> Vec<SourceStatus> {
    let whole = |rate: Option<f64>| rate.map(|rate| rate.round() as i64);
    let entry = |(at, source): (usize, &crd::nats_autoscaler::source::Source)| {
        let name = source.describe();
        match outcome.sources.get(at) {
            Some(Known::Need(need)) => SourceStatus {
                name,
                value: Some(need.value),
                rate: whole(need.rate),
                service_rate: whole(need.service_rate),
                useful_replicas: need.useful,
                desired: Some(need.replicas.ceil() as i32),
                last_read: Some(Time(now)),
                error: None,
            },
            // What was read last stays, with the time of it.
            Some(Known::Unknown(problem)) => SourceStatus {
                error: Some(problem.clone()),
                ..old
                    .sources
                    .get(at)
                    .filter(|before| before.name == name)
                    .cloned()
                    .unwrap_or_else(|| SourceStatus { name, ..SourceStatus::default() })
            },
            None => SourceStatus { name, ..SourceStatus::default() },
        }
    };
    object.spec.sources.iter().enumerate().map(entry).collect()
}

/// All conditions after a look.
fn findings(object: &NatsAutoscaler, outcome: &Outcome) -> Vec<Finding> {
    let scaling = scaling(object, outcome);
    let metrics = metrics(outcome);
    let stalled = match &outcome.stalled {
        Some((reason, message)) => finding("Stalled", true, reason, message.clone()),
        None => finding("Stalled", false, "Progressing", "nothing is in the way"),
    };
    let reconciled = match (&outcome.stalled, &outcome.failed) {
        (None, None) => finding("Reconciled", true, "Success", "the last look finished"),
        (Some((reason, message)), _) | (None, Some((reason, message))) => {
            finding("Reconciled", false, reason, message.clone())
        }
    };
    let ready = ready(object, outcome, &scaling, metrics.as_ref());
    let mut all = vec![ready, reconciled, stalled, scaling];
    all.extend(metrics);
    all.extend(active(outcome));
    all
}

fn ready(
    object: &NatsAutoscaler,
    outcome: &Outcome,
    scaling: &Finding,
    metrics: Option<&Finding>,
) -> Finding {
    if let Some((_, message)) = &outcome.stalled {
        return finding("Ready", false, "Failed", message.clone());
    }
    if let Some((_, message)) = &outcome.failed {
        return finding("Ready", false, "Degraded", message.clone());
    }
    if object.paused() || object.spec.paused {
        return finding("Ready", true, "Paused", scaling.message.clone());
    }
    if scaling.status != Status::True {
        return finding("Ready", false, "Degraded", scaling.message.clone());
    }
    match metrics.filter(|metrics| metrics.status == Status::False) {
        Some(metrics) => finding("Ready", false, "Degraded", metrics.message.clone()),
        None => finding("Ready", true, "Ready", scaling.message.clone()),
    }
}

/// Whether the target is scaled, and why it has the number that it has.
fn scaling(object: &NatsAutoscaler, outcome: &Outcome) -> Finding {
    let verdict = |status: bool, reason, message: String| finding("ScalingActive", status, reason, message);
    let target = &object.spec.scale_target_ref;
    let name = format!("{} `{}`", target.kind, target.name);
    if let Some((reason, message)) = &outcome.unscalable {
        return verdict(false, reason, message.clone());
    }
    if let Some(other) = &outcome.conflict {
        return verdict(false, "Conflicted", format!("{other} scales {name} too: remove one of both"));
    }
    if object.paused() {
        return verdict(
            false,
            "Paused",
            "the annotation myelin.dev/paused is set: nothing is written".to_owned(),
        );
    }
    let Some(decision) = outcome.decision else {
        let why = outcome.stalled.as_ref().or(outcome.failed.as_ref());
        return verdict(false, "Failed", why.map_or_else(String::new, |(_, message)| message.clone()));
    };
    let current = outcome.current.unwrap_or(0);
    let (reason, text) = match decision.reason {
        Reason::Paused => return verdict(false, "Paused", "spec.paused is set".to_owned()),
        Reason::Hold => ("Hold", "a source cannot be read, so nothing is taken away"),
        Reason::Fallback => {
            ("Fallback", "a source cannot be read for long, so fallback.replicas are there at least")
        }
        Reason::AboveTarget => ("AboveTarget", "there is more work than is done"),
        Reason::BelowTarget => ("BelowTarget", "there is less work than could be done"),
        Reason::WithinTolerance => ("WithinTolerance", "there is as much work as is done"),
        Reason::Idle if decision.desired == 0 => ("ScaledToZero", "there is no work"),
        Reason::Idle => ("Idle", "there is no work"),
    };
    verdict(
        true,
        reason,
        format!("{text}: {} wanted, {} desired, {current} before", decision.wanted, decision.desired),
    )
}

/// Whether the sources can be read; `None` before they were.
fn metrics(outcome: &Outcome) -> Option<Finding> {
    if outcome.sources.is_empty() {
        return None;
    }
    let unknown = outcome.sources.iter().find_map(|source| match source {
        Known::Unknown(problem) => Some(problem),
        Known::Need(_) => None,
    });
    Some(match (unknown, outcome.source_reason) {
        (None, _) => finding("MetricsAvailable", true, "Read", "every source was read"),
        (Some(problem), Some(reason)) => finding("MetricsAvailable", false, reason, problem.clone()),
        // A rate takes two looks, which is nobody's fault.
        (Some(problem), None) => finding("MetricsAvailable", Status::Unknown, "Measuring", problem.clone()),
    })
}

/// Whether there is work; `None` when that was not found out.
fn active(outcome: &Outcome) -> Option<Finding> {
    let decision = outcome.decision?;
    if decision.active {
        return Some(finding("Active", true, "Work", work(outcome)));
    }
    if matches!(decision.reason, Reason::Hold | Reason::Fallback) {
        return Some(finding("Active", Status::Unknown, "Unknown", "a source cannot be read"));
    }
    Some(finding("Active", false, "NoWork", "there is no work"))
}

/// The source that asks for most, in words.
fn work(outcome: &Outcome) -> String {
    let needs = outcome.sources.iter().filter_map(|source| match source {
        Known::Need(need) => Some(need),
        Known::Unknown(_) => None,
    });
    let most = needs.max_by(|one, other| one.replicas.total_cmp(&other.replicas));
    most.map_or_else(String::new, describe)
}

fn describe(need: &Need) -> String {
    let rate = need.rate.map_or_else(String::new, |rate| format!(", {rate:.1} a second"));
    let bound = need.useful.map_or_else(String::new, |useful| {
        format!("; max_ack_pending is reached, so more than {useful} replicas get no more messages")
    });
    let what = if need.step.is_some() { "slow consumers" } else { "waiting" };
    format!("{} {what}{rate}{bound}", need.value)
}

/// The event of a change of the number of replicas.
#[must_use]
pub fn scaled(object: &NatsAutoscaler, outcome: &Outcome) -> Option<Event> {
    let (current, decision) = (outcome.current?, outcome.decision?);
    let reason = if decision.desired > current { "ScaledUp" } else { "ScaledDown" };
    let target = &object.spec.scale_target_ref;
    let mut note = format!(
        "{} {} from {current} to {}: {}",
        target.kind,
        target.name,
        decision.desired,
        if decision.active { work(outcome) } else { "no work".to_owned() }
    );
    if let Some(problem) = &outcome.unranked {
        note.push_str("; which pods are idle is not known: ");
        note.push_str(problem);
    }
    Some(events::event(EventType::Normal, reason, "Scale", note))
}

/// What to tell people when a condition changed.
#[must_use]
pub fn of_transition(old: Option<&Condition>, finding: &Finding) -> Option<Event> {
    let (type_, reason) = match (finding.type_, finding.status) {
        ("Stalled", Status::True) => (EventType::Warning, finding.reason),
        ("ScalingActive", Status::False)
            if finding.reason.starts_with("Target") || finding.reason == "Conflicted" =>
        {
            (EventType::Warning, finding.reason)
        }
        ("MetricsAvailable", Status::False) => (EventType::Warning, finding.reason),
        ("MetricsAvailable", Status::True) if old.is_some_and(|old| old.status == "False") => {
            (EventType::Normal, "MetricsAvailable")
        }
        _ => return None,
    };
    Some(events::event(type_, reason, finding.type_, finding.message.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<Time> {
        Some(Time(Timestamp::from_second(second).unwrap()))
    }

    fn status(value: i64, second: i64) -> NatsAutoscalerStatus {
        let source = SourceStatus { value: Some(value), last_read: at(second), ..SourceStatus::default() };
        NatsAutoscalerStatus {
            current_replicas: Some(3),
            sources: vec![source],
            last_active_time: at(second),
            ..NatsAutoscalerStatus::default()
        }
    }

    #[test]
    fn a_look_that_found_the_same_says_so_until_its_time_is_old() {
        let old = status(7, 0);
        assert!(!says_the_same(None, &old));
        assert!(says_the_same(Some(&old), &status(7, 599)));
        assert!(!says_the_same(Some(&old), &status(7, 600)), "a reader sees that it is still read");
        assert!(!says_the_same(Some(&old), &status(8, 1)));
        let unread = SourceStatus { error: Some("e".to_owned()), ..old.sources[0].clone() };
        assert!(!says_the_same(Some(&old), &NatsAutoscalerStatus { sources: vec![unread], ..old.clone() }));
    }

    #[test]
    fn changes_of_the_past_are_told_in_whole_seconds() {
        let now = Timestamp::from_millisecond(90_500).unwrap();
        let memory = Memory::new(now, 1, None).recalled([(Timestamp::from_millisecond(80_999).unwrap(), 2)]);
        assert_eq!(recent(&memory, now), [RecentScale { time: at(80).unwrap(), by: 2 }]);
    }
}
