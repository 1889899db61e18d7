//! The definitions as they are installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceValidation, JSON,
    JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::json;

use super::{Account, Consumer, KeyValue, ObjectStore, Stream};

/// A version that was once stored. A definition that drops it is refused as long as the API server remembers it.
const FORMER_VERSION: &str = "v1beta1";

/// Definitions of all kinds of the group.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = vec![Stream::crd(), Consumer::crd(), KeyValue::crd(), ObjectStore::crd(), Account::crd()];
    for definition in &mut all {
        loosen(definition);
        if matches!(definition.spec.names.kind.as_str(), "Stream" | "Consumer") {
            definition.spec.versions.push(former());
        }
    }
    all
}

/// An object without a spec is one with an empty spec, so that whatever is stored can be read and deleted.
fn loosen(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut())
        else {
            continue;
        };
        schema.required = None;
        if let Some(spec) = schema.properties.as_mut().and_then(|properties| properties.get_mut("spec")) {
            spec.default = Some(JSON(json!({})));
        }
    }
}

fn former() -> CustomResourceDefinitionVersion {
    CustomResourceDefinitionVersion {
        name: FORMER_VERSION.to_owned(),
        served: false,
        storage: false,
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(JSONSchemaProps {
                type_: Some("object".to_owned()),
                x_kubernetes_preserve_unknown_fields: Some(true),
                ..JSONSchemaProps::default()
            }),
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}
