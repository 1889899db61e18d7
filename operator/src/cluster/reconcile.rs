//! One pass over a cluster: observe, decide, apply, report.

use std::sync::Arc;
use std::time::Duration;

use crd::nats_cluster::jetstream::Volume;
use crd::nats_cluster::sizes;
use crd::nats_cluster::validate::{self, SpecError};
use crd::{NatsCluster, annotation};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Api, ResourceExt};

use super::files;
use super::material::{self, Material};
use super::observe::{self, Access, Observed};
use super::render::{self, Rendered};
use super::rollout::plan::{self, Rollout, Step};
use super::scale::{self, Scale};
use super::{config_check, jetstream, reload, status, storage};
use crate::context::Context;
use crate::error::Error;
use crate::events;
use crate::nats::system::{self, Reloaded};
use crate::nats::trust;
use crate::objects::identity::Identity;
use crate::objects::{policies, secrets, services, stateful_set};

/// Pause between passes when nothing is under way.
const IDLE: Duration = Duration::from_secs(30);
/// Pause between passes while something is under way that no watch reports.
const BUSY: Duration = Duration::from_secs(2);

/// What a pass works on.
pub struct Pass<'a> {
    /// The cluster.
    pub cluster: &'a NatsCluster,
    /// Names and labels of its objects.
    pub identity: &'a Identity,
    /// Clients and settings.
    pub context: &'a Context,
    /// When the pass began.
    pub now: Timestamp,
}

/// The configuration that servers should run.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Hash of everything.
    pub hash: String,
    /// Changes when a new process is needed.
    pub restart_hash: String,
    /// Options that brought about the last change of it in this pass.
    pub restart_fields: Vec<String>,
}

/// What a pass decided and did, as far as it came.
#[derive(Default)]
pub struct Outcome {
    /// The configuration.
    pub config: Option<Wanted>,
    /// Size.
    pub scale: Option<Scale>,
    /// Replacement of pods.
    pub step: Option<Step>,
    /// Revision that pods are replaced with.
    pub revision: Option<String>,
    /// What the servers say about the configuration.
    pub reload: Option<reload::Progress>,
    /// A server that refused it: pod and text.
    pub refused: Option<(String, String)>,
    /// Whether a server took a new configuration in this pass.
    pub reloaded: bool,
    /// How far volumes are; `None` without volumes.
    pub growth: Option<storage::Growth>,
    /// Whether the StatefulSet is being made anew.
    pub recreating: bool,
    /// Why the pass ended early.
    pub error: Option<Error>,
}

/// Entry from the controller.
///
/// # Errors
/// When retrying may help; the reason stands in the status as well.
pub async fn reconcile(cluster: Arc<NatsCluster>, context: Arc<Context>) -> Result<Action, Error> {
    let started = std::time::Instant::now();
    let result = Box::pin(run(&cluster, &context)).await;
    let word = if result.is_ok() { "success" } else { "error" };
    context.metrics.reconciles.with_label_values(&["natscluster", word]).inc();
    context
        .metrics
        .reconcile_seconds
        .with_label_values(&["natscluster"])
        .observe(started.elapsed().as_secs_f64());
    if result.is_ok() {
        let now = Timestamp::now().as_second();
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds since 1970 fit a double for millions of years"
        )]
        context.metrics.last_success.with_label_values(&["natscluster"]).set(now as f64);
        context.succeeded(&key(&cluster));
    }
    result
}

/// What to do after a failed pass.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "the controller hands over its own reference")]
pub fn after_error(cluster: Arc<NatsCluster>, error: &Error, context: Arc<Context>) -> Action {
    let pause = context.backoff(&key(&cluster));
    tracing::warn!(cluster = key(&cluster), %error, pause_ms = pause.as_millis(), "a pass failed");
    Action::requeue(pause)
}

fn key(cluster: &NatsCluster) -> String {
    format!("{}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any())
}

async fn run(cached: &NatsCluster, context: &Context) -> Result<Action, Error> {
    // What the watch delivered can be older than our own last status, and transitions are told from that.
    let namespace = cached.namespace().ok_or(Error::Incomplete("namespace"))?;
    let clusters: Api<NatsCluster> = Api::namespaced(context.client.clone(), &namespace);
    let Some(cluster) = &clusters.get_opt(&cached.name_any()).await? else {
        return Ok(Action::await_change());
    };
    let class = cluster.annotation(annotation::CONTROLLER_CLASS).unwrap_or_default();
    if class != context.settings.controller_class {
        return Ok(Action::await_change());
    }
    let identity = Identity::of(cluster)?;
    let pass = Pass { cluster, identity: &identity, context, now: Timestamp::now() };
    if cluster.metadata.deletion_timestamp.is_some() {
        return remove(&pass).await;
    }
    if !cluster.paused() {
        context.writer.set_finalizer(cluster, true).await?;
    }
    let mut observed = observe::objects(&context.client, &identity, cluster).await?;
    ask(&pass, &mut observed).await;
    let mut outcome = Outcome::default();
    if !cluster.paused()
        && let Err(error) = advance(&pass, &mut observed, &mut outcome).await
    {
        if matches!(error, Error::Stopped(_)) {
            return Err(error);
        }
        outcome.error = Some(error);
    }
    report(&pass, &observed, outcome).await
}

/// Asks the servers about themselves. Without a usable certificate none can be asked; why stands in the status then.
async fn ask(pass: &Pass<'_>, observed: &mut Observed) {
    match Access::new(pass.identity, pass.cluster, observed) {
        Ok(Some(access)) => observe::ask(&mut observed.servers, &access, &pass.context.metrics).await,
        Ok(None) => {}
        Err(error) => tracing::warn!(cluster = pass.identity.name, %error, "no server can be asked"),
    }
}

/// Brings the cluster one step closer to its spec.
async fn advance(pass: &Pass<'_>, observed: &mut Observed, outcome: &mut Outcome) -> Result<(), Error> {
    let spec = &pass.cluster.spec;
    validate::validate(spec)?;
    outcome.growth = grow(pass, observed).await?;
    let material = material::gather(pass.context, pass.identity, pass.cluster, observed, pass.now).await?;
    let (rendered, wanted) = configuration(pass, observed, &material)?;
    outcome.config = Some(wanted.clone());

    let scale = scale::next(
        &pass.identity.name,
        pass.cluster.desired_replicas(),
        observed.replicas(),
        &observed.servers,
    );
    let shrinking = scale.leaving.is_some();
    let applied = apply(pass, observed, &material, (&rendered, &wanted, &scale)).await?;
    outcome.revision = applied.as_ref().and_then(current_revision);
    outcome.recreating = applied.is_none();
    outcome.scale = Some(scale);
    annotate_pods(pass, observed, &wanted).await?;

    // One thing at a time: a cluster that shrinks does not roll.
    if !shrinking && !spec.hibernate && roll(pass, observed, outcome).await? {
        return Ok(());
    }
    reload_servers(pass, observed, &wanted, outcome).await
}

/// Renders the configuration and finds out whether the change to it needs new processes.
fn configuration(
    pass: &Pass<'_>,
    observed: &Observed,
    material: &Material,
) -> Result<(Rendered, Wanted), Error> {
    let jetstream = jetstream_inputs(pass, observed, material)?;
    let inputs = render::Inputs {
        jetstream: jetstream.as_ref(),
        servers: scale::known_servers(pass.cluster.spec.replicas, observed.replicas(), &observed.servers),
        cluster_domain: &pass.context.settings.cluster_domain,
        operator: &material.operator,
        passwords: &material.passwords,
        routes: material.routes.as_ref(),
        tls: &material.tls,
        certificates_hash: &material.certificates_hash,
    };
    let rendered = render::render(pass.identity, pass.cluster, &inputs)?;
    let options = config_check::load(&rendered.text)?;
    let layout = files::layout(&material.tls);
    let (restart_fields, base) = match &observed.config {
        // Stored next to the text it belongs to, so that a pass that dies in between loses nothing.
        Some(stored) => {
            let fields = config_check::restart_fields(&stored.text, &options);
            let base = stored.restart_hash.split_once('-').map(|(base, _)| base.to_owned());
            (fields, base)
        }
        None => (Vec::new(), None),
    };
    let base = base.filter(|_| restart_fields.is_empty()).unwrap_or_else(|| rendered.hash.clone());
    let restart_hash = format!("{base}-{}", render::hash(&[&layout]));
    let wanted = Wanted { hash: rendered.hash.clone(), restart_hash, restart_fields };
    Ok((rendered, wanted))
}

/// What streams may use of the volumes that are there, and the keys they are stored under.
fn jetstream_inputs(
    pass: &Pass<'_>,
    observed: &Observed,
    material: &Material,
) -> Result<Option<jetstream::Inputs>, Error> {
    let Some(settings) = pass.cluster.jetstream() else {
        return Ok(None);
    };
    let capacity = storage::capacity(&observed.claims);
    let (key, previous_key) = material.store_keys.clone();
    Ok(Some(jetstream::Inputs {
        sizes: sizes::sizes(&pass.cluster.spec, settings, capacity)?,
        key,
        previous_key,
    }))
}

/// Lets claims grow to the size of the spec. Whether a volume can grow is for Kubernetes to say; its answer is no error of the pass.
async fn grow(pass: &Pass<'_>, observed: &mut Observed) -> Result<Option<storage::Growth>, Error> {
    let Some(volume) = volume(pass.cluster) else {
        return Ok(None);
    };
    let mut refused = None;
    for claim in &mut observed.claims {
        let Some(change) = claim.change(&volume) else { continue };
        match pass.context.writer.change_claim(&pass.identity.namespace, &claim.name, &change).await {
            Ok(changed) => *claim = storage::Claim::of(&changed),
            Err(Error::Kube(kube::Error::Api(status))) if matches!(status.code, 403 | 422) => {
                refused = Some((claim.name.clone(), status.message.clone()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(storage::growth(&observed.claims, &volume, refused)))
}

/// The volume of each server, when the cluster wants one.
fn volume(cluster: &NatsCluster) -> Option<Volume> {
    cluster.jetstream()?;
    cluster.spec.storage.wanted_volume()
}

/// Writes every object of the cluster. Returns the StatefulSet as the API server has it now; `None` while it is being made anew, because
/// its templates of claims, which never change, are no longer those that are wanted.
async fn apply(
    pass: &Pass<'_>,
    observed: &Observed,
    material: &Material,
    (rendered, wanted, scale): (&Rendered, &Wanted, &Scale),
) -> Result<Option<StatefulSet>, Error> {
    let (writer, identity, cluster) = (&pass.context.writer, pass.identity, pass.cluster);
    let namespace = &identity.namespace;
    if let Some(account) = services::service_account(identity, cluster) {
        writer.apply(namespace, &account).await?;
    }
    if let Some(authority) = &material.authority {
        writer.apply(namespace, &secrets::authority_bundle(identity, authority)).await?;
    }
    let known = observed.config.as_ref().map_or("", |stored| stored.known.as_str());
    let known = match observed.client_certificate() {
        Some(chain) => trust::remember(&chain, known)?,
        None => String::new(),
    };
    let config = secrets::config(identity, &rendered.text, &known, (&wanted.hash, &wanted.restart_hash));
    writer.apply(namespace, &config).await?;
    writer.apply(namespace, &services::headless(identity, cluster)).await?;
    writer.apply(namespace, &services::client(identity, cluster)).await?;
    match policies::disruption_budget(identity, cluster, all_well(cluster, observed)) {
        Some(budget) => {
            writer.apply(namespace, &budget).await?;
        }
        None => writer.delete::<PodDisruptionBudget>(identity, &identity.name).await?,
    }
    let image = image(cluster, pass.context);
    let claim_size = volume(cluster).map(|volume| storage::template_size(&observed.claims, &volume));
    let inputs = stateful_set::Inputs {
        replicas: scale.replicas,
        image: &image,
        restart_hash: &wanted.restart_hash,
        tls: &material.tls,
        claim_size: claim_size.as_deref(),
    };
    let wanted = stateful_set::build(identity, cluster, &inputs);
    match &observed.stateful_set {
        Some(live) if live.metadata.deletion_timestamp.is_some() => Ok(None),
        Some(live) if storage::needs_new_stateful_set(live, &wanted) => {
            tracing::info!(cluster = identity.name, "the StatefulSet is made anew, its pods stay");
            writer.replace_stateful_set(namespace, live).await?;
            Ok(None)
        }
        _ => writer.apply(namespace, &wanted).await.map(Some),
    }
}

/// The image that servers of a cluster should run.
#[must_use]
pub fn image(cluster: &NatsCluster, context: &Context) -> String {
    let named = cluster.spec.image.as_ref().and_then(crd::nats_cluster::pod::Image::reference);
    named.unwrap_or_else(|| context.settings.nats_image.clone())
}

/// Every server is ready and none is to be replaced or to leave.
fn all_well(cluster: &NatsCluster, observed: &Observed) -> bool {
    let wanted = usize::try_from(cluster.desired_replicas()).unwrap_or(0);
    let revision = observed.stateful_set.as_ref().and_then(current_revision);
    observed.servers.len() == wanted
        && observed
            .servers
            .iter()
            .all(|server| server.is_ready() && revision.as_ref() == Some(&server.revision))
}

/// The revision that new pods are made from; `None` until the StatefulSet's own controller has seen the last change.
fn current_revision(set: &StatefulSet) -> Option<String> {
    let status = set.status.as_ref()?;
    if status.observed_generation != set.metadata.generation {
        return None;
    }
    status.update_revision.clone()
}

/// Writes the hash on the pods, which makes their kubelets refresh the mounted files.
async fn annotate_pods(pass: &Pass<'_>, observed: &mut Observed, wanted: &Wanted) -> Result<(), Error> {
    for server in observed.servers.iter_mut().filter(|server| !server.stopping) {
        if server.annotated_hash.as_deref() == Some(wanted.hash.as_str()) {
            continue;
        }
        let writer = &pass.context.writer;
        let namespace = &pass.identity.namespace;
        writer.annotate_pod(namespace, &server.pod, annotation::CONFIG_HASH, &wanted.hash).await?;
        server.annotated_hash = Some(wanted.hash.clone());
    }
    Ok(())
}

/// Takes the next step of a replacement of pods. True when a pod was sent away.
async fn roll(pass: &Pass<'_>, observed: &Observed, outcome: &mut Outcome) -> Result<bool, Error> {
    let expected: Vec<String> =
        (0..pass.cluster.desired_replicas()).map(|ordinal| pass.identity.pod(ordinal)).collect();
    let Some(revision) = outcome.revision.clone() else {
        outcome.step = Some(Step::Wait { waiting_for: "the StatefulSet controller".to_owned() });
        return Ok(false);
    };
    let update = &pass.cluster.spec.update;
    let step = plan::next(&Rollout {
        revision: &revision,
        expected: &expected,
        servers: &observed.servers,
        jetstream: pass.cluster.jetstream().is_some(),
        strategy: update.strategy,
        forced: pass.cluster.annotation(annotation::FORCE_ROLLOUT),
        settle: signed("update.settle", &update.settle)?,
        ready_timeout: signed("update.readyTimeout", &update.ready_timeout)?,
        now: pass.now,
    });
    outcome.step = Some(step.clone());
    let Step::Restart { pod, uid, forced } = step else {
        return Ok(false);
    };
    pass.context.writer.delete_pod(&pass.identity.namespace, &pod, &uid).await?;
    let why = if forced { "as the annotation asks" } else { "the others are ready" };
    tracing::info!(cluster = pass.identity.name, pod, forced, "replacing a pod");
    let note = format!("replacing {pod}: {why}");
    let mut event = events::event(EventType::Normal, "PodRestarting", "Rollout", note);
    // Names the pod, or the events of several pods would be folded into one.
    event.secondary = Some(ObjectReference {
        kind: Some("Pod".to_owned()),
        api_version: Some("v1".to_owned()),
        namespace: Some(pass.identity.namespace.clone()),
        name: Some(pod),
        uid: Some(uid),
        ..ObjectReference::default()
    });
    events::publish(pass.context, pass.cluster, &event).await;
    Ok(true)
}

fn signed(field: &'static str, text: &crd::common::Duration) -> Result<SignedDuration, Error> {
    let duration = text.parse().map_err(|source| SpecError::Duration { field, source })?;
    Ok(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}

/// Reloads the servers that run another configuration, one after another, and stops at the first that does not prove it.
async fn reload_servers(
    pass: &Pass<'_>,
    observed: &mut Observed,
    wanted: &Wanted,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let Some(access) = Access::new(pass.identity, pass.cluster, observed)? else {
        return Ok(());
    };
    loop {
        let progress = reload::next(&observed.servers, &wanted.hash, &wanted.restart_hash);
        outcome.reload = Some(progress.clone());
        let reload::Progress::Reload { pod } = progress else {
            return Ok(());
        };
        let Some(server) = observed.servers.iter_mut().find(|server| server.pod == pod) else {
            return Ok(());
        };
        let Some(target) = access.target(server) else {
            return Ok(());
        };
        let answer = system::reload(&target).await;
        let proved = matches!(&answer, Ok(Reloaded::Done(report)) if report.config_hash.as_deref() == Some(&wanted.hash));
        let word = match &answer {
            Ok(Reloaded::Refused(_)) => "refused",
            _ if proved => "applied",
            _ => "failed",
        };
        let labels = [pass.identity.namespace.as_str(), pass.identity.name.as_str(), word];
        pass.context.metrics.reloads.with_label_values(&labels).inc();
        match answer {
            Ok(Reloaded::Done(report)) if proved => {
                tracing::info!(
                    cluster = pass.identity.name,
                    pod,
                    hash = wanted.hash,
                    "a server took its configuration"
                );
                server.report = Some(report);
                outcome.reloaded = true;
            }
            // The file has not reached the pod yet.
            Ok(Reloaded::Done(_)) => return Ok(()),
            Ok(Reloaded::Refused(text)) => {
                outcome.refused = Some((pod, text));
                return Ok(());
            }
            Err(error) => {
                tracing::debug!(pod, %error, "a server did not answer the reload");
                return Ok(());
            }
        }
    }
}

/// Writes the status and the events of what changed, and says when to look again.
async fn report(pass: &Pass<'_>, observed: &Observed, outcome: Outcome) -> Result<Action, Error> {
    let old = pass.cluster.status.clone().unwrap_or_default();
    let image = image(pass.cluster, pass.context);
    let (status, transitions) = status::build(pass, observed, &outcome, &image);
    status::record_metrics(pass, &status);
    if Some(&status) != pass.cluster.status.as_ref() {
        pass.context.writer.status(pass.cluster, &status).await?;
    }
    for finding in &transitions {
        let before = crd::conditions::find(&old.conditions, finding.type_);
        // The first configuration comes with the first start, not with a reload.
        if finding.reason == "Applied"
            && old.config.as_ref().is_none_or(|config| config.applied_hash.is_none())
        {
            continue;
        }
        if let Some(event) = events::of_transition(before, finding) {
            events::publish(pass.context, pass.cluster, &event).await;
        }
    }
    match outcome.error {
        Some(error) if error.stalled_reason().is_none() => Err(error),
        Some(_) => Ok(Action::requeue(IDLE)),
        // A person has to act, and the watches tell when that happened; asking a server again and again helps nobody.
        None if outcome.refused.is_some() => Ok(Action::requeue(IDLE)),
        None if matches!(outcome.step, Some(Step::Stalled { .. } | Step::Approve { .. })) => {
            Ok(Action::requeue(IDLE))
        }
        None if status::is_settled(&status) => Ok(Action::requeue(IDLE)),
        None => Ok(Action::requeue(BUSY)),
    }
}

/// Pods whose StatefulSet was being made anew when the cluster was deleted belong to nobody. Gives them one that takes them with it. True
/// while that is under way.
async fn gather_orphans(pass: &Pass<'_>) -> Result<bool, Error> {
    let observed = observe::objects(&pass.context.client, pass.identity, pass.cluster).await?;
    if !observed.servers.iter().any(|server| server.orphan && !server.stopping) {
        return Ok(false);
    }
    if observed.stateful_set.is_some() {
        return Ok(true);
    }
    let inputs =
        stateful_set::Inputs { replicas: 0, image: "none", restart_hash: "", tls: &[], claim_size: None };
    let set = stateful_set::build(pass.identity, pass.cluster, &inputs);
    match pass.context.writer.apply(&pass.identity.namespace, &set).await {
        // A namespace that is going takes no new objects, and takes the pods with it.
        Err(Error::Kube(kube::Error::Api(status))) if status.code == 403 => Ok(false),
        result => result.map(|_| true),
    }
}

/// Removes what belongs to a cluster that is being deleted, then lets it go.
async fn remove(pass: &Pass<'_>) -> Result<Action, Error> {
    let (writer, identity) = (&pass.context.writer, pass.identity);
    let namespace = &identity.namespace;
    if gather_orphans(pass).await? {
        return Ok(Action::requeue(BUSY));
    }
    writer.delete::<StatefulSet>(identity, &identity.name).await?;
    writer.delete::<PodDisruptionBudget>(identity, &identity.name).await?;
    for name in [identity.name.clone(), identity.headless()] {
        writer.delete::<Service>(identity, &name).await?;
    }
    if let Some(account) = services::service_account(identity, pass.cluster) {
        writer.delete::<ServiceAccount>(identity, &account.name_any()).await?;
    }
    writer.delete::<ConfigMap>(identity, &identity.authority_bundle()).await?;
    let mut names = vec![identity.config()];
    names.extend([files::CLIENTS, files::ROUTES].map(|listener| identity.certificate(listener)));
    if !identity.retains() {
        names.extend([identity.authority(), identity.operator()]);
    }
    for name in names {
        writer.delete::<Secret>(identity, &name).await?;
    }
    let note = "servers, services and secrets of the cluster are being removed".to_owned();
    events::publish(pass.context, pass.cluster, &events::event(EventType::Normal, "Deleted", "Delete", note))
        .await;
    pass.context.metrics.forget(namespace, &identity.name);
    writer.set_finalizer(pass.cluster, false).await?;
    Ok(Action::await_change())
}
