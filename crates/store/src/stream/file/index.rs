//! Index of one block: where each message is, what its subject is, and how the chunks lie in the file. Positions count unpacked bytes from the
//! start of the block, headers of chunks left out.
//!
//! A message is known by its slot: the first of a block has slot 0, deleted ones keep theirs. Nothing here changes when messages are deleted.

use super::names::Names;
use super::record::EXPIRY;
use crate::Timestamp;
use crate::stream::Expiry;

/// Subject number of a slot whose record could not be read when the index was rebuilt.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// A chunk in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkRef {
    /// Offset of its header in the file.
    pub at: u32,
    /// Length of what follows the header. Zero until it is written.
    pub stored: u32,
    /// Position of its first record.
    pub raw: u32,
    /// Slot of its first record.
    pub slot: u32,
    /// Times of its messages lie in between.
    pub oldest: Timestamp,
    pub newest: Timestamp,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Index {
    /// Sequence of slot 0.
    pub base: u64,
    /// Sequence of each slot, relative to the base; empty if none is missing between them.
    relative: Vec<u32>,
    /// Position of each slot's record.
    positions: Vec<u32>,
    /// Position after the last record.
    end: u32,
    /// Number of each slot's subject.
    subjects: Vec<u32>,
    pub names: Names,
    pub chunks: Vec<ChunkRef>,
    /// Messages that do not go with the maximum age alone, by slot.
    own: Vec<(u32, Expiry)>,
}

/// What a new slot holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub sequence: u64,
    pub timestamp: Timestamp,
    pub expiry: Expiry,
    /// `None` if the record could not be read.
    pub subject: Option<&'a [u8]>,
    /// Length of the record.
    pub length: u32,
}

impl Index {
    /// Of a block that will grow from this sequence on.
    pub(super) fn growing(base: u64) -> Self {
        Self::from_parts(
            Parts { base, relative: Vec::new(), positions: Vec::new(), end: 0, subjects: Vec::new() },
            Names::growing(),
        )
    }

    pub(super) fn from_parts(parts: Parts, names: Names) -> Self {
        let Parts { base, relative, positions, end, subjects } = parts;
        Self { base, relative, positions, end, subjects, names, chunks: Vec::new(), own: Vec::new() }
    }

    /// Completes what was read from disk: where the names occur, and what came with the slots.
    pub(super) fn complete(&mut self, chunks: Vec<ChunkRef>, own: Vec<(u32, Expiry)>) {
        for (slot, id) in self.subjects.iter().enumerate().filter(|(_, id)| **id != UNKNOWN) {
            self.names.occur(*id, slot as u32);
        }
        self.chunks = chunks;
        self.own = own;
    }

    /// Is no sequence missing between the slots?
    pub(super) fn is_dense(&self) -> bool {
        self.relative.is_empty()
    }

    /// Can a message with this sequence be added?
    pub(super) fn reaches(&self, sequence: u64) -> bool {
        sequence - self.base < u64::from(u32::MAX)
    }

    /// Starts a chunk; slots from now on are in it.
    pub(super) fn open_chunk(&mut self, at: u32) {
        let (oldest, newest) = (Timestamp(i64::MAX), Timestamp(i64::MIN));
        self.chunks.push(ChunkRef { at, stored: 0, raw: self.end, slot: self.slots(), oldest, newest });
    }

    /// The last chunk has been written with this stored length.
    pub(super) fn close_chunk(&mut self, stored: u32) {
        let Some(chunk) = self.chunks.last_mut() else { unreachable!("no chunk to close") };
        chunk.stored = stored;
    }

    /// Adds a slot to the last chunk.
    pub(super) fn push(&mut self, entry: Entry<'_>) -> u32 {
        let slot = self.slots();
        let relative = (entry.sequence - self.base) as u32;
        if self.relative.is_empty() && relative != slot {
            self.relative = (0..slot).collect();
        }
        if !self.relative.is_empty() || relative != slot {
            self.relative.push(relative);
        }
        self.positions.push(self.end);
        self.end += entry.length;
        match entry.subject {
            Some(subject) => {
                let id = self.names.intern(subject);
                self.names.occur(id, slot);
                self.subjects.push(id);
            }
            None => self.subjects.push(UNKNOWN),
        }
        if entry.expiry != Expiry::MaxAge {
            self.own.push((slot, entry.expiry));
        }
        if entry.subject.is_some() {
            let Some(chunk) = self.chunks.last_mut() else { unreachable!("a slot without a chunk") };
            chunk.oldest = chunk.oldest.min(entry.timestamp);
            chunk.newest = chunk.newest.max(entry.timestamp);
        }
        slot
    }

    /// Passes over bytes that belong to no slot.
    pub(super) fn skip(&mut self, length: u32) {
        self.end += length;
    }

    #[inline]
    pub(super) fn slots(&self) -> u32 {
        self.positions.len() as u32
    }

    /// Position after the last record.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    #[inline]
    pub(super) fn sequence(&self, slot: u32) -> u64 {
        let relative = if self.relative.is_empty() { slot } else { self.relative[slot as usize] };
        self.base + u64::from(relative)
    }

    /// The first slot with at least this sequence; one past the last slot if there is none.
    #[inline]
    pub(super) fn slot_from(&self, sequence: u64) -> u32 {
        let relative = sequence.saturating_sub(self.base);
        if self.relative.is_empty() {
            return relative.min(u64::from(self.slots())) as u32;
        }
        self.relative.partition_point(|other| u64::from(*other) < relative) as u32
    }

    /// Number of slots with at most this sequence.
    pub(super) fn slots_to(&self, sequence: u64) -> u32 {
        if sequence < self.base { 0 } else { self.slot_from(sequence.saturating_add(1)) }
    }

    #[inline]
    pub(super) fn find(&self, sequence: u64) -> Option<u32> {
        let slot = self.slot_from(sequence);
        (slot < self.slots() && self.sequence(slot) == sequence).then_some(slot)
    }

    /// Position of a slot's record and its length.
    #[inline]
    pub(super) fn place(&self, slot: u32) -> (u32, u32) {
        let position = self.positions[slot as usize];
        let end = self.positions.get(slot as usize + 1).copied().unwrap_or(self.end);
        (position, end - position)
    }

    /// Size of the message as users see it.
    #[inline]
    pub(super) fn size(&self, slot: u32) -> u64 {
        let length = u64::from(self.place(slot).1);
        match self.expiry(slot) {
            Expiry::At(_) => length.saturating_sub(EXPIRY as u64),
            _ => length,
        }
    }

    pub(super) fn expiry(&self, slot: u32) -> Expiry {
        if self.own.is_empty() {
            return Expiry::MaxAge;
        }
        match self.own.binary_search_by_key(&slot, |(slot, _)| *slot) {
            Ok(found) => self.own[found].1,
            Err(_) => Expiry::MaxAge,
        }
    }

    pub(super) fn own(&self) -> &[(u32, Expiry)] {
        &self.own
    }

    #[inline]
    pub(super) fn subject_id(&self, slot: u32) -> u32 {
        self.subjects[slot as usize]
    }

    /// Numbers of the subjects of all slots.
    pub(super) fn subject_ids(&self) -> &[u32] {
        &self.subjects
    }

    /// Subject of a slot; `None` if it could not be read.
    #[inline]
    pub(super) fn subject(&self, slot: u32) -> Option<&[u8]> {
        let id = self.subjects[slot as usize];
        (id != UNKNOWN).then(|| self.names.get(id))
    }

    /// Number of the chunk that a slot is in.
    pub(super) fn chunk_of(&self, slot: u32) -> u32 {
        self.chunks.partition_point(|chunk| chunk.slot <= slot) as u32 - 1
    }

    /// Slots of a chunk.
    pub(super) fn chunk_slots(&self, chunk: u32) -> std::ops::Range<u32> {
        let end = self.chunks.get(chunk as usize + 1).map_or_else(|| self.slots(), |next| next.slot);
        self.chunks[chunk as usize].slot..end
    }

    /// Unpacked length of a chunk.
    pub(super) fn chunk_length(&self, chunk: u32) -> u32 {
        let end = self.chunks.get(chunk as usize + 1).map_or(self.end, |next| next.raw);
        end - self.chunks[chunk as usize].raw
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        let slots = self.relative.capacity() + self.positions.capacity() + self.subjects.capacity();
        let own = self.own.capacity() * size_of::<(u32, Expiry)>();
        slots * 4 + own + self.names.memory() + self.chunks.capacity() * size_of::<ChunkRef>()
    }

    pub(super) fn parts(&self) -> (&[u32], &[u32]) {
        (&self.relative, &self.positions)
    }
}

/// The arrays of an index as they were read from disk.
#[derive(Debug)]
pub(super) struct Parts {
    pub base: u64,
    pub relative: Vec<u32>,
    pub positions: Vec<u32>,
    pub end: u32,
    pub subjects: Vec<u32>,
}

impl Parts {
    /// Could an index with so many names be made of them?
    pub(super) fn are_sound(&self, names: u32) -> bool {
        let slots = self.positions.len();
        let ascending = |values: &[u32]| values.windows(2).all(|pair| pair[0] < pair[1]);
        self.subjects.len() == slots
            && (self.relative.is_empty() || self.relative.len() == slots)
            && ascending(&self.relative)
            && ascending(&self.positions)
            && self.positions.last().is_none_or(|last| *last < self.end)
            && self.subjects.iter().all(|id| *id < names || *id == UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: u64, subject: &[u8], length: u32) -> Entry<'_> {
        let timestamp = Timestamp(sequence.cast_signed() * 10);
        Entry { sequence, timestamp, expiry: Expiry::MaxAge, subject: Some(subject), length }
    }

    #[test]
    fn dense_and_sparse_slots_are_found() {
        for gaps in [false, true] {
            let mut index = Index::growing(100);
            index.open_chunk(0);
            let sequences: Vec<u64> =
                (0..50).map(|slot| 100 + slot + if gaps { slot / 10 * 5 } else { 0 }).collect();
            for sequence in &sequences {
                index.push(entry(*sequence, b"s", 40));
            }
            assert_eq!(index.parts().0.is_empty(), !gaps);
            for sequence in 90..200 {
                let slot = sequences.iter().position(|other| *other == sequence);
                assert_eq!(index.find(sequence).map(|slot| slot as usize), slot);
                let from = sequences.iter().filter(|other| **other < sequence).count();
                assert_eq!(index.slot_from(sequence) as usize, from);
                assert_eq!(index.slots_to(sequence) as usize, from + usize::from(slot.is_some()));
            }
            assert_eq!((index.place(49), index.end()), ((49 * 40, 40), 2000));
        }
    }

    #[test]
    fn chunks_know_their_slots_and_own_expiry_is_not_part_of_the_size() {
        let mut index = Index::growing(1);
        for chunk in 0..3u64 {
            index.open_chunk(chunk as u32 * 1000);
            for at in 0..4 {
                let mut entry = entry(1 + chunk * 4 + at, b"s", 50);
                if at == 1 {
                    entry.expiry = Expiry::At(Timestamp(5));
                }
                index.push(entry);
            }
            index.close_chunk(200);
        }
        assert_eq!(
            (index.chunk_of(0), index.chunk_of(3), index.chunk_of(4), index.chunk_of(11)),
            (0, 0, 1, 2)
        );
        assert_eq!((index.chunk_slots(1), index.chunk_length(2)), (4..8, 200));
        assert_eq!((index.size(4), index.size(5), index.expiry(5)), (50, 42, Expiry::At(Timestamp(5))));
        assert_eq!(index.chunks[1].newest, Timestamp(80));
    }
}
