//! A disk whose syncs lie.

use std::path::Path;
use std::sync::Arc;

use store::disk::{Disk, File, Open, Result};

/// Passes everything on but syncs of files.
#[derive(Debug)]
pub(crate) struct BrokenDisk {
    pub(crate) inner: Arc<dyn Disk>,
    /// Syncs do nothing; otherwise a sync that fails is tried again.
    pub(crate) ignores: bool,
}

#[derive(Debug)]
struct BrokenFile {
    inner: Arc<dyn File>,
    ignores: bool,
}

impl File for BrokenFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> Result<()> {
        if self.ignores {
            return Ok(());
        }
        self.inner.sync().or_else(|_| self.inner.sync())
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
        Ok(Arc::new(BrokenFile { inner, ignores: self.ignores }))
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
        self.inner.sync_dir(path)
    }

    fn free_space(&self, path: &Path) -> Result<Option<u64>> {
        self.inner.free_space(path)
    }
}
