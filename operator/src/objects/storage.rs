//! Where a server keeps its streams: the claim template, or ephemeral space, and the mount of either.

use std::collections::BTreeMap;

use crd::NatsCluster;
use crd::nats_cluster::jetstream::{Medium, Volume as Wanted, VolumeRetention};
use k8s_openapi::api::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy as RetentionPolicy;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, Volume, VolumeMount,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

use super::identity::Identity;

/// Name of the volume, and beginning of the names of claims.
pub const VOLUME: &str = "js";
/// Where it is mounted, and the servers' `store_dir`.
pub const FOLDER: &str = "/data";

/// Name of the claim of one server.
#[must_use]
pub fn claim_name(identity: &Identity, ordinal: i32) -> String {
    format!("{VOLUME}-{}", identity.pod(ordinal))
}

/// The claim templates of a cluster with `size` bytes each; none without JetStream or with ephemeral space.
#[must_use]
pub fn claim_templates(
    identity: &Identity,
    cluster: &NatsCluster,
    size: Option<&str>,
) -> Option<Vec<PersistentVolumeClaim>> {
    cluster.jetstream()?;
    let volume = cluster.spec.storage.wanted_volume()?;
    let size = size.unwrap_or(&volume.size).to_owned();
    Some(vec![claim_template(identity, &volume, size)])
}

fn claim_template(identity: &Identity, volume: &Wanted, size: String) -> PersistentVolumeClaim {
    let mut labels = volume.labels.clone();
    labels.extend(identity.labels());
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(VOLUME.to_owned()),
            labels: Some(labels),
            annotations: (!volume.annotations.is_empty()).then(|| volume.annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(volume.access_modes.iter().map(|mode| mode.as_str().to_owned()).collect()),
            storage_class_name: volume.storage_class_name.clone(),
            // As the API server fills it in, so that what is written is what is read back.
            volume_mode: Some("Filesystem".to_owned()),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), Quantity(size))])),
                limits: None,
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

/// What becomes of claims. A sleeping cluster has no servers on purpose and keeps its volumes.
#[must_use]
pub fn retention(cluster: &NatsCluster) -> Option<RetentionPolicy> {
    cluster.jetstream()?;
    cluster.spec.storage.wanted_volume()?;
    let retention = &cluster.spec.storage.retention;
    let when_scaled = if cluster.spec.hibernate { VolumeRetention::Retain } else { retention.when_scaled };
    Some(RetentionPolicy {
        when_deleted: Some(retention.when_deleted.as_str().to_owned()),
        when_scaled: Some(when_scaled.as_str().to_owned()),
    })
}

/// The volume of the pod that no claim stands behind.
#[must_use]
pub fn ephemeral_volume(cluster: &NatsCluster) -> Option<Volume> {
    cluster.jetstream()?;
    let ephemeral = cluster.spec.storage.ephemeral.as_ref()?;
    Some(Volume {
        name: VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: (ephemeral.medium == Medium::Memory).then(|| "Memory".to_owned()),
            size_limit: ephemeral.size_limit.clone().map(Quantity),
        }),
        ..Volume::default()
    })
}

/// The mount of either.
#[must_use]
pub fn mount(cluster: &NatsCluster) -> Option<VolumeMount> {
    cluster.jetstream()?;
    Some(VolumeMount { name: VOLUME.to_owned(), mount_path: FOLDER.to_owned(), ..VolumeMount::default() })
}
