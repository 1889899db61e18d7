//! `cluster`.

use std::num::NonZeroU32;

use super::address::AddressParts;
use super::authorization::decode_permissions;
use super::field::Field;
use super::{Report, parse_route_url, set, tls};
use crate::Secret;
use crate::lang::{Kind, Value};
use crate::options::{
    Cluster, Compression, HOST_DEFAULT, PING_INTERVAL_MAX, POOL_SIZE_DEFAULT, RoutePermissions, RoutePool,
};
use crate::schema::Section;

/// Decodes the `cluster` block.
pub(super) fn decode(field: &Field<'_>, report: &mut Report) -> Option<Cluster> {
    let Some(map) = field.value.as_map() else {
        let found = field.value.kind.name();
        report.error(&field.value.position, format!("Expected map to define cluster, got {found}"));
        return None;
    };
    let mut cluster = Cluster::default();
    let mut address = AddressParts::default();
    for inner in report.fields(Section::Cluster, map) {
        let is_taken = network(&inner, &mut cluster, &mut address, report)
            || links(&inner, &mut cluster, report)
            || times(&inner, &mut cluster, report);
        assert!(is_taken, "cluster key {} is in the table of options but is not decoded", inner.name());
    }
    cluster.listen = address.address(HOST_DEFAULT);
    Some(cluster)
}

fn network(
    field: &Field<'_>,
    cluster: &mut Cluster,
    address: &mut AddressParts,
    report: &mut Report,
) -> bool {
    match field.name() {
        "name" => {
            let name = field.optional_string(report);
            if name
                .as_ref()
                .is_some_and(|name| name.as_deref().is_some_and(|name| name.contains(char::is_whitespace)))
            {
                report.error(&field.value.position, "cluster name cannot contain spaces");
            }
            set(&mut cluster.name, name);
        }
        "listen" => address.read(field, report),
        "host" => set(&mut address.host, field.optional_string(report)),
        "port" => address.port = field.port(report),
        "authorization" => authorization(field, cluster, report),
        "permissions" => set(&mut cluster.permissions, permissions(field.value, field, report).map(Some)),
        "tls" => cluster.tls = tls::decode(field, tls::Use::Cluster, report),
        "advertise" => set(&mut cluster.advertise, field.optional_string(report)),
        "no_advertise" => set(&mut cluster.no_advertise, field.boolean(report)),
        _ => return false,
    }
    true
}

fn links(field: &Field<'_>, cluster: &mut Cluster, report: &mut Report) -> bool {
    match field.name() {
        "routes" => routes(field, cluster, report),
        // Below 0 is no retry, like 0.
        "connect_retries" => {
            let count = field.optional_count(u32::MAX, report);
            set(&mut cluster.connect_retries, count.map(Option::unwrap_or_default));
        }
        "connect_backoff" => set(&mut cluster.connect_backoff, field.boolean(report)),
        "pool_size" => match field.integer(report) {
            Some(number) if number < 0 => cluster.pool = RoutePool::Disabled,
            Some(number) => match u32::try_from(number) {
                Ok(number) => {
                    cluster.pool = RoutePool::Size(NonZeroU32::new(number).unwrap_or(POOL_SIZE_DEFAULT))
                }
                Err(_) => report.error(&field.value.position, "pool_size value is too big"),
            },
            None => {}
        },
        "accounts" => {
            let names = field.strings(report).unwrap_or_default();
            cluster.pinned_accounts = names.into_iter().map(|(name, _)| name.into()).collect();
        }
        "compression" => set(&mut cluster.compression, compression(field, report)),
        _ => return false,
    }
    true
}

fn times(field: &Field<'_>, cluster: &mut Cluster, report: &mut Report) -> bool {
    match field.name() {
        "ping_interval" => {
            cluster.ping_interval = field.duration(report).filter(|interval| !interval.is_zero());
            if cluster.ping_interval.is_some_and(|interval| interval > PING_INTERVAL_MAX) {
                cluster.ping_interval = Some(PING_INTERVAL_MAX);
                report.warn(
                    field.position,
                    "Cluster 'ping_interval' will reset to 30s which is the max for routes",
                );
            }
        }
        "ping_max" => set(&mut cluster.ping_max, field.optional_count(i32::MAX as u32, report)),
        "write_deadline" => {
            cluster.write_deadline = field.duration(report).filter(|deadline| !deadline.is_zero())
        }
        "write_timeout" => set(&mut cluster.write_timeout, field.write_timeout(report)),
        _ => return false,
    }
    true
}

fn authorization(field: &Field<'_>, cluster: &mut Cluster, report: &mut Report) {
    let Some(map) = field.map(report) else { return };
    let authorization = &mut cluster.authorization;
    for inner in report.fields(Section::ClusterAuthorization, map) {
        match inner.name() {
            "user" => set(&mut authorization.username, inner.string(report)),
            "password" => set(&mut authorization.password, inner.text(report).map(Secret::new)),
            "timeout" => authorization.timeout = inner.timeout("authorization", report),
            "token" => report.error(inner.position, "Cluster authorization does not support tokens"),
            "users" => report.error(inner.position, "Cluster authorization does not allow multiple users"),
            _ => {
                let message = "invalid use of field \"authorization\": setting \"permissions\" within cluster \
                               authorization block is deprecated";
                report.warn(field.position, message);
                cluster.permissions = permissions(inner.value, &inner, report);
            }
        }
    }
}

fn permissions(value: &Value, field: &Field<'_>, report: &mut Report) -> Option<RoutePermissions> {
    let permissions = decode_permissions(value, report)?;
    if permissions.responses.is_some() {
        report.error(field.position, "Cluster permissions do not support dynamic responses");
        return None;
    }
    Some(RoutePermissions { import: permissions.publish, export: permissions.subscribe })
}

fn routes(field: &Field<'_>, cluster: &mut Cluster, report: &mut Report) {
    for value in field.array(report).unwrap_or_default() {
        let Some(url) = value.as_str().and_then(parse_route_url) else {
            let shown = value.as_str().unwrap_or_else(|| value.kind.name());
            report.error(&value.position, format!("error parsing route url [\"{}\"]", hide_password(shown)));
            continue;
        };
        if cluster.routes.contains(&url) {
            let message = format!("invalid use of field \"{url}\": Duplicate route entry detected");
            report.warn(&value.position, message);
            continue;
        }
        cluster.routes.push(url);
    }
}

/// A text that is no URL may still hold a password.
fn hide_password(text: &str) -> String {
    let start = text.find("://").map_or(0, |index| index + 3);
    match text.rfind('@') {
        Some(at) if at > start => match text[start..at].find(':') {
            Some(colon) => format!("{}:xxxxx{}", &text[..start + colon], &text[at..]),
            None => text.into(),
        },
        _ => text.into(),
    }
}

fn compression(field: &Field<'_>, report: &mut Report) -> Option<Compression> {
    match &field.value.kind {
        Kind::Map(map) => {
            let mut compression = None;
            for inner in report.fields(Section::Compression, map) {
                compression = match inner.value.kind {
                    Kind::Bool(_) | Kind::String(_) => compression_mode(&inner, report),
                    _ => inner.text(report).and(None),
                };
            }
            compression
        }
        Kind::Bool(_) | Kind::String(_) => compression_mode(field, report),
        kind => {
            let message =
                format!("field \"compression\" should be a boolean or a structure, got {}", kind.name());
            report.error(&field.value.position, message);
            None
        }
    }
}

fn compression_mode(field: &Field<'_>, report: &mut Report) -> Option<Compression> {
    let mode = match &field.value.kind {
        Kind::Bool(false) => "off",
        Kind::Bool(true) => "s2_fast",
        _ => field.text(report)?,
    };
    match mode.to_ascii_lowercase().as_str() {
        "accept" | "" => return Some(Compression::Accept),
        "off" | "disabled" | "disable" => return Some(Compression::Off),
        "not supported" | "not_supported" => return Some(Compression::NotSupported),
        "s2_fast" | "s2_better" | "s2_best" | "s2_auto" | "s2_uncompressed" | "fast" | "better" | "best"
        | "auto" | "enabled" | "enable" => {
            report.error(
                &field.value.position,
                format!("compression mode \"{mode}\" is not supported in this version"),
            );
        }
        _ => report.error(&field.value.position, format!("unsupported compression mode \"{mode}\"")),
    }
    None
}
