//! Files of the log: their names, and how one becomes the next segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::crypt::FileKey;
use crate::disk::{File, Open};
use crate::record::Identity;

use super::format::{DATA_START, Header};
use super::{Error, GroupId, Wal};

/// One segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) sequence: u64,
    pub(super) identity: Identity,
    pub(super) file: Arc<dyn File>,
    pub(super) key: Option<FileKey>,
    /// Length of the file: space that is written with frames, zeros or what was there before.
    pub(super) len: u64,
    /// Where its frames end; of the newest one the log itself knows.
    pub(super) end: u64,
    /// Runs of entries in it that are still needed.
    pub(super) live: usize,
    /// Groups with anything in it, maybe more than once, maybe gone since.
    pub(super) groups: Vec<GroupId>,
}

/// A file that waits to become a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spare {
    pub(super) number: u64,
    pub(super) len: u64,
}

/// Name of a segment's file.
pub(super) fn segment_name(sequence: u64) -> String {
    format!("{sequence:016x}.wal")
}

/// Name of a spare file.
pub(super) fn spare_name(number: u64) -> String {
    format!("spare-{number:016x}.wal")
}

/// What the key of a segment is bound to.
pub(super) fn key_context(sequence: u64) -> String {
    format!("wal {sequence:016x}")
}

/// What a file in the directory is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name {
    Segment(u64),
    Spare(u64),
}

impl Name {
    /// `None` for files that are not of the log.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".wal")?;
        let number = u64::from_str_radix(stem.strip_prefix("spare-").unwrap_or(stem), 16).ok()?;
        if name == segment_name(number) {
            Some(Self::Segment(number))
        } else {
            (name == spare_name(number)).then_some(Self::Spare(number))
        }
    }
}

/// Where a new segment stands in the row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) sequence: u64,
    pub(super) previous: u64,
    pub(super) previous_end: u64,
}

impl Wal {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Makes a file the newest segment, replacing one of the same sequence. When this returns, it survives a crash.
    pub(super) fn start_segment(&mut self, place: Place) -> Result<(), Error> {
        let mut stamp = [0; 8];
        self.options.entropy.fill(&mut stamp);
        let created = self.options.crypt.as_ref().map(|ring| ring.create(&key_context(place.sequence)));
        let (key, envelope) = created.unzip();
        let header = Header {
            sequence: place.sequence,
            stamp: u64::from_le_bytes(stamp),
            previous: place.previous,
            previous_end: place.previous_end,
            floor: self.floor,
            envelope,
        };
        let (number, file) = match self.spares.pop_front() {
            Some(spare) => {
                (spare.number, self.disk.open(&self.path(&spare_name(spare.number)), Open::Write)?)
            }
            None => {
                let path = self.path(&spare_name(place.sequence));
                (place.sequence, self.disk.open(&path, Open::Create)?)
            }
        };
        file.write_at(&header.encode(), 0)?;
        file.sync()?;
        self.disk.rename(&self.path(&spare_name(number)), &self.path(&segment_name(place.sequence)))?;
        self.disk.sync_dir(&self.directory)?;
        let len = file.len()?;
        self.table.push_segment(Segment {
            sequence: place.sequence,
            identity: header.identity(),
            file,
            key,
            len,
            end: DATA_START,
            live: 0,
            groups: Vec::new(),
        });
        self.written = DATA_START;
        self.synced = DATA_START;
        self.marked = DATA_START;
        Ok(())
    }
}

/// Directory in which `path` stands.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_left_alone() {
        assert_eq!(Name::parse(&segment_name(0xab)), Some(Name::Segment(0xab)));
        assert_eq!(Name::parse(&spare_name(u64::MAX)), Some(Name::Spare(u64::MAX)));
        for other in ["ab.wal", "00000000000000AB.wal", "spare-.wal", "notes.txt", "00000000000000ab.wal.bak"]
        {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_relative_path_stands_somewhere() {
        assert_eq!(parent(Path::new("log")), Path::new("."));
        assert_eq!(parent(Path::new("/data/log")), Path::new("/data"));
    }
}
