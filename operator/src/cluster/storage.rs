//! Volumes of a cluster: what there is, what has to grow, and when the StatefulSet must be made anew for it. Pure.
//!
//! The templates of claims in a StatefulSet never change, so a change of them replaces the StatefulSet and leaves its pods running: the new
//! one finds them by their labels. Claims grow first. Whether a volume can grow is known to the class of the volume, and Kubernetes
//! says so when a claim is changed; asking it needs no right on classes.

use std::collections::BTreeMap;

use crd::common::quantity_bytes;
use crd::nats_cluster::jetstream::Volume;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};

/// One claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Name of the claim.
    pub name: String,
    /// Size that is asked for, as written.
    pub requested: String,
    /// Size that there is, as written.
    pub capacity: Option<String>,
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    /// The volume has grown and the file system on it has not.
    pub file_system_pending: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Claim {
    /// Facts of a claim.
    #[must_use]
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let status = claim.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
        let amount = |amounts: &BTreeMap<String, _>| -> Option<String> {
            amounts
                .get("storage")
                .map(|quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| quantity.0.clone())
        };
        Self {
            name: claim.metadata.name.clone().unwrap_or_default(),
            requested: requests.and_then(amount).unwrap_or_default(),
            capacity: status.and_then(|status| status.capacity.as_ref()).and_then(amount),
            phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
            file_system_pending: conditions
                .into_iter()
                .flatten()
                .any(|condition| condition.type_ == "FileSystemResizePending" && condition.status == "True"),
            labels: claim.metadata.labels.clone().unwrap_or_default(),
            annotations: claim.metadata.annotations.clone().unwrap_or_default(),
        }
    }

    /// How it is, in a word.
    #[must_use]
    pub fn state(&self) -> &str {
        if self.phase != "Bound" {
            return if self.phase.is_empty() { "Pending" } else { &self.phase };
        }
        if self.file_system_pending {
            return "FileSystemPending";
        }
        if self.is_growing() { "Resizing" } else { "Bound" }
    }

    fn is_growing(&self) -> bool {
        match (quantity_bytes(&self.requested), self.capacity.as_deref().and_then(quantity_bytes)) {
            (Some(requested), Some(capacity)) => capacity < requested,
            _ => false,
        }
    }

    /// The change that makes the claim what the spec says; `None` when it is that.
    #[must_use]
    pub fn change(&self, volume: &Volume) -> Option<Value> {
        let mut change = json!({});
        let missing = |wanted: &BTreeMap<String, String>, there: &BTreeMap<String, String>| {
            let missing: BTreeMap<String, String> =
                wanted.iter().filter(|(key, value)| there.get(*key) != Some(value)).map(owned).collect();
            (!missing.is_empty()).then_some(missing)
        };
        // What the operator's own labels say wins, as in the template.
        let wanted = volume.labels.iter().filter(|(key, _)| !is_ours(key)).map(owned).collect();
        if let Some(labels) = missing(&wanted, &self.labels) {
            change["metadata"]["labels"] = json!(labels);
        }
        if let Some(annotations) = missing(&volume.annotations, &self.annotations) {
            change["metadata"]["annotations"] = json!(annotations);
        }
        if self.phase == "Bound" && self.is_smaller_than(volume) {
            change["spec"]["resources"]["requests"]["storage"] = json!(volume.size);
        }
        (change != json!({})).then_some(change)
    }

    fn is_smaller_than(&self, volume: &Volume) -> bool {
        match (quantity_bytes(&self.requested), quantity_bytes(&volume.size)) {
            (Some(requested), Some(wanted)) => requested < wanted,
            _ => false,
        }
    }
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

fn is_ours(label: &str) -> bool {
    label.starts_with("app.kubernetes.io/") || label == crd::CLUSTER_LABEL
}

/// Bytes of the smallest volume that is there; `None` before there is one.
#[must_use]
pub fn capacity(claims: &[Claim]) -> Option<i64> {
    claims.iter().filter_map(|claim| claim.capacity.as_deref().and_then(quantity_bytes)).min()
}

/// Size for the template of claims: that of the claims as far as they have come, so that a size that no volume can have is never written
/// into it.
#[must_use]
pub fn template_size(claims: &[Claim], volume: &Volume) -> String {
    let smallest = claims
        .iter()
        .filter_map(|claim| Some((quantity_bytes(&claim.requested)?, &claim.requested)))
        .min_by_key(|(bytes, _)| *bytes);
    match (smallest, quantity_bytes(&volume.size)) {
        (Some((bytes, text)), Some(wanted)) if bytes < wanted => text.clone(),
        _ => volume.size.clone(),
    }
}

/// Whether the templates of claims in a StatefulSet differ from those that are wanted.
#[must_use]
pub fn needs_new_stateful_set(live: &StatefulSet, wanted: &StatefulSet) -> bool {
    templates(live) != templates(wanted)
}

/// What counts in the templates of claims, without what the API server fills in.
fn templates(set: &StatefulSet) -> Vec<Value> {
    let templates = set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_ref());
    let reduced = |template: &PersistentVolumeClaim| {
        let claim = Claim::of(template);
        let spec = template.spec.as_ref();
        json!([
            claim.name,
            quantity_bytes(&claim.requested),
            spec.and_then(|spec| spec.storage_class_name.as_ref()),
            spec.and_then(|spec| spec.access_modes.as_ref()),
            claim.labels,
            claim.annotations,
        ])
    };
    templates.into_iter().flatten().map(reduced).collect()
}

/// What is to be said about the growth of volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Every volume has its size.
    Done,
    /// Claims whose volumes grow.
    Resizing(Vec<String>),
    /// Claims whose volumes have grown, but not the file systems on them.
    FileSystemPending(Vec<String>),
    /// Kubernetes refused to let a claim grow.
    Refused {
        /// Name of the claim.
        claim: String,
        /// Its words.
        problem: String,
    },
    /// Claims that are larger than what the spec asks for.
    Larger(Vec<String>),
}

/// How far the volumes are. `refused` is a claim that Kubernetes did not let grow, and its words.
#[must_use]
pub fn growth(claims: &[Claim], volume: &Volume, refused: Option<(String, String)>) -> Growth {
    if let Some((claim, problem)) = refused {
        return Growth::Refused { claim, problem };
    }
    let names = |wanted: &dyn Fn(&Claim) -> bool| -> Vec<String> {
        claims.iter().filter(|claim| wanted(claim)).map(|claim| claim.name.clone()).collect()
    };
    let wanted = quantity_bytes(&volume.size);
    let larger = names(&|claim| quantity_bytes(&claim.requested) > wanted);
    if !larger.is_empty() {
        return Growth::Larger(larger);
    }
    let pending = names(&|claim| claim.state() == "FileSystemPending");
    if !pending.is_empty() {
        return Growth::FileSystemPending(pending);
    }
    let growing = names(&|claim| claim.state() == "Resizing" || claim.is_smaller_than(volume));
    if growing.is_empty() { Growth::Done } else { Growth::Resizing(growing) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(requested: &str, capacity: &str) -> Claim {
        Claim {
            name: "js-demo-0".to_owned(),
            requested: requested.to_owned(),
            capacity: Some(capacity.to_owned()),
            phase: "Bound".to_owned(),
            ..Claim::default()
        }
    }

    fn volume(size: &str) -> Volume {
        Volume { size: size.to_owned(), ..Volume::default() }
    }

    #[test]
    fn a_claim_grows_when_it_is_bound_and_never_shrinks() {
        let change = |claim: &Claim, size: &str| claim.change(&volume(size));
        let grown = change(&claim("1Gi", "1Gi"), "2Gi").unwrap();
        assert_eq!(grown, json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
        assert_eq!(change(&claim("2Gi", "2Gi"), "2048Mi"), None);
        assert_eq!(change(&claim("2Gi", "2Gi"), "1Gi"), None);
        assert_eq!(change(&Claim { phase: "Pending".to_owned(), ..claim("1Gi", "1Gi") }, "2Gi"), None);
    }

    #[test]
    fn labels_and_annotations_reach_claims_that_exist() {
        let mut wanted = volume("1Gi");
        wanted.annotations.insert("backup".to_owned(), "daily".to_owned());
        wanted.labels.insert("team".to_owned(), "blue".to_owned());
        wanted.labels.insert(crd::CLUSTER_LABEL.to_owned(), "not-mine".to_owned());
        let mut there = claim("1Gi", "1Gi");
        assert_eq!(
            there.change(&wanted).unwrap(),
            json!({"metadata": {"annotations": {"backup": "daily"}, "labels": {"team": "blue"}}})
        );
        there.annotations.clone_from(&wanted.annotations);
        there.labels.insert("team".to_owned(), "blue".to_owned());
        assert_eq!(there.change(&wanted), None);
    }

    #[test]
    fn the_template_follows_the_claims() {
        assert_eq!(template_size(&[], &volume("2Gi")), "2Gi");
        assert_eq!(template_size(&[claim("1Gi", "1Gi")], &volume("2Gi")), "1Gi");
        assert_eq!(template_size(&[claim("2Gi", "1Gi")], &volume("2Gi")), "2Gi");
        assert_eq!(template_size(&[claim("3Gi", "3Gi")], &volume("2Gi")), "2Gi");
    }

    #[test]
    fn growth_has_a_name_at_each_point() {
        let at = |claim: Claim| growth(&[claim], &volume("2Gi"), None);
        let name = || vec!["js-demo-0".to_owned()];
        assert_eq!(at(claim("2Gi", "2Gi")), Growth::Done);
        assert_eq!(at(claim("1Gi", "1Gi")), Growth::Resizing(name()));
        assert_eq!(at(claim("2Gi", "1Gi")), Growth::Resizing(name()));
        assert_eq!(
            at(Claim { file_system_pending: true, ..claim("2Gi", "1Gi") }),
            Growth::FileSystemPending(name())
        );
        assert_eq!(at(claim("3Gi", "3Gi")), Growth::Larger(name()));
        let refused = growth(&[claim("1Gi", "1Gi")], &volume("2Gi"), Some(("c".to_owned(), "no".to_owned())));
        assert_eq!(refused, Growth::Refused { claim: "c".to_owned(), problem: "no".to_owned() });
        assert_eq!(capacity(&[claim("2Gi", "1Gi"), claim("2Gi", "2Gi")]), Some(1 << 30));
    }
}
