//! The end of an object: what becomes of what it managed, and when its finalizer goes.

use std::sync::Arc;
use std::time::Duration;

use crd::annotation;
use crd::jetstream::FIELD_MANAGER;
use crd::jetstream::metadata::OWNER;
use crd::jetstream::options::{DeletionPolicy, DeletionProtection};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::api::Js;
use super::asset::{Asset, Found, Status, Target};
use super::pass::Pass;
use super::plan::{self, Removal};
use super::pool::Shared;
use super::problem::Problem;
use super::report;
use super::state::label;
use crate::error::Error;
use crate::events;

/// Longest time to wait for an answer of a connection that was left over.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a namespace that ends waits for a server that does not answer.
const NAMESPACE_PATIENCE: Duration = Duration::from_secs(1800);
/// Longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What became of the end.
enum End {
    /// The finalizer may go; what to tell about it.
    Released(EventType, &'static str, String),
    /// Not yet.
    Waits(Problem),
}

/// A pass over an object that is being deleted.
///
/// # Errors
/// When the API server is in the way, or a test stops the operator.
pub async fn run<K: Asset>(pass: &Pass<'_, K>) -> Result<Action, Error> {
    if !pass.object.finalizers().iter().any(|finalizer| finalizer == K::FINALIZER) {
        pass.state.forget(&pass.key, &pass.uid);
        return Ok(Action::await_change());
    }
    let end = if pass.only_looks() {
        End::Released(
            EventType::Normal,
            "Retained",
            "mode is Observe: nothing was written to the server".to_owned(),
        )
    } else if pass.brakes.any() {
        End::Waits(Problem::transient("Paused", "the annotations hold up the end: nothing is written"))
    } else {
        match end(pass).await {
            Ok(end) => end,
            Err(Problem::Operator(error)) => return Err(error),
            Err(problem) => give_up(pass, problem).await?,
        }
    };
    match end {
        End::Released(type_, reason, note) => {
            let writer = &pass.state.context.writer;
            writer.set_finalizer_of(pass.object, K::FINALIZER, FIELD_MANAGER, false).await?;
            tracing::info!(object = label(&pass.key), reason, note, "an object may go");
            let event = events::event(type_, reason, "Finalize", note);
            pass.state.publish(&pass.object.object_ref(&()), &event).await;
            pass.state.forget(&pass.key, &pass.uid);
            Ok(Action::await_change())
        }
        End::Waits(problem) => wait(pass, &problem).await,
    }
}

/// Decides and acts. An error says why it could not.
async fn end<K: Asset>(pass: &Pass<'_, K>) -> Result<End, Problem> {
    let Some(target) = pass.object.target() else {
        return Ok(End::Released(
            EventType::Normal,
            "Deleted",
            "it never had a name that a server takes".to_owned(),
        ));
    };
    let (shared, timeout, missing) = connect(pass, &target).await?;
    let js = shared.js(timeout, &pass.state.context.metrics);
    let (metadata, is_empty) = match (look(&js, &target).await, missing) {
        (Ok(Some((metadata, is_empty))), _) => (Some(metadata), is_empty),
        (Ok(None), _) => (None, true),
        // What was left over leads nowhere: what counts is why it was needed.
        (Err(_), Some(missing)) => return Err(missing),
        (Err(problem), None) => return Err(problem),
    };
    let options = pass.object.options();
    let mark = pass.mark().await?;
    let retain =
        options.deletion(pass.state.context.settings.default_deletion_policy) == DeletionPolicy::Retain;
    let overridden = pass.object.annotations().get(annotation::DELETION_OVERRIDE) == Some(&pass.key.name);
    let protected = options.deletion_protection == DeletionProtection::NonEmpty && !overridden;
    let observed = metadata.as_ref().map(|metadata| (metadata, is_empty));
    let what = target.consumer.as_ref().map_or_else(
        || format!("stream `{}`", target.stream),
        |name| format!("consumer `{name}` of stream `{}`", target.stream),
    );
    match plan::removal(observed, mark.as_ref(), options.adoption_policy, (retain, protected)) {
        Removal::Gone => Ok(End::Released(EventType::Normal, "Deleted", format!("{what} is gone"))),
        Removal::Foreign(other) => {
            let text = format!("{what} is managed by {other} and was left");
            Ok(End::Released(EventType::Warning, "Retained", text))
        }
        Removal::Retain { marked } => {
            if marked {
                pass.state.context.writer.checkpoint()?;
                unmark(&js, &target).await?;
            }
            Ok(End::Released(EventType::Normal, "Retained", format!("{what} stays on the server")))
        }
        Removal::Protected => Ok(End::Waits(Problem::stalled(
            "Protected",
            format!(
                "{what} is not empty and deletionProtection is NonEmpty: empty it, or annotate the object with {}: {}",
                annotation::DELETION_OVERRIDE,
                pass.key.name
            ),
        ))),
        Removal::Delete => {
            pass.state.context.writer.checkpoint()?;
            delete(&js, &shared, &target).await?;
            match look(&js, &target).await? {
                None => Ok(End::Released(EventType::Normal, "Deleted", format!("{what} was deleted"))),
                Some(_) => Ok(End::Waits(Problem::transient("NatsError", format!("{what} is still there")))),
            }
        }
    }
}

/// The connection of the object. When what it was made from is gone, the one that is left over, and what is missing.
async fn connect<K: Asset>(
    pass: &Pass<'_, K>,
    target: &Target,
) -> Result<(Arc<Shared>, Duration, Option<Problem>), Problem> {
    let problem = match pass.connect(target).await {
        Ok((shared, timeout)) => return Ok((shared, timeout, None)),
        Err(problem) => problem,
    };
    // A grant that was withdrawn counts at once.
    let missing =
        matches!(problem.stalled_reason(), Some("SecretMissing" | "AccountMissing" | "ClusterMissing"));
    let leftover = pass.state.index.session_of(&pass.key).and_then(|key| pass.state.pool.find(key));
    match leftover.filter(|_| missing) {
        Some(shared) => Ok((shared, LEFTOVER_TIMEOUT, Some(problem))),
        None => Err(problem),
    }
}

type Metadata = std::collections::BTreeMap<String, String>;

/// What is there: its metadata, and whether it is empty.
async fn look(js: &Js<'_>, target: &Target) -> Result<Option<(Metadata, bool)>, Problem> {
    Ok(js.look(target).await?.map(|found| match found {
        Found::Stream(info) => (info.config.metadata, info.state.messages == 0),
        Found::Consumer(info) => {
            let is_empty = info.num_pending == 0 && info.num_ack_pending == 0;
            (info.config.unwrap_or_default().metadata, is_empty)
        }
    }))
}

/// Takes off the mark, and nothing else.
async fn unmark(js: &Js<'_>, target: &Target) -> Result<(), Problem> {
    let without_mark = |mut config: serde_json::Map<String, Value>| {
        if let Some(Value::Object(metadata)) = config.get_mut("metadata") {
            metadata.retain(|key, _| key != OWNER && !key.starts_with("_nats."));
        }
        config
    };
    match &target.consumer {
        None => {
            let config = without_mark(js.stream_fields(&target.stream).await?);
            js.put_stream("UPDATE", &target.stream, &config).await.map(|_| ())
        }
        Some(name) => {
            let config = without_mark(js.consumer_fields(&target.stream, name).await?);
            let action = api::jetstream::consumer::ConsumerAction::Update;
            js.put_consumer(&target.stream, name, config, action).await.map(|_| ())
        }
    }
}

async fn delete(js: &Js<'_>, shared: &Shared, target: &Target) -> Result<(), Problem> {
    shared.wrote(target);
    match &target.consumer {
        None => js.delete_stream(&target.stream).await,
        Some(name) => js.delete_consumer(&target.stream, name).await,
    }
}

/// What cannot be reached any more must not hold up the end for ever.
async fn give_up<K: Asset>(pass: &Pass<'_, K>, problem: Problem) -> Result<End, Error> {
    let release = |note: String| Ok(End::Released(EventType::Warning, "Retained", note));
    if !pass.status().existed() && problem.stalled_reason().is_some() {
        return release(format!("nothing was ever made for this object: {problem}"));
    }
    match problem.stalled_reason() {
        Some("GrantMissing") => return release(format!("what is on the server stays: {problem}")),
        Some("ClusterMissing") => return release(format!("the cluster is gone: {problem}")),
        Some("SecretMissing" | "AccountMissing") if namespace_is_ending(pass).await? => {
            return release(format!(
                "the namespace goes with its credentials, what is on the server stays: {problem}"
            ));
        }
        _ => {}
    }
    let since = pass.object.meta().deletion_timestamp.as_ref();
    let waited = since.map(|since| pass.now.duration_since(since.0).unsigned_abs()).unwrap_or_default();
    let patience = pass.state.context.settings.finalizer_timeout;
    let impatient = !patience.is_zero() && waited >= patience;
    if impatient || (waited >= NAMESPACE_PATIENCE && namespace_is_ending(pass).await?) {
        return release(format!(
            "given up after {} s, what is on the server stays: {problem}",
            waited.as_secs()
        ));
    }
    Ok(End::Waits(problem))
}

async fn namespace_is_ending<K: Asset>(pass: &Pass<'_, K>) -> Result<bool, Error> {
    let api: Api<Namespace> = Api::all(pass.state.context.client.clone());
    match api.get_metadata_opt(&pass.key.namespace).await {
        Ok(found) => Ok(found.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some())),
        Err(error) => Err(error.into()),
    }
}

/// Says what the end waits for.
async fn wait<K: Asset>(pass: &Pass<'_, K>, problem: &Problem) -> Result<Action, Error> {
    let before = pass.status();
    let mut status = before.clone();
    let generation = pass.object.meta().generation.unwrap_or_default();
    let inner = status.report_mut();
    inner.observed_generation = Some(generation);
    inner.last_error = problem.to_string();
    let events = report::merge(&mut inner.conditions, &report::leaving(problem), generation, pass.now);
    pass.write(&before, &status).await?;
    for event in events {
        pass.state.publish(&pass.object.object_ref(&()), &event).await;
    }
    if problem.is_unreachable()
        && let Some(key) = pass.state.index.session_of(&pass.key)
    {
        pass.state.doubt(key);
    }
    Ok(Action::requeue(pass.state.context.backoff(&label(&pass.key)).min(PAUSE_MAX)))
}
