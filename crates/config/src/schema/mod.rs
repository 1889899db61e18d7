//! The table of every key: names, where it stands, whether this version has it, and what a change asks for.
//!
//! Decoding takes names and aliases from here, `reload_class` the classes, and the option reference all of it.

mod jetstream;
mod reference;

pub use reference::reference;

use crate::reload_class::ReloadClass;

/// Where a key may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// The outermost map.
    Top,
    /// `authorization`.
    Authorization,
    /// An entry of `users`.
    User,
    /// `permissions` of a user or a default.
    Permissions,
    /// `publish` or `subscribe` of permissions, as a map.
    SubjectPermission,
    /// `allow_responses`, as a map.
    Responses,
    /// An account.
    Account,
    /// `limits` of an account.
    AccountLimits,
    /// A `tls` block.
    Tls,
    /// An entry of `certs` in a `tls` block.
    Certificate,
    /// An entry of `exports`.
    Export,
    /// An entry of `imports`.
    Import,
    /// `stream` or `service` of that.
    ImportSource,
    /// A destination of `mappings`, as a map.
    Destination,
    /// `jetstream` of an account.
    AccountJetStream,
    /// `jetstream`.
    JetStream,
    /// `limits` of `jetstream`.
    JetStreamLimits,
    /// `batch` of those.
    JetStreamBatch,
    /// `cluster`.
    Cluster,
    /// `authorization` of the cluster.
    ClusterAuthorization,
    /// `compression`, as a map.
    Compression,
}

/// One key of one section.
#[derive(Debug)]
pub struct Key {
    /// Where it stands.
    pub section: Section,
    /// Its canonical name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Its type, in words.
    pub kind: &'static str,
    /// Its default, in words; empty if there is none.
    pub default: &'static str,
    /// What a change asks for; `None` inside blocks whose class is that of the block.
    class: Option<ReloadClass>,
    /// False if this version refuses it.
    pub is_supported: bool,
    /// What it means.
    pub summary: &'static str,
}

impl Key {
    /// What a change of it asks for. A key inside a block without a class of its own is as the block.
    pub fn reload_class(&self) -> ReloadClass {
        if !self.is_supported {
            return ReloadClass::Refused;
        }
        self.class.unwrap_or(ReloadClass::Hot)
    }

    /// True if `name` is this key, in any case.
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

/// Every key, section by section.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().copied().flatten()
}

/// The key of that name or alias, in any case.
pub(crate) fn find(section: Section, name: &str) -> Option<&'static Key> {
    keys().find(|key| key.section == section && key.is(name))
}

/// The key with that dotted path of canonical names. `None` for keys whose class is that of the block around them.
pub(crate) fn by_path(path: &str) -> Option<&'static Key> {
    let (section, name) = match path.split_once('.') {
        None => (Section::Top, path),
        Some(("cluster", name)) => (Section::Cluster, name),
        Some(("jetstream", name)) => (Section::JetStream, name),
        Some(("tls", name)) => (Section::Tls, name),
        Some(_) => return None,
    };
    find(section, name).filter(|key| key.name == name && (key.class.is_some() || !key.is_supported))
}

const KEYS: &[&[Key]] = &[TOP, TOP_ABSENT, AUTHORIZATION, ACCOUNTS, jetstream::KEYS, TLS, CLUSTER];

type Aliases = &'static [&'static str];

const HOT: Option<ReloadClass> = Some(ReloadClass::Hot);
const RESTART: Option<ReloadClass> = Some(ReloadClass::Restart);
/// As the block around it.
const BLOCK: Option<ReloadClass> = None;

/// A key this version has; type, default and summary come from `described`.
const fn key(
    section: Section,
    name: &'static str,
    aliases: Aliases,
    class: Option<ReloadClass>,
    described: [&'static str; 3],
) -> Key {
    let [kind, default, summary] = described;
    Key { section, name, aliases, kind, default, class, is_supported: true, summary }
}

/// A key this version refuses.
const fn absent(section: Section, name: &'static str, aliases: Aliases) -> Key {
    Key { section, name, aliases, kind: "", default: "", class: None, is_supported: false, summary: "" }
}

const fn top(
    name: &'static str,
    aliases: Aliases,
    class: Option<ReloadClass>,
    described: [&'static str; 3],
) -> Key {
    key(Section::Top, name, aliases, class, described)
}

#[rustfmt::skip]
const TOP: &[Key] = &[
    top("listen", &[], RESTART, ["host:port or port", "0.0.0.0:4222", "Address for clients; `host` and `port` in one."]),
    top("host", &["net"], RESTART, ["string", "0.0.0.0", "Host for clients."]),
    top("port", &[], RESTART, ["integer", "4222", "Port for clients; -1 is any free port, and a change to or from it is no change."]),
    top("client_advertise", &[], HOT, ["host or host:port", "", "Address told to clients and peers instead of the listen address."]),
    top("server_name", &[], RESTART, ["string", "server id", "Name of the server; no spaces."]),
    top("server_tags", &[], HOT, ["string or list", "", "Tags shown in monitoring."]),
    top("server_metadata", &[], HOT, ["map of strings", "", "Metadata shown in monitoring."]),
    top("debug", &[], HOT, ["boolean", "false", "Log debug lines."]),
    top("trace", &[], HOT, ["boolean", "false", "Log protocol lines."]),
    top("trace_verbose", &[], HOT, ["boolean", "false", "Log protocol lines of the system account too; implies `trace`."]),
    top("trace_headers", &[], HOT, ["boolean", "false", "Log headers and not payloads; implies `trace`."]),
    top("logtime", &[], HOT, ["boolean", "true", "Log lines carry a time."]),
    top("logtime_utc", &[], HOT, ["boolean", "false", "That time is UTC."]),
    top("log_file", &["logfile"], HOT, ["path", "standard error", "Log file."]),
    top("log_size_limit", &["logfile_size_limit"], RESTART, ["size", "0", "Size at which the log file is rotated; 0 never."]),
    top("log_max_num", &["logfile_max_num"], RESTART, ["integer", "0", "Log files kept; 0 keeps all."]),
    top("log_format", &[], HOT, ["`text` or `json`", "text", "Form of a log line. Not known to nats-server."]),
    top("pid_file", &["pidfile"], HOT, ["path", "", "File that receives the process id."]),
    top("store_dir", &["storedir"], RESTART, ["directory", "", "Directory of JetStream, which makes `jetstream` in it. May stand in the block instead."]),
    top("ports_file_dir", &[], HOT, ["directory", "", "Directory for a JSON file with the ports in use."]),
    top("max_control_line", &[], HOT, ["size", "4096", "Longest protocol line, for new connections."]),
    top("max_payload", &[], HOT, ["size", "1MB", "Largest message; at most `max_pending`. -1 is as much as `max_pending` allows."]),
    top("max_pending", &[], RESTART, ["size", "64MB", "Bytes waiting for one connection before it is a slow consumer."]),
    top("max_connections", &["max_conn"], HOT, ["integer", "65536", "Client connections; 0 refuses all."]),
    top("max_subscriptions", &["max_subs"], RESTART, ["integer", "0", "Subscriptions of one connection; 0 is unlimited."]),
    top("max_sub_tokens", &["max_subscription_tokens"], RESTART, ["integer up to 255", "0", "Tokens of a subscription's subject; 0 is unlimited."]),
    top("max_traced_msg_len", &[], HOT, ["integer", "0", "Bytes of a message in a trace line; 0 is all."]),
    top("max_closed_clients", &[], RESTART, ["integer", "10000", "Closed connections kept for monitoring."]),
    top("ping_interval", &[], HOT, ["duration", "2m", "Time between PINGs."]),
    top("ping_max", &[], HOT, ["integer", "2", "Unanswered PINGs before a connection is stale."]),
    top("write_deadline", &[], HOT, ["duration", "10s", "Time one write may take."]),
    top("write_timeout", &[], RESTART, ["`default`, `close` or `retry`", "default", "What happens when a write takes longer."]),
    top("no_fast_producer_stall", &[], HOT, ["boolean", "false", "Drop messages for a slow consumer instead of slowing the producer."]),
    top("lame_duck_duration", &[], RESTART, ["duration from 30s", "2m", "Time in which clients are closed in lame duck mode."]),
    top("lame_duck_grace_period", &[], RESTART, ["duration", "10s", "Time before the first client is closed."]),
    top("lame_duck_on_term", &[], HOT, ["boolean", "false", "SIGTERM starts lame duck mode. Not known to nats-server."]),
    top("connect_error_reports", &[], HOT, ["integer", "3600", "Failed first connections of a link per log line."]),
    top("reconnect_error_reports", &[], HOT, ["integer", "1", "Failed reconnections of a link per log line."]),
    top("no_header_support", &[], RESTART, ["boolean", "false", "Offer no message headers."]),
    top("allow_non_tls", &[], RESTART, ["boolean", "false", "Accept plain clients beside TLS."]),
    top("tls", &[], HOT, ["map", "", "TLS for clients."]),
    top("http", &[], RESTART, ["host:port or port", "", "Monitoring address; the host is that of clients unless given."]),
    top("https", &[], RESTART, ["host:port or port", "", "Monitoring address with the TLS of clients."]),
    top("http_port", &["monitor_port"], RESTART, ["integer", "0", "Monitoring port."]),
    top("https_port", &[], RESTART, ["integer", "0", "Monitoring port with TLS."]),
    top("http_base_path", &[], RESTART, ["path", "/", "Path in front of the monitoring paths."]),
    top("authorization", &[], HOT, ["map", "", "Who may connect."]),
    top("accounts", &[], HOT, ["map or list of names", "", "Accounts."]),
    top("mappings", &["maps"], HOT, ["map", "", "Mappings of subjects in account `$G`."]),
    top("no_auth_user", &[], RESTART, ["string", "", "User of clients without credentials. A reload may drop it together with the user."]),
    top("system_account", &["system"], RESTART, ["string", "$SYS", "System account."]),
    top("no_system_account", &["no_system", "no_sys_acc"], RESTART, ["boolean", "false", "No system account."]),
    top("jetstream", &[], HOT, ["boolean, `enabled` or map", "off", "Streams and consumers."]),
    top("cluster", &[], RESTART, ["map", "", "Routes to other servers of this cluster."]),
];

#[rustfmt::skip]
const TOP_ABSENT: &[Key] = &[
    absent(Section::Top, "feature_flags", &[]),
    absent(Section::Top, "syslog", &[]),
    absent(Section::Top, "remote_syslog", &[]),
    absent(Section::Top, "prof_port", &[]),
    absent(Section::Top, "prof_block_rate", &[]),
    absent(Section::Top, "disable_sublist_cache", &["no_sublist_cache"]),
    absent(Section::Top, "proxy_protocol", &[]),
    absent(Section::Top, "ocsp", &[]),
    absent(Section::Top, "ocsp_cache", &[]),
    absent(Section::Top, "default_sentinel", &[]),
    absent(Section::Top, "proxies", &[]),
    absent(Section::Top, "trusted_keys", &["trusted"]),
    absent(Section::Top, "operator", &["operators", "root", "roots", "root_operator", "root_operators"]),
    absent(Section::Top, "resolver", &["account_resolver"]),
    absent(Section::Top, "resolver_tls", &[]),
    absent(Section::Top, "resolver_preload", &[]),
    absent(Section::Top, "resolver_pinned_accounts", &[]),
    absent(Section::Top, "default_js_domain", &[]),
    absent(Section::Top, "gateway", &[]),
    absent(Section::Top, "leafnodes", &["leaf"]),
    absent(Section::Top, "websocket", &["ws"]),
    absent(Section::Top, "mqtt", &[]),
];

#[rustfmt::skip]
const AUTHORIZATION: &[Key] = &[
    key(Section::Authorization, "user", &["username"], BLOCK, ["string", "", "The one user."]),
    key(Section::Authorization, "password", &["pass"], BLOCK, ["string", "", "Its password, plain or bcrypt."]),
    key(Section::Authorization, "token", &[], BLOCK, ["string", "", "The one token, plain or bcrypt."]),
    key(Section::Authorization, "timeout", &[], BLOCK, ["seconds or duration", "2s, or 1s more than the TLS timeout", "Time to authenticate."]),
    key(Section::Authorization, "users", &[], BLOCK, ["list", "", "Users."]),
    key(Section::Authorization, "default_permissions", &["default_permission", "permissions"], BLOCK, ["map", "", "Permissions of users without their own."]),
    absent(Section::Authorization, "auth_callout", &["auth_hook"]),
    absent(Section::Authorization, "proxy_required", &[]),
    key(Section::User, "user", &["username"], BLOCK, ["string", "", "Name."]),
    key(Section::User, "password", &["pass"], BLOCK, ["string", "", "Password, plain or bcrypt."]),
    key(Section::User, "permissions", &["permission", "authorization"], BLOCK, ["map", "", "Permissions."]),
    key(Section::User, "allowed_connection_types", &["connection_types", "clients"], BLOCK, ["list", "all", "Kinds of connection it may use."]),
    absent(Section::User, "nkey", &[]),
    absent(Section::User, "proxy_required", &[]),
    key(Section::Permissions, "publish", &["pub", "import"], BLOCK, ["subject, list or map", "", "What may be published."]),
    key(Section::Permissions, "subscribe", &["sub", "export"], BLOCK, ["subject, list or map", "", "What may be subscribed to."]),
    key(Section::Permissions, "allow_responses", &["publish_allow_responses"], BLOCK, ["boolean or map", "false", "May publish to the reply subject of a message it received."]),
    key(Section::SubjectPermission, "allow", &[], BLOCK, ["subject or list", "everything", "Allowed subjects."]),
    key(Section::SubjectPermission, "deny", &[], BLOCK, ["subject or list", "", "Denied subjects."]),
    key(Section::Responses, "max", &["max_msgs", "max_messages", "max_responses"], BLOCK, ["integer", "1", "Replies to one message; -1 is unlimited."]),
    key(Section::Responses, "expires", &["expiration", "ttl"], BLOCK, ["duration", "2m", "Time in which they are allowed."]),
];

#[rustfmt::skip]
const ACCOUNTS: &[Key] = &[
    key(Section::Account, "users", &[], BLOCK, ["list", "", "Users of the account."]),
    key(Section::Account, "default_permissions", &["default_permission"], BLOCK, ["map", "", "Permissions of users without their own."]),
    key(Section::Account, "limits", &[], BLOCK, ["map", "", "Limits of the account."]),
    absent(Section::Account, "nkey", &[]),
    key(Section::Account, "jetstream", &[], BLOCK, ["boolean, `enabled` or map", "off", "JetStream of the account, and its limits."]),
    absent(Section::Account, "msg_trace", &["trace_dest"]),
    key(Section::Account, "exports", &[], BLOCK, ["list", "", "What other accounts may import."]),
    key(Section::Account, "imports", &[], BLOCK, ["list", "", "What is imported from other accounts."]),
    key(Section::Account, "mappings", &["maps"], BLOCK, ["map", "", "Mappings of subjects: a destination, or a list of destinations with weights."]),
    key(Section::Export, "stream", &[], BLOCK, ["subject", "", "Messages that others may subscribe to."]),
    key(Section::Export, "service", &[], BLOCK, ["subject", "", "Requests that others may send."]),
    key(Section::Export, "accounts", &[], BLOCK, ["list", "all", "Accounts that may import it."]),
    key(Section::Export, "account_token_position", &[], BLOCK, ["integer", "", "Token, from 1, that must be the name of the importing account."]),
    key(Section::Export, "response_type", &["response"], BLOCK, ["`singleton`, `stream` or `chunked`", "singleton", "How a service answers."]),
    key(Section::Export, "response_threshold", &["threshold", "response_max_time", "response_time"], BLOCK, ["duration", "2m", "Time in which a service answers."]),
    absent(Section::Export, "latency", &[]),
    absent(Section::Export, "allow_trace", &[]),
    key(Section::Import, "stream", &[], BLOCK, ["map of `account` and `subject`", "", "Messages to subscribe to."]),
    key(Section::Import, "service", &[], BLOCK, ["map of `account` and `subject`", "", "Requests to send."]),
    key(Section::Import, "prefix", &[], BLOCK, ["subject", "", "Stands before the subject of a stream."]),
    key(Section::Import, "to", &[], BLOCK, ["subject", "the subject", "Subject in this account, with `$1` or `{{wildcard(1)}}` for wildcards."]),
    key(Section::Import, "share", &[], BLOCK, ["boolean", "false", "Tell the service who asks."]),
    absent(Section::Import, "allow_trace", &[]),
    key(Section::ImportSource, "account", &[], BLOCK, ["string", "", "The account that exports it."]),
    key(Section::ImportSource, "subject", &[], BLOCK, ["subject", "", "Its subject there."]),
    key(Section::Destination, "destination", &["dest"], BLOCK, ["subject", "", "Subject, with functions."]),
    key(Section::Destination, "weight", &[], BLOCK, ["percent", "", "Share of the messages."]),
    key(Section::Destination, "cluster", &[], BLOCK, ["string", "", "Cluster in which it counts."]),
    key(Section::AccountLimits, "max_connections", &["max_conn"], BLOCK, ["integer", "-1", "Connections of the account; -1 is unlimited."]),
    key(Section::AccountLimits, "max_subscriptions", &["max_subs"], BLOCK, ["integer", "-1", "Subscriptions of one connection."]),
    key(Section::AccountLimits, "max_payload", &["max_pay"], BLOCK, ["integer", "-1", "Largest message."]),
    key(Section::AccountLimits, "max_leafnodes", &["max_leafs"], BLOCK, ["integer", "-1", "Leafnode connections."]),
];

#[rustfmt::skip]
const TLS: &[Key] = &[
    key(Section::Tls, "cert_file", &[], BLOCK, ["path", "", "Certificate chain, PEM."]),
    key(Section::Tls, "key_file", &[], BLOCK, ["path", "", "Its key, PEM."]),
    key(Section::Tls, "ca_file", &[], BLOCK, ["path", "", "Certificates that sign those of the other side, PEM."]),
    key(Section::Tls, "certs", &["certificates"], BLOCK, ["list", "", "Several certificates instead of one."]),
    key(Section::Tls, "verify", &[], BLOCK, ["boolean", "false", "Ask the other side for a certificate."]),
    key(Section::Tls, "verify_and_map", &[], RESTART, ["boolean", "false", "And find the user by it."]),
    key(Section::Tls, "verify_cert_and_check_known_urls", &[], BLOCK, ["boolean", "false", "Cluster only: the certificate must name a configured route."]),
    key(Section::Tls, "insecure", &[], BLOCK, ["boolean", "false", "Do not verify the side that was dialled."]),
    key(Section::Tls, "timeout", &[], BLOCK, ["seconds or duration", "2s", "Time of the handshake."]),
    key(Section::Tls, "connection_rate_limit", &[], RESTART, ["integer", "0", "Handshakes a second; 0 is unlimited."]),
    key(Section::Tls, "cipher_suites", &[], BLOCK, ["list", "", "Cipher suites in order of preference."]),
    key(Section::Tls, "curve_preferences", &[], BLOCK, ["list", "", "Curves in order of preference."]),
    key(Section::Tls, "min_version", &[], BLOCK, ["`\"1.2\"` or `\"1.3\"`", "1.2", "Lowest protocol version."]),
    key(Section::Tls, "pinned_certs", &[], BLOCK, ["list of hex", "", "SHA-256 of the public keys that are accepted."]),
    key(Section::Tls, "handshake_first", &["first", "immediate"], BLOCK, ["boolean, `auto` or duration", "false", "Handshake before INFO."]),
    absent(Section::Tls, "allow_insecure_cipher_suites", &[]),
    absent(Section::Tls, "ocsp_peer", &[]),
    absent(Section::Tls, "cert_store", &[]),
    absent(Section::Tls, "cert_match_by", &[]),
    absent(Section::Tls, "cert_match", &[]),
    absent(Section::Tls, "cert_match_skip_invalid", &[]),
    absent(Section::Tls, "ca_certs_match", &[]),
    key(Section::Certificate, "cert_file", &[], BLOCK, ["path", "", "Certificate chain, PEM."]),
    key(Section::Certificate, "key_file", &[], BLOCK, ["path", "", "Its key, PEM."]),
];

#[rustfmt::skip]
const CLUSTER: &[Key] = &[
    key(Section::Cluster, "name", &[], HOT, ["string", "random", "Name of the cluster; no spaces."]),
    key(Section::Cluster, "listen", &[], RESTART, ["host:port or port", "", "Address for routes; `host` and `port` in one."]),
    key(Section::Cluster, "host", &["net"], RESTART, ["string", "0.0.0.0", "Host for routes."]),
    key(Section::Cluster, "port", &[], RESTART, ["integer", "0", "Port for routes; 0 has no cluster."]),
    key(Section::Cluster, "authorization", &[], HOT, ["map", "", "User, password and timeout of routes."]),
    key(Section::Cluster, "permissions", &[], HOT, ["map", "", "Interest that is told to peers (import) and taken from them (export)."]),
    key(Section::Cluster, "routes", &[], HOT, ["list of URLs", "", "Routes to dial."]),
    key(Section::Cluster, "tls", &[], HOT, ["map", "", "TLS of routes, both ways."]),
    key(Section::Cluster, "advertise", &["cluster_advertise"], HOT, ["host or host:port", "", "Address told to peers."]),
    key(Section::Cluster, "no_advertise", &[], HOT, ["boolean", "false", "Do not tell clients the addresses of peers."]),
    key(Section::Cluster, "connect_retries", &[], HOT, ["integer", "0", "Attempts to reach a peer found by gossip."]),
    key(Section::Cluster, "connect_backoff", &[], HOT, ["boolean", "false", "Wait longer between attempts."]),
    key(Section::Cluster, "pool_size", &[], HOT, ["integer", "3", "Connections to each peer; -1 has no pool."]),
    key(Section::Cluster, "accounts", &[], HOT, ["list", "", "Accounts with a connection of their own."]),
    key(Section::Cluster, "compression", &[], HOT, ["`accept`, `off` or `not supported`", "accept", "Compression of routes; the S2 modes are not supported in this version."]),
    key(Section::Cluster, "ping_interval", &[], HOT, ["duration up to 30s", "as clients, up to 30s", "Time between PINGs."]),
    key(Section::Cluster, "ping_max", &[], HOT, ["integer", "as clients", "Unanswered PINGs before a route is stale."]),
    key(Section::Cluster, "write_deadline", &[], HOT, ["duration", "as clients", "Time one write may take."]),
    key(Section::Cluster, "write_timeout", &[], HOT, ["`default`, `close` or `retry`", "retry", "What happens when a write takes longer."]),
    key(Section::ClusterAuthorization, "user", &["username"], BLOCK, ["string", "", "User of routes."]),
    key(Section::ClusterAuthorization, "password", &["pass"], BLOCK, ["string", "", "Its password, plain or bcrypt."]),
    key(Section::ClusterAuthorization, "timeout", &[], BLOCK, ["seconds or duration", "2s, or 1s more than the TLS timeout", "Time to authenticate."]),
    key(Section::ClusterAuthorization, "permissions", &["default_permissions", "default_permission"], BLOCK, ["map", "", "Old place of `cluster.permissions`."]),
    // These two have texts of their own.
    key(Section::ClusterAuthorization, "token", &[], BLOCK, ["", "", "Refused."]),
    key(Section::ClusterAuthorization, "users", &[], BLOCK, ["", "", "Refused."]),
    absent(Section::ClusterAuthorization, "auth_callout", &["auth_hook"]),
    absent(Section::ClusterAuthorization, "proxy_required", &[]),
    key(Section::Compression, "mode", &[], BLOCK, ["string", "accept", "As `compression`."]),
    absent(Section::Compression, "rtt_thresholds", &[]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice_in_a_section() {
        let mut seen = std::collections::HashSet::new();
        for key in keys() {
            for name in std::iter::once(&key.name).chain(key.aliases) {
                assert!(seen.insert((key.section, *name)), "{name} twice in {:?}", key.section);
            }
        }
    }

    #[test]
    fn supported_keys_are_described() {
        for key in keys().filter(|key| key.is_supported) {
            assert!(key.summary.ends_with('.'), "{} has no summary", key.name);
        }
    }
}
