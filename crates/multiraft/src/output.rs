//! What a node wants done, and what it tells of a group.

use bytes::Bytes;

use crate::start::{Entry, GroupId, HardState, PeerId};

/// Names one [`Output::Persist`]. Grows from one to the next within a node, whatever their groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What a member does in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Obeys a leader, or waits for one.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads, and has handed out everything that was committed before its term.
    Leader,
}

/// Something that the owner of a node has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Put this on stable storage, then call [`crate::Node::persisted`] with the ticket. Outputs of one group must reach the log in the order
    /// they came in; confirming one confirms all of the group before it. At least one of `entries` and `hard_state` is there; entries must not survive a crash without the
    /// hard state that came with them.
    Persist {
        /// The group.
        group: GroupId,
        /// What to confirm it with.
        ticket: Ticket,
        /// To be appended, without gaps. The first may have the index of an earlier entry: then that one and all behind it are void.
        entries: Vec<Entry>,
        /// Replaces the last one. There whenever term or vote changed.
        hard_state: Option<HardState>,
    },
    /// Send these bytes to the peer: everything of this turn in one batch. They may be lost, doubled, late and out of order.
    Send {
        /// The receiver.
        peer: PeerId,
        /// For [`crate::Node::step`] of the receiver.
        bytes: Bytes,
    },
    /// Apply these.
    Committed {
        /// The group.
        group: GroupId,
        /// Entries with a payload, in order. May be empty.
        entries: Vec<Entry>,
        /// Index up to which everything has been handed out with this, entries of Raft itself included. The applied index of a checkpoint made
        /// now.
        through: u64,
        /// Term of the entry at `through`.
        term: u64,
    },
    /// The role, the term or the leader changed.
    Role {
        /// The group.
        group: GroupId,
        /// What this member is now.
        role: Role,
        /// The term.
        term: u64,
        /// Who leads, if known. This server if `role` is [`Role::Leader`].
        leader: Option<PeerId>,
    },
    /// A member lags behind what is in memory: read these entries from the log and call [`crate::Node::supply_entries`], also when they could
    /// not be read. Asked once until then.
    NeedEntries {
        /// The group.
        group: GroupId,
        /// The first index wanted.
        first: u64,
        /// The last index of use. Fewer may be supplied.
        last: u64,
        /// Bytes of payloads that are of use; one entry always is.
        bytes_max: u64,
    },
    /// A member lags behind the beginning of the log. Told once for a member and beginning of the log.
    NeedSnapshot {
        /// The group.
        group: GroupId,
        /// The member.
        peer: PeerId,
    },
}

impl Output {
    /// The group this is about; none for a batch to a peer.
    #[must_use]
    pub fn group(&self) -> Option<GroupId> {
        match self {
            Self::Send { .. } => None,
            Self::Persist { group, .. }
            | Self::Committed { group, .. }
            | Self::Role { group, .. }
            | Self::NeedEntries { group, .. }
            | Self::NeedSnapshot { group, .. } => Some(*group),
        }
    }
}

/// How a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// As the last [`Output::Role`] said or will say at the next poll.
    pub role: Role,
    /// The term.
    pub term: u64,
    /// Who leads, if known.
    pub leader: Option<PeerId>,
    /// Index of the first entry that the log has to keep.
    pub first: u64,
    /// Index of the last entry, persisted or not.
    pub last: u64,
    /// Index up to which entries are committed.
    pub commit: u64,
    /// Index up to which entries were handed out.
    pub applied: u64,
    /// Bytes of payloads proposed and not yet handed out.
    pub inflight_bytes: u64,
    /// Whether the group has stopped being ticked until something happens to it.
    pub hibernates: bool,
}
