//! What a consumer can do beyond the reference. Off unless set.

use bytes::Bytes;

use super::{Consumer, Context};

/// Options that the reference does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Where a copy goes of each message that was delivered as often as allowed. A stream should listen there: the message counts as done once its
    /// copy is stored.
    pub dead_letter: Option<Bytes>,
    /// Messages of one subject that may wait for their acknowledgement.
    pub pending_per_subject_max: Option<usize>,
}

impl Consumer {
    /// Sets the options beyond the reference. They are not part of `encode_state`: whoever restores a consumer sets them again, before `lead`.
    pub fn set_extensions(&mut self, ctx: &mut Context<'_>, extensions: Extensions) {
        self.extensions = extensions;
        self.apply_extensions();
        self.count_keys(ctx);
    }

    /// Takes the options into the settings.
    pub(super) fn apply_extensions(&mut self) {
        let max = self.extensions.pending_per_subject_max;
        self.settings.pending_per_subject_max = max.filter(|max| *max > 0).unwrap_or(usize::MAX);
    }

    /// The options beyond the reference.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }
}
