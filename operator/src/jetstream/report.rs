//! What a pass found out, as conditions, a status and events. Pure apart from the writing at the end.

use crd::conditions::{self, Finding, Status as Holds, finding};
use crd::jetstream::options::Mode;
use crd::jetstream::status::{Plan as Shown, Server};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

use super::asset::Found;
use super::plan::Step;
use super::problem::Problem;
use crate::events;
use crate::nats::session;

/// Changes shown in a plan.
const CHANGES_MAX: usize = 32;
/// A mirror or source is behind when it lacks more messages than this.
const LAG_MAX: u64 = 10_000;

/// What a pass decided, without the configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// One word for the status.
    pub action: &'static str,
    /// Why.
    pub reason: String,
    /// Fields that differ.
    pub changes: Vec<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// The step that was taken, for an event of its own: the conditions may say at once that nothing is left to do.
    pub did: Option<Did>,
}

/// A step that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Did {
    /// What it is called: `Created`, `Updated` and the like.
    pub name: &'static str,
    /// Why, and what differed.
    pub note: String,
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it should be.
    InSync,
    /// It was written to the server.
    Done(&'static str),
    /// It would be written, and something stands against that.
    Held(&'static str),
    /// It differs and is left so; false when it is not there at all.
    Left(bool),
    /// Somebody has to change something.
    Refused(&'static str),
}

impl Decision {
    /// What a plan says, before anything came of it.
    #[must_use]
    pub fn of<C>(plan: &super::plan::Plan<C>, exists: bool) -> Self {
        let outcome = match plan.step {
            Step::Nothing => Outcome::InSync,
            Step::Leave => Outcome::Left(exists),
            Step::Refuse(reason) => Outcome::Refused(reason),
            _ => Outcome::Held("WouldChange"),
        };
        Self {
            action: plan.action(),
            reason: plan.reason.clone(),
            changes: plan.changes.iter().take(CHANGES_MAX).map(ToString::to_string).collect(),
            outcome,
            did: None,
        }
    }

    /// What a plan says whose step was taken.
    #[must_use]
    pub fn done<C>(plan: &super::plan::Plan<C>, name: &'static str) -> Self {
        let planned = Self::of(plan, true);
        let did = Did { name, note: planned.text() };
        Self { outcome: Outcome::Done(name), did: Some(did), ..planned }
    }

    /// Compares once more after a step, with what the server answered. When nothing is left to do that is reported at once, and not by
    /// another pass with another write.
    pub fn settle<C>(&mut self, next: &super::plan::Plan<C>) {
        if matches!(next.step, Step::Nothing) {
            *self = Self { did: self.did.take(), ..Self::of(next, true) };
        }
    }

    /// Why, and what differs.
    fn text(&self) -> String {
        if self.changes.is_empty() {
            return self.reason.clone();
        }
        format!("{}: {}", self.reason, self.changes.join(", "))
    }

    /// What to tell people about the step that was taken.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        let did = self.did.as_ref()?;
        Some(events::event(EventType::Normal, did.name, "Synced", did.note.clone()))
    }

    /// As the status shows it; nothing when there is nothing to do.
    #[must_use]
    pub fn shown(&self) -> Option<Shown> {
        let nothing = matches!(self.outcome, Outcome::InSync | Outcome::Done(_));
        (!nothing).then(|| Shown {
            action: self.action.to_owned(),
            reason: self.reason.clone(),
            changes: self.changes.clone(),
        })
    }
}

/// What stands against writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brakes {
    /// The annotation that pauses.
    pub paused: bool,
    /// The annotation for a dry run.
    pub dry_run: bool,
    /// The mode that only looks.
    pub observe: bool,
}

impl Brakes {
    /// Nothing is written.
    #[must_use]
    pub const fn any(self) -> bool {
        self.paused || self.dry_run || self.observe
    }

    /// Reads annotations and mode.
    #[must_use]
    pub fn of(annotation: impl Fn(&str) -> Option<String>, mode: Mode) -> Self {
        let set = |key: &str| annotation(key).as_deref() == Some("true");
        Self {
            paused: set(crd::annotation::PAUSED),
            dry_run: set(crd::annotation::DRY_RUN),
            observe: mode == Mode::Observe,
        }
    }
}

/// A server as statuses show it.
#[must_use]
pub fn introduced(server: &session::Server, api_level: i64) -> Server {
    let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(100).collect();
    Server {
        name: short(&server.name),
        version: short(&server.version),
        api_level,
        cluster: short(&server.cluster),
    }
}

/// All conditions after a pass over an object that is not being deleted.
#[must_use]
pub fn findings(
    result: &Result<Decision, Problem>,
    found: Option<&Found>,
    holds: Brakes,
    was_paused: bool,
) -> Vec<Finding> {
    let mut all = vec![
        ready(result, found),
        reconciled(result),
        stalled(result),
        synced(result),
        healthy(result, found),
    ];
    if holds.paused {
        all.push(finding(
            "Paused",
            true,
            "Paused",
            "the annotation myelin.dev/paused is set: nothing is written",
        ));
    } else if was_paused {
        all.push(finding("Paused", false, "Active", "the object is looked after"));
    }
    all
}

/// The one that other controllers of these kinds have: its reason is what lists show.
fn ready(result: &Result<Decision, Problem>, found: Option<&Found>) -> Finding {
    match result {
        Err(problem) => finding("Ready", false, "Errored", problem.to_string()),
        Ok(decision) => match &decision.outcome {
            Outcome::Refused(_) | Outcome::Left(false) => {
                finding("Ready", false, "Errored", decision.reason.clone())
            }
            Outcome::Held(_) if found.is_none() => {
                finding("Ready", false, "Pending", format!("{}: nothing is written", decision.reason))
            }
            Outcome::Done("Recreated") => finding("Ready", false, "Progressing", decision.reason.clone()),
            Outcome::Held(_) => {
                finding("Ready", true, "Ready", "it is there; what would be changed stands in plan")
            }
            Outcome::Left(true) => finding("Ready", true, "Ready", decision.reason.clone()),
            Outcome::InSync | Outcome::Done(_) => {
                finding("Ready", true, "Ready", "it is there and as it should be")
            }
        },
    }
}

fn reconciled(result: &Result<Decision, Problem>) -> Finding {
    match result {
        Err(problem) => finding("Reconciled", false, problem.reason(), problem.to_string()),
        Ok(Decision { outcome: Outcome::Refused(reason), reason: text, .. }) => {
            finding("Reconciled", false, reason, text.clone())
        }
        Ok(_) => finding("Reconciled", true, "Success", "the last pass finished"),
    }
}

fn stalled(result: &Result<Decision, Problem>) -> Finding {
    let nothing =
        || finding("Stalled", false, "Progressing", "nothing is in the way that somebody has to remove");
    match result {
        Err(problem) => match problem.stalled_reason() {
            Some(reason) => finding("Stalled", true, reason, problem.to_string()),
            None => nothing(),
        },
        Ok(Decision { outcome: Outcome::Refused(reason), reason: text, .. }) => {
            finding("Stalled", true, reason, text.clone())
        }
        Ok(_) => nothing(),
    }
}

fn synced(result: &Result<Decision, Problem>) -> Finding {
    let Ok(decision) = result else {
        let reason = match result {
            Err(Problem::Transient { reason: "StreamNotFound", .. }) => "StreamNotFound",
            _ => "Unknown",
        };
        return finding("Synced", Holds::Unknown, reason, "the last pass could not compare");
    };
    let text = decision.text();
    match &decision.outcome {
        Outcome::InSync => finding("Synced", true, "InSync", text),
        Outcome::Done("Recreated") => finding("Synced", false, "Recreated", text),
        Outcome::Done(reason) => finding("Synced", true, reason, text),
        Outcome::Held(reason) | Outcome::Refused(reason) => finding("Synced", false, reason, text),
        Outcome::Left(_) => finding("Synced", false, "DriftIgnored", text),
    }
}

fn healthy(result: &Result<Decision, Problem>, found: Option<&Found>) -> Finding {
    let cluster = match found {
        None => {
            let reason = match result {
                Err(Problem::Transient { reason: "StreamNotFound", .. }) => "StreamNotFound",
                _ => "Unknown",
            };
            return finding("Healthy", Holds::Unknown, reason, "it was not seen in the last pass");
        }
        Some(Found::Stream(info)) => {
            let origins = info.mirror.iter().chain(&info.sources);
            if let Some(late) = origins.clone().find(|origin| origin.lag > LAG_MAX || origin.error.is_some())
            {
                let why = late.error.as_ref().map_or_else(
                    || format!("{} messages are still to come", late.lag),
                    |error| error.description.clone(),
                );
                let name: String = late.name.chars().take(100).collect();
                return finding("Healthy", false, "MirrorLagging", format!("from `{name}`: {why}"));
            }
            info.cluster.as_ref()
        }
        Some(Found::Consumer(info)) => {
            if info.paused {
                return finding("Healthy", true, "Paused", "deliveries are stopped until pauseUntil");
            }
            info.cluster.as_ref()
        }
    };
    let Some(cluster) = cluster.filter(|cluster| !cluster.replicas.is_empty()) else {
        return finding("Healthy", true, "Healthy", "it answers");
    };
    if cluster.leader.is_empty() {
        return finding("Healthy", false, "NoLeader", "no server leads");
    }
    let late = cluster.replicas.iter().filter(|peer| peer.offline || !peer.current).count();
    if late > 0 {
        return finding("Healthy", false, "ReplicasLagging", format!("{late} replicas are away or behind"));
    }
    finding("Healthy", true, "Healthy", "all replicas have everything")
}

/// Conditions of an object that is being deleted and cannot go yet.
#[must_use]
pub fn leaving(problem: &Problem) -> Vec<Finding> {
    vec![
        finding("Ready", false, "Deleting", problem.to_string()),
        finding("Reconciled", false, problem.reason(), problem.to_string()),
        match problem.stalled_reason() {
            Some(reason) => finding("Stalled", true, reason, problem.to_string()),
            None => finding("Stalled", false, "Progressing", "the end is under way"),
        },
    ]
}

/// What to tell people when a condition changed.
#[must_use]
pub fn event_of(old: Option<&Condition>, changed: &Finding) -> Option<Event> {
    let was = old.map_or("", |condition| condition.reason.as_str());
    let holds = changed.status == Holds::True;
    let event =
        |type_, reason: &str| Some(events::event(type_, reason, changed.type_, changed.message.clone()));
    match (changed.type_, changed.reason) {
        ("Stalled", reason) if holds => event(EventType::Warning, reason),
        ("Reconciled", reason @ ("Unreachable" | "Timeout" | "NatsError" | "StreamNotFound")) => {
            event(EventType::Warning, reason)
        }
        ("Synced", reason @ ("DriftIgnored" | "WouldChange")) => event(EventType::Normal, reason),
        ("Healthy", reason @ ("NoLeader" | "ReplicasLagging" | "MirrorLagging")) => {
            event(EventType::Warning, reason)
        }
        ("Connected", "LoginOk") if !was.is_empty() => event(EventType::Normal, "Connected"),
        _ => None,
    }
}

/// Merges findings into conditions, and returns the events that follow.
pub fn merge(
    conditions: &mut Vec<Condition>,
    findings: &[Finding],
    generation: i64,
    now: k8s_openapi::jiff::Timestamp,
) -> Vec<Event> {
    let old = conditions.clone();
    // To whole seconds, as the API server keeps it: else what is remembered would never equal what is read.
    let now = k8s_openapi::jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    let changed = conditions::merge(
        conditions,
        findings,
        generation,
        &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now),
    );
    changed.iter().filter_map(|finding| event_of(conditions::find(&old, finding.type_), finding)).collect()
}

#[cfg(test)]
mod tests {
    use api::jetstream::cluster::{ClusterInfo, PeerInfo};
    use api::jetstream::stream::{StreamInfo, StreamSourceInfo};

    use super::*;
    use crate::jetstream::compare::Change;
    use crate::jetstream::plan::Plan;

    fn decision(outcome: Outcome) -> Result<Decision, Problem> {
        Ok(Decision {
            action: "Update",
            reason: "why".to_owned(),
            changes: vec!["a: 1 -> 2".to_owned()],
            outcome,
            did: None,
        })
    }

    fn words(result: &Result<Decision, Problem>, found: Option<&Found>) -> Vec<String> {
        findings(result, found, Brakes::default(), false)
            .iter()
            .map(|finding| format!("{} {} {}", finding.type_, finding.status.as_str(), finding.reason))
            .collect()
    }

    fn stream(change: impl FnOnce(&mut StreamInfo)) -> Found {
        let mut info = StreamInfo::default();
        change(&mut info);
        Found::Stream(Box::new(info))
    }

    /// The conditions of a pass must contain all of these.
    fn expect(result: Result<Decision, Problem>, found: Option<&Found>, expected: &[&str]) {
        let found = words(&result, found);
        for word in expected {
            assert!(found.iter().any(|have| have == word), "{word} in {found:?}");
        }
    }

    #[test]
    fn the_status_tells_what_came_of_a_decision() {
        let there = stream(|_| {});
        let some = Some(&there);
        let fine = &["Ready True Ready", "Reconciled True Success", "Stalled False Progressing"];
        for (outcome, synced) in [
            (Outcome::InSync, "Synced True InSync"),
            (Outcome::Done("Created"), "Synced True Created"),
            (Outcome::Held("WouldChange"), "Synced False WouldChange"),
            (Outcome::Left(true), "Synced False DriftIgnored"),
        ] {
            expect(decision(outcome.clone()), some, fine);
            expect(decision(outcome), some, &[synced, "Healthy True Healthy"]);
        }
        expect(
            decision(Outcome::Held("WouldChange")),
            None,
            &["Ready False Pending", "Healthy Unknown Unknown"],
        );
        expect(decision(Outcome::Left(false)), None, &["Ready False Errored", "Synced False DriftIgnored"]);
        expect(
            decision(Outcome::Done("Recreated")),
            None,
            &["Ready False Progressing", "Synced False Recreated"],
        );
        let refused =
            &["Ready False Errored", "Stalled True ImmutableChange", "Reconciled False ImmutableChange"];
        expect(decision(Outcome::Refused("ImmutableChange")), some, refused);
    }

    #[test]
    fn the_status_tells_why_a_pass_ended_early() {
        let problem = |problem: Problem| Err(problem);
        let away = &["Ready False Errored", "Reconciled False Unreachable", "Stalled False Progressing"];
        expect(problem(Problem::transient("Unreachable", "x")), None, away);
        expect(problem(Problem::transient("Unreachable", "x")), None, &["Synced Unknown Unknown"]);
        let wrong = &["Ready False Errored", "Stalled True InvalidSpec", "Reconciled False InvalidSpec"];
        expect(problem(Problem::stalled("InvalidSpec", "x")), None, wrong);
        let waits =
            &["Synced Unknown StreamNotFound", "Healthy Unknown StreamNotFound", "Stalled False Progressing"];
        expect(problem(Problem::transient("StreamNotFound", "x")), None, waits);
    }

    #[test]
    fn health_is_that_of_replicas_and_origins() {
        let reason = |found: Found| healthy(&decision(Outcome::InSync), Some(&found)).reason;
        let peer = |current, offline| PeerInfo { current, offline, ..PeerInfo::default() };
        let cluster = |leader: &str, peers: Vec<PeerInfo>| {
            Some(ClusterInfo { leader: leader.to_owned(), replicas: peers, ..ClusterInfo::default() })
        };
        assert_eq!(reason(stream(|_| {})), "Healthy");
        assert_eq!(reason(stream(|info| info.cluster = cluster("a", vec![peer(true, false)]))), "Healthy");
        assert_eq!(reason(stream(|info| info.cluster = cluster("", vec![peer(true, false)]))), "NoLeader");
        assert_eq!(
            reason(stream(|info| info.cluster = cluster("a", vec![peer(true, true)]))),
            "ReplicasLagging"
        );
        assert_eq!(
            reason(stream(|info| info.cluster = cluster("a", vec![peer(false, false)]))),
            "ReplicasLagging"
        );
        let late = StreamSourceInfo { lag: LAG_MAX + 1, ..StreamSourceInfo::default() };
        assert_eq!(reason(stream(|info| info.mirror = Some(late))), "MirrorLagging");
    }

    #[test]
    fn one_event_for_each_transition() {
        let mut conditions = Vec::new();
        let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
        let mut pass = |result: &Result<Decision, Problem>| -> Vec<String> {
            let findings = findings(result, None, Brakes::default(), false);
            merge(&mut conditions, &findings, 1, now).into_iter().map(|event| event.reason).collect()
        };
        assert!(pass(&decision(Outcome::InSync)).is_empty());
        assert_eq!(pass(&decision(Outcome::Held("WouldChange"))), ["WouldChange"]);
        assert_eq!(pass(&Err(Problem::stalled("GrantMissing", "x"))), ["GrantMissing"]);
        assert!(pass(&Err(Problem::stalled("GrantMissing", "x"))).is_empty());
        assert_eq!(pass(&Err(Problem::transient("Unreachable", "x"))), ["Unreachable"]);
    }

    #[test]
    fn a_step_has_its_event_and_what_is_left_to_do_its_condition() {
        let plan = |step: Step<()>, reason: &str, changes: &[&str]| {
            let changes = changes.iter().map(|field| Change {
                field: (*field).to_owned(),
                present: 1.into(),
                wanted: 2.into(),
            });
            Plan { step, reason: reason.to_owned(), changes: changes.collect(), adopts: false }
        };
        let update = plan(Step::Update(Box::new(())), "the spec changed", &["a"]);
        let mut decision = Decision::done(&update, "Updated");
        let event = decision.event().unwrap();
        assert_eq!(
            (event.reason.as_str(), event.note.as_deref()),
            ("Updated", Some("the spec changed: a: 1 -> 2"))
        );

        decision.settle(&plan(Step::Update(Box::new(())), "more", &["b"]));
        assert_eq!((&decision.outcome, decision.changes.len()), (&Outcome::Done("Updated"), 1));
        decision.settle(&plan(Step::Nothing, "it is as it should be", &[]));
        let settled = Decision::of(&plan(Step::Nothing, "it is as it should be", &[]), true);
        assert_eq!(Decision { did: None, ..decision.clone() }, settled, "as a later pass would report it");
        assert_eq!(decision.event().unwrap().note, event.note);
        assert!(settled.event().is_none());
    }

    #[test]
    fn plans_are_shown_while_they_are_not_carried_out() {
        assert!(decision(Outcome::InSync).unwrap().shown().is_none());
        assert!(decision(Outcome::Done("Updated")).unwrap().shown().is_none());
        let shown = decision(Outcome::Held("WouldChange")).unwrap().shown().unwrap();
        assert_eq!((shown.action.as_str(), shown.changes.len()), ("Update", 1));
    }

    #[test]
    fn annotations_and_mode_hold_writes_up() {
        let with =
            |key: &'static str| Brakes::of(|asked| (asked == key).then(|| "true".to_owned()), Mode::Manage);
        assert!(with(crd::annotation::PAUSED).paused && with(crd::annotation::DRY_RUN).dry_run);
        assert!(!with("other").any());
        assert!(Brakes::of(|_| None, Mode::Observe).any());
    }
}
