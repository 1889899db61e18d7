//! `additionalConfig`: options of a person, merged last over what the operator renders.
//!
//! What the operator sets stays its own, under every name that the server knows for it, unless the person says
//! `allowOverrides`.

use config::lang::{Kind, Map, Value};
use serde_json::Value as Json;

use crate::error::Error;

/// Options that the operator sets or that change which process is asked what, with their other names.
const OWNED: &[&str] = &[
    "listen",
    "host",
    "net",
    "port",
    "server_name",
    "http",
    "https",
    "http_port",
    "monitor_port",
    "https_port",
    "http_base_path",
    "pid_file",
    "pidfile",
    "tls",
    "authorization",
    "no_auth_user",
    "system_account",
    "system",
    "no_system_account",
    "no_system",
    "no_sys_acc",
    "lame_duck_duration",
    "lame_duck_grace_period",
    "lame_duck_on_term",
    "accounts",
    "cluster.name",
    "cluster.listen",
    "cluster.host",
    "cluster.net",
    "cluster.port",
    "cluster.routes",
    "cluster.tls",
    "cluster.authorization",
    "cluster.advertise",
    "cluster.no_advertise",
    "cluster.pool_size",
    "cluster.accounts",
    "client_advertise",
    "max_payload",
    "max_pending",
    "max_control_line",
    "max_connections",
    "max_conn",
    "max_subscriptions",
    "max_subs",
    "ping_interval",
    "ping_max",
    "write_deadline",
    "store_dir",
    "storedir",
    "jetstream.enabled",
    "jetstream.enable",
    "jetstream.store_dir",
    "jetstream.store",
    "jetstream.storedir",
    "jetstream.max_memory_store",
    "jetstream.max_mem_store",
    "jetstream.max_mem",
    "jetstream.max_file_store",
    "jetstream.max_file",
    "jetstream.sync_interval",
    "jetstream.sync",
    "jetstream.domain",
    "jetstream.encryption_key",
    "jetstream.key",
    "jetstream.ek",
    "jetstream.prev_encryption_key",
    "jetstream.prev_key",
    "jetstream.prev_ek",
    "jetstream.cipher",
    "jetstream.unique_tag",
    "jetstream.max_outstanding_catchup",
    "jetstream.request_queue_limit",
    "jetstream.limits",
];

/// JetStream itself is the operator's: without a volume there is nothing to switch on, and with one nothing to switch off.
const SWITCH: &str = "jetstream";

/// The mark by which a process proves its configuration: nobody overrides it.
const MARK: &str = "server_metadata.k8s-config-hash";

/// Lays a person's options over the rendered ones.
///
/// # Errors
/// When an option is the operator's, or a value cannot be written.
pub fn merge(
    root: &mut Value,
    extra: &serde_json::Map<String, Json>,
    allow_overrides: bool,
) -> Result<(), Error> {
    refuse_owned("", extra, allow_overrides)?;
    // Options of JetStream alone would switch it on.
    let has = |root: &mut Value| root.as_map_mut().is_some_and(|map| map.get(SWITCH).is_some());
    if !allow_overrides && !has(root) && extra.keys().any(|key| key.eq_ignore_ascii_case(SWITCH)) {
        return Err(Error::Owned { path: SWITCH.to_owned() });
    }
    let extra = map("", extra)?;
    if let Some(root) = root.as_map_mut() {
        // Keys are read without regard to case, so a second spelling must replace, not stand beside.
        align_case(root, &extra);
        root.merge(extra);
    }
    Ok(())
}

fn refuse_owned(
    prefix: &str,
    extra: &serde_json::Map<String, Json>,
    allow_overrides: bool,
) -> Result<(), Error> {
    for (key, value) in extra {
        let path = join(prefix, &key.to_ascii_lowercase());
        if path == MARK || (!allow_overrides && OWNED.contains(&path.as_str())) {
            return Err(Error::Owned { path });
        }
        match value {
            Json::Object(inner) => refuse_owned(&path, inner, allow_overrides)?,
            _ if path == SWITCH && !allow_overrides => return Err(Error::Owned { path }),
            _ => {}
        }
    }
    Ok(())
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Drops rendered entries that differ from an extra key in case only.
fn align_case(root: &mut Map, extra: &Map) {
    let spelled_otherwise: Vec<String> = root
        .iter()
        .map(|(key, _)| key.clone())
        .filter(|key| {
            extra.get(key).is_none() && extra.iter().any(|(other, _)| other.eq_ignore_ascii_case(key))
        })
        .collect();
    for key in spelled_otherwise {
        root.remove(&key);
    }
}

fn map(prefix: &str, object: &serde_json::Map<String, Json>) -> Result<Map, Error> {
    let mut map = Map::default();
    for (key, inner) in object {
        map.insert(key.clone(), value(&join(prefix, key), inner)?);
    }
    Ok(map)
}

fn value(path: &str, json: &Json) -> Result<Value, Error> {
    let refuse = |problem| Error::Additional { path: path.to_owned(), problem };
    Ok(match json {
        Json::Null => return Err(refuse("is null: remove it")),
        Json::Bool(truth) => Value::from(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from(whole),
            (None, Some(fraction)) if fraction.is_finite() => Value::from(fraction),
            _ => return Err(refuse("is a number too large")),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => {
            let values = items.iter().map(|item| value(path, item)).collect::<Result<Vec<_>, _>>()?;
            Kind::Array(values).into()
        }
        Json::Object(object) => map(path, object)?.into(),
    })
}

#[cfg(test)]
mod tests {
    use config::lang;
    use serde_json::json;

    use super::*;

    fn merged(extra: Json, allow_overrides: bool) -> Result<String, String> {
        let mut root = Value::from([("port", 4222)]);
        let Json::Object(extra) = extra else { panic!("an object") };
        merge(&mut root, &extra, allow_overrides).map(|()| lang::render(&root)).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_added_in_their_own_types() {
        let text =
            merged(json!({"debug": true, "max_sub_tokens": 16, "server_tags": ["a:b"]}), false).unwrap();
        assert_eq!(text, "debug: true\nmax_sub_tokens: 16\nport: 4222\nserver_tags: [\n  \"a:b\"\n]\n");
    }

    #[test]
    fn what_the_operator_sets_is_refused_under_every_name() {
        for extra in [
            json!({"Port": 1}),
            json!({"listen": "x"}),
            json!({"cluster": {"name": "x"}}),
            json!({"accounts": {}}),
            json!({"jetstream": true}),
            json!({"jetstream": {"max_buffered_msgs": 10}}),
            json!({"JetStream": {"Store_Dir": "/tmp"}}),
            json!({"storedir": "/tmp"}),
        ] {
            assert!(merged(extra, false).unwrap_err().contains("set by the operator"));
        }
    }

    #[test]
    fn overrides_replace_and_never_touch_the_mark() {
        assert_eq!(merged(json!({"PORT": 1}), true).unwrap(), "PORT: 1\n");
        assert!(merged(json!({"server_metadata": {"k8s-config-hash": "x"}}), true).is_err());
    }

    #[test]
    fn null_is_refused() {
        assert!(merged(json!({"debug": null}), false).unwrap_err().contains("null"));
    }
}
