//! What streams and consumers are checked against: limits, and what an account already has.

use std::collections::BTreeMap;

use super::account::Limits;
use super::feature::Features;
use super::stream::{Storage, StreamConfig};
use super::subjects;
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
        bytes.max(0).saturating_mul(self.copies(replicas))
    }

    /// How often each byte of a stream with so many replicas counts.
    fn copies(self, replicas: i64) -> i64 {
        if self.tier.is_none() { replicas.max(1) } else { 1 }
    }
}

/// Name of the tier for streams with so many replicas.
pub fn tier_name(replicas: i64) -> String {
    format!("R{}", replicas.max(1))
}

/// Streams that count alike in limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Replicas of each.
    pub replicas: i64,
    /// Where they are.
    pub storage: Storage,
    /// How many.
    pub streams: i64,
    /// Sum of their `max_bytes`, of those that have one.
    pub bytes: i128,
}

impl Totals {
    /// Of one stream.
    pub fn of(config: &StreamConfig) -> Self {
        let bytes = i128::from(config.max_bytes.max(0));
        Self { replicas: config.num_replicas, storage: config.storage, streams: 1, bytes }
    }
}

/// The streams of an account.
pub trait Streams {
    /// The stream with this name.
    fn stream(&self, name: &str) -> Option<&StreamConfig>;

    /// Calls the function with every stream.
    fn visit(&self, function: &mut dyn FnMut(&StreamConfig));

    /// Calls the function with sums over all streams, each counted in one of them.
    fn visit_totals(&self, function: &mut dyn FnMut(Totals)) {
        self.visit(&mut |config| function(Totals::of(config)));
    }

    /// Whether a stream of another name stores what one of these subjects matches.
    fn overlaps(&self, name: &str, subjects: &[String]) -> bool {
        let mut overlaps = false;
        self.visit(&mut |other| {
            let mut theirs = other.subjects.iter();
            overlaps |= other.name != name
                && theirs.any(|theirs| subjects.iter().any(|own| subjects::overlap(own, theirs)));
        });
        overlaps
    }
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
        let counts = |totals: Totals| if selected.counts(totals.replicas) { totals.streams } else { 0 };
        let mut count = self.streams.stream(name).map_or(0, |own| -counts(Totals::of(own)));
        self.streams.visit_totals(&mut |totals| count += counts(totals));
        count
    }

    /// Bytes that the other streams of this storage may grow to.
    pub(super) fn reserved(&self, selected: Selected<'_>, config: &StreamConfig) -> i64 {
        let counts = |totals: Totals| {
            let counts = selected.counts(totals.replicas) && totals.storage == config.storage;
            if counts { totals.bytes.saturating_mul(selected.copies(totals.replicas).into()) } else { 0 }
        };
        let mut reserved = self.streams.stream(&config.name).map_or(0, |own| -counts(Totals::of(own)));
        self.streams.visit_totals(&mut |totals| reserved = reserved.saturating_add(counts(totals)));
        i64::try_from(reserved).unwrap_or(i64::MAX)
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
