//! What Helm runs before it removes the operator: stop while objects wait for it, or let them go.

use crd::jetstream::{Account, Consumer, KeyValue, ObjectStore, Stream, finalizer};
use crd::{CLUSTER_FINALIZER, NatsCluster, annotation};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::apply::{Object, Writer};
use crate::settings::Settings;

/// Objects named in a message.
const NAMED_MAX: usize = 10;

/// Stops with a message while objects with our finalizers exist; with `release_finalizers` takes the finalizers off
/// them instead: servers run on, and streams stay where they are.
///
/// # Errors
/// When objects exist and may not be let go, or the API server does not answer.
pub async fn run(client: Client, settings: &Settings, release_finalizers: bool) -> anyhow::Result<()> {
    let mut names = Vec::new();
    let work =
        Work { writer: Writer::new(client.clone(), None), client, settings, release: release_finalizers };
    names.extend(work.of::<NatsCluster>(CLUSTER_FINALIZER, crd::FIELD_MANAGER).await?);
    if settings.jetstream_kinds {
        let manager = crd::jetstream::FIELD_MANAGER;
        names.extend(work.of::<Stream>(finalizer::STREAM, manager).await?);
        names.extend(work.of::<Consumer>(finalizer::CONSUMER, manager).await?);
        names.extend(work.of::<KeyValue>(finalizer::KEY_VALUE, manager).await?);
        names.extend(work.of::<ObjectStore>(finalizer::OBJECT_STORE, manager).await?);
        names.extend(work.of::<Account>(finalizer::ACCOUNT, manager).await?);
    }
    if release_finalizers || names.is_empty() {
        return Ok(());
    }
    let shown: Vec<&str> = names.iter().take(NAMED_MAX).map(String::as_str).collect();
    anyhow::bail!(
        "objects still exist that wait for the operator when they are deleted ({} in all, among them {}): delete them first, or \
         uninstall with uninstall.releaseFinalizers=true to leave servers and streams as they are, without an operator",
        names.len(),
        shown.join(", ")
    );
}

struct Work<'a> {
    client: Client,
    writer: Writer,
    settings: &'a Settings,
    release: bool,
}

impl Work<'_> {
    /// Names of the objects of a kind that carry the finalizer, which is taken off them when that is asked for.
    async fn of<K: Object>(&self, finalizer: &str, manager: &str) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for object in self.objects::<K>().await? {
            let class = object.annotations().get(annotation::CONTROLLER_CLASS).map_or("", String::as_str);
            let held = object.finalizers().iter().any(|held| held == finalizer);
            if !held || class != self.settings.controller_class {
                continue;
            }
            if self.release {
                self.writer.set_finalizer_of(&object, finalizer, manager, false).await?;
            }
            names.push(format!(
                "{} {}/{}",
                K::kind(&()),
                object.namespace().unwrap_or_default(),
                object.name_any()
            ));
        }
        Ok(names)
    }

    async fn objects<K: Object>(&self) -> anyhow::Result<Vec<K>> {
        let everything = ListParams::default();
        if self.settings.watch_namespaces.is_empty() {
            return listed(Api::all(self.client.clone()).list(&everything).await);
        }
        let mut objects = Vec::new();
        for namespace in &self.settings.watch_namespaces {
            let api = Api::namespaced(self.client.clone(), namespace);
            objects.extend(listed(api.list(&everything).await)?);
        }
        Ok(objects)
    }
}

/// Without the definition there are no objects.
fn listed<K: Clone>(result: kube::Result<kube::core::ObjectList<K>>) -> anyhow::Result<Vec<K>> {
    match result {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
