//! What a node and a group begin with, and the checks of what was recovered.

use bytes::Bytes;

/// Members that a group may have at most.
pub(crate) const MEMBERS_MAX: usize = 15;

/// A server, the same number in every group. Not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// A group, the same number on every member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// A place in the log of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// From 1; 0 is the place before the first entry.
    pub index: u64,
    /// Term of the leader that appended the entry at `index`; 0 at index 0.
    pub term: u64,
}

/// One entry of the log of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// From 1, without gaps.
    pub index: u64,
    /// Term of the leader that appended it.
    pub term: u64,
    /// What was proposed. Empty for an entry of Raft itself (a new leader appends one): it is persisted like the others, and never handed out
    /// to be applied.
    pub payload: Bytes,
}

/// What a member of a group must never forget, apart from entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HardState {
    /// The highest term the member has seen.
    pub term: u64,
    /// Whom it voted for in that term.
    pub vote: Option<PeerId>,
    /// What was known to be committed when this was written. A lower bound: it alone is no reason to write a new hard state.
    pub commit: u64,
}

/// A group at its start, new or recovered.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// All members, this server among them.
    pub peers: Vec<PeerId>,
    /// The last hard state that was persisted.
    pub hard_state: HardState,
    /// Index up to which the state machine has applied: what its checkpoint says.
    pub applied: u64,
    /// The log begins behind this place. Must be known to be applied.
    pub snapshot: Position,
    /// The log behind `snapshot`, without gaps. All of it must be on stable storage by now: a group of one takes it for committed.
    pub entries: Vec<Entry>,
}

impl Start {
    /// A group that has never run.
    #[must_use]
    pub fn new(peers: Vec<PeerId>) -> Self {
        Self { peers, ..Self::default() }
    }

    /// Index of the last entry, or of the snapshot without entries.
    pub(crate) fn last_index(&self) -> u64 {
        self.entries.last().map_or(self.snapshot.index, |entry| entry.index)
    }

    pub(crate) fn validate(&self, own: PeerId) -> Result<(), StartError> {
        self.validate_members(own)?;
        self.validate_log()?;
        let (first, last) = (self.snapshot.index, self.last_index());
        if self.applied < first || self.applied > last {
            return Err(StartError::Applied { applied: self.applied, first, last });
        }
        if self.hard_state.commit > last {
            return Err(StartError::Commit { commit: self.hard_state.commit, last });
        }
        Ok(())
    }

    fn validate_members(&self, own: PeerId) -> Result<(), StartError> {
        if self.peers.len() > MEMBERS_MAX {
            return Err(StartError::TooManyMembers { members: self.peers.len(), limit: MEMBERS_MAX });
        }
        for (at, peer) in self.peers.iter().enumerate() {
            if peer.0 == 0 || self.peers[..at].contains(peer) {
                return Err(StartError::Member { peer: *peer });
            }
        }
        if !self.peers.contains(&own) {
            return Err(StartError::NotMember { peer: own });
        }
        Ok(())
    }

    fn validate_log(&self) -> Result<(), StartError> {
        let mut before = self.snapshot;
        for entry in &self.entries {
            if entry.index != before.index + 1 {
                return Err(StartError::Gap { before: before.index, index: entry.index });
            }
            if entry.term < before.term || entry.term == 0 {
                return Err(StartError::Term {
                    index: entry.index,
                    term: entry.term,
                    floor: before.term.max(1),
                });
            }
            before = Position { index: entry.index, term: entry.term };
        }
        if self.hard_state.term < before.term {
            return Err(StartError::HardState { term: self.hard_state.term, last: before.term });
        }
        Ok(())
    }
}

/// Why a group cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// There is one with this number already.
    #[error("group {} exists already", .group.0)]
    Exists {
        /// The number.
        group: GroupId,
    },
    /// This server is not among the members.
    #[error("peer {} is not a member of the group", .peer.0)]
    NotMember {
        /// This server.
        peer: PeerId,
    },
    /// A member is zero or named twice.
    #[error("member {} of the group is zero or named twice", .peer.0)]
    Member {
        /// The member.
        peer: PeerId,
    },
    /// More members than a group may have.
    #[error("group of {members} members exceeds the limit of {limit}")]
    TooManyMembers {
        /// How many are named.
        members: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// The recovered log has a hole or goes back.
    #[error("log has index {index} after {before}")]
    Gap {
        /// The last good index.
        before: u64,
        /// The one found behind it.
        index: u64,
    },
    /// A term in the recovered log is lower than one before it.
    #[error("log has term {term} at index {index}, expected at least {floor}")]
    Term {
        /// Index of the entry.
        index: u64,
        /// Its term.
        term: u64,
        /// The lowest term possible there.
        floor: u64,
    },
    /// The hard state is older than the log.
    #[error("hard state of term {term} is behind the log, which ends in term {last}")]
    HardState {
        /// Term of the hard state.
        term: u64,
        /// Term of the last entry.
        last: u64,
    },
    /// The state machine is not within the log.
    #[error("applied index {applied} is outside of the log, {first} to {last}")]
    Applied {
        /// What the checkpoint says.
        applied: u64,
        /// Index of the snapshot.
        first: u64,
        /// Index of the last entry.
        last: u64,
    },
    /// Entries known to be committed are missing.
    #[error("commit index {commit} is behind the end of the log at {last}")]
    Commit {
        /// What the hard state says.
        commit: u64,
        /// Index of the last entry.
        last: u64,
    },
}

/// Bounds of a node. All of one group unless said otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of payloads that were proposed and are not yet handed out as committed. One payload is always taken.
    pub inflight_bytes_max: u64,
    /// Bytes of applied payloads that are kept in memory for members that lag a little. Groups of one keep none.
    pub tail_bytes_max: u64,
    /// Bytes of payloads in one message that appends; one entry is always sent.
    pub append_bytes_max: u64,
    /// Messages that append, on their way to one member.
    pub appends_max: usize,
    /// Bytes of payloads in one `Committed`; one entry is always handed out.
    pub committed_bytes_max: u64,
    /// Bytes of a batch for one peer, of all groups, after which a new batch is begun.
    pub batch_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inflight_bytes_max: 16 << 20,
            tail_bytes_max: 1 << 20,
            append_bytes_max: 1 << 20,
            appends_max: 64,
            committed_bytes_max: 4 << 20,
            batch_bytes_max: 1 << 20,
        }
    }
}

/// What a node is told when it is made.
#[derive(Debug, Clone, Copy)]
pub struct NodeConfig {
    /// This server. Not zero.
    pub peer: PeerId,
    /// Ticks without a word from the leader after which a follower may stand for election; each draws between this and twice this.
    pub election_ticks: u32,
    /// Ticks between heartbeats of a leader. Below `election_ticks`.
    pub heartbeat_ticks: u32,
    /// Where election timeouts are drawn from. Two members need not have different ones.
    pub seed: u64,
    /// Bounds.
    pub limits: Limits,
}

impl NodeConfig {
    /// The usual pace (an election after 10 to 20 ticks, a heartbeat every 2) and bounds.
    #[must_use]
    pub fn new(peer: PeerId, seed: u64) -> Self {
        Self { peer, election_ticks: 10, heartbeat_ticks: 2, seed, limits: Limits::default() }
    }
}
