//! Answers by filter: by the lists of subjects where few of them match, by looking at one message after the other where many do.
//! Which it is shows only on the way, so both are tried in turns of growing length; the dearer way never costs much more than the cheaper.

use std::ops::{ControlFlow, RangeInclusive};

use super::MemoryStore;
use super::page::Slot;
use crate::stream::{Filter, SubjectId};

/// Messages and subjects that are looked at in the first turn.
const FIRST_TURN: usize = 64;
/// By so much the turns grow.
const TURN_GROWTH: usize = 4;

/// What a filter is about.
enum About<'a> {
    /// Every message.
    All,
    /// At most one subject.
    One(Option<SubjectId>),
    /// These subjects, each once.
    Some(Vec<SubjectId>),
    /// What matches.
    Matching(&'a Filter),
}

impl MemoryStore {
    fn about<'a>(&self, filter: &'a Filter) -> About<'a> {
        let Filter::Any(patterns) = filter else { return About::All };
        if patterns.iter().any(|pattern| subject::has_wildcard(pattern)) {
            let all = self.subjects.index().lets_all_through(filter);
            return if all { About::All } else { About::Matching(filter) };
        }
        if let [one] = patterns.as_slice() {
            return About::One(self.subjects.index().id(one));
        }
        let mut ids: Vec<_> =
            patterns.iter().filter_map(|literal| self.subjects.index().id(literal)).collect();
        ids.sort_unstable();
        ids.dedup();
        About::Some(ids)
    }

    /// Sequence of the first message at or after `from` that the filter lets through.
    pub(super) fn next_sequence(&self, filter: &Filter, from: u64) -> Option<u64> {
        let next = |id: SubjectId| self.subjects.next(id, from);
        match self.about(filter) {
            About::All => self.pages.scan(from..=self.last_sequence).next().map(|(sequence, _)| sequence),
            About::One(id) => id.and_then(next),
            About::Some(ids) => ids.into_iter().filter_map(next).min(),
            About::Matching(filter) => {
                self.nearest(filter, self.pages.scan(from..=self.last_sequence), &next, |new, old| new < old)
            }
        }
    }

    /// Sequence of the last message at or before `up_to` that the filter lets through.
    pub(super) fn last_sequence_of(&self, filter: &Filter, up_to: u64) -> Option<u64> {
        let last = |id: SubjectId| self.subjects.previous(id, up_to);
        match self.about(filter) {
            About::All => self.pages.scan_back(up_to, 0).next().map(|(sequence, _)| sequence),
            About::One(id) => id.and_then(last),
            About::Some(ids) => ids.into_iter().filter_map(last).max(),
            About::Matching(filter) => {
                self.nearest(filter, self.pages.scan_back(up_to, 0), &last, |new, old| new > old)
            }
        }
    }

    /// The first message of a scan that matches, or the nearest of what `of_subject` tells of the subjects that match, which is the same.
    fn nearest<'a>(
        &self,
        filter: &Filter,
        mut scan: impl Iterator<Item = (u64, &'a Slot)>,
        of_subject: &dyn Fn(SubjectId) -> Option<u64>,
        nearer: impl Fn(u64, u64) -> bool,
    ) -> Option<u64> {
        let mut turn = FIRST_TURN;
        loop {
            let looked = scan.by_ref().take(turn).try_fold(0, |looked, (sequence, slot)| {
                if filter.matches(slot.subject_bytes()) {
                    return ControlFlow::Break(sequence);
                }
                ControlFlow::Continue(looked + 1)
            });
            match looked {
                ControlFlow::Break(sequence) => return Some(sequence),
                ControlFlow::Continue(looked) if looked < turn => return None,
                ControlFlow::Continue(_) => {}
            }
            let mut best = None;
            let complete = self.subjects.index().for_each_id_within(filter, turn, &mut |id, _| {
                if let Some(found) = of_subject(id)
                    && best.is_none_or(|best| nearer(found, best))
                {
                    best = Some(found);
                }
                true
            });
            if complete {
                return best;
            }
            turn = turn.saturating_mul(TURN_GROWTH);
        }
    }

    /// How many messages of a range, which is not empty, the filter lets through.
    pub(super) fn count_in(&self, filter: &Filter, range: &RangeInclusive<u64>) -> u64 {
        let count = |id: SubjectId| self.subjects.count(id, range);
        match self.about(filter) {
            About::All => self.count_all(range),
            About::One(id) => id.map_or(0, count),
            About::Some(ids) => ids.into_iter().map(count).sum(),
            About::Matching(filter) => {
                let messages = self.count_all(range);
                let mut sum = 0;
                let complete =
                    self.subjects.index().for_each_id_within(filter, messages as usize / 2, &mut |id, _| {
                        sum += count(id);
                        true
                    });
                if complete {
                    return sum;
                }
                let scan = self.pages.scan(range.clone());
                scan.filter(|(_, slot)| filter.matches(slot.subject_bytes())).count() as u64
            }
        }
    }

    /// The same without a filter. What is outside of a long range is counted instead.
    fn count_all(&self, range: &RangeInclusive<u64>) -> u64 {
        let (start, end) = (*range.start(), *range.end());
        if end < self.last_sequence {
            return self.pages.count(start..=end);
        }
        let first = self.first_sequence();
        if start <= first {
            self.pages.messages()
        } else if start - first < self.last_sequence.saturating_sub(start) {
            self.pages.messages() - self.pages.count(first..=start - 1)
        } else {
            self.pages.count(start..=self.last_sequence)
        }
    }

    /// The newest message at or before `up_to` of each subject that the filter lets through, ascending, unless there are more than `max`.
    pub(super) fn last_of_each(&self, filter: &Filter, up_to: u64, max: usize) -> Option<Vec<u64>> {
        let mut found = Vec::new();
        let mut take = |id: SubjectId| {
            found.extend(self.subjects.previous(id, up_to));
            found.len() <= max
        };
        match self.about(filter) {
            About::All => self.subjects.index().for_each_unordered(&mut |id, _| take(id)),
            About::One(id) => _ = id.map(take),
            About::Some(ids) => _ = ids.into_iter().all(take),
            About::Matching(filter) => self.subjects.index().for_each_id(filter, &mut |id, _| take(id)),
        }
        if found.len() > max {
            return None;
        }
        found.sort_unstable();
        Some(found)
    }

    /// The messages at or before `up_to` that the filter lets through, in no order.
    pub(super) fn all_up_to(&self, filter: &Filter, up_to: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let mut take = |id: SubjectId| self.subjects.append_up_to(id, up_to, &mut found);
        match self.about(filter) {
            About::All => {
                let scan = self.pages.scan(0..=up_to);
                return scan.map(|(sequence, _)| sequence).collect();
            }
            About::One(id) => _ = id.map(take),
            About::Some(ids) => ids.into_iter().for_each(take),
            About::Matching(filter) => {
                self.subjects.index().for_each_id(filter, &mut |id, _| {
                    take(id);
                    true
                });
            }
        }
        found
    }
}
