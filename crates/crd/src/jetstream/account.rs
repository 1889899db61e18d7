//! `Account`: how to connect, for objects that name it, and who may.

#![expect(clippy::duplicated_attributes, reason = "printer columns share the names of their attributes")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::ClusterRef;
use super::selector::matches;
use super::status::AccountStatus;

/// A login to NATS servers, for the objects that name it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "jetstream.nats.io",
    version = "v1beta2",
    kind = "Account",
    plural = "accounts",
    singular = "account",
    shortname = "jsa",
    category = "nats",
    category = "jetstream",
    namespaced,
    status = "AccountStatus",
    derive = "PartialEq",
    doc = "A login to NATS servers, for the objects that name it.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'Ready')].reason"
    ),
    printcolumn(name = "Server", type_ = "string", json_path = ".status.server.name"),
    printcolumn(name = "Streams", type_ = "integer", json_path = ".status.usage.streams"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AccountSpec {
    /// A name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1), regex(pattern = r"^[^.*>]*$"))]
    pub name: String,
    /// Addresses of servers, such as `nats://nats:4222`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub servers: Vec<String>,
    /// A NatsCluster, instead of servers and credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterRef>,
    /// Certificates, from a Secret or by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSecret>,
    /// Encrypt before the server has said anything.
    #[serde(default)]
    pub tls_first: bool,
    /// Credentials file, from a Secret or by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creds: Option<CredsSecret>,
    /// Seed of an nkey, from a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nkey: Option<NkeySecret>,
    /// Token, from a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenSecret>,
    /// User name and password, from a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserSecret>,
    /// JetStream domain to manage.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub js_domain: String,
    /// Beginning of the subjects that answers come on, for users who may not subscribe to `_INBOX.>`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub inbox_prefix: String,
    /// Namespaces whose objects may connect by accountRef. Only this one when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// A Secret of this namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl SecretRef {
    /// Whether nothing is named.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

/// Certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsSecret {
    /// The Secret; without it the keys below are paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretRef>,
    /// Key of the certificates of authorities.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca: String,
    /// Key of the own certificate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cert: String,
    /// Key of its private key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// Credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredsSecret {
    /// The Secret; without it `file` is a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretRef>,
    /// Key inside the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
}

/// An nkey.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NkeySecret {
    /// The Secret; without it `seed` is a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretRef>,
    /// Key inside the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seed: String,
}

/// A token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenSecret {
    /// The Secret.
    #[serde(default, skip_serializing_if = "SecretRef::is_empty")]
    pub secret: SecretRef,
    /// Key inside the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
}

/// A user name with its password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserSecret {
    /// The Secret.
    #[serde(default, skip_serializing_if = "SecretRef::is_empty")]
    pub secret: SecretRef,
    /// Key of the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Key of the password.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub password: String,
}

/// Namespaces whose objects may use this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespaces {
    /// Which.
    #[serde(default)]
    pub from: From,
    /// Labels of namespaces, with from Selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Names of further namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub names: Vec<String>,
}

/// Which namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum From {
    /// The one of the object itself.
    #[default]
    Same,
    /// All.
    All,
    /// Those with certain labels.
    Selector,
}

/// A namespace as a grant sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

impl AllowedNamespaces {
    /// Whether objects of a namespace may use an object of `home` that carries this grant.
    #[must_use]
    pub fn admits(grant: Option<&Self>, home: &str, asking: &NamespaceFacts) -> bool {
        if asking.name == home {
            return true;
        }
        let Some(grant) = grant else { return false };
        let by_rule = match grant.from {
            From::Same => false,
            From::All => true,
            From::Selector => {
                grant.selector.as_ref().is_some_and(|selector| matches(selector, &asking.labels))
            }
        };
        by_rule || grant.names.contains(&asking.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(name: &str, team: &str) -> NamespaceFacts {
        let labels = [("team".to_owned(), team.to_owned())].into();
        NamespaceFacts { name: name.to_owned(), labels }
    }

    fn grant(text: &str) -> AllowedNamespaces {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn only_who_is_named_may_use_an_account_of_another_namespace() {
        let admits = |grant: Option<&AllowedNamespaces>, who| AllowedNamespaces::admits(grant, "home", &who);
        assert!(admits(None, asking("home", "a")));
        assert!(!admits(None, asking("other", "a")));
        assert!(!admits(Some(&grant("{}")), asking("other", "a")));
        assert!(admits(Some(&grant(r#"{"names":["other"]}"#)), asking("other", "a")));
        assert!(!admits(Some(&grant(r#"{"names":["other"]}"#)), asking("third", "a")));
        assert!(admits(Some(&grant(r#"{"from":"All"}"#)), asking("other", "a")));
        let selector = grant(r#"{"from":"Selector","selector":{"matchLabels":{"team":"a"}}}"#);
        assert!(admits(Some(&selector), asking("other", "a")));
        assert!(!admits(Some(&selector), asking("other", "b")));
        // A selector that is missing selects nobody rather than everybody.
        assert!(!admits(Some(&grant(r#"{"from":"Selector"}"#)), asking("other", "a")));
    }
}
