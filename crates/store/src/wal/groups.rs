//! Where the entries of each group are, and what each segment is still needed for.
//!
//! Entries are found by runs: consecutive entries of one group and term in one segment, close together. A run says where its first entry is; the
//! others follow, with frames of other groups between them. So a group that is written to all the time costs one run per 64 KiB of log, and one that is
//! not costs one run per entry.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::segment::Segment;
use super::{Gap, GroupId, GroupState, HardState, Record};

/// Distance of offsets that a run may span: what has to be read at most to find an entry.
const RUN_BYTES: u64 = 64 << 10;

/// Consecutive entries. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) segment: u64,
    pub(super) first: u64,
    pub(super) term: u64,
    /// Of the first entry. Segments end below 4 GiB.
    pub(super) offset: u32,
    pub(super) count: u32,
}

impl Run {
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) hard_state: Option<HardState>,
    /// Segment with the latest hard state; zero for none.
    pub(super) hard_segment: u64,
    pub(super) released: u64,
    pub(super) released_term: u64,
    /// What the latest release mark names.
    pub(super) checkpoint: u64,
    /// Segment with the latest release mark; zero for none.
    pub(super) released_segment: u64,
    /// Newest segment whose list of groups has this one.
    touched: u64,
    pub(super) runs: VecDeque<Run>,
}

impl Group {
    /// The last index, of a released entry if there is no other.
    fn last(&self) -> u64 {
        self.runs.back().map_or(self.released, |run| run.end() - 1)
    }
}

/// Groups and segments.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Ascending; the last is the newest one.
    pub(super) segments: VecDeque<Segment>,
    groups: HashMap<GroupId, Group>,
    /// No run that begins before this offset of the newest segment is extended.
    barrier: u64,
}

impl Table {
    /// The newest segment, in which everything noted from now on stands.
    pub(super) fn push_segment(&mut self, segment: Segment) {
        self.segments.push_back(segment);
        self.barrier = 0;
    }

    /// The newest segment: an open log has one.
    pub(super) fn newest(&self) -> &Segment {
        let Some(segment) = self.segments.back() else { unreachable!("a log without a segment") };
        segment
    }

    /// Sequence of the oldest segment; that of the newest if it is the only one.
    pub(super) fn oldest(&self) -> u64 {
        self.segments.front().map_or(0, |segment| segment.sequence)
    }

    /// The same, to be changed.
    pub(super) fn newest_mut(&mut self) -> &mut Segment {
        let Some(segment) = self.segments.back_mut() else { unreachable!("a log without a segment") };
        segment
    }

    /// Frames before the offset in the newest segment cannot be read one after the other.
    pub(super) fn set_barrier(&mut self, offset: u64) {
        self.barrier = offset;
    }

    pub(super) fn segment(&self, sequence: u64) -> Option<&Segment> {
        let at = self.segments.binary_search_by_key(&sequence, |segment| segment.sequence).ok()?;
        self.segments.get(at)
    }

    pub(super) fn get(&self, group: GroupId) -> Option<&Group> {
        self.groups.get(&group)
    }

    pub(super) fn ids(&self) -> Vec<GroupId> {
        let mut ids: Vec<GroupId> = self.groups.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn state(&self, id: GroupId) -> Option<GroupState> {
        let group = self.groups.get(&id)?;
        let first = group.runs.front().map_or(group.released + 1, |run| run.first.max(group.released + 1));
        let end = group.runs.back().map_or(first, Run::end);
        Some(GroupState {
            hard_state: group.hard_state,
            released: group.released,
            released_term: group.released_term,
            checkpoint: group.checkpoint,
            entries: first..end,
            last_term: group.runs.back().map_or(group.released_term, |run| run.term),
        })
    }

    pub(super) fn term(&self, id: GroupId, index: u64) -> Option<u64> {
        let group = self.groups.get(&id)?;
        if index <= group.released {
            return (index == group.released && index > 0).then_some(group.released_term);
        }
        let at = group.runs.partition_point(|run| run.end() <= index);
        group.runs.get(at).filter(|run| run.first <= index).map(|run| run.term)
    }

    pub(super) fn holding_back(&self) -> Vec<GroupId> {
        let Some(oldest) = self.segments.front().filter(|_| self.segments.len() > 1) else {
            return Vec::new();
        };
        let needs = |id: &GroupId| {
            let first = self.groups.get(id).and_then(|group| group.runs.front());
            first.is_some_and(|run| run.segment == oldest.sequence)
        };
        let mut ids: Vec<GroupId> = oldest.groups.iter().copied().filter(needs).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Released and last index, if an entry with this index may not follow.
    pub(super) fn refusal(&self, id: GroupId, index: u64) -> Option<(u64, u64)> {
        let (released, last) = self.groups.get(&id).map_or((0, 0), |group| (group.released, group.last()));
        let follows = index > released && index <= last + 1;
        (!follows).then_some((released, last))
    }

    /// Entries that are missing before others, in the order of groups.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for id in self.ids() {
            let Some(group) = self.groups.get(&id) else { continue };
            let mut expected = group.released + 1;
            for run in &group.runs {
                if run.first > expected {
                    gaps.push(Gap { group: id, missing: expected..run.first });
                }
                expected = run.end();
            }
        }
        gaps
    }

    /// Notes a record that stands at the offset of the newest segment.
    pub(super) fn note(&mut self, record: &Record<'_>, offset: u64) {
        match *record {
            Record::Entry { group, index, term, .. } => self.note_entry(group, index, term, offset),
            Record::HardState { group: id, state } => {
                let newest = self.touch(id);
                let group = self.groups.entry(id).or_default();
                group.hard_state = Some(state);
                group.hard_segment = newest;
            }
            Record::Released { group: id, index, term, checkpoint } => {
                let newest = self.touch(id);
                let group = self.groups.entry(id).or_default();
                if index >= group.released {
                    group.released = index;
                    group.released_term = term;
                    group.checkpoint = checkpoint;
                    group.released_segment = newest;
                }
                self.release(id);
            }
            Record::Removed { group } => self.remove(group),
        }
    }

    fn note_entry(&mut self, id: GroupId, index: u64, term: u64, offset: u64) {
        let newest = self.touch(id);
        let group = self.groups.entry(id).or_default();
        if index <= group.released {
            return;
        }
        let is_void = index <= group.last();
        if !is_void && let Some(run) = group.runs.back_mut() {
            let start = u64::from(run.offset);
            let is_near = run.segment == newest && start >= self.barrier && offset - start < RUN_BYTES;
            if is_near && run.term == term && run.end() == index && run.count < u32::MAX {
                run.count += 1;
                return;
            }
        }
        if is_void {
            self.cut(id, index);
        }
        let run = Run { segment: newest, first: index, term, offset: offset as u32, count: 1 };
        self.groups.entry(id).or_default().runs.push_back(run);
        self.newest_mut().live += 1;
    }

    /// Puts the group on the list of the newest segment, whose sequence it returns.
    fn touch(&mut self, id: GroupId) -> u64 {
        let group = self.groups.entry(id).or_default();
        let Some(newest) = self.segments.back_mut() else { unreachable!("a log without a segment") };
        if group.touched != newest.sequence {
            group.touched = newest.sequence;
            newest.groups.push(id);
        }
        newest.sequence
    }

    /// Forgets entries from the index on.
    fn cut(&mut self, id: GroupId, index: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        while let Some(run) = group.runs.back_mut() {
            if run.first < index {
                run.count = run.count.min((index - run.first) as u32);
                break;
            }
            forget(&mut self.segments, run.segment);
            group.runs.pop_back();
        }
    }

    /// Forgets entries that are released.
    fn release(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        while let Some(run) = group.runs.front().filter(|run| run.end() <= group.released + 1) {
            forget(&mut self.segments, run.segment);
            group.runs.pop_front();
        }
    }

    fn remove(&mut self, id: GroupId) {
        let Some(group) = self.groups.remove(&id) else { return };
        for run in group.runs {
            forget(&mut self.segments, run.segment);
        }
    }
}

/// One run less is needed of the segment.
fn forget(segments: &mut VecDeque<Segment>, sequence: u64) {
    let found = segments.binary_search_by_key(&sequence, |segment| segment.sequence);
    if let Some(segment) = found.ok().and_then(|at| segments.get_mut(at)) {
        assert!(segment.live > 0, "segment {sequence} is needed by a run that it does not count");
        segment.live -= 1;
    }
}
