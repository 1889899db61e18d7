//! What the chart makes of its values, by the real Helm.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::tools::{KUBERNETES, helm};

/// The objects that access rights are made of, for a release in `myelin-system` with a service account `operator`; or what Helm says against
/// the values.
pub(crate) fn rights(mut values: Value) -> Result<Vec<Value>, String> {
    values["serviceAccount"] = json!({ "name": "operator" });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.json");
    std::fs::write(&file, values.to_string()).unwrap();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("charts/operator");
    let arguments = ["--namespace", "myelin-system", "--show-only", "templates/rbac.yaml"];
    let output = Command::new(helm())
        .env_clear()
        .env("HOME", folder.path())
        .args(["template", "myelin"])
        .arg(chart)
        .args(arguments)
        .args(["--kube-version", KUBERNETES, "--values"])
        .arg(file)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text).map(|part| Value::deserialize(part).unwrap());
    Ok(documents.filter(|object| !object.is_null()).collect())
}

/// Rules of each role, by namespace and name; a role of the whole cluster has no namespace.
fn rules(objects: &[Value]) -> Vec<((&str, &str), Vec<Value>)> {
    let roles = objects.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    roles
        .map(|role| {
            let metadata = &role["metadata"];
            let place = (metadata["namespace"].as_str().unwrap_or(""), metadata["name"].as_str().unwrap());
            (place, role["rules"].as_array().unwrap().clone())
        })
        .collect()
}

#[test]
fn kinds_that_the_values_name_may_be_scaled_and_nothing_else() {
    let targets = json!([
        { "group": "argoproj.io", "resource": "rollouts" },
        { "group": "example.com", "resource": "crews" },
    ]);
    let more = [("argoproj.io", "rollouts/scale"), ("example.com", "crews/scale")].map(
        |(group, resource)| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get", "patch"] }),
    );
    let namespaced = json!({ "rbac": { "scope": "namespaced" }, "watch": { "namespaces": ["a", "b"] } });
    let cluster = ("", "myelin-system-myelin-operator");
    let leader = ("myelin-system", "myelin-operator-leader");
    for (values, watched) in
        [(json!({}), vec![cluster]), (namespaced, vec![("a", "myelin-operator"), ("b", "myelin-operator")])]
    {
        let mut with = values.clone();
        with["autoscaler"] = json!({ "targets": targets });
        let (without, with) = (rights(values).unwrap(), rights(with).unwrap());
        let (without, with) = (rules(&without), rules(&with));
        let places: Vec<_> = with.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [watched, vec![leader]].concat());
        for ((place, before), (_, after)) in without.iter().zip(&with) {
            let added: &[Value] = if *place == leader { &[] } else { &more };
            assert_eq!(after, &[before, added].concat(), "{place:?}");
            assert!(!json!(after).to_string().contains('*'), "{place:?} has a right to everything of a kind");
        }
    }
}

#[test]
fn targets_that_would_be_more_than_one_kind_are_refused() {
    for (target, field) in [
        (json!({ "group": "*", "resource": "crews" }), "/autoscaler/targets/0/group"),
        (json!({ "group": "example.com", "resource": "*" }), "/autoscaler/targets/0/resource"),
        (json!({ "group": "example.com", "resource": "crews/status" }), "/autoscaler/targets/0/resource"),
        (json!({ "group": "example.com" }), "/autoscaler/targets/0"),
        (json!({ "group": "example.com", "resource": "crews", "verbs": ["*"] }), "/autoscaler/targets/0"),
    ] {
        let refused = rights(json!({ "autoscaler": { "targets": [target] } })).unwrap_err();
        assert!(refused.contains(&format!("at '{field}': ")), "{target}: {refused}");
    }
}
