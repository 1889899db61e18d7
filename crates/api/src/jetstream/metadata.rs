//! Names that the server itself puts into the metadata of streams and consumers.
//!
//! The level a stream or consumer needs is kept with it. Version and level of the server are added to each response and
//! taken out of each request.

use std::collections::BTreeMap;

use super::API_LEVEL;
use super::consumer::{AckPolicy, ConsumerConfig, PriorityPolicy};
use super::stream::{PersistMode, StreamConfig};

/// The level of the API that a stream or consumer needs.
pub const REQUIRED_LEVEL: &str = "_nats.req.level";
/// Version of the answering server.
pub const SERVER_VERSION: &str = "_nats.ver";
/// [`API_LEVEL`] of the answering server.
pub const SERVER_LEVEL: &str = "_nats.level";

/// In the metadata of a stream in files, where the answering server acknowledges messages before they are on stable storage: how long after.
/// No other server has this name.
pub const SYNC_INTERVAL: &str = "_myelin.sync_interval";

/// Metadata of a stream or consumer.
pub type Metadata = BTreeMap<String, String>;

/// The level of the API that a stream needs.
pub fn stream_level(config: &StreamConfig) -> i64 {
    let ttl = config.allow_msg_ttl || config.subject_delete_marker_ttl.0 > 0;
    let second = config.allow_msg_counter
        || config.allow_atomic
        || config.allow_msg_schedules
        || config.persist_mode == PersistMode::Async;
    match (config.allow_batched, second, ttl) {
        (true, ..) => 4,
        (_, true, _) => 2,
        (.., true) => 1,
        _ => 0,
    }
}

/// The level of the API that a consumer needs.
pub fn consumer_level(config: &ConsumerConfig) -> i64 {
    let paused = config.pause_until.is_some_and(|time| !time.is_zero());
    let priority = config.priority_policy != PriorityPolicy::None
        || !config.priority_timeout.is_zero()
        || !config.priority_groups.is_empty();
    if config.ack_policy == AckPolicy::FlowControl { 4 } else { i64::from(paused || priority) }
}

/// Puts the level that a stream or consumer needs into its metadata, and takes out what only responses have.
pub fn set_required_level(metadata: &mut Metadata, level: i64) {
    remove_dynamic(metadata);
    metadata.insert(REQUIRED_LEVEL.to_owned(), level.to_string());
}

/// Metadata as a response shows it.
pub fn with_server(metadata: &Metadata, version: &str) -> Metadata {
    let mut shown = metadata.clone();
    shown.insert(SERVER_VERSION.to_owned(), version.to_owned());
    shown.insert(SERVER_LEVEL.to_owned(), API_LEVEL.to_string());
    shown
}

/// Takes out what only responses have.
pub fn remove_dynamic(metadata: &mut Metadata) {
    metadata.remove(SERVER_VERSION);
    metadata.remove(SERVER_LEVEL);
    metadata.remove(SYNC_INTERVAL);
}

/// Takes out everything that servers put in.
pub fn remove_all(metadata: &mut Metadata) {
    remove_dynamic(metadata);
    metadata.remove(REQUIRED_LEVEL);
}

/// Whether this server can run a stream or consumer with this metadata.
pub fn is_supported(metadata: &Metadata) -> bool {
    match metadata.get(REQUIRED_LEVEL).map(String::as_str) {
        None | Some("") => true,
        Some(level) => level.parse::<i64>().is_ok_and(|level| level <= API_LEVEL),
    }
}

/// Whether a request may ask for this level in its header. A level that is no number may not.
pub fn is_supported_level(header: &str) -> bool {
    header.parse::<i64>().is_ok_and(|level| level <= API_LEVEL)
}

/// Makes the level of `metadata` that of `present`, so that a comparison passes over it.
pub(super) fn copy_level(metadata: &mut Metadata, present: &Metadata) {
    remove_dynamic(metadata);
    match present.get(REQUIRED_LEVEL) {
        Some(level) => metadata.insert(REQUIRED_LEVEL.to_owned(), level.clone()),
        None => metadata.remove(REQUIRED_LEVEL),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::duration::Nanos;

    #[test]
    fn streams_need_the_highest_level_of_their_features() {
        let level = |change: fn(&mut StreamConfig)| {
            let mut config = StreamConfig::default();
            change(&mut config);
            stream_level(&config)
        };
        assert_eq!(level(|_| {}), 0);
        assert_eq!(level(|c| c.allow_msg_ttl = true), 1);
        assert_eq!(level(|c| c.subject_delete_marker_ttl = Nanos(1)), 1);
        assert_eq!(level(|c| c.subject_delete_marker_ttl = Nanos(-1)), 0);
        assert_eq!(level(|c| c.allow_msg_counter = true), 2);
        assert_eq!(level(|c| c.allow_atomic = true), 2);
        assert_eq!(level(|c| (c.allow_msg_schedules, c.allow_msg_ttl) = (true, true)), 2);
        assert_eq!(level(|c| c.persist_mode = PersistMode::Async), 2);
        assert_eq!(level(|c| (c.allow_batched, c.allow_atomic) = (true, true)), 4);
    }

    #[test]
    fn consumers_need_the_highest_level_of_their_features() {
        let level = |change: fn(&mut ConsumerConfig)| {
            let mut config = ConsumerConfig::default();
            change(&mut config);
            consumer_level(&config)
        };
        assert_eq!(level(|_| {}), 0);
        assert_eq!(level(|c| c.pause_until = Some(Time::ZERO)), 0);
        assert_eq!(level(|c| c.pause_until = Some(Time::from_unix_nanos(0))), 1);
        assert_eq!(level(|c| c.priority_policy = PriorityPolicy::Overflow), 1);
        assert_eq!(level(|c| c.priority_timeout = Nanos(1)), 1);
        assert_eq!(level(|c| c.priority_groups = vec!["a".to_owned()]), 1);
        assert_eq!(level(|c| c.ack_policy = AckPolicy::FlowControl), 4);
    }

    #[test]
    fn what_only_responses_have_does_not_stay() {
        let mut metadata = Metadata::from([("a".to_owned(), "b".to_owned())]);
        metadata = with_server(&metadata, "1.2.3");
        assert_eq!(metadata[SERVER_VERSION], "1.2.3");
        assert_eq!(metadata[SERVER_LEVEL], "5");
        metadata.insert(SYNC_INTERVAL.to_owned(), "2m0s".to_owned());
        set_required_level(&mut metadata, 2);
        assert_eq!(metadata.len(), 2);
        assert_eq!(metadata[REQUIRED_LEVEL], "2");
        let mut other = Metadata::new();
        copy_level(&mut other, &metadata);
        assert_eq!(other[REQUIRED_LEVEL], "2");
        copy_level(&mut other, &Metadata::new());
        assert!(other.is_empty());
        remove_all(&mut metadata);
        assert_eq!(metadata.len(), 1);
    }

    #[test]
    fn levels_beyond_that_of_the_server_are_not_supported() {
        let with = |level: &str| Metadata::from([(REQUIRED_LEVEL.to_owned(), level.to_owned())]);
        assert!(is_supported(&Metadata::new()) && is_supported(&with("")) && is_supported(&with("5")));
        assert!(!is_supported(&with("6")) && !is_supported(&with("x")));
        assert!(is_supported_level("5") && is_supported_level("-1"));
        assert!(!is_supported_level("6") && !is_supported_level("") && !is_supported_level("x"));
    }
}
