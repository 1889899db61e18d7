//! What is read back at the start: the log, and the catalogue of streams.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use jetstream::meta::{Catalogue, META_GROUP};
use multiraft::{Entry, HardState, PeerId, Position, Start};
use store::crypt::Keyring;
use store::disk::Disk;
use store::state_file;
use store::wal::{self, Wal};

use super::entropy::SystemEntropy;
use super::shard::THIS_SERVER;

/// The catalogue's file. Its content has a version of its own.
pub const CATALOGUE_FILE: state_file::Kind<'static> =
    state_file::Kind { magic: *b"MYELNCAT", version: 1, name: "catalogue" };

/// What the log holds of one group.
#[derive(Debug, Default)]
pub struct GroupLog {
    /// Term, vote and commit.
    pub hard_state: Option<HardState>,
    /// Entries behind what was released.
    pub entries: Vec<Entry>,
    /// Place up to which entries were released.
    pub released: Position,
    /// The checkpoint that covers what was released.
    pub checkpoint: u64,
}

/// Why JetStream does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Files or directories.
    #[error("JetStream storage: {0}")]
    Disk(#[from] store::disk::Error),
    /// The log cannot be read.
    #[error("JetStream log in {}: {source}", path.display())]
    Log {
        /// Its directory.
        path: PathBuf,
        /// Why not.
        source: wal::Error,
    },
    /// The catalogue cannot be read. Nothing is deleted or made anew in its place.
    #[error("JetStream catalogue {}: {reason}; move the file away only if all streams may be lost", path.display())]
    Catalogue {
        /// Its file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A thread does not start.
    #[error("JetStream thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl GroupLog {
    /// Index up to which the log knows the group.
    pub fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.index).max(self.released.index)
    }

    fn take(&mut self, record: wal::Record<'_>) {
        match record {
            wal::Record::Entry { index, term, payload, .. } => {
                while self.entries.last().is_some_and(|entry| entry.index >= index) {
                    self.entries.pop();
                }
                self.entries.push(Entry { index, term, payload: Bytes::copy_from_slice(payload) });
            }
            wal::Record::HardState { state, .. } => {
                let vote = Some(PeerId(state.vote)).filter(|peer| peer.0 != 0);
                self.hard_state = Some(HardState { term: state.term, vote, commit: state.commit });
            }
            wal::Record::Released { index, term, checkpoint, .. } => {
                if index >= self.released.index {
                    self.released = Position { index, term };
                    self.checkpoint = checkpoint;
                    self.entries.retain(|entry| entry.index > index);
                }
            }
            wal::Record::Removed { .. } => *self = Self::default(),
        }
    }
}

/// The log, what it holds of each group, and what of it is lost.
pub type OpenedLog = (Wal, HashMap<u64, GroupLog>, Vec<String>);

/// Opens the log and takes all that it holds.
pub fn open_log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    keyring: Option<Arc<Keyring>>,
) -> Result<OpenedLog, StartError> {
    let path = dir.join("log");
    let mut groups: HashMap<u64, GroupLog> = HashMap::new();
    let options = wal::Options { crypt: keyring, ..wal::Options::new(Arc::new(SystemEntropy)) };
    let opened = Wal::open(Arc::clone(disk), &path, options, &mut |record| {
        groups.entry(group_of(&record)).or_default().take(record);
    });
    let (wal, report) = opened.map_err(|source| StartError::Log { path, source })?;
    if report.torn_bytes > 0 {
        tracing::info!(
            "JetStream log: {} bytes at its end were never synced and are gone",
            report.torn_bytes
        );
    }
    let mut damage: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
    damage.extend(report.gaps.iter().map(|gap| {
        format!("group {:016x} lacks entries {} to {}", gap.group.0, gap.missing.start, gap.missing.end - 1)
    }));
    Ok((wal, groups, damage))
}

/// What is said of the catalogue when something of the log is lost: nobody knows whose entries were there.
pub fn catalogue_may_lack(next: u64) -> String {
    format!(
        "group {META_GROUP:016x}, the catalogue, may lack entries from {next} on: what was created, changed or deleted by them is not known"
    )
}

/// What is said of the catalogue when there are files of a stream that it never named.
pub fn catalogue_lacks(dir: &Path) -> String {
    format!(
        "group {META_GROUP:016x}, the catalogue, lacks the entry that created the stream in {}: its files are kept and not used",
        dir.display()
    )
}

fn group_of(record: &wal::Record<'_>) -> u64 {
    match record {
        wal::Record::Entry { group, .. }
        | wal::Record::HardState { group, .. }
        | wal::Record::Released { group, .. }
        | wal::Record::Removed { group } => group.0,
    }
}

/// The catalogue as it was written last; an empty one if it never was. If that was with the former key, it is written with the new one.
pub fn read_catalogue(
    disk: &dyn Disk,
    path: &Path,
    keyring: Option<&Keyring>,
) -> Result<Catalogue, StartError> {
    let failed = |reason: String| StartError::Catalogue { path: path.to_owned(), reason };
    match state_file::read(disk, path, &CATALOGUE_FILE, keyring) {
        Ok(None) => Ok(Catalogue::new()),
        Ok(Some(content)) => {
            let catalogue = Catalogue::decode(&content.bytes).map_err(|error| failed(error.to_string()))?;
            if content.is_stale {
                let written = state_file::write(disk, path, &CATALOGUE_FILE, &content.bytes, keyring);
                written.map_err(|error| failed(error.to_string()))?;
            }
            Ok(catalogue)
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// How the catalogue's group begins, and the place that the log has to hear of first: it lost the end of what the file covers, and would refuse what
/// follows. A hole in its log is an error: a stream that is not in the catalogue would be taken as deleted.
pub fn catalogue_start(
    catalogue: &Catalogue,
    log: GroupLog,
    path: &Path,
) -> Result<(Start, Option<Position>), StartError> {
    let logged = log.last();
    let (start, lost) = start(log, catalogue.applied(), 0);
    match lost {
        None => {
            let untold = (logged < start.applied).then_some(start.snapshot);
            Ok((start, untold))
        }
        Some(lost) => Err(StartError::Catalogue { path: path.to_owned(), reason: lost }),
    }
}

/// How a group begins from what its log holds behind the checkpoint, which says up to where it was applied; and what of the log cannot be used because
/// something is missing. The group goes on behind all that the log ever had of it: an index that comes again would be refused by the log, and that
/// ends it for everybody.
pub fn start(log: GroupLog, applied: u64, checkpoint: u64) -> (Start, Option<String>) {
    let GroupLog { hard_state, mut entries, released, checkpoint: covering } = log;
    // What was released later by the same checkpoint held nothing that would have changed the stream.
    let is_covered = checkpoint != 0 && checkpoint == covering;
    let applied = if is_covered { applied.max(released.index) } else { applied };
    let last = entries.last().map(|entry| Position { index: entry.index, term: entry.term });
    let before = entries.iter().rfind(|entry| entry.index == applied).map(|entry| entry.term);
    entries.retain(|entry| entry.index > applied);
    let first = entries.first().map_or(released.index, |entry| entry.index - 1);
    let whole = entries.windows(2).take_while(|pair| pair[0].index + 1 == pair[1].index).count() + 1;
    let state = hard_state.unwrap_or_default();
    let term = before.unwrap_or(released.term).max(u64::from(applied > 0));
    let mut snapshot = Position { index: applied, term: if applied == 0 { 0 } else { term } };
    let mut lost = None;
    if first > applied || whole < entries.len() {
        let from = if first > applied { applied } else { entries[whole - 1].index };
        lost = Some(format!("log entries from {} on are missing", from + 1));
        entries.clear();
        snapshot = last.filter(|last| last.index > released.index).unwrap_or(released);
    }
    let last = entries.last().map_or(snapshot, |entry| Position { index: entry.index, term: entry.term });
    let hard_state = HardState {
        term: state.term.max(last.term),
        vote: state.vote,
        commit: state.commit.clamp(snapshot.index, last.index),
    };
    let applied = snapshot.index;
    (Start { peers: vec![THIS_SERVER], hard_state, applied, snapshot, entries }, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(indexes: std::ops::RangeInclusive<u64>) -> GroupLog {
        let entries = indexes.map(|index| Entry { index, term: 3, payload: Bytes::from_static(b"x") });
        GroupLog {
            hard_state: Some(HardState { term: 3, vote: Some(THIS_SERVER), commit: 0 }),
            entries: entries.collect(),
            ..GroupLog::default()
        }
    }

    #[test]
    fn what_the_checkpoint_covers_is_not_replayed() {
        let (start, lost) = start(log(1..=10), 7, 0);
        assert_eq!(
            (start.snapshot.index, start.entries[0].index, start.entries.len(), lost),
            (7, 8, 3, None)
        );
    }

    #[test]
    fn a_hole_behind_the_checkpoint_is_told_and_nothing_behind_it_used() {
        let (start, lost) = start(log(5..=10), 2, 0);
        assert!(start.entries.is_empty());
        assert_eq!(lost.unwrap(), "log entries from 3 on are missing");
        assert_eq!((start.applied, start.snapshot), (10, Position { index: 10, term: 3 }));
    }

    #[test]
    fn a_hole_in_the_middle_is_told_too() {
        let mut group = log(1..=9);
        group.entries.remove(4);
        let (start, lost) = start(group, 2, 0);
        assert_eq!((start.applied, start.entries.len()), (9, 0));
        assert_eq!(lost.unwrap(), "log entries from 5 on are missing");
    }

    #[test]
    fn a_checkpoint_that_is_gone_is_missed_although_the_log_has_no_entries() {
        let group = GroupLog { released: Position { index: 7, term: 2 }, ..GroupLog::default() };
        let (start, lost) = start(group, 0, 0);
        assert_eq!((start.applied, start.snapshot.term), (7, 2));
        assert_eq!(lost.unwrap(), "log entries from 1 on are missing");
    }

    #[test]
    fn what_was_released_by_the_checkpoint_that_is_there_is_covered_by_it() {
        let group = || {
            let released = Position { index: 9, term: 3 };
            GroupLog { released, checkpoint: 77, entries: log(10..=11).entries, ..GroupLog::default() }
        };
        let (covered, lost) = start(group(), 7, 77);
        assert_eq!((covered.applied, covered.snapshot, covered.entries.len()), (9, group().released, 2));
        assert_eq!(lost, None);
        for other in [0, 76] {
            assert_eq!(start(group(), 7, other).1.unwrap(), "log entries from 8 on are missing");
        }
        let unnamed = GroupLog { checkpoint: 0, ..group() };
        assert!(start(unnamed, 7, 0).1.is_some());
    }

    #[test]
    fn the_log_hears_where_a_catalogue_goes_on_that_it_knows_less_of() {
        let mut catalogue = Catalogue::new();
        catalogue.cover(7);
        let path = Path::new("catalogue");
        for (log, told) in [(GroupLog::default(), Some(7)), (log(1..=6), Some(7)), (log(1..=7), None)] {
            let (start, untold) = catalogue_start(&catalogue, log, path).unwrap();
            assert_eq!((start.applied, untold.map(|place| place.index)), (7, told));
        }
    }

    #[test]
    fn a_new_group_begins_with_nothing() {
        let (start, lost) = start(GroupLog::default(), 0, 0);
        assert_eq!(
            (start.snapshot, start.hard_state, lost),
            (Position::default(), HardState::default(), None)
        );
    }

    #[test]
    fn a_later_entry_voids_those_from_its_index_on() {
        let mut group = log(1..=5);
        group.take(wal::Record::Entry { group: wal::GroupId(1), index: 4, term: 4, payload: b"y" });
        let indexes: Vec<_> = group.entries.iter().map(|entry| (entry.index, entry.term)).collect();
        assert_eq!(indexes, [(1, 3), (2, 3), (3, 3), (4, 4)]);
        group.take(wal::Record::Released { group: wal::GroupId(1), index: 3, term: 3, checkpoint: 9 });
        assert_eq!((group.entries.len(), group.released.term, group.checkpoint), (1, 3, 9));
        group.take(wal::Record::Removed { group: wal::GroupId(1) });
        assert!(group.entries.is_empty() && group.hard_state.is_none());
    }
}
