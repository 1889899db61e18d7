//! What is scaled: read and written by its `scale` subresource alone.

use crd::nats_autoscaler::{TargetKind, TargetRef};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Api;

use crate::context::Context;
use crate::error::Error;

/// What a target asks for and has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Replicas that it asks for.
    pub wanted: i32,
    /// Replicas that there are.
    pub present: i32,
    /// Version that was looked at; a write on another one is refused.
    pub version: Option<String>,
}

/// Reads a target; `None` when it is not there.
///
/// # Errors
/// When the API server does not answer.
pub async fn read(context: &Context, namespace: &str, target: &TargetRef) -> Result<Option<Target>, Error> {
    let client = context.client.clone();
    let found = match target.kind {
        TargetKind::Deployment => {
            Api::<Deployment>::namespaced(client, namespace).get_scale(&target.name).await
        }
        TargetKind::StatefulSet => {
            Api::<StatefulSet>::namespaced(client, namespace).get_scale(&target.name).await
        }
    };
    match found {
        Ok(scale) => Ok(Some(of(&scale))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn of(scale: &Scale) -> Target {
    Target {
        wanted: scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0),
        present: scale.status.as_ref().map_or(0, |status| status.replicas),
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
    target: &TargetRef,
    version: Option<&str>,
    replicas: i32,
) -> Result<bool, Error> {
    let change =
        serde_json::json!({ "metadata": { "resourceVersion": version }, "spec": { "replicas": replicas } });
    let writer = &context.writer;
    let written = match target.kind {
        TargetKind::Deployment => writer.scale::<Deployment>(namespace, &target.name, &change).await,
        TargetKind::StatefulSet => writer.scale::<StatefulSet>(namespace, &target.name, &change).await,
    };
    match written {
        Ok(()) => Ok(true),
        Err(Error::Kube(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}
