//! Documents inside of an archive: the state of a stream is that of the API, consumers have one of their own.

use std::collections::BTreeMap;

use api::jetstream::consumer::ConsumerConfig;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A consumer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsumerDocument {
    /// What it is.
    pub config: Option<ConsumerConfig>,
    /// Where it is.
    pub state: Option<ConsumerState>,
}

/// Where a consumer is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsumerState {
    /// The newest delivery.
    pub delivered: Pair,
    /// Everything up to here is done.
    pub ack_floor: Pair,
    /// Messages that wait for their acknowledgement, by sequence.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_sequence")]
    pub pending: BTreeMap<u64, PendingMessage>,
    /// How often messages were delivered again, by sequence.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "by_sequence")]
    pub redelivered: BTreeMap<u64, u64>,
}

/// A point in a consumer's work, counted both ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pair {
    /// In deliveries.
    pub consumer_seq: u64,
    /// In messages of the stream.
    pub stream_seq: u64,
}

/// A message that waits for its acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PendingMessage {
    /// Number of its first delivery.
    pub sequence: u64,
    /// When it was delivered last, in nanoseconds since 1970.
    pub timestamp: i64,
}

/// Members of an object whose names are sequences.
fn by_sequence<'de, D, T>(deserializer: D) -> Result<BTreeMap<u64, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let members = Option::<BTreeMap<String, T>>::deserialize(deserializer)?.unwrap_or_default();
    let numbered = members.into_iter().map(|(name, member)| {
        let sequence = name.parse().map_err(|_| D::Error::custom(format!("{name:?} is no sequence")))?;
        Ok((sequence, member))
    });
    numbered.collect()
}
