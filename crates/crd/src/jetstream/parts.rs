//! Sections that several kinds have.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where messages are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// On disk.
    File,
    /// In memory.
    #[default]
    Memory,
}

/// Which servers may keep a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Those of this cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Those with all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The one that should lead. Servers take it in requests to move a leader only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preferred: String,
}

/// Another stream that messages come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Name of the stream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// First sequence wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opt_start_seq: Option<i64>,
    /// Time of the first message wanted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub opt_start_time: String,
    /// Subjects wanted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    /// Prefix of the API of another account or domain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub external_api_prefix: String,
    /// Prefix of the subject that its messages are delivered to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub external_deliver_prefix: String,
    /// Subjects wanted, and what they become.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subject_transforms: Vec<SubjectTransform>,
    /// A consumer that somebody made for this, to read through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<SourceConsumer>,
}

/// A consumer made for a mirror or source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceConsumer {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it delivers to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deliver_subject: String,
}

/// What subjects become.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubjectTransform {
    /// Subjects concerned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// What they become.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dest: String,
}

/// Where stored messages are published again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Republish {
    /// Subjects concerned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Where they go.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Without the payload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headers_only: bool,
    /// Another spelling of headersOnly.
    #[serde(default, rename = "headers_only", skip_serializing_if = "std::ops::Not::not")]
    pub headers_only_snake: bool,
}
