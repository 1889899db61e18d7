//! What streams and consumers are checked against: limits, and what an account already has.

use std::collections::BTreeMap;

use super::account::Limits;
use super::feature::Features;
use super::stream::{Storage, StreamConfig};
use crate::ApiError;
use crate::duration::Nanos;
use crate::error::jetstream::ErrorCode;

/// What a server allows. Zero stands for no limit, except for the two sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Longest time message ids may be remembered.
    pub duplicate_window: Nanos,
    /// Messages of one consumer waiting for their acknowledgement.
    pub max_ack_pending: i64,
    /// Messages of one pull request.
    pub max_request_batch: i64,
    /// Consumers of a stream, when neither stream nor account say.
    pub default_max_consumers: i64,
    /// Bytes of all streams in memory.
    pub max_memory: i64,
    /// Bytes of all streams on disk.
    pub max_storage: i64,
    /// Bytes in memory that streams of all accounts may already grow to.
    pub reserved_memory: i64,
    /// Bytes on disk that streams of all accounts may already grow to.
    pub reserved_storage: i64,
    /// Whether streams may have more than one replica.
    pub clustered: bool,
    /// Options beyond the reference that all servers know which may hold a replica.
    pub features: Features,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            duplicate_window: Nanos::ZERO,
            max_ack_pending: 0,
            max_request_batch: 0,
            default_max_consumers: 0,
            max_memory: i64::MAX,
            max_storage: i64::MAX,
            reserved_memory: 0,
            reserved_storage: 0,
            clustered: false,
            features: Features::OWN,
        }
    }
}

/// What an account may use, perhaps by number of replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountLimits {
    /// One set of limits, in which every replica counts.
    Flat(Limits),
    /// A set for each number of replicas, in which a stream counts once.
    Tiered(BTreeMap<String, Limits>),
}

impl AccountLimits {
    /// The limits of streams with so many replicas.
    ///
    /// # Errors
    /// When no tier fits.
    pub fn select(&self, replicas: i64) -> Result<Selected<'_>, ApiError> {
        match self {
            Self::Flat(limits) => Ok(Selected { limits, tier: None }),
            Self::Tiered(tiers) => {
                let replicas = replicas.max(1);
                let limits = tiers.get(&tier_name(replicas)).ok_or(ErrorCode::NO_LIMITS)?;
                Ok(Selected { limits, tier: Some(replicas) })
            }
        }
    }
}

/// The limits that apply, and to which streams.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'a> {
    /// The limits.
    pub limits: &'a Limits,
    /// They are for streams with so many replicas.
    tier: Option<i64>,
}

impl Selected<'_> {
    /// Whether streams with so many replicas count.
    fn counts(self, replicas: i64) -> bool {
        self.tier.is_none_or(|tier| tier == replicas.max(1))
    }

    /// How much of the limits a stream with so many replicas and bytes takes.
    pub(super) fn reservation(self, replicas: i64, bytes: i64) -> i64 {
        match (bytes, self.tier) {
            (..=0, _) => 0,
            (_, None) if replicas > 1 => bytes.saturating_mul(replicas),
            _ => bytes,
        }
    }
}

/// Name of the tier for streams with so many replicas.
pub fn tier_name(replicas: i64) -> String {
    format!("R{}", replicas.max(1))
}

/// The streams of an account.
pub trait Streams {
    /// The stream with this name.
    fn stream(&self, name: &str) -> Option<&StreamConfig>;

    /// Calls the function with every stream.
    fn visit(&self, function: &mut dyn FnMut(&StreamConfig));
}

impl Streams for BTreeMap<String, StreamConfig> {
    fn stream(&self, name: &str) -> Option<&StreamConfig> {
        self.get(name)
    }

    fn visit(&self, function: &mut dyn FnMut(&StreamConfig)) {
        self.values().for_each(function);
    }
}

/// An account as checks see it.
#[derive(Clone, Copy)]
pub struct AccountView<'a> {
    /// Its streams.
    pub streams: &'a dyn Streams,
    /// What it may use.
    pub limits: &'a AccountLimits,
}

impl AccountView<'_> {
    /// Streams that count in the limits, without the one of this name.
    pub(super) fn stream_count(&self, selected: Selected<'_>, name: &str) -> i64 {
        let mut count = 0;
        self.streams.visit(&mut |stream| {
            count += i64::from(selected.counts(stream.num_replicas) && stream.name != name);
        });
        count
    }

    /// Bytes that the other streams of this storage may grow to.
    pub(super) fn reserved(&self, selected: Selected<'_>, config: &StreamConfig) -> i64 {
        let mut reserved = 0i64;
        self.streams.visit(&mut |stream| {
            let counts = selected.counts(stream.num_replicas) && stream.storage == config.storage;
            if counts && stream.name != config.name {
                let bytes = selected.reservation(stream.num_replicas, stream.max_bytes);
                reserved = reserved.saturating_add(bytes);
            }
        });
        reserved
    }
}

/// Checks that a stream with these limits finds room. `reserved` is what others of the account take, `bytes` what is added.
pub(super) fn check_room(
    config: &StreamConfig,
    bytes: i64,
    reserved: i64,
    selected: Selected<'_>,
    server: &ServerLimits,
) -> Result<(), ApiError> {
    let limits = selected.limits;
    if limits.max_consumers > 0 && config.max_consumers > limits.max_consumers {
        return Err(ErrorCode::MAXIMUM_CONSUMERS_LIMIT.into());
    }
    // A stream without a limit needs room for something.
    let bytes = if bytes < 0 { 1 } else { bytes };
    let of_account = selected.reservation(config.num_replicas, bytes);
    let (account_max, server_max, server_reserved, error) = match config.storage {
        Storage::Memory => (
            limits.max_memory,
            server.max_memory,
            server.reserved_memory,
            ErrorCode::MEMORY_RESOURCES_EXCEEDED,
        ),
        Storage::File => (
            limits.max_storage,
            server.max_storage,
            server.reserved_storage,
            ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ),
    };
    let account_full = account_max >= 0 && exceeds(of_account, reserved, account_max);
    if account_full || exceeds(bytes, server_reserved, server_max) {
        return Err(error.into());
    }
    Ok(())
}

/// Whether `added` and `present` together are more than `max`.
fn exceeds(added: i64, present: i64, max: i64) -> bool {
    present > max || added > max.saturating_sub(present)
}
