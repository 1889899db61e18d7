//! What clients know of one consumer.

use std::collections::BTreeSet;

/// Whether a filter, subjects with commas between them or nothing for all, lets a subject through.
pub(crate) fn lets_through(filter: &str, subject: &[u8]) -> bool {
    filter.is_empty() || filter.split(',').any(|filter| subject::matches(subject, filter.as_bytes()))
}

/// One name of a consumer; each deletion begins another epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConsumerHistory {
    /// What it may filter: one, and those that were asked for and not answered.
    filters: Vec<String>,
    pub(crate) epoch: u64,
    /// It may begin behind messages that are still to come.
    begins_late: bool,
    /// It exists for certain.
    pub(crate) is_sure: bool,
    /// It does not exist for certain.
    pub(crate) is_gone: bool,
    /// Everything that this consumer was given is in `delivered`.
    pub(crate) is_whole: bool,
    pub(crate) delivered: BTreeSet<u64>,
    /// Sequences whose acknowledgement was confirmed.
    pub(crate) confirmed: BTreeSet<u64>,
}

impl ConsumerHistory {
    /// One that was never there.
    pub(crate) fn never() -> Self {
        Self { is_gone: true, is_whole: true, ..Self::default() }
    }

    /// Its creation or another configuration is asked for. Whether it may want less than before.
    pub(crate) fn configuring(&mut self, filter: &str, begins_late: bool) -> bool {
        if self.is_gone {
            self.filters.clear();
            self.begins_late = false;
        }
        self.begins_late |= begins_late;
        self.is_gone = false;
        let narrows = !filter.is_empty() && self.filters.iter().any(|known| known != filter);
        if !self.filters.iter().any(|known| known == filter) {
            self.filters.push(filter.to_owned());
        }
        narrows
    }

    /// That was answered: it is so.
    pub(crate) fn configured(&mut self, filter: String) {
        self.filters = vec![filter];
        self.is_sure = true;
    }

    /// That was refused.
    pub(crate) fn refused(&mut self, filter: &str) {
        if self.filters.len() > 1 {
            self.filters.retain(|known| known != filter);
        }
    }

    /// Its deletion is asked for.
    pub(crate) fn deleting(&mut self) {
        self.epoch += 1;
        self.is_sure = false;
        self.is_whole = false;
        self.confirmed.clear();
    }

    /// Its deletion was answered.
    pub(crate) fn deleted(&mut self) {
        self.is_gone = true;
        self.is_sure = false;
        self.is_whole = true;
        self.delivered.clear();
        self.confirmed.clear();
    }

    /// Does it want messages of this subject for certain?
    pub(crate) fn wants(&self, subject: &str) -> bool {
        !self.begins_late && self.filters.iter().all(|filter| lets_through(filter, subject.as_bytes()))
    }

    /// Is it done with a message for certain? `passed` is the last one of those that were done with their delivery.
    pub(super) fn is_done_with(&self, sequence: u64, subject: &str, passed: u64) -> bool {
        let may_want = self.filters.iter().any(|filter| lets_through(filter, subject.as_bytes()));
        sequence <= passed && !self.begins_late
            || self.confirmed.contains(&sequence)
            || !may_want && !self.delivered.contains(&sequence)
    }

    /// Is everything known of it?
    pub(super) fn is_known(&self) -> bool {
        self.is_gone || self.is_sure && self.is_whole
    }

    /// The floor is not below this: the last confirmed sequence below everything that was given out and not confirmed.
    pub(crate) fn floor_min(&self) -> u64 {
        if !self.is_whole || !self.is_sure {
            return 0;
        }
        let open = self.delivered.difference(&self.confirmed).next().copied().unwrap_or(u64::MAX);
        self.confirmed.range(..open).next_back().copied().unwrap_or(0)
    }
}
