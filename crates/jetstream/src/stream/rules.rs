//! What follows from a stream's configuration, ready for use with each message.

use std::time::Duration;

use api::jetstream::stream::{Republish, Storage, StreamConfig};
use subject::Transform;

/// What a file store counts for a message beside its bytes.
const FILE_OVERHEAD: u64 = 30;
/// What it counts for headers beside their bytes.
const FILE_HEADERS_OVERHEAD: u64 = 4;
/// What a memory store counts.
const MEMORY_OVERHEAD: u64 = 16;

/// Derived from the configuration, so neither stored nor replicated.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Subjects are changed by it on the way in.
    pub(crate) transform: Option<Transform>,
    /// Stored messages are published again under what it makes of their subjects.
    pub(crate) republish: Option<Transform>,
    pub(crate) republish_headers_only: bool,
    /// Bytes of headers and body.
    pub(crate) message_size_max: usize,
    /// Shortest life that a message may ask for.
    pub(crate) ttl_min: Option<Duration>,
    /// Life of a delete marker.
    pub(crate) marker_ttl: Option<Duration>,
    pub(crate) max_age: Option<Duration>,
    pub(crate) fast_batches: bool,
    storage: Storage,
}

impl Rules {
    pub(crate) fn new(config: &StreamConfig) -> Self {
        let transform = config.subject_transform.as_ref();
        let transform = transform
            .and_then(|pair| Transform::new(pair.source.as_bytes(), pair.destination.as_bytes()).ok());
        let positive = |duration: Duration| Some(duration).filter(|duration| !duration.is_zero());
        let marker_ttl = positive(config.subject_delete_marker_ttl.duration());
        Self {
            transform,
            republish: config.republish.as_ref().and_then(republish),
            republish_headers_only: config.republish.as_ref().is_some_and(|republish| republish.headers_only),
            message_size_max: usize::try_from(config.max_msg_size)
                .ok()
                .filter(|max| *max > 0)
                .unwrap_or(usize::MAX),
            ttl_min: marker_ttl.filter(|_| config.max_msgs_per_subject != 1),
            marker_ttl,
            max_age: positive(config.max_age.duration()),
            fast_batches: config.allow_batched,
            storage: config.storage,
        }
    }

    /// What the store counts for a message.
    #[inline]
    pub(crate) fn stored_size(&self, subject: &[u8], headers: &[u8], payload: &[u8]) -> u64 {
        let bytes = (subject.len() + headers.len() + payload.len()) as u64;
        match self.storage {
            Storage::Memory => MEMORY_OVERHEAD + bytes,
            Storage::File if headers.is_empty() => FILE_OVERHEAD + bytes,
            Storage::File => FILE_OVERHEAD + FILE_HEADERS_OVERHEAD + bytes,
        }
    }
}

fn republish(republish: &Republish) -> Option<Transform> {
    let source = if republish.source.is_empty() { ">" } else { &republish.source };
    Transform::new(source.as_bytes(), republish.destination.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_users_see() {
        let mut rules = Rules::new(&StreamConfig::default());
        assert_eq!(rules.stored_size(b"a.1", b"", b"x"), 34);
        assert_eq!(rules.stored_size(b"a.1", b"hh", b"x"), 40);
        rules.storage = Storage::Memory;
        assert_eq!(rules.stored_size(b"a.1", b"hh", b"x"), 22);
    }
}
