//! How a file store is opened: what it belongs to, how its blocks look, and the memory it shares with others.

use std::sync::Arc;

use super::cache::Cache;
use crate::crypt::Keyring;

/// Size at which a block is closed, unless the owner says otherwise: large enough that files stay few, small enough that a dead one goes soon.
pub const BLOCK_BYTES_DEFAULT: u32 = 8 << 20;
/// A block is never closed before it has this size, whatever the options say.
pub const BLOCK_BYTES_MIN: u32 = 4 << 10;
/// No block is asked to grow beyond this, so that every position in it fits 32 bits; one message may still exceed it.
pub const BLOCK_BYTES_MAX: u32 = 1 << 30;

/// How the messages of a block are packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// S2: written in its Snappy subset, which every S2 reader understands.
    S2,
}

/// How a [`FileStore`](super::FileStore) is opened.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Number of the stream that no other stream on this disk has or had. Every checksum depends on it, so that bytes of another stream are
    /// never taken for this one's.
    pub identity: u64,
    /// Applies to what is written from now on; either form is read.
    pub compression: Compression,
    /// Keys, if the stream is to be encrypted. A stream stays what it was created as.
    pub keyring: Option<Arc<Keyring>>,
    /// A block that has grown to this many bytes is closed and the next one begun.
    pub block_bytes: u32,
    /// Memory for what was read and written lately; one for all streams.
    pub cache: Arc<Cache>,
    /// The newest checkpoint that is known to have been on stable storage with everything that it names, as
    /// [`StreamStore::newest_checkpoint`](crate::stream::StreamStore::newest_checkpoint) named it; zero for none. If it is the one that the files show,
    /// opening need not write and sync it again.
    pub confirmed: u64,
}

impl FileOptions {
    /// Plain blocks of the default size for the stream with this identity, with a share of the cache.
    pub fn new(identity: u64, cache: Arc<Cache>) -> Self {
        Self {
            identity,
            compression: Compression::None,
            keyring: None,
            block_bytes: BLOCK_BYTES_DEFAULT,
            cache,
            confirmed: 0,
        }
    }
}
