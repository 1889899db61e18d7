//! One look at an autoscaler: read the target and the sources, decide, write, report.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crd::NatsAutoscaler;
use crd::nats_autoscaler::status::NatsAutoscalerStatus;
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::runtime::events::Event;
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;

use super::decide::{self, Known};
use super::memory::Memory;
use super::need;
use super::plan::Plan;
use super::read::{self, Link};
use super::report::{self, Outcome};
use super::target::Kinds;
use super::{conflict, idle, stale, target};
use crate::context::Context;
use crate::error::Error;
use crate::jetstream::problem::Problem;

/// How long it is believed that nobody else scales a target.
const CONFLICT_AGE_MAX: Duration = Duration::from_secs(30);
/// How often numbers alone are written into the status.
pub const NUMBERS_INTERVAL: Duration = Duration::from_secs(30);
/// Pause while nothing can be done until somebody changes something.
const STALLED_INTERVAL: Duration = Duration::from_secs(30);

/// What all looks share.
pub struct State {
    /// Clients and settings.
    pub context: Arc<Context>,
    kinds: Kinds,
    looks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Look>>>>,
}

/// What is remembered of one autoscaler. It may be lost at any time: the next operator is careful instead.
#[derive(Default)]
struct Look {
    memory: Option<Memory>,
    links: Vec<Option<Link>>,
    /// Generation and annotation of the object at the last look.
    seen: Option<(Option<i64>, Option<String>)>,
    /// When to look again.
    next: Option<Instant>,
    conflict: Option<(Instant, Option<String>)>,
    reported: Option<Instant>,
    /// Namespace, name and sources, for the figures.
    figures: Option<(String, String, Vec<String>)>,
}

impl State {
    /// A state with nothing remembered.
    #[must_use]
    pub fn new(context: Arc<Context>) -> Arc<Self> {
        Arc::new(Self { context, kinds: Kinds::default(), looks: Mutex::default() })
    }

    fn look(&self, uid: &str) -> Arc<tokio::sync::Mutex<Look>> {
        Arc::clone(self.looks.lock().entry(uid.to_owned()).or_default())
    }

    fn forget(&self, look: &Look) {
        let Some((namespace, name, sources)) = &look.figures else { return };
        let metrics = &self.context.metrics;
        metrics.autoscaling.forget(namespace, name, sources.iter().map(String::as_str));
        let _ = metrics.ready.remove_label_values(&["NatsAutoscaler", namespace, name]);
    }

    /// Forgets autoscalers that are gone.
    pub fn prune(&self, present: &[Arc<NatsAutoscaler>]) {
        let mut looks = self.looks.lock();
        if looks.len() > present.len() {
            looks.retain(|uid, look| {
                let stays = present.iter().any(|object| object.metadata.uid.as_deref() == Some(uid));
                if !stays && let Ok(look) = look.try_lock() {
                    self.forget(&look);
                }
                stays
            });
        }
    }
}

/// Entry from the controller.
///
/// # Errors
/// When retrying may help; the reason stands in the status as well.
pub async fn reconcile(object: Arc<NatsAutoscaler>, state: Arc<State>) -> Result<Action, Error> {
    let started = Instant::now();
    let result = Box::pin(run(&object, &state)).await;
    let metrics = &state.context.metrics;
    let word = if result.is_ok() { "success" } else { "error" };
    metrics.reconciles.with_label_values(&["natsautoscaler", word]).inc();
    metrics.reconcile_seconds.with_label_values(&["natsautoscaler"]).observe(started.elapsed().as_secs_f64());
    if result.is_ok() {
        state.context.succeeded(&key(&object));
    }
    result
}

/// What to do after a failed look.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "the controller hands over its own reference")]
pub fn after_error(object: Arc<NatsAutoscaler>, error: &Error, state: Arc<State>) -> Action {
    let pause = state.context.backoff(&key(&object));
    tracing::warn!(autoscaler = key(&object), %error, pause_ms = pause.as_millis(), "a look failed");
    Action::requeue(pause)
}

fn key(object: &NatsAutoscaler) -> String {
    format!("autoscaler {}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

async fn run(cached: &NatsAutoscaler, state: &State) -> Result<Action, Error> {
    let context = &*state.context;
    let namespace = cached.namespace().ok_or(Error::Incomplete("namespace"))?;
    if cached.annotation(crd::annotation::CONTROLLER_CLASS).unwrap_or_default()
        != context.settings.controller_class
    {
        return Ok(Action::await_change());
    }
    let uid = cached.uid().ok_or(Error::Incomplete("uid"))?;
    let look = state.look(&uid);
    let mut look = look.lock().await;
    // Its own status wakes a look too; sources are asked when it is time, unless a person changed something.
    let seen =
        (cached.metadata.generation, cached.annotation(crd::annotation::RECONCILE_AT).map(str::to_owned));
    let left = look.next.map(|next| next.saturating_duration_since(Instant::now()));
    if look.seen.as_ref() == Some(&seen)
        && let Some(left) = left.filter(|left| !left.is_zero())
    {
        return Ok(Action::requeue(left));
    }
    // What the watch delivered can be older than the last status, and transitions are told from that.
    let api: Api<NatsAutoscaler> = Api::namespaced(context.client.clone(), &namespace);
    let Some(object) = api.get_opt(&cached.name_any()).await? else {
        return Ok(Action::await_change());
    };
    if object.metadata.deletion_timestamp.is_some() || object.uid() != Some(uid) {
        return Ok(Action::await_change());
    }
    if look.seen.as_ref().is_none_or(|before| before.0 != seen.0) {
        // Sources and rules may be others.
        state.forget(&look);
        let sources = object.spec.sources.iter().map(|source| source.describe()).collect();
        look.figures = Some((namespace.clone(), object.name_any(), sources));
        look.links.clear();
        look.conflict = None;
    }
    look.seen = Some(seen);
    let now = Timestamp::now();
    let plan = Plan::of(&object.spec);
    let (outcome, pause) = match &plan {
        Err(error) => {
            let outcome = Outcome { stalled: Some(("InvalidSpec", error.to_string())), ..Outcome::default() };
            (outcome, STALLED_INTERVAL)
        }
        Ok(plan) => {
            let outcome = act(state, &object, plan, &mut look, now).await?;
            // Nobody works: the first message is to be noticed soon.
            let asleep = outcome.decision.is_some_and(|decision| decision.desired == 0);
            (outcome, span(if asleep { plan.activation } else { plan.poll }))
        }
    };
    look.next = Some(Instant::now() + pause);
    publish(context, &object, &outcome, &mut look, now).await?;
    Ok(Action::requeue(pause))
}

fn span(span: k8s_openapi::jiff::SignedDuration) -> Duration {
    Duration::try_from(span).unwrap_or(Duration::from_secs(1)).max(Duration::from_secs(1))
}

/// Reads, decides and writes. What goes wrong on the way stands in the outcome, so that it is reported.
async fn act(
    state: &State,
    object: &NatsAutoscaler,
    plan: &Plan,
    look: &mut Look,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    if let Err(error) = look_and_write(state, object, plan, look, (now, &mut outcome)).await {
        if matches!(error, Error::Stopped(_)) {
            return Err(error);
        }
        outcome.failed = Some((error.reconciled_reason(), error.to_string()));
    }
    Ok(outcome)
}

async fn look_and_write(
    state: &State,
    object: &NatsAutoscaler,
    plan: &Plan,
    look: &mut Look,
    (now, outcome): (Timestamp, &mut Outcome),
) -> Result<(), Error> {
    let context = &*state.context;
    let namespace = object.namespace().ok_or(Error::Incomplete("namespace"))?;
    let reference = &object.spec.scale_target_ref;
    let found = match target::read(context, &state.kinds, &namespace, reference).await? {
        Ok(found) => found,
        Err(unscalable) => {
            outcome.unscalable = Some(unscalable);
            return Ok(());
        }
    };
    outcome.current = Some(found.wanted);
    if look.conflict.as_ref().is_none_or(|(at, _)| at.elapsed() >= CONFLICT_AGE_MAX) {
        look.conflict = Some((Instant::now(), conflict::find(context, object).await?));
    }
    outcome.conflict = look.conflict.as_ref().and_then(|(_, other)| other.clone());

    let memory = look.memory.get_or_insert_with(|| recall(object, now, found.wanted));
    look.links.resize_with(object.spec.sources.len(), || None);
    let interval = if found.wanted == 0 { plan.activation } else { plan.poll };
    let read = object
        .spec
        .sources
        .iter()
        .zip(&mut look.links)
        .map(|(source, link)| Box::pin(read::read(context, &namespace, source, link, span(interval))));
    let readings = join_all(read).await;
    let sources = &object.spec.sources;
    for ((source, followed), reading) in sources.iter().zip(memory.follow(now, sources)).zip(readings) {
        outcome.sources.push(match reading {
            Ok(reading) => need::need(source, &mut followed.track, &reading, found.present).map_or_else(
                || Known::Unknown(format!("{}: a rate takes two looks", source.describe())),
                Known::Need,
            ),
            Err(Problem::Operator(error @ Error::Stopped(_))) => return Err(error),
            Err(problem) => {
                let times = (followed.read_at(), Timestamp::now());
                let (reason, text) = stale::judge(&problem, times, interval);
                outcome.source_reason = outcome.source_reason.or(Some(reason));
                Known::Unknown(format!("{}: {text}", source.describe()))
            }
        });
    }
    let decision = decide::decide(plan, now, found.wanted, &outcome.sources, memory);
    outcome.decision = Some(decision);
    if decision.desired == found.wanted || outcome.conflict.is_some() || object.paused() {
        return Ok(());
    }
    // Somebody may have come since the last look for others, and a write would begin a fight with them.
    look.conflict = Some((Instant::now(), conflict::find(context, object).await?));
    outcome.conflict = look.conflict.as_ref().and_then(|(_, other)| other.clone());
    if outcome.conflict.is_some() {
        return Ok(());
    }
    scale(context, object, &found, decision.desired, outcome).await?;
    if outcome.scaled {
        memory.changed(now, decision.desired - found.wanted);
    }
    Ok(())
}

/// Asks the target for so many replicas.
async fn scale(
    context: &Context,
    object: &NatsAutoscaler,
    found: &target::Target,
    desired: i32,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let namespace = object.namespace().ok_or(Error::Incomplete("namespace"))?;
    if object.spec.prefer_idle_pods && desired < found.wanted {
        // That it is not known who is idle is told, and is no reason to keep all.
        match idle::rank(context, &namespace, object, found).await {
            Err(Problem::Operator(error @ Error::Stopped(_))) => return Err(error),
            ranked => outcome.unranked = ranked.err().map(|problem| problem.to_string()),
        }
    }
    let name = &object.spec.scale_target_ref.name;
    outcome.scaled = target::write(context, &namespace, name, found, desired).await?;
    Ok(())
}

/// What the status tells a new operator.
fn recall(object: &NatsAutoscaler, now: Timestamp, replicas: i32) -> Memory {
    let status = object.status.as_ref();
    let last_active = status.and_then(|status| status.last_active_time.as_ref()).map(|time| time.0);
    // While there was work the time is written now and then; the cooldown begins when it was seen to end.
    let last_active = last_active.filter(|_| report::was_idle(status));
    let before = status.map(|status| status.recent_scales.as_slice()).unwrap_or_default();
    Memory::new(now, replicas, last_active).recalled(before.iter().map(|change| (change.time.0, change.by)))
}

/// Writes the status, the events of what changed, and the figures.
async fn publish(
    context: &Context,
    object: &NatsAutoscaler,
    outcome: &Outcome,
    look: &mut Look,
    now: Timestamp,
) -> Result<(), Error> {
    let (status, transitions) = report::build(object, outcome, look.memory.as_ref(), now);
    let due = look.reported.is_none_or(|at| at.elapsed() >= NUMBERS_INTERVAL);
    let old = object.status.as_ref();
    let urgent = outcome.scaled || !transitions.is_empty() || differs(old, &status);
    if urgent || due && !report::says_the_same(old, &status) {
        context.writer.status_of(object, crd::AUTOSCALER_MANAGER, &status).await?;
        look.reported = Some(Instant::now());
    }
    let mut told: Vec<Event> = Vec::new();
    let old = old.map(|status| status.conditions.as_slice()).unwrap_or_default();
    for finding in &transitions {
        told.extend(report::of_transition(crd::conditions::find(old, finding.type_), finding));
    }
    if outcome.scaled {
        told.extend(report::scaled(object, outcome));
    }
    for event in &told {
        if let Err(error) = context.recorder.publish(event, &object.object_ref(&())).await {
            tracing::warn!(%error, reason = event.reason, "an event could not be written");
        }
    }
    record(context, object, outcome, &status);
    Ok(())
}

/// Whether a status says something else than the one before, numbers that move all the time aside.
fn differs(old: Option<&NatsAutoscalerStatus>, new: &NatsAutoscalerStatus) -> bool {
    let Some(old) = old else { return true };
    (old.observed_generation, old.current_replicas, old.desired_replicas, &old.last_handled_reconcile_at)
        != (
            new.observed_generation,
            new.current_replicas,
            new.desired_replicas,
            &new.last_handled_reconcile_at,
        )
        || old.sources.len() != new.sources.len()
        || old.sources.iter().zip(&new.sources).any(|(old, new)| old.error != new.error)
}

fn record(context: &Context, object: &NatsAutoscaler, outcome: &Outcome, status: &NatsAutoscalerStatus) {
    let metrics = &context.metrics;
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let labels = [namespace.as_str(), name.as_str()];
    let ready =
        crd::conditions::find(&status.conditions, "Ready").is_some_and(|ready| ready.status == "True");
    metrics.ready.with_label_values(&["NatsAutoscaler", &namespace, &name]).set(i64::from(ready));
    if let Some(current) = outcome.current {
        metrics.autoscaling.current.with_label_values(&labels).set(i64::from(current));
    }
    let Some(decision) = outcome.decision else { return };
    metrics.autoscaling.desired.with_label_values(&labels).set(i64::from(decision.desired));
    for (source, known) in object.spec.sources.iter().zip(&outcome.sources) {
        if let Known::Need(need) = known {
            let source = source.describe();
            metrics.autoscaling.value.with_label_values(&[&namespace, &name, &source]).set(need.value);
        }
    }
    let direction = match outcome.current {
        Some(current) if outcome.scaled && decision.desired > current => "up",
        Some(_) if outcome.scaled => "down",
        _ => "none",
    };
    metrics.autoscaling.decisions.with_label_values(&[direction]).inc();
}
