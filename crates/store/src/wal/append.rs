//! The way in: gather, write, sync, and go on to the next segment.

use crate::crypt::SEAL_BYTES;
use crate::record::{self, HEADER_BYTES};

use super::format::{Body, DATA_START, NOTE_BYTES, aligned};
use super::segment::{Place, Segment};
use super::{BUFFER_BYTES_MAX, Error, GroupId, PAYLOAD_BYTES_MAX, Record, Wal};

/// Zeros are written this far ahead: a sync that has metadata to write then comes once per so many bytes, until segments are recycled.
const GROW_BYTES: u64 = 1 << 20;
/// A log that is closed while no entry of it is needed keeps what it has if that is less than one part in this many of a segment.
const SHORT_DIVISOR: u64 = 64;
/// Space of the nonce in front of what is sealed.
const NONCE_BYTES: usize = 12;

impl Wal {
    /// Takes a record. The first entry of a group has index 1 or follows what is released. It is on stable storage once a later [`Self::sync`] returned. Usually this only copies it; when a segment or the buffer is full, it
    /// writes.
    pub fn append(&mut self, record: Record<'_>) -> Result<(), Error> {
        self.check()?;
        if let Record::Entry { group, index, payload, .. } = record {
            if payload.len() > PAYLOAD_BYTES_MAX {
                return Err(Error::TooLarge { length: payload.len() });
            }
            if let Some((released, last)) = self.table.refusal(group, index) {
                return Err(Error::Order { group, index, released, last });
            }
        }
        if matches!(record, Record::Released { index: 0, .. }) {
            return Ok(());
        }
        let result = self.append_unchecked(record);
        self.keep_failure(result)
    }

    /// Entries of the group up to the index, whose term is given, are not needed any more. Same as appending the record, without a checkpoint.
    pub fn release(&mut self, group: GroupId, index: u64, term: u64) -> Result<(), Error> {
        self.append(Record::Released { group, index, term, checkpoint: 0 })
    }

    /// The group is gone. Same as appending the record.
    pub fn remove(&mut self, group: GroupId) -> Result<(), Error> {
        self.append(Record::Removed { group })
    }

    /// Writes what was gathered, without sync.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.check()?;
        let result = self.write_buffer();
        self.keep_failure(result)
    }

    /// Writes what was gathered and syncs. When it returns, everything appended before is on stable storage.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.check()?;
        let result = self.write_and_sync();
        self.keep_failure(result)
    }

    /// Leaves a synced note that everything before had been synced, so that damage there is never taken for a torn tail. For quiet moments; does
    /// nothing if there is such a note.
    pub fn mark(&mut self) -> Result<(), Error> {
        self.check()?;
        let result = self.sync_and_mark();
        self.keep_failure(result)
    }

    /// Syncs and marks for the last time, and leaves the next opening no more to read than it needs. Nothing is to be appended after it.
    pub fn close(&mut self) -> Result<(), Error> {
        self.check()?;
        let result = self.shorten();
        self.keep_failure(result)
    }

    fn shorten(&mut self) -> Result<(), Error> {
        self.write_and_sync()?;
        let is_needed = self.table.segments.iter().any(|segment| segment.live > 0);
        if !is_needed && self.bytes_in_use() > self.options.segment_bytes / SHORT_DIVISOR {
            // Space that is used already is for a segment that will be filled.
            let spares = std::mem::take(&mut self.spares);
            let rolled = self.roll();
            self.spares.extend(spares);
            rolled?;
            self.free_oldest(self.table.segments.len() - 1)?;
        }
        self.sync_and_mark()?;
        // Nobody continues a segment of an earlier life, so its space is no use.
        let newest = self.table.newest_mut();
        newest.file.set_len(newest.end)?;
        newest.len = newest.end;
        Ok(())
    }

    fn bytes_in_use(&self) -> u64 {
        self.table.segments.iter().map(|segment| segment.end.saturating_sub(DATA_START)).sum()
    }

    fn sync_and_mark(&mut self) -> Result<(), Error> {
        self.write_and_sync()?;
        if self.marked < self.synced {
            self.put_mark()?;
            self.write_and_sync()?;
            // The note itself needs none.
            self.marked = self.synced;
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.failure {
            Some(reason) => Err(Error::Failed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// An error of what changes the log ends it.
    pub(super) fn keep_failure<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.failure = Some(error.to_string());
        }
        result
    }

    pub(super) fn append_unchecked(&mut self, record: Record<'_>) -> Result<(), Error> {
        let body = Body::Record(record);
        self.make_room(body.length())?;
        let offset = self.put(&body)?;
        self.table.note(&record, offset);
        if self.buffer.len() >= BUFFER_BYTES_MAX {
            self.write_buffer()?;
        }
        Ok(())
    }

    /// Begins the next segment if a body of this length, a mark before it and a close behind it do not fit. One that fits nowhere has a segment
    /// of its own.
    pub(super) fn make_room(&mut self, length: usize) -> Result<(), Error> {
        let position = self.position();
        let need = self.frame_length(length) + 2 * self.frame_length(NOTE_BYTES);
        if position > DATA_START && position + need as u64 > self.options.segment_bytes {
            self.roll()?;
        }
        if self.buffer.is_empty() && self.marked < self.synced {
            self.put_mark()?;
        }
        Ok(())
    }

    fn put_mark(&mut self) -> Result<(), Error> {
        self.put(&Body::Mark(self.synced))?;
        self.marked = self.synced;
        Ok(())
    }

    /// Appends a frame to the buffer and returns its offset in the segment.
    pub(super) fn put(&mut self, body: &Body<'_>) -> Result<u64, Error> {
        let position = self.position();
        encode_frame(&mut self.buffer, body, self.table.newest(), position)?;
        Ok(position)
    }

    /// Offset of the next frame in the newest segment.
    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Bytes that a body of this length takes.
    fn frame_length(&self, body: usize) -> usize {
        let seal = if self.options.crypt.is_some() { SEAL_BYTES } else { 0 };
        aligned(HEADER_BYTES + body + seal)
    }

    pub(super) fn write_buffer(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let segment = self.table.newest_mut();
        segment.file.write_at(&self.buffer, self.written)?;
        let end = self.written + self.buffer.len() as u64;
        if end > segment.len {
            let target = (end + GROW_BYTES).min(self.options.segment_bytes).max(end);
            let zeros = vec![0; (target - end) as usize];
            if !zeros.is_empty() {
                segment.file.write_at(&zeros, end)?;
            }
            segment.len = target;
        }
        self.written = end;
        segment.end = end;
        self.buffer.clear();
        // One large record does not keep its space for ever.
        self.buffer.shrink_to(2 * BUFFER_BYTES_MAX);
        Ok(())
    }

    pub(super) fn write_and_sync(&mut self) -> Result<(), Error> {
        self.write_buffer()?;
        if self.synced < self.written {
            self.table.newest().file.sync()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Ends the newest segment and begins the next.
    fn roll(&mut self) -> Result<(), Error> {
        self.write_and_sync()?;
        let (previous, previous_end) = (self.table.newest().sequence, self.written);
        self.start_segment(Place { sequence: previous + 1, previous, previous_end })?;
        self.close_segment(previous, previous + 1)
    }

    /// Leaves a note behind the last frame of a segment that the next one exists.
    pub(super) fn close_segment(&mut self, sequence: u64, next: u64) -> Result<(), Error> {
        let mut newest_first = self.table.segments.iter_mut().rev();
        let Some(segment) = newest_first.find(|segment| segment.sequence == sequence) else { return Ok(()) };
        let mut frame = Vec::new();
        encode_frame(&mut frame, &Body::Closed(next), segment, segment.end)?;
        segment.file.write_at(&frame, segment.end)?;
        segment.file.sync()?;
        segment.len = segment.len.max(segment.end + frame.len() as u64);
        Ok(())
    }
}

/// Appends the frame of a body that will stand at the offset of the segment.
fn encode_frame(out: &mut Vec<u8>, body: &Body<'_>, segment: &Segment, offset: u64) -> Result<(), Error> {
    let start = record::begin(out);
    if let Some(key) = &segment.key {
        let sealed_from = out.len();
        out.extend_from_slice(&[0; NONCE_BYTES]);
        body.encode(out);
        let sealed = key.seal_tail(&seal_place(segment.sequence, offset), out, sealed_from);
        sealed.map_err(|source| Error::Key { segment: segment.sequence, source })?;
    } else {
        body.encode(out);
    }
    record::finish(out, start, segment.identity, offset);
    out.resize(start + aligned(out.len() - start), 0);
    Ok(())
}

/// What a sealed body is bound to.
pub(super) fn seal_place(sequence: u64, offset: u64) -> [u8; 16] {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&offset.to_le_bytes());
    place[8..].copy_from_slice(&sequence.to_le_bytes());
    place
}
