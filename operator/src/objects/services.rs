//! The two Services and the service account of a cluster.

use crd::NatsCluster;
use crd::nats_cluster::listeners::{ServiceType, TrafficPolicy};
use k8s_openapi::api::core::v1::{Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::identity::Identity;

/// Names of the ports, in pods and in Services.
pub const CLIENT_PORT: &str = "client";
/// Port of routes.
pub const CLUSTER_PORT: &str = "cluster";
/// Port of health and figures.
pub const MONITOR_PORT: &str = "monitor";

fn port(name: &str, number: i32, protocol: &str) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        protocol: Some("TCP".to_owned()),
        app_protocol: Some(protocol.to_owned()),
        target_port: Some(IntOrString::String(name.to_owned())),
        ..ServicePort::default()
    }
}

/// Names every pod, ready or not: servers must find each other before they are ready.
#[must_use]
pub fn headless(identity: &Identity, cluster: &NatsCluster) -> Service {
    let spec = &cluster.spec;
    Service {
        metadata: identity.owned(identity.headless()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(identity.selector()),
            ports: Some(vec![
                port(CLIENT_PORT, spec.clients.port, client_protocol(cluster)),
                port(CLUSTER_PORT, spec.routes.port, "tcp"),
                port(MONITOR_PORT, spec.monitoring.port, "http"),
            ]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// What clients connect to: ready pods only.
#[must_use]
pub fn client(identity: &Identity, cluster: &NatsCluster) -> Service {
    let settings = &cluster.spec.service;
    let mut metadata = identity.owned(identity.name.clone());
    if let Some(labels) = &mut metadata.labels {
        for (key, value) in &settings.labels {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    if !settings.annotations.is_empty() {
        metadata.annotations = Some(settings.annotations.clone());
    }
    let type_ = match settings.type_ {
        ServiceType::ClusterIP => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
    };
    let policy = settings.external_traffic_policy.map(|policy| match policy {
        TrafficPolicy::Cluster => "Cluster".to_owned(),
        TrafficPolicy::Local => "Local".to_owned(),
    });
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(type_.to_owned()),
            selector: Some(identity.selector()),
            load_balancer_class: settings.load_balancer_class.clone(),
            external_traffic_policy: policy,
            ports: Some(vec![port(CLIENT_PORT, cluster.spec.clients.port, client_protocol(cluster))]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn client_protocol(cluster: &NatsCluster) -> &'static str {
    if cluster.spec.clients.tls.as_ref().is_some_and(|tls| tls.handshake_first) { "tls" } else { "tcp" }
}

/// The account that the pods run as, unless the cluster names an existing one.
#[must_use]
pub fn service_account(identity: &Identity, cluster: &NatsCluster) -> Option<ServiceAccount> {
    let settings = &cluster.spec.service_account;
    if !settings.create {
        return None;
    }
    let mut metadata = identity.owned(service_account_name(identity, cluster));
    if !settings.annotations.is_empty() {
        metadata.annotations = Some(settings.annotations.clone());
    }
    Some(ServiceAccount {
        metadata,
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    })
}

/// Name of the account that the pods run as.
#[must_use]
pub fn service_account_name(identity: &Identity, cluster: &NatsCluster) -> String {
    cluster.spec.service_account.name.clone().unwrap_or_else(|| identity.name.clone())
}
