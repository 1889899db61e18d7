//! Specs that tests start from.

use serde_json::{Value, json};

/// One account with one user, small and quick to settle.
pub(crate) fn spec(replicas: i32) -> Value {
    json!({
        "replicas": replicas,
        "auth": { "accounts": [{ "name": "APP", "users": [user("app")] }] },
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
        "update": { "settle": "0s" },
    })
}

/// A user whose password lies under its own name in the Secret `users`.
pub(crate) fn user(name: &str) -> Value {
    json!({ "name": name, "passwordSecretRef": { "name": "users", "key": name } })
}

/// The spec with some fields replaced.
pub(crate) fn with(mut spec: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else { panic!("an object") };
    for (key, value) in changes {
        spec[key] = value;
    }
    spec
}
