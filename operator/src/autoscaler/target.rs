//! What is scaled: read and written by its `scale` subresource alone, whatever its kind.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crd::nats_autoscaler::TargetRef;
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::pinned_kind;
use parking_lot::Mutex;

use crate::context::Context;
use crate::error::Error;

/// How long it is believed how a kind is called in the paths of the API, and whether it can be scaled.
const KIND_AGE_MAX: Duration = Duration::from_secs(300);
/// Kinds that are remembered at most; who asks for more asks the API server.
const KINDS_MAX: usize = 256;

/// What a target asks for and has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How its kind is called in the paths of the API.
    pub resource: ApiResource,
    /// Replicas that it asks for.
    pub wanted: i32,
    /// Replicas that there are.
    pub present: i32,
    /// Which pods are its own, as it says itself.
    pub selector: Option<String>,
    /// Version that was looked at; a write on another one is refused.
    pub version: Option<String>,
}

/// Why a target cannot be scaled: the reason of `ScalingActive`, and what to do.
pub type Unscalable = (&'static str, String);

/// Kinds that were looked up, so that not every look asks again.
#[derive(Default)]
pub struct Kinds(Mutex<HashMap<KindKey, (Instant, ApiResource)>>);

/// API version and kind.
type KindKey = (String, String);

impl Kinds {
    /// The resource of a kind; `None` when there is no such kind, or it serves no `scale`.
    async fn find(&self, context: &Context, target: &TargetRef) -> Result<Option<ApiResource>, Error> {
        let (group, version) = target.api_version.rsplit_once('/').unwrap_or(("", &target.api_version));
        let kind = GroupVersionKind::gvk(group, version, &target.kind);
        if target.api_version == "apps/v1"
            && matches!(target.kind.as_str(), "Deployment" | "StatefulSet" | "ReplicaSet")
        {
            return Ok(Some(ApiResource::from_gvk(&kind)));
        }
        let key = (target.api_version.clone(), target.kind.clone());
        if let Some((at, found)) = self.0.lock().get(&key)
            && at.elapsed() < KIND_AGE_MAX
        {
            return Ok(Some(found.clone()));
        }
        let found = match pinned_kind(&context.client, &kind).await {
            Ok((resource, capabilities)) => {
                let scales = |(sub, _): &(ApiResource, _)| sub.plural == "scale";
                capabilities.subresources.iter().any(scales).then_some(resource)
            }
            Err(kube::Error::Discovery(_)) => None,
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => return Err(error.into()),
        };
        let mut kinds = self.0.lock();
        kinds.retain(|_, (at, _)| at.elapsed() < KIND_AGE_MAX);
        // One that is not there yet may come at any moment.
        if let Some(found) = &found
            && kinds.len() < KINDS_MAX
        {
            kinds.insert(key, (Instant::now(), found.clone()));
        }
        Ok(found)
    }
}

fn api(context: &Context, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(context.client.clone(), namespace, resource)
}

/// Reads a target, or says why it cannot be scaled.
///
/// # Errors
/// When the API server does not answer.
pub async fn read(
    context: &Context,
    kinds: &Kinds,
    namespace: &str,
    target: &TargetRef,
) -> Result<Result<Target, Unscalable>, Error> {
    let name = format!("{} `{}`", target.kind, target.name);
    let Some(resource) = kinds.find(context, target).await? else {
        let text = format!(
            "{} of {} is no kind that serves scale: correct scaleTargetRef",
            target.kind, target.api_version
        );
        return Ok(Err(("TargetNotScalable", text)));
    };
    match api(context, namespace, &resource).get_scale(&target.name).await {
        Ok(scale) => Ok(Ok(of(&scale, resource))),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Ok(Err(("TargetMissing", format!("there is no {name}: create it or correct scaleTargetRef"))))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let text = format!(
                "the operator may not scale {name}: add {{group: {}, resource: {}}} to the chart's value autoscaler.targets",
                resource.group, resource.plural
            );
            Ok(Err(("TargetForbidden", text)))
        }
        Err(error) => Err(error.into()),
    }
}

fn of(scale: &Scale, resource: ApiResource) -> Target {
    Target {
        resource,
        wanted: scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0),
        present: scale.status.as_ref().map_or(0, |status| status.replicas),
        selector: scale.status.as_ref().and_then(|status| status.selector.clone()),
        version: scale.metadata.resource_version.clone(),
    }
}

/// Asks a target for so many replicas. False when it changed since it was read; the next look sees how.
///
/// # Errors
/// When the API server does not answer, or refuses.
pub async fn write(
    context: &Context,
    namespace: &str,
    name: &str,
    target: &Target,
    replicas: i32,
) -> Result<bool, Error> {
    let version = target.version.as_deref();
    let change =
        serde_json::json!({ "metadata": { "resourceVersion": version }, "spec": { "replicas": replicas } });
    match context.writer.scale(namespace, &target.resource, name, &change).await {
        Ok(()) => Ok(true),
        Err(Error::Kube(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}
