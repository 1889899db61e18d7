//! Every flag: its names, what it sets, and its line of the usage text.

use std::fmt::Write;

use super::overrides::Overrides;
use crate::Secret;

/// One flag.
pub(super) struct Flag {
    /// Names without dashes.
    names: &'static [&'static str],
    /// Name of its value in the usage text; empty for a switch.
    value: &'static str,
    pub(super) setting: Setting,
    help: &'static str,
}

/// What a flag sets.
pub(super) enum Setting {
    Switch(fn(&mut Overrides, bool)),
    Text(fn(&mut Overrides, String)),
    Number(fn(&mut Overrides, i64)),
    Checked(fn(&mut Overrides, &str) -> Result<(), String>),
    ConfigFile,
    Test,
    Signal,
    Version,
    Help,
    HelpTls,
    /// This version lacks the named feature.
    Absent(&'static str),
}

impl Flag {
    pub(super) fn takes_value(&self) -> bool {
        !self.value.is_empty()
    }
}

/// The flag of that name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    SECTIONS.iter().flat_map(|(_, flags)| *flags).find(|flag| flag.names.contains(&name))
}

const fn flag(
    names: &'static [&'static str],
    value: &'static str,
    setting: Setting,
    help: &'static str,
) -> Flag {
    Flag { names, value, setting, help }
}

const SECTIONS: &[(&str, &[Flag])] = &[
    ("Server", SERVER),
    ("Logging", LOGGING),
    ("Authorization", AUTHORIZATION),
    ("TLS", TLS),
    ("Cluster", CLUSTER),
    ("Other", OTHER),
    ("Not in this version", ABSENT),
];

#[rustfmt::skip]
const SERVER: &[Flag] = &[
    flag(&["a", "addr", "net"], "host", Setting::Text(|o, v| o.host = Some(v)), "address for clients (default 0.0.0.0)"),
    flag(&["p", "port"], "port", Setting::Checked(|o, v| o.set_port(v)), "port for clients (default 4222)"),
    flag(&["n", "name", "server_name"], "name", Setting::Text(|o, v| o.server_name = Some(v)), "name of the server"),
    flag(&["P", "pid"], "file", Setting::Text(|o, v| o.pid_file = Some(v)), "file that receives the process id"),
    flag(&["m", "http_port"], "port", Setting::Checked(|o, v| o.set_http_port(v)), "monitoring port"),
    flag(&["ms", "https_port"], "port", Setting::Checked(|o, v| o.set_https_port(v)), "monitoring port with TLS"),
    flag(&["c", "config"], "file", Setting::ConfigFile, "configuration file"),
    flag(&["t"], "", Setting::Test, "check the configuration file and exit"),
    flag(&["sl", "signal"], "command[=pid]", Setting::Signal, "send stop, quit, term, reopen, reload or ldm to a running server;\nthe pid may end in * or be a file that holds one"),
    flag(&["client_advertise"], "address", Setting::Text(|o, v| o.client_advertise = Some(v)), "address told to clients and other servers"),
    flag(&["ports_file_dir"], "directory", Setting::Text(|o, v| o.ports_file_dir = Some(v)), "directory for a file with the ports in use"),
    flag(&["sd", "store_dir"], "directory", Setting::Text(|o, v| o.store_dir = Some(v)), "directory of JetStream"),
    flag(&["js", "jetstream"], "", Setting::Switch(|o, v| o.jetstream = Some(v)), "JetStream"),
];

#[rustfmt::skip]
const LOGGING: &[Flag] = &[
    flag(&["l", "log"], "file", Setting::Text(|o, v| o.log_file = Some(v)), "log file instead of standard error"),
    flag(&["log_size_limit"], "bytes", Setting::Checked(|o, v| o.set_log_size_limit(v)), "size at which the log file is rotated"),
    flag(&["T", "logtime"], "", Setting::Switch(|o, v| o.logtime = Some(v)), "log lines carry a time (default true)"),
    flag(&["logtime_utc"], "", Setting::Switch(|o, v| o.logtime_utc = Some(v)), "that time is UTC"),
    flag(&["D", "debug"], "", Setting::Switch(|o, v| o.debug = Some(v)), "log debug lines"),
    flag(&["V", "trace"], "", Setting::Switch(|o, v| o.trace = Some(v)), "log protocol lines"),
    flag(&["VV"], "", Setting::Switch(|o, v| o.set_verbose(v)), "log protocol lines of the system account too"),
    flag(&["DV"], "", Setting::Switch(|o, v| { o.debug = Some(v); o.trace = Some(v); }), "debug and trace"),
    flag(&["DVV"], "", Setting::Switch(|o, v| { o.debug = Some(v); o.set_verbose(v); }), "debug and trace, the system account too"),
    flag(&["max_traced_msg_len"], "bytes", Setting::Number(|o, v| o.max_traced_msg_len = Some(v)), "bytes of a message in a protocol line (0 is all)"),
];

#[rustfmt::skip]
const AUTHORIZATION: &[Flag] = &[
    flag(&["user"], "name", Setting::Text(|o, v| o.username = Some(v)), "user required of clients"),
    flag(&["pass"], "password", Setting::Text(|o, v| o.password = Some(Secret::new(v))), "password required of clients"),
    flag(&["auth"], "token", Setting::Text(|o, v| o.token = Some(Secret::new(v))), "token required of clients"),
];

#[rustfmt::skip]
const TLS: &[Flag] = &[
    flag(&["tls"], "", Setting::Switch(|o, v| o.tls = Some(v)), "TLS for clients"),
    flag(&["tlscert"], "file", Setting::Text(|o, v| o.tls_cert_file = Some(v)), "certificate chain"),
    flag(&["tlskey"], "file", Setting::Text(|o, v| o.tls_key_file = Some(v)), "its key"),
    flag(&["tlsverify"], "", Setting::Switch(|o, v| o.tls_verify = Some(v)), "TLS, and ask clients for a certificate"),
    flag(&["tlscacert"], "file", Setting::Text(|o, v| o.tls_ca_file = Some(v)), "certificates that sign those of clients"),
];

#[rustfmt::skip]
const CLUSTER: &[Flag] = &[
    flag(&["routes"], "urls", Setting::Checked(|o, v| o.set_routes(v)), "routes to dial, separated by commas"),
    flag(&["cluster", "cluster_listen"], "url", Setting::Checked(|o, v| o.set_cluster(v)), "address for routes, with the user and password asked of them"),
    flag(&["cluster_name"], "name", Setting::Text(|o, v| o.cluster_name = Some(v)), "name of the cluster"),
    flag(&["no_advertise"], "", Setting::Switch(|o, v| o.no_advertise = Some(v)), "do not tell clients about other servers"),
    flag(&["cluster_advertise"], "address", Setting::Text(|o, v| o.cluster_advertise = Some(v)), "address told to other servers"),
    flag(&["connect_retries"], "count", Setting::Number(|o, v| o.connect_retries = Some(v)), "attempts to reach a server found by gossip"),
];

#[rustfmt::skip]
const OTHER: &[Flag] = &[
    flag(&["h", "help"], "", Setting::Help, "show this text"),
    flag(&["v", "version"], "", Setting::Version, "show the version"),
    flag(&["help_tls"], "", Setting::HelpTls, "show help about TLS"),
];

#[rustfmt::skip]
const ABSENT: &[Flag] = &[
    flag(&["s", "syslog"], "", Setting::Absent("syslog"), "log to syslog"),
    flag(&["r", "remote_syslog"], "address", Setting::Absent("syslog"), "log to a remote syslog"),
    flag(&["profile"], "port", Setting::Absent("profiling over HTTP"), "profiling port"),
];

/// Width of the column with names.
const NAMES_WIDTH: usize = 44;

/// The usage text of a program of that name.
pub fn usage(program: &str) -> String {
    let mut text = format!(
        "Usage: {program} [flags]\n\nFlags take one dash or two, and their value after a space or '='.\n"
    );
    for (title, flags) in SECTIONS {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{title}:\n");
        for flag in *flags {
            let mut names: Vec<String> = Vec::new();
            for name in flag.names {
                // Words take two dashes here, letters one; both are read either way.
                names.push(if name.len() <= 2 || name.bytes().all(|byte| byte.is_ascii_uppercase()) {
                    format!("-{name}")
                } else {
                    format!("--{name}")
                });
            }
            let value = if flag.takes_value() { format!(" <{}>", flag.value) } else { String::new() };
            let names = format!("{}{value}", names.join(", "));
            let help = flag.help.replace('\n', &format!("\n    {:NAMES_WIDTH$}", ""));
            let _ = writeln!(text, "    {names:<NAMES_WIDTH$}{help}");
        }
    }
    text
}

/// Help about TLS for a program of that name.
pub fn help_tls(program: &str) -> String {
    format!(
        "TLS for clients from the command line:\n\n\
         \x20   {program} --tls --tlscert=server.pem --tlskey=server-key.pem\n\n\
         To ask clients for a certificate signed by an authority:\n\n\
         \x20   {program} --tlsverify --tlscert=server.pem --tlskey=server-key.pem --tlscacert=ca.pem\n\n\
         In a configuration file, also for routes and with every other setting:\n\n\
         \x20   tls {{\n\
         \x20     cert_file: server.pem\n\
         \x20     key_file: server-key.pem\n\
         \x20     ca_file: ca.pem\n\
         \x20     verify: true\n\
         \x20   }}\n"
    )
}
