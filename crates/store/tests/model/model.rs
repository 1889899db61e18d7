//! What a stream store is, written down as plainly as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use store::Timestamp;
use store::stream::{Append, Expiry, Filter, Items, Message, Removed, State, SubjectState};

/// Size of a message as users see it, from the lengths of subject, headers and payload.
pub(crate) type Size = fn(usize, usize, usize) -> u64;

#[derive(Debug, Clone)]
struct Stored {
    message: Message,
    expiry: Expiry,
}

/// A stream's messages.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    size: Size,
    messages: BTreeMap<u64, Stored>,
    last_sequence: u64,
    last_timestamp: Option<Timestamp>,
    /// Named values as of the last checkpoint.
    pub(crate) items: Items,
}

impl Model {
    pub(crate) fn new(size: Size) -> Self {
        Self { size, messages: BTreeMap::new(), last_sequence: 0, last_timestamp: None, items: Items::new() }
    }

    fn size_of(&self, message: &Message) -> u64 {
        (self.size)(message.subject.len(), message.headers.len(), message.payload.len())
    }

    fn matching<'a>(
        &'a self,
        filter: &'a Filter,
        range: RangeInclusive<u64>,
    ) -> impl DoubleEndedIterator<Item = &'a Message> {
        let range = if range.is_empty() { 0..=0 } else { range };
        let messages = self.messages.range(range).map(|(_, stored)| &stored.message);
        messages.filter(|message| filter.matches(&message.subject))
    }

    fn by_subject<'a>(&'a self, filter: &'a Filter, up_to: u64) -> BTreeMap<&'a [u8], BTreeSet<u64>> {
        let mut subjects = BTreeMap::<&[u8], BTreeSet<u64>>::new();
        for message in self.matching(filter, 0..=up_to) {
            subjects.entry(&message.subject).or_default().insert(message.sequence);
        }
        subjects
    }

    pub(crate) fn sequences(&self) -> Vec<u64> {
        self.messages.keys().copied().collect()
    }

    pub(crate) fn state(&self) -> State {
        let first = self.messages.values().next().map(|stored| &stored.message);
        let first_sequence = first.map_or_else(|| self.last_sequence + 1, |message| message.sequence);
        let messages = self.messages.len() as u64;
        State {
            messages,
            bytes: self.messages.values().map(|stored| self.size_of(&stored.message)).sum(),
            first_sequence,
            first_timestamp: first.map(|message| message.timestamp),
            last_sequence: self.last_sequence,
            last_timestamp: self.last_timestamp,
            subjects: self.by_subject(&Filter::All, u64::MAX).len() as u64,
            deleted: if messages == 0 { 0 } else { self.last_sequence + 1 - first_sequence - messages },
        }
    }

    pub(crate) fn append(&mut self, append: &Append<'_>) {
        let message = Message {
            sequence: append.sequence,
            timestamp: append.timestamp,
            subject: append.subject.to_vec().into(),
            headers: append.headers.to_vec().into(),
            payload: append.payload.to_vec().into(),
        };
        self.messages.insert(append.sequence, Stored { message, expiry: append.expiry });
        self.last_sequence = append.sequence;
        self.last_timestamp = Some(append.timestamp);
    }

    pub(crate) fn skip_to(&mut self, last: u64, timestamp: Timestamp) {
        if last > self.last_sequence {
            self.last_sequence = last;
            self.last_timestamp = Some(timestamp);
        }
    }

    pub(crate) fn load(&self, sequence: u64) -> Option<Message> {
        self.messages.get(&sequence).map(|stored| stored.message.clone())
    }

    pub(crate) fn next(&self, filter: &Filter, from: u64) -> Option<Message> {
        self.matching(filter, from..=u64::MAX).next().cloned()
    }

    pub(crate) fn last(&self, filter: &Filter, up_to: u64) -> Option<u64> {
        self.matching(filter, 0..=up_to).next_back().map(|message| message.sequence)
    }

    pub(crate) fn last_per_subject(&self, filter: &Filter, up_to: u64, max: usize) -> Option<Vec<u64>> {
        let subjects = self.by_subject(filter, up_to);
        let found: BTreeSet<u64> =
            subjects.values().filter_map(|sequences| sequences.last().copied()).collect();
        (found.len() <= max).then(|| found.into_iter().collect())
    }

    pub(crate) fn count(&self, filter: &Filter, range: RangeInclusive<u64>) -> u64 {
        self.matching(filter, range).count() as u64
    }

    pub(crate) fn sequence_at(&self, time: Timestamp) -> u64 {
        let found = self.messages.values().find(|stored| stored.message.timestamp >= time);
        found.map_or_else(|| self.last_sequence + 1, |stored| stored.message.sequence)
    }

    pub(crate) fn subjects(&self, filter: &Filter) -> Vec<(Vec<u8>, SubjectState)> {
        let subjects = self.by_subject(filter, u64::MAX).into_iter();
        let state = |sequences: &BTreeSet<u64>| SubjectState {
            first: *sequences.first().unwrap(),
            last: *sequences.last().unwrap(),
            messages: sequences.len() as u64,
        };
        subjects.map(|(subject, sequences)| (subject.to_vec(), state(&sequences))).collect()
    }

    pub(crate) fn deleted(&self, from: u64, max: usize) -> Vec<RangeInclusive<u64>> {
        let Some((first, _)) = self.messages.first_key_value() else { return Vec::new() };
        let mut ranges = Vec::new();
        let mut expected = from.max(*first);
        let held = self.messages.range(expected..).map(|(sequence, _)| *sequence);
        for sequence in held.chain([self.last_sequence + 1]) {
            if expected < sequence {
                ranges.push(expected..=sequence - 1);
            }
            expected = sequence + 1;
        }
        ranges.truncate(max);
        ranges
    }

    pub(crate) fn remove(&mut self, sequence: u64) -> Option<Removed> {
        let Stored { message, .. } = self.messages.remove(&sequence)?;
        Some(Removed { sequence, bytes: self.size_of(&message), subject: message.subject })
    }

    pub(crate) fn purge(&mut self, filter: &Filter, up_to: u64) -> Vec<Removed> {
        let due: Vec<u64> = self.matching(filter, 0..=up_to).map(|message| message.sequence).collect();
        let removed = due.into_iter().filter_map(|sequence| self.remove(sequence)).collect();
        if *filter == Filter::All {
            self.last_sequence = self.last_sequence.max(up_to);
        }
        removed
    }

    /// All that are due.
    pub(crate) fn expired(&self, now: Timestamp, max_age_before: Option<Timestamp>) -> Vec<u64> {
        let due = |stored: &Stored| {
            let aged = max_age_before.is_some_and(|before| stored.message.timestamp <= before);
            match stored.expiry {
                Expiry::MaxAge => aged,
                Expiry::At(time) => aged || time <= now,
                Expiry::Never => false,
            }
        };
        self.messages.iter().filter(|(_, stored)| due(stored)).map(|(sequence, _)| *sequence).collect()
    }

    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        let own = self.messages.values().filter_map(|stored| match stored.expiry {
            Expiry::At(time) => Some(time),
            Expiry::MaxAge | Expiry::Never => None,
        });
        own.min()
    }
}
