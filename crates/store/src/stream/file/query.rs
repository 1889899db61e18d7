//! Questions about subjects. What the subject index knows narrows them before any block is looked at.

use std::ops::RangeInclusive;

use hashbrown::HashSet;

use super::FileStore;
use super::counters::{bound, is_stale};
use super::select::{Query, Walk};
use crate::Timestamp;
use crate::stream::{Error, Filter, Message, StreamStore, SubjectState};

/// Messages looked at one by one before a search is planned: where a filter lets much through, one of them will do.
const WALK_STEPS: usize = 128;
/// Subjects that a filter may let through for a search to be narrowed to them.
const NARROW_SUBJECTS: usize = 64;

type Subjects = Vec<Box<[u8]>>;

/// The only pattern of a filter, if it is a literal.
fn literal(filter: &Filter) -> Option<&[u8]> {
    match filter {
        Filter::Any(patterns) => match &patterns[..] {
            [one] if !subject::has_wildcard(one) => Some(one),
            _ => None,
        },
        Filter::All => None,
    }
}

impl FileStore {
    pub(super) fn next_message(&self, filter: &Filter, from: u64) -> Result<Option<Message>, Error> {
        let mut from = from;
        if *filter == Filter::All {
            return self.next_of_all(from);
        }
        while let Some(sequence) = self.next_sequence(filter, from)? {
            if let Some(message) = self.load(sequence)? {
                return Ok(Some(message));
            }
            // Damaged, and noted.
            let Some(behind) = sequence.checked_add(1) else { break };
            from = behind;
        }
        Ok(None)
    }

    fn next_of_all(&self, from: u64) -> Result<Option<Message>, Error> {
        let blocks = &self.blocks;
        for at in blocks.position_from(from)..blocks.list.len() {
            let block = &blocks.list[at];
            if block.live == 0 {
                continue;
            }
            let index = blocks.index(at)?;
            let mut slot = index.slot_from(from);
            while let Some(live) = block.live_from(slot) {
                if let Some(message) = blocks.message(at, &index, live)? {
                    return Ok(Some(message));
                }
                slot = live + 1;
            }
        }
        Ok(None)
    }

    fn next_sequence(&self, filter: &Filter, from: u64) -> Result<Option<u64>, Error> {
        let mut to = u64::MAX;
        if let Some(literal) = literal(filter) {
            let Some(state) = self.subjects.get(literal) else { return Ok(None) };
            if !is_stale(state.first) && from <= state.first {
                return Ok(Some(state.first));
            }
            to = bound(state.last);
            if from > to {
                return Ok(None);
            }
        }
        let query = Query::Filter(filter);
        let from = match self.blocks.walk_up(query, from, WALK_STEPS)? {
            Walk::Found(sequence) => return Ok(Some(sequence)),
            Walk::End => return Ok(None),
            Walk::Spent(sequence) => sequence + 1,
        };
        let Some(Narrow { first, subjects, last }) = self.narrow(filter, from) else {
            return self.blocks.seek_up(query, from, to);
        };
        if subjects.is_empty() {
            return Ok(first);
        }
        let to = first.map_or(last, |first| first.min(last));
        Ok(self.blocks.seek_up(Query::Subjects(&subjects), from, to)?.or(first))
    }

    /// What the subject index says about messages at or after a sequence; `None` if the filter lets too many subjects through.
    fn narrow(&self, filter: &Filter, from: u64) -> Option<Narrow> {
        let mut narrow = Narrow { first: None, subjects: Subjects::new(), last: 0 };
        let mut looked_at = 0;
        self.subjects.for_each(filter, &mut |_, name, state| {
            looked_at += 1;
            if bound(state.last) < from {
                return looked_at <= NARROW_SUBJECTS;
            }
            if !is_stale(state.first) && state.first >= from {
                narrow.first = Some(narrow.first.map_or(state.first, |first| first.min(state.first)));
            } else {
                narrow.subjects.push(name.into());
                narrow.last = narrow.last.max(bound(state.last));
            }
            looked_at <= NARROW_SUBJECTS
        });
        (looked_at <= NARROW_SUBJECTS).then_some(narrow)
    }

    pub(super) fn last_sequence_of(&self, filter: &Filter, up_to: u64) -> Result<Option<u64>, Error> {
        let query = Query::Filter(filter);
        let mut down_to = 0;
        if let Some(literal) = literal(filter) {
            let Some(state) = self.subjects.get(literal) else { return Ok(None) };
            if !is_stale(state.last) && state.last <= up_to {
                return Ok(Some(state.last));
            }
            down_to = bound(state.first);
            if up_to < down_to {
                return Ok(None);
            }
        }
        match self.blocks.walk_down(query, up_to, WALK_STEPS)? {
            Walk::Found(sequence) => Ok(Some(sequence)),
            Walk::End => Ok(None),
            Walk::Spent(sequence) => self.blocks.seek_down(query, sequence.saturating_sub(1), down_to),
        }
    }

    pub(super) fn count_in(&self, filter: &Filter, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let (from, to) = (*range.start(), *range.end());
        if from > to {
            return Ok(0);
        }
        if *filter == Filter::All {
            return self.count_side(Query::Filter(filter), from, to, self.messages);
        }
        let (mut inside, mut across) = (0, 0);
        let (mut subjects, mut too_many) = (Subjects::new(), false);
        self.subjects.for_each(filter, &mut |_, name, state| {
            let (first, last) = (bound(state.first), bound(state.last));
            if from <= first && last <= to {
                inside += state.messages;
            } else if first <= to && from <= last {
                across += state.messages;
                too_many |= subjects.len() == NARROW_SUBJECTS;
                if !too_many {
                    subjects.push(name.into());
                }
            }
            true
        });
        if across == 0 {
            return Ok(inside);
        }
        if !too_many {
            return Ok(inside + self.count_side(Query::Subjects(&subjects), from, to, across)?);
        }
        // Those outside are in no range that is counted: their messages lie beyond it, so the shorter way cannot be taken with them.
        self.blocks.count(Query::Filter(filter), from, to)
    }

    /// Counts in a range, or outside of it if that is less work and the total is known.
    fn count_side(&self, query: Query<'_>, from: u64, to: u64, total: u64) -> Result<u64, Error> {
        let blocks = &self.blocks;
        if blocks.touched(from, to) <= blocks.list.len() / 2 {
            return blocks.count(query, from, to);
        }
        let below = if from == 0 { 0 } else { blocks.count(query, 0, from - 1)? };
        let above = if to == u64::MAX { 0 } else { blocks.count(query, to + 1, u64::MAX)? };
        Ok(total - below - above)
    }

    pub(super) fn last_of_each(
        &self,
        filter: &Filter,
        up_to: u64,
        max: usize,
    ) -> Result<Option<Vec<u64>>, Error> {
        let (mut found, mut open, mut certain) = (Vec::new(), HashSet::new(), 0usize);
        self.subjects.for_each(filter, &mut |_, name, state| {
            if bound(state.first) > up_to {
                return true;
            }
            if !is_stale(state.last) && state.last <= up_to {
                found.push(state.last);
            } else {
                certain += usize::from(!is_stale(state.first));
                open.insert(Box::<[u8]>::from(name));
            }
            found.len() + certain <= max
        });
        if found.len() + certain > max {
            return Ok(None);
        }
        self.newest_of(open, up_to, &mut found)?;
        if found.len() > max {
            return Ok(None);
        }
        found.sort_unstable();
        Ok(Some(found))
    }

    /// Adds the newest message at or before a sequence of each of these subjects that has one.
    fn newest_of(&self, mut open: HashSet<Box<[u8]>>, up_to: u64, found: &mut Vec<u64>) -> Result<(), Error> {
        let Some(start) = self.blocks.position(up_to) else { return Ok(()) };
        for at in (0..=start).rev() {
            if open.is_empty() {
                return Ok(());
            }
            let block = &self.blocks.list[at];
            if block.live == 0 {
                continue;
            }
            let index = self.blocks.index(at)?;
            let mut wanted: Vec<bool> =
                (0..index.names.len()).map(|id| open.contains(index.names.get(id))).collect();
            let mut end = index.slots_to(up_to);
            while let Some(slot) = end.checked_sub(1).and_then(|slot| block.live_to(slot)) {
                let id = index.subject_id(slot);
                if let Some(wanted) = wanted.get_mut(id as usize)
                    && std::mem::take(wanted)
                {
                    open.remove(index.names.get(id));
                    found.push(index.sequence(slot));
                }
                end = slot;
            }
        }
        Ok(())
    }

    pub(super) fn first_at(&self, time: Timestamp) -> Result<u64, Error> {
        for at in 0..self.blocks.list.len() {
            let block = &self.blocks.list[at];
            if block.live == 0 || block.facts.newest < time {
                continue;
            }
            let index = self.blocks.index(at)?;
            for (number, chunk) in index.chunks.iter().enumerate().filter(|(_, chunk)| chunk.newest >= time) {
                let slots = index.chunk_slots(number as u32);
                let mut slot = chunk.slot;
                while let Some(live) = block.live_from(slot).filter(|live| *live < slots.end) {
                    let record = self.blocks.record(at, &index, live)?;
                    if record.is_some_and(|(_, parts)| parts.timestamp >= time) {
                        return Ok(index.sequence(live));
                    }
                    slot = live + 1;
                }
            }
        }
        Ok(self.last_sequence.saturating_add(1))
    }

    /// Counters of a subject with their stale sides looked up.
    pub(super) fn fresh_state(&self, literal: &[u8], state: SubjectState) -> SubjectState {
        let SubjectState { mut first, mut last, messages } = state;
        let subjects = [Box::from(literal)];
        let query = Query::Subjects(&subjects);
        // A disk that cannot be read leaves the bound, the closest that is known.
        if is_stale(first) {
            let found = self.blocks.seek_up(query, bound(first), bound(last));
            first = found.ok().flatten().unwrap_or_else(|| bound(first));
        }
        if is_stale(last) {
            let found = self.blocks.seek_down(query, bound(last), first);
            last = found.ok().flatten().unwrap_or_else(|| bound(last));
        }
        SubjectState { first, last, messages }
    }
}

#[derive(Debug)]
struct Narrow {
    /// The first message that surely is one, at the start of its subject.
    first: Option<u64>,
    /// Subjects that may have an earlier one.
    subjects: Subjects,
    /// None of theirs is behind this.
    last: u64,
}
