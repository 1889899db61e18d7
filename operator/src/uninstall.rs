//! What Helm runs before it removes the operator: stop while clusters exist, or let them go.

use crd::NatsCluster;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::apply::Writer;
use crate::settings::Settings;

/// Clusters named in a message.
const NAMED_MAX: usize = 10;

/// Stops with a message while clusters with our finalizer exist; with `release_finalizers` takes the finalizer off
/// them instead, and their servers run on.
///
/// # Errors
/// When clusters exist and may not be let go, or the API server does not answer.
pub async fn run(client: Client, settings: &Settings, release_finalizers: bool) -> anyhow::Result<()> {
    let mut remaining = Vec::new();
    for cluster in clusters(&client, settings).await? {
        let class = cluster.annotation(crd::annotation::CONTROLLER_CLASS).unwrap_or_default();
        let held = cluster.finalizers().iter().any(|finalizer| finalizer == crd::CLUSTER_FINALIZER);
        if held && class == settings.controller_class {
            remaining.push(cluster);
        }
    }
    if release_finalizers {
        let writer = Writer::new(client, None);
        for cluster in &remaining {
            writer.set_finalizer(cluster, false).await?;
        }
        return Ok(());
    }
    if remaining.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = remaining
        .iter()
        .take(NAMED_MAX)
        .map(|cluster| format!("{}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any()))
        .collect();
    anyhow::bail!(
        "NatsClusters still exist ({} in all, among them {}): delete them first (kubectl delete natscluster), or uninstall with \
         uninstall.releaseFinalizers=true to leave their servers running without an operator",
        remaining.len(),
        names.join(", ")
    );
}

async fn clusters(client: &Client, settings: &Settings) -> anyhow::Result<Vec<NatsCluster>> {
    let everything = ListParams::default();
    if settings.watch_namespaces.is_empty() {
        return listed(Api::all(client.clone()).list(&everything).await);
    }
    let mut clusters = Vec::new();
    for namespace in &settings.watch_namespaces {
        clusters.extend(listed(Api::namespaced(client.clone(), namespace).list(&everything).await)?);
    }
    Ok(clusters)
}

/// Without the definition there are no clusters.
fn listed(result: kube::Result<kube::core::ObjectList<NatsCluster>>) -> anyhow::Result<Vec<NatsCluster>> {
    match result {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
