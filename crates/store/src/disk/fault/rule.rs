//! Faults that are injected on purpose: which operation, where, when, and what happens instead.

use std::path::Path;

/// Input/output error, as a system numbers it.
pub const EIO: i32 = 5;
/// No space left on device.
pub const ENOSPC: i32 = 28;
/// Read-only file system.
pub const EROFS: i32 = 30;

/// Kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opening a file that exists.
    Open,
    /// Opening a file that is created.
    Create,
    /// Reading.
    Read,
    /// Writing and setting the length.
    Write,
    /// Syncing a file.
    Sync,
    /// Listing a directory.
    List,
    /// Creating a directory.
    CreateDirectory,
    /// Renaming.
    Rename,
    /// Removing files and directories.
    Remove,
    /// Syncing a directory.
    SyncDirectory,
}

impl Operation {
    /// Does it change anything?
    pub(super) fn is_change(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::List)
    }
}

/// What happens instead of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It fails with this number. A failed sync forgets what it should have written.
    Fail(i32),
    /// It says that it succeeded and does nothing: a lost write, a lying sync.
    Ignore,
    /// It does a part: a read returns half of the bytes, a write writes half of them and fails with [`EIO`]. Others just fail.
    Partial,
    /// A write goes this many bytes further than it was told.
    Misdirect(u64),
}

/// An injected fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Operations that it concerns.
    pub operation: Operation,
    /// Part of the path that it concerns; empty for all.
    pub path: String,
    /// Matching operations that are let through first.
    pub after: u64,
    /// Matching operations that are then hit.
    pub times: u64,
    /// What happens.
    pub effect: Effect,
}

impl Rule {
    /// A rule that hits every operation of a kind from now on.
    #[must_use]
    pub fn new(operation: Operation, effect: Effect) -> Self {
        Self { operation, path: String::new(), after: 0, times: u64::MAX, effect }
    }

    /// The same for paths that contain this.
    #[must_use]
    pub fn at(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// The same after letting through this many.
    #[must_use]
    pub fn after(self, after: u64) -> Self {
        Self { after, ..self }
    }

    /// The same for one operation only.
    #[must_use]
    pub fn once(self) -> Self {
        Self { times: 1, ..self }
    }

    /// What it does to this operation, which it counts.
    pub(super) fn hit(&mut self, operation: Operation, path: &Path) -> Option<Effect> {
        if self.operation != operation || !path.to_string_lossy().contains(&self.path) {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        self.times = self.times.checked_sub(1)?;
        Some(self.effect)
    }
}
