//! What a store and its checkpoint jobs both need: the disk, the directory, and how its files are named and sealed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cache::{Cache, Key, Part};
use super::chunk::Packer;
use super::options::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, FileOptions};
use crate::crypt::{Envelope, FileKey, SEAL_BYTES};
use crate::disk::{self, Disk, File, Open};
use crate::record::Identity;
use crate::stream::Error;

/// Name of the file that holds the key of the others, wrapped.
pub(super) const KEY: &str = "key";
/// Its replacement while it is being written.
pub(super) const KEY_NEW: &str = "key.new";
/// Name of the file that holds the checkpoints.
pub(super) const CHECKPOINT: &str = "checkpoint";
/// Its replacement while it is being written.
pub(super) const CHECKPOINT_NEW: &str = "checkpoint.new";
const BLOCK_SUFFIX: &str = ".blk";
const INDEX_SUFFIX: &str = ".idx";

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub options: FileOptions,
    /// Start of the stream's checksums.
    pub identity: Identity,
    /// Key of the stream's files, if they are encrypted.
    pub key: Option<Arc<FileKey>>,
    /// That key, wrapped.
    pub envelope: Option<Envelope>,
    /// Number of the store in the cache.
    pub store: u64,
}

/// What a name in the directory stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Block(u64),
    Index(u64),
    Checkpoint,
    Key,
    /// Left by a crash.
    Leftover(&'static str),
    /// Not ours.
    Other,
}

impl Shared {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, mut options: FileOptions) -> Self {
        options.block_bytes = options.block_bytes.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let (identity, store) = (Identity::new(&[options.identity]), options.cache.register());
        Self { disk, dir: dir.to_owned(), options, identity, key: None, envelope: None, store }
    }

    /// Bytes of a file that is encrypted as a whole, if any are.
    pub(super) fn seal(&self, place: &str, plain: Vec<u8>) -> Result<Vec<u8>, Error> {
        let Some(key) = &self.key else { return Ok(plain) };
        let mut sealed = Vec::with_capacity(plain.len() + SEAL_BYTES);
        key.seal(place.as_bytes(), &plain, &mut sealed)
            .map_err(|error| Error::Failed { reason: error.to_string() })?;
        Ok(sealed)
    }

    /// What was sealed; `None` if it is not what was.
    pub(super) fn unseal(&self, place: &str, sealed: Vec<u8>) -> Option<Vec<u8>> {
        match &self.key {
            Some(key) => key.open(place.as_bytes(), &sealed).ok(),
            None => Some(sealed),
        }
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.options.cache
    }

    pub(super) fn key(&self, block: u64, part: Part) -> Key {
        Key { store: self.store, block, part }
    }

    pub(super) fn packer(&self, block: u64) -> Packer {
        Packer::new(self.options.identity, block, self.options.compression, self.key.clone())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn block_path(&self, number: u64) -> PathBuf {
        self.path(&block_name(number))
    }

    pub(super) fn index_path(&self, number: u64) -> PathBuf {
        self.path(&index_name(number))
    }

    /// Opens a new file, in place of one that a crash may have left.
    pub(super) fn create(&self, path: &Path) -> disk::Result<Arc<dyn File>> {
        match self.disk.open(path, Open::Create) {
            Err(error) if error.source.kind() == std::io::ErrorKind::AlreadyExists => {
                self.disk.remove_file(path)?;
                self.disk.open(path, Open::Create)
            }
            opened => opened,
        }
    }

    /// Removes a file; no error if it is not there.
    pub(super) fn remove(&self, path: &Path) -> disk::Result<()> {
        match self.disk.remove_file(path) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// All bytes of a file.
    pub(super) fn read_all(&self, path: &Path) -> disk::Result<Vec<u8>> {
        let file = self.disk.open(path, Open::Read)?;
        let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        read(&*file, 0, length)
    }
}

/// Up to `length` bytes from an offset on, fewer at the end of the file.
pub(super) fn read(file: &dyn File, offset: u64, length: usize) -> disk::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let count = file.read_at(&mut bytes, offset)?;
    bytes.truncate(count);
    Ok(bytes)
}

pub(super) fn block_name(number: u64) -> String {
    format!("{number}{BLOCK_SUFFIX}")
}

pub(super) fn index_name(number: u64) -> String {
    format!("{number}{INDEX_SUFFIX}")
}

pub(super) fn parse_name(name: &str) -> Name {
    let number = |suffix| name.strip_suffix(suffix).and_then(|stem: &str| stem.parse().ok());
    match name {
        CHECKPOINT => Name::Checkpoint,
        KEY => Name::Key,
        CHECKPOINT_NEW => Name::Leftover(CHECKPOINT_NEW),
        KEY_NEW => Name::Leftover(KEY_NEW),
        _ => match (number(BLOCK_SUFFIX), number(INDEX_SUFFIX)) {
            (Some(block), _) => Name::Block(block),
            (_, Some(block)) => Name::Index(block),
            _ => Name::Other,
        },
    }
}
