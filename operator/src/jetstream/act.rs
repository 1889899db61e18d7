//! Takes the one step that was decided.

use std::sync::Arc;

use api::jetstream::consumer::{ConsumerAction, ConsumerConfig, ConsumerInfo};
use api::jetstream::stream::StreamConfig;

use super::api::Js;
use super::asset::{Asset, Found, Status, Target};
use super::compare::{changes, fields, overlay};
use super::pass::Pass;
use super::plan::{Config, Plan, Step, normal_consumer, normal_stream};
use super::pool::Shared;
use super::problem::Problem;
use super::report::Decision;

/// Where a step is taken.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The connection.
    pub shared: &'a Arc<Shared>,
    /// The API through it.
    pub js: Js<'a>,
}

/// What a step is called when it is done.
fn done<C>(plan: &Plan<C>, spec_changed: bool) -> &'static str {
    match &plan.step {
        Step::Create(_) => "Created",
        Step::Update(_) if plan.adopts => "Adopted",
        Step::Update(_) if spec_changed => "Updated",
        Step::Update(_) => "DriftCorrected",
        Step::Recreate => "Recreated",
        _ => "Updated",
    }
}

/// Whether the step may be taken at all; the decision as it stands when it may not.
fn held<C, K: Asset>(pass: &Pass<'_, K>, plan: &Plan<C>, exists: bool) -> Option<Decision> {
    (!plan.writes() || pass.brakes.any()).then(|| Decision::of(plan, exists))
}

/// Notes which configuration is on the server.
fn applied<K: Asset>(status: &mut K::Status, hash: &str) {
    hash.clone_into(&mut status.report_mut().last_applied_hash);
}

/// Takes a step for a stream.
///
/// # Errors
/// When the server does not answer or refuses, or the object changed.
pub async fn stream<K: Asset>(
    pass: &Pass<'_, K>,
    site: &Site<'_>,
    (target, plan): (&Target, Plan<StreamConfig>),
    (found, status): (&mut Option<Found>, &mut K::Status),
    hash: &str,
) -> Result<Decision, Problem> {
    let spec_changed = status.report().last_applied_hash != hash;
    if let Some(decision) = held(pass, &plan, found.is_some()) {
        if plan.step == Step::Nothing {
            applied::<K>(status, hash);
        }
        return Ok(decision);
    }
    pass.confirm().await?;
    let name = target.stream.as_str();
    site.shared.wrote(target);
    match &plan.step {
        Step::Create(config) => {
            let info = site.js.put_stream("CREATE", name, config.as_ref()).await?;
            keep(pass, hash, &normal_stream(&info.config), config.as_ref());
            *found = Some(Found::Stream(Box::new(info)));
            // Who may not read advisories is not told by the server.
            pass.state.wake(pass.state.index.consumers_of(site.shared.key, name));
        }
        Step::Update(config) => {
            let present = site.js.stream_fields(name).await?;
            let known = match found.as_ref() {
                Some(Found::Stream(info)) => fields(&info.config),
                _ => serde_json::Map::new(),
            };
            let body = overlay(&present, &known, &fields(config.as_ref()));
            let info = site.js.put_stream("UPDATE", name, &body).await?;
            keep(pass, hash, &normal_stream(&info.config), config.as_ref());
            *found = Some(Found::Stream(Box::new(info)));
        }
        Step::Recreate => {
            site.js.delete_stream(name).await?;
            *found = None;
        }
        Step::Nothing | Step::Leave | Step::Refuse(_) | Step::Pause(_) => {}
    }
    if plan.step != Step::Recreate {
        applied::<K>(status, hash);
    }
    tracing::info!(
        kind = K::KIND,
        namespace = pass.key.namespace,
        name = pass.key.name,
        stream = name,
        action = plan.action(),
        reason = plan.reason,
        "wrote to a server"
    );
    Ok(Decision::done(&plan, done(&plan, spec_changed)))
}

/// Notes what a server made of a request, so that it is not asked for the same again and again: fields that are not as they were asked for.
fn keep<K: Asset, C: Config>(pass: &Pass<'_, K>, hash: &str, after: &C, wanted: &C) {
    // Marks are compared apart, placement comes after replicas, and a pause has a request of its own.
    let apart = ["metadata", "placement", "pause_until"];
    let kept: Vec<_> =
        changes(after, wanted).into_iter().filter(|change| !apart.contains(&change.field.as_str())).collect();
    pass.state.remember(&pass.uid, |memory| {
        memory.kept = kept;
        hash.clone_into(&mut memory.kept_for);
    });
}

/// Takes a step for a consumer. `resume` is where it would go on if it were made anew now.
///
/// # Errors
/// When the server does not answer or refuses, or the object changed.
pub async fn consumer<K: Asset>(
    pass: &Pass<'_, K>,
    site: &Site<'_>,
    (target, plan, resume): (&Target, Plan<ConsumerConfig>, Option<u64>),
    (found, status): (&mut Option<Found>, &mut K::Status),
    hash: &str,
) -> Result<Decision, Problem> {
    let spec_changed = status.report().last_applied_hash != hash;
    if let Some(decision) = held(pass, &plan, found.is_some()) {
        if plan.step == Step::Nothing {
            applied::<K>(status, hash);
            status.set_resume_at(None);
        }
        return Ok(decision);
    }
    pass.confirm().await?;
    let (stream, name) = (target.stream.as_str(), target.consumer.as_deref().unwrap_or_default());
    site.shared.wrote(target);
    match &plan.step {
        Step::Create(config) => {
            let info =
                site.js.put_consumer(stream, name, fields(config.as_ref()), ConsumerAction::Create).await?;
            keep_consumer(pass, hash, &info, config);
            *found = Some(Found::Consumer(Box::new(info)));
        }
        Step::Update(config) => {
            let present = site.js.consumer_fields(stream, name).await?;
            let mut known = match found.as_ref() {
                Some(Found::Consumer(info)) => info.config.as_ref().map(fields).unwrap_or_default(),
                _ => serde_json::Map::new(),
            };
            // Servers keep the pause they have.
            known.remove("pause_until");
            let body = overlay(&present, &known, &fields(config.as_ref()));
            let info = site.js.put_consumer(stream, name, body, ConsumerAction::Update).await?;
            keep_consumer(pass, hash, &info, config);
            *found = Some(Found::Consumer(Box::new(info)));
        }
        Step::Recreate => {
            // Written before anything is lost: who comes after a crash finds where to go on.
            if status.resume_at() != resume {
                let before = status.clone();
                status.set_resume_at(resume);
                pass.write(&before, status).await?;
            }
            site.js.delete_consumer(stream, name).await?;
            *found = None;
        }
        Step::Pause(until) => {
            site.js.pause(stream, name, *until).await?;
            *found = site.js.look(target).await?;
        }
        Step::Nothing | Step::Leave | Step::Refuse(_) => {}
    }
    if plan.step != Step::Recreate {
        applied::<K>(status, hash);
        status.set_resume_at(None);
    }
    tracing::info!(
        kind = K::KIND,
        namespace = pass.key.namespace,
        name = pass.key.name,
        stream,
        consumer = name,
        action = plan.action(),
        reason = plan.reason,
        "wrote to a server"
    );
    Ok(Decision::done(&plan, done(&plan, spec_changed)))
}

fn keep_consumer<K: Asset>(pass: &Pass<'_, K>, hash: &str, info: &ConsumerInfo, wanted: &ConsumerConfig) {
    if let Some(after) = &info.config {
        // Whatever its stream would fill in, the server has filled in.
        keep(pass, hash, &normal_consumer(after, &StreamConfig::default()), wanted);
    }
}
