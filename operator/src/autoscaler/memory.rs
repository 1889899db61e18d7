//! What is remembered between looks. A new operator begins with what the status says and is careful until its memory is full.

use std::collections::VecDeque;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::need::Track;

/// Looks remembered at most: those of the longest window at the shortest interval, and some.
const NEEDS_MAX: usize = 4096;
/// Changes remembered at most.
const CHANGES_MAX: usize = 2048;
/// Changes that the status tells the next operator of at most.
const RECENT_MAX: usize = 32;
/// The longest period of a step; what is older counts for none.
const RECENT_AGE_MAX: SignedDuration = SignedDuration::from_mins(30);

/// The memory of one autoscaler.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Needs, oldest first.
    needs: VecDeque<(Timestamp, i32)>,
    /// Changes that were made, oldest first.
    changes: VecDeque<(Timestamp, i32)>,
    /// When it began.
    pub begun: Timestamp,
    /// When there was work last.
    pub last_active: Timestamp,
    /// Looks in a row without an answer.
    pub failures: u32,
    /// What is remembered of each source.
    pub tracks: Vec<Track>,
}

impl Memory {
    /// A memory of nothing but `replicas` at `now`: for a whole window nothing less is needed, as far as anybody can tell.
    #[must_use]
    pub fn new(now: Timestamp, replicas: i32, last_active: Option<Timestamp>, sources: usize) -> Self {
        Self {
            // Right before now, so that without a window it holds up nothing.
            needs: VecDeque::from([(now - SignedDuration::from_millis(1), replicas)]),
            changes: VecDeque::new(),
            begun: now,
            last_active: last_active.unwrap_or(now).min(now),
            failures: 0,
            tracks: vec![Track::default(); sources],
        }
    }

    /// The same with changes that an operator before this one made, oldest first.
    #[must_use]
    pub fn recalled(mut self, changes: impl IntoIterator<Item = (Timestamp, i32)>) -> Self {
        for (at, by) in changes {
            self.changed(at, by);
        }
        self
    }

    /// Changes that may still count for a step, oldest first.
    pub fn recent(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, i32)> {
        let first = self.changes.len().saturating_sub(RECENT_MAX);
        let counts = move |(at, _): &(Timestamp, i32)| now.duration_since(*at) < RECENT_AGE_MAX;
        self.changes.iter().skip(first).copied().filter(counts)
    }

    /// Remembers a need.
    pub fn needed(&mut self, now: Timestamp, replicas: i32) {
        if self.needs.len() >= NEEDS_MAX {
            self.needs.pop_front();
        }
        self.needs.push_back((now, replicas));
    }

    /// Remembers a change that was made.
    pub fn changed(&mut self, now: Timestamp, by: i32) {
        if self.changes.len() >= CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back((now, by));
    }

    /// Smallest and largest need within a time.
    #[must_use]
    pub fn needs(&self, now: Timestamp, within: SignedDuration) -> Option<(i32, i32)> {
        let recent =
            || self.needs.iter().filter(|(at, _)| now.duration_since(*at) <= within).map(|(_, n)| *n);
        Some((recent().min()?, recent().max()?))
    }

    /// Replicas that were added, or taken away, within a time.
    #[must_use]
    pub fn change(&self, now: Timestamp, within: SignedDuration, added: bool) -> i32 {
        self.changes
            .iter()
            .rev()
            .take_while(|(at, _)| now.duration_since(*at) < within)
            .filter(|(_, by)| (*by > 0) == added)
            .map(|(_, by)| by.abs())
            .fold(0, i32::saturating_add)
    }
}
