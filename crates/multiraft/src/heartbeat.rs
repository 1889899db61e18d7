//! One sign of life per peer instead of one per group, and the sleep of quiet groups that it makes possible.
//!
//! A leader that sees all members at its last entry, for as long as an election would take, tells them to hibernate and stops being ticked; a
//! follower that finds itself at the same point does so too. From then on nothing is sent for the group. In its place every node sends each
//! peer a batch at least every `heartbeat_ticks`, an empty one if need be: a *beat*.
//!
//! A group wakes when something happens to it: a proposal, a message that asks for an answer, or silence. When nothing was heard from a peer
//! for `election_ticks`, all groups shared with it wake, and where it was the leader, the time of silence counts towards the election: so a
//! leader's death is noticed as it would have been without hibernation. While a peer is silent, no group shared with it hibernates.
//!
//! A group of one hibernates by the same rule. It sends nothing either way; what sleep gives back is the room that work took.
//!
//! Safety does not depend on any of this: votes and commitment are the engine's. What could be lost is an election that should begin, and
//! these keep it from being lost: a lost order to hibernate leaves a follower awake, which soon asks for votes and so wakes the others; a
//! member that restarted is awake and does the same.

use crate::core::{GroupCore, Stand};
use crate::group::Group;
use crate::link::Links;
use crate::message::{Kind, Message};
use crate::start::PeerId;

/// Whether a message wakes the group it is for. Answers that only confirm what the leader knows do not: the last of them come after the
/// order to hibernate.
pub(crate) fn wakes(message: &Message) -> bool {
    match message.kind {
        Kind::HeartbeatResponse => false,
        Kind::AppendResponse => message.reject,
        _ => true,
    }
}

/// Has a leader that had nothing to do for `ticks` send its followers to sleep, and falls asleep itself. Gives the orders to be sent.
pub(crate) fn try_hibernate<C: GroupCore>(
    group: &mut Group<C>,
    id: crate::GroupId,
    ticks: u32,
    links: &Links,
) -> Vec<Message> {
    let rested = group.quiet_ticks >= ticks && group.is_at_rest() && group.core.all_caught_up();
    if !rested || group.others.iter().any(|peer| links.is_silent(*peer)) {
        return Vec::new();
    }
    let view = group.core.view();
    group.hibernate();
    let order = |peer: &PeerId| {
        let mut message = Message::new(id, *peer, Kind::Hibernate);
        message.term = view.term;
        message.commit = view.last;
        message
    };
    group.others.iter().map(order).collect()
}

/// A leader's order to sleep arrived. A follower at another point stays awake.
pub(crate) fn obey<C: GroupCore>(group: &mut Group<C>, from: PeerId, order: &Message, links: &Links) {
    let silent = group.others.iter().any(|peer| links.is_silent(*peer));
    if !silent && group.is_at_rest() && group.core.agrees_to_hibernate(from, order) {
        group.hibernate();
    }
}

/// Nothing is heard from `peer`: its followers count the silence they slept through.
pub(crate) fn hear_silence<C: GroupCore>(group: &mut Group<C>, peer: PeerId) {
    let view = group.core.view();
    if !group.awake && view.stand == Stand::Follower && view.leader == Some(peer) {
        group.core.leader_is_silent();
    }
}
