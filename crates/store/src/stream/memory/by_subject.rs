//! Sequences by subject. Of a subject with one or two messages its counters say all; more of them are listed.

use std::ops::RangeInclusive;

use super::sequences::Sequences;
use crate::stream::{SubjectId, SubjectIndex, SubjectState};

/// The subjects of the messages held, and the sequences of each.
#[derive(Debug, Default)]
pub(super) struct BySubject {
    index: SubjectIndex,
    /// By number of the subject, as far as any has a list. Made for the third message, and kept until one is left.
    lists: Vec<Option<Box<Sequences>>>,
}

impl BySubject {
    /// Counters by literal and by filter. `first` and `last` are always those of messages that are there.
    #[inline]
    pub(super) fn index(&self) -> &SubjectIndex {
        &self.index
    }

    /// Takes note of a message newer than all others.
    #[inline]
    pub(super) fn append(&mut self, literal: &[u8], sequence: u64) -> SubjectId {
        let (id, before) = self.index.append(literal, sequence);
        if let Some(before) = before.filter(|before| before.messages >= 2) {
            self.append_to_list(id, before, sequence);
        }
        id
    }

    fn append_to_list(&mut self, id: SubjectId, before: SubjectState, sequence: u64) {
        if self.lists.len() <= id as usize {
            self.lists.resize_with(id as usize + 1, || None);
        }
        match &mut self.lists[id as usize] {
            Some(list) => list.push(sequence),
            none => *none = Some(Box::new(Sequences::new(&[before.first, before.last, sequence]))),
        }
    }

    /// Takes note that a message is gone.
    pub(super) fn remove(&mut self, id: SubjectId, literal: &[u8], sequence: u64) {
        let mut state = self.index.state(id);
        state.messages -= 1;
        if state.messages >= 2 {
            if let Some(Some(list)) = self.lists.get_mut(id as usize) {
                list.remove(sequence);
                if let (Some(first), Some(last)) = (list.first(), list.last()) {
                    (state.first, state.last) = (first, last);
                }
            }
            self.index.set_state(id, state);
            return;
        }
        if let Some(list) = self.lists.get_mut(id as usize) {
            *list = None;
        }
        if state.messages == 1 {
            let left = if state.first == sequence { state.last } else { state.first };
            self.index.set_state(id, SubjectState { first: left, last: left, messages: 1 });
        } else {
            self.index.forget_known(id, literal);
            if self.index.is_empty() {
                self.lists = Vec::new();
            }
        }
    }

    /// The first message of a subject at or after `from`.
    #[inline]
    pub(super) fn next(&self, id: SubjectId, from: u64) -> Option<u64> {
        let state = self.index.state(id);
        if from <= state.first {
            Some(state.first)
        } else if from > state.last {
            None
        } else {
            self.list(id).map_or(Some(state.last), |list| list.next(from))
        }
    }

    /// The last message of a subject at or before `up_to`.
    #[inline]
    pub(super) fn previous(&self, id: SubjectId, up_to: u64) -> Option<u64> {
        let state = self.index.state(id);
        if up_to >= state.last {
            Some(state.last)
        } else if up_to < state.first {
            None
        } else {
            self.list(id).map_or(Some(state.first), |list| list.previous(up_to))
        }
    }

    /// How many messages of a subject lie in a range that is not empty.
    #[inline]
    pub(super) fn count(&self, id: SubjectId, range: &RangeInclusive<u64>) -> u64 {
        let state = self.index.state(id);
        let (first, last) = (range.contains(&state.first), range.contains(&state.last));
        if first && last {
            return state.messages;
        }
        if state.last < *range.start() || state.first > *range.end() {
            return 0;
        }
        self.list(id).map_or_else(|| u64::from(first) + u64::from(last), |list| list.count(range.clone()))
    }

    /// Adds the messages of a subject at or before `up_to` to a list.
    pub(super) fn append_up_to(&self, id: SubjectId, up_to: u64, to: &mut Vec<u64>) {
        if let Some(list) = self.list(id) {
            to.extend(list.up_to(up_to));
            return;
        }
        let state = self.index.state(id);
        to.extend((state.first <= up_to).then_some(state.first));
        to.extend((state.last <= up_to && state.last != state.first).then_some(state.last));
    }

    #[inline]
    fn list(&self, id: SubjectId) -> Option<&Sequences> {
        self.lists.get(id as usize)?.as_deref()
    }
}
