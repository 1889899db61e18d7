//! The log: one per data directory, shared by all groups, written before anything is acknowledged.
//!
//! One owner appends records, writes and syncs them together, and reads entries back. Appending gathers in memory; [`Wal::sync`] pays one write and one
//! `fdatasync` for all that was gathered. A failed write or sync ends the log: every later call says so, and nothing is ever tried again.
//!
//! # Files
//!
//! The log is a row of segments, `<sequence>.wal` with the sequence in 16 hexadecimal digits, from 1 without gaps, and some `spare-<number>.wal` that wait to
//! become segments. Numbers are little-endian. A segment begins with a header, at offset 0 and again at 2048 in case the first is damaged:
//!
//! ```text
//! magic "MYELNWAL" | version u16 = 2 | flags u16: 1 = sealed | 0 u32 | sequence u64 | stamp u64 | previous u64 | end of previous u64
//! | floor u64 | envelope of the key, 72 bytes, zeros if not sealed | checksum u64
//! ```
//!
//! The stamp is random: with the sequence it is the identity of all frames of the segment ([`crate::record`]), so that what a recycled file
//! still holds never verifies. Previous and its end say where the valid bytes of the segment before end. The floor is the oldest segment that must
//! exist. Frames begin at 4096 and each at a multiple of 8; one never spans segments. A body is one byte for its kind and the fields, sealed if the segment is,
//! with offset and sequence as authenticated place:
//!
//! | Kind | Fields |
//! |---|---|
//! | 1 entry | group u64, index u64, term u64, payload |
//! | 2 hard state | group u64, term u64, vote u64, commit u64 |
//! | 3 released | group u64, index u64, term u64, checkpoint u64 that covers them, not in version 1 |
//! | 4 removed | group u64 |
//! | 5 mark | offset u64 up to which this segment had been synced when this was written |
//! | 6 closed | sequence u64 of the next segment, which exists |
//! | 7 floor | sequence u64 of the oldest segment that must exist |
//!
//! # Rules
//!
//! - An entry with an index that its group already has makes the entries from there on void.
//! - Released entries are not needed any more. The oldest segment is recycled once all entries in it are released, void or of removed groups; hard
//!   states and release marks that only it holds are written again first and synced. Segments go in order, each with a sync of the directory, so the record
//!   that removes a group outlives all entries of that group.
//! - A segment is synced before the next one gets its header. The header is synced before the file gets its name, and the name before anything in
//!   the segment is.
//! - A log that is opened never continues a segment: it begins a new one, with a stamp of its own. What a torn tail leaves behind can so never become valid.
//! - Space is written with zeros ahead of use, and recycled segments are already written, so that a sync has no metadata to write.
//! - A log that is closed in good order ends with its newest segment's last frame, a mark. If it is long and no entry of it is needed, what has to be kept
//!   of each group goes on in a new segment, and all others are recycled.
//!
//! # Recovery
//!
//! Segments are read in order. All but the last have a known end; whatever does not verify before it is **damage**, as is a missing segment. In the last
//! segment the first frame that does not verify is the end, a **torn tail**, if no later frame proves that it had been synced: a mark that says so, or the
//! record that closes the segment. Otherwise it is damage too. Without a later mark a damaged frame of the very last sync cannot be told from a
//! torn one; [`Wal::mark`] leaves one when there is time for it.
//!
//! What is behind the last proof is written and synced again before it is trusted: after a failed sync a page may be read that is nowhere on disk.

mod append;
mod format;
mod groups;
mod read;
mod recover;
mod recycle;
mod segment;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::crypt::{self, Entropy, Keyring};
use crate::disk::{self, Disk};
use groups::Table;
use segment::Spare;

/// Size of a segment, unless the owner says otherwise: large enough that a new one is rare, small enough that the log follows what is released.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;
/// No segment is smaller, whatever the options say.
pub const SEGMENT_BYTES_MIN: u64 = 16 << 10;
/// No segment is larger, except for one record that is.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Longest payload of an entry.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// What is gathered is written without waiting for `flush` once it has this size.
const BUFFER_BYTES_MAX: usize = 4 << 20;
/// Spare segments that are kept; further ones are removed.
const SPARES_MAX: usize = 4;

/// Name of a group; the log gives it no meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// An entry of a group's log. Makes entries of the group from this index on void.
    Entry {
        /// Whose.
        group: GroupId,
        /// From 1.
        index: u64,
        /// Of the leader that appended it.
        term: u64,
        /// May be empty.
        payload: &'a [u8],
    },
    /// What a group must never forget. Replaces the one before.
    HardState {
        /// Whose.
        group: GroupId,
        /// See [`HardState`].
        state: HardState,
    },
    /// Entries of the group up to the index are not needed any more: a checkpoint that is on stable storage covers them. Term is that of the
    /// entry at the index.
    Released {
        /// Whose.
        group: GroupId,
        /// Grows; lower ones have no effect, and neither has zero.
        index: u64,
        /// Of the entry at `index`.
        term: u64,
        /// Name of the checkpoint, for the owner to know again; zero for none.
        checkpoint: u64,
    },
    /// The group is gone with all that was logged of it. It may begin anew.
    Removed {
        /// Whose.
        group: GroupId,
    },
}

/// Term, vote and commit of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HardState {
    /// Highest term seen.
    pub term: u64,
    /// Voted for in that term; 0 for nobody.
    pub vote: u64,
    /// Known to be committed.
    pub commit: u64,
}

/// An entry as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// From 1.
    pub index: u64,
    /// Of the leader that appended it.
    pub term: u64,
    /// What was appended.
    pub payload: Bytes,
}

/// What the log knows of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupState {
    /// The latest one, if there was any.
    pub hard_state: Option<HardState>,
    /// Index up to which entries are released; zero for none.
    pub released: u64,
    /// Term of that entry.
    pub released_term: u64,
    /// What was named as the checkpoint that covers the released entries; zero for none.
    pub checkpoint: u64,
    /// Indexes of the entries that are not released; empty if there is none.
    pub entries: Range<u64>,
    /// Term of the last entry, released or not; zero for none.
    pub last_term: u64,
}

/// How a log is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Size at which a segment ends. Taken into the bounds of this module.
    pub segment_bytes: u64,
    /// New segments are sealed with its current key. `None` for plain ones.
    pub crypt: Option<Arc<Keyring>>,
    /// Source of the stamps of segments.
    pub entropy: Arc<dyn Entropy>,
}

impl Options {
    /// Plain segments of the default size.
    #[must_use]
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self { segment_bytes: SEGMENT_BYTES_DEFAULT, crypt: None, entropy }
    }
}

/// Part of the log that is not what was written, although it had been synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Sequence of the segment.
    pub segment: u64,
    /// Its file, relative to the directory of the log.
    pub file: String,
    /// Bytes that are lost; `None` for all of the segment.
    pub range: Option<Range<u64>>,
    /// What was found, with values.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.range {
            Some(range) => write!(f, "{} bytes {} to {}: {}", self.file, range.start, range.end, self.reason),
            None => write!(f, "{}: {}", self.file, self.reason),
        }
    }
}

/// Entries that a group lacks: a consequence of damage that can be proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Whose.
    pub group: GroupId,
    /// Indexes that are missing.
    pub missing: Range<u64>,
}

/// What opening a log found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Segments found.
    pub segments: usize,
    /// Records handed to the visitor.
    pub records: u64,
    /// Recognisable bytes behind the end of the last segment, which had not been synced and are gone.
    pub torn_bytes: u64,
    /// Synced parts that are lost. Any group may have had entries there.
    pub damage: Vec<Damage>,
    /// Entries that are missing for certain, because later ones of the group are there.
    pub gaps: Vec<Gap>,
}

/// Why the log could not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk failed. If it was a write or sync, the log is at its end.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// An earlier failure ended the log: what is on disk is unknown until it is opened again.
    #[error("the log takes nothing after an earlier failure: {reason}")]
    Failed {
        /// That failure.
        reason: String,
    },
    /// The entry does not follow the ones before. Nothing was appended.
    #[error("group {} has entries from {} to {last}, entry {index} does not follow", group.0, released + 1)]
    Order {
        /// Whose.
        group: GroupId,
        /// Of the entry.
        index: u64,
        /// Released up to here.
        released: u64,
        /// The last index of the group.
        last: u64,
    },
    /// The payload is too long. Nothing was appended.
    #[error("a payload of {length} bytes, the log takes {PAYLOAD_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        length: usize,
    },
    /// A segment is sealed and no key fits.
    #[error("segment {segment:016x}.wal: {source}")]
    Key {
        /// Its sequence.
        segment: u64,
        /// Which key is missing, or what is wrong.
        source: crypt::Error,
    },
    /// A segment is sealed and no key is configured.
    #[error("segment {segment:016x}.wal is encrypted and no key is configured")]
    NoKey {
        /// Its sequence.
        segment: u64,
    },
    /// A segment was written by a later version.
    #[error("segment {segment:016x}.wal has version {found}, this server knows {known}")]
    Version {
        /// Its sequence.
        segment: u64,
        /// Its version.
        found: u16,
        /// Ours.
        known: u16,
    },
    /// What is read is not what was written.
    #[error("damaged log: {0}")]
    Damaged(Damage),
    /// The entry is not in the log: released, never appended, or lost.
    #[error("group {} has no entry {index} in the log", group.0)]
    Missing {
        /// Whose.
        group: GroupId,
        /// Of the entry.
        index: u64,
    },
}

/// The log. One owner; see the module.
#[derive(Debug)]
pub struct Wal {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    options: Options,
    table: Table,
    spares: VecDeque<Spare>,
    /// The oldest segment that must exist.
    floor: u64,
    /// Appended and not written.
    buffer: Vec<u8>,
    /// Offset in the newest segment at which `buffer` will stand.
    written: u64,
    /// Offset up to which the newest segment is synced.
    synced: u64,
    /// What the last mark in it says.
    marked: u64,
    /// What ended the log.
    failure: Option<String>,
}

impl Wal {
    /// What ended the log, if something did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Is there anything that a sync would put on stable storage?
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.buffer.is_empty() || self.synced < self.written
    }

    /// Bytes that are gathered and not written.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes of all files, spare ones included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let segments: u64 = self.table.segments.iter().map(|segment| segment.len).sum();
        segments + self.spares.iter().map(|spare| spare.len).sum::<u64>()
    }

    /// Segments, without spare ones.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.table.segments.len()
    }

    /// What the log knows of a group.
    #[must_use]
    pub fn group(&self, group: GroupId) -> Option<GroupState> {
        self.table.state(group)
    }

    /// All groups of the log, ascending.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupId> {
        self.table.ids()
    }

    /// Term of an entry that is in the log, or of the last released one.
    #[must_use]
    pub fn term(&self, group: GroupId, index: u64) -> Option<u64> {
        self.table.term(group, index)
    }

    /// Sequence of the oldest segment.
    #[must_use]
    pub fn oldest_segment(&self) -> u64 {
        self.table.oldest()
    }

    /// Groups, ascending, with entries in the oldest segment that are not released: they hold it back. Empty if there is only one segment.
    #[must_use]
    pub fn oldest_segment_groups(&self) -> Vec<GroupId> {
        self.table.holding_back()
    }
}

#[cfg(test)]
mod tests;
