//! What changed between two sets of options, and what each change asks for.

use std::fmt::Debug;
use std::time::Duration;

use crate::duration::format_duration;
use crate::options::{
    Address, Cipher, Cluster, DEFAULT_SYSTEM_ACCOUNT, JetStream, LogFormat, Options, Port, RoutePool,
    SyncMode, Tls, WriteTimeout,
};
use crate::reload_class::{ReloadClass, reload_class};

/// One changed option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its dotted path with canonical names.
    pub path: String,
    /// Its name in the reload texts of the reference server.
    pub field: &'static str,
    /// The old value; secrets are not shown.
    pub old: String,
    /// The new value; secrets are not shown.
    pub new: String,
    /// What the change asks for.
    pub class: ReloadClass,
    /// What is refused, where the reference server shows no values.
    refused: Option<&'static str>,
}

impl Change {
    /// The text of a refused reload.
    pub fn refusal(&self) -> String {
        if let Some(refused) = self.refused {
            return format!("config reload not supported for {refused}");
        }
        format!("config reload not supported for {}: old={}, new={}", self.field, self.old, self.new)
    }
}

/// Compares two sets of options.
pub fn diff(old: &Options, new: &Options) -> Vec<Change> {
    let mut differ = Differ { changes: Vec::new() };
    differ.listen(old, new);
    differ.identity(old, new);
    differ.logging(old, new);
    differ.limits(old, new);
    differ.tls(old.tls.as_ref(), new.tls.as_ref());
    differ.accounts(old, new);
    differ.jetstream(old, new);
    let none = Cluster::default();
    differ.cluster(old.cluster.as_ref().unwrap_or(&none), new.cluster.as_ref().unwrap_or(&none));
    differ.changes
}

struct Differ {
    changes: Vec<Change>,
}

impl Differ {
    /// Compares two values that can be shown.
    fn compare<T: PartialEq + Show>(&mut self, path: &str, field: &'static str, old: &T, new: &T) {
        if old != new {
            self.push(path, field, old.show(), new.show());
        }
    }

    /// Compares two blocks, which are shown by their `Debug` form: secrets print nothing there.
    fn compare_block<T: PartialEq + Debug>(&mut self, path: &str, field: &'static str, old: &T, new: &T) {
        if old != new {
            self.push(path, field, format!("{old:?}"), format!("{new:?}"));
        }
    }

    fn push(&mut self, path: &str, field: &'static str, old: String, new: String) {
        let class = reload_class(path);
        assert!(class.is_some(), "changed option {path} is not in the table of options");
        let class = class.unwrap_or(ReloadClass::Refused);
        self.changes.push(Change { path: path.into(), field, old, new, class, refused: None });
    }

    fn listen(&mut self, old: &Options, new: &Options) {
        let (from, to) = (&old.listen, &new.listen);
        self.compare("host", "Host", &from.address.host, &to.address.host);
        // A random port has no number that could differ.
        if from.address.port != Port::Random && to.address.port != Port::Random {
            self.compare("port", "Port", &from.address.port, &to.address.port);
        }
        self.compare("client_advertise", "ClientAdvertise", &from.client_advertise, &to.client_advertise);
        self.compare("allow_non_tls", "AllowNonTLS", &from.allow_non_tls, &to.allow_non_tls);
        self.compare("no_header_support", "NoHeaderSupport", &from.no_header_support, &to.no_header_support);
        self.compare(
            "no_fast_producer_stall",
            "NoFastProducerStall",
            &from.no_fast_producer_stall,
            &to.no_fast_producer_stall,
        );
        let (from, to) = (&old.monitoring, &new.monitoring);
        self.address(["http", "http"], ["HTTPHost", "HTTPPort"], from.http.as_ref(), to.http.as_ref());
        self.address(["https", "https"], ["HTTPHost", "HTTPSPort"], from.https.as_ref(), to.https.as_ref());
        self.compare("http_base_path", "HTTPBasePath", &from.http_base_path, &to.http_base_path);
    }

    /// Compares host and port of an address apart.
    fn address(
        &mut self,
        [host_path, port_path]: [&str; 2],
        [host_field, port_field]: [&'static str; 2],
        old: Option<&Address>,
        new: Option<&Address>,
    ) {
        let host = |address: Option<&Address>| address.map(|address| address.host.clone());
        let port = |address: Option<&Address>| address.map(|address| address.port);
        self.compare(host_path, host_field, &host(old), &host(new));
        self.compare(port_path, port_field, &port(old), &port(new));
    }

    fn identity(&mut self, old: &Options, new: &Options) {
        self.compare("server_name", "ServerName", &old.server_name, &new.server_name);
        self.compare("server_tags", "Tags", &old.server_tags, &new.server_tags);
        self.compare_block("server_metadata", "Metadata", &old.server_metadata, &new.server_metadata);
        self.compare("pid_file", "PidFile", &old.pid_file, &new.pid_file);
        self.compare("ports_file_dir", "PortsFileDir", &old.ports_file_dir, &new.ports_file_dir);
        self.compare(
            "connect_error_reports",
            "ConnectErrorReports",
            &old.connect_error_reports,
            &new.connect_error_reports,
        );
        self.compare(
            "reconnect_error_reports",
            "ReconnectErrorReports",
            &old.reconnect_error_reports,
            &new.reconnect_error_reports,
        );
        let (from, to) = (&old.lame_duck, &new.lame_duck);
        self.compare("lame_duck_duration", "LameDuckDuration", &from.duration, &to.duration);
        self.compare("lame_duck_grace_period", "LameDuckGracePeriod", &from.grace_period, &to.grace_period);
        self.compare("lame_duck_on_term", "LameDuckOnTerm", &from.on_term, &to.on_term);
    }

    fn logging(&mut self, old: &Options, new: &Options) {
        let (from, to) = (&old.logging, &new.logging);
        self.compare("debug", "Debug", &from.debug, &to.debug);
        self.compare("trace", "Trace", &from.trace, &to.trace);
        self.compare("trace_verbose", "TraceVerbose", &from.trace_verbose, &to.trace_verbose);
        self.compare("trace_headers", "TraceHeaders", &from.trace_headers, &to.trace_headers);
        self.compare("logtime", "Logtime", &from.logtime, &to.logtime);
        self.compare("logtime_utc", "LogtimeUTC", &from.logtime_utc, &to.logtime_utc);
        self.compare("log_file", "LogFile", &from.file, &to.file);
        self.compare("log_size_limit", "LogSizeLimit", &from.size_limit, &to.size_limit);
        self.compare("log_max_num", "LogMaxFiles", &from.max_num, &to.max_num);
        self.compare("log_format", "LogFormat", &from.format, &to.format);
        if from.file != to.file {
            // A new file is opened with the new limits.
            for change in &mut self.changes {
                if matches!(change.path.as_str(), "log_size_limit" | "log_max_num") {
                    change.class = ReloadClass::Hot;
                }
            }
        }
    }

    fn limits(&mut self, old: &Options, new: &Options) {
        let (from, to) = (&old.limits, &new.limits);
        self.compare("max_control_line", "MaxControlLine", &from.max_control_line, &to.max_control_line);
        self.compare("max_payload", "MaxPayload", &from.max_payload, &to.max_payload);
        self.compare("max_pending", "MaxPending", &from.max_pending, &to.max_pending);
        self.compare("max_connections", "MaxConn", &from.max_connections, &to.max_connections);
        self.compare("max_subscriptions", "MaxSubs", &from.max_subscriptions, &to.max_subscriptions);
        self.compare("max_sub_tokens", "MaxSubTokens", &from.max_sub_tokens, &to.max_sub_tokens);
        self.compare(
            "max_traced_msg_len",
            "MaxTracedMsgLen",
            &from.max_traced_msg_len,
            &to.max_traced_msg_len,
        );
        self.compare(
            "max_closed_clients",
            "MaxClosedClients",
            &from.max_closed_clients,
            &to.max_closed_clients,
        );
        self.compare("ping_interval", "PingInterval", &from.ping_interval, &to.ping_interval);
        self.compare("ping_max", "MaxPingsOut", &from.ping_max, &to.ping_max);
        self.compare("write_deadline", "WriteDeadline", &from.write_deadline, &to.write_deadline);
        self.compare("write_timeout", "WriteTimeout", &from.write_timeout, &to.write_timeout);
    }

    fn tls(&mut self, old: Option<&Tls>, new: Option<&Tls>) {
        let map = |tls: Option<&Tls>| tls.is_some_and(|tls| tls.map);
        let rate = |tls: Option<&Tls>| tls.and_then(|tls| tls.connection_rate_limit);
        self.compare("tls.verify_and_map", "TLSMap", &map(old), &map(new));
        self.compare("tls.connection_rate_limit", "TLSRateLimit", &rate(old), &rate(new));
        let rest =
            |tls: Option<&Tls>| tls.map(|tls| Tls { map: false, connection_rate_limit: None, ..tls.clone() });
        self.compare_block("tls", "TLSConfig", &rest(old), &rest(new));
    }

    fn accounts(&mut self, old: &Options, new: &Options) {
        self.compare_block("authorization", "Authorization", &old.authorization, &new.authorization);
        self.compare_block("accounts", "Accounts", &old.accounts, &new.accounts);
        self.compare_block("mappings", "Mappings", &old.mappings, &new.mappings);
        self.compare("no_auth_user", "NoAuthUser", &old.no_auth_user, &new.no_auth_user);
        // It may go together with the user it names.
        let is_user_gone = new.no_auth_user.is_none()
            && !new.users().any(|(_, user)| Some(&user.username) == old.no_auth_user.as_ref());
        if let Some(change) =
            self.changes.last_mut().filter(|change| change.path == "no_auth_user" && is_user_gone)
        {
            change.class = ReloadClass::Hot;
        }
        // Whether there is one is the other option's change; here only its name, written or by default.
        let name =
            |account: &'_ Option<String>| account.as_deref().unwrap_or(DEFAULT_SYSTEM_ACCOUNT).to_owned();
        if name(&old.system_account) != name(&new.system_account) {
            let (old, new) = (old.system_account.show(), new.system_account.show());
            self.push("system_account", "SystemAccount", old, new);
        }
        self.compare("no_system_account", "NoSystemAccount", &old.no_system_account, &new.no_system_account);
    }

    fn jetstream(&mut self, old: &Options, new: &Options) {
        let (from, to) = (&old.jetstream, &new.jetstream);
        self.compare("jetstream.enabled", "JetStream", &from.enabled, &to.enabled);
        self.store_dir(old, new);
        self.compare(
            "jetstream.max_memory_store",
            "JetStreamMaxMemory",
            &from.max_memory_store,
            &to.max_memory_store,
        );
        self.storage_limit(from.max_memory_store, to.max_memory_store, from.enabled, to.enabled);
        self.compare(
            "jetstream.max_file_store",
            "JetStreamMaxStore",
            &from.max_file_store,
            &to.max_file_store,
        );
        self.storage_limit(from.max_file_store, to.max_file_store, from.enabled, to.enabled);
        self.compare("jetstream.strict", "NoJetStreamStrict", &!from.strict, &!to.strict);
        self.compare("jetstream.sync_interval", "SyncInterval", &from.sync, &to.sync);
        self.compare("jetstream.domain", "JetStreamDomain", &from.domain, &to.domain);
        self.compare_block(
            "jetstream.encryption_key",
            "JetStreamKey",
            &from.encryption_key,
            &to.encryption_key,
        );
        self.compare_block(
            "jetstream.prev_encryption_key",
            "JetStreamOldKey",
            &from.previous_encryption_key,
            &to.previous_encryption_key,
        );
        self.compare("jetstream.cipher", "JetStreamCipher", &from.cipher, &to.cipher);
        self.compare("jetstream.unique_tag", "JetStreamUniqueTag", &from.unique_tag, &to.unique_tag);
        self.jetstream_queues(from, to);
        self.compare_block("jetstream.limits", "JetStreamLimits", &from.limits, &to.limits);
    }

    fn jetstream_queues(&mut self, from: &JetStream, to: &JetStream) {
        self.compare(
            "jetstream.max_outstanding_catchup",
            "JetStreamMaxCatchup",
            &from.max_outstanding_catchup,
            &to.max_outstanding_catchup,
        );
        self.compare(
            "jetstream.max_buffered_size",
            "StreamMaxBufferedSize",
            &from.max_buffered_bytes,
            &to.max_buffered_bytes,
        );
        self.compare(
            "jetstream.max_buffered_msgs",
            "StreamMaxBufferedMsgs",
            &from.max_buffered_messages,
            &to.max_buffered_messages,
        );
        self.compare(
            "jetstream.max_working_memory",
            "JetStreamMaxWorkingMemory",
            &from.max_working_memory,
            &to.max_working_memory,
        );
        self.compare(
            "jetstream.request_queue_limit",
            "JetStreamRequestQueueLimit",
            &from.request_queue_limit,
            &to.request_queue_limit,
        );
        self.compare(
            "jetstream.info_queue_limit",
            "JetStreamInfoQueueLimit",
            &from.info_queue_limit,
            &to.info_queue_limit,
        );
    }

    /// A directory that is not in use may change, and one that is may go together with JetStream.
    fn store_dir(&mut self, old: &Options, new: &Options) {
        if old.store_dir == new.store_dir {
            return;
        }
        self.push("store_dir", "StoreDir", old.store_dir.show(), new.store_dir.show());
        let Some(change) = self.changes.last_mut() else { return };
        if !old.jetstream.enabled || (new.store_dir.is_none() && !new.jetstream.enabled) {
            change.class = ReloadClass::Hot;
        } else {
            let is_gone = new.store_dir.is_none();
            change.refused =
                Some(if is_gone { "jetstream storage dir" } else { "jetstream storage directory" });
        }
    }

    /// What the change of a limit, the last one noted, asks for: a number in force may grow, and may go together
    /// with JetStream.
    fn storage_limit(&mut self, old: Option<u64>, new: Option<u64>, was_enabled: bool, is_enabled: bool) {
        if old == new {
            return;
        }
        let refused = match (old, new) {
            _ if !was_enabled => None,
            (Some(old), Some(new)) if new > old => None,
            (Some(_), None) if !is_enabled => None,
            (Some(_), None) => Some("jetstream max memory and max store"),
            (None, _) => Some("jetstream dynamic max memory and store"),
            _ => Some("decreasing jetstream max memory and store"),
        };
        let Some(change) = self.changes.last_mut() else { return };
        change.refused = refused;
        change.class = if refused.is_some() { ReloadClass::Restart } else { ReloadClass::Hot };
    }

    fn cluster(&mut self, old: &Cluster, new: &Cluster) {
        self.compare("cluster.name", "Cluster", &old.name, &new.name);
        let paths = ["cluster.host", "cluster.port"];
        self.address(paths, ["cluster host", "cluster port"], old.listen.as_ref(), new.listen.as_ref());
        self.compare_block("cluster.authorization", "Cluster", &old.authorization, &new.authorization);
        self.compare_block("cluster.permissions", "Cluster", &old.permissions, &new.permissions);
        let routes = |cluster: &Cluster| cluster.routes.iter().map(ToString::to_string).collect::<Vec<_>>();
        if old.routes != new.routes {
            self.push("cluster.routes", "Routes", routes(old).show(), routes(new).show());
        }
        self.compare_block("cluster.tls", "Cluster", &old.tls, &new.tls);
        self.compare("cluster.advertise", "Cluster", &old.advertise, &new.advertise);
        self.compare("cluster.no_advertise", "Cluster", &old.no_advertise, &new.no_advertise);
        self.compare("cluster.connect_retries", "Cluster", &old.connect_retries, &new.connect_retries);
        self.compare("cluster.connect_backoff", "Cluster", &old.connect_backoff, &new.connect_backoff);
        self.compare("cluster.pool_size", "Cluster", &old.pool, &new.pool);
        self.compare("cluster.accounts", "Cluster", &old.pinned_accounts, &new.pinned_accounts);
        self.compare_block("cluster.compression", "Cluster", &old.compression, &new.compression);
        self.compare("cluster.ping_interval", "Cluster", &old.ping_interval, &new.ping_interval);
        self.compare("cluster.ping_max", "Cluster", &old.ping_max, &new.ping_max);
        self.compare("cluster.write_deadline", "Cluster", &old.write_deadline, &new.write_deadline);
        self.compare("cluster.write_timeout", "Cluster", &old.write_timeout, &new.write_timeout);
    }
}

/// Values as the reload texts show them.
trait Show {
    fn show(&self) -> String;
}

macro_rules! show_as_displayed {
    ($($type:ty),*) => {
        $(impl Show for $type {
            fn show(&self) -> String {
                self.to_string()
            }
        })*
    };
}

show_as_displayed!(String, bool, u8, u32, u64, Port);

impl Show for Duration {
    fn show(&self) -> String {
        format_duration(*self)
    }
}

/// Nothing is shown as the empty text, or as 0 where the option is a number.
impl Show for Option<String> {
    fn show(&self) -> String {
        self.clone().unwrap_or_default()
    }
}

macro_rules! show_none_as_zero {
    ($($type:ty),*) => {
        $(impl Show for Option<$type> {
            fn show(&self) -> String {
                self.as_ref().map_or_else(|| "0".into(), Show::show)
            }
        })*
    };
}

show_none_as_zero!(u8, u32, Port, Duration);

/// A size that is found out is -1.
impl Show for Option<u64> {
    fn show(&self) -> String {
        self.map_or_else(|| "-1".into(), |size| size.to_string())
    }
}

impl Show for Vec<String> {
    fn show(&self) -> String {
        format!("[{}]", self.join(" "))
    }
}

impl Show for WriteTimeout {
    fn show(&self) -> String {
        match self {
            Self::Default => "default",
            Self::Close => "close",
            Self::Retry => "retry",
        }
        .into()
    }
}

impl Show for LogFormat {
    fn show(&self) -> String {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
        .into()
    }
}

impl Show for SyncMode {
    fn show(&self) -> String {
        match self {
            Self::Always => "always".into(),
            Self::Interval(interval) => format_duration(*interval),
        }
    }
}

impl Show for Cipher {
    fn show(&self) -> String {
        match self {
            Self::ChaCha => "ChaCha20-Poly1305",
            Self::Aes => "AES-GCM",
        }
        .into()
    }
}

impl Show for RoutePool {
    fn show(&self) -> String {
        match self {
            Self::Disabled => "-1".into(),
            Self::Size(size) => size.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Overrides;
    use crate::lang::{Source, parse};
    use crate::load_tree;

    struct Nothing;

    impl Source for Nothing {
        fn read(&self, path: &str) -> Result<String, String> {
            Err(path.into())
        }

        fn env(&self, _: &str) -> Option<String> {
            None
        }
    }

    fn options(text: &str) -> Options {
        let tree = parse(text, &Nothing).unwrap();
        load_tree(&tree, None, &Overrides::default())
            .unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
            .options
    }

    fn changes(old: &str, new: &str) -> Vec<Change> {
        diff(&options(old), &options(new))
    }

    /// Texts of the reference server for the same pairs of files.
    #[test]
    fn refusals_have_the_texts_of_the_reference() {
        for (old, new, expected) in [
            ("port: 14222", "port: 14223", "Port: old=14222, new=14223"),
            ("host: 127.0.0.1", "host: 127.0.0.2", "Host: old=127.0.0.1, new=127.0.0.2"),
            ("server_name: a", "server_name: b", "ServerName: old=a, new=b"),
            ("max_subscriptions: 5", "max_subscriptions: 6", "MaxSubs: old=5, new=6"),
            ("max_sub_tokens: 5", "max_sub_tokens: 6", "MaxSubTokens: old=5, new=6"),
            ("max_closed_clients: 5", "max_closed_clients: 6", "MaxClosedClients: old=5, new=6"),
            ("write_timeout: close", "write_timeout: retry", "WriteTimeout: old=close, new=retry"),
            ("lame_duck_duration: 40s", "lame_duck_duration: 50s", "LameDuckDuration: old=40s, new=50s"),
            (
                "lame_duck_grace_period: 4s",
                "lame_duck_grace_period: 5s",
                "LameDuckGracePeriod: old=4s, new=5s",
            ),
            ("no_header_support: true", "no_header_support: false", "NoHeaderSupport: old=true, new=false"),
            ("allow_non_tls: true", "allow_non_tls: false", "AllowNonTLS: old=true, new=false"),
            ("http: \"127.0.0.1:18333\"", "http: \"127.0.0.1:18334\"", "HTTPPort: old=18333, new=18334"),
            (
                "http: \"127.0.0.1:18333\"",
                "http: \"127.0.0.2:18333\"",
                "HTTPHost: old=127.0.0.1, new=127.0.0.2",
            ),
            ("http_base_path: /a", "http_base_path: /b", "HTTPBasePath: old=/a, new=/b"),
            ("log_size_limit: 1000", "log_size_limit: 2000", "LogSizeLimit: old=1000, new=2000"),
            ("log_max_num: 2", "log_max_num: 3", "LogMaxFiles: old=2, new=3"),
            ("accounts {A {}}\nsystem_account: A", "accounts {A {}}", "SystemAccount: old=A, new="),
            ("accounts {A {}}", "accounts {A {}}\nsystem_account: A", "SystemAccount: old=, new=A"),
            ("port: 1", "port: 1, no_system_account: true", "NoSystemAccount: old=false, new=true"),
            (
                "authorization {users: [{user: a}]}\nno_auth_user: a",
                "authorization {users: [{user: a}]}",
                "NoAuthUser: old=a, new=",
            ),
            (
                "cluster {name: a, listen: \"127.0.0.1:16333\"}",
                "cluster {name: a, listen: \"127.0.0.1:16334\"}",
                "cluster port: old=16333, new=16334",
            ),
            (
                "cluster {name: a, listen: \"127.0.0.1:16333\"}",
                "cluster {name: a, listen: \"127.0.0.2:16333\"}",
                "cluster host: old=127.0.0.1, new=127.0.0.2",
            ),
            ("port: 1", "port: 1, cluster {listen: \"h:1\"}", "cluster host: old=, new=h"),
            ("jetstream {store_dir: a}", "jetstream {store_dir: b}", "jetstream storage directory"),
            ("jetstream {store_dir: a}", "jetstream {}", "jetstream storage dir"),
            ("jetstream {max_mem: 5}", "jetstream {max_mem: 4}", "decreasing jetstream max memory and store"),
            ("jetstream {}", "jetstream {max_file: 4}", "jetstream dynamic max memory and store"),
            ("jetstream {max_mem: 5}", "jetstream {}", "jetstream max memory and max store"),
            ("jetstream {domain: a}", "jetstream {domain: b}", "JetStreamDomain: old=a, new=b"),
            // The reference switches it while it runs.
            ("port: 1", "port: 1, jetstream: true", "JetStream: old=false, new=true"),
            ("jetstream {store_dir: a}", "jetstream: false", "JetStream: old=true, new=false"),
        ] {
            let changes = changes(old, new);
            let refused: Vec<String> = changes
                .iter()
                .filter(|change| change.class != ReloadClass::Hot)
                .map(Change::refusal)
                .collect();
            assert_eq!(
                refused.first(),
                Some(&format!("config reload not supported for {expected}")),
                "{new}"
            );
        }
    }

    #[test]
    fn hot_changes_are_hot() {
        for (old, new, path) in [
            ("port: 1", "port: 1, max_payload: 5", "max_payload"),
            ("port: 1", "port: 1, authorization { token: x }", "authorization"),
            ("port: 1", "port: 1, accounts { A {} }", "accounts"),
            ("port: 1", "port: 1, tls { cert_file: a, key_file: b }", "tls"),
            ("cluster { port: 1, name: a }", "cluster { port: 1, name: b }", "cluster.name"),
            ("cluster { port: 1 }", "cluster { port: 1, routes: [\"nats://a:1\"] }", "cluster.routes"),
            ("cluster { port: 1 }", "cluster { port: 1, pool_size: 5 }", "cluster.pool_size"),
            ("port: 1", "port: 1, log_format: json", "log_format"),
            ("jetstream {max_mem: 5}", "jetstream {max_mem: 6}", "jetstream.max_memory_store"),
            ("jetstream {}", "jetstream {limits {max_ack_pending: 6}}", "jetstream.limits"),
            ("store_dir: a", "store_dir: b", "store_dir"),
        ] {
            let changes = changes(old, new);
            assert_eq!(changes.len(), 1, "{new}: {changes:?}");
            assert_eq!((changes[0].path.as_str(), changes[0].class), (path, ReloadClass::Hot), "{new}");
        }
    }

    #[test]
    fn some_classes_depend_on_the_rest() {
        assert_eq!(changes("port: 1", "port: -1"), []);
        assert_eq!(changes("port: -1", "port: 2"), []);
        assert_eq!(changes("system_account: '$SYS'", "port: 4222"), []);
        let gone = changes("authorization {users: [{user: a}]}\nno_auth_user: a", "authorization {token: x}");
        assert!(gone.iter().all(|change| change.class == ReloadClass::Hot), "{gone:?}");
        let moved = changes("log_size_limit: 1, log_file: a", "log_size_limit: 2, log_file: b");
        assert!(moved.iter().all(|change| change.class == ReloadClass::Hot), "{moved:?}");
        let mapped = changes(
            "tls { cert_file: a, key_file: b }",
            "tls { cert_file: a, key_file: b, verify_and_map: true, connection_rate_limit: 5 }",
        );
        let classes: Vec<_> = mapped.iter().map(|change| (change.path.as_str(), change.class)).collect();
        assert_eq!(
            classes,
            [
                ("tls.verify_and_map", ReloadClass::Restart),
                ("tls.connection_rate_limit", ReloadClass::Restart),
                ("tls", ReloadClass::Hot)
            ]
        );
    }

    #[test]
    fn what_is_in_use_may_go_together_with_jetstream() {
        let gone = changes("jetstream {store_dir: a, max_mem: 5, max_file: 6}", "jetstream: false");
        assert_eq!(gone.len(), 4, "{gone:?}");
        let refused: Vec<_> = gone.iter().filter(|change| change.class != ReloadClass::Hot).collect();
        assert_eq!(refused.len(), 1, "{gone:?}");
        assert_eq!(refused[0].path, "jetstream.enabled");
    }

    #[test]
    fn changes_show_no_secret() {
        let changes = changes(
            "authorization { user: u, password: hunter2 }, cluster { port: 1, routes: [\"nats://u:hunter2@a:1\"] }",
            "authorization { user: u, password: hunter3 }, cluster { port: 1, routes: [\"nats://u:hunter3@a:1\"], \
             authorization { user: u, password: hunter2 } }",
        );
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(!format!("{changes:?}").contains("hunter"), "{changes:?}");
    }
}
