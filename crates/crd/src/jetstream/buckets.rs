//! `KeyValue` and `ObjectStore`: streams that hold a bucket.

#![expect(clippy::duplicated_attributes, reason = "printer columns share the names of their attributes")]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::options::AssetOptions;
use super::parts::{Placement, Republish, Source, Storage};
use super::span::{NanosOrSpan, Span};
use super::status::StreamStatus;
use crate::common::Size;

/// A bucket of keys with their values.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "jetstream.nats.io",
    version = "v1beta2",
    kind = "KeyValue",
    plural = "keyvalues",
    singular = "keyvalue",
    shortname = "kv",
    category = "nats",
    category = "jetstream",
    namespaced,
    status = "StreamStatus",
    derive = "PartialEq",
    doc = "A bucket of keys with their values.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'Ready')].reason",
        description = "The current state of the KV Store."
    ),
    printcolumn(
        name = "KV Store Name",
        type_ = "string",
        json_path = ".spec.bucket",
        description = "The name of the KV Store."
    ),
    printcolumn(name = "Values", type_ = "integer", json_path = ".status.bucket.values"),
    printcolumn(name = "Bytes", type_ = "integer", json_path = ".status.bucket.bytes"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.cluster.leader", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.bucket) || (has(self.bucket) && self.bucket == oldSelf.bucket)")
        .message("bucket cannot change: restore the old name, or create a new KeyValue"),
    validation = Rule::new("(has(self.updateStrategy) && self.updateStrategy != 'InPlace') || !has(self.storage) || !has(oldSelf.storage) || self.storage == oldSelf.storage")
        .message("storage cannot change in place: restore it, or set updateStrategy to Recreate, which loses the values")
)]
pub struct KeyValueSpec {
    /// Name of the bucket.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// Text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Most bytes of one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_value_size: Option<i64>,
    /// Values kept of each key: 1 to 64, 1 when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<i64>,
    /// Life of a value.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub ttl: Span,
    /// Another word for ttl.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub max_age: Span,
    /// Leave a marker of this life when a key is gone, as a duration or a number of nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_marker_ttl: Option<NanosOrSpan>,
    /// Most bytes, as a number or a quantity such as 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<Size>,
    /// Where values are kept. On disk when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// How many servers keep them.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i64,
    /// Which servers may keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Publish values again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub republish: Option<Republish>,
    /// The bucket that this one is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Source>,
    /// Pack blocks on disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compression: bool,
    /// Buckets that this one takes values from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// Names and values of your choice. Names that begin with myelin.dev/ are the operator's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// How to reach the servers, and how to treat what is there.
    #[serde(flatten)]
    pub options: AssetOptions,
}

/// A bucket of objects.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "jetstream.nats.io",
    version = "v1beta2",
    kind = "ObjectStore",
    plural = "objectstores",
    singular = "objectstore",
    shortname = "obj",
    category = "nats",
    category = "jetstream",
    namespaced,
    status = "StreamStatus",
    derive = "PartialEq",
    doc = "A bucket of objects.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type == 'Ready')].reason",
        description = "The current state of the Object Store."
    ),
    printcolumn(
        name = "Object Store Name",
        type_ = "string",
        json_path = ".spec.bucket",
        description = "The name of the Object Store."
    ),
    printcolumn(name = "Bytes", type_ = "integer", json_path = ".status.bucket.bytes"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.cluster.leader", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.bucket) || (has(self.bucket) && self.bucket == oldSelf.bucket)")
        .message("bucket cannot change: restore the old name, or create a new ObjectStore"),
    validation = Rule::new("(has(self.updateStrategy) && self.updateStrategy != 'InPlace') || !has(self.storage) || !has(oldSelf.storage) || self.storage == oldSelf.storage")
        .message("storage cannot change in place: restore it, or set updateStrategy to Recreate, which loses the objects")
)]
pub struct ObjectStoreSpec {
    /// Name of the bucket.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// Text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Life of an object.
    #[serde(default, skip_serializing_if = "Span::is_empty")]
    pub ttl: Span,
    /// Most bytes, as a number or a quantity such as 10Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<Size>,
    /// Where objects are kept. On disk when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// How many servers keep them.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i64,
    /// Which servers may keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Pack blocks on disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compression: bool,
    /// Names and values of your choice. Names that begin with myelin.dev/ are the operator's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// How to reach the servers, and how to treat what is there.
    #[serde(flatten)]
    pub options: AssetOptions,
}

const fn one() -> i64 {
    1
}
