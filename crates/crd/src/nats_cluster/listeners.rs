//! What a server listens on, and the Service in front of it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Duration, Empty};

/// The client listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clients {
    /// Port of clients.
    #[serde(default = "default_client_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: i32,
    /// Encrypts client connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// Connections that one server holds at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_connections: Option<i64>,
    /// Largest message: bytes, or a quantity such as 8Mi. 64Mi at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_payload: Option<IntOrString>,
    /// Bytes kept for a slow client before it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pending: Option<IntOrString>,
    /// Subscriptions that one client may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_subscriptions: Option<i64>,
    /// Longest protocol line: bytes, or a quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_control_line: Option<IntOrString>,
    /// How long a write to a client may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_deadline: Option<Duration>,
    /// How often the server asks whether a client is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_interval: Option<Duration>,
    /// Unanswered pings after which a client is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_pings_out: Option<i64>,
    /// Address that servers tell clients, `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub advertise: Option<String>,
    /// User that clients without a name become. Needs auth.allowAnonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub no_auth_user: Option<String>,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            port: default_client_port(),
            tls: None,
            max_connections: None,
            max_payload: None,
            max_pending: None,
            max_subscriptions: None,
            max_control_line: None,
            write_deadline: None,
            ping_interval: None,
            max_pings_out: None,
            advertise: None,
            no_auth_user: None,
        }
    }
}

const fn default_client_port() -> i32 {
    4222
}

/// A key pair in a Secret that somebody else looks after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsSecret {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key of the certificate chain.
    #[serde(default = "default_cert_key")]
    #[schemars(length(min = 1, max = 253))]
    pub cert_key: String,
    /// Key of the private key.
    #[serde(default = "default_key_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key_key: String,
    /// Key of the certificate authority that peers are checked against.
    #[serde(default = "default_ca_key")]
    #[schemars(length(min = 1, max = 253))]
    pub ca_key: String,
}

fn default_cert_key() -> String {
    "tls.crt".to_owned()
}

fn default_key_key() -> String {
    "tls.key".to_owned()
}

fn default_ca_key() -> String {
    "ca.crt".to_owned()
}

/// Encryption of client connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.builtin) != has(self.secret)")
    .message("name exactly one source of the certificate in clients.tls: builtin: {} or secret"))]
pub struct ClientTls {
    /// The operator's own certificate authority issues the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Empty>,
    /// The certificate comes from a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<TlsSecret>,
    /// Clients must show a certificate of the same authority.
    #[serde(default)]
    pub verify: bool,
    /// How long a handshake may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The handshake comes before the first protocol line.
    #[serde(default)]
    pub handshake_first: bool,
}

/// Encryption of routes: always mutual, on by default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.builtin), has(self.secret), self.disabled].filter(x, x).size() == 1")
    .message("choose exactly one of builtin: {}, secret and disabled: true in routes.tls"))]
pub struct RouteTls {
    /// The operator's own certificate authority issues the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Empty>,
    /// The certificate comes from a Secret. It must serve as server and as client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<TlsSecret>,
    /// Routes are not encrypted.
    #[serde(default)]
    pub disabled: bool,
}

/// User and password of routes, kept in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteAuthRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key of the user name.
    #[serde(default = "default_username_key")]
    #[schemars(length(min = 1, max = 253))]
    pub username_key: String,
    /// Key of the password.
    #[serde(default = "default_password_key")]
    #[schemars(length(min = 1, max = 253))]
    pub password_key: String,
}

fn default_username_key() -> String {
    "username".to_owned()
}

fn default_password_key() -> String {
    "password".to_owned()
}

/// The route listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Routes {
    /// Port of routes.
    #[serde(default = "default_route_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: i32,
    /// Encryption. `builtin: {}` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<RouteTls>,
    /// Connections between each two servers. -1 is one connection without pooling.
    #[serde(default = "default_pool_size")]
    #[schemars(range(min = -1, max = 64))]
    #[x_kube(validation = Rule::new("self != 0").message("set routes.poolSize to the number of connections between two servers, or to -1 for one without pooling"))]
    pub pool_size: i32,
    /// Accounts that get a route connection of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 64)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub accounts: Vec<String>,
    /// Do not tell clients the addresses of the other servers.
    #[serde(default = "default_no_advertise")]
    pub no_advertise: bool,
    /// User and password that servers use with each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_secret_ref: Option<RouteAuthRef>,
    /// Addresses of further servers, `nats-route://host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 512), regex(pattern = r"^(nats-route|nats|tls)://.+$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub extra_routes: Vec<String>,
    /// Write the cluster domain into the addresses of servers.
    #[serde(default)]
    pub use_fqdn: bool,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            port: default_route_port(),
            tls: None,
            pool_size: default_pool_size(),
            accounts: Vec::new(),
            no_advertise: default_no_advertise(),
            auth_secret_ref: None,
            extra_routes: Vec::new(),
            use_fqdn: false,
        }
    }
}

const fn default_route_port() -> i32 {
    6222
}

const fn default_pool_size() -> i32 {
    3
}

const fn default_no_advertise() -> bool {
    true
}

/// Health and figures over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Monitoring {
    /// Port of health, figures and metrics.
    #[serde(default = "default_monitoring_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: i32,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self { port: default_monitoring_port() }
    }
}

const fn default_monitoring_port() -> i32 {
    8222
}

/// Kind of the client Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Reachable inside the Kubernetes cluster.
    #[default]
    ClusterIP,
    /// Reachable on a port of every node.
    NodePort,
    /// Reachable through a load balancer.
    LoadBalancer,
}

/// Which endpoints traffic from outside may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficPolicy {
    /// Any pod.
    Cluster,
    /// Pods of the node that received it.
    Local,
}

/// The Service in front of the client port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.loadBalancerClass) || self.type == 'LoadBalancer'")
        .message("service.loadBalancerClass needs service.type LoadBalancer"),
    validation = Rule::new("!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'")
        .message("service.externalTrafficPolicy needs service.type NodePort or LoadBalancer")
)]
pub struct Service {
    /// Kind of the Service.
    #[serde(default, rename = "type")]
    pub type_: ServiceType,
    /// Labels for the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
    /// Which load balancer implementation serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub load_balancer_class: Option<String>,
    /// Which endpoints traffic from outside may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
}
