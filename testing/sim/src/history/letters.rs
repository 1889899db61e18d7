//! Dead letters: who was told that a message is given up finds it in its stream or among the letters, unless somebody removed it on purpose.

use std::collections::{BTreeMap, BTreeSet};

use jetstream::Stream;

use super::{Rule, StreamHistory, Violation};

/// What is known of the dead letters of one stream.
#[derive(Debug, Default)]
pub(crate) struct LetterHistory {
    /// Messages that the other stream has stored, by operation.
    pub(crate) stored: BTreeSet<u64>,
    /// Sequences that a client also said to be done with.
    pub(crate) acked: BTreeSet<u64>,
    /// Sequences whose end was confirmed while they were there, by which consumer of which epoch.
    condemned: BTreeMap<u64, (String, u64)>,
}

impl StreamHistory {
    /// A consumer has confirmed that a message is given up.
    pub(crate) fn condemned(&mut self, stream: &Stream, sequence: u64, by: (String, u64)) {
        let is_there = matches!(stream.store().load(sequence), Ok(Some(_)));
        if is_there && !self.is_tainted {
            self.letters.condemned.insert(sequence, by);
        }
    }

    /// Messages that were given up and are nowhere.
    pub(super) fn check_letters(&self, stream: &Stream, found: &mut Vec<Violation>) {
        for (sequence, by) in &self.letters.condemned {
            if self.is_excused(*sequence, by)
                || matches!(stream.store().load(*sequence), Ok(Some(_)) | Err(_))
            {
                continue;
            }
            let text = format!("{}: {sequence} was given up, and there is no letter of it", self.name);
            found.push(Violation::new(Rule::LetterLost, text));
        }
    }

    /// May a message that was given up be gone?
    fn is_excused(&self, sequence: u64, by: &(String, u64)) -> bool {
        let (consumer, epoch) = by;
        let Some(operation) = self.bound.get(&sequence) else { return true };
        let Some(message) = self.published.get(operation) else { return true };
        let rolled_up =
            || self.published.values().any(|other| other.rolls_up && other.subject == message.subject);
        self.letters.stored.contains(operation)
            || self.letters.acked.contains(&sequence)
            || self.consumers.get(consumer).is_none_or(|known| known.epoch != *epoch)
            || self.deletes.contains(&sequence)
            || self.was_purged(*operation, sequence, message)
            || rolled_up()
    }
}
