//! Entries read back, for members that lag behind.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use crate::crypt::FileKey;
use crate::record::{self, HEADER_BYTES};

use super::append::seal_place;
use super::format::{Body, aligned};
use super::groups::Run;
use super::segment::{Segment, segment_name};
use super::{Damage, Entry, Error, GroupId, Record, Wal};

/// What is read at once.
const READ_BYTES: usize = 64 << 10;

impl Wal {
    /// Entries of the group with these indexes, in order, the unwritten ones too. Stops early once payloads have `bytes_max` bytes, but gives at least one. An
    /// error if the first is not in the log; a later one that is missing ends the answer.
    pub fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut next = range.start;
        while next < range.end && (entries.is_empty() || bytes < bytes_max) {
            let Some(run) = self.run(group, next) else {
                if entries.is_empty() {
                    return Err(Error::Missing { group, index: next });
                }
                break;
            };
            let end = run.end().min(range.end);
            self.read_run(group, run, next..end, &mut |entry| {
                bytes += entry.payload.len();
                next = entry.index + 1;
                entries.push(entry);
                bytes < bytes_max
            })?;
        }
        Ok(entries)
    }

    fn run(&self, group: GroupId, index: u64) -> Option<Run> {
        let group = self.table.get(group).filter(|group| index > group.released)?;
        let at = group.runs.partition_point(|run| run.end() <= index);
        group.runs.get(at).filter(|run| run.first <= index).copied()
    }

    /// Gives the entries of a run with these indexes to `take`, until it returns false.
    fn read_run(
        &self,
        group: GroupId,
        run: Run,
        wanted: Range<u64>,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error> {
        let Some(segment) = self.table.segment(run.segment) else {
            return Err(Error::Missing { group, index: run.first });
        };
        let mut window = Window { wal: self, segment, start: u64::from(run.offset), bytes: Vec::new() };
        let mut offset = window.start;
        let mut expected = run.first;
        while expected < wanted.end {
            let (bytes, next) = window.frame(offset)?;
            let body = unseal(segment.key.as_ref(), segment.sequence, offset, bytes);
            let body = body.map_err(|reason| damaged(segment, offset..next, reason))?;
            let Some(decoded) = Body::decode(&body) else {
                return Err(damaged(segment, offset..next, "a body of no kind".to_owned()));
            };
            match decoded {
                Body::Record(Record::Entry { group: found, index, term, payload }) if found == group => {
                    if index != expected || term != run.term {
                        let reason = format!(
                            "entry {index} of term {term} instead of {expected} of term {}",
                            run.term
                        );
                        return Err(damaged(segment, offset..next, reason));
                    }
                    expected += 1;
                    let is_wanted = index >= wanted.start;
                    if is_wanted && !take(Entry { index, term, payload: Bytes::copy_from_slice(payload) }) {
                        return Ok(());
                    }
                }
                _ => {}
            }
            offset = next;
        }
        Ok(())
    }
}

/// A stretch of a segment in memory.
struct Window<'a> {
    wal: &'a Wal,
    segment: &'a Segment,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Body of the frame at the offset, and where the next one begins.
    fn frame(&mut self, offset: u64) -> Result<(&[u8], u64), Error> {
        let identity = self.segment.identity;
        self.fill(offset, HEADER_BYTES)?;
        let segment = self.segment;
        let length = record::body_length(self.at(offset), identity, offset);
        let length = length.map_err(|fault| damaged(segment, offset..offset, fault.to_string()))?;
        self.fill(offset, HEADER_BYTES + length)?;
        let next = offset + aligned(HEADER_BYTES + length) as u64;
        let body = record::decode(self.at(offset), identity, offset);
        body.map(|body| (body, next)).map_err(|fault| damaged(segment, offset..next, fault.to_string()))
    }

    fn at(&self, offset: u64) -> &[u8] {
        self.bytes.get((offset - self.start) as usize..).unwrap_or_default()
    }

    /// Has at least so many bytes from the offset on in memory, as far as the segment has them.
    fn fill(&mut self, offset: u64, length: usize) -> Result<(), Error> {
        if self.at(offset).len() >= length {
            return Ok(());
        }
        let is_newest = self.segment.sequence == self.wal.table.newest().sequence;
        let on_disk = self.segment.end;
        self.start = offset;
        self.bytes.clear();
        let want = length.max(READ_BYTES) as u64;
        let from_disk = on_disk.saturating_sub(offset).min(want);
        self.bytes.resize(from_disk as usize, 0);
        let read = self.segment.file.read_at(&mut self.bytes, offset)?;
        self.bytes.truncate(read);
        if is_newest && offset + want > on_disk && read as u64 == from_disk {
            let skip = offset.saturating_sub(on_disk) as usize;
            let rest = self.wal.buffer.get(skip..).unwrap_or_default();
            self.bytes.extend_from_slice(&rest[..rest.len().min((want - from_disk) as usize)]);
        }
        Ok(())
    }
}

/// The body of a frame in clear.
pub(super) fn unseal<'a>(
    key: Option<&FileKey>,
    sequence: u64,
    offset: u64,
    body: &'a [u8],
) -> Result<Cow<'a, [u8]>, String> {
    let Some(key) = key else { return Ok(Cow::Borrowed(body)) };
    let opened = key.open(&seal_place(sequence, offset), body);
    opened.map(Cow::Owned).map_err(|error| error.to_string())
}

fn damaged(segment: &Segment, range: Range<u64>, reason: String) -> Error {
    let file = segment_name(segment.sequence);
    Error::Damaged(Damage { segment: segment.sequence, file, range: Some(range), reason })
}
