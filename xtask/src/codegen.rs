//! Writes what is derived from Rust types and from tables: resource definitions, chart copies, access rules, errors.
//!
//! The output is checked in, so that nobody needs Rust to install the product. `--check` and a test fail when it
//! differs from what the types say.

mod errors;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use crd::rbac;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_yaml::Value;

/// First line of each generated file.
const HEADER: &str = "# Written by `cargo run -p xtask -- codegen` from crates/crd. Change it there.\n";

/// Chart that holds the definitions, and the copy of it that the operator's chart carries.
const CRD_CHART: &str = "charts/operator-crds";
const CRD_CHART_COPY: &str = "charts/operator/charts/operator-crds";

/// A file that should exist with exactly this content.
struct Generated {
    path: PathBuf,
    text: String,
}

/// Writes all generated files, or with `check` only compares them.
///
/// # Errors
/// When a file cannot be read or written, or differs in check mode.
pub(crate) fn run(check: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
    let mut stale = Vec::new();
    for file in generate(root)? {
        let path = root.join(&file.path);
        if fs::read_to_string(&path).ok().as_deref() == Some(file.text.as_str()) {
            continue;
        }
        if check {
            stale.push(file.path.display().to_string());
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        fs::write(&path, file.text).with_context(|| format!("write {}", path.display()))?;
    }
    if !stale.is_empty() {
        bail!("not up to date, run `cargo run -p xtask -- codegen`: {}", stale.join(", "));
    }
    Ok(())
}

/// A definition, and the value of the definitions' chart that leaves it out when it is false.
struct Definition {
    value: CustomResourceDefinition,
    switch: Option<&'static str>,
}

/// All definitions that are installed.
fn definitions() -> Vec<Definition> {
    let own = [crd::NatsCluster::crd(), crd::NatsAutoscaler::crd()];
    let own = own.into_iter().map(|value| Definition { value, switch: None });
    let group = crd::jetstream::definitions();
    own.chain(group.into_iter().map(|value| Definition { value, switch: Some("jetstreamGroup") })).collect()
}

fn generate(root: &Path) -> Result<Vec<Generated>> {
    let mut files = vec![
        Generated { path: "charts/operator/templates/_rules.tpl".into(), text: rules()? },
        errors::jetstream(root)?,
    ];
    for Definition { value: definition, switch } in definitions() {
        let (plural, group) = (definition.spec.names.plural.clone(), definition.spec.group.clone());
        let definition =
            serde_yaml::to_value(definition).with_context(|| format!("definition of {plural}"))?;
        let plain = format!("{HEADER}{}", yaml(&definition)?);
        files.push(Generated { path: format!("crds/{plural}.{group}.yaml").into(), text: plain });
        let template = chart_definition(definition, switch)?;
        for chart in [CRD_CHART, CRD_CHART_COPY] {
            files.push(Generated {
                path: Path::new(chart).join(format!("templates/{plural}.yaml")),
                text: template.clone(),
            });
        }
    }
    // The rest of the definitions' chart is written by hand once, and copied.
    for name in ["Chart.yaml", "values.yaml", "values.schema.json"] {
        let source = root.join(CRD_CHART).join(name);
        let text = fs::read_to_string(&source).with_context(|| format!("read {}", source.display()))?;
        files.push(Generated { path: Path::new(CRD_CHART_COPY).join(name), text });
    }
    Ok(files)
}

/// The definition as a chart template: kept when the release goes, with the labels of the chart.
fn chart_definition(mut definition: Value, switch: Option<&str>) -> Result<String> {
    let metadata = definition.get_mut("metadata").and_then(Value::as_mapping_mut).context("metadata")?;
    let labels = [("app.kubernetes.io/part-of".into(), "myelin".into())].into_iter().collect();
    metadata.insert("labels".into(), Value::Mapping(labels));
    let text = yaml(&definition)?;
    if text.contains("{{") {
        bail!("a definition contains `{{{{`, which Helm would expand");
    }
    let keep =
        "metadata:\n{{- if .Values.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n{{- end }}\n";
    let text = text.replacen("metadata:\n", keep, 1);
    Ok(match switch {
        None => format!("{HEADER}{text}"),
        Some(switch) => format!("{HEADER}{{{{- if .Values.{switch} }}}}\n{text}{{{{- end }}}}\n"),
    })
}

/// The access rules as named templates.
fn rules() -> Result<String> {
    let mut text = String::from(
        "{{- /* Written by `cargo run -p xtask -- codegen` from crates/crd. Change it there. */ -}}\n",
    );
    for (name, rules) in [
        ("operator.rules.watched", rbac::rules(rbac::WATCHED)),
        ("operator.rules.own", rbac::rules(rbac::OWN_NAMESPACE)),
        ("operator.rules.externalMetrics", rbac::external_metrics()),
        ("operator.rules.externalMetricsReader", rbac::rules(rbac::EXTERNAL_METRICS_READER)),
    ] {
        let rules = yaml(&serde_yaml::to_value(rules)?)?;
        text.push_str(&format!("{{{{- define \"{name}\" -}}}}\n{rules}{{{{- end -}}}}\n"));
    }
    Ok(text)
}

fn yaml(value: &Value) -> Result<String> {
    Ok(serde_yaml::to_string(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_in_files_are_up_to_date() {
        run(true).unwrap();
    }

    #[test]
    fn a_definition_stays_small_enough_for_client_side_apply() {
        for Definition { value, .. } in definitions() {
            let text = serde_json::to_string(&value).unwrap();
            // The last-applied annotation may hold 256 KiB.
            assert!(text.len() < 200 * 1024, "{}: {} bytes", value.spec.names.plural, text.len());
        }
    }
}
