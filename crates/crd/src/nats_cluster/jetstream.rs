//! Streams of a cluster: what JetStream may use, and where it is stored.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::common::{Duration, Size};

/// Size of a volume unless the cluster says.
pub const VOLUME_SIZE_DEFAULT: &str = "10Gi";

/// What JetStream may use and how it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct JetStream {
    /// Whether servers keep streams. On when the section is there.
    #[serde(default = "default_true")]
    pub enabled: bool,
    /// Domain of the API. It tells apart the streams of clusters that are connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_-]+$"))]
    pub domain: Option<String>,
    /// Beginning of a server tag that no two replicas of a stream may share, such as `az:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[^\s\x00-\x1f]+$"))]
    pub unique_tag: Option<String>,
    /// Streams in memory.
    #[serde(default)]
    pub memory_store: MemoryStore,
    /// Streams in files.
    #[serde(default)]
    pub file_store: FileStore,
    /// Encryption at rest. It cannot be switched off again, or what is stored could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Limits of streams and consumers, looked at when one is made or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Bytes on their way to replicas that catch up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_outstanding_catchup: Option<Size>,
    /// Requests of the API that may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub request_queue_limit: Option<i32>,
}

impl Default for JetStream {
    fn default() -> Self {
        Self {
            enabled: true,
            domain: None,
            unique_tag: None,
            memory_store: MemoryStore::default(),
            file_store: FileStore::default(),
            encryption: None,
            limits: None,
            max_outstanding_catchup: None,
            request_queue_limit: None,
        }
    }
}

const fn default_true() -> bool {
    true
}

/// Streams in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStore {
    /// Bytes that all of them may hold, at most three quarters of the memory limit of a server. None unless set.
    #[serde(default = "nothing")]
    pub max_size: Size,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { max_size: nothing() }
    }
}

const fn nothing() -> Size {
    Size::Bytes(0)
}

/// Streams in files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStore {
    /// Bytes that all of them may hold, at most 95 percent of the volume. 85 percent of the volume when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Size>,
    /// `always` acknowledges a message once it is on stable storage. A duration acknowledges it before, which a crash
    /// of the machine may undo. `always` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_interval: Option<SyncInterval>,
}

/// `always`, or a duration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SyncInterval(pub String);

impl SyncInterval {
    /// The duration; `None` for `always`.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        (self.0 != "always").then(|| Duration(self.0.clone()))
    }
}

impl JsonSchema for SyncInterval {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SyncInterval".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 32,
            "pattern": r"^(always|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d|w))+)$",
        })
    }
}

/// Cipher of encryption at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cipher {
    /// ChaCha20-Poly1305.
    #[default]
    Chacha,
    /// AES-GCM.
    Aes,
}

impl Cipher {
    /// The word that servers know.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chacha => "chacha",
            Self::Aes => "aes",
        }
    }
}

/// Encryption at rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Encryption {
    /// The cipher.
    #[serde(default)]
    pub cipher: Cipher,
    /// The Secret that holds the key.
    pub key_secret_ref: KeyRef,
    /// The Secret that holds the key before, while stored data is written anew under the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_key_secret_ref: Option<KeyRef>,
}

/// One key of a Secret in the namespace of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key inside the Secret.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn default_key() -> String {
    "key".to_owned()
}

/// Limits of streams and consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Messages of a consumer that may wait for their acknowledgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_ack_pending: Option<i32>,
    /// Replicated streams and consumers on one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_ha_assets: Option<i32>,
    /// Messages of one pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_request_batch: Option<i32>,
    /// Consumers of a stream that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub default_max_consumers: Option<i32>,
    /// Longest duplicate window of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_window: Option<Duration>,
    /// Limits of atomic batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchLimits>,
}

/// Limits of atomic batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchLimits {
    /// Batches under way to one stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_inflight_per_stream: Option<i32>,
    /// Batches under way to all streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_inflight_total: Option<i32>,
    /// Messages of one batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_messages: Option<i32>,
    /// Time after which a batch that is not continued is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What an account may use of JetStream. Unlimited where nothing is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountJetStream {
    /// Whether the account may have streams.
    #[serde(default = "default_true")]
    pub enabled: bool,
    /// Bytes of all streams in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<Size>,
    /// Bytes of all streams in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file: Option<Size>,
    /// Number of streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_streams: Option<i32>,
    /// Number of consumers of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_consumers: Option<i32>,
    /// Messages of a consumer that may wait for their acknowledgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_ack_pending: Option<i32>,
    /// Bytes of one stream in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_max_stream_bytes: Option<Size>,
    /// Bytes of one stream in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_max_stream_bytes: Option<Size>,
    /// A stream must say how large it may become.
    #[serde(default, skip_serializing_if = "is_false")]
    pub max_bytes_required: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Where servers keep what must outlive them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.volume) && has(self.ephemeral))")
    .message("choose one of storage.volume and storage.ephemeral"))]
pub struct Storage {
    /// A volume for each server. One of 10Gi when neither is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// Space that ends with its pod, for data that may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<Ephemeral>,
    /// What becomes of volumes whose server is gone.
    #[serde(default)]
    pub retention: Retention,
}

impl Storage {
    /// The volume of each server; `None` when storage is ephemeral.
    #[must_use]
    pub fn wanted_volume(&self) -> Option<Volume> {
        match (&self.volume, &self.ephemeral) {
            (_, Some(_)) => None,
            (Some(volume), None) => Some(volume.clone()),
            (None, None) => Some(Volume::default()),
        }
    }
}

/// How many may use a volume at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// One node.
    #[default]
    ReadWriteOnce,
    /// One pod.
    ReadWriteOncePod,
    /// Any node.
    ReadWriteMany,
}

impl AccessMode {
    /// The word that Kubernetes uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
            Self::ReadWriteMany => "ReadWriteMany",
        }
    }
}

/// A volume for each server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Size. It may grow where the class of the volume allows that, and never shrink.
    #[serde(default = "default_size")]
    #[schemars(length(min = 1, max = 24), regex(pattern = r"^[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$"))]
    pub size: String,
    /// Class of the volume. The default class of Kubernetes when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// How many may use it at a time.
    #[serde(default = "default_access_modes")]
    #[schemars(length(min = 1, max = 3))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub access_modes: Vec<AccessMode>,
    /// Labels for the claims. Those that the operator sets win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the claims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}

impl Default for Volume {
    fn default() -> Self {
        Self {
            size: default_size(),
            storage_class_name: None,
            access_modes: default_access_modes(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }
}

fn default_size() -> String {
    VOLUME_SIZE_DEFAULT.to_owned()
}

fn default_access_modes() -> Vec<AccessMode> {
    vec![AccessMode::ReadWriteOnce]
}

/// What ephemeral space is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Medium {
    /// The disk of the node.
    #[default]
    Disk,
    /// Memory, which counts against the memory limit of the server.
    Memory,
}

/// Space that ends with its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ephemeral {
    /// What it is made of.
    #[serde(default)]
    pub medium: Medium,
    /// How much there may be. Without a limit JetStream takes three quarters of what the node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 24), regex(pattern = r"^[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$"))]
    pub size_limit: Option<String>,
}

/// What becomes of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VolumeRetention {
    /// It stays.
    #[default]
    Retain,
    /// It goes too.
    Delete,
}

impl VolumeRetention {
    /// The word that Kubernetes uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retain => "Retain",
            Self::Delete => "Delete",
        }
    }
}

/// What becomes of volumes whose server is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// When the cluster is deleted.
    #[serde(default)]
    pub when_deleted: VolumeRetention,
    /// When the cluster shrinks. A sleeping cluster keeps its volumes in any case.
    #[serde(default)]
    pub when_scaled: VolumeRetention,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_the_default_size_is_wanted_unless_space_is_ephemeral() {
        let storage = |json: &str| serde_json::from_str::<Storage>(json).unwrap().wanted_volume();
        assert_eq!(storage("{}").unwrap().size, VOLUME_SIZE_DEFAULT);
        assert_eq!(storage(r#"{"volume": {"size": "1Gi"}}"#).unwrap().size, "1Gi");
        assert_eq!(storage(r#"{"ephemeral": {}}"#), None);
    }

    #[test]
    fn the_section_alone_switches_jetstream_on() {
        assert!(serde_json::from_str::<JetStream>("{}").unwrap().enabled);
        assert_eq!(SyncInterval("always".to_owned()).duration(), None);
        assert_eq!(SyncInterval("2s".to_owned()).duration(), Some(Duration("2s".to_owned())));
    }
}
