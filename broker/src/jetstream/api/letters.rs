//! Circles of dead letters over several streams. That a letter does not come straight back is checked with the rest of the configuration; here
//! letters are followed through the consumers, mirrors and sources of the account that would pass them on.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use api::jetstream::consumer::{AckPolicy, ConsumerConfig};
use api::jetstream::stream::{StreamConfig, StreamSource};

use crate::jetstream::directory::{AccountEntry, StreamEntry};

/// Places that a letter is followed to. Who chains more streams than this is not kept from chaining them into a circle.
const PLACES_MAX: usize = 4_096;

/// A stream, and the subject that a letter has there; `None` if it may be any, because it is transformed on the way.
type Place = (Box<str>, Option<Box<str>>);

/// What a letter comes by.
struct Streams {
    entries: Vec<(Arc<StreamEntry>, Arc<StreamConfig>)>,
}

/// Would letters of this consumer, new or changed, come back to it?
pub(super) fn come_back(account: &AccountEntry, stream: &StreamEntry, config: &ConsumerConfig) -> bool {
    if config.dead_letter_subject.is_empty() || config.ack_policy != AckPolicy::Explicit {
        return false;
    }
    let entries = account.sorted().into_iter().map(|entry| {
        let config = entry.config.load_full();
        (entry, config)
    });
    let streams = Streams { entries: entries.collect() };
    let mut seen = BTreeSet::new();
    let mut next: VecDeque<Place> = streams.storing(&config.dead_letter_subject).collect();
    while let Some(place) = next.pop_front() {
        if *place.0 == *stream.name && wants(config, place.1.as_deref()) {
            return true;
        }
        if seen.len() < PLACES_MAX && !seen.contains(&place) {
            next.extend(streams.beyond(&place, (&stream.name, config.effective_name())));
            seen.insert(place);
        }
    }
    false
}

/// Does the consumer get messages of this subject?
fn wants(config: &ConsumerConfig, subject: Option<&str>) -> bool {
    let filters = config.filters();
    filters.is_empty() || filters.iter().any(|filter| matches(subject, filter))
}

fn matches(subject: Option<&str>, pattern: &str) -> bool {
    subject.is_none_or(|subject| subject::matches(subject.as_bytes(), pattern.as_bytes()))
}

impl Streams {
    /// Where a message of this subject is stored.
    fn storing<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = Place> + 'a {
        let storing = move |config: &StreamConfig| {
            config.subjects.iter().any(|pattern| matches(Some(subject), pattern))
        };
        self.entries.iter().filter(move |(_, config)| storing(config)).map(move |(_, config)| {
            let subject = config.subject_transform.is_none().then(|| subject.into());
            (config.name.as_str().into(), subject)
        })
    }

    /// Where what is at a place goes on to: by letters of other consumers than `except`, and by streams that take from this one.
    fn beyond(&self, place: &Place, except: (&str, &str)) -> Vec<Place> {
        let (name, subject) = (&*place.0, place.1.as_deref());
        let mut places = Vec::new();
        for (entry, config) in &self.entries {
            if config.name == name {
                for (consumer, known) in &*entry.consumers.read() {
                    let passes_on = !known.dead_letter_subject.is_empty()
                        && (name, &**consumer) != except
                        && wants(known, subject);
                    if passes_on {
                        places.extend(self.storing(&known.dead_letter_subject));
                    }
                }
            }
            let taken = config.sources.iter().chain(&config.mirror).find(|source| takes(source, place));
            if let Some(source) = taken {
                let same = source.subject_transforms.is_empty() && config.subject_transform.is_none();
                places.push((config.name.as_str().into(), place.1.clone().filter(|_| same)));
            }
        }
        places
    }
}

/// Does a mirror or source get what is at this place?
fn takes(source: &StreamSource, place: &Place) -> bool {
    source.external.is_none()
        && *source.name == *place.0
        && (source.filter_subject.is_empty() || matches(place.1.as_deref(), &source.filter_subject))
}
