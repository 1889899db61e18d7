//! One pass over a stream, consumer or bucket: observe, decide, take one step, report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Time;
use api::jetstream::account::AccountStats;
use api::jetstream::consumer::ConsumerConfig;
use api::jetstream::metadata as level;
use api::jetstream::stream::{StreamConfig, StreamInfo};
use crd::annotation;
use crd::conditions;
use crd::jetstream::FIELD_MANAGER;
use crd::jetstream::options::{DeletionProtection, DriftPolicy, Mode};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use sha2::{Digest, Sha256};

use super::act::{self, Site};
use super::asset::{Asset, Found, Status, Target};
use super::compare::{Change, fields};
use super::desired::{Desired, DesiredConsumer};
use super::index::{Entry, ObjectKey};
use super::owner::Mark;
use super::plan::{self, ConsumerFacts, Rules};
use super::pool::Shared;
use super::problem::Problem;
use super::removal;
use super::report::{self, Brakes, Decision, Outcome};
use super::state::{State, label};
use crate::error::Error;

/// Pause after a pass that only somebody's change can help.
const STALLED_PAUSE: Duration = Duration::from_secs(300);
/// Longest pause while servers or a stream are waited for; what is waited for wakes the pass as well.
const WAITING_PAUSE: Duration = Duration::from_secs(60);
/// Longest time of a pass.
const PASS_MAX: Duration = Duration::from_secs(30);
/// Longest wait for a turn when too many passes over objects of one namespace are under way; whose turn it is is woken, so this is for
/// wake-ups that were lost.
const CROWDED_PAUSE: Duration = Duration::from_secs(60);
/// How long it is believed that the object is as the API server confirmed it.
const CONFIRMED_AGE_MAX: Duration = Duration::from_secs(2);
/// Pause before the next step when there is one.
const NEXT_STEP: Duration = Duration::from_millis(200);

/// Something was deleted and has to be made anew.
const RECREATED: Outcome = Outcome::Done("Recreated");

/// What a pass works on.
pub struct Pass<'a, K: Asset> {
    /// The object.
    pub object: &'a K,
    /// Its name in the index.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Shared by all passes.
    pub state: &'a State,
    /// What stands against writing.
    pub brakes: Brakes,
    /// When the pass began.
    pub now: Timestamp,
    /// When the API server last confirmed that the object is as it is here.
    confirmed: Option<Instant>,
    /// Whether a server told something of the object.
    told: bool,
}

/// Entry from the controller.
///
/// # Errors
/// When the API server is in the way, or a test stops the operator.
pub async fn reconcile<K: Asset>(object: Arc<K>, state: Arc<State>) -> Result<Action, Error> {
    let started = Instant::now();
    let result = Box::pin(run(object.as_ref(), &state)).await;
    let metrics = &state.context.metrics;
    let word = if result.is_ok() { "success" } else { "error" };
    metrics.reconciles.with_label_values(&[controller::<K>(), word]).inc();
    metrics
        .reconcile_seconds
        .with_label_values(&[controller::<K>()])
        .observe(started.elapsed().as_secs_f64());
    if result.is_ok() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds since 1970 fit a double for millions of years"
        )]
        metrics.last_success.with_label_values(&[controller::<K>()]).set(Timestamp::now().as_second() as f64);
    }
    result
}

const fn controller<K: Asset>() -> &'static str {
    K::KIND
}

/// What to do after a pass that the API server ended.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "the controller hands over its own reference")]
pub fn after_error<K: Asset>(object: Arc<K>, error: &Error, state: Arc<State>) -> Action {
    let key = object_key(object.as_ref());
    let pause = state.context.backoff(&label(&key));
    tracing::warn!(object = label(&key), %error, pause_ms = pause.as_millis(), "a pass failed");
    Action::requeue(pause)
}

fn object_key<K: Asset>(object: &K) -> ObjectKey {
    ObjectKey { kind: K::KIND, namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

async fn run<K: Asset>(object: &K, state: &State) -> Result<Action, Error> {
    let annotations = object.annotations();
    let class = annotations.get(annotation::CONTROLLER_CLASS).map_or("", String::as_str);
    if class != state.context.settings.controller_class {
        return Ok(Action::await_change());
    }
    let mut pass = Pass {
        object,
        key: object_key(object),
        uid: object.uid().ok_or(Error::Incomplete("uid"))?,
        state,
        brakes: Brakes::of(|key| annotations.get(key).cloned(), object.options().mode),
        now: Timestamp::now(),
        confirmed: None,
        told: false,
    };
    if object.meta().deletion_timestamp.is_some() {
        return removal::run(&pass).await;
    }
    let mut status = pass.status();
    let Some(mut entered) = state.enter(&pass.key, !status.existed()) else {
        return Ok(Action::requeue(CROWDED_PAUSE.mul_f64(rand::random_range(0.5..1.5))));
    };
    pass.told = entered.is_told();
    if !pass.brakes.any() {
        let writer = &state.context.writer;
        match writer.set_finalizer_of(object, K::FINALIZER, FIELD_MANAGER, true).await {
            Ok(is_new) => pass.confirmed = is_new.then(Instant::now),
            // The watch has not brought the newest object yet; it will.
            Err(error) if is_conflict(&error) => return Ok(Action::requeue(NEXT_STEP)),
            Err(error) => return Err(error),
        }
    }
    let mut found = None;
    let result = tokio::time::timeout(PASS_MAX, advance(&pass, &mut status, &mut found)).await;
    let result = result.unwrap_or_else(|_| {
        Err(Problem::transient("Timeout", format!("the servers took longer than {} s", PASS_MAX.as_secs())))
    });
    match result {
        Err(Problem::Operator(error @ Error::Stopped(_))) => Err(error),
        Err(Problem::Outdated) => Ok(Action::requeue(NEXT_STEP)),
        result => {
            if !is_unfinished(&result) {
                entered.looked();
            }
            pass.report(status, &result, found.as_ref()).await
        }
    }
}

/// Whether the server was not seen, or was brought into a state that cannot stay.
fn is_unfinished(result: &Result<Decision, Problem>) -> bool {
    match result {
        Ok(decision) => decision.outcome == RECREATED,
        Err(problem) => problem.is_unreachable(),
    }
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Kube(kube::Error::Api(status)) if status.code == 409)
}

/// Looks, decides and takes one step.
async fn advance<K: Asset>(
    pass: &Pass<'_, K>,
    status: &mut K::Status,
    found: &mut Option<Found>,
) -> Result<Decision, Problem> {
    let desired = pass.object.desired()?;
    let target = pass.target()?;
    let (shared, timeout) = pass.connect(&target).await?;
    let js = shared.js(timeout, &pass.state.context.metrics);
    let site = Site { shared: &shared, js };
    let account = shared.account(&js).await?;
    let server = shared.server().await?;
    status.report_mut().server = Some(report::introduced(&server, account.api.level));
    let result = compare(pass, &site, (&target, &desired), &account, (&mut *found, status)).await;
    if let Some(found) = found {
        found.settle_leader(shared.answering(&server));
    }
    result
}

/// Looks at what is there and takes a step towards what should be.
async fn compare<K: Asset>(
    pass: &Pass<'_, K>,
    site: &Site<'_>,
    (target, desired): (&Target, &Desired),
    account: &AccountStats,
    (found, status): (&mut Option<Found>, &mut K::Status),
) -> Result<Decision, Problem> {
    let look = async |target| site.shared.look(&site.js, &pass.state.index, target, pass.told).await;
    let of = Target::new(&target.stream, None);
    let stream = look(&of).await?;
    match desired {
        Desired::Stream(config) => {
            check_level(level::stream_level(config), account.api.level)?;
            *found = stream;
            advance_stream(pass, site, (target, config), (found, status)).await
        }
        Desired::Consumer(consumer) => {
            check_level(level::consumer_level(&consumer.config), account.api.level)?;
            let stream = stream_of(stream.as_ref()).ok_or_else(|| {
                let text = format!("there is no stream `{}`: it is waited for", target.stream);
                Problem::transient("StreamNotFound", text)
            })?;
            *found = look(target).await?;
            let completed = consumer.complete(&stream.config, &account.limits)?;
            let wish = Wish { asked: consumer, completed: &completed, stream: &stream.config };
            advance_consumer(pass, site, (target, &wish), (found, status)).await
        }
    }
}

/// Decides about a stream, takes one step, and sees whether the server's answer leaves anything to do.
async fn advance_stream<K: Asset>(
    pass: &Pass<'_, K>,
    site: &Site<'_>,
    (target, config): (&Target, &StreamConfig),
    (found, status): (&mut Option<Found>, &mut K::Status),
) -> Result<Decision, Problem> {
    let hash = hash(config);
    let decide = |found: Option<&Found>, rules: &Rules| plan::stream(config, stream_of(found), rules);
    let plan = decide(found.as_ref(), &pass.rules(status, &hash).await?);
    let mut decision = act::stream(pass, site, (target, plan), (&mut *found, &mut *status), &hash).await?;
    if decision.did.is_some() && found.is_some() {
        decision.settle(&decide(found.as_ref(), &pass.rules(status, &hash).await?));
    }
    Ok(decision)
}

fn stream_of(found: Option<&Found>) -> Option<&StreamInfo> {
    match found {
        Some(Found::Stream(info)) => Some(info.as_ref()),
        _ => None,
    }
}

/// What a consumer should be.
struct Wish<'a> {
    asked: &'a DesiredConsumer,
    /// With what its stream fills in.
    completed: &'a ConsumerConfig,
    stream: &'a StreamConfig,
}

impl Wish<'_> {
    fn facts<'a>(
        &'a self,
        found: Option<&'a Found>,
        resume_at: Option<u64>,
        now: Timestamp,
    ) -> ConsumerFacts<'a> {
        ConsumerFacts {
            desired: self.completed,
            pause_until: self.asked.pause_until,
            stream: self.stream,
            observed: match found {
                Some(Found::Consumer(info)) => Some(info.as_ref()),
                _ => None,
            },
            resume_at,
            now: Time::from_unix_nanos(now.as_nanosecond()),
        }
    }
}

/// The same for a consumer.
async fn advance_consumer<K: Asset>(
    pass: &Pass<'_, K>,
    site: &Site<'_>,
    (target, wish): (&Target, &Wish<'_>),
    (found, status): (&mut Option<Found>, &mut K::Status),
) -> Result<Decision, Problem> {
    let hash = consumer_hash(wish.asked);
    let rules = pass.rules(status, &hash).await?;
    check_kept(&rules.kept)?;
    let facts = wish.facts(found.as_ref(), status.resume_at(), pass.now);
    let plan = plan::consumer(&facts, &rules);
    let resume = match facts.observed {
        Some(info) => plan::resume_at(wish.completed, info, wish.asked.preserve_position),
        None => None,
    };
    let mut decision =
        act::consumer(pass, site, (target, plan, resume), (&mut *found, &mut *status), &hash).await?;
    if decision.did.is_some() && found.is_some() {
        let rules = pass.rules(status, &hash).await?;
        check_kept(&rules.kept)?;
        let facts = wish.facts(found.as_ref(), status.resume_at(), pass.now);
        decision.settle(&plan::consumer(&facts, &rules));
    }
    Ok(decision)
}

/// Pause while servers or a stream are waited for: the backoff of the object, up to a bound, so that an outage of whatever length is
/// over soon after it ended.
fn waiting(backoff: Duration) -> Duration {
    backoff.min(WAITING_PAUSE)
}

/// Features that a server does not know would be dropped silently.
fn check_level(needed: i64, offered: i64) -> Result<(), Problem> {
    if needed <= offered {
        return Ok(());
    }
    Err(Problem::stalled(
        "ServerTooOld",
        format!(
            "the spec uses features of API level {needed}, and the server offers level {offered}: update the servers, or remove them (level 1: message TTLs, pauses, priority groups; 2: counters, atomic batches, schedules, async persistence; 4: batches, flow control acknowledgement)"
        ),
    ))
}

/// Options beyond the reference that other servers drop without a word.
const OWN_OPTIONS: [(&str, &str); 2] = [
    ("dead_letter_subject", "deadLetterSubject"),
    ("max_ack_pending_per_subject", "maxAckPendingPerSubject"),
];

/// A consumer without an option that was asked for is not what was asked for.
fn check_kept(kept: &[Change]) -> Result<(), Problem> {
    let dropped = OWN_OPTIONS.iter().find(|(wire, _)| kept.iter().any(|change| change.field == *wire));
    match dropped {
        Some((_, field)) => Err(Problem::stalled(
            "ServerTooOld",
            format!("the server does not know {field}: remove it, or use servers that do"),
        )),
        None => Ok(()),
    }
}

/// A hash of what is asked for, to tell a changed spec from a change by others.
fn hash(config: &impl serde::Serialize) -> String {
    let text = serde_json::to_vec(&fields(config)).unwrap_or_default();
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn consumer_hash(consumer: &DesiredConsumer) -> String {
    let paused = consumer.pause_until.map(|until| until.to_string()).unwrap_or_default();
    hash(&serde_json::json!({ "config": fields(&consumer.config), "pause": paused }))
}

impl<K: Asset> Pass<'_, K> {
    /// The status as it was last written.
    #[must_use]
    pub fn status(&self) -> K::Status {
        self.state.memory(&self.uid).status().or_else(|| self.object.status().cloned()).unwrap_or_default()
    }

    /// Names on the server.
    ///
    /// # Errors
    /// When they are no names.
    pub fn target(&self) -> Result<Target, Problem> {
        self.object
            .target()
            .ok_or_else(|| Problem::stalled("InvalidSpec", "the name is no name of a stream or consumer"))
    }

    /// The connection of the object, and how long its answers are waited for. Notes what the object depends on.
    ///
    /// # Errors
    /// When something is missing or not allowed.
    pub async fn connect(&self, target: &Target) -> Result<(Arc<Shared>, Duration), Problem> {
        let (result, depends) = self.state.resolve(&self.key.namespace, self.object.options()).await;
        self.note(target, result.as_ref().ok().map(|connection| connection.key), depends);
        let connection = result?;
        let shared = self.state.pool.get(&connection)?;
        Ok((shared, connection.request_timeout))
    }

    /// Keeps the index up to date. The connection of before stays known when there is none now: its end may still need it.
    fn note(
        &self,
        target: &Target,
        session: Option<super::connection::Key>,
        depends: Vec<super::index::Dependency>,
    ) {
        let named = self.named();
        let mut all = depends;
        all.extend(named.into_iter().filter(|dependency| !all.contains(dependency)).collect::<Vec<_>>());
        let session = session.or_else(|| self.state.index.session_of(&self.key));
        let entry =
            Entry { session, stream: target.stream.clone(), consumer: target.consumer.clone(), depends: all };
        self.state.index.record(&self.key, entry);
    }

    /// What the spec itself names.
    fn named(&self) -> Vec<super::index::Dependency> {
        use super::index::Dependency;
        let (options, own) = (self.object.options(), &self.key.namespace);
        let or_own = |namespace: &str| if namespace.is_empty() { own.clone() } else { namespace.to_owned() };
        let mut named = Vec::new();
        if !options.account.is_empty() {
            named.push(Dependency::account(own, &options.account));
        }
        if let Some(reference) = &options.account_ref {
            named.push(Dependency::account(&or_own(&reference.namespace), &reference.name));
        }
        if let Some(reference) = &options.cluster_ref {
            named.push(Dependency::cluster(&or_own(&reference.namespace), &reference.name));
        }
        named
    }

    /// The mark of the object; `None` when marks are switched off.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn mark(&self) -> Result<Option<Mark>, Problem> {
        if !self.state.context.settings.owner_mark {
            return Ok(None);
        }
        Ok(Some(Mark {
            cluster: self.state.cluster_id().await?.to_owned(),
            namespace: self.key.namespace.clone(),
            kind: K::KIND,
            name: self.key.name.clone(),
            uid: self.uid.clone(),
        }))
    }

    async fn rules(&self, status: &K::Status, hash: &str) -> Result<Rules, Problem> {
        let options = self.object.options();
        let memory = self.state.memory(&self.uid);
        let last = status.report().last_applied_hash.as_str();
        Ok(Rules {
            mark: self.mark().await?,
            adoption: options.adoption_policy,
            drift: options.drift(),
            prevent_update: options.prevent_update && options.drift() != DriftPolicy::Correct,
            strategy: options.update_strategy,
            protected: options.deletion_protection == DeletionProtection::NonEmpty,
            spec_changed: !last.is_empty() && last != hash,
            existed: status.existed(),
            kept: if memory.kept_for == hash { memory.kept } else { Vec::new() },
        })
    }

    /// Looks once more at the object before something is written to a server, unless it was confirmed a moment ago: what was decided on
    /// must still be what is asked for.
    ///
    /// # Errors
    /// [`Problem::Outdated`] when it is not.
    pub async fn confirm(&self) -> Result<(), Problem> {
        if self.confirmed.is_none_or(|at| at.elapsed() > CONFIRMED_AGE_MAX) {
            self.compare_with_live().await?;
        }
        self.state.context.writer.checkpoint()?;
        Ok(())
    }

    async fn compare_with_live(&self) -> Result<(), Problem> {
        let api: Api<K> = Api::namespaced(self.state.context.client.clone(), &self.key.namespace);
        let live = api.get_metadata_opt(&self.key.name).await?.ok_or(Problem::Outdated)?;
        let (own, live) = (self.object.meta(), live.metadata);
        let same = live.uid == own.uid
            && live.generation == own.generation
            && live.deletion_timestamp.is_some() == own.deletion_timestamp.is_some();
        let set = |key: &str| {
            live.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str) == Some("true")
        };
        if !same || set(annotation::PAUSED) || set(annotation::DRY_RUN) {
            return Err(Problem::Outdated);
        }
        Ok(())
    }

    /// Writes the status if it changed, publishes events, and says when to look again.
    async fn report(
        &self,
        mut status: K::Status,
        result: &Result<Decision, Problem>,
        found: Option<&Found>,
    ) -> Result<Action, Error> {
        let before = self.status();
        if let Some(target) = self.object.target() {
            // What could not be seen stays as it was last seen.
            if result.is_ok() || found.is_some() {
                status.observe(&target, found);
            }
        }
        let was_paused = conditions::find(&before.report().conditions, "Paused").is_some();
        let findings = report::findings(result, found, self.brakes, was_paused);
        let generation = self.object.meta().generation.unwrap_or_default();
        let inner = status.report_mut();
        inner.observed_generation = Some(generation);
        inner.last_handled_reconcile_at = self.object.annotations().get(annotation::RECONCILE_AT).cloned();
        match result {
            Ok(decision) => {
                inner.plan = decision.shown();
                inner.last_error.clear();
            }
            Err(problem) => inner.last_error = problem.to_string(),
        }
        let mut events = report::merge(&mut inner.conditions, &findings, generation, self.now);
        events.extend(result.as_ref().ok().and_then(Decision::event));
        self.write(&before, &status).await?;
        let ready = conditions::find(&status.report().conditions, "Ready")
            .is_some_and(|ready| ready.status == "True");
        let metrics = &self.state.context.metrics;
        metrics
            .ready
            .with_label_values(&[K::KIND, &self.key.namespace, &self.key.name])
            .set(i64::from(ready));
        for event in events {
            self.state.publish(&self.object.object_ref(&()), &event).await;
        }
        Ok(self.next(result))
    }

    /// Writes a status that differs from the last one. One that differs in numbers only has to wait for its turn.
    pub async fn write(&self, before: &K::Status, status: &K::Status) -> Result<(), Error> {
        if before == status {
            return Ok(());
        }
        let important = before.report() != status.report()
            || before.existed() != status.existed()
            || before.resume_at() != status.resume_at();
        if !important && !self.state.may_write_numbers(before.consumers() != status.consumers()) {
            return Ok(());
        }
        let writer = &self.state.context.writer;
        writer.status_of(self.object, FIELD_MANAGER, status).await?;
        self.state.remember(&self.uid, |memory| memory.wrote(status));
        Ok(())
    }

    /// When to look again.
    fn next(&self, result: &Result<Decision, Problem>) -> Action {
        let name = label(&self.key);
        let interval = self.state.context.settings.sync_interval.mul_f64(rand::random_range(0.8..1.2));
        match result {
            Ok(decision) => {
                self.state.context.succeeded(&name);
                Action::requeue(match decision.outcome {
                    Outcome::Refused(_) => STALLED_PAUSE,
                    RECREATED => NEXT_STEP,
                    _ => interval,
                })
            }
            Err(problem) => {
                if problem.is_unreachable()
                    && let Some(key) = self.state.index.session_of(&self.key)
                {
                    self.state.doubt(key);
                }
                tracing::debug!(object = name, %problem, "a pass ended early");
                Action::requeue(match problem {
                    Problem::Stalled { .. } => STALLED_PAUSE,
                    _ => waiting(self.state.context.backoff(&name)),
                })
            }
        }
    }

    /// Whether the object asks for nothing but looks.
    #[must_use]
    pub fn only_looks(&self) -> bool {
        self.object.options().mode == Mode::Observe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tries_during_an_outage_become_rarer_up_to_a_bound() {
        let read = crate::settings::parse(Vec::new(), |_| None);
        let Ok(crate::settings::Command::Run(settings)) = read else { panic!("settings") };
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let metrics = crate::metrics::Metrics::new().unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let context = crate::context::Context::new(client, settings, metrics, None);
        let pauses: Vec<_> = (0..1_000).map(|_| waiting(context.backoff("x"))).collect();
        assert!(pauses[0] < Duration::from_secs(2), "{:?}", pauses[0]);
        assert!(pauses.windows(2).take(5).all(|two| two[1] > two[0]), "{:?}", &pauses[..6]);
        assert!(pauses.iter().all(|pause| *pause <= WAITING_PAUSE));
        // Ten minutes are fewer than twenty tries.
        let mut sum = Duration::ZERO;
        let tries = pauses.iter().take_while(|pause| {
            sum += **pause;
            sum < Duration::from_secs(600)
        });
        assert!((10..20).contains(&tries.count()));
        context.succeeded("x");
        assert!(waiting(context.backoff("x")) < Duration::from_secs(2));
    }
}
