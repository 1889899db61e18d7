//! Circles of dead letters over several streams. That a letter does not come straight back is checked with the rest of the configuration; here
//! letters are followed through what would pass them on in the account: consumers, mirrors, sources and republishing.
//!
//! What was found right is announced until it is in force, and whoever is checked meanwhile reckons with it: of two changes that close a circle
//! together, the one that comes second is refused.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::consumer::{AckPolicy, ConsumerConfig};
use api::jetstream::stream::{Republish, StreamConfig, StreamSource};
use parking_lot::Mutex;
use subject::transform::Transform;

use super::directory::{AccountEntry, StreamEntry};

/// Places that a letter is followed to. Who chains more streams than this is not kept from chaining them into a circle.
const PLACES_MAX: usize = 4_096;

/// A stream, and the subject that a letter has there; `None` if it may be any, because it is transformed on the way.
type Place = (Box<str>, Option<Box<str>>);

/// A change that is on its way.
#[derive(Debug)]
enum Change {
    /// A consumer of this name, which may be empty, in the stream of that name.
    Consumer {
        stream: Box<str>,
        name: Box<str>,
        config: Arc<ConsumerConfig>,
    },
    Stream(Arc<StreamConfig>),
}

/// Changes of an account that were found right and are not in force.
#[derive(Debug, Default)]
pub struct Announced(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// Each with its number. There are no more than requests that wait for their answer.
    changes: Vec<(u64, Change)>,
    next: u64,
}

/// A change that is announced until this is dropped.
#[derive(Debug)]
pub struct Announcement {
    account: Arc<AccountEntry>,
    number: u64,
}

impl Announcement {
    fn new(account: &Arc<AccountEntry>, changes: &mut Changes, change: Change) -> Self {
        let number = changes.next;
        changes.next += 1;
        changes.changes.push((number, change));
        Self { account: Arc::clone(account), number }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.account.announced.0.lock().changes.retain(|(number, _)| *number != self.number);
    }
}

/// A stream as it is or is to be; one that is not made yet has no entry.
#[derive(Clone)]
struct Known {
    entry: Option<Arc<StreamEntry>>,
    config: Arc<StreamConfig>,
    /// Consumers that are on their way.
    announced: Vec<(Box<str>, Arc<ConsumerConfig>)>,
}

impl Known {
    /// Consumers that write letters.
    fn writers(&self) -> Vec<(Box<str>, Arc<ConsumerConfig>)> {
        let mut writers = self.announced.clone();
        if let Some(entry) = &self.entry {
            let consumers = entry.consumers.read();
            let present = consumers.iter().filter(|(_, known)| letters_of(&known.config).is_some());
            writers.extend(present.map(|(name, known)| (name.clone(), Arc::clone(&known.config))));
        }
        writers
    }
}

/// What a letter comes by.
#[derive(Clone)]
struct Streams(Vec<Known>);

/// Announces a consumer, new or changed, unless its letters would come back to it.
pub fn announce_consumer(
    account: &Arc<AccountEntry>,
    stream: &StreamEntry,
    config: &ConsumerConfig,
) -> Result<Option<Announcement>, ApiError> {
    let Some(letters) = letters_of(config) else { return Ok(None) };
    let mut changes = account.announced.0.lock();
    let arrives = |place: &Place| *place.0 == *stream.name && wants(config, place.1.as_deref());
    let name = config.effective_name();
    if Streams::of(account, &changes).follow(letters, Some((&stream.name, name)), arrives) {
        return Err(ErrorCode::CONSUMER_DEAD_LETTER_CYCLE.into());
    }
    let change =
        Change::Consumer { stream: stream.name.clone(), name: name.into(), config: Arc::new(config.clone()) };
    Ok(Some(Announcement::new(account, &mut changes, change)))
}

/// Announces a stream, new or changed, unless it brings dead letters back to those who wrote them.
pub fn announce_stream(account: &Arc<AccountEntry>, config: &StreamConfig) -> Result<Announcement, ApiError> {
    let mut changes = account.announced.0.lock();
    if close_circle(account, &changes, config) {
        return Err(ErrorCode::CONSUMER_DEAD_LETTER_CYCLE.into());
    }
    Ok(Announcement::new(account, &mut changes, Change::Stream(Arc::new(config.clone()))))
}

/// Would letters that do not come back now, if this stream were made or changed so?
fn close_circle(account: &AccountEntry, changes: &Changes, config: &StreamConfig) -> bool {
    let known = account.stream(config.name.as_bytes());
    if known.is_some_and(|stream| passes_on_alike(&stream.config.load(), config)) {
        return false;
    }
    let announced = |(_, change): &(u64, Change)| matches!(change, Change::Consumer { .. });
    if !account.has_letter_writers() && !changes.changes.iter().any(announced) {
        return false;
    }
    let mut letters: BTreeSet<Box<str>> = BTreeSet::new();
    for stream in account.streams.read().values() {
        letters.extend(
            stream.consumers.read().values().filter_map(|known| letters_of(&known.config).map(Box::from)),
        );
    }
    for (_, change) in &changes.changes {
        if let Change::Consumer { config, .. } = change {
            letters.extend(letters_of(config).map(Box::from));
        }
    }
    let before = Streams::of(account, changes);
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
pub(super) fn letters_of(config: &ConsumerConfig) -> Option<&str> {
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
    /// What there is, and what is on its way.
    fn of(account: &AccountEntry, changes: &Changes) -> Self {
        let known = account.sorted().into_iter().map(|entry| {
            let config = entry.config.load_full();
            Known { entry: Some(entry), config, announced: Vec::new() }
        });
        let mut streams = Self(known.collect());
        for (_, change) in &changes.changes {
            match change {
                Change::Stream(config) => streams.put(config),
                Change::Consumer { stream, name, config } => {
                    let known = streams.0.iter_mut().find(|known| *known.config.name == **stream);
                    if let Some(known) = known {
                        known.announced.push((name.clone(), Arc::clone(config)));
                    }
                }
            }
        }
        streams
    }

    fn put(&mut self, config: &Arc<StreamConfig>) {
        let config = Arc::clone(config);
        match self.0.iter_mut().find(|known| known.config.name == config.name) {
            Some(known) => known.config = config,
            None => self.0.push(Known { entry: None, config, announced: Vec::new() }),
        }
    }

    /// The same with this configuration.
    fn with(&self, config: &StreamConfig) -> Self {
        let mut streams = self.clone();
        streams.put(&Arc::new(config.clone()));
        streams
    }

    /// Do letters of this subject come to a consumer that writes such letters?
    fn comes_back(&self, letters: &str) -> bool {
        self.follow(letters, None, |(name, subject)| {
            let here = self.0.iter().filter(|known| *known.config.name == **name);
            let mut writers = here.flat_map(Known::writers);
            writers.any(|(_, known)| letters_of(&known) == Some(letters) && wants(&known, subject.as_deref()))
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
        for known in &self.0 {
            let config = &known.config;
            if config.name == name {
                for (consumer, writer) in known.writers() {
                    let passes_on = Some((name, &*consumer)) != except && wants(&writer, subject);
                    let letters = letters_of(&writer).filter(|_| passes_on);
                    places.extend(letters.into_iter().flat_map(|to| self.storing(to)));
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
