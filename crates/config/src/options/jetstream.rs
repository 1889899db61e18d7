//! The `jetstream` block, and what an account may use of it.

use std::time::Duration;

use crate::Secret;

/// Messages that wait for a stream unless configured.
const BUFFERED_MESSAGES_MAX_DEFAULT: u32 = 100_000;
/// Their bytes.
const BUFFERED_BYTES_MAX_DEFAULT: u64 = 128 * 1024 * 1024;
/// Bytes on their way to replicas that catch up.
const CATCHUP_BYTES_MAX_DEFAULT: u64 = 64 * 1024 * 1024;
/// Memory of JetStream for caches and for what waits for clients.
const WORKING_MEMORY_MAX_DEFAULT: u64 = 1 << 30;
/// Requests of the API that wait.
const REQUEST_QUEUE_DEFAULT: u32 = 10_000;
/// Consumers of a stream that does not say.
const CONSUMERS_MAX_DEFAULT: u32 = 1_000;

/// When a publish is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// Once it is on stable storage: `sync_interval` is not set, or `always`.
    #[default]
    Always,
    /// Before that, with stable storage following at this interval: `sync_interval` is a duration. The weaker mode,
    /// which has to be asked for by name.
    Interval(Duration),
}

/// `cipher` of encryption at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cipher {
    /// `chacha` or `chachapoly`.
    #[default]
    ChaCha,
    /// `aes`.
    Aes,
}

/// The `jetstream` block. `store_dir` is [`crate::Options::store_dir`], since it may stand outside of the block too.
#[derive(Debug, Clone, PartialEq)]
pub struct JetStream {
    /// JetStream is on: the block exists (unless `enabled: false`), is `true` or `enabled`, or a flag asks for it.
    pub enabled: bool,
    /// `strict`: requests with unknown fields are refused.
    pub strict: bool,
    /// `max_memory_store`, bytes; `None` is for the broker to find from the memory there is.
    pub max_memory_store: Option<u64>,
    /// `max_file_store`, bytes; `None` is for the broker to find from the space on the disk.
    pub max_file_store: Option<u64>,
    /// `sync_interval`.
    pub sync: SyncMode,
    /// `domain`.
    pub domain: Option<String>,
    /// `encryption_key`; `None` stores in clear.
    pub encryption_key: Option<Secret>,
    /// `prev_encryption_key`: what is stored under this key is read, and written anew under the other one.
    pub previous_encryption_key: Option<Secret>,
    /// `cipher`.
    pub cipher: Cipher,
    /// `unique_tag`, in lower case: no two replicas on servers that share a tag with this beginning.
    pub unique_tag: Option<String>,
    /// `max_outstanding_catchup`, bytes.
    pub max_outstanding_catchup: u64,
    /// `max_buffered_size`, bytes of messages that wait for a stream.
    pub max_buffered_bytes: u64,
    /// `max_buffered_msgs`, messages that wait for a stream.
    pub max_buffered_messages: u32,
    /// `max_working_memory`, bytes for caches, requests of pull clients and acknowledgements that are waited for.
    pub max_working_memory: u64,
    /// `request_queue_limit`, requests of the API that wait.
    pub request_queue_limit: u32,
    /// `info_queue_limit`, the same for requests that only ask; as `request_queue_limit` unless configured.
    pub info_queue_limit: u32,
    /// `limits`.
    pub limits: JetStreamLimits,
}

impl Default for JetStream {
    fn default() -> Self {
        Self {
            enabled: false,
            strict: true,
            max_memory_store: None,
            max_file_store: None,
            sync: SyncMode::Always,
            domain: None,
            encryption_key: None,
            previous_encryption_key: None,
            cipher: Cipher::ChaCha,
            unique_tag: None,
            max_outstanding_catchup: CATCHUP_BYTES_MAX_DEFAULT,
            max_buffered_bytes: BUFFERED_BYTES_MAX_DEFAULT,
            max_buffered_messages: BUFFERED_MESSAGES_MAX_DEFAULT,
            max_working_memory: WORKING_MEMORY_MAX_DEFAULT,
            request_queue_limit: REQUEST_QUEUE_DEFAULT,
            info_queue_limit: REQUEST_QUEUE_DEFAULT,
            limits: JetStreamLimits::default(),
        }
    }
}

/// `limits` of the block; `None` is no limit, or the default where one is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JetStreamLimits {
    /// `max_request_batch` of a pull request.
    pub max_request_batch: Option<u32>,
    /// `max_ack_pending` of a consumer.
    pub max_ack_pending: Option<u32>,
    /// `max_ha_assets`: replicated streams and consumers on one server.
    pub max_ha_assets: Option<u32>,
    /// `default_max_consumers` of a stream that does not say; `None` is no limit, which has to be asked for.
    pub default_max_consumers: Option<u32>,
    /// `duplicate_window` of a stream.
    pub duplicate_window: Option<Duration>,
    /// `batch`.
    pub batch: BatchLimits,
}

impl Default for JetStreamLimits {
    fn default() -> Self {
        Self {
            max_request_batch: None,
            max_ack_pending: None,
            max_ha_assets: None,
            default_max_consumers: Some(CONSUMERS_MAX_DEFAULT),
            duplicate_window: None,
            batch: BatchLimits::default(),
        }
    }
}

/// Limits of atomic batches; `None` is the default of JetStream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchLimits {
    /// `max_inflight_per_stream`.
    pub max_inflight_per_stream: Option<u32>,
    /// `max_inflight_total`.
    pub max_inflight_total: Option<u32>,
    /// `max_msgs` of a batch.
    pub max_messages: Option<u32>,
    /// `timeout` of a batch that is not continued.
    pub timeout: Option<Duration>,
}

/// `jetstream` of an account; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JetStreamAccountLimits {
    /// `max_memory`, bytes.
    pub max_memory: Option<u64>,
    /// `max_store`, bytes.
    pub max_store: Option<u64>,
    /// `max_streams`.
    pub max_streams: Option<u32>,
    /// `max_consumers` of a stream.
    pub max_consumers: Option<u32>,
    /// `max_ack_pending` of a consumer.
    pub max_ack_pending: Option<u32>,
    /// `memory_max_stream_bytes`.
    pub memory_max_stream_bytes: Option<u64>,
    /// `disk_max_stream_bytes`.
    pub disk_max_stream_bytes: Option<u64>,
    /// `max_bytes_required`: a stream must say how large it may become.
    pub max_bytes_required: bool,
}
