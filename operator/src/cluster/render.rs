//! Spec and facts to the text of the servers' configuration. Pure: the same input gives the same bytes.

use std::collections::BTreeMap;

use config::lang::{self, Value};
use crd::NatsCluster;
use crd::common::Duration;
use crd::nats_cluster::auth::{Account, AuthMode, Permissions, SubjectRules, User};
use crd::nats_cluster::validate::{SpecError, bytes};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sha2::{Digest, Sha256};

use super::credentials::manager_user;
use super::files::{CLIENTS, ROUTES, TlsFiles};
use super::{additional, jetstream};
use crate::error::Error;
use crate::objects::identity::Identity;

/// Key of the server metadata by which a process proves which configuration it runs.
pub const HASH_KEY: &str = "k8s-config-hash";
/// Hex digits of a hash that are kept: enough that two configurations of one cluster never meet.
const HASH_LENGTH: usize = 16;
/// Where the operator's requests go.
const SYSTEM_REQUESTS: &str = "$SYS.REQ.SERVER.>";
/// What the operator's user of an account may ask.
const MANAGER_REQUESTS: [&str; 16] = [
    "$JS.API.INFO",
    "$JS.API.STREAM.CREATE.*",
    "$JS.API.STREAM.UPDATE.*",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.DELETE.*",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.LIST",
    "$JS.API.STREAM.LEADER.STEPDOWN.*",
    "$JS.API.CONSUMER.CREATE.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.>",
    "$JS.API.CONSUMER.INFO.>",
    "$JS.API.CONSUMER.DELETE.>",
    "$JS.API.CONSUMER.LIST.*",
    "$JS.API.CONSUMER.NAMES.*",
    "$JS.API.CONSUMER.PAUSE.>",
    "$SRV.STATS.>",
];
/// Where the answers to the operator come.
pub const INBOX_PREFIX: &str = "_INBOX_MYELIN_OPERATOR";

/// A user name and its password as it may stand in a configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User name.
    pub user: String,
    /// bcrypt of the password.
    pub hash: String,
}

/// User name and password that servers use with each other.
#[derive(Clone, PartialEq, Eq)]
pub struct RouteLogin {
    /// User name.
    pub user: String,
    /// Plain password: each server has to present it.
    pub password: String,
}

/// What the configuration depends on beside the cluster object.
pub struct Inputs<'a> {
    /// Servers that have a route to them.
    pub servers: i32,
    /// DNS domain of the Kubernetes cluster.
    pub cluster_domain: &'a str,
    /// The operator's own login in the system account.
    pub operator: &'a Login,
    /// bcrypt of each user's password by user name, the operator's own among them.
    pub passwords: &'a BTreeMap<String, String>,
    /// Login of routes.
    pub routes: Option<&'a RouteLogin>,
    /// Where each listener's certificate lies.
    pub tls: &'a [TlsFiles],
    /// Hash of the certificates' content, so that a new certificate is a new configuration.
    pub certificates_hash: &'a str,
    /// What streams may use, and under which key they are stored; `None` without JetStream.
    pub jetstream: Option<&'a jetstream::Inputs>,
}

/// A configuration and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Text of `nats.conf`.
    pub text: String,
    /// Hash of everything a server reads.
    pub hash: String,
}

/// Renders the configuration of all servers of a cluster.
///
/// # Errors
/// When the spec holds a value that cannot be written, or `additionalConfig` sets what the operator sets.
pub fn render(identity: &Identity, cluster: &NatsCluster, inputs: &Inputs<'_>) -> Result<Rendered, Error> {
    let mut root = Value::map();
    listeners(&mut root, cluster, inputs)?;
    limits(&mut root, cluster)?;
    root.insert("cluster", routes(identity, cluster, inputs)?);
    if let Some(block) = jetstream::block(cluster, inputs.jetstream)? {
        root.insert("jetstream", block);
    }
    accounts(&mut root, cluster, inputs)?;
    lame_duck(&mut root, cluster)?;
    if let Some(extra) = &cluster.spec.additional_config {
        additional::merge(&mut root, extra, cluster.spec.allow_overrides)?;
    }
    let hash = hash(&[&lang::render(&root), inputs.certificates_hash]);
    mark(&mut root, &hash);
    Ok(Rendered { text: lang::render(&root), hash })
}

/// Hash of some texts, in order.
#[must_use]
pub fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut text = String::with_capacity(HASH_LENGTH);
    for byte in &hasher.finalize()[..HASH_LENGTH / 2] {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Writes the hash where a running server shows it.
fn mark(root: &mut Value, hash: &str) {
    let mut metadata =
        root.as_map_mut().and_then(|map| map.remove("server_metadata")).unwrap_or_else(Value::map);
    metadata.insert(HASH_KEY, hash);
    root.insert("server_metadata", metadata);
}

fn listeners(root: &mut Value, cluster: &NatsCluster, inputs: &Inputs<'_>) -> Result<(), Error> {
    let clients = &cluster.spec.clients;
    root.insert("port", clients.port);
    root.insert("http_port", cluster.spec.monitoring.port);
    root.insert("pid_file", "/var/run/nats/nats.pid");
    if let Some(address) = &clients.advertise {
        root.insert("client_advertise", address);
    }
    let (Some(settings), Some(files)) = (&clients.tls, find(inputs.tls, CLIENTS)) else {
        return Ok(());
    };
    let mut tls = certificate(files);
    if settings.verify {
        tls.insert("verify", true);
    }
    if let Some(timeout) = &settings.timeout {
        tls.insert("timeout", duration("clients.tls.timeout", timeout)?);
    }
    if settings.handshake_first {
        tls.insert("handshake_first", true);
    }
    root.insert("tls", tls);
    Ok(())
}

fn find<'a>(tls: &'a [TlsFiles], listener: &str) -> Option<&'a TlsFiles> {
    tls.iter().find(|files| files.listener == listener)
}

fn certificate(files: &TlsFiles) -> Value {
    let mut tls = Value::map();
    tls.insert("cert_file", files.path("tls.crt"));
    tls.insert("key_file", files.path("tls.key"));
    if files.ca_key.is_some() {
        tls.insert("ca_file", files.path("ca.crt"));
    }
    tls
}

fn limits(root: &mut Value, cluster: &NatsCluster) -> Result<(), Error> {
    let clients = &cluster.spec.clients;
    for (name, field, amount) in [
        ("max_payload", "clients.maxPayload", &clients.max_payload),
        ("max_pending", "clients.maxPending", &clients.max_pending),
        ("max_control_line", "clients.maxControlLine", &clients.max_control_line),
    ] {
        insert_bytes(root, name, field, amount.as_ref())?;
    }
    for (name, number) in [
        ("max_connections", clients.max_connections),
        ("max_subscriptions", clients.max_subscriptions),
        ("ping_max", clients.max_pings_out),
    ] {
        if let Some(number) = number {
            root.insert(name, number);
        }
    }
    for (name, field, text) in [
        ("write_deadline", "clients.writeDeadline", &clients.write_deadline),
        ("ping_interval", "clients.pingInterval", &clients.ping_interval),
    ] {
        if let Some(text) = text {
            root.insert(name, duration(field, text)?);
        }
    }
    Ok(())
}

fn insert_bytes(
    root: &mut Value,
    name: &str,
    field: &'static str,
    amount: Option<&IntOrString>,
) -> Result<(), Error> {
    if let Some(amount) = amount {
        root.insert(name, bytes(field, amount)?);
    }
    Ok(())
}

fn lame_duck(root: &mut Value, cluster: &NatsCluster) -> Result<(), Error> {
    let settings = &cluster.spec.lame_duck;
    root.insert("lame_duck_duration", duration("lameDuck.duration", &settings.duration)?);
    root.insert("lame_duck_grace_period", duration("lameDuck.gracePeriod", &settings.grace_period)?);
    // Kubernetes ends a pod by SIGTERM; clients are to be sent away first.
    root.insert("lame_duck_on_term", true);
    Ok(())
}

fn routes(identity: &Identity, cluster: &NatsCluster, inputs: &Inputs<'_>) -> Result<Value, Error> {
    let settings = &cluster.spec.routes;
    let mut block = Value::map();
    block.insert("name", cluster.cluster_name());
    block.insert("port", settings.port);
    block.insert("pool_size", settings.pool_size);
    if settings.no_advertise {
        block.insert("no_advertise", true);
    }
    if !settings.accounts.is_empty() {
        block.insert("accounts", settings.accounts.iter().collect::<Value>());
    }
    let login = inputs.routes.map_or_else(String::new, |login| {
        format!("{}:{}@", percent_encode(&login.user), percent_encode(&login.password))
    });
    let mut urls: Vec<String> = (0..inputs.servers)
        .map(|ordinal| {
            let mut host = identity.pod_host(&identity.pod(ordinal));
            if settings.use_fqdn {
                host = format!("{host}.{}", inputs.cluster_domain);
            }
            format!("nats-route://{login}{host}:{}", settings.port)
        })
        .collect();
    urls.extend(settings.extra_routes.iter().cloned());
    block.insert("routes", urls);
    if let Some(login) = inputs.routes {
        block.insert(
            "authorization",
            Value::from([("user", login.user.as_str()), ("password", login.password.as_str())]),
        );
    }
    if let Some(files) = find(inputs.tls, ROUTES) {
        let mut tls = certificate(files);
        tls.insert("verify", true);
        block.insert("tls", tls);
    }
    Ok(block)
}

/// Everything but letters, digits and `-._~` by its number, as in the user part of a URL.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn accounts(root: &mut Value, cluster: &NatsCluster, inputs: &Inputs<'_>) -> Result<(), Error> {
    let auth = &cluster.spec.auth;
    root.insert("system_account", &auth.system_account);
    let mut block = Value::map();
    block.insert(auth.system_account.clone(), system_account(inputs.operator));
    // Without users outside the system account a server asks nobody for a password: that is what None means.
    if auth.mode == AuthMode::Config {
        for account in &auth.accounts {
            block.insert(account.name.clone(), self::account(cluster, account, inputs)?);
        }
    }
    root.insert("accounts", block);
    if let Some(user) = &cluster.spec.clients.no_auth_user {
        root.insert("no_auth_user", user);
    }
    Ok(())
}

/// An account with its users, and the one by which the operator looks after its streams.
fn account(cluster: &NatsCluster, account: &Account, inputs: &Inputs<'_>) -> Result<Value, Error> {
    let mut users =
        account.users.iter().map(|user| user_entry(user, inputs)).collect::<Result<Vec<_>, _>>()?;
    users.push(manager(&account.name, inputs)?);
    let mut block = Value::from([("users", users)]);
    if cluster.jetstream().is_some()
        && let Some(jetstream) = jetstream::account(account.jetstream.as_ref())?
    {
        block.insert("jetstream", jetstream);
    }
    Ok(block)
}

/// The operator's user in an account: it may look after streams and consumers and ask services for their figures, and neither
/// read nor write a message.
fn manager(account: &str, inputs: &Inputs<'_>) -> Result<Value, Error> {
    let user = manager_user(account);
    let Some(hash) = inputs.passwords.get(&user) else {
        return Err(Error::Password { user, problem: "was not made".to_owned() });
    };
    let mut permissions = Value::map();
    permissions.insert("publish", Value::from([("allow", MANAGER_REQUESTS.to_vec())]));
    let subscribe = vec!["$JS.EVENT.ADVISORY.>".to_owned(), format!("{INBOX_PREFIX}.>")];
    permissions.insert("subscribe", Value::from([("allow", subscribe)]));
    let mut entry = Value::map();
    entry.insert("user", user);
    entry.insert("password", hash.as_str());
    entry.insert("permissions", permissions);
    Ok(entry)
}

/// The account of the servers themselves, with one user who may ask them and hear the answers.
fn system_account(operator: &Login) -> Value {
    let mut permissions = Value::map();
    permissions.insert("publish", Value::from([("allow", vec![SYSTEM_REQUESTS])]));
    permissions.insert("subscribe", Value::from([("allow", vec![format!("{INBOX_PREFIX}.>")])]));
    let mut user = Value::map();
    user.insert("user", operator.user.as_str());
    user.insert("password", operator.hash.as_str());
    user.insert("permissions", permissions);
    Value::from([("users", vec![user])])
}

fn user_entry(user: &User, inputs: &Inputs<'_>) -> Result<Value, Error> {
    let Some(hash) = inputs.passwords.get(&user.name) else {
        return Err(Error::Password { user: user.name.clone(), problem: "was not read".to_owned() });
    };
    let mut entry = Value::map();
    entry.insert("user", user.name.as_str());
    entry.insert("password", hash.as_str());
    if let Some(granted) = &user.permissions {
        entry.insert("permissions", permissions(granted)?);
    }
    Ok(entry)
}

fn permissions(granted: &Permissions) -> Result<Value, Error> {
    let mut block = Value::map();
    if let Some(rules) = &granted.publish {
        block.insert("publish", subject_rules(rules));
    }
    if let Some(rules) = &granted.subscribe {
        block.insert("subscribe", subject_rules(rules));
    }
    if let Some(responses) = &granted.allow_responses {
        let mut limits = Value::map();
        limits.insert("max", responses.max.unwrap_or(1));
        if let Some(ttl) = &responses.ttl {
            limits.insert("expires", duration("permissions.allowResponses.ttl", ttl)?);
        }
        block.insert("allow_responses", limits);
    }
    Ok(block)
}

fn subject_rules(rules: &SubjectRules) -> Value {
    let mut block = Value::map();
    if !rules.allow.is_empty() {
        block.insert("allow", rules.allow.iter().collect::<Value>());
    }
    if !rules.deny.is_empty() {
        block.insert("deny", rules.deny.iter().collect::<Value>());
    }
    block
}

/// A duration in the units that the servers know: no days, no weeks.
///
/// # Errors
/// When the text is no duration.
pub fn duration(field: &'static str, text: &Duration) -> Result<String, Error> {
    let nanos = text.parse().map_err(|source| SpecError::Duration { field, source })?.as_nanos();
    for (unit, size) in [("h", 3_600_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if nanos % size == 0 {
            return Ok(format!("{}{unit}", nanos / size));
        }
    }
    Ok(format!("{nanos}ns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_use_units_that_servers_know() {
        for (text, expected) in
            [("1d", "24h"), ("30s", "30s"), ("90m", "5400s"), ("1.5s", "1500ms"), ("7ns", "7ns")]
        {
            assert_eq!(duration("f", &Duration(text.to_owned())).unwrap(), expected);
        }
    }

    #[test]
    fn logins_survive_in_a_url() {
        assert_eq!(percent_encode("p@ss:w/rd-1"), "p%40ss%3Aw%2Frd-1");
    }

    #[test]
    fn a_hash_tells_where_parts_end() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_eq!(hash(&["a"]).len(), HASH_LENGTH);
    }
}
