//! The log's side of the server: what is queued for it, and what is read back from it at the start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use multiraft::{Entry, GroupId, HardState, PeerId, Position, Start, Ticket};
use store::crypt::SeededEntropy;
use store::disk::Disk;
use store::wal::{self, Wal};

use super::{BootError, Settings};

/// Number of the server among the peers of its groups.
pub(super) const THIS_SERVER: PeerId = PeerId(1);

/// A record on its way to the log.
#[derive(Debug)]
pub(super) enum Record {
    Entry { group: u64, index: u64, term: u64, payload: Bytes },
    HardState { group: u64, state: wal::HardState },
    Released { group: u64, at: Position, checkpoint: u64 },
    Removed { group: u64 },
}

impl Record {
    pub(super) fn view(&self) -> wal::Record<'_> {
        match self {
            Self::Entry { group, index, term, payload } => {
                wal::Record::Entry { group: wal::GroupId(*group), index: *index, term: *term, payload }
            }
            Self::HardState { group, state } => {
                wal::Record::HardState { group: wal::GroupId(*group), state: *state }
            }
            Self::Released { group, at: Position { index, term }, checkpoint } => {
                let (index, term, checkpoint) = (*index, *term, *checkpoint);
                wal::Record::Released { group: wal::GroupId(*group), index, term, checkpoint }
            }
            Self::Removed { group } => wal::Record::Removed { group: wal::GroupId(*group) },
        }
    }
}

/// What one turn wants written.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(super) records: Vec<Record>,
    pub(super) persisted: Vec<(GroupId, Ticket)>,
}

/// What the log holds of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupLog {
    hard_state: Option<HardState>,
    pub(super) entries: Vec<Entry>,
    pub(super) released: Position,
    pub(super) checkpoint: u64,
}

impl GroupLog {
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

    /// Index up to which the log knows the group.
    pub(super) fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.index).max(self.released.index)
    }

    /// How the group begins behind its checkpoint, which says up to where it was applied, and what of the log cannot be used because something is missing. The group goes on behind all that
    /// the log ever had of it: an index that comes again would be refused by the log.
    pub(super) fn start(self, applied: u64, checkpoint: u64) -> (Start, Option<String>) {
        let Self { hard_state, mut entries, released, checkpoint: covering } = self;
        let is_covered = checkpoint != 0 && checkpoint == covering;
        let applied = if is_covered { applied.max(released.index) } else { applied };
        let last = entries.last().map(|entry| Position { index: entry.index, term: entry.term });
        let before = entries.iter().rfind(|entry| entry.index == applied).map(|entry| entry.term);
        entries.retain(|entry| entry.index > applied);
        let first = entries.first().map_or(released.index, |entry| entry.index - 1);
        let state = hard_state.unwrap_or_default();
        let term = before.unwrap_or(released.term).max(u64::from(applied > 0));
        let mut snapshot = Position { index: applied, term: if applied == 0 { 0 } else { term } };
        let mut lost = None;
        let whole = entries.windows(2).take_while(|pair| pair[0].index + 1 == pair[1].index).count() + 1;
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
}

/// The log, what it holds of each group, and what of it is lost.
pub(super) type Opened = (Wal, BTreeMap<u64, GroupLog>, Vec<String>);

pub(super) fn open(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    settings: &Settings,
    seed: u64,
) -> Result<Opened, BootError> {
    let mut groups: BTreeMap<u64, GroupLog> = BTreeMap::new();
    let options = wal::Options {
        segment_bytes: wal::SEGMENT_BYTES_MIN,
        crypt: settings.keyring.clone(),
        entropy: Arc::new(SeededEntropy::new(seed)),
    };
    let (wal, report) = Wal::open(Arc::clone(disk), &dir.join("log"), options, &mut |record| {
        let group = match &record {
            wal::Record::Entry { group, .. }
            | wal::Record::HardState { group, .. }
            | wal::Record::Released { group, .. }
            | wal::Record::Removed { group } => group.0,
        };
        groups.entry(group).or_default().take(record);
    })?;
    let mut damage: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
    damage.extend(
        report.gaps.iter().map(|gap| format!("group {} lacks entries {:?}", gap.group.0, gap.missing)),
    );
    Ok((wal, groups, damage))
}
