//! Tables of keys, defaults and texts, through `load` as the broker uses it.

mod imports;
mod jetstream;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::flags::Overrides;
use crate::lang::{Source, parse};
use crate::options::*;
use crate::schema::Section;
use crate::{Loaded, Options, Secret, load_tree};

struct Nothing;

impl Source for Nothing {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("open {path}: no such file or directory"))
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

fn try_load(text: &str) -> Result<Loaded, Vec<String>> {
    let tree = parse(text, &Nothing).unwrap_or_else(|error| panic!("{text}: {error}"));
    load_tree(&tree, None, &Overrides::default())
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn options(text: &str) -> Options {
    try_load(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}")).options
}

fn warnings(text: &str) -> Vec<String> {
    let loaded = try_load(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    loaded.warnings.iter().map(ToString::to_string).collect()
}

fn errors(text: &str) -> Vec<String> {
    match try_load(text) {
        Ok(_) => panic!("{text} was accepted"),
        Err(errors) => errors,
    }
}

#[test]
fn an_empty_configuration_has_the_documented_defaults() {
    let options = options("debug: false");
    assert_eq!(options, Options::default());
    assert_eq!(options.listen.address.to_string(), "0.0.0.0:4222");
    let limits = &options.limits;
    assert_eq!((limits.max_control_line, limits.max_payload, limits.max_pending), (4096, 1 << 20, 64 << 20));
    assert_eq!((limits.max_connections, limits.max_closed_clients, limits.ping_max), (65536, 10_000, 2));
    assert_eq!((limits.max_subscriptions, limits.max_sub_tokens), (None, None));
    assert_eq!(limits.ping_interval, Duration::from_secs(120));
    assert_eq!(limits.write_deadline, Duration::from_secs(10));
    assert_eq!(options.lame_duck.duration, Duration::from_secs(120));
    assert_eq!(options.lame_duck.grace_period, Duration::from_secs(10));
    assert_eq!((options.connect_error_reports, options.reconnect_error_reports), (3600, 1));
    assert!(options.logging.logtime);
    assert_eq!(options.system_account_name(), Some("$SYS"));
    assert_eq!(options.auth_timeout(), Duration::from_secs(2));
    assert!(!options.is_auth_required());
}

#[test]
fn top_level_keys_are_decoded() {
    let options = options(
        "LISTEN: \"[::1]:5222\", server_name: s1, server_tags: [a, b], server_metadata { k: v }\n\
         debug: yes, trace_verbose: on, logtime: no, logtime_utc: true, logfile: /l, logfile_size_limit: 1MB\n\
         logfile_max_num: 3, log_format: JSON, pidfile: /p, ports_file_dir: /d, client_advertise: \"h:1\"\n\
         max_control_line: 8k, max_payload: 2MB, max_pending: 3MB, max_conn: 7, max_subs: 8\n\
         max_subscription_tokens: 255, max_traced_msg_len: 9, max_closed_clients: 10\n\
         ping_interval: 30s, ping_max: 3, write_deadline: \"2m\", write_timeout: retry, no_fast_producer_stall: true\n\
         lame_duck_duration: 40s, lame_duck_grace_period: 0s, lame_duck_on_term: true\n\
         connect_error_reports: 11, reconnect_error_reports: 12, no_header_support: true, http: 8222\n\
         http_base_path: \"/base/\", no_system_account: true",
    );
    assert_eq!(options.listen.address, Address { host: "::1".into(), port: Port::Fixed(5222) });
    assert_eq!(options.listen.address.to_string(), "[::1]:5222");
    assert_eq!(options.listen.client_advertise.as_deref(), Some("h:1"));
    assert!(options.listen.no_header_support && options.listen.no_fast_producer_stall);
    assert_eq!(options.server_name.as_deref(), Some("s1"));
    assert_eq!(options.server_tags, ["a", "b"]);
    assert_eq!(options.server_metadata["k"], "v");
    let logging = &options.logging;
    assert!(
        logging.debug && logging.trace && logging.trace_verbose && !logging.logtime && logging.logtime_utc
    );
    assert_eq!((logging.file.as_deref(), logging.size_limit, logging.max_num), (Some("/l"), 1 << 20, 3));
    assert_eq!(logging.format, LogFormat::Json);
    let limits = &options.limits;
    assert_eq!((limits.max_control_line, limits.max_payload, limits.max_pending), (8000, 2 << 20, 3 << 20));
    assert_eq!(
        (limits.max_connections, limits.max_subscriptions, limits.max_sub_tokens),
        (7, Some(8), Some(255))
    );
    assert_eq!((limits.max_traced_msg_len, limits.max_closed_clients, limits.ping_max), (Some(9), 10, 3));
    assert_eq!(limits.ping_interval, Duration::from_secs(30));
    assert_eq!(limits.write_deadline, Duration::from_secs(120));
    assert_eq!(limits.write_timeout, WriteTimeout::Retry);
    assert_eq!(options.lame_duck.grace_period, Duration::ZERO);
    assert!(options.lame_duck.on_term);
    assert_eq!((options.connect_error_reports, options.reconnect_error_reports), (11, 12));
    assert_eq!(options.monitoring.http, Some(Address { host: "::1".into(), port: Port::Fixed(8222) }));
    assert_eq!(options.monitoring.http_base_path, "/base");
    assert_eq!(options.system_account_name(), None);
    assert_eq!(options.pid_file.as_deref(), Some("/p"));
}

#[test]
fn special_numbers_have_their_meaning() {
    assert_eq!(options("port: -1").listen.address.port, Port::Random);
    assert_eq!(options("port: 0").listen.address.port, Port::Fixed(4222));
    assert_eq!(options("host: h, http_port: 0").monitoring.http, None);
    assert_eq!(options("max_connections: 0").limits.max_connections, 0);
    assert_eq!(options("max_connections: -1").limits.max_connections, 0);
    assert_eq!(options("max_subscriptions: 0").limits.max_subscriptions, None);
    assert_eq!(options("max_sub_tokens: 0").limits.max_sub_tokens, None);
    assert_eq!(options("max_payload: -1, max_pending: 9MB").limits.max_payload, 9 << 20);
    assert_eq!(options("max_payload: 0, ping_max: 0, write_deadline: 0s").limits, Limits::default());
}

#[test]
fn bounds_are_exact() {
    for (text, is_accepted) in [
        ("max_sub_tokens: 255", true),
        ("max_sub_tokens: 256", false),
        ("port: 65535", true),
        ("port: 65536", false),
        ("port: -2", false),
        ("max_control_line: 2147483647", true),
        ("max_control_line: 2147483648", false),
        ("lame_duck_duration: 30s", true),
        ("lame_duck_duration: 29999ms", false),
        ("lame_duck_duration: 40s, lame_duck_grace_period: 39s", true),
        ("lame_duck_duration: 40s, lame_duck_grace_period: 40s", false),
        ("max_payload: 64MB", true),
        ("max_payload: 67108865", false),
    ] {
        assert_eq!(try_load(text).is_ok(), is_accepted, "{text}");
    }
}

#[test]
fn errors_have_their_texts_and_places() {
    for (text, expected) in [
        ("port: abc", ":1:7: expected \"port\" to be an integer, got a string"),
        ("Debug: 1", ":1:8: expected \"Debug\" to be a boolean, got an integer"),
        ("foo: 1", ":1:1: unknown field \"foo\""),
        ("\n cluster { foo: 1 }", ":2:12: unknown field \"foo\""),
        (
            "max_payload: 100000000",
            ":1:1: max_payload (100000000) cannot be higher than max_pending (67108864)",
        ),
        ("lame_duck_duration: 10s", ":1:21: invalid lame_duck_duration of 10s, minimum is 30 seconds"),
        (
            "lame_duck_grace_period: 120s",
            ":1:1: lame duck grace period (2m0s) should be strictly lower than lame duck duration (2m0s)",
        ),
        ("lame_duck_grace_period: \"-1s\"", ":1:25: invalid lame_duck_grace_period, needs to be positive"),
        ("no_auth_user: x", ":1:1: no_auth_user: \"x\" present, but users/nkeys are not defined"),
        (
            "authorization { users: [{user: a, password: b}] }, no_auth_user: x",
            ":1:52: no_auth_user: \"x\" not present as user or nkey in authorization block or account configuration",
        ),
        ("authorization { user: a, pass: b, token: c }", ":1:1: Cannot have a user/pass and token"),
        (
            "authorization { user: a, users: [{user: c}] }",
            ":1:1: Can not have a single user/pass and a users array",
        ),
        ("authorization { token: b, users: [{user: c}] }", ":1:1: Can not have a token and a users array"),
        (
            "authorization { token: b }\naccounts { A { users: [{user: c}] } }",
            ":2:1: Can not have a token and accounts",
        ),
        (
            "authorization { user: b }\naccounts { A { users: [{user: c}] } }",
            ":2:1: Can not have a single user/pass and accounts",
        ),
        ("http: 8222, https: 8223", ":1:13: can't specify both HTTP (8222) and HTTPs (8223) ports"),
        ("https_port: 8223", ":1:1: TLS cert and key required for HTTPS"),
        ("listen: x", ":1:9: could not parse address string \"x\""),
        ("listen: \"a:b\"", ":1:9: could not parse port \"b\""),
        ("listen: true", ":1:9: expected port or host:port, got boolean"),
        ("server_name: 'a b'", ":1:14: server name cannot contain spaces"),
        ("server_metadata { a: 1 }", ":1:22: expected \"a\" to be a string, got an integer"),
        ("max_sub_tokens: -1", ":1:17: max_sub_tokens value can not be negative"),
        ("max_sub_tokens: 300", ":1:17: max_sub_tokens value is too big"),
        (
            "ping_interval: 1x",
            ":1:16: error parsing ping_interval: time: unknown unit \"x\" in duration \"1x\"",
        ),
        ("write_timeout: foo", ":1:16: write_timeout must be 'default', 'close' or 'retry'"),
        ("log_format: xml", ":1:13: log_format must be 'text' or 'json'"),
        ("client_advertise: 'x:y'", ":1:1: invalid client_advertise \"x:y\": expected host or host:port"),
        ("Leaf { port: 1 }", ":1:1: \"Leaf\" is not supported in this version"),
        ("$foo: 3", ":1:1: unknown field \"$foo\""),
    ] {
        assert_eq!(errors(text), [expected], "{text}");
    }
}

#[test]
fn account_errors_have_their_texts() {
    for (text, expected) in [
        ("accounts { $G { } }", ":1:12: \"$G\" is a Reserved Account"),
        ("accounts: [A, A]", ":1:15: Duplicate Account Entry: A"),
        ("accounts { 'A B' { } }", ":1:12: account name \"A B\" cannot contain spaces"),
        ("accounts { A: 3 }", ":1:15: Expected map entries for accounts"),
        ("accounts { A { users: [{user: c}, {username: c}] } }", ":1:35: Duplicate user \"c\" detected"),
        (
            "accounts { A { users: [{user: c}] } }, authorization { users: [{user: c}] }",
            ":1:64: Duplicate user \"c\" detected",
        ),
        ("authorization { users: [{password: c}] }", ":1:25: User entry requires a user"),
        ("authorization { users: {user: c} }", ":1:24: Expected users field to be an array, got a map"),
        (
            "authorization { users: [{user: c, nkey: UABC}] }",
            ":1:35: \"nkey\" is not supported in this version",
        ),
        (
            "authorization { users: [{user: c, connection_types: [STANDARD, x, Y]}] }",
            ":1:53: invalid connection types [\"X\" \"Y\"]",
        ),
        ("accounts { A { limits: { foo: 3 } } }", ":1:26: Unknown field \"foo\" parsing account limits"),
        ("system_account: FOO", ":1:1: error resolving system account: account missing"),
        ("system_account: 3", ":1:17: system account name must be a string"),
    ] {
        assert_eq!(errors(text), [expected], "{text}");
    }
}

#[test]
fn permission_errors_have_their_texts() {
    let user =
        |permissions: &str| format!("authorization {{ users: [{{user: a, permissions: {permissions}}}] }}");
    for (permissions, expected) in [
        ("3", ":1:48: Expected permissions to be a map/struct, got an integer"),
        ("{ foo: 1 }", ":1:50: Unknown field \"foo\" parsing permissions"),
        ("{ publish: foo..bar }", ":1:59: subject \"foo..bar\" is not a valid subject"),
        ("{ publish: 'foo q' }", ":1:59: subject \"foo q\" is not a valid subject"),
        ("{ subscribe: 'foo a b' }", ":1:61: subject \"foo a b\" is not a valid subject"),
        ("{ subscribe: 'foo a..b' }", ":1:61: subject \"foo a..b\" is not a valid subject"),
        (
            "{ pub: 3 }",
            ":1:55: Expected subject permissions to be a subject, or array of subjects, got integer",
        ),
        (
            "{ pub: { x: a } }",
            ":1:57: Unknown field name \"x\" parsing subject permissions, only 'allow' or 'deny' are permitted",
        ),
        ("{ allow_responses: 3 }", ":1:67: error parsing response permissions, expected a boolean or a map"),
        ("{ allow_responses: { ttl: 5 } }", ":1:74: error parsing expires, not a duration string"),
    ] {
        assert_eq!(errors(&user(permissions)), [expected], "{permissions}");
    }
}

#[test]
fn all_errors_are_reported_in_the_order_of_their_places() {
    assert_eq!(
        errors("port: x\nzzz: 1\naaa: 2\ncluster { port: y, qqq: 1 }\nmqtt: on"),
        [
            ":1:7: expected \"port\" to be an integer, got a string",
            ":2:1: unknown field \"zzz\"",
            ":3:1: unknown field \"aaa\"",
            ":4:17: expected \"port\" to be an integer, got a string",
            ":4:20: unknown field \"qqq\"",
            ":5:1: \"mqtt\" is not supported in this version",
        ]
    );
}

#[test]
fn every_absent_feature_is_refused_and_may_be_switched_off() {
    for key in crate::schema::keys().filter(|key| !key.is_supported) {
        let place = |value: &str| {
            let entry = format!("{}: {value}", key.name);
            match key.section {
                Section::Top => entry,
                Section::Authorization => format!("authorization {{ {entry} }}"),
                Section::User => format!("authorization {{ users: [{{ user: u, {entry} }}] }}"),
                Section::Account => format!("accounts {{ A {{ {entry} }} }}"),
                Section::Export => format!("accounts {{ A {{ exports: [{{ service: s, {entry} }}] }} }}"),
                Section::Import => format!(
                    "accounts {{ A {{ exports: [{{stream: s}}] }}, B {{ imports: [{{ stream: {{account: A, subject: s}}, {entry} }}] }} }}"
                ),
                Section::JetStream => format!("jetstream {{ {entry} }}"),
                Section::Tls => format!("tls {{ cert_file: c, key_file: k, {entry} }}"),
                Section::ClusterAuthorization => format!("cluster {{ authorization {{ {entry} }} }}"),
                Section::Compression => format!("cluster {{ compression {{ mode: accept, {entry} }} }}"),
                section => panic!("no example for {section:?}"),
            }
        };
        let refusal = format!("\"{}\" is not supported in this version", key.name);
        assert!(errors(&place("x"))[0].ends_with(&refusal), "{}", key.name);
        assert!(errors(&place("{ a: 1 }"))[0].ends_with(&refusal), "{}", key.name);
        try_load(&place("false")).unwrap_or_else(|errors| panic!("{} off: {errors:?}", key.name));
    }
}

#[test]
fn warnings_have_their_texts() {
    for (text, expected) in [
        (
            "ping_interval: 5",
            ":1:1: invalid use of field \"ping_interval\": ping_interval should be converted to a duration",
        ),
        (
            "authorization { timeout: 100 }",
            ":1:17: invalid use of field \"timeout\": timeout of 100 (100.000000 seconds) is high, consider keeping it \
             under 60 seconds. possibly caused by unquoted duration; use '1m' instead of 1m, for example",
        ),
        (
            "max_payload: 9MB",
            ":1:1: Maximum payloads over 8.00 MB are generally discouraged and could lead to poor performance",
        ),
        (
            "cluster { port: 1, ping_interval: 40s }",
            ":1:20: Cluster 'ping_interval' will reset to 30s which is the max for routes",
        ),
        (
            "cluster { port: 1, routes: [\"nats://u:p@a:1\", \"nats://u:p@a:1\"] }",
            ":1:47: invalid use of field \"nats://u:xxxxx@a:1\": Duplicate route entry detected",
        ),
        (
            "cluster { routes: [\"nats://a:1\"] }",
            ":1:11: routes have no effect without a port or listen address in the cluster",
        ),
        ("authorization { password: x }", ":1:1: a password without a user asks nothing of clients"),
    ] {
        assert_eq!(warnings(text), [expected], "{text}");
    }
    assert_eq!(options("ping_interval: 5").limits.ping_interval, Duration::from_secs(5));
}

#[test]
fn users_take_default_permissions_and_queue_rules() {
    let options = options(
        "authorization { timeout: 0.5, default_permissions { sub: foo }\n\
         users: [ {user: a, pass: b, clients: [standard, MQTT_WS]}\n\
         {username: c, password: $2a$11$xyz, permission: { pub: { allow: ['x.>', y], deny: z }, \
         subscribe: ['q.* v1.*'], publish_allow_responses: { max_msgs: -1, ttl: 5s } }}\n\
         {user: d, permissions: { allow_responses: true }} ] }",
    );
    let users = options.authorization.users();
    let rule = |subject: &str, queue: Option<&str>| SubjectRule {
        subject: subject.into(),
        queue: queue.map(Into::into),
    };
    assert_eq!(options.authorization.timeout, Some(Duration::from_millis(500)));
    assert_eq!(users[0].permissions.as_ref().unwrap().subscribe.allow, Some(vec![rule("foo", None)]));
    assert_eq!(
        users[0].allowed_connection_types.iter().copied().collect::<Vec<_>>(),
        [ConnectionType::Standard, ConnectionType::MqttWebsocket]
    );
    assert!(users[1].password.is_bcrypt());
    let own = users[1].permissions.as_ref().unwrap();
    assert_eq!(own.publish.allow, Some(vec![rule("x.>", None), rule("y", None)]));
    assert_eq!(own.publish.deny, [rule("z", None)]);
    assert_eq!(own.subscribe.allow, Some(vec![rule("q.*", Some("v1.*"))]));
    assert_eq!(own.responses, Some(ResponsePermission { max: None, expires: Some(Duration::from_secs(5)) }));
    let answering = users[2].permissions.as_ref().unwrap();
    assert_eq!(answering.publish.allow, Some(Vec::new()));
    assert_eq!(answering.responses, Some(ResponsePermission::default()));
    assert_eq!(answering.subscribe.allow, None);
    assert!(options.is_auth_required());
}

#[test]
fn accounts_have_users_and_limits() {
    let options = options(
        "accounts { B { users: [{user: b}], default_permissions { pub: x }\n\
         limits { max_conn: 0, max_subs: -1, max_pay: 1k, max_leafs: 2 } }, A {} }\nno_auth_user: b",
    );
    assert_eq!(options.accounts.iter().map(|account| account.name.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    let account = options.account("B").unwrap();
    assert_eq!(
        account.limits,
        AccountLimits {
            max_connections: Some(0),
            max_subscriptions: None,
            max_payload: Some(1000),
            max_leafnodes: Some(2)
        }
    );
    assert!(account.users[0].permissions.is_some());
    assert_eq!(
        options.users().map(|(name, user)| (name, user.username.as_str())).collect::<Vec<_>>(),
        [("B", "b")]
    );
    assert!(!options.is_auth_required());
}

/// CVE-2023-47090: a system account with users must not open a server that asks for credentials.
#[test]
fn the_global_account_is_open_only_beside_nothing_but_the_system_account() {
    let sys = "accounts { SYS { users: [{user: s}] } }, system_account: SYS";
    for (text, is_open) in [
        ("accounts { $SYS { users: [{user: s}] } }".to_owned(), true),
        (sys.to_owned(), true),
        (format!("{sys}, authorization {{ users: [{{user: a}}] }}"), false),
        (format!("{sys}, authorization {{ timeout: 3 }}"), false),
        (format!("{sys}, authorization {{ default_permissions {{ pub: a }} }}"), false),
        ("accounts { SYS { users: [{user: s}] }, A {} }, system_account: SYS".to_owned(), false),
        ("accounts { A { users: [{user: s}] } }".to_owned(), false),
    ] {
        let options = options(&text);
        assert_eq!(options.has_open_global_account(), is_open, "{text}");
        assert_eq!(options.is_auth_required(), !is_open, "{text}");
    }
}

#[test]
fn cluster_keys_are_decoded() {
    let options = options(
        "cluster { name: c1, host: h, port: 6222, authorization { user: u, password: p, timeout: 3 }\n\
         permissions { import: foo, export { deny: [bar] } }, routes: [\"nats-route://u:p@a:6222\"]\n\
         cluster_advertise: \"x:1\", no_advertise: true, connect_retries: 4, connect_backoff: true, pool_size: 5\n\
         accounts: [A, B], compression: off, ping_interval: 20s, ping_max: 6, write_deadline: 7s\n\
         write_timeout: close, tls { cert_file: c, key_file: k, ca_file: a, verify_cert_and_check_known_urls: true } }",
    );
    let cluster = options.cluster.unwrap();
    assert_eq!(cluster.name.as_deref(), Some("c1"));
    assert_eq!(cluster.listen.as_ref().map(ToString::to_string).as_deref(), Some("h:6222"));
    assert_eq!(cluster.authorization.username, "u");
    assert_eq!(cluster.auth_timeout(), Duration::from_secs(3));
    let permissions = cluster.permissions.as_ref().unwrap();
    assert_eq!(permissions.import.allow.as_ref().unwrap()[0].subject, "foo");
    assert_eq!(permissions.export.deny[0].subject, "bar");
    assert_eq!(cluster.routes[0].authority(), "a:6222");
    assert_eq!(cluster.advertise.as_deref(), Some("x:1"));
    assert!(cluster.no_advertise && cluster.connect_backoff);
    assert_eq!((cluster.connect_retries, cluster.ping_max), (4, Some(6)));
    assert_eq!(cluster.pool, RoutePool::Size(NonZeroU32::new(5).unwrap()));
    assert_eq!(cluster.pinned_accounts, ["A", "B"]);
    assert_eq!(cluster.compression, Compression::Off);
    assert_eq!(cluster.effective_ping_interval(Duration::from_secs(120)), Duration::from_secs(20));
    assert_eq!(cluster.write_deadline, Some(Duration::from_secs(7)));
    assert_eq!(cluster.write_timeout, WriteTimeout::Close);
    let tls = cluster.tls.as_ref().unwrap();
    assert!(tls.verify && tls.check_known_urls && !tls.map);
}

#[test]
fn cluster_errors_have_their_texts() {
    for (inner, expected) in [
        ("name: 'a b'", ":1:17: cluster name cannot contain spaces"),
        ("authorization { token: x }", ":1:27: Cluster authorization does not support tokens"),
        (
            "authorization { users: [{user: a}] }",
            ":1:27: Cluster authorization does not allow multiple users",
        ),
        (
            "permissions { allow_responses: true }",
            ":1:11: Cluster permissions do not support dynamic responses",
        ),
        ("routes: ['nats://u:p@a:b']", ":1:20: error parsing route url [\"nats://u:xxxxx@a:b\"]"),
        ("routes: 'nats://a:1'", ":1:19: expected \"routes\" to be an array, got a string"),
        ("compression: foo", ":1:24: unsupported compression mode \"foo\""),
        ("compression: s2_auto", ":1:24: compression mode \"s2_auto\" is not supported in this version"),
        ("compression: true", ":1:24: compression mode \"s2_fast\" is not supported in this version"),
        ("compression: 3", ":1:24: field \"compression\" should be a boolean or a structure, got integer"),
        (
            "pool_size: -1, accounts: [A]",
            ":1:11: pool_size cannot be negative if pinned accounts are specified",
        ),
        (
            "accounts: [A, A]",
            ":1:11: found duplicate account name \"A\" in pinned accounts list [\"A\" \"A\" \"$SYS\"]",
        ),
    ] {
        assert_eq!(errors(&format!("cluster {{ {inner} }}")), [expected], "{inner}");
    }
    assert_eq!(errors("cluster: 3"), [":1:10: Expected map to define cluster, got integer"]);
    let pool = |text: &str| options(text).cluster.unwrap().pool;
    assert_eq!(pool("cluster { pool_size: -1 }"), RoutePool::Disabled);
    assert_eq!(pool("cluster { pool_size: 0 }"), RoutePool::default());
}

#[test]
fn tls_keys_are_decoded() {
    let digest = "A".repeat(64);
    let options = options(&format!(
        "tls {{ certs: [{{cert_file: c, key_file: k}}], ca_file: a, verify_and_map: true, insecure: true, timeout: 0.5\n\
         connection_rate_limit: 5, min_version: '1.3', pinned_certs: [{digest}], first: auto\n\
         cipher_suites: [TLS_AES_128_GCM_SHA256], curve_preferences: [X25519, CurveP256] }}"
    ));
    let tls = options.tls.as_ref().unwrap();
    assert_eq!(tls.certificates, [Certificate { cert_file: "c".into(), key_file: "k".into() }]);
    assert!(tls.verify && tls.map && tls.insecure);
    assert_eq!(tls.timeout, Duration::from_millis(500));
    assert_eq!(tls.connection_rate_limit, Some(5));
    assert_eq!(tls.min_version, TlsVersion::V1_3);
    assert_eq!(tls.pinned_certs.iter().next().unwrap(), &"a".repeat(64));
    assert_eq!(tls.handshake_first, HandshakeFirst::Auto(Duration::from_millis(50)));
    assert_eq!(tls.cipher_suites, [CipherSuite::Tls13Aes128GcmSha256]);
    assert_eq!(tls.curve_preferences, [Curve::X25519, Curve::P256]);
    assert_eq!(options.auth_timeout(), Duration::from_millis(1500));
}

#[test]
fn tls_errors_have_their_texts() {
    for (inner, expected) in [
        ("", ":1:1: missing 'cert_file' and 'key_file' in TLS configuration"),
        ("cert_file: a", ":1:1: missing 'key_file' in TLS configuration"),
        ("key_file: a", ":1:1: missing 'cert_file' in TLS configuration"),
        ("ca_file: 3", ":1:16: error parsing tls config, expected 'ca_file' to be filename"),
        ("verify: 3", ":1:15: error parsing tls config, expected 'verify' to be a boolean"),
        ("foo: 1", ":1:7: error parsing tls config, unknown field \"foo\""),
        ("timeout: x", ":1:16: error parsing tls config, 'timeout' time: invalid duration \"x\""),
        ("min_version: '1.1'", ":1:20: error parsing tls config: unsupported TLS version: TLS 1.1"),
        ("min_version: '1.4'", ":1:20: error parsing tls config: unknown version: 1.4"),
        ("min_version: 1.3", ":1:20: error parsing tls config: 'min_version' wrong type: 1.3"),
        ("cipher_suites: []", ":1:7: error parsing tls config, 'cipher_suites' cannot be empty"),
        ("cipher_suites: [x]", ":1:23: unrecognized cipher x"),
        (
            "cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]",
            ":1:23: cipher suite \"TLS_RSA_WITH_RC4_128_SHA\" is not supported in this version",
        ),
        ("curve_preferences: [y]", ":1:27: unrecognized curve preference y"),
        ("curve_preferences: [CurveP521]", ":1:27: curve \"CurveP521\" is not supported in this version"),
        (
            "pinned_certs: [x]",
            ":1:22: error parsing tls config, 'pinned_certs' key x does not look like hex-encoded sha256 of DER \
             encoded SubjectPublicKeyInfo",
        ),
        ("handshake_first: foo", ":1:24: field \"handshake_first\"'s value \"foo\" is invalid"),
        (
            "handshake_first: 5",
            ":1:24: field \"handshake_first\" should be a boolean or a string, got integer",
        ),
        (
            "verify_cert_and_check_known_urls: true",
            ":1:7: verify_cert_and_check_known_urls not supported in this context",
        ),
        (
            "certs: [{cert_file: a}]",
            ":1:15: error parsing certificates config: both 'cert_file' and 'cert_key' options are required",
        ),
        ("certs: [{cert_file: a, foo: b}]", ":1:30: error parsing tls certs config, unknown field \"foo\""),
        (
            "certs: [{cert_file: a, key_file: b}], cert_file: a, key_file: b",
            ":1:1: error parsing tls config, cannot combine 'cert_file' option with 'certs' option",
        ),
    ] {
        assert_eq!(errors(&format!("tls {{ {inner} }}")), [expected], "{inner}");
    }
}

#[test]
fn a_referenced_variable_is_not_an_unknown_field() {
    assert_eq!(options("here: 5222\nport: $here").listen.address.port, Port::Fixed(5222));
    assert_eq!(options("accounts { pw: x, A { users: [{user: a, password: $pw}] } }").accounts.len(), 1);
}

#[test]
fn no_debug_output_shows_a_secret() {
    let options = options(
        "authorization { users: [{user: a, password: hunter2}] }\n\
         cluster { port: 1, authorization { user: r, password: hunter2 }, routes: [\"nats://r:hunter2@a:1\"] }",
    );
    assert!(!format!("{options:?}").contains("hunter2"));
    assert_eq!(options.authorization.users()[0].password, Secret::new("hunter2"));
}
