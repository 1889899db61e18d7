//! Which slots of a block a question is about, and walks over those.

use std::ops::Range;
use std::sync::Arc;

use super::block::Block;
use super::blocks::Blocks;
use super::index::Index;
use crate::stream::{Error, Filter};

/// What a question asks for: a filter of the caller, or subjects that were found to be all it can be about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Query<'a> {
    Filter(&'a Filter),
    Subjects(&'a [Box<[u8]>]),
}

impl Query<'_> {
    /// Does it let a subject of a block through? An unreadable subject passes only if all do.
    pub(super) fn matches(&self, subject: Option<&[u8]>) -> bool {
        match (self, subject) {
            (Query::Filter(Filter::All), _) => true,
            (_, None) => false,
            (Query::Filter(filter), Some(subject)) => filter.matches(subject),
            (Query::Subjects(subjects), Some(subject)) => subjects.iter().any(|other| **other == *subject),
        }
    }
}

/// Subjects of one block that a query lets through, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selection {
    All,
    Nothing,
    One(u32),
    /// Whether each is.
    Some(Vec<bool>),
}

impl Selection {
    pub(super) fn of(index: &Index, query: Query<'_>) -> Self {
        let mut chosen = Vec::new();
        match query {
            Query::Filter(Filter::All) => return Self::All,
            Query::Filter(Filter::Any(patterns)) => {
                for pattern in patterns {
                    choose(index, pattern, &mut chosen);
                }
            }
            Query::Subjects(subjects) => {
                chosen.extend(subjects.iter().filter_map(|subject| index.names.find(subject)));
            }
        }
        match chosen[..] {
            [] => Self::Nothing,
            [one] => Self::One(one),
            _ => {
                let mut marks = vec![false; index.names.len() as usize];
                chosen.iter().for_each(|id| marks[*id as usize] = true);
                Self::Some(marks)
            }
        }
    }

    #[inline]
    pub(super) fn has(&self, id: u32) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::One(one) => *one == id,
            Self::Some(marks) => marks.get(id as usize).copied().unwrap_or(false),
        }
    }

    /// The first live slot in a range that it has.
    pub(super) fn first(&self, block: &Block, index: &Index, range: Range<u32>) -> Option<u32> {
        let mut slot = range.start;
        while slot < range.end {
            slot = self.next(index, slot, range.end)?;
            if !block.dead.contains(slot) {
                return Some(slot);
            }
            slot = block.dead.next_clear(slot);
        }
        None
    }

    fn next(&self, index: &Index, slot: u32, end: u32) -> Option<u32> {
        let ids = &index.subject_ids()[..end as usize];
        match self {
            Self::All => Some(slot),
            Self::Nothing => None,
            Self::One(one) => {
                let span = index.names.span(*one);
                let start = slot.max(span.first) as usize;
                let place = ids.get(start..)?.iter().position(|id| id == one)?;
                Some((start + place) as u32)
            }
            Self::Some(_) => {
                let place = ids[slot as usize..].iter().position(|id| self.has(*id))?;
                Some(slot + place as u32)
            }
        }
    }

    /// The last live slot in a range that it has.
    pub(super) fn last(&self, block: &Block, index: &Index, range: Range<u32>) -> Option<u32> {
        let ids = index.subject_ids();
        let mut end = range.end;
        if let Self::One(one) = self {
            end = end.min(index.names.span(*one).last + 1);
        }
        while end > range.start {
            let place = ids[range.start as usize..end as usize].iter().rposition(|id| self.has(*id))?;
            let slot = range.start + place as u32;
            if !block.dead.contains(slot) {
                return Some(slot);
            }
            end = slot;
        }
        None
    }

    /// Live slots in a range that it has.
    pub(super) fn count(&self, block: &Block, index: &Index, range: Range<u32>) -> u64 {
        match self {
            Self::All => u64::from(block.count(range)),
            Self::Nothing => 0,
            Self::One(_) | Self::Some(_) if block.dead.is_clear() && range == (0..index.slots()) => {
                let chosen = (0..index.names.len()).filter(|id| self.has(*id));
                match self {
                    Self::One(one) => u64::from(index.names.span(*one).count),
                    _ => chosen.map(|id| u64::from(index.names.span(id).count)).sum(),
                }
            }
            _ => {
                let ids = index.subject_ids()[range.start as usize..range.end as usize].iter();
                let had = ids.zip(range).filter(|(id, slot)| self.has(**id) && !block.dead.contains(*slot));
                had.count() as u64
            }
        }
    }
}

fn choose(index: &Index, pattern: &[u8], chosen: &mut Vec<u32>) {
    if !subject::has_wildcard(pattern) {
        chosen.extend(index.names.find(pattern).filter(|_| subject::matches(pattern, pattern)));
        return;
    }
    let candidates = index.names.starting_with(fixed_start(pattern));
    chosen.extend(candidates.filter(|id| subject::matches(index.names.get(*id), pattern)));
}

/// What every subject that a pattern matches starts with: its tokens before the first wildcard.
fn fixed_start(pattern: &[u8]) -> &[u8] {
    let mut length = 0;
    for token in subject::tokens(pattern) {
        if token == b"*" || token == b">" {
            break;
        }
        length += token.len() + 1;
    }
    // A literal ends without the separator.
    &pattern[..length.min(pattern.len())]
}

/// Filters whose choice of a block's subjects is remembered.
const REMEMBERED: usize = 8;

/// Choices that were made lately: making one looks at every subject of a block.
#[derive(Debug, Default)]
pub(super) struct Selections {
    made: Vec<Made>,
    turn: usize,
}

#[derive(Debug)]
struct Made {
    block: u64,
    /// How many subjects there were: a growing block gets more.
    names: u32,
    /// The same subjects get other numbers when an index is read back from its file.
    sorted: bool,
    filter: Filter,
    selection: Arc<Selection>,
}

impl Selections {
    pub(super) fn of(&mut self, block: u64, index: &Index, query: Query<'_>) -> Arc<Selection> {
        let Query::Filter(filter) = query else { return Arc::new(Selection::of(index, query)) };
        let (names, sorted) = (index.names.len(), index.names.is_sorted());
        let same = |made: &&Made| {
            made.block == block && made.names == names && made.sorted == sorted && made.filter == *filter
        };
        if let Some(made) = self.made.iter().find(same) {
            return made.selection.clone();
        }
        let selection = Arc::new(Selection::of(index, query));
        let made = Made { block, names, sorted, filter: filter.clone(), selection: selection.clone() };
        if self.made.len() < REMEMBERED {
            self.made.push(made);
        } else {
            self.turn = (self.turn + 1) % REMEMBERED;
            self.made[self.turn] = made;
        }
        selection
    }
}

/// How a short walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    Found(u64),
    /// Nothing up to here, and the steps are used up.
    Spent(u64),
    End,
}

impl Blocks {
    pub(super) fn selection(&self, at: usize, index: &Index, query: Query<'_>) -> Arc<Selection> {
        self.selections.borrow_mut().of(self.list[at].facts.number, index, query)
    }

    /// Looks at some messages from a sequence on, one by one.
    pub(super) fn walk_up(&self, query: Query<'_>, from: u64, steps: usize) -> Result<Walk, Error> {
        let mut left = steps;
        for at in self.position_from(from)..self.list.len() {
            let block = &self.list[at];
            if block.live == 0 {
                continue;
            }
            let index = self.index(at)?;
            let mut slot = index.slot_from(from);
            while let Some(live) = block.live_from(slot) {
                if query.matches(index.subject(live)) {
                    return Ok(Walk::Found(index.sequence(live)));
                }
                left -= 1;
                if left == 0 {
                    return Ok(Walk::Spent(index.sequence(live)));
                }
                slot = live + 1;
            }
        }
        Ok(Walk::End)
    }

    /// Looks at some messages from a sequence down, one by one.
    pub(super) fn walk_down(&self, query: Query<'_>, from: u64, steps: usize) -> Result<Walk, Error> {
        let mut left = steps;
        let Some(start) = self.position(from) else { return Ok(Walk::End) };
        for at in (0..=start).rev().filter(|at| self.list[*at].live > 0) {
            let (block, index) = (&self.list[at], self.index(at)?);
            let mut end = index.slots_to(from);
            while let Some(live) = end.checked_sub(1).and_then(|slot| block.live_to(slot)) {
                if query.matches(index.subject(live)) {
                    return Ok(Walk::Found(index.sequence(live)));
                }
                left -= 1;
                if left == 0 {
                    return Ok(Walk::Spent(index.sequence(live)));
                }
                end = live;
            }
        }
        Ok(Walk::End)
    }

    /// The first message in a range of sequences that a query lets through.
    pub(super) fn seek_up(&self, query: Query<'_>, from: u64, to: u64) -> Result<Option<u64>, Error> {
        for at in self.position_from(from)..self.list.len() {
            let block = &self.list[at];
            if block.facts.base > to {
                break;
            }
            if block.live == 0 {
                continue;
            }
            let index = self.index(at)?;
            let range = index.slot_from(from)..index.slots_to(to);
            if let Some(slot) = self.selection(at, &index, query).first(block, &index, range) {
                return Ok(Some(index.sequence(slot)));
            }
        }
        Ok(None)
    }

    /// The last message in a range of sequences that a query lets through.
    pub(super) fn seek_down(&self, query: Query<'_>, from: u64, down_to: u64) -> Result<Option<u64>, Error> {
        let Some(start) = self.position(from) else { return Ok(None) };
        for at in (0..=start).rev() {
            let block = &self.list[at];
            if block.facts.last < down_to {
                break;
            }
            if block.live == 0 {
                continue;
            }
            let index = self.index(at)?;
            let range = index.slot_from(down_to)..index.slots_to(from);
            if let Some(slot) = self.selection(at, &index, query).last(block, &index, range) {
                return Ok(Some(index.sequence(slot)));
            }
        }
        Ok(None)
    }

    /// Messages in a range of sequences that a query lets through.
    pub(super) fn count(&self, query: Query<'_>, from: u64, to: u64) -> Result<u64, Error> {
        let mut count = 0;
        for at in self.position_from(from)..self.list.len() {
            let block = &self.list[at];
            if block.facts.base > to {
                break;
            }
            let all = matches!(query, Query::Filter(Filter::All));
            if block.live == 0 || all && from <= block.facts.base && block.facts.last <= to {
                count += u64::from(block.live);
                continue;
            }
            let index = self.index(at)?;
            let range = index.slot_from(from)..index.slots_to(to);
            count += self.selection(at, &index, query).count(block, &index, range);
        }
        Ok(count)
    }

    /// Blocks that a range of sequences touches.
    pub(super) fn touched(&self, from: u64, to: u64) -> usize {
        let end = self.position(to).map_or(0, |at| at + 1);
        end.saturating_sub(self.position_from(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_start_is_what_precedes_wildcards() {
        for (pattern, start) in
            [("a.b.*", "a.b."), ("*.b", ""), ("a.>", "a."), (">", ""), ("a*.b.*", "a*.b."), ("a.b", "a.b")]
        {
            assert_eq!(fixed_start(pattern.as_bytes()), start.as_bytes(), "{pattern}");
        }
    }
}
