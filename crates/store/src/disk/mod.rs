//! The one door to files: a trait with what the store needs of a file system, so that a simulated disk can stand behind it.
//!
//! What is written may be lost, torn or reordered by a crash until `File::sync` returned; a name that was created, renamed or removed
//! may come back or vanish until `Disk::sync_dir` of its directory returned. A sync that failed says nothing about what is on disk, and a
//! later one that succeeds does not mend it: the caller gives the file up.

pub mod fault;
pub mod os;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was being done when the disk failed, on which path.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}: {source}", path.display())]
pub struct Error {
    /// Verb, as in "open" or "sync".
    pub operation: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Result of a disk operation.
pub type Result<T> = std::result::Result<T, Error>;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It exists; only reads.
    Read,
    /// It exists; reads and writes.
    Write,
    /// It must not exist yet; reads and writes.
    Create,
}

/// An open file. Reads and writes name their offset, so one handle can be shared.
pub trait File: fmt::Debug + Send + Sync {
    /// Fills `buffer` from `offset` on. Returns the bytes read, fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes all of `bytes` at `offset`, growing the file if needed. Not on stable storage until `sync`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Puts everything written so far, and the length, on stable storage (`fdatasync`).
    fn sync(&self) -> Result<()>;
    /// Cuts or extends the file; what is added reads as zeros.
    fn set_len(&self, len: u64) -> Result<()>;
    /// Reserves space without changing what is read, as far as the file system can; no error if it cannot.
    fn allocate(&self, len: u64) -> Result<()>;
    /// Length in bytes.
    fn len(&self) -> Result<u64>;
    /// Is it empty?
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A file system.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> Result<Arc<dyn File>>;
    /// Creates a directory and those above it; no error if it is there.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Names in a directory, sorted. An error of kind `NotFound` if there is no such directory.
    fn list(&self, path: &Path) -> Result<Vec<String>>;
    /// Replaces `to` with `from` in one step.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> Result<()>;
    /// Removes a directory with all that is in it; no error if it is not there.
    fn remove_dir_all(&self, path: &Path) -> Result<()>;
    /// Puts names created, renamed and removed in the directory on stable storage.
    fn sync_dir(&self, path: &Path) -> Result<()>;
    /// Bytes that can still be written, if the file system says.
    fn free_space(&self, path: &Path) -> Result<Option<u64>>;
}

impl Error {
    /// An error of `operation` on `path`.
    pub fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_owned(), source }
    }

    /// Is it that something does not exist?
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Is the disk, or the quota on it, full?
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}
