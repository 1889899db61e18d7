//! Real files: the only place of the cores that touches them.
//!
//! Reads and writes name their offset, `sync` is `fdatasync`, and a directory is synced by opening it. Two things that the standard library
//! cannot do, reserving space and asking how much is free, come in as [`Calls`] from the shell, which may use the system's interface.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, Error, File, Open, Result};

/// System calls that the shell lends. Without one its operation has no effect and no answer, which the traits allow.
#[derive(Clone, Copy, Default)]
pub struct Calls {
    /// Reserves the first so many bytes of a file without changing its length (`fallocate` with `FALLOC_FL_KEEP_SIZE`).
    pub reserve: Option<fn(BorrowedFd<'_>, u64) -> io::Result<()>>,
    /// Bytes that this process can still write to the file system of a path (`statvfs`).
    pub free_space: Option<fn(&Path) -> io::Result<u64>>,
}

/// The file system of this computer.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk {
    calls: Calls,
}

impl OsDisk {
    /// With the standard library alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With calls lent by the shell.
    #[must_use]
    pub fn with_calls(calls: Calls) -> Self {
        Self { calls }
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("reserve", &self.reserve.is_some())
            .field("free_space", &self.free_space.is_some())
            .finish()
    }
}

/// Adds operation and path to what the system said.
trait At<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::new(operation, path, source))
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, how: Open) -> Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(how != Open::Read).create_new(how == Open::Create);
        let file = options.open(path).at("open", path)?;
        Ok(Arc::new(OsFile { file, path: path.to_owned(), calls: self.calls }))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).at("create directory", path)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).at("list", path)? {
            let name = entry.at("list", path)?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).at("rename", from)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).at("remove", path)
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.at("remove directory", path),
        }
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        #[allow(clippy::disallowed_types, reason = "the one door to files")]
        let directory = fs::File::open(path).at("open directory", path)?;
        directory.sync_all().at("sync directory", path)
    }

    fn free_space(&self, path: &Path) -> Result<Option<u64>> {
        let Some(call) = self.calls.free_space else { return Ok(None) };
        call(path).map(Some).at("ask for free space", path)
    }
}

#[derive(Debug)]
struct OsFile {
    #[allow(clippy::disallowed_types, reason = "the one door to files")]
    file: fs::File,
    path: PathBuf,
    calls: Calls,
}

impl File for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at("read", &self.path),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).at("write", &self.path)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().at("sync", &self.path)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).at("set length of", &self.path)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let Some(call) = self.calls.reserve else { return Ok(()) };
        match call(self.file.as_fd(), len) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported) => Ok(()),
            result => result.at("reserve", &self.path),
        }
    }

    fn len(&self) -> Result<u64> {
        self.file.metadata().map(|metadata| metadata.len()).at("measure", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_at_its_offset() {
        let directory = tempfile::tempdir().unwrap();
        let disk = OsDisk::new();
        let path = directory.path().join("a/b/file");
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        let file = disk.open(&path, Open::Create).unwrap();
        file.write_at(b"world", 6).unwrap();
        file.write_at(b"hello ", 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let reader = disk.open(&path, Open::Read).unwrap();
        assert_eq!(reader.read_at(&mut buffer, 0).unwrap(), 11);
        assert_eq!(&buffer[..11], b"hello world");
        assert_eq!(reader.read_at(&mut buffer, 8).unwrap(), 3);
        assert_eq!(reader.read_at(&mut buffer, 99).unwrap(), 0);
        assert_eq!(reader.write_at(b"x", 0).unwrap_err().operation, "write");
        file.set_len(20).unwrap();
        file.allocate(100).unwrap();
        assert_eq!(reader.len().unwrap(), 20);
        assert_eq!(reader.read_at(&mut buffer, 4).unwrap(), 16);
        assert_eq!(&buffer, b"o world\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn names_are_created_once_listed_renamed_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let disk = OsDisk::new();
        let at = |name: &str| directory.path().join(name);
        for name in ["c", "a", "b"] {
            disk.open(&at(name), Open::Create).unwrap();
        }
        let again = disk.open(&at("a"), Open::Create).unwrap_err();
        assert_eq!(again.source.kind(), io::ErrorKind::AlreadyExists);
        disk.rename(&at("a"), &at("c")).unwrap();
        assert_eq!(disk.list(directory.path()).unwrap(), ["b", "c"]);
        disk.remove_file(&at("b")).unwrap();
        assert!(disk.remove_file(&at("b")).unwrap_err().is_not_found());
        assert!(disk.open(&at("b"), Open::Write).unwrap_err().is_not_found());
        assert!(disk.list(&at("none")).unwrap_err().is_not_found());
        disk.create_dir_all(&at("d/e")).unwrap();
        disk.remove_dir_all(&at("d")).unwrap();
        disk.remove_dir_all(&at("d")).unwrap();
        assert_eq!(disk.list(directory.path()).unwrap(), ["c"]);
    }

    #[test]
    fn calls_are_used_when_lent() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(OsDisk::new().free_space(directory.path()).unwrap(), None);
        let refuse: fn(BorrowedFd<'_>, u64) -> io::Result<()> = |_, len| {
            if len > 10 {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Err(io::ErrorKind::Unsupported.into())
            }
        };
        let disk = OsDisk::with_calls(Calls { reserve: Some(refuse), free_space: Some(|_| Ok(7)) });
        assert_eq!(disk.free_space(directory.path()).unwrap(), Some(7));
        let file = disk.open(&directory.path().join("f"), Open::Create).unwrap();
        file.allocate(10).unwrap();
        assert!(file.allocate(11).unwrap_err().is_full());
    }
}
