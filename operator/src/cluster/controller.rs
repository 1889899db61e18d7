//! What wakes a pass: the cluster itself, its children, its pods, and the Secrets that it names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crd::{CLUSTER_LABEL, NatsCluster};
use futures::StreamExt;
use futures::future::{Shared, join_all};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::runtime::controller::{Config, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};

use super::reconcile;
use crate::context::Context;
use crate::scope::{api, scopes};

/// Passes at a time.
const CONCURRENCY: u16 = 16;
/// Changes within this time wake one pass.
const DEBOUNCE: Duration = Duration::from_millis(300);

/// Runs the controller until `stop` completes and the passes under way have ended.
pub async fn run<F>(context: Arc<Context>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let scopes = scopes(&context.settings);
    join_all(scopes.into_iter().map(|scope| run_in(Arc::clone(&context), scope, stop.clone()))).await;
}

async fn run_in<F>(context: Arc<Context>, scope: Option<String>, stop: Shared<F>)
where
    F: Future<Output = ()> + Send + Sync + 'static,
    F::Output: Clone + Send + Sync,
{
    let (client, scope) = (&context.client, scope.as_deref());
    let everything = watcher::Config::default();
    let controller = Controller::new(api::<NatsCluster>(client, scope), everything.clone());
    let clusters = controller.store();
    controller
        .with_config(Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE))
        .owns(api::<StatefulSet>(client, scope), everything.clone())
        .owns(api::<Service>(client, scope), everything.clone())
        .watches(api::<Pod>(client, scope), watcher::Config::default().labels(CLUSTER_LABEL), of_label)
        .watches(
            api::<PersistentVolumeClaim>(client, scope),
            watcher::Config::default().labels(CLUSTER_LABEL),
            of_label,
        )
        .watches(api::<Secret>(client, scope), everything, move |secret| of_secret(&clusters, &secret))
        .graceful_shutdown_on(stop)
        .run(reconcile::reconcile, reconcile::after_error, Arc::clone(&context))
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, "the controller reports");
            }
        })
        .await;
}

/// The cluster that a child is labelled with.
fn of_label<K: Resource>(child: K) -> Option<ObjectRef<NatsCluster>> {
    let name = child.meta().labels.as_ref()?.get(CLUSTER_LABEL)?;
    Some(ObjectRef::new(name).within(child.meta().namespace.as_deref()?))
}

/// The clusters that own a Secret or name it.
fn of_secret(clusters: &Store<NatsCluster>, secret: &Secret) -> Vec<ObjectRef<NatsCluster>> {
    let (name, namespace) = (secret.name_any(), secret.namespace());
    let labelled = secret.labels().get(CLUSTER_LABEL).cloned();
    clusters
        .state()
        .iter()
        .filter(|cluster| cluster.namespace() == namespace)
        .filter(|cluster| {
            labelled.as_ref() == Some(&cluster.name_any()) || named_secrets(cluster).contains(name.as_str())
        })
        .map(|cluster| ObjectRef::from_obj(cluster.as_ref()))
        .collect()
}

/// Secrets that a spec names.
fn named_secrets(cluster: &NatsCluster) -> BTreeSet<&str> {
    let spec = &cluster.spec;
    let users = spec.auth.accounts.iter().flat_map(|account| &account.users);
    let mut names: BTreeSet<&str> = users.map(|user| user.password_secret_ref.name.as_str()).collect();
    names.extend(spec.routes.auth_secret_ref.as_ref().map(|reference| reference.name.as_str()));
    if let Some(encryption) = spec.jetstream.as_ref().and_then(|jetstream| jetstream.encryption.as_ref()) {
        names.insert(&encryption.key_secret_ref.name);
        names.extend(encryption.previous_key_secret_ref.as_ref().map(|reference| reference.name.as_str()));
    }
    let tls = [
        spec.clients.tls.as_ref().and_then(|tls| tls.secret.as_ref()),
        spec.routes.tls.as_ref().and_then(|tls| tls.secret.as_ref()),
    ];
    names.extend(tls.into_iter().flatten().map(|secret| secret.name.as_str()));
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_names_secrets_of_users_routes_and_certificates() {
        let cluster: NatsCluster = serde_json::from_value(json!({
            "apiVersion": "myelin.dev/v1alpha1", "kind": "NatsCluster", "metadata": {"name": "demo"},
            "spec": {
                "auth": {"accounts": [{"name": "A", "users": [{"name": "u", "passwordSecretRef": {"name": "users"}}]}]},
                "routes": {"authSecretRef": {"name": "routes"}, "tls": {"secret": {"name": "route-tls"}}},
                "clients": {"tls": {"secret": {"name": "client-tls"}}},
                "jetstream": {"encryption": {"keySecretRef": {"name": "store-key"}, "previousKeySecretRef": {"name": "old-key"}}},
            },
        }))
        .unwrap();
        assert_eq!(
            named_secrets(&cluster).into_iter().collect::<Vec<_>>(),
            ["client-tls", "old-key", "route-tls", "routes", "store-key", "users"]
        );
    }
}
