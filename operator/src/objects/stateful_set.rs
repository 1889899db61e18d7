//! The StatefulSet and its pods.
//!
//! The template is a pure function of the spec: no operator version is in it, so that upgrading the operator does
//! not restart servers.

use std::collections::BTreeMap;

use crd::nats_cluster::pod::PullPolicy;
use crd::{NatsCluster, annotation, common};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction,
    KeyToPath, ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
    ProjectedVolumeSource, ResourceRequirements, SeccompProfile, SecretProjection, SecurityContext,
    TopologySpreadConstraint, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use super::identity::Identity;
use super::secrets::CONFIG_KEY;
use super::services::{CLIENT_PORT, CLUSTER_PORT, MONITOR_PORT, service_account_name};
use super::storage;
use crate::cluster::files::{self, TlsFiles};

/// Name of the server's container.
pub const CONTAINER: &str = "nats";
/// User, group and group of files: a number that no image and no node uses for anything else.
const USER: i64 = 65_532;
/// Seconds between the end of lame duck and the kill.
const GRACE_AFTER_LAME_DUCK: i64 = 30;
/// Shortest termination grace period.
const GRACE_MIN: i64 = 60;
/// Mode of mounted files: owner and group may read.
const FILE_MODE: i32 = 0o440;

/// What the StatefulSet depends on beside the spec.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Replicas to write, which may differ from the spec while the cluster shrinks.
    pub replicas: i32,
    /// Image of the server.
    pub image: &'a str,
    /// Changes when the configuration needs a new process.
    pub restart_hash: &'a str,
    /// Where each listener's certificate comes from.
    pub tls: &'a [TlsFiles],
    /// Size of the claims, when it is not that of the spec.
    pub claim_size: Option<&'a str>,
}

/// The StatefulSet of a cluster.
#[must_use]
pub fn build(identity: &Identity, cluster: &NatsCluster, inputs: &Inputs<'_>) -> StatefulSet {
    StatefulSet {
        metadata: identity.owned(identity.name.clone()),
        spec: Some(StatefulSetSpec {
            service_name: Some(identity.headless()),
            replicas: Some(inputs.replicas),
            // Members need each other to become ready; ordered starts would wait for ever.
            pod_management_policy: Some("Parallel".to_owned()),
            // The operator replaces pods itself, each when the others can spare it.
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                rolling_update: None,
            }),
            revision_history_limit: Some(5),
            selector: LabelSelector { match_labels: Some(identity.selector()), ..LabelSelector::default() },
            template: template(identity, cluster, inputs),
            volume_claim_templates: storage::claim_templates(identity, cluster, inputs.claim_size),
            persistent_volume_claim_retention_policy: storage::retention(cluster),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn template(identity: &Identity, cluster: &NatsCluster, inputs: &Inputs<'_>) -> PodTemplateSpec {
    let extra = &cluster.spec.pod_template;
    let mut labels = extra.labels.clone();
    labels.extend(identity.labels());
    let mut annotations = extra.annotations.clone();
    annotations.insert(annotation::RESTART_HASH.to_owned(), inputs.restart_hash.to_owned());
    if let Some(at) = cluster.annotation(annotation::RESTART_AT) {
        annotations.insert(annotation::RESTART_AT.to_owned(), at.to_owned());
    }
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(pod(identity, cluster, inputs)),
    }
}

fn pod(identity: &Identity, cluster: &NatsCluster, inputs: &Inputs<'_>) -> PodSpec {
    let spec = &cluster.spec;
    let none_if_empty = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
    let pull_secrets = spec.image.as_ref().map(|image| image.pull_secrets.clone()).unwrap_or_default();
    PodSpec {
        containers: vec![container(cluster, inputs)],
        volumes: Some(volumes(identity, cluster, inputs.tls)),
        service_account_name: Some(service_account_name(identity, cluster)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(grace_period(cluster)),
        security_context: Some(spec.pod_security_context.clone().unwrap_or_else(restricted_pod)),
        image_pull_secrets: (!pull_secrets.is_empty()).then_some(pull_secrets),
        affinity: spec.affinity.clone(),
        node_selector: none_if_empty(&spec.node_selector),
        tolerations: (!spec.tolerations.is_empty()).then(|| spec.tolerations.clone()),
        topology_spread_constraints: Some(
            spec.topology_spread_constraints.clone().unwrap_or_else(|| default_spread(identity)),
        ),
        priority_class_name: spec.priority_class_name.clone(),
        runtime_class_name: spec.runtime_class_name.clone(),
        ..PodSpec::default()
    }
}

/// Long enough for lame duck to end by itself.
fn grace_period(cluster: &NatsCluster) -> i64 {
    let lame_duck = cluster.spec.lame_duck.duration.parse().map_or(0, |d| d.as_secs());
    let derived =
        i64::try_from(lame_duck).unwrap_or(i64::MAX).saturating_add(GRACE_AFTER_LAME_DUCK).max(GRACE_MIN);
    cluster.spec.termination_grace_period_seconds.unwrap_or(derived)
}

fn container(cluster: &NatsCluster, inputs: &Inputs<'_>) -> Container {
    let spec = &cluster.spec;
    let port = |name: &str, number: i32| ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let field = |name: &str, path: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                api_version: Some("v1".to_owned()),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    let pull_policy =
        spec.image.as_ref().and_then(|image| image.pull_policy).unwrap_or(PullPolicy::IfNotPresent);
    Container {
        name: CONTAINER.to_owned(),
        image: Some(inputs.image.to_owned()),
        image_pull_policy: Some(pull_policy.as_str().to_owned()),
        args: Some(vec![
            "--config".to_owned(),
            files::CONFIG_PATH.to_owned(),
            "--name".to_owned(),
            format!("{}$(POD_NAME)", spec.server_name_prefix),
        ]),
        env: Some(vec![
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_IP", "status.podIP"),
        ]),
        ports: Some(vec![
            port(CLIENT_PORT, spec.clients.port),
            port(CLUSTER_PORT, spec.routes.port),
            port(MONITOR_PORT, spec.monitoring.port),
        ]),
        // An hour to start: recovery may take long and must not end in a restart loop.
        startup_probe: Some(probe("/healthz?js-server-only=true", (5, 720, 3))),
        readiness_probe: Some(probe("/healthz?js-enabled-only=true", (5, 3, 3))),
        liveness_probe: Some(probe("/healthz?js-server-only=true", (30, 6, 5))),
        resources: Some(resources(cluster)),
        security_context: Some(spec.container_security_context.clone().unwrap_or_else(restricted_container)),
        volume_mounts: Some(
            [
                mount("config", files::FOLDER, true),
                mount("run", "/var/run/nats", false),
                mount("tmp", "/tmp", false),
            ]
            .into_iter()
            .chain(storage::mount(cluster))
            .collect(),
        ),
        ..Container::default()
    }
}

/// A probe of the monitoring port: seconds between, failures allowed, seconds to answer.
fn probe(path: &str, (period, failures, timeout): (i32, i32, i32)) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(MONITOR_PORT.to_owned()),
            scheme: Some("HTTP".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        timeout_seconds: Some(timeout),
        ..Probe::default()
    }
}

fn resources(cluster: &NatsCluster) -> ResourceRequirements {
    let Some(wanted) = &cluster.spec.resources else {
        let amounts: BTreeMap<String, Quantity> =
            [("cpu", "1"), ("memory", "1Gi")].map(|(k, v)| (k.to_owned(), Quantity(v.to_owned()))).into();
        return ResourceRequirements {
            requests: Some(amounts.clone()),
            limits: Some(amounts),
            ..ResourceRequirements::default()
        };
    };
    let amounts = |map| (!BTreeMap::is_empty(map)).then(|| common::quantities(map));
    ResourceRequirements {
        requests: amounts(&wanted.requests),
        limits: amounts(&wanted.limits),
        ..ResourceRequirements::default()
    }
}

/// One projected volume for configuration and certificates, so that a pod sees them change together.
fn volumes(identity: &Identity, cluster: &NatsCluster, tls: &[TlsFiles]) -> Vec<Volume> {
    let secret = |name: String, items: Vec<(String, String)>| VolumeProjection {
        secret: Some(SecretProjection {
            name,
            items: Some(items.into_iter().map(|(key, path)| KeyToPath { key, path, mode: None }).collect()),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    let mut sources = vec![secret(identity.config(), vec![(CONFIG_KEY.to_owned(), CONFIG_KEY.to_owned())])];
    sources.extend(tls.iter().map(|listener| secret(listener.secret.clone(), listener.items())));
    let empty = |name: &str| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let mut volumes = vec![
        Volume {
            name: "config".to_owned(),
            projected: Some(ProjectedVolumeSource { default_mode: Some(FILE_MODE), sources: Some(sources) }),
            ..Volume::default()
        },
        empty("run"),
        empty("tmp"),
    ];
    volumes.extend(storage::ephemeral_volume(cluster));
    volumes
}

fn restricted_pod() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

fn restricted_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

/// Over nodes and zones where possible; never a reason not to run.
fn default_spread(identity: &Identity) -> Vec<TopologySpreadConstraint> {
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        .map(|key| TopologySpreadConstraint {
            max_skew: 1,
            topology_key: key.to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(LabelSelector {
                match_labels: Some(identity.selector()),
                ..LabelSelector::default()
            }),
            ..TopologySpreadConstraint::default()
        })
        .into()
}
