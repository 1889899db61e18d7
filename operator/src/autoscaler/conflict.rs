//! Who else scales the same target. Two hands on one number would pull it to and fro for ever.

use crd::NatsAutoscaler;
use crd::nats_autoscaler::TargetRef;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, ResourceExt};

use crate::context::Context;
use crate::error::Error;

/// The other hand on the target, in words; `None` when there is none.
///
/// # Errors
/// When the API server does not answer: nothing is written without knowing.
pub async fn find(context: &Context, own: &NatsAutoscaler) -> Result<Option<String>, Error> {
    let namespace = own.namespace().ok_or(Error::Incomplete("namespace"))?;
    let target = &own.spec.scale_target_ref;
    let everything = ListParams::default();
    // Who made it says more than what was made: KEDA works through one of the others.
    for object in scaled_objects(context, &namespace).await? {
        if scales(&object, target) {
            return Ok(Some(format!("ScaledObject `{}`", object.name_any())));
        }
    }
    let others: Api<HorizontalPodAutoscaler> = Api::namespaced(context.client.clone(), &namespace);
    for other in others.list(&everything).await? {
        let reference = other.spec.as_ref().map(|spec| &spec.scale_target_ref);
        let same = reference.is_some_and(|reference| {
            // Without a version it is not known which group is meant, and nobody should be scaled by two.
            let version = reference.api_version.as_deref().unwrap_or(&target.api_version);
            target.is(version, &reference.kind, &reference.name)
        });
        if same {
            return Ok(Some(format!("HorizontalPodAutoscaler `{}`", other.name_any())));
        }
    }
    let siblings: Api<NatsAutoscaler> = Api::namespaced(context.client.clone(), &namespace);
    for sibling in siblings.list(&everything).await? {
        let other = &sibling.spec.scale_target_ref;
        let same = target.is(&other.api_version, &other.kind, &other.name);
        if same && sibling.uid() != own.uid() && is_before(&sibling, own) {
            return Ok(Some(format!("NatsAutoscaler `{}`, which is older", sibling.name_any())));
        }
    }
    Ok(None)
}

/// Of two autoscalers for one target the older one scales it.
fn is_before(one: &NatsAutoscaler, other: &NatsAutoscaler) -> bool {
    let key = |object: &NatsAutoscaler| {
        (object.metadata.creation_timestamp.as_ref().map(|time| time.0), object.uid())
    };
    key(one) < key(other)
}

/// KEDA's objects; none where KEDA is not installed.
async fn scaled_objects(context: &Context, namespace: &str) -> Result<Vec<DynamicObject>, Error> {
    let kind = GroupVersionKind::gvk("keda.sh", "v1alpha1", "ScaledObject");
    let resource = ApiResource::from_gvk_with_plural(&kind, "scaledobjects");
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), namespace, &resource);
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn scales(object: &DynamicObject, target: &TargetRef) -> bool {
    let reference = &object.data["spec"]["scaleTargetRef"];
    // KEDA scales Deployments unless it is told otherwise.
    let text = |field: &str, default| reference[field].as_str().unwrap_or(default);
    target.is(text("apiVersion", "apps/v1"), text("kind", "Deployment"), text("name", ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scaled_object(reference: serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "k"},
            "spec": {"scaleTargetRef": reference},
        }))
        .unwrap()
    }

    #[test]
    fn an_object_of_keda_scales_what_it_names() {
        let target = |kind: &str| TargetRef {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: "w".to_owned(),
        };
        assert!(scales(&scaled_object(json!({"name": "w"})), &target("Deployment")));
        assert!(!scales(&scaled_object(json!({"name": "w"})), &target("StatefulSet")));
        assert!(scales(&scaled_object(json!({"name": "w", "kind": "StatefulSet"})), &target("StatefulSet")));
        let rollout = json!({"name": "w", "kind": "Deployment", "apiVersion": "argoproj.io/v1alpha1"});
        assert!(!scales(&scaled_object(rollout), &target("Deployment")), "a kind of another group");
        assert!(!scales(&scaled_object(json!({"name": "other"})), &target("Deployment")));
    }

    #[test]
    fn of_two_the_older_one_scales() {
        let object = |time: &str, uid: &str| -> NatsAutoscaler {
            serde_json::from_value(json!({
                "apiVersion": "myelin.dev/v1alpha1", "kind": "NatsAutoscaler",
                "metadata": {"name": "n", "creationTimestamp": time, "uid": uid},
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "w"}, "maxReplicas": 1, "sources": []},
            }))
            .unwrap()
        };
        let (old, new) = (object("2026-12-01T00:00:00Z", "b"), object("2026-12-02T00:00:00Z", "a"));
        assert!(is_before(&old, &new) && !is_before(&new, &old));
        let same = object("2026-12-01T00:00:00Z", "c");
        assert!(is_before(&old, &same) && !is_before(&same, &old), "one of them in any case");
    }
}
