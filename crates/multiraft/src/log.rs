//! The log of one group as far as it is in memory: its ends, its terms, and a tail of entries. This is what the engine reads.
//!
//! Invariants: `tail` ends at `last` and has no gaps. Every entry that is not yet applied is in `tail`. `runs` covers all of `(start, last]`, so
//! the term of any index is known without the entry.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;
use raft::eraftpb;
use raft::{GetEntriesContext, RaftState, Storage, StorageError};
use smallvec::SmallVec;

use crate::start::{Entry, PeerId, Position, Start};

/// Counted for an entry beside its payload.
pub(crate) const ENTRY_OVERHEAD: u64 = 64;

/// Indexes from `first` on that share a term.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    term: u64,
}

/// What the engine could not get from memory and the owner of the node must be asked for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// First indexes of entries below the tail.
    pub(crate) entries: SmallVec<[u64; 2]>,
    /// Members that need what is before the beginning of the log.
    pub(crate) snapshots: SmallVec<[PeerId; 2]>,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Log {
    /// Read once, when the engine starts.
    initial: Option<Box<RaftState>>,
    start: Position,
    last: u64,
    runs: SmallVec<[Run; 2]>,
    tail: VecDeque<Entry>,
    tail_bytes: u64,
    tail_bytes_max: u64,
    /// Entries below the tail, only while they are being sent.
    supplied: Vec<Entry>,
    wanted: RefCell<Wanted>,
}

impl Log {
    /// The log of a validated start. Of applied entries, `tail_bytes_max` bytes are kept; 0 keeps none.
    pub(crate) fn new(start: Start, tail_bytes_max: u64) -> Self {
        let mut state = RaftState::default();
        state.hard_state.term = start.hard_state.term;
        state.hard_state.vote = start.hard_state.vote.map_or(0, |peer| peer.0);
        // What was applied had been committed, even if that was never written down. In a group of one, what was persisted had been.
        let alone = start.peers.len() == 1;
        state.hard_state.commit =
            if alone { start.last_index() } else { start.hard_state.commit.max(start.applied) };
        state.conf_state.voters = start.peers.iter().map(|peer| peer.0).collect();
        let mut log = Self {
            initial: Some(Box::new(state)),
            start: start.snapshot,
            last: start.snapshot.index,
            runs: SmallVec::new(),
            tail: VecDeque::new(),
            tail_bytes: 0,
            tail_bytes_max,
            supplied: Vec::new(),
            wanted: RefCell::default(),
        };
        log.append(start.entries.into_iter());
        log.trim(start.applied);
        log
    }

    /// Frees what only the start of the engine needed.
    pub(crate) fn started(&mut self) {
        self.initial = None;
    }

    pub(crate) fn start(&self) -> Position {
        self.start
    }

    /// Index of the first entry in memory.
    fn tail_first(&self) -> u64 {
        self.last + 1 - self.tail.len() as u64
    }

    /// Term of the entry at `index`; none outside of the log, whose beginning counts as within.
    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.start.index {
            return Some(self.start.term);
        }
        if index < self.start.index || index > self.last {
            return None;
        }
        let behind = self.runs.iter().rposition(|run| run.first <= index)?;
        Some(self.runs[behind].term)
    }

    /// Adds entries, replacing what is at their indexes and behind.
    pub(crate) fn append(&mut self, entries: impl Iterator<Item = Entry>) {
        for entry in entries {
            if entry.index <= self.last {
                self.truncate(entry.index);
            }
            assert!(entry.index == self.last + 1, "log gap: {} after {}", entry.index, self.last);
            if self.runs.last().is_none_or(|run| run.term != entry.term) {
                self.runs.push(Run { first: entry.index, term: entry.term });
            }
            self.last = entry.index;
            self.tail_bytes += cost(&entry);
            self.tail.push_back(entry);
        }
    }

    /// Drops the entries from `from` on.
    fn truncate(&mut self, from: u64) {
        assert!(
            from >= self.tail_first(),
            "entry {from} is replaced, but those below {} are applied",
            self.tail_first()
        );
        while self.last >= from {
            let Some(entry) = self.tail.pop_back() else { break };
            self.tail_bytes -= cost(&entry);
            self.last -= 1;
        }
        while self.runs.last().is_some_and(|run| run.first >= from) {
            self.runs.pop();
        }
    }

    /// Lets go of applied entries beyond what is kept for members that lag.
    pub(crate) fn trim(&mut self, applied: u64) {
        while self.tail_bytes > self.tail_bytes_max
            && self.tail.front().is_some_and(|entry| entry.index <= applied)
        {
            let Some(entry) = self.tail.pop_front() else { break };
            self.tail_bytes -= cost(&entry);
        }
    }

    /// Gives back room that is not used.
    pub(crate) fn shrink(&mut self) {
        self.tail.shrink_to_fit();
    }

    /// Moves the beginning of the log to `index`, which is applied. Going back is no change.
    pub(crate) fn compact(&mut self, index: u64) {
        if index <= self.start.index {
            return;
        }
        let Some(term) = self.term_at(index) else { return };
        self.start = Position { index, term };
        let behind = self.runs.iter().take_while(|run| run.first <= index).count();
        // The run that goes on behind `index` stays.
        self.runs.drain(..behind.saturating_sub(1));
        if index == self.last {
            self.runs.clear();
        }
        while self.tail.front().is_some_and(|entry| entry.index <= index) {
            let Some(entry) = self.tail.pop_front() else { break };
            self.tail_bytes -= cost(&entry);
        }
    }

    /// Holds entries read from the shared log for as long as they are being sent. False if they are not of this log.
    pub(crate) fn supply(&mut self, entries: Vec<Entry>) -> bool {
        let fits = |(at, entry): (usize, &Entry)| {
            entry.index == entries[0].index + at as u64
                && entry.index > self.start.index
                && self.term_at(entry.index) == Some(entry.term)
        };
        if !entries.iter().enumerate().all(fits) {
            return false;
        }
        self.supplied = entries;
        true
    }

    /// The supplied entries were sent.
    pub(crate) fn withdraw(&mut self) {
        self.supplied = Vec::new();
    }

    /// What the engine asked for since the last call.
    pub(crate) fn take_wanted(&mut self) -> Wanted {
        std::mem::take(self.wanted.get_mut())
    }

    /// Whether the engine asked for something since the last [`Self::take_wanted`].
    pub(crate) fn has_wanted(&self) -> bool {
        let wanted = self.wanted.borrow();
        !wanted.entries.is_empty() || !wanted.snapshots.is_empty()
    }

    /// Index of the last entry that is not in memory.
    pub(crate) fn below_tail(&self) -> u64 {
        self.tail_first() - 1
    }

    /// Entries of `[low, high)` in memory, the first of them always, the others within `bytes_max`.
    fn read(&self, low: u64, high: u64, bytes_max: u64) -> Option<Vec<eraftpb::Entry>> {
        let first = self.tail_first();
        if low >= first {
            let range = self.tail.range((low - first) as usize..(high - first) as usize);
            return Some(take_within(range, bytes_max));
        }
        let supplied = self.supplied.first()?.index;
        if low < supplied || low >= supplied + self.supplied.len() as u64 {
            return None;
        }
        let end = (high.min(supplied + self.supplied.len() as u64) - supplied) as usize;
        Some(take_within(self.supplied[(low - supplied) as usize..end].iter(), bytes_max))
    }
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.initial.as_ref().map_or_else(RaftState::default, |state| RaftState::clone(state)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        if low <= self.start.index {
            return Err(StorageError::Compacted.into());
        }
        assert!(high <= self.last + 1, "entries up to {high} asked of a log that ends at {}", self.last);
        if let Some(entries) = self.read(low, high, max_size.into().unwrap_or(u64::MAX)) {
            return Ok(entries);
        }
        assert!(
            context.can_async(),
            "entry {low} is not applied, but memory begins at {}",
            self.tail_first()
        );
        let mut wanted = self.wanted.borrow_mut();
        if !wanted.entries.contains(&low) {
            wanted.entries.push(low);
        }
        Err(StorageError::LogTemporarilyUnavailable.into())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.term_at(index) {
            Some(term) => Ok(term),
            None if index < self.start.index => Err(StorageError::Compacted.into()),
            None => Err(StorageError::Unavailable.into()),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.start.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last)
    }

    fn snapshot(&self, _: u64, to: u64) -> raft::Result<eraftpb::Snapshot> {
        let mut wanted = self.wanted.borrow_mut();
        if !wanted.snapshots.contains(&PeerId(to)) {
            wanted.snapshots.push(PeerId(to));
        }
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}

/// Bytes of memory that an entry stands for.
pub(crate) fn cost(entry: &Entry) -> u64 {
    entry.payload.len() as u64 + ENTRY_OVERHEAD
}

fn take_within<'a>(entries: impl ExactSizeIterator<Item = &'a Entry>, bytes_max: u64) -> Vec<eraftpb::Entry> {
    let mut taken = Vec::with_capacity(entries.len());
    let mut bytes = 0;
    for entry in entries {
        bytes += cost(entry);
        if bytes > bytes_max && !taken.is_empty() {
            break;
        }
        taken.push(to_engine(entry.index, entry.term, entry.payload.clone()));
    }
    taken
}

pub(crate) fn to_engine(index: u64, term: u64, payload: Bytes) -> eraftpb::Entry {
    eraftpb::Entry { index, term, data: payload, ..eraftpb::Entry::default() }
}

pub(crate) fn from_engine(entry: eraftpb::Entry) -> Entry {
    Entry { index: entry.index, term: entry.term, payload: entry.data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::HardState;

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, payload: Bytes::from(vec![0; 36]) }
    }

    /// Indexes 11 to 20, two of each term from 3 on, applied to 14. Each costs 100.
    fn log(tail_bytes_max: u64) -> Log {
        let start = Start {
            hard_state: HardState { term: 7, vote: None, commit: 14 },
            applied: 14,
            snapshot: Position { index: 10, term: 2 },
            entries: (11..=20).map(|index| entry(index, (index - 5) / 2)).collect(),
            ..Start::new(vec![PeerId(1), PeerId(2)])
        };
        Log::new(start, tail_bytes_max)
    }

    fn terms(log: &Log, range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        range.map(|index| log.term_at(index).unwrap_or(0)).collect()
    }

    fn indexes(entries: &[eraftpb::Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.index).collect()
    }

    #[test]
    fn only_applied_entries_leave_memory_and_their_terms_stay() {
        assert_eq!(log(0).below_tail(), 14);
        assert_eq!(log(800).below_tail(), 12);
        assert_eq!(log(1000).below_tail(), 10);
        assert_eq!(terms(&log(0), 9..=21), [0, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 0]);
    }

    #[test]
    fn later_entries_replace_those_at_their_index_and_behind() {
        let mut log = log(0);
        log.append([entry(18, 8), entry(19, 8)].into_iter());
        assert_eq!(terms(&log, 16..=20), [5, 6, 8, 8, 0]);
        assert_eq!((log.last, log.tail_bytes), (19, 500));
    }

    #[test]
    #[should_panic(expected = "entry 14 is replaced, but those below 15 are applied")]
    fn applied_entries_are_never_replaced() {
        log(0).append([entry(14, 8)].into_iter());
    }

    #[test]
    #[should_panic(expected = "log gap: 22 after 20")]
    fn gap_is_a_bug() {
        log(0).append([entry(22, 8)].into_iter());
    }

    #[test]
    fn compaction_keeps_the_term_of_what_it_ends_with() {
        for index in 10..=20 {
            let mut log = log(1000);
            let before = terms(&log, index..=20);
            log.compact(index);
            assert_eq!(log.start().index, index);
            assert_eq!(terms(&log, index..=20), before, "compacted to {index}");
            assert_eq!(log.term_at(index - 1), None);
            log.append([entry(21, 9)].into_iter());
            assert_eq!(terms(&log, 20..=21), [7, 9]);
        }
    }

    #[test]
    fn reads_end_at_the_bound_but_give_one_entry() {
        let log = log(1000);
        assert_eq!(indexes(&log.read(11, 21, u64::MAX).unwrap()), (11..=20).collect::<Vec<_>>());
        assert_eq!(indexes(&log.read(13, 21, 299).unwrap()), [13, 14]);
        assert_eq!(indexes(&log.read(13, 21, 300).unwrap()), [13, 14, 15]);
        assert_eq!(indexes(&log.read(13, 21, 0).unwrap()), [13]);
    }

    #[test]
    fn entries_below_the_tail_are_asked_for_and_read_while_supplied() {
        let mut log = log(0);
        let ask = |log: &Log| log.entries(12, 21, None, GetEntriesContext::empty(true));
        assert!(ask(&log).is_err());
        assert!(ask(&log).is_err());
        assert_eq!(log.take_wanted().entries[..], [12]);
        assert!(!log.has_wanted());
        assert!(!log.supply(vec![entry(12, 4)]));
        assert!(!log.supply(vec![entry(12, 3), entry(14, 4)]));
        assert!(log.supply(vec![entry(12, 3), entry(13, 4)]));
        assert_eq!(indexes(&ask(&log).unwrap()), [12, 13]);
        log.withdraw();
        assert!(ask(&log).is_err());
        assert!(log.entries(10, 21, None, GetEntriesContext::empty(true)).is_err());
        assert_eq!(log.take_wanted().entries[..], [12]);
    }
}
