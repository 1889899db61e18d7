//! Label selectors, decided without asking the API server.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Whether labels are selected. An empty selector selects everything, an operator that is not known nothing.
#[must_use]
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key).is_some_and(|found| found == value));
    equal
        && selector.match_expressions.iter().flatten().all(|expression| {
            let found = labels.get(&expression.key);
            let listed =
                || found.is_some_and(|found| expression.values.iter().flatten().any(|value| value == found));
            match expression.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_decide_as_kubernetes_does() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        for (text, expected) in [
            ("{}", true),
            (r#"{"matchLabels":{"a":"1"}}"#, true),
            (r#"{"matchLabels":{"a":"2"}}"#, false),
            (r#"{"matchLabels":{"b":"1"}}"#, false),
            (r#"{"matchExpressions":[{"key":"a","operator":"In","values":["0","1"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"a","operator":"NotIn","values":["1"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"b","operator":"NotIn","values":["1"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"a","operator":"Exists"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"a","operator":"Near"}]}"#, false),
        ] {
            let selector: LabelSelector = serde_json::from_str(text).unwrap();
            assert_eq!(matches(&selector, &labels), expected, "{text}");
        }
    }
}
