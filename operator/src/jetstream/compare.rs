//! What differs between what is there and what is asked for. Pure.

use std::collections::BTreeSet;
use std::fmt;

use api::duration::Nanos;
use serde::Serialize;
use serde_json::{Map, Value};

/// Longest text of a value in a message, in characters.
const VALUE_LENGTH_MAX: usize = 120;

/// Fields that hold a number of nanoseconds.
const DURATIONS: [&str; 8] = [
    "max_age",
    "duplicate_window",
    "subject_delete_marker_ttl",
    "ack_wait",
    "idle_heartbeat",
    "max_expires",
    "inactive_threshold",
    "priority_timeout",
];

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the field on the wire.
    pub field: String,
    /// What is there; `Null` for nothing.
    pub present: Value,
    /// What is asked for; `Null` for nothing.
    pub wanted: Value,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (present, wanted) = (shown(&self.field, &self.present), shown(&self.field, &self.wanted));
        write!(f, "{}: {present} -> {wanted}", self.field)
    }
}

fn shown(field: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => "unset".to_owned(),
        Value::Number(number) if DURATIONS.contains(&field) => {
            number.as_i64().map_or_else(|| number.to_string(), |nanos| Nanos(nanos).to_string())
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= VALUE_LENGTH_MAX {
        return text;
    }
    let mut cut: String = text.chars().take(VALUE_LENGTH_MAX).collect();
    cut.push('…');
    cut
}

/// A configuration as an object of fields.
#[must_use]
pub fn fields(config: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => fields,
        // Configurations are structs of plain fields.
        _ => Map::new(),
    }
}

/// Fields that differ, by name.
#[must_use]
pub fn changes(present: &impl Serialize, wanted: &impl Serialize) -> Vec<Change> {
    let (present, wanted) = (fields(present), fields(wanted));
    let names: BTreeSet<&String> = present.keys().chain(wanted.keys()).collect();
    let value = |map: &Map<String, Value>, name: &str| map.get(name).cloned().unwrap_or(Value::Null);
    names
        .into_iter()
        .map(|name| Change {
            field: name.clone(),
            present: value(&present, name),
            wanted: value(&wanted, name),
        })
        .filter(|change| change.present != change.wanted)
        .collect()
}

/// `wanted` over what is there: fields that this version does not know stay as they are.
#[must_use]
pub fn overlay(
    present: &Map<String, Value>,
    known: &Map<String, Value>,
    wanted: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = present.clone();
    for name in known.keys() {
        if !wanted.contains_key(name) {
            merged.remove(name);
        }
    }
    merged.extend(wanted.iter().map(|(name, value)| (name.clone(), value.clone())));
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("an object") };
        map
    }

    #[test]
    fn differences_are_told_in_words() {
        let present = json!({ "max_age": 3_600_000_000_000_i64, "same": 1, "gone": "x", "max_msgs": -1 });
        let wanted = json!({ "max_age": 7_200_000_000_000_i64, "same": 1, "new": ["a"], "max_msgs": 5 });
        let texts: Vec<String> = changes(&present, &wanted).iter().map(Change::to_string).collect();
        assert_eq!(
            texts,
            ["gone: x -> unset", "max_age: 1h0m0s -> 2h0m0s", "max_msgs: -1 -> 5", r#"new: unset -> ["a"]"#]
        );
        assert!(changes(&present, &present).is_empty());
    }

    #[test]
    fn long_values_are_cut() {
        let change = Change { field: "a".to_owned(), present: Value::Null, wanted: json!("ä".repeat(1000)) };
        assert!(change.to_string().chars().count() < 150);
    }

    #[test]
    fn fields_of_later_servers_stay() {
        let merged = overlay(
            &map(json!({ "later": true, "name": "a", "description": "old" })),
            &map(json!({ "name": "a", "description": "old" })),
            &map(json!({ "name": "a", "max_msgs": 5 })),
        );
        assert_eq!(Value::Object(merged), json!({ "later": true, "name": "a", "max_msgs": 5 }));
    }
}
