//! Whether a rule of the stream, or a request, could have removed a message. Necessary conditions only.

use api::jetstream::stream::Retention;

use super::{Published, StreamHistory};

/// What a message may cost beside its subject and payload: headers and the server's own share.
const OVERHEAD_MAX: u64 = 200;

impl StreamHistory {
    /// Could this message, stored at `sequence`, be gone by now?
    pub(crate) fn may_be_gone(&self, operation: u64, sequence: u64, now: i64) -> bool {
        let Some(message) = self.published.get(&operation) else { return true };
        self.deletes.contains(&sequence)
            || self.was_purged(operation, sequence, message)
            || self.outgrew_limits(operation, sequence, message)
            || now.saturating_sub(message.at) >= self.tightest.age
            || message.ends.is_some_and(|ends| now >= ends)
            || self.is_done_with(operation, sequence, message)
    }

    pub(super) fn was_purged(&self, operation: u64, sequence: u64, message: &Published) -> bool {
        self.purges.iter().any(|purge| {
            let covers = purge.filter.is_empty()
                || subject::matches(message.subject.as_bytes(), purge.filter.as_bytes());
            purge.operation > operation && covers && (purge.below == 0 || sequence < purge.below)
        })
    }

    fn outgrew_limits(&self, operation: u64, sequence: u64, message: &Published) -> bool {
        let tightest = &self.tightest;
        if self.last.saturating_sub(sequence) >= tightest.messages {
            return true;
        }
        let later = || {
            self.published.iter().filter(|(other, published)| {
                **other != operation && published.sequence.is_none_or(|other| other > sequence)
            })
        };
        let size =
            |published: &Published| (published.subject.len() + published.payload.len()) as u64 + OVERHEAD_MAX;
        if tightest.bytes < u64::MAX {
            let bytes: u64 = later().map(|(_, published)| size(published)).sum();
            if bytes + size(message) > tightest.bytes {
                return true;
            }
        }
        let mut same = later().filter(|(_, published)| published.subject == message.subject);
        if same.clone().any(|(_, published)| published.rolls_up) {
            return true;
        }
        let enough = usize::try_from(tightest.per_subject).unwrap_or(usize::MAX);
        enough > 0 && same.nth(enough - 1).is_some()
    }

    fn is_done_with(&self, operation: u64, sequence: u64, message: &Published) -> bool {
        let is_done = self.done.contains(&sequence) || self.letters.stored.contains(&operation);
        match self.retention {
            Retention::Limits => false,
            Retention::WorkQueue => is_done,
            Retention::Interest => is_done || !message.wanted || self.consumer_gone > operation,
        }
    }
}
