//! First and last message of a subject when messages go: most are never asked for, so they are looked up only when they are.
//!
//! A sequence with the mark is stale: the real first is not below it, the real last not above it.

use crate::stream::SubjectState;
use crate::stream::subjects::SubjectIndex;

/// Mark of a stale sequence. No stream gets half so far: what could lead it there is refused.
const STALE: u64 = 1 << 63;

#[inline]
pub(super) fn is_stale(sequence: u64) -> bool {
    sequence & STALE != 0
}

/// The sequence without the mark: exact if it is not stale, else as good as is known.
#[inline]
pub(super) fn bound(sequence: u64) -> u64 {
    sequence & !STALE
}

/// Takes a message out of the counters of its subject.
pub(super) fn remove(subjects: &mut SubjectIndex, literal: &[u8], sequence: u64) {
    let Some(id) = subjects.id(literal) else { return };
    let mut state = subjects.state(id);
    if state.messages <= 1 {
        subjects.forget_id(id);
        return;
    }
    state.messages -= 1;
    if state.first == sequence {
        state.first = (sequence + 1) | STALE;
    }
    if state.last == sequence {
        state.last = (sequence - 1) | STALE;
    }
    if state.messages == 1 {
        match (is_stale(state.first), is_stale(state.last)) {
            (true, false) => state.first = state.last,
            (false, true) => state.last = state.first,
            _ => {}
        }
    }
    subjects.set_state(id, state);
}

/// Subjects that are looked up together.
const READ_AHEAD: usize = 32;

/// Adds messages, by subject, that all lie behind those of the same subjects that are there. The subjects come in order of their bytes, mostly.
pub(super) fn merge<'a>(
    subjects: &mut SubjectIndex,
    mut more: impl Iterator<Item = (&'a [u8], SubjectState)>,
) {
    // Blocks that have the same subjects meet them in the order in which the first one added them.
    let (mut last, mut is_in_order) = (0, true);
    let mut group = Vec::with_capacity(READ_AHEAD);
    loop {
        group.extend(more.by_ref().take(READ_AHEAD));
        if group.is_empty() {
            return;
        }
        if !is_in_order {
            subjects.expect(group.iter().map(|(literal, _)| *literal));
        }
        let mut elsewhere = 0;
        for (literal, more) in group.drain(..) {
            let mut known = subjects.id_behind(last, literal);
            if known.is_none() {
                if let Some(id) = subjects.push(literal, more) {
                    last = id;
                    continue;
                }
                elsewhere += 1;
                known = subjects.id(literal);
            }
            last = match known {
                Some(id) => {
                    let state = subjects.state(id);
                    let messages = state.messages + more.messages;
                    subjects.set_state(id, SubjectState { last: more.last, messages, ..state });
                    id
                }
                None => subjects.set(literal, more),
            };
        }
        is_in_order = elsewhere <= READ_AHEAD / 2;
    }
}
