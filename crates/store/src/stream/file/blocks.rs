//! The blocks of a stream in order of their sequences, and how their indexes, chunks and messages are read.
//!
//! Reading changes nothing that counts, but it remembers: what was read last stays at hand, and damage that was met is noted until the store asks
//! for it. A damaged message is passed over, as if it were deleted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use bytes::Bytes;

use super::block::{Block, Place};
use super::cache::{Cached, Part};
use super::chunk::{HEADER, Packer};
use super::index::{ChunkRef, Index};
use super::index_file;
use super::record;
use super::scan::{self, Lost, Scanned};
use super::select::Selections;
use super::shared::{Shared, block_name, index_name, read};
use super::write::Growing;
use crate::disk::{self, File, Open};
use crate::stream::{Damage, Error, Message};

/// Neighbouring chunks are read in one go up to this many bytes.
const READ_AHEAD: u32 = 256 << 10;
/// A record is read without the rest of its chunk if it is less than one part in this many of it.
const SCATTERED_DIVISOR: usize = 8;
/// Damage noted at most before someone asks; what is beyond is met again later.
const DAMAGE_MAX: usize = 1024;

/// What was read last, so that reading on takes no lock.
#[derive(Debug, Default)]
struct Hand {
    index: Option<(u64, Arc<Index>)>,
    chunk: Option<(u64, u32, Bytes)>,
    /// Block and chunk of the last record that was read by itself.
    single: Option<(u64, u32)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Blocks {
    pub shared: Arc<Shared>,
    pub list: VecDeque<Block>,
    /// Writer of the last block, if that still grows.
    pub growing: Option<Growing>,
    hand: RefCell<Hand>,
    damage: RefCell<Vec<Damage>>,
    pub selections: RefCell<Selections>,
}

/// An index, borrowed from where it is.
#[derive(Debug)]
pub(super) enum IndexRef<'a> {
    Growing(&'a Index),
    Held(&'a Arc<Index>),
    Shared(Arc<Index>),
}

impl Deref for IndexRef<'_> {
    type Target = Index;

    #[inline]
    fn deref(&self) -> &Index {
        match self {
            Self::Growing(index) => index,
            Self::Held(index) => index,
            Self::Shared(index) => index,
        }
    }
}

impl IndexRef<'_> {
    /// A handle of its own; for the index of a growing block that is a copy.
    pub(super) fn to_shared(&self) -> Arc<Index> {
        match self {
            Self::Growing(index) => Arc::new((*index).clone()),
            Self::Held(index) => Arc::clone(index),
            Self::Shared(index) => index.clone(),
        }
    }
}

/// Where a record is in its chunk. The unpacked length of a chunk is compared with its index, so slicing is safe.
#[derive(Debug, Clone, Copy)]
struct Stored {
    chunk: u32,
    start: usize,
    end: usize,
}

/// Why a chunk could not be had: the disk failed, or what it gave is no good.
enum Unreadable {
    Disk(disk::Error),
    Damaged(String),
}

impl From<disk::Error> for Unreadable {
    fn from(error: disk::Error) -> Self {
        if error.is_not_found() { Self::Damaged("file is missing".to_owned()) } else { Self::Disk(error) }
    }
}

impl Blocks {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (hand, damage, selections) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { shared, list: VecDeque::new(), growing: None, hand, damage, selections }
    }

    /// Position of the last block that starts at or before a sequence.
    #[inline]
    pub(super) fn position(&self, sequence: u64) -> Option<usize> {
        if let Some(last) = self.list.back()
            && last.facts.base <= sequence
        {
            return Some(self.list.len() - 1);
        }
        self.list.partition_point(|block| block.facts.base <= sequence).checked_sub(1)
    }

    /// Position of the first block that may hold something at or after a sequence; the number of blocks if there is none.
    #[inline]
    pub(super) fn position_from(&self, sequence: u64) -> usize {
        match self.position(sequence) {
            Some(at) if self.list[at].facts.last >= sequence => at,
            Some(at) => at + 1,
            None => 0,
        }
    }

    /// Index of the block at a position.
    pub(super) fn index(&self, at: usize) -> Result<IndexRef<'_>, Error> {
        let block = &self.list[at];
        match (&block.place, &self.growing) {
            (Place::Growing, Some(growing)) => Ok(IndexRef::Growing(&growing.index)),
            (Place::Memory(index), _) => Ok(IndexRef::Held(index)),
            _ => self.index_at_hand(block).map(IndexRef::Shared),
        }
    }

    fn index_at_hand(&self, block: &Block) -> Result<Arc<Index>, Error> {
        let number = block.facts.number;
        let mut hand = self.hand.borrow_mut();
        if let Some((at_hand, index)) = &hand.index
            && *at_hand == number
        {
            return Ok(index.clone());
        }
        let key = self.shared.key(number, Part::Index);
        let index = match self.shared.cache().get(key) {
            Some(Cached::Index(index)) => index,
            _ => {
                let index = Arc::new(self.load_index(block)?);
                self.shared.cache().put(key, Cached::Index(index.clone()));
                index
            }
        };
        hand.index = Some((number, index.clone()));
        Ok(index)
    }

    /// The index from its file, or made anew from the block if that file is no good.
    fn load_index(&self, block: &Block) -> Result<Index, Error> {
        let facts = &block.facts;
        let reason = match self.shared.read_all(&self.shared.index_path(facts.number)) {
            Ok(bytes) => match index_file::open(&self.shared, facts, bytes) {
                Ok(index) => return Ok(index),
                Err(reason) => reason.to_owned(),
            },
            Err(error) if error.is_not_found() => "file is missing".to_owned(),
            Err(error) => return Err(error.into()),
        };
        self.note(Damage { file: index_name(facts.number), sequences: None, reason });
        let Scanned { index, lost, .. } = scan::block(&self.shared, facts)?;
        // Slots are what deletions are known by: the scan must not move any.
        if index.slots() != facts.slots {
            let (file, reason) = (block_name(facts.number), "neither block nor index can be read".to_owned());
            return Err(Error::Damaged(Damage { file, sequences: Some(facts.base..=facts.last), reason }));
        }
        for Lost { sequences, reason, .. } in lost {
            let slots = index.slot_from(*sequences.start())..index.slots_to(*sequences.end());
            if block.count(slots) > 0 {
                self.note_lost(block, sequences, reason);
            }
        }
        Ok(index)
    }

    /// Remembers damage until it is asked for.
    pub(super) fn note(&self, damage: Damage) {
        let mut noted = self.damage.borrow_mut();
        if noted.len() < DAMAGE_MAX && !noted.contains(&damage) {
            noted.push(damage);
        }
    }

    pub(super) fn take_damage(&mut self) -> Vec<Damage> {
        std::mem::take(self.damage.get_mut())
    }

    fn note_lost(&self, block: &Block, sequences: RangeInclusive<u64>, reason: String) {
        let file = block_name(block.facts.number);
        self.note(Damage { file, sequences: Some(sequences), reason });
    }

    /// Handle of a block's file, for reading.
    fn file(&self, number: u64) -> disk::Result<Arc<dyn File>> {
        let key = self.shared.key(number, Part::File);
        if let Some(Cached::File(file)) = self.shared.cache().get(key) {
            return Ok(file);
        }
        let file = self.shared.disk.open(&self.shared.block_path(number), Open::Read)?;
        self.shared.cache().put(key, Cached::File(file.clone()));
        Ok(file)
    }

    /// The record at a position of a chunk that has been written; `None` if it is damaged, which is noted.
    fn stored(&self, block: &Block, index: &Index, place: Stored) -> Result<Option<Bytes>, Error> {
        let (name, Stored { chunk: number, start, end }) = (block.facts.number, place);
        if let Some((at_hand, chunk, bytes)) = &self.hand.borrow().chunk
            && *at_hand == name
            && *chunk == number
        {
            return Ok(Some(bytes.slice(start..end)));
        }
        let found = match self.shared.cache().get(self.shared.key(name, Part::Chunk(number))) {
            Some(Cached::Chunk(bytes)) => Ok(bytes),
            _ if self.is_scattered(name, index, place) => match self.read_single(name, index, place) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) => Err(error),
            },
            _ => self.read_chunks(block, index, number),
        };
        match found {
            Ok(bytes) => {
                let record = bytes.slice(start..end);
                self.hand.borrow_mut().chunk = Some((name, number, bytes));
                Ok(Some(record))
            }
            Err(Unreadable::Disk(error)) => Err(error.into()),
            Err(Unreadable::Damaged(reason)) => {
                let slots = index.chunk_slots(number);
                let sequences = index.sequence(slots.start)..=index.sequence(slots.end - 1);
                self.note_lost(block, sequences, reason);
                Ok(None)
            }
        }
    }

    /// Is a small record wanted from a plain chunk that nothing was read of just before? Then its neighbours are not likely to be wanted.
    fn is_scattered(&self, block: u64, index: &Index, place: Stored) -> bool {
        let chunk = index.chunks[place.chunk as usize];
        let plain = chunk.stored == index.chunk_length(place.chunk);
        let mut hand = self.hand.borrow_mut();
        let again = hand.single == Some((block, place.chunk));
        let next = hand
            .chunk
            .as_ref()
            .is_some_and(|(at_hand, number, _)| *at_hand == block && number + 1 == place.chunk);
        hand.single = Some((block, place.chunk));
        plain
            && !again
            && !next
            && place.start > 0
            && (place.end - place.start) * SCATTERED_DIVISOR < chunk.stored as usize
    }

    fn read_single(&self, block: u64, index: &Index, place: Stored) -> Result<Bytes, Unreadable> {
        let chunk = index.chunks[place.chunk as usize];
        let offset = u64::from(chunk.at) + HEADER as u64 + place.start as u64;
        let bytes = read(&*self.file(block)?, offset, place.end - place.start)?;
        if bytes.len() == place.end - place.start {
            Ok(Bytes::from(bytes))
        } else {
            Err(Unreadable::Damaged("chunk cut short".to_owned()))
        }
    }

    /// Reads a chunk, and small ones behind it along with it.
    fn read_chunks(&self, block: &Block, index: &Index, number: u32) -> Result<Bytes, Unreadable> {
        let first = index.chunks[number as usize];
        let whole = |chunk: &ChunkRef| chunk.stored + HEADER as u32;
        let mut length = whole(&first);
        let mut count = 1;
        for chunk in &index.chunks[number as usize + 1..] {
            if chunk.stored == 0 || chunk.at != first.at + length || length + whole(chunk) > READ_AHEAD {
                break;
            }
            length += whole(chunk);
            count += 1;
        }
        let file = self.file(block.facts.number)?;
        let bytes = Bytes::from(read(&*file, u64::from(first.at), length as usize)?);
        let packer = self.shared.packer(block.facts.number);
        let chunks = (number..number + count).rev();
        let mut result = Err(Unreadable::Damaged("chunk cut short".to_owned()));
        for chunk in chunks {
            let reference = &index.chunks[chunk as usize];
            let start = ((reference.at - first.at) as usize).min(bytes.len());
            let end = (start + whole(reference) as usize).min(bytes.len());
            let unpacked = unpack(&packer, &bytes.slice(start..end), index.chunk_length(chunk), reference);
            if let Ok(raw) = &unpacked {
                let key = self.shared.key(block.facts.number, Part::Chunk(chunk));
                self.shared.cache().put(key, Cached::Chunk(raw.clone()));
            }
            result = unpacked.map_err(|reason| Unreadable::Damaged(reason.to_owned()));
        }
        result
    }

    /// The record of a slot and what it says; `None` if it is damaged, which is noted.
    pub(super) fn record(
        &self,
        at: usize,
        index: &Index,
        slot: u32,
    ) -> Result<Option<(Bytes, record::Parts)>, Error> {
        let block = &self.list[at];
        let (position, length) = index.place(slot);
        let number = index.chunk_of(slot);
        let start = (position - index.chunks[number as usize].raw) as usize;
        let end = start + length as usize;
        let bytes = match (&block.place, &self.growing) {
            (Place::Growing, Some(growing)) if index.chunks[number as usize].stored == 0 => {
                Bytes::copy_from_slice(&growing.pending()[start..end])
            }
            _ => match self.stored(block, index, Stored { chunk: number, start, end })? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
        };
        let sequence = index.sequence(slot);
        let parsed = record::parse(self.shared.identity, &bytes);
        match parsed {
            Ok(parts) if parts.sequence == sequence && !parts.erased => Ok(Some((bytes, parts))),
            Ok(parts) => {
                let what = if parts.erased { "an erased record" } else { "a record" };
                self.note_lost(
                    block,
                    sequence..=sequence,
                    format!("{what} of {} in its place", parts.sequence),
                );
                Ok(None)
            }
            Err(reason) => {
                self.note_lost(block, sequence..=sequence, reason.to_owned());
                Ok(None)
            }
        }
    }

    /// The message in a slot; `None` if it is damaged.
    pub(super) fn message(&self, at: usize, index: &Index, slot: u32) -> Result<Option<Message>, Error> {
        Ok(self.record(at, index, slot)?.map(|(bytes, parts)| parts.message(bytes)))
    }

    /// Where a message is that is held.
    pub(super) fn find(&self, sequence: u64) -> Result<Option<(usize, IndexRef<'_>, u32)>, Error> {
        let Some(at) = self.position(sequence) else { return Ok(None) };
        let block = &self.list[at];
        if block.facts.last < sequence || block.live == 0 {
            return Ok(None);
        }
        let index = self.index(at)?;
        let found = index.find(sequence).filter(|slot| !block.dead.contains(*slot));
        Ok(found.map(|slot| (at, index, slot)))
    }

    /// The sequence of the first message held at or after one.
    pub(super) fn first_from(&self, from: u64) -> Result<Option<u64>, Error> {
        for at in self.position_from(from)..self.list.len() {
            let block = &self.list[at];
            if block.live == 0 {
                continue;
            }
            let index = self.index(at)?;
            if let Some(slot) = block.live_from(index.slot_from(from)) {
                return Ok(Some(index.sequence(slot)));
            }
        }
        Ok(None)
    }

    /// Forgets what is at hand of a block that goes.
    pub(super) fn forget(&self, number: u64, chunks: u32) {
        let mut hand = self.hand.borrow_mut();
        if hand.index.as_ref().is_some_and(|(block, _)| *block == number) {
            hand.index = None;
        }
        if hand.chunk.as_ref().is_some_and(|(block, ..)| *block == number) {
            hand.chunk = None;
        }
        self.shared.cache().forget(self.shared.store, number, chunks);
    }
}

/// Unpacks a chunk as it is in the file. One whose header alone is damaged is still good if it can only be a plain one.
pub(super) fn unpack(
    packer: &Packer,
    chunk: &Bytes,
    length: u32,
    reference: &ChunkRef,
) -> Result<Bytes, &'static str> {
    if chunk.len() != reference.stored as usize + HEADER {
        return Err("chunk cut short");
    }
    let stored = chunk.slice(HEADER..);
    let raw = match packer.header(reference.at, chunk) {
        Some(header) if header.stored == reference.stored => packer.unpack(&header, stored)?,
        _ if reference.stored == length => stored,
        _ => return Err("chunk header is damaged"),
    };
    if raw.len() == length as usize { Ok(raw) } else { Err("length of a chunk differs") }
}
