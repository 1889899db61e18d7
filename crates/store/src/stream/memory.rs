//! A stream's messages in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::{
    Append, CheckpointDone, CheckpointJob, Damage, Error, Expiry, Filter, Message, Removed, State,
    StreamStore, SubjectState,
};
use crate::Timestamp;

/// What a message costs beside its subject, headers and payload, as users see it.
const MESSAGE_OVERHEAD: u64 = 16;

#[derive(Debug)]
struct Stored {
    message: Message,
    expiry: Expiry,
}

impl Stored {
    fn size(&self) -> u64 {
        let message = &self.message;
        let bytes = message.subject.len() + message.headers.len() + message.payload.len();
        MESSAGE_OVERHEAD + bytes as u64
    }
}

/// Messages of one stream that live as long as the process. Its checkpoints hold nothing: they always succeed, and there is nothing to open.
#[derive(Debug, Default)]
pub struct MemoryStore {
    messages: BTreeMap<u64, Stored>,
    subjects: BTreeMap<Bytes, BTreeSet<u64>>,
    expiries: BTreeSet<(Timestamp, u64)>,
    bytes: u64,
    last_sequence: u64,
    last_timestamp: Option<Timestamp>,
    failed: Option<String>,
}

impl MemoryStore {
    /// An empty store whose first message may have any sequence.
    pub fn new() -> Self {
        Self::default()
    }

    fn check(&self) -> Result<(), Error> {
        match &self.failed {
            Some(reason) => Err(Error::Failed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn take(&mut self, sequence: u64) -> Option<Removed> {
        let stored = self.messages.remove(&sequence)?;
        let bytes = stored.size();
        self.bytes -= bytes;
        if let Expiry::At(time) = stored.expiry {
            self.expiries.remove(&(time, sequence));
        }
        let subject = stored.message.subject;
        if let Some(sequences) = self.subjects.get_mut(&subject) {
            sequences.remove(&sequence);
            if sequences.is_empty() {
                self.subjects.remove(&subject);
            }
        }
        Some(Removed { sequence, subject, bytes })
    }
}

fn subject_state(sequences: &BTreeSet<u64>) -> Option<SubjectState> {
    let (first, last) = (*sequences.first()?, *sequences.last()?);
    Some(SubjectState { first, last, messages: sequences.len() as u64 })
}

impl StreamStore for MemoryStore {
    fn state(&self) -> State {
        let first = self.messages.first_key_value();
        let first_sequence =
            first.map_or_else(|| self.last_sequence.saturating_add(1), |(sequence, _)| *sequence);
        let messages = self.messages.len() as u64;
        State {
            messages,
            bytes: self.bytes,
            first_sequence,
            first_timestamp: first.map(|(_, stored)| stored.message.timestamp),
            last_sequence: self.last_sequence,
            last_timestamp: self.last_timestamp,
            subjects: self.subjects.len() as u64,
            deleted: if messages == 0 { 0 } else { self.last_sequence - first_sequence + 1 - messages },
        }
    }

    fn append(&mut self, message: Append<'_>) -> Result<(), Error> {
        self.check()?;
        let Append { sequence, timestamp, subject, headers, payload, expiry } = message;
        assert!(sequence > self.last_sequence, "append of {sequence} after {}", self.last_sequence);
        let mut data = BytesMut::with_capacity(subject.len() + headers.len() + payload.len());
        data.extend_from_slice(subject);
        data.extend_from_slice(headers);
        data.extend_from_slice(payload);
        let mut data = data.freeze();
        let subject = data.split_to(subject.len());
        let headers = data.split_to(headers.len());
        self.subjects.entry(subject.clone()).or_default().insert(sequence);
        if let Expiry::At(time) = expiry {
            self.expiries.insert((time, sequence));
        }
        let stored =
            Stored { message: Message { sequence, timestamp, subject, headers, payload: data }, expiry };
        self.bytes += stored.size();
        self.messages.insert(sequence, stored);
        self.last_sequence = sequence;
        self.last_timestamp = Some(timestamp);
        Ok(())
    }

    fn skip_to(&mut self, last: u64, timestamp: Timestamp) -> Result<(), Error> {
        self.check()?;
        if last > self.last_sequence {
            self.last_sequence = last;
            self.last_timestamp = Some(timestamp);
        }
        Ok(())
    }

    fn load(&self, sequence: u64) -> Result<Option<Message>, Error> {
        Ok(self.messages.get(&sequence).map(|stored| stored.message.clone()))
    }

    fn subject_of(&self, sequence: u64) -> Result<Option<Bytes>, Error> {
        Ok(self.messages.get(&sequence).map(|stored| stored.message.subject.clone()))
    }

    fn next(&self, filter: &Filter, from: u64) -> Result<Option<Message>, Error> {
        let mut candidates = self.messages.range(from..).map(|(_, stored)| &stored.message);
        Ok(candidates.find(|message| filter.matches(&message.subject)).cloned())
    }

    fn last(&self, filter: &Filter, up_to: u64) -> Result<Option<u64>, Error> {
        let mut candidates = self.messages.range(..=up_to).rev();
        Ok(candidates
            .find(|(_, stored)| filter.matches(&stored.message.subject))
            .map(|(sequence, _)| *sequence))
    }

    fn last_per_subject(&self, filter: &Filter, up_to: u64, max: usize) -> Result<Option<Vec<u64>>, Error> {
        let mut found = Vec::new();
        for (_, sequences) in self.subjects.iter().filter(|(subject, _)| filter.matches(subject)) {
            let Some(last) = sequences.range(..=up_to).next_back() else { continue };
            if found.len() == max {
                return Ok(None);
            }
            found.push(*last);
        }
        found.sort_unstable();
        Ok(Some(found))
    }

    fn count(&self, filter: &Filter, range: RangeInclusive<u64>) -> Result<u64, Error> {
        if range.is_empty() {
            return Ok(0);
        }
        let candidates = self.messages.range(range);
        Ok(candidates.filter(|(_, stored)| filter.matches(&stored.message.subject)).count() as u64)
    }

    fn sequence_at(&self, time: Timestamp) -> Result<u64, Error> {
        let found = self.messages.iter().find(|(_, stored)| stored.message.timestamp >= time);
        Ok(found.map_or_else(|| self.last_sequence.saturating_add(1), |(sequence, _)| *sequence))
    }

    fn subject_state(&self, literal: &[u8]) -> Option<SubjectState> {
        self.subjects.get(literal).and_then(subject_state)
    }

    fn for_each_subject(&self, filter: &Filter, visit: &mut dyn FnMut(&[u8], SubjectState) -> bool) {
        for (subject, sequences) in self.subjects.iter().filter(|(subject, _)| filter.matches(subject)) {
            let Some(state) = subject_state(sequences) else { continue };
            if !visit(subject, state) {
                return;
            }
        }
    }

    fn deleted(&self, from: u64, max: usize) -> Vec<RangeInclusive<u64>> {
        let mut ranges = Vec::new();
        let Some((first, _)) = self.messages.first_key_value() else { return ranges };
        let mut expected = from.max(*first);
        let held = self.messages.range(expected..).map(|(sequence, _)| *sequence);
        for sequence in held.chain([self.last_sequence.saturating_add(1)]) {
            if ranges.len() == max {
                break;
            }
            if expected < sequence {
                ranges.push(expected..=sequence - 1);
            }
            expected = sequence.saturating_add(1);
        }
        ranges
    }

    fn remove(&mut self, sequence: u64, _erase: bool) -> Result<Option<Removed>, Error> {
        self.check()?;
        Ok(self.take(sequence))
    }

    fn purge(&mut self, filter: &Filter, up_to: u64, removed: &mut dyn FnMut(Removed)) -> Result<(), Error> {
        self.check()?;
        let due: Vec<u64> = self
            .messages
            .range(..=up_to)
            .filter(|(_, stored)| filter.matches(&stored.message.subject))
            .map(|(sequence, _)| *sequence)
            .collect();
        for sequence in due {
            if let Some(message) = self.take(sequence) {
                removed(message);
            }
        }
        if *filter == Filter::All {
            self.last_sequence = self.last_sequence.max(up_to);
        }
        Ok(())
    }

    fn expired(&self, now: Timestamp, max_age_before: Option<Timestamp>, max: usize) -> Vec<u64> {
        let due = |stored: &Stored| {
            let age = max_age_before.is_some_and(|before| stored.message.timestamp <= before);
            match stored.expiry {
                Expiry::MaxAge => age,
                Expiry::At(time) => age || time <= now,
                Expiry::Never => false,
            }
        };
        self.messages
            .iter()
            .filter(|(_, stored)| due(stored))
            .map(|(sequence, _)| *sequence)
            .take(max)
            .collect()
    }

    fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(time, _)| *time)
    }

    fn begin_checkpoint(
        &mut self,
        applied: u64,
        _changes: Vec<(Box<str>, Option<Bytes>)>,
    ) -> Result<CheckpointJob, Error> {
        self.check()?;
        Ok(Box::new(move || Ok(CheckpointDone { applied })))
    }

    fn finish_checkpoint(&mut self, done: Result<CheckpointDone, Error>) -> Result<(), Error> {
        if let Err(error) = done {
            self.failed = Some(error.to_string());
            return Err(error);
        }
        Ok(())
    }

    fn take_damage(&mut self) -> Vec<Damage> {
        Vec::new()
    }
}
