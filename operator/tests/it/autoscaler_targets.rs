//! Targets of other kinds: whatever serves `scale` and may be scaled.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::autoscaler::{
    apply, consumer, make_of_kind, make_stream_and_consumer, publish, quick, until_condition, workload, world,
};
use crate::chart::rights;
use crate::support::until;
use crate::support::world::World;

fn parameters() -> PatchParams {
    PatchParams::apply("person").force()
}

#[tokio::test]
async fn a_replicaset_is_scaled() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 35).await;
    let sets = world.api::<ReplicaSet>();
    sets.patch("workers", &parameters(), &Patch::Apply(&workload("ReplicaSet", 0))).await.unwrap();
    let target = json!({ "scaleTargetRef": { "kind": "ReplicaSet", "name": "workers" } });
    apply(&world, "scaler", quick(consumer(), target)).await.unwrap();
    until("four replicas", async || {
        (sets.get("workers").await.unwrap().spec.unwrap().replicas == Some(4)).then_some(())
    })
    .await;
}

/// A kind with the subresource, and an object of it.
async fn make_a_crew(world: &World) -> Api<DynamicObject> {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "crews.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "crews", "singular": "crew", "kind": "Crew" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
                                    "status": schema },
                } },
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                } },
            }],
        },
    });
    let crew = json!({
        "apiVersion": "example.com/v1", "kind": "Crew", "metadata": { "name": "workers" }, "spec": { "replicas": 0 },
    });
    make_of_kind(world, &definition, &crew).await
}

/// Gives the rights that the chart gives when its values list crews.
async fn let_crews_be_scaled(world: &World) {
    let values = json!({ "autoscaler": { "targets": [{ "group": "example.com", "resource": "crews" }] } });
    for object in rights(values).unwrap() {
        let name = object["metadata"]["name"].as_str().unwrap();
        match object["kind"].as_str().unwrap() {
            "ClusterRole" => {
                let roles: Api<ClusterRole> = Api::all(world.client.clone());
                roles.patch(name, &parameters(), &Patch::Apply(&object)).await.unwrap();
            }
            "ClusterRoleBinding" => {
                let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
                bindings.patch(name, &parameters(), &Patch::Apply(&object)).await.unwrap();
            }
            // Those of its own namespace have nothing to do with targets.
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_kind_of_somebody_else_is_scaled_when_that_is_allowed() {
    let world = world().await;
    make_stream_and_consumer(&world).await;
    publish(&world, 35).await;
    let crews = make_a_crew(&world).await;
    let target =
        json!({ "scaleTargetRef": { "kind": "Crew", "apiVersion": "example.com/v1", "name": "workers" } });
    apply(&world, "scaler", quick(consumer(), target)).await.unwrap();
    let object = until_condition(&world, "scaler", "ScalingActive", "False", "TargetForbidden").await;
    let text = format!("{:?}", object.status.unwrap().conditions);
    assert!(
        text.contains("{group: example.com, resource: crews} to the chart's value autoscaler.targets"),
        "{text}"
    );
    let_crews_be_scaled(&world).await;
    until("four replicas", async || {
        (crews.get("workers").await.unwrap().data["spec"]["replicas"] == 4).then_some(())
    })
    .await;

    for (name, kind, version) in
        [("daemons", "DaemonSet", "apps/v1"), ("ghosts", "Ghost", "nowhere.example/v1")]
    {
        let target = json!({ "scaleTargetRef": { "kind": kind, "apiVersion": version, "name": "workers" } });
        apply(&world, name, quick(consumer(), target)).await.unwrap();
        until_condition(&world, name, "ScalingActive", "False", "TargetNotScalable").await;
    }
}
