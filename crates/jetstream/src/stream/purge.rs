//! Removing at a client's wish: deletion of one message, purge.

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::stream::Storage;
use store::stream::{Error as StoreError, Filter, StreamStore};

use super::Stream;
use crate::consumer::RemoveReason;
use crate::effect::{Effect, Effects};
use crate::outside::Outside;

impl Stream {
    /// Deletes one message. The inner error is the client's.
    pub(crate) fn apply_remove(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (u64, bool),
    ) -> Result<Result<(), ApiError>, StoreError> {
        let (sequence, erase) = what;
        if self.remove(outside, effects, (sequence, erase, RemoveReason::Deleted))? {
            if erase {
                effects.push(Effect::CheckpointSoon);
            }
            return Ok(Ok(()));
        }
        let state = self.store.state();
        let is_file = self.config().storage == Storage::File;
        Ok(Err(if is_file && sequence > state.last_sequence {
            ErrorCode::STREAM_MSG_DELETE_FAILED.because("stream store EOF")
        } else if is_file && sequence < state.first_sequence.max(1) {
            ErrorCode::STREAM_MSG_DELETE_FAILED.because("no message found")
        } else {
            ErrorCode::SEQUENCE_NOT_FOUND.because(sequence)
        }))
    }

    /// Purges subjects (all if empty) below a sequence (all if zero), but keeps the newest so many. Returns how many went.
    pub(crate) fn apply_purge(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        what: (&[u8], u64, u64),
    ) -> Result<u64, StoreError> {
        let (subject, below, keep) = what;
        let before = self.store.state().messages;
        let all = subject.is_empty() || subject == b">";
        if all && below == 0 && keep == 0 {
            self.begin();
        }
        let filter = if all { Filter::All } else { Filter::Any(vec![subject.into()]) };
        let up_to = if keep > 0 {
            before_newest(&*self.store, &filter, keep)?
        } else if below > 0 {
            below - 1
        } else {
            self.store.state().last_sequence
        };
        if up_to > 0 {
            let reason = if all { RemoveReason::Purged } else { RemoveReason::Deleted };
            self.purge_up_to(outside, effects, (&filter, up_to, reason))?;
        }
        Ok(before - self.store.state().messages)
    }
}

/// The sequence before the newest `keep` messages that the filter lets through; zero if there are no more than that.
fn before_newest(store: &dyn StreamStore, filter: &Filter, keep: u64) -> Result<u64, StoreError> {
    let state = store.state();
    let (mut low, mut high) = (state.first_sequence, state.last_sequence);
    if state.messages == 0 || store.count(filter, low..=high)? <= keep {
        return Ok(0);
    }
    // From `low` on there are more than `keep`, from `high + 1` on there are not.
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if store.count(filter, middle..=state.last_sequence)? > keep {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low)
}
