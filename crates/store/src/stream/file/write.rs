//! Writing at the end of a stream: records gather in a buffer, a full buffer becomes a chunk of the file, a full block is closed and another begun.

use std::sync::Arc;

use bytes::Bytes;

use super::block::{Block, Place};
use super::blocks::Blocks;
use super::cache::{Cached, Part};
use super::chunk::{HEADER, Packer, RAW_MAX};
use super::index::{Entry, Index};
use super::record;
use crate::Timestamp;
use crate::disk::{File, Open};
use crate::stream::{Append, Error, Expiry};

/// Records are written to the file when the buffer would exceed this; a single larger one is a chunk by itself.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// Writer of the last block.
#[derive(Debug)]
pub(super) struct Growing {
    pub index: Index,
    packer: Packer,
    /// Opened at the first write.
    pub file: Option<Arc<dyn File>>,
    /// Room for the header of a chunk and records that are not written yet; empty if there are none.
    buffer: Vec<u8>,
    /// Slot of the first record in the buffer.
    first: u32,
    /// Length of the last buffer, as a guess for the next.
    guess: usize,
}

impl Growing {
    pub(super) fn new(index: Index, packer: Packer) -> Self {
        Self { index, packer, file: None, buffer: Vec::new(), first: 0, guess: 0 }
    }

    /// Records that are not written yet.
    pub(super) fn pending(&self) -> &[u8] {
        self.buffer.get(HEADER..).unwrap_or(&[])
    }
}

impl Blocks {
    /// Stores a message behind all others. Returns its size as users see it. After an error nothing has been stored, but the disk is in doubt.
    pub(super) fn append(&mut self, message: &Append<'_>, next_number: &mut u64) -> Result<u64, Error> {
        let length = record::length(message);
        assert!(length <= RAW_MAX, "message of {length} bytes");
        if let Some(growing) = &self.growing {
            let full = growing.index.end() as usize >= self.shared.options.block_bytes as usize;
            if full || !growing.index.reaches(message.sequence) {
                self.close()?;
            } else if growing.buffer.len() + length > CHUNK_BYTES {
                self.flush()?;
            }
        }
        if self.growing.is_none() {
            self.begin(message.sequence, next_number);
        }
        let (Some(growing), Some(block)) = (&mut self.growing, self.list.back_mut()) else {
            unreachable!("a block was begun")
        };
        if growing.buffer.is_empty() {
            growing.buffer.reserve((HEADER + length).max(growing.guess));
            growing.buffer.resize(HEADER, 0);
            growing.first = growing.index.slots();
            growing.index.open_chunk(block.facts.len);
        }
        record::encode(self.shared.identity, message, &mut growing.buffer);
        let Append { sequence, timestamp, subject, expiry, .. } = *message;
        let length = length as u32;
        let slot = growing.index.push(Entry { sequence, timestamp, expiry, subject: Some(subject), length });
        let size = growing.index.size(slot);
        block.take(sequence, timestamp, expiry, size);
        Ok(size)
    }

    fn begin(&mut self, sequence: u64, next_number: &mut u64) {
        let number = *next_number;
        *next_number += 1;
        self.growing = Some(Growing::new(Index::growing(sequence), self.shared.packer(number)));
        self.list.push_back(Block::new(number, sequence));
    }

    /// Writes the buffered records to the file.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let (Some(growing), Some(block)) = (&mut self.growing, self.list.back_mut()) else { return Ok(()) };
        if growing.buffer.is_empty() {
            return Ok(());
        }
        let number = block.facts.number;
        let path = self.shared.block_path(number);
        let file = match &growing.file {
            Some(file) => file,
            None if block.facts.len == 0 => growing.file.insert(self.shared.create(&path)?),
            None => growing.file.insert(self.shared.disk.open(&path, Open::Write)?),
        };
        let records = growing.index.slots() - growing.first;
        let (first, at) = (growing.index.sequence(growing.first), block.facts.len);
        let packed = growing.packer.pack(at, &mut growing.buffer, records, first);
        let packed = packed.map_err(|error| Error::Failed { reason: error.to_string() })?;
        let chunk = packed.as_deref().unwrap_or(&growing.buffer);
        file.write_at(chunk, u64::from(at))?;
        block.facts.len += chunk.len() as u32;
        block.unsynced = true;
        block.changed = true;
        growing.index.close_chunk((chunk.len() - HEADER) as u32);
        growing.guess = growing.buffer.len().min(CHUNK_BYTES);
        let raw = Bytes::from(std::mem::take(&mut growing.buffer)).slice(HEADER..);
        let part = Part::Chunk(growing.index.chunks.len() as u32 - 1);
        self.shared.cache().put(self.shared.key(number, part), Cached::Chunk(raw));
        Ok(())
    }

    /// Closes the last block: its index moves to memory until a checkpoint writes it.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.flush()?;
        let (Some(growing), Some(block)) = (self.growing.take(), self.list.back_mut()) else { return Ok(()) };
        block.place = Place::Memory(Arc::new(growing.index));
        block.changed = true;
        block.writer = growing.file;
        Ok(())
    }
}

impl Block {
    /// Counts a message that was added.
    fn take(&mut self, sequence: u64, timestamp: Timestamp, expiry: Expiry, size: u64) {
        let facts = &mut self.facts;
        facts.last = sequence;
        facts.slots += 1;
        facts.oldest = facts.oldest.min(timestamp);
        facts.newest = facts.newest.max(timestamp);
        self.live += 1;
        self.live_bytes += size;
        self.changed = true;
        if expiry != Expiry::Never && timestamp < self.aging_from.get() {
            self.aging_from.set(timestamp);
        }
    }
}
