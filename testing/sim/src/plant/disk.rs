//! A disk that lies about what is on stable storage.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use store::disk::{Disk, File, Open, Result};

/// Name of the file that holds a stream's checkpoints.
pub(crate) const CHECKPOINT: &str = "checkpoint";

/// How a disk lies.
#[derive(Debug, Clone)]
pub(crate) enum Lie {
    /// Syncs of files do nothing.
    Ignored,
    /// A sync of a file that fails is tried again.
    Retried,
    /// While the flag is up, what is there counts as synced: the file of checkpoints is not written again, and no name is synced.
    Believed(Arc<AtomicBool>),
}

impl Lie {
    fn believes(&self) -> bool {
        matches!(self, Self::Believed(opening) if opening.load(Relaxed))
    }
}

/// Passes everything on but what it lies about.
#[derive(Debug)]
pub(crate) struct BrokenDisk {
    pub(crate) inner: Arc<dyn Disk>,
    pub(crate) lie: Lie,
}

#[derive(Debug)]
struct BrokenFile {
    inner: Arc<dyn File>,
    lie: Lie,
    is_checkpoint: bool,
}

impl BrokenFile {
    fn is_believed(&self) -> bool {
        self.is_checkpoint && self.lie.believes()
    }
}

impl File for BrokenFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        if self.is_believed() { Ok(()) } else { self.inner.write_at(bytes, offset) }
    }

    fn sync(&self) -> Result<()> {
        match self.lie {
            Lie::Ignored => Ok(()),
            Lie::Retried => self.inner.sync().or_else(|_| self.inner.sync()),
            Lie::Believed(_) if self.is_believed() => Ok(()),
            Lie::Believed(_) => self.inner.sync(),
        }
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.inner.allocate(len)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
}

impl Disk for BrokenDisk {
    fn open(&self, path: &Path, how: Open) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(path, how)?;
        let is_checkpoint = path.file_name().is_some_and(|name| name == CHECKPOINT);
        Ok(Arc::new(BrokenFile { inner, lie: self.lie.clone(), is_checkpoint }))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        self.inner.list(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        if self.lie.believes() { Ok(()) } else { self.inner.sync_dir(path) }
    }

    fn free_space(&self, path: &Path) -> Result<Option<u64>> {
        self.inner.free_space(path)
    }
}
