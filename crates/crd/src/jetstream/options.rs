//! What the four kinds that live on a server share: how to reach it, and what may be done there.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::span::Span;

/// A list of servers at most; a manifest with more is a mistake.
pub const SERVERS_MAX: usize = 64;

/// How to reach the servers, and how to treat what is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssetOptions {
    /// Name of the Account object in this namespace that says how to connect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = r"^[^.*>]*$"))]
    pub account: String,
    /// An Account object, perhaps of another namespace that allows it. Instead of account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<AccountRef>,
    /// A NatsCluster, instead of servers and credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterRef>,
    /// Path of a credentials file, below the folder of this namespace in one of the operator's credential roots.
    #[serde(default)]
    pub creds: String,
    /// Path of a file with an nkey seed, below the folder of this namespace in one of the operator's credential roots.
    #[serde(default)]
    pub nkey: String,
    /// Addresses of servers, such as `nats://nats:4222`.
    #[serde(default)]
    pub servers: Vec<String>,
    /// Certificates, by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// Encrypt before the server has said anything.
    #[serde(default)]
    pub tls_first: bool,
    /// JetStream domain to manage.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub js_domain: String,
    /// Leave what is on the server when this object is deleted.
    #[serde(default)]
    pub prevent_delete: bool,
    /// Never change what is on the server once it exists.
    #[serde(default)]
    pub prevent_update: bool,
    /// What happens on the server when this object is deleted. Retain when preventDelete is true; otherwise the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// What stands against deletion on the server.
    #[serde(default)]
    pub deletion_protection: DeletionProtection,
    /// What to do with something of this name that exists and that no object manages.
    #[serde(default)]
    pub adoption_policy: AdoptionPolicy,
    /// What to do when somebody changed it on the server. Report when preventUpdate is true; otherwise Correct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_policy: Option<DriftPolicy>,
    /// What to do about changes that a server cannot make in place.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// Whether to manage, or only to look.
    #[serde(default)]
    pub mode: Mode,
    /// Longest time to connect. 5s when unset.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub connect_timeout: Span,
    /// Longest time to wait for an answer. 10s when unset.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub request_timeout: Span,
}

/// An Account object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace; this one when unset.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
}

/// A NatsCluster, and which of its accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRef {
    /// Name of the NatsCluster.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace; this one when unset.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name of an account of the cluster; may be left out when it has only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub account: String,
}

/// Certificates in files of the operator's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsFiles {
    /// Path of the own certificate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_cert: String,
    /// Path of its key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_key: String,
    /// Paths of certificates of authorities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_cas: Vec<String>,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident, $($(#[$other_doc:meta])* $other:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$other_doc])* $other,)*
        }
    };
}

choice! {
    /// What happens on the server when the object is deleted.
    DeletionPolicy {
        /// It is deleted.
        Delete,
        /// It stays.
        Retain,
    }
}

choice! {
    /// What stands against deletion.
    DeletionProtection {
        /// Nothing.
        None,
        /// Messages.
        NonEmpty,
    }
}

choice! {
    /// What to do with something that exists and that nobody manages.
    AdoptionPolicy {
        /// Manage it from now on.
        Adopt,
        /// Manage it if it is as asked for.
        IfMatching,
        /// Leave it alone.
        Never,
    }
}

choice! {
    /// What to do about changes by others.
    DriftPolicy {
        /// Undo them.
        Correct,
        /// Tell of them.
        Report,
        /// Nothing.
        Ignore,
    }
}

choice! {
    /// What to do about changes that cannot be made in place.
    UpdateStrategy {
        /// Tell of them.
        InPlace,
        /// Delete and make anew, messages and positions included.
        Recreate,
        /// The same, when nothing is lost by it.
        RecreateIfEmpty,
    }
}

choice! {
    /// Whether to manage or to look.
    Mode {
        /// Make it as the spec says.
        Manage,
        /// Write nothing to the server.
        Observe,
    }
}

impl AssetOptions {
    /// What happens on the server when the object is deleted.
    #[must_use]
    pub fn deletion(&self, default: DeletionPolicy) -> DeletionPolicy {
        if self.prevent_delete { DeletionPolicy::Retain } else { self.deletion_policy.unwrap_or(default) }
    }

    /// What to do about changes by others.
    #[must_use]
    pub fn drift(&self) -> DriftPolicy {
        let asked = self.drift_policy.unwrap_or_default();
        if self.prevent_update && asked == DriftPolicy::Correct { DriftPolicy::Report } else { asked }
    }
}
