//! A namespace of its own with an operator in it and, if wanted, servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::crd::{NatsCluster, conditions};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use operator::apply::Failpoint;
use operator::cluster::controller;
use operator::context::Context;
use operator::metrics::Metrics;
use operator::settings::{self, Command, Settings};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::kubelet::Kubelet;
use super::{apiserver, until};

/// Namespaces made so far.
static NAMESPACES: AtomicU32 = AtomicU32::new(0);

/// A namespace and who works in it.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    operator: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    kubelet: Option<JoinHandle<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some((_, operator)) = &self.operator {
            operator.abort();
        }
        if let Some(kubelet) = &self.kubelet {
            kubelet.abort();
        }
    }
}

/// Settings of an operator for one namespace.
pub(crate) fn settings(namespace: &str) -> Settings {
    let arguments =
        ["--watch-namespaces", namespace, "--nats-image", "myelin/broker:test"].map(str::to_owned);
    match settings::parse(arguments, |_| None) {
        // The cheapest bcrypt: its strength is not what is tested here. And no regular looks: what happens within the patience of a
        // test happens because something woke a pass.
        Ok(Command::Run(settings)) => {
            Settings { password_cost: 4, sync_interval: Duration::from_secs(3600), ..settings }
        }
        other => panic!("{other:?}"),
    }
}

/// What an operator works with, with its own rights.
pub(crate) async fn context(namespace: &str, failpoint: Option<Arc<Failpoint>>) -> Arc<Context> {
    let client = apiserver::operator().await;
    Arc::new(Context::new(client, settings(namespace), Metrics::new().unwrap(), failpoint))
}

impl World {
    /// A namespace that admits restricted pods only, and nobody in it.
    pub(crate) async fn empty() -> Self {
        Self::on(apiserver::admin().await).await
    }

    /// The same at the API server that a client leads to.
    pub(crate) async fn on(client: Client) -> Self {
        let namespace = format!("test-{}", NAMESPACES.fetch_add(1, Ordering::SeqCst));
        let restricted =
            BTreeMap::from([("pod-security.kubernetes.io/enforce".to_owned(), "restricted".to_owned())]);
        let object = Namespace {
            metadata: ObjectMeta {
                name: Some(namespace.clone()),
                labels: Some(restricted),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
        Self { client, namespace, operator: None, kubelet: None }
    }

    /// The namespace of another world, for a second operator.
    pub(crate) async fn beside(other: &Self) -> Self {
        Self {
            client: apiserver::admin().await,
            namespace: other.namespace.clone(),
            operator: None,
            kubelet: None,
        }
    }

    /// A namespace with an operator and a node that runs servers.
    pub(crate) async fn with_servers() -> Self {
        let mut world = Self::empty().await;
        world.kubelet = Some(Kubelet::start(world.client.clone(), &world.namespace));
        world.start_operator().await;
        world
    }

    pub(crate) async fn start_operator(&mut self) {
        let context = context(&self.namespace, None).await;
        self.run_operator(context);
    }

    /// Starts an operator with a context of the test's own.
    pub(crate) fn run_operator(&mut self, context: Arc<Context>) {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = stopped.map(|_| ()).shared();
        let task = tokio::spawn(async move {
            let streams = operator::jetstream::controller::run(Arc::clone(&context), stopped.clone());
            let workers = operator::autoscaler::controller::run(Arc::clone(&context), stopped.clone());
            tokio::join!(controller::run(context, stopped), streams, workers);
        });
        self.operator = Some((stop, task));
    }

    /// Ends the operator between two of its awaits, as a killed process would end.
    pub(crate) fn kill_operator(&mut self) {
        if let Some((_, task)) = self.operator.take() {
            task.abort();
        }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies a cluster as a person would, under another field manager.
    pub(crate) async fn apply(&self, name: &str, spec: Value) -> kube::Result<NatsCluster> {
        self.apply_with(name, spec, json!({})).await
    }

    pub(crate) async fn apply_with(
        &self,
        name: &str,
        spec: Value,
        annotations: Value,
    ) -> kube::Result<NatsCluster> {
        let object = json!({
            "apiVersion": "myelin.dev/v1alpha1", "kind": "NatsCluster",
            "metadata": { "name": name, "annotations": annotations }, "spec": spec,
        });
        let parameters = PatchParams {
            field_validation: Some(kube::api::ValidationDirective::Strict),
            ..PatchParams::apply("person")
        };
        self.api::<NatsCluster>().patch(name, &parameters, &Patch::Apply(&object)).await
    }

    pub(crate) async fn secret(&self, name: &str, entries: &[(&str, &str)]) {
        let data: BTreeMap<&str, &str> = entries.iter().copied().collect();
        let object =
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data });
        self.api::<Secret>()
            .patch(name, &PatchParams::apply("person").force(), &Patch::Apply(&object))
            .await
            .unwrap();
    }

    pub(crate) async fn cluster(&self, name: &str) -> NatsCluster {
        self.api::<NatsCluster>().get(name).await.unwrap()
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        let mut pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
        pods.sort_by_key(ResourceExt::name_any);
        pods
    }

    /// Waits until a condition of the current generation has a status and reason.
    pub(crate) async fn until_condition(
        &self,
        name: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> NatsCluster {
        let mut last = None;
        let mut looks = tokio::time::interval(super::LOOK);
        let found = tokio::time::timeout(super::PATIENCE, async {
            loop {
                looks.tick().await;
                let cluster = self.cluster(name).await;
                if is(&cluster, type_, status, reason) {
                    return cluster;
                }
                last = Some(cluster);
            }
        })
        .await;
        found.unwrap_or_else(|_| {
            panic!("no {type_}={status} {reason}: {:#?}", last.and_then(|cluster| cluster.status))
        })
    }

    pub(crate) async fn until_ready(&self, name: &str) -> NatsCluster {
        self.until_condition(name, "Ready", "True", "Ready").await
    }

    /// Waits until nothing of a cluster is left.
    pub(crate) async fn until_gone(&self, name: &str) {
        until("the cluster to be gone", async || {
            self.api::<NatsCluster>().get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }
}

/// Whether a condition of the current generation says this.
pub(crate) fn is(cluster: &NatsCluster, type_: &str, status: &str, reason: &str) -> bool {
    let Some(found) = cluster.status.as_ref().and_then(|s| conditions::find(&s.conditions, type_)) else {
        return false;
    };
    found.status == status
        && found.reason == reason
        && found.observed_generation == cluster.metadata.generation
}

/// The message of a condition.
pub(crate) fn message(cluster: &NatsCluster, type_: &str) -> String {
    let conditions = &cluster.status.as_ref().unwrap().conditions;
    conditions::find(conditions, type_).unwrap().message.clone()
}
