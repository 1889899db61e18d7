//! Bytes of one file: as programs see them, and as they stand on stable storage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::random::Random;

/// Unit in which unsynced bytes survive or not.
pub(crate) const PAGE: usize = 4096;
/// Unit of which a disk writes all or nothing.
const SECTOR: usize = 512;
const ZEROS: [u8; PAGE] = [0; PAGE];

/// Pages are shared between both images until one of them changes. A page that is not there holds zeros.
#[derive(Debug, Clone, Default)]
struct Image {
    len: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Image {
    /// Forgets what is behind `len`, so that zeros are there if the file grows again. The length is the caller's.
    fn forget_behind(&mut self, len: u64) {
        let (page, used) = place(len);
        drop(self.pages.split_off(&len.div_ceil(PAGE as u64)));
        if let Some(last) = self.pages.get_mut(&page) {
            Arc::make_mut(last)[used..].fill(0);
        }
    }

    fn page_mut(&mut self, page: u64) -> &mut [u8; PAGE] {
        Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new(ZEROS)))
    }

    fn page(&self, page: u64) -> &[u8; PAGE] {
        self.pages.get(&page).map_or(&ZEROS, |page| page)
    }
}

/// Page and place in it of an offset.
fn place(offset: u64) -> (u64, usize) {
    (offset / PAGE as u64, (offset % PAGE as u64) as usize)
}

/// What becomes of the unsynced bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Kept,
    /// Each page and the length on their own, single pages in parts.
    Torn,
}

/// Both images of a file, and how they differ.
#[derive(Debug, Default)]
pub(crate) struct Content {
    now: Image,
    durable: Image,
    /// Pages that were written since the last sync.
    dirty: BTreeSet<u64>,
    /// Shortest length since the last sync, if it was cut.
    cut: Option<u64>,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.now.len
    }

    /// Pages that the file takes, the larger of both images.
    pub(crate) fn pages(&self) -> usize {
        self.now.pages.len().max(self.durable.pages.len())
    }

    /// Whether a crash can change what programs see.
    pub(crate) fn is_unsynced(&self) -> bool {
        !self.dirty.is_empty() || self.cut.is_some() || self.now.len != self.durable.len
    }

    pub(crate) fn read(&self, offset: u64, size: usize) -> Vec<u8> {
        let end = offset.saturating_add(size as u64).min(self.now.len);
        let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut at = offset;
        while at < end {
            let (page, start) = place(at);
            let count = (PAGE - start).min((end - at) as usize);
            bytes.extend_from_slice(&self.now.page(page)[start..start + count]);
            at += count as u64;
        }
        bytes
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (page, start) = place(at);
            let count = (PAGE - start).min(rest.len());
            self.now.page_mut(page)[start..start + count].copy_from_slice(&rest[..count]);
            self.dirty.insert(page);
            at += count as u64;
            rest = &rest[count..];
        }
        self.now.len = self.now.len.max(at);
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.now.len {
            self.now.forget_behind(len);
            drop(self.dirty.split_off(&len.div_ceil(PAGE as u64)));
            self.cut = Some(self.cut.map_or(len, |cut| cut.min(len)));
        }
        self.now.len = len;
    }

    pub(crate) fn sync(&mut self) {
        if let Some(cut) = self.cut.take() {
            self.durable.forget_behind(cut);
        }
        for page in std::mem::take(&mut self.dirty) {
            if let Some(bytes) = self.now.pages.get(&page) {
                self.durable.pages.insert(page, bytes.clone());
            }
        }
        self.durable.len = self.now.len;
    }

    /// Loses or keeps what was not synced. What is left is durable.
    pub(crate) fn crash(&mut self, fate: Fate, random: &mut Random) {
        match fate {
            Fate::Lost => {}
            Fate::Kept => self.sync(),
            Fate::Torn => self.tear(random),
        }
        self.now = self.durable.clone();
        self.dirty.clear();
        self.cut = None;
    }

    fn tear(&mut self, random: &mut Random) {
        if let Some(cut) = self.cut.filter(|_| random.chance(50)) {
            self.durable.forget_behind(cut);
            self.durable.len = self.durable.len.min(cut);
        }
        for page in &self.dirty {
            match random.below(3) {
                0 => {}
                1 => *self.durable.page_mut(*page) = *self.now.page(*page),
                _ => {
                    for start in (0..PAGE).step_by(SECTOR).filter(|_| random.chance(50)) {
                        let sector = start..start + SECTOR;
                        self.durable.page_mut(*page)[sector.clone()]
                            .copy_from_slice(&self.now.page(*page)[sector]);
                    }
                }
            }
        }
        let grown = self.now.len.saturating_sub(self.durable.len);
        if grown > 0 {
            self.durable.len += match random.below(3) {
                0 => 0,
                1 => grown,
                _ => random.below(grown),
            };
        }
        self.durable.forget_behind(self.durable.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this content, synced.
    fn synced(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.write(0, bytes);
        content.sync();
        content
    }

    fn all(content: &Content) -> Vec<u8> {
        content.read(0, usize::MAX >> 1)
    }

    #[test]
    fn what_is_written_is_read_and_holes_are_zeros() {
        let mut content = Content::default();
        content.write(PAGE as u64 - 2, b"abcd");
        content.write(3 * PAGE as u64, b"z");
        assert_eq!(content.len(), 3 * PAGE as u64 + 1);
        assert_eq!(content.read(PAGE as u64 - 3, 6), b"\0abcd\0");
        assert_eq!(content.read(3 * PAGE as u64, 10), b"z");
        assert_eq!(content.read(4 * PAGE as u64, 10), b"");
        assert_eq!((content.pages(), all(&content).len()), (3, 3 * PAGE + 1));
    }

    #[test]
    fn a_crash_goes_back_to_the_last_sync() {
        let mut content = synced(b"old and synced");
        content.write(0, b"new");
        content.write(PAGE as u64 * 5, b"behind");
        content.crash(Fate::Lost, &mut Random::new(1));
        assert_eq!(all(&content), b"old and synced");
        content.set_len(3);
        content.crash(Fate::Lost, &mut Random::new(1));
        assert_eq!(all(&content), b"old and synced");
        content.set_len(3);
        content.sync();
        content.set_len(9);
        content.sync();
        assert!(!content.is_unsynced());
        content.crash(Fate::Lost, &mut Random::new(1));
        assert_eq!(all(&content), b"old\0\0\0\0\0\0");
    }

    #[test]
    fn what_was_cut_off_does_not_come_back_after_a_sync() {
        let mut content = synced(&[7; 3 * PAGE]);
        content.set_len(10);
        content.set_len(2 * PAGE as u64);
        content.write(PAGE as u64 + 5, b"x");
        let before = all(&content);
        content.sync();
        content.crash(Fate::Torn, &mut Random::new(1));
        assert_eq!(all(&content), before);
        assert_eq!((before[9], before[10], before[PAGE + 5]), (7, 0, b'x'));
    }

    #[test]
    fn a_torn_file_mixes_old_and_new_sectors() {
        let (mut old, mut new, mut mixed, mut lengths) = (0, 0, 0, BTreeSet::new());
        for seed in 0..200 {
            let mut content = synced(&[1; 2 * PAGE]);
            content.write(0, &[2; 3 * PAGE]);
            content.crash(Fate::Torn, &mut Random::new(seed));
            let bytes = all(&content);
            for sector in bytes[..2 * PAGE].chunks(SECTOR) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}: a sector is torn");
            }
            match bytes[..PAGE].iter().filter(|byte| **byte == 2).count() {
                0 => old += 1,
                PAGE => new += 1,
                _ => mixed += 1,
            }
            assert!((2 * PAGE..=3 * PAGE).contains(&bytes.len()), "seed {seed}: {}", bytes.len());
            assert!(bytes[2 * PAGE..].iter().all(|byte| matches!(byte, 0 | 2)), "seed {seed}");
            lengths.insert(bytes.len());
        }
        assert!(old > 20 && new > 20 && mixed > 20, "{old} {new} {mixed}");
        assert!(lengths.len() > 10, "{lengths:?}");
    }

    #[test]
    fn a_kept_file_is_whole() {
        let mut content = synced(b"1");
        content.write(1, b"2");
        content.crash(Fate::Kept, &mut Random::new(1));
        assert_eq!(all(&content), b"12");
    }
}
