//! Names, labels and the owner reference of child objects.

use std::collections::BTreeMap;

use crd::nats_cluster::pod::DeletionPolicy;
use crd::{CLUSTER_LABEL, NatsCluster};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use crate::error::Error;

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// What every child object of one cluster shares.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of the cluster object, and of the StatefulSet and the client Service.
    pub name: String,
    /// Namespace of everything.
    pub namespace: String,
    /// Uid of the cluster object.
    pub uid: String,
    owner: OwnerReference,
    retain: bool,
}

impl Identity {
    /// The identity of a cluster that the API server knows.
    ///
    /// # Errors
    /// When the object never was at the API server.
    pub fn of(cluster: &NatsCluster) -> Result<Self, Error> {
        let owner = cluster.controller_owner_ref(&()).ok_or(Error::Incomplete("name and uid"))?;
        Ok(Self {
            name: cluster.name_any(),
            namespace: cluster.namespace().ok_or(Error::Incomplete("namespace"))?,
            uid: owner.uid.clone(),
            owner: OwnerReference { block_owner_deletion: Some(true), ..owner },
            retain: cluster.spec.deletion_policy == DeletionPolicy::Retain,
        })
    }

    /// Name of the configuration Secret.
    #[must_use]
    pub fn config(&self) -> String {
        format!("{}-config", self.name)
    }

    /// Name of the Secret of the certificate authority.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}-ca", self.name)
    }

    /// Name of the ConfigMap with the authority's certificate, for clients.
    #[must_use]
    pub fn authority_bundle(&self) -> String {
        format!("{}-ca-bundle", self.name)
    }

    /// Name of the Secret with the certificate of a listener.
    #[must_use]
    pub fn certificate(&self, listener: &str) -> String {
        format!("{}-{listener}-tls", self.name)
    }

    /// Name of the Secret with the operator's own password.
    #[must_use]
    pub fn operator(&self) -> String {
        format!("{}-operator", self.name)
    }

    /// Name of the Service that names each pod.
    #[must_use]
    pub fn headless(&self) -> String {
        format!("{}-headless", self.name)
    }

    /// Name of a pod.
    #[must_use]
    pub fn pod(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.name)
    }

    /// Name under which a pod is found, without the cluster domain.
    #[must_use]
    pub fn pod_host(&self, pod: &str) -> String {
        format!("{pod}.{}.{}.svc", self.headless(), self.namespace)
    }

    /// Labels that select the pods. They are immutable in a StatefulSet and never change.
    #[must_use]
    pub fn selector(&self) -> Labels {
        [
            ("app.kubernetes.io/name", "nats"),
            ("app.kubernetes.io/instance", self.name.as_str()),
            ("app.kubernetes.io/component", "server"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// The selector as a text.
    #[must_use]
    pub fn selector_text(&self) -> String {
        self.selector().iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    /// Labels of every child object.
    #[must_use]
    pub fn labels(&self) -> Labels {
        let mut labels = self.selector();
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "myelin-operator".to_owned());
        labels.insert(CLUSTER_LABEL.to_owned(), self.name.clone());
        labels
    }

    /// Metadata of an object that goes when the cluster goes.
    #[must_use]
    pub fn owned(&self, name: String) -> ObjectMeta {
        ObjectMeta { owner_references: Some(vec![self.owner.clone()]), ..self.unowned(name) }
    }

    /// Metadata of an object that stays when the cluster says so.
    #[must_use]
    pub fn retainable(&self, name: String) -> ObjectMeta {
        if self.retain { self.unowned(name) } else { self.owned(name) }
    }

    /// Whether retainable objects stay.
    #[must_use]
    pub const fn retains(&self) -> bool {
        self.retain
    }

    fn unowned(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }
}
