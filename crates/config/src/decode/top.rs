//! The outermost map.

use std::collections::BTreeMap;
use std::time::Duration;

use super::address::AddressParts;
use super::field::Field;
use super::{Report, accounts, authorization, cluster, described, imports, jetstream, set, tls};
use crate::diagnostic::Position;
use crate::duration::format_duration;
use crate::lang::{Kind, Map};
use crate::options::{HOST_DEFAULT, Limits, LogFormat, Options, PORT_DEFAULT, Port};
use crate::schema::Section;

/// Shortest `lame_duck_duration`.
const LAME_DUCK_DURATION_MIN: Duration = Duration::from_secs(30);
/// Largest size of the protocol, a signed 32-bit number.
const SIZE_MAX: u32 = i32::MAX as u32;

/// Options whose parts may stand in several keys.
#[derive(Default)]
struct Parts {
    client: AddressParts,
    http: AddressParts,
    https: AddressParts,
    /// `max_payload: -1`.
    is_payload_unlimited: bool,
    /// `store_dir` of `jetstream`.
    jetstream_store_dir: Option<(String, Position)>,
}

/// Decodes the outermost map.
pub(super) fn decode(map: &Map, report: &mut Report) -> Options {
    let mut options = Options::default();
    let mut parts = Parts::default();
    for field in report.fields(Section::Top, map) {
        let is_taken = identity(&field, &mut options, report)
            || listen(&field, &mut options, &mut parts, report)
            || logging(&field, &mut options, report)
            || limits(&field, &mut options, &mut parts, report)
            || times(&field, &mut options, report)
            || blocks(&field, &mut options, &mut parts, report);
        assert!(is_taken, "key {} is in the table of options but is not decoded", field.name());
    }
    let host = parts.client.host.unwrap_or_else(|| HOST_DEFAULT.into());
    options.monitoring.http = parts.http.address(&host);
    options.monitoring.https = parts.https.address(&host);
    options.listen.address.host = host;
    options.listen.address.port = parts.client.port.flatten().unwrap_or(Port::Fixed(PORT_DEFAULT));
    if parts.is_payload_unlimited {
        options.limits.max_payload =
            u32::try_from(options.limits.max_pending).map_or(SIZE_MAX, |size| size.min(SIZE_MAX));
    }
    match parts.jetstream_store_dir {
        Some((_, position)) if options.store_dir.is_some() => {
            report.error(&position, "Duplicate 'store_dir' configuration");
        }
        Some((directory, _)) => options.store_dir = (!directory.is_empty()).then_some(directory),
        None => {}
    }
    authorization::report_duplicate_users(map, report);
    options
}

fn identity(field: &Field<'_>, options: &mut Options, report: &mut Report) -> bool {
    match field.name() {
        "server_name" => {
            let name = field.optional_string(report);
            if name
                .as_ref()
                .is_some_and(|name| name.as_deref().is_some_and(|name| name.contains(char::is_whitespace)))
            {
                report.error(&field.value.position, "server name cannot contain spaces");
            }
            set(&mut options.server_name, name);
        }
        "server_tags" => {
            let tags = field.strings(report).unwrap_or_default();
            options.server_tags = tags.into_iter().map(|(tag, _)| tag.into()).collect();
        }
        "server_metadata" => set(&mut options.server_metadata, string_map(field, report)),
        "pid_file" => set(&mut options.pid_file, field.optional_string(report)),
        "store_dir" => set(&mut options.store_dir, field.optional_string(report)),
        "ports_file_dir" => set(&mut options.ports_file_dir, field.optional_string(report)),
        _ => return false,
    }
    true
}

fn string_map(field: &Field<'_>, report: &mut Report) -> Option<BTreeMap<String, String>> {
    let mut strings = BTreeMap::new();
    for (key, entry) in field.map(report)? {
        match entry.value.as_str() {
            Some(text) => {
                strings.insert(key.clone(), text.into());
            }
            None => {
                let message =
                    format!("expected \"{key}\" to be a string, got {}", described(&entry.value.kind));
                report.error(&entry.value.position, message);
            }
        }
    }
    Some(strings)
}

fn listen(field: &Field<'_>, options: &mut Options, parts: &mut Parts, report: &mut Report) -> bool {
    match field.name() {
        "listen" => parts.client.read(field, report),
        "host" => set(&mut parts.client.host, field.optional_string(report)),
        "port" => parts.client.port = field.port(report),
        "http" => parts.http.read(field, report),
        "https" => parts.https.read(field, report),
        "http_port" => parts.http.port = field.port(report),
        "https_port" => parts.https.port = field.port(report),
        "http_base_path" => {
            let path = field.text(report).unwrap_or_default().trim_matches('/');
            options.monitoring.http_base_path = format!("/{path}");
        }
        "client_advertise" => set(&mut options.listen.client_advertise, field.optional_string(report)),
        "allow_non_tls" => set(&mut options.listen.allow_non_tls, field.boolean(report)),
        "no_header_support" => set(&mut options.listen.no_header_support, field.boolean(report)),
        "no_fast_producer_stall" => set(&mut options.listen.no_fast_producer_stall, field.boolean(report)),
        _ => return false,
    }
    true
}

fn logging(field: &Field<'_>, options: &mut Options, report: &mut Report) -> bool {
    let logging = &mut options.logging;
    match field.name() {
        "debug" => set(&mut logging.debug, field.boolean(report)),
        "trace" => logging.trace |= field.boolean(report).unwrap_or(false),
        "trace_verbose" => {
            logging.trace_verbose = field.boolean(report).unwrap_or(false);
            logging.trace |= logging.trace_verbose;
        }
        "trace_headers" => {
            logging.trace_headers = field.boolean(report).unwrap_or(false);
            logging.trace |= logging.trace_headers;
        }
        "logtime" => set(&mut logging.logtime, field.boolean(report)),
        "logtime_utc" => set(&mut logging.logtime_utc, field.boolean(report)),
        "log_file" => set(&mut logging.file, field.optional_string(report)),
        "log_size_limit" => match field.integer(report).map(u64::try_from) {
            Some(Ok(size)) => logging.size_limit = size,
            Some(Err(_)) => report.error(&field.value.position, "log_size_limit value can not be negative"),
            None => {}
        },
        "log_max_num" => set(&mut logging.max_num, field.unsigned(SIZE_MAX, report)),
        "log_format" => match field.text(report).map(str::to_ascii_lowercase).as_deref() {
            Some("text") => logging.format = LogFormat::Text,
            Some("json") => logging.format = LogFormat::Json,
            Some(_) => report.error(&field.value.position, "log_format must be 'text' or 'json'"),
            None => {}
        },
        _ => return false,
    }
    true
}

fn limits(field: &Field<'_>, options: &mut Options, parts: &mut Parts, report: &mut Report) -> bool {
    let limits = &mut options.limits;
    let default = Limits::default();
    match field.name() {
        "max_control_line" => set(
            &mut limits.max_control_line,
            field.unsigned_or_default(SIZE_MAX, default.max_control_line, report),
        ),
        "max_payload" if field.value.kind == Kind::Integer(-1) => parts.is_payload_unlimited = true,
        "max_payload" => {
            set(&mut limits.max_payload, field.unsigned_or_default(SIZE_MAX, default.max_payload, report));
        }
        "max_pending" => match field.integer(report).map(u64::try_from) {
            Some(Ok(0)) => limits.max_pending = default.max_pending,
            Some(Ok(size)) => limits.max_pending = size,
            Some(Err(_)) => report.error(&field.value.position, "max_pending value can not be negative"),
            None => {}
        },
        // Anything below 1 lets nobody in.
        "max_connections" => {
            let count = field.optional_count(u32::MAX, report);
            set(&mut limits.max_connections, count.map(Option::unwrap_or_default));
        }
        "max_subscriptions" => set(&mut limits.max_subscriptions, field.optional_count(u32::MAX, report)),
        "max_sub_tokens" => {
            let tokens = field.unsigned(u8::MAX.into(), report);
            set(&mut limits.max_sub_tokens, tokens.map(|tokens| (tokens > 0).then_some(tokens as u8)));
        }
        "max_traced_msg_len" => set(&mut limits.max_traced_msg_len, field.optional_count(SIZE_MAX, report)),
        "max_closed_clients" => set(
            &mut limits.max_closed_clients,
            field.unsigned_or_default(SIZE_MAX, default.max_closed_clients, report),
        ),
        "connect_error_reports" => set(&mut options.connect_error_reports, field.unsigned(u32::MAX, report)),
        "reconnect_error_reports" => {
            set(&mut options.reconnect_error_reports, field.unsigned(u32::MAX, report))
        }
        _ => return false,
    }
    true
}

fn times(field: &Field<'_>, options: &mut Options, report: &mut Report) -> bool {
    let limits = &mut options.limits;
    let default = Limits::default();
    let or_default = |time: Option<Duration>, default: Duration| {
        time.map(|time| if time.is_zero() { default } else { time })
    };
    match field.name() {
        "ping_interval" => {
            set(&mut limits.ping_interval, or_default(field.duration(report), default.ping_interval));
        }
        "ping_max" => {
            set(&mut limits.ping_max, field.unsigned_or_default(SIZE_MAX, default.ping_max, report))
        }
        "write_deadline" => {
            set(&mut limits.write_deadline, or_default(field.duration(report), default.write_deadline));
        }
        "write_timeout" => set(&mut limits.write_timeout, field.write_timeout(report)),
        "lame_duck_duration" => {
            let duration = field.strict_duration(report);
            if let Some(duration) = duration.filter(|duration| *duration < LAME_DUCK_DURATION_MIN) {
                let shown = format_duration(duration);
                let message = format!("invalid lame_duck_duration of {shown}, minimum is 30 seconds");
                report.error(&field.value.position, message);
            }
            set(&mut options.lame_duck.duration, duration);
        }
        "lame_duck_grace_period" => match field.signed_duration(report) {
            Some((true, _)) => {
                report.error(&field.value.position, "invalid lame_duck_grace_period, needs to be positive");
            }
            Some((false, duration)) => options.lame_duck.grace_period = duration,
            None => {}
        },
        "lame_duck_on_term" => set(&mut options.lame_duck.on_term, field.boolean(report)),
        _ => return false,
    }
    true
}

fn blocks(field: &Field<'_>, options: &mut Options, parts: &mut Parts, report: &mut Report) -> bool {
    match field.name() {
        "tls" => options.tls = tls::decode(field, tls::Use::Clients, report),
        "authorization" => set(&mut options.authorization, authorization::decode(field, report)),
        "accounts" => options.accounts = accounts::decode(field, report),
        "mappings" => options.mappings = imports::mappings(field, report),
        "no_auth_user" => set(&mut options.no_auth_user, field.optional_string(report)),
        "system_account" => match field.value.as_str() {
            Some(name) => options.system_account = (!name.is_empty()).then(|| name.into()),
            None => report.error(&field.value.position, "system account name must be a string"),
        },
        "no_system_account" => set(&mut options.no_system_account, field.boolean(report)),
        "cluster" => options.cluster = cluster::decode(field, report),
        "jetstream" => {
            let block = jetstream::decode(field, report);
            options.jetstream = block.options;
            parts.jetstream_store_dir = block.store_dir;
        }
        _ => return false,
    }
    true
}
