//! The definitions of `jetstream.nats.io` hold everything that those of NACK do.
//!
//! The fields stand as data in `testdata/nack-v1beta2.tsv`. Every difference is listed, not only the first.

#![allow(clippy::unwrap_used, reason = "helpers of tests sit outside test functions")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Plural, kind, singular, short names, and the name and path of each printer column.
type Kind = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

/// Names of kinds and their printer columns in NACK, in its order.
const KINDS: [Kind; 5] = [
    (
        "streams",
        "Stream",
        "stream",
        &[],
        &[
            ("State", ".status.conditions[?(@.type == 'Ready')].reason"),
            ("Stream Name", ".spec.name"),
            ("Subjects", ".spec.subjects"),
        ],
    ),
    (
        "consumers",
        "Consumer",
        "consumer",
        &[],
        &[
            ("State", ".status.conditions[?(@.type == 'Ready')].reason"),
            ("Stream", ".spec.streamName"),
            ("Consumer", ".spec.durableName"),
            ("Ack Policy", ".spec.ackPolicy"),
        ],
    ),
    (
        "keyvalues",
        "KeyValue",
        "keyvalue",
        &["kv"],
        &[("State", ".status.conditions[?(@.type == 'Ready')].reason"), ("KV Store Name", ".spec.bucket")],
    ),
    (
        "objectstores",
        "ObjectStore",
        "objectstore",
        &[],
        &[
            ("State", ".status.conditions[?(@.type == 'Ready')].reason"),
            ("Object Store Name", ".spec.bucket"),
        ],
    ),
    ("accounts", "Account", "account", &[], &[]),
];

fn definitions() -> BTreeMap<String, Value> {
    crd::jetstream::definitions()
        .into_iter()
        .map(|definition| (definition.spec.names.plural.clone(), serde_json::to_value(definition).unwrap()))
        .collect()
}

fn served(definition: &Value) -> &Value {
    let versions = definition.pointer("/spec/versions").unwrap().as_array().unwrap();
    versions.iter().find(|version| version["name"] == "v1beta2").unwrap()
}

/// The schema of a path such as `spec.sources[].name`.
fn schema_of<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = root;
    for part in path.split('.') {
        let (name, lists) = part.split_once("[]").map_or((part, false), |(name, _)| (name, true));
        let (name, map) = name.split_once("{}").map_or((name, false), |(name, _)| (name, true));
        at = at.get("properties")?.get(name)?;
        if lists {
            at = at.get("items")?;
        }
        if map {
            at = at.get("additionalProperties")?;
        }
    }
    Some(at)
}

#[test]
fn every_field_is_there_with_its_type_default_and_values() {
    let definitions = definitions();
    let mut differences = Vec::new();
    let mut fields = 0;
    for line in include_str!("testdata/nack-v1beta2.tsv").lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [plural, path, type_, default, minimum, texts, pattern] = columns[..] else { panic!("{line}") };
        fields += 1;
        let root = &served(&definitions[plural])["schema"]["openAPIV3Schema"];
        let Some(ours) = schema_of(root, path) else {
            differences.push(format!("{plural} {path}: missing"));
            continue;
        };
        let mut expect = |what: &str, holds: bool| {
            if !holds {
                differences.push(format!("{plural} {path}: {what} in {ours}"));
            }
        };
        let either = ours.get("x-kubernetes-int-or-string") == Some(&json!(true));
        expect("another type", ours.get("type") == Some(&json!(type_)) || (either && type_ == "integer"));
        // A spec without anything is an empty one here.
        if path != "spec" {
            let default = (default != "-").then(|| serde_json::from_str::<Value>(default).unwrap());
            expect("another default", ours.get("default") == default.as_ref());
        }
        if let (Some(least), true) = (ours.get("minimum").and_then(Value::as_f64), minimum != "-") {
            expect("a higher minimum", least <= minimum.parse::<f64>().unwrap());
        }
        if let Some(ours) = ours.get("enum") {
            let ours = ours.as_array().unwrap();
            let theirs: Vec<Value> = serde_json::from_str(texts).unwrap_or_default();
            expect("values of its own only", !theirs.is_empty());
            expect("fewer values", theirs.iter().all(|value| ours.contains(value)));
        }
        if pattern != "-" {
            let theirs: Value = serde_json::from_str(pattern).unwrap();
            expect("another pattern", ours.get("pattern").is_none_or(|ours| *ours == theirs));
        }
        expect("a maximum", ours.get("maximum").is_none() || path.ends_with("replicas"));
        if path.starts_with("spec") {
            expect("required fields", ours.get("required").is_none());
        }
    }
    assert!(fields > 280, "{fields} fields");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn names_and_columns_are_the_same() {
    let definitions = definitions();
    assert_eq!(definitions.len(), KINDS.len());
    for (plural, kind, singular, short, columns) in KINDS {
        let definition = &definitions[plural];
        let names = &definition["spec"]["names"];
        assert_eq!(definition["metadata"]["name"], format!("{plural}.jetstream.nats.io"));
        assert_eq!((&names["kind"], &names["singular"]), (&json!(kind), &json!(singular)));
        assert_eq!(definition["spec"]["scope"], "Namespaced");
        for name in short {
            assert!(names["shortNames"].as_array().unwrap().contains(&json!(name)));
        }
        let version = served(definition);
        assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
        assert!(version["subresources"]["status"].is_object());
        assert!(version["schema"]["openAPIV3Schema"].get("required").is_none());
        let ours = version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
        for ((name, path), ours) in columns.iter().zip(&ours) {
            assert_eq!((&ours["name"], &ours["jsonPath"]), (&json!(name), &json!(path)));
        }
        assert!(ours.len() >= columns.len());
    }
}

#[test]
fn versions_that_may_be_stored_are_still_known() {
    let definitions = definitions();
    for plural in ["streams", "consumers"] {
        let versions = definitions[plural].pointer("/spec/versions").unwrap().as_array().unwrap();
        let former = versions.iter().find(|version| version["name"] == "v1beta1").unwrap();
        assert_eq!((&former["served"], &former["storage"]), (&json!(false), &json!(false)));
    }
}

#[test]
fn finalizers_have_the_names_that_the_other_controller_knows() {
    use crd::jetstream::finalizer;
    assert_eq!(
        [
            finalizer::STREAM,
            finalizer::CONSUMER,
            finalizer::KEY_VALUE,
            finalizer::OBJECT_STORE,
            finalizer::ACCOUNT
        ],
        [
            "stream.nats.io/finalizer",
            "consumer.nats.io/finalizer",
            "kv.nats.io/finalizer",
            "objectstore.nats.io/finalizer",
            "account.nats.io/finalizer"
        ]
    );
}

#[test]
fn a_definition_stays_small_enough_for_client_side_apply() {
    for definition in crd::jetstream::definitions() {
        let text = serde_json::to_string(&definition).unwrap();
        assert!(text.len() < 100 * 1024, "{}: {} bytes", definition.spec.names.kind, text.len());
    }
}
