//! Every write to the API server goes through here: server-side apply under our field manager, nothing else owned.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::error::Error;
use crate::objects::identity::Identity;
use crd::{CLUSTER_FINALIZER, CLUSTER_LABEL, FIELD_MANAGER, NatsCluster, NatsClusterStatus};

/// Stops the operator before one of its writes. Tests use it to show that every half-done pass is finished by the next.
#[derive(Debug)]
pub struct Failpoint {
    writes: AtomicU64,
    stop_before: u64,
}

impl Failpoint {
    /// Lets `stop_before - 1` writes through and none after.
    #[must_use]
    pub fn new(stop_before: u64) -> Arc<Self> {
        Arc::new(Self { writes: AtomicU64::new(0), stop_before })
    }

    /// Writes that were asked for so far.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    fn pass(&self) -> Result<(), Error> {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if number >= self.stop_before { Err(Error::Stopped(number)) } else { Ok(()) }
    }
}

/// An object of a kind that lives in a namespace.
pub trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Serialize
    + DeserializeOwned
    + std::fmt::Debug
    + Send
    + Sync
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
{
}

/// Writes objects.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    failpoint: Option<Arc<Failpoint>>,
}

impl Writer {
    /// A writer over a client.
    #[must_use]
    pub const fn new(client: Client, failpoint: Option<Arc<Failpoint>>) -> Self {
        Self { client, failpoint }
    }

    fn pass(&self) -> Result<(), Error> {
        self.failpoint.as_ref().map_or(Ok(()), |failpoint| failpoint.pass())
    }

    fn api<K: Object>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Makes the fields of `object` so, and leaves all others to whoever owns them.
    pub async fn apply<K: Object>(&self, namespace: &str, object: &K) -> Result<K, Error> {
        self.refuse_foreign(namespace, object).await?;
        self.pass()?;
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        Ok(self.api(namespace).patch(&object.name_any(), &parameters, &Patch::Apply(object)).await?)
    }

    /// Writes an object only if there is none: generated secrets are never generated twice.
    pub async fn create<K: Object>(&self, namespace: &str, object: &K) -> Result<K, Error> {
        self.pass()?;
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        Ok(self.api(namespace).create(&parameters, object).await?)
    }

    /// Changes an APIService that leads to us.
    pub async fn api_service(&self, name: &str, change: &serde_json::Value) -> Result<(), Error> {
        self.pass()?;
        let services: Api<APIService> = Api::all(self.client.clone());
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        services.patch(name, &parameters, &Patch::Merge(change)).await?;
        Ok(())
    }

    /// Refuses to take over an object that another controller owns, or that carries no mark of this cluster.
    async fn refuse_foreign<K: Object>(&self, namespace: &str, object: &K) -> Result<(), Error> {
        let Some(live) = self.api::<K>(namespace).get_metadata_opt(&object.name_any()).await? else {
            return Ok(());
        };
        match foreign_owner(&live.metadata, object.meta()) {
            Some(owner) => {
                Err(Error::OwnedByOther { kind: K::kind(&()).into_owned(), name: object.name_any(), owner })
            }
            None => Ok(()),
        }
    }

    /// Removes an object of a cluster, with what it owns. Absence is success; an object of somebody else stays.
    pub async fn delete<K: Object>(&self, identity: &Identity, name: &str) -> Result<(), Error> {
        let api = self.api::<K>(&identity.namespace);
        let Some(live) = api.get_metadata_opt(name).await? else {
            return Ok(());
        };
        if live.metadata.deletion_timestamp.is_some()
            || foreign_owner(&live.metadata, &identity.owned(name.to_owned())).is_some()
        {
            return Ok(());
        }
        self.pass()?;
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: live.metadata.uid, resource_version: None }),
            ..DeleteParams::default()
        };
        ignore_absence(api.delete(name, &parameters).await)
    }

    /// Removes exactly the StatefulSet that was looked at and leaves its pods and claims, which a new one of the name takes over.
    pub async fn replace_stateful_set(&self, namespace: &str, live: &StatefulSet) -> Result<(), Error> {
        self.pass()?;
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            preconditions: Some(Preconditions { uid: live.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        ignore_absence(self.api::<StatefulSet>(namespace).delete(&live.name_any(), &parameters).await)
    }

    /// Changes a claim, and returns it as it is then. Kubernetes may refuse to let it grow.
    pub async fn change_claim(
        &self,
        namespace: &str,
        name: &str,
        change: &serde_json::Value,
    ) -> Result<PersistentVolumeClaim, Error> {
        self.pass()?;
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        Ok(self.api(namespace).patch(name, &parameters, &Patch::Merge(change)).await?)
    }

    /// Asks an object for another number of replicas, by its `scale` subresource.
    pub async fn scale(
        &self,
        namespace: &str,
        resource: &ApiResource,
        name: &str,
        change: &serde_json::Value,
    ) -> Result<(), Error> {
        self.pass()?;
        let parameters =
            PatchParams { field_manager: Some(crd::AUTOSCALER_MANAGER.to_owned()), ..PatchParams::default() };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, resource);
        api.patch_scale(name, &parameters, &Patch::Merge(change)).await?;
        Ok(())
    }

    /// Removes exactly the pod that was looked at, never a successor of the same name.
    pub async fn delete_pod(&self, namespace: &str, name: &str, uid: &str) -> Result<(), Error> {
        self.pass()?;
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        ignore_absence(self.api::<Pod>(namespace).delete(name, &parameters).await)
    }

    /// Sets one annotation of a pod. The kubelet refreshes mounted Secrets when a pod changes.
    pub async fn annotate_pod(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
        value: &str,
    ) -> Result<(), Error> {
        self.pass()?;
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.api::<Pod>(namespace).patch(name, &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(error) => ignore_absence::<()>(Err(error)),
        }
    }

    /// Puts our finalizer on a cluster, or takes it off. Fails when the object changed since it was read.
    pub async fn set_finalizer(&self, cluster: &NatsCluster, wanted: bool) -> Result<(), Error> {
        self.set_finalizer_of(cluster, CLUSTER_FINALIZER, FIELD_MANAGER, wanted).await.map(|_| ())
    }

    /// Puts a finalizer on an object, or takes it off. Fails when the object changed since it was read; true when it had not, as the API
    /// server confirms by taking the change.
    pub async fn set_finalizer_of<K: Object>(
        &self,
        object: &K,
        finalizer: &str,
        manager: &str,
        wanted: bool,
    ) -> Result<bool, Error> {
        let mut finalizers = object.finalizers().to_vec();
        if finalizers.iter().any(|f| f == finalizer) == wanted {
            return Ok(false);
        }
        self.pass()?;
        if wanted {
            finalizers.push(finalizer.to_owned());
        } else {
            finalizers.retain(|f| f != finalizer);
        }
        let patch =
            json!({ "metadata": { "finalizers": finalizers, "resourceVersion": object.resource_version() } });
        let namespace = object.namespace().unwrap_or_default();
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        match self.api::<K>(&namespace).patch(&object.name_any(), &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(true),
            Err(error) => ignore_absence::<()>(Err(error)).map(|()| false),
        }
    }

    /// Reports the status of a cluster.
    pub async fn status(&self, cluster: &NatsCluster, status: &NatsClusterStatus) -> Result<(), Error> {
        self.status_of(cluster, FIELD_MANAGER, status).await
    }

    /// Reports the status of exactly the object that was looked at, under a field manager of its own. Nothing is written to a
    /// successor of the same name: its generation may be the same, and it would seem to be done before anyone looked at it.
    pub async fn status_of<K: Object>(
        &self,
        object: &K,
        manager: &str,
        status: &impl Serialize,
    ) -> Result<(), Error> {
        self.pass()?;
        // A JSON patch since the API server ignores the uid that server-side apply brings to a status.
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": object.uid() },
            { "op": "add", "path": "/status", "value": status },
        ]);
        let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let (name, api) = (object.name_any(), self.api::<K>(&object.namespace().unwrap_or_default()));
        match api.patch_status(&name, &parameters, &Patch::<K>::Json(patch)).await {
            // A failed `test` looks like a status that breaks the schema.
            Err(kube::Error::Api(refusal)) if refusal.code == 422 => {
                let live = api.get_metadata_opt(&name).await?;
                if live.is_some_and(|live| live.uid() == object.uid()) {
                    return Err(kube::Error::Api(refusal).into());
                }
                Ok(())
            }
            result => ignore_absence(result),
        }
    }

    /// Counts a write that goes to a server and not to Kubernetes, so that tests can stop before it as well.
    ///
    /// # Errors
    /// When a test stops here.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.pass()
    }
}

fn ignore_absence<T>(result: kube::Result<T>) -> Result<(), Error> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Who owns a live object, if that is not who `wanted` says.
fn foreign_owner(live: &ObjectMeta, wanted: &ObjectMeta) -> Option<String> {
    let controller = |meta: &ObjectMeta| {
        meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true)).cloned()
    };
    let cluster =
        |meta: &ObjectMeta| meta.labels.as_ref().and_then(|labels| labels.get(CLUSTER_LABEL)).cloned();
    match (controller(live), controller(wanted)) {
        (Some(live), Some(wanted)) if live.uid == wanted.uid => None,
        (Some(live), _) => Some(format!("{} `{}`", live.kind, live.name)),
        // Without an owner it may be what an earlier cluster of the same name left on purpose.
        (None, _) if cluster(live) == cluster(wanted) => None,
        (None, _) => Some("nobody that the operator knows".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn meta(owner: Option<&str>, cluster: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            owner_references: owner.map(|uid| {
                vec![OwnerReference {
                    uid: uid.to_owned(),
                    kind: "NatsCluster".to_owned(),
                    name: uid.to_owned(),
                    controller: Some(true),
                    ..OwnerReference::default()
                }]
            }),
            labels: cluster.map(|name| BTreeMap::from([(CLUSTER_LABEL.to_owned(), name.to_owned())])),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn objects_of_others_are_not_taken_over() {
        let wanted = meta(Some("u1"), Some("demo"));
        assert_eq!(foreign_owner(&meta(Some("u1"), Some("demo")), &wanted), None);
        assert_eq!(
            foreign_owner(&meta(Some("u2"), Some("demo")), &wanted).as_deref(),
            Some("NatsCluster `u2`")
        );
        assert!(foreign_owner(&meta(None, None), &wanted).is_some());
        // A retained Secret of an earlier cluster of the same name.
        assert_eq!(foreign_owner(&meta(None, Some("demo")), &wanted), None);
    }

    #[test]
    fn a_failpoint_stops_every_write_from_its_number_on() {
        let failpoint = Failpoint::new(2);
        assert!(failpoint.pass().is_ok());
        assert!(matches!(failpoint.pass(), Err(Error::Stopped(2))));
        assert!(matches!(failpoint.pass(), Err(Error::Stopped(3))));
        assert_eq!(failpoint.writes(), 3);
    }
}
