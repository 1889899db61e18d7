//! Memory for parts of files that were used lately, shared by all streams of a server and bounded for all of them together.
//!
//! A store keeps what it is reading at the moment in its own hands and comes here only when it moves on, so the lock is taken once per chunk
//! and not once per message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hashbrown::HashMap;

use super::index::Index;
use crate::disk::File;

/// What an open file weighs, so that the bound of the cache bounds open files too: one per 32 KiB of it.
const FILE_WEIGHT: usize = 32 << 10;
/// What an entry weighs beside its content.
const ENTRY_WEIGHT: usize = 128;
/// What was not used while [`Cache::age`] was called so many times goes.
const AGES: usize = 5;

/// What is cached.
#[derive(Debug, Clone)]
pub(super) enum Cached {
    /// Unpacked messages of a chunk.
    Chunk(Bytes),
    /// Index of a block.
    Index(Arc<Index>),
    /// Handle of a block's file, for reading.
    File(Arc<dyn File>),
}

impl Cached {
    fn weight(&self) -> usize {
        ENTRY_WEIGHT
            + match self {
                Self::Chunk(bytes) => bytes.len(),
                Self::Index(index) => index.memory(),
                Self::File(_) => FILE_WEIGHT,
            }
    }
}

/// Where something is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Part {
    Chunk(u32),
    Index,
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    /// Which store, by the number that the cache gave it.
    pub store: u64,
    pub block: u64,
    pub part: Part,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Key, (Cached, u64)>,
    /// Keys by when they were used last; the same entries.
    by_use: BTreeMap<u64, Key>,
    clock: u64,
    /// The clock as it was when the last ages began, oldest first; at most [`AGES`].
    ages: VecDeque<u64>,
    bytes: usize,
    stores: u64,
}

/// Chunks, indexes and open files of streams, least recently used ones dropped first.
#[derive(Debug)]
pub struct Cache {
    bytes_max: AtomicUsize,
    entries: Mutex<Entries>,
}

impl Cache {
    /// A cache that holds at most this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max: AtomicUsize::new(bytes_max), entries: Mutex::default() }
    }

    /// Bytes that it may hold.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }

    /// Gives it more or less room; what has no place any more is dropped at once.
    pub fn resize(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Relaxed);
        self.lock().shrink(bytes_max);
    }

    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Begins another age, and drops what was last used more than five ages ago. Who calls this at a steady pace gets back the memory of
    /// what is at rest.
    pub fn age(&self) {
        let mut entries = self.lock();
        let clock = entries.clock;
        entries.ages.push_back(clock);
        if entries.ages.len() <= AGES {
            return;
        }
        let Some(end) = entries.ages.pop_front() else { return };
        let later = entries.by_use.split_off(&(end + 1));
        let unused = std::mem::replace(&mut entries.by_use, later);
        let dropped: Vec<Cached> = unused.into_values().filter_map(|key| entries.take(key)).collect();
        // Giving memory back takes time that others need not wait.
        drop(entries);
        drop(dropped);
    }

    /// Bytes held now by what they are: unpacked messages, indexes of blocks, and open files.
    pub fn bytes_by_part(&self) -> [(&'static str, usize); 3] {
        let entries = self.lock();
        let (mut messages, mut indexes, mut files) = (0, 0, 0);
        for (cached, _) in entries.by_key.values() {
            let sum = match cached {
                Cached::Chunk(_) => &mut messages,
                Cached::Index(_) => &mut indexes,
                Cached::File(_) => &mut files,
            };
            *sum += cached.weight();
        }
        [("messages", messages), ("indexes", indexes), ("files", files)]
    }

    // Entries are replaced whole, so a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a store that uses the cache.
    pub(super) fn register(&self) -> u64 {
        let mut entries = self.lock();
        entries.stores += 1;
        entries.stores
    }

    pub(super) fn get(&self, key: Key) -> Option<Cached> {
        let mut entries = self.lock();
        entries.clock += 1;
        let Entries { by_key, by_use, clock, .. } = &mut *entries;
        let (cached, used) = by_key.get_mut(&key)?;
        by_use.remove(used);
        *used = *clock;
        by_use.insert(*clock, key);
        Some(cached.clone())
    }

    pub(super) fn put(&self, key: Key, cached: Cached) {
        let weight = cached.weight();
        let bytes_max = self.bytes_max();
        if weight > bytes_max {
            return;
        }
        let mut entries = self.lock();
        entries.remove(key);
        entries.clock += 1;
        let clock = entries.clock;
        entries.by_key.insert(key, (cached, clock));
        entries.by_use.insert(clock, key);
        entries.bytes += weight;
        entries.shrink(bytes_max);
    }

    /// Forgets what is known of a block that goes.
    pub(super) fn forget(&self, store: u64, block: u64, chunks: u32) {
        let mut entries = self.lock();
        for part in [Part::Index, Part::File].into_iter().chain((0..chunks).map(Part::Chunk)) {
            entries.remove(Key { store, block, part });
        }
    }
}

impl Entries {
    /// Drops what was not used for longest until the rest fits.
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(oldest) = self.by_use.first_key_value().map(|(_, key)| *key) else { break };
            self.remove(oldest);
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some((_, used)) = self.by_key.get(&key) {
            self.by_use.remove(used);
            self.take(key);
        }
    }

    /// Takes out what the order of use does not know any more.
    fn take(&mut self, key: Key) -> Option<Cached> {
        let (cached, _) = self.by_key.remove(&key)?;
        self.bytes -= cached.weight();
        Some(cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(chunk: u32) -> Key {
        Key { store: 1, block: 1, part: Part::Chunk(chunk) }
    }

    #[test]
    fn least_recently_used_goes_first_and_the_bound_holds() {
        let each = 1000 - ENTRY_WEIGHT;
        let cache = Cache::new(3000);
        for chunk in 0..3 {
            cache.put(key(chunk), Cached::Chunk(Bytes::from(vec![0; each])));
        }
        assert_eq!(cache.bytes(), 3000);
        assert_eq!(cache.bytes_by_part(), [("messages", 3000), ("indexes", 0), ("files", 0)]);
        assert!(cache.get(key(0)).is_some());
        cache.put(key(3), Cached::Chunk(Bytes::from_static(b"x")));
        assert!(cache.get(key(1)).is_none() && cache.get(key(0)).is_some() && cache.get(key(2)).is_some());
        cache.put(key(4), Cached::Chunk(Bytes::from(vec![0; 3001])));
        assert!(cache.get(key(4)).is_none() && cache.bytes() <= 3000);
        cache.resize(1000);
        assert!(cache.get(key(2)).is_some() && cache.bytes() <= 1000);
        cache.put(key(5), Cached::Chunk(Bytes::from(vec![0; each + 1])));
        assert!(cache.get(key(5)).is_none());
        cache.resize(2000);
        cache.put(key(5), Cached::Chunk(Bytes::from(vec![0; each + 1])));
        assert!(cache.get(key(5)).is_some());
        cache.forget(1, 1, 6);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn what_is_not_used_for_five_ages_goes() {
        let cache = Cache::new(100_000);
        cache.put(key(0), Cached::Chunk(Bytes::from_static(b"used")));
        cache.put(key(1), Cached::Chunk(Bytes::from_static(b"not used")));
        for _ in 0..AGES {
            cache.age();
            assert!(cache.get(key(0)).is_some());
        }
        assert_eq!(cache.bytes(), 2 * ENTRY_WEIGHT + 12);
        cache.age();
        assert!(cache.get(key(1)).is_none());
        for _ in 0..AGES {
            assert_eq!(cache.bytes(), ENTRY_WEIGHT + 4);
            cache.age();
        }
        cache.age();
        assert_eq!(cache.bytes(), 0);
        cache.put(key(1), Cached::Chunk(Bytes::from_static(b"new")));
        cache.age();
        assert!(cache.get(key(1)).is_some());
    }
}
