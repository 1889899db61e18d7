//! Circles of dead letters over several streams. That a letter does not come straight back is checked with the rest of the configuration; here
//! letters are followed through what would pass them on in the account: consumers, mirrors, sources and republishing.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use api::jetstream::consumer::{AckPolicy, ConsumerConfig};
use api::jetstream::stream::{Republish, StreamConfig, StreamSource};
use subject::transform::Transform;

use super::directory::{AccountEntry, StreamEntry};

/// Places that a letter is followed to. Who chains more streams than this is not kept from chaining them into a circle.
const PLACES_MAX: usize = 4_096;

/// A stream, and the subject that a letter has there; `None` if it may be any, because it is transformed on the way.
type Place = (Box<str>, Option<Box<str>>);

/// A stream as it is or is to be; one that is not made yet has no entry, and no consumers.
#[derive(Clone)]
struct Known {
    entry: Option<Arc<StreamEntry>>,
    config: Arc<StreamConfig>,
}

/// What a letter comes by.
#[derive(Clone)]
struct Streams(Vec<Known>);

/// Would letters of this consumer, new or changed, come back to it?
pub fn come_back(account: &AccountEntry, stream: &StreamEntry, config: &ConsumerConfig) -> bool {
    let Some(letters) = letters_of(config) else { return false };
    let arrives = |place: &Place| *place.0 == *stream.name && wants(config, place.1.as_deref());
    Streams::of(account).follow(letters, Some((&stream.name, config.effective_name())), arrives)
}

/// Would letters that do not come back now, if this stream were made or changed so?
pub fn close_circle(account: &AccountEntry, config: &StreamConfig) -> bool {
    let known = account.stream(config.name.as_bytes());
    if known.is_some_and(|stream| passes_on_alike(&stream.config.load(), config)) {
        return false;
    }
    let mut letters = BTreeSet::new();
    for stream in account.streams.read().values() {
        letters.extend(
            stream.consumers.read().values().filter_map(|consumer| letters_of(consumer).map(Box::from)),
        );
    }
    if letters.is_empty() {
        return false;
    }
    let before = Streams::of(account);
    let after = before.with(config);
    let feeding = after.feeding(&config.name);
    let passes_here = |letters: &str| after.storing(letters).any(|place| feeding.contains(&place.0));
    letters
        .iter()
        .any(|letters| passes_here(letters) && after.comes_back(letters) && !before.comes_back(letters))
}

/// Does all that one of them passes on go where the other one would pass it on to?
fn passes_on_alike(one: &StreamConfig, other: &StreamConfig) -> bool {
    let relevant = |config: &StreamConfig| {
        let StreamConfig { subjects, subject_transform, mirror, sources, republish, .. } = config;
        (subjects.clone(), subject_transform.clone(), mirror.clone(), sources.clone(), republish.clone())
    };
    relevant(one) == relevant(other)
}

/// Where a consumer's letters go, if it writes any.
fn letters_of(config: &ConsumerConfig) -> Option<&str> {
    let letters = config.dead_letter_subject.as_str();
    (!letters.is_empty() && config.ack_policy == AckPolicy::Explicit).then_some(letters)
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
    fn of(account: &AccountEntry) -> Self {
        let known = account.sorted().into_iter().map(|entry| {
            let config = entry.config.load_full();
            Known { entry: Some(entry), config }
        });
        Self(known.collect())
    }

    /// The same with this configuration.
    fn with(&self, config: &StreamConfig) -> Self {
        let mut streams = self.clone();
        let config = Arc::new(config.clone());
        match streams.0.iter_mut().find(|known| known.config.name == config.name) {
            Some(known) => known.config = config,
            None => streams.0.push(Known { entry: None, config }),
        }
        streams
    }

    /// Do letters of this subject come to a consumer that writes such letters?
    fn comes_back(&self, letters: &str) -> bool {
        self.follow(letters, None, |(name, subject)| {
            let entry = self
                .0
                .iter()
                .find(|known| *known.config.name == **name)
                .and_then(|known| known.entry.as_ref());
            entry.is_some_and(|entry| {
                let consumers = entry.consumers.read();
                consumers
                    .values()
                    .any(|known| letters_of(known) == Some(letters) && wants(known, subject.as_deref()))
            })
        })
    }

    /// Follows letters of this subject until they are where they should not be. True if they come there. The consumer `except` passes nothing on.
    fn follow(&self, letters: &str, except: Option<(&str, &str)>, arrives: impl Fn(&Place) -> bool) -> bool {
        let mut seen = BTreeSet::new();
        let mut next: VecDeque<Place> = self.storing(letters).collect();
        while let Some(place) = next.pop_front() {
            if arrives(&place) {
                return true;
            }
            if seen.len() < PLACES_MAX && !seen.contains(&place) {
                next.extend(self.beyond(&place, except));
                seen.insert(place);
            }
        }
        false
    }

    /// The stream and those whose messages come to it by mirrors, sources and republishing.
    fn feeding(&self, name: &str) -> BTreeSet<Box<str>> {
        let mut feeding = BTreeSet::new();
        let mut next = vec![Box::from(name)];
        while let Some(name) = next.pop() {
            if feeding.contains(&name) {
                continue;
            }
            let Some(to) = self.0.iter().find(|known| *known.config.name == *name) else { continue };
            next.extend(
                to.config.sources.iter().chain(&to.config.mirror).map(|source| source.name.as_str().into()),
            );
            let republishing = self.0.iter().filter(|from| {
                from.config.republish.as_ref().is_some_and(|to_where| may_reach(to_where, &to.config))
            });
            next.extend(republishing.map(|from| from.config.name.as_str().into()));
            feeding.insert(name);
        }
        feeding
    }

    /// Where a message of this subject is stored.
    fn storing<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = Place> + 'a {
        let storing = move |config: &StreamConfig| {
            config.subjects.iter().any(|pattern| matches(Some(subject), pattern))
        };
        self.0.iter().map(|known| &*known.config).filter(move |config| storing(config)).map(move |config| {
            let subject = config.subject_transform.is_none().then(|| subject.into());
            (config.name.as_str().into(), subject)
        })
    }

    /// Where what is at a place goes on to: by letters of other consumers than `except`, by streams that take from this one, and republished.
    fn beyond(&self, place: &Place, except: Option<(&str, &str)>) -> Vec<Place> {
        let (name, subject) = (&*place.0, place.1.as_deref());
        let mut places = Vec::new();
        for Known { entry, config } in &self.0 {
            if config.name == name {
                if let Some(entry) = entry {
                    for (consumer, known) in &*entry.consumers.read() {
                        let letters = letters_of(known).filter(|_| Some((name, &**consumer)) != except);
                        places.extend(
                            letters
                                .filter(|_| wants(known, subject))
                                .into_iter()
                                .flat_map(|to| self.storing(to)),
                        );
                    }
                }
                if let Some(republish) = &config.republish {
                    places.extend(self.republished(republish, subject));
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

    /// Where a message that is republished is stored again.
    fn republished(&self, republish: &Republish, subject: Option<&str>) -> Vec<Place> {
        let Some(subject) = subject else {
            let reached = self.0.iter().filter(|known| may_reach(republish, &known.config));
            return reached.map(|known| (known.config.name.as_str().into(), None)).collect();
        };
        let transform = Transform::new(republish.source.as_bytes(), republish.destination.as_bytes());
        let to = transform.ok().and_then(|transform| transform.apply(subject.as_bytes()));
        let to = to.and_then(|to| String::from_utf8(to).ok());
        to.map(|to| self.storing(&to).collect()).unwrap_or_default()
    }
}

/// May messages that are republished so be stored by this stream?
fn may_reach(republish: &Republish, config: &StreamConfig) -> bool {
    let pattern = subject::transform::pattern(republish.destination.as_bytes());
    // What other functions than wildcards give may be anything, and more than a token.
    let function = pattern.windows(2).position(|pair| pair == b"{{");
    let to = match function {
        Some(at) => [&pattern[..at], b">"].concat(),
        None => pattern,
    };
    config.subjects.iter().any(|own| subject::overlaps(own.as_bytes(), &to))
}

/// Does a mirror or source get what is at this place?
fn takes(source: &StreamSource, place: &Place) -> bool {
    source.external.is_none()
        && *source.name == *place.0
        && (source.filter_subject.is_empty() || matches(place.1.as_deref(), &source.filter_subject))
}
