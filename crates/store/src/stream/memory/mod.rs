//! A stream's messages in memory.
//!
//! Messages are found by sequence in pages of 256, and by subject through the index of subjects. What a message costs beside its bytes is about 60 bytes
//! of its page, and eight more if its subject has more than two. Readers get slices of what is stored, without a copy; such a
//! slice keeps up to 64 KiB alive while it is held.

mod by_subject;
mod page;
mod pages;
mod query;
mod sequences;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use bytes::Bytes;
use hashbrown::HashMap;

use self::by_subject::BySubject;
use self::page::{Lifetime, Slot};
use self::pages::Pages;
use super::{
    Append, CheckpointDone, CheckpointJob, Damage, Error, Expiry, Filter, Message, Removed, State,
    StreamStore, SubjectState,
};
use crate::Timestamp;

/// What a message costs beside its subject, headers and payload, as users see it.
const MESSAGE_OVERHEAD: u64 = 16;

/// Messages of one stream that live as long as the process. Its checkpoints hold nothing: they always succeed, and there is nothing to open.
#[derive(Debug, Default)]
pub struct MemoryStore {
    pages: Pages,
    subjects: BySubject,
    /// Messages with a TTL of their own, by its end.
    expiries: BTreeSet<(Timestamp, u64)>,
    /// And by sequence.
    ttls: HashMap<u64, Timestamp>,
    bytes: u64,
    last_sequence: u64,
    last_timestamp: Option<Timestamp>,
    failed: Option<String>,
}

fn size(data: &Bytes) -> u64 {
    MESSAGE_OVERHEAD + data.len() as u64
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

    fn first_sequence(&self) -> u64 {
        let first = self.pages.scan(0..=self.last_sequence).next();
        first.map_or_else(|| self.last_sequence.saturating_add(1), |(sequence, _)| sequence)
    }

    fn take(&mut self, sequence: u64) -> Option<Removed> {
        let slot = self.pages.take(sequence)?;
        self.subjects.remove(slot.subject, slot.subject_bytes(), sequence);
        if slot.lifetime == Lifetime::OwnAndMaxAge
            && let Some(time) = self.ttls.remove(&sequence)
        {
            self.expiries.remove(&(time, sequence));
        }
        let bytes = size(&slot.data);
        self.bytes -= bytes;
        Some(Removed { sequence, subject: slot.subject(), bytes })
    }

    /// Forgets everything at once.
    fn clear(&mut self, removed: &mut dyn FnMut(Removed)) {
        let pages = std::mem::take(&mut self.pages);
        self.subjects = BySubject::default();
        self.expiries.clear();
        self.ttls = HashMap::new();
        self.bytes = 0;
        for (sequence, slot) in pages.scan(0..=u64::MAX) {
            removed(Removed { sequence, subject: slot.subject(), bytes: size(&slot.data) });
        }
    }
}

impl StreamStore for MemoryStore {
    fn state(&self) -> State {
        let first = self.pages.scan(0..=self.last_sequence).next();
        let first_sequence =
            first.map_or_else(|| self.last_sequence.saturating_add(1), |(sequence, _)| sequence);
        let messages = self.pages.messages();
        State {
            messages,
            bytes: self.bytes,
            first_sequence,
            first_timestamp: first.map(|(_, slot)| slot.timestamp),
            last_sequence: self.last_sequence,
            last_timestamp: self.last_timestamp,
            subjects: self.subjects.index().len() as u64,
            deleted: if messages == 0 { 0 } else { self.last_sequence - first_sequence + 1 - messages },
        }
    }

    fn expect(&self, subjects: &mut dyn Iterator<Item = &[u8]>) {
        self.subjects.index().expect(subjects);
    }

    fn append(&mut self, message: Append<'_>) -> Result<(), Error> {
        self.check()?;
        let Append { sequence, timestamp, subject, headers, payload, expiry } = message;
        assert!(sequence > self.last_sequence, "append of {sequence} after {}", self.last_sequence);
        let data = self.pages.copy(sequence, [subject, headers, payload]);
        self.bytes += size(&data);
        let lifetime = match expiry {
            Expiry::MaxAge => Lifetime::MaxAge,
            Expiry::Never => Lifetime::Unlimited,
            Expiry::At(time) => {
                self.expiries.insert((time, sequence));
                self.ttls.insert(sequence, time);
                Lifetime::OwnAndMaxAge
            }
        };
        let slot = Slot {
            data,
            timestamp,
            subject: self.subjects.append(subject, sequence),
            subject_len: subject.len() as u32,
            headers_len: headers.len() as u32,
            lifetime,
        };
        self.pages.push(sequence, slot);
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
        Ok(self.pages.get(sequence).map(|slot| slot.message(sequence)))
    }

    fn subject_of(&self, sequence: u64) -> Result<Option<Bytes>, Error> {
        Ok(self.pages.get(sequence).map(Slot::subject))
    }

    fn next(&self, filter: &Filter, from: u64) -> Result<Option<Message>, Error> {
        let Some(sequence) = self.next_sequence(filter, from) else { return Ok(None) };
        self.load(sequence)
    }

    fn last(&self, filter: &Filter, up_to: u64) -> Result<Option<u64>, Error> {
        Ok(self.last_sequence_of(filter, up_to))
    }

    fn last_per_subject(&self, filter: &Filter, up_to: u64, max: usize) -> Result<Option<Vec<u64>>, Error> {
        Ok(self.last_of_each(filter, up_to, max))
    }

    fn count(&self, filter: &Filter, range: RangeInclusive<u64>) -> Result<u64, Error> {
        Ok(if range.is_empty() { 0 } else { self.count_in(filter, &range) })
    }

    fn sequence_at(&self, time: Timestamp) -> Result<u64, Error> {
        Ok(self.pages.at_time(time).unwrap_or_else(|| self.last_sequence.saturating_add(1)))
    }

    fn subject_state(&self, literal: &[u8]) -> Option<SubjectState> {
        self.subjects.index().get(literal)
    }

    fn for_each_subject(&self, filter: &Filter, visit: &mut dyn FnMut(&[u8], SubjectState) -> bool) {
        self.subjects.index().for_each(filter, &mut |_, literal, state| visit(literal, state));
    }

    fn deleted(&self, from: u64, max: usize) -> Vec<RangeInclusive<u64>> {
        let mut ranges = Vec::new();
        if self.pages.messages() == 0 {
            return ranges;
        }
        let mut gap = self.pages.next_gap(from.max(self.first_sequence()));
        while ranges.len() < max && gap <= self.last_sequence {
            let Some((held, _)) = self.pages.scan(gap..=self.last_sequence).next() else {
                ranges.push(gap..=self.last_sequence);
                break;
            };
            ranges.push(gap..=held - 1);
            gap = self.pages.next_gap(held);
        }
        ranges
    }

    fn remove(&mut self, sequence: u64, _erase: bool) -> Result<Option<Removed>, Error> {
        self.check()?;
        Ok(self.take(sequence))
    }

    fn purge(&mut self, filter: &Filter, up_to: u64, removed: &mut dyn FnMut(Removed)) -> Result<(), Error> {
        self.check()?;
        if *filter == Filter::All && up_to >= self.last_sequence {
            self.clear(removed);
            self.last_sequence = up_to;
            return Ok(());
        }
        for sequence in self.all_up_to(filter, up_to) {
            if let Some(message) = self.take(sequence) {
                removed(message);
            }
        }
        Ok(())
    }

    fn expired(&self, now: Timestamp, max_age_before: Option<Timestamp>, max: usize) -> Vec<u64> {
        let own = self.expiries.iter().take_while(|(time, _)| *time <= now);
        let mut due: Vec<u64> = own.map(|(_, sequence)| *sequence).take(max).collect();
        if let Some(before) = max_age_before {
            let mut left = max;
            self.pages.for_each_aged(before, &mut |sequence| {
                if left > 0 {
                    due.push(sequence);
                    left -= 1;
                }
                left > 0
            });
        }
        due.sort_unstable();
        due.dedup();
        due.truncate(max);
        due
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

    fn newest_checkpoint(&self) -> u64 {
        0
    }

    fn wants_checkpoint(&self) -> bool {
        false
    }

    fn take_damage(&mut self) -> Vec<Damage> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
