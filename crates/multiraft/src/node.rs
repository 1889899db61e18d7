//! All groups of one server: the door of this crate.

use std::collections::VecDeque;

use bytes::Bytes;
use hashbrown::HashMap;
use slog::{Discard, Logger, o};

use crate::core::{Engine, GroupCore};
use crate::group::{Group, Outbox};
use crate::heartbeat;
use crate::link::Links;
use crate::message::{DecodeError, Kind, Message, decode_batch};
use crate::output::{Output, Status, Ticket};
use crate::start::{Entry, GroupId, NodeConfig, PeerId, Start, StartError};

/// Why a payload was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Another member leads, or none.
    #[error("this peer does not lead the group; leader: {}", .leader.map_or(0, |peer| peer.0))]
    NotLeader {
        /// Who leads, if known.
        leader: Option<PeerId>,
    },
    /// Too much is in flight. Some of it is committed later, and then there is room.
    #[error("{inflight_bytes} bytes are in flight, limit {limit}")]
    Busy {
        /// Bytes in flight.
        inflight_bytes: u64,
        /// How many may be.
        limit: u64,
    },
    /// There is no such group here.
    #[error("no such group")]
    UnknownGroup,
}

/// Why a batch of a peer was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// No group is shared with the sender.
    #[error("no group is shared with peer {}", .peer.0)]
    Stranger {
        /// The sender.
        peer: PeerId,
    },
    /// The bytes are no batch. Nothing of it was taken.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// This server's part of all its groups. See the crate's description for how it is driven.
pub struct Node {
    config: NodeConfig,
    groups: HashMap<GroupId, Box<Group<Engine>>>,
    /// Groups that something happened to, each once, and some that are gone.
    dirty: VecDeque<GroupId>,
    /// Groups that are ticked, each once.
    awake: Vec<GroupId>,
    outbox: Outbox,
    /// Ticks since the start.
    now: u64,
    logger: Logger,
}

impl Node {
    /// A node without groups.
    ///
    /// # Panics
    ///
    /// If the configuration is impossible: peer 0, no heartbeat, or an election that does not outlast one.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        assert!(config.peer.0 != 0, "peer 0 stands for none");
        let (heartbeat, election) = (config.heartbeat_ticks, config.election_ticks);
        assert!(
            heartbeat > 0 && election > heartbeat,
            "heartbeat of {heartbeat} ticks, election after {election}"
        );
        assert!(config.limits.appends_max > 0, "no message may be on its way to a member");
        let outbox =
            Outbox { outputs: VecDeque::new(), links: Links::new(config.limits.batch_bytes_max), ticket: 0 };
        Self {
            config,
            groups: HashMap::new(),
            dirty: VecDeque::new(),
            awake: Vec::new(),
            outbox,
            now: 0,
            logger: Logger::root(Discard, o!()),
        }
    }

    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Starts a group. One of one member leads as soon as its first `Persist` is confirmed.
    ///
    /// # Errors
    ///
    /// If the group exists, or what was recovered contradicts itself. Nothing is changed then.
    pub fn add_group(&mut self, id: GroupId, start: Start) -> Result<(), StartError> {
        if self.groups.contains_key(&id) {
            return Err(StartError::Exists { group: id });
        }
        start.validate(self.config.peer)?;
        let own = self.config.peer;
        let others = start.peers.iter().copied().filter(|peer| *peer != own).collect();
        let core = Engine::new(&self.config, id, start, &self.logger);
        let mut group = Box::new(Group::new(id, core, others));
        for peer in &group.others {
            self.outbox.links.add(*peer, self.now);
        }
        if group.others.is_empty() {
            group.core.campaign();
        }
        self.groups.insert(id, group);
        self.touch(id);
        Ok(())
    }

    /// Forgets a group, and outputs of it that were not polled. Confirmations that come later are ignored. False if there is none.
    pub fn remove_group(&mut self, id: GroupId) -> bool {
        let Some(group) = self.groups.remove(&id) else { return false };
        for peer in &group.others {
            self.outbox.links.remove(*peer);
        }
        if group.awake {
            self.awake.retain(|awake| *awake != id);
        }
        self.outbox.outputs.retain(|output| output.group() != Some(id));
        true
    }

    /// Appends a payload to the log of a group that this node leads.
    ///
    /// It is committed when `Committed` hands it out. If the role changes before, its fate is open: it may be committed later or be lost.
    ///
    /// # Errors
    ///
    /// If this node does not lead the group, or too much is in flight.
    ///
    /// # Panics
    ///
    /// If the payload is empty: empty entries are Raft's own.
    pub fn propose(&mut self, id: GroupId, payload: Bytes) -> Result<(), ProposeError> {
        assert!(!payload.is_empty(), "empty payload proposed to group {}", id.0);
        let group = self.groups.get_mut(&id).ok_or(ProposeError::UnknownGroup)?;
        group.propose(payload, self.config.limits.inflight_bytes_max)?;
        self.touch(id);
        Ok(())
    }

    /// Takes a batch of a peer, and says how many of its messages were of no use here: of unknown groups, or in contradiction to what was
    /// persisted here.
    ///
    /// # Errors
    ///
    /// If the bytes are no batch or no group is shared with the sender.
    pub fn step(&mut self, from: PeerId, batch: Bytes) -> Result<usize, StepError> {
        let now = self.now;
        let link = self.outbox.links.get_mut(from).ok_or(StepError::Stranger { peer: from })?;
        let messages = decode_batch(batch, self.config.peer)?;
        link.heard_at = now;
        link.silent = false;
        let mut refused = 0;
        for message in messages {
            refused += usize::from(!self.step_one(from, message));
        }
        Ok(refused)
    }

    fn step_one(&mut self, from: PeerId, message: Message) -> bool {
        let id = message.group;
        let Some(group) = self.groups.get_mut(&id) else { return false };
        if !group.others.contains(&from) {
            return false;
        }
        if message.kind == Kind::Hibernate {
            if group.awake {
                heartbeat::obey(group, from, &message, &self.outbox.links);
                if !group.awake {
                    self.awake.retain(|awake| *awake != id);
                }
            }
            return true;
        }
        let wakes = heartbeat::wakes(&message);
        let taken = group.core.step(from, message);
        if wakes {
            self.touch(id);
        } else {
            self.mark(id);
        }
        taken
    }

    /// A tick passed. Costs nothing for groups that hibernate.
    pub fn tick(&mut self) {
        self.now += 1;
        self.outbox.links.beat(self.now, u64::from(self.config.heartbeat_ticks));
        self.find_silence();
        let mut at = 0;
        while at < self.awake.len() {
            let id = self.awake[at];
            if self.tick_one(id) {
                at += 1;
            } else {
                self.awake.swap_remove(at);
            }
        }
    }

    /// Ticks one group. False if it fell asleep.
    fn tick_one(&mut self, id: GroupId) -> bool {
        let Some(group) = self.groups.get_mut(&id) else { return false };
        group.quiet_ticks = group.quiet_ticks.saturating_add(1);
        // Before the tick: with it may come a heartbeat, and then the group has something to do.
        let orders = heartbeat::try_hibernate(group, id, self.config.election_ticks, &self.outbox.links);
        for order in &orders {
            self.outbox.links.push(order, &mut self.outbox.outputs);
        }
        if !group.awake {
            return false;
        }
        group.core.tick();
        if group.core.has_ready() {
            self.mark(id);
        }
        true
    }

    /// Wakes the groups of peers that fell silent.
    fn find_silence(&mut self) {
        let (now, limit) = (self.now, u64::from(self.config.election_ticks));
        let fell_silent = |link: &mut crate::link::Link| {
            let silent = !link.silent && now - link.heard_at >= limit;
            link.silent |= silent;
            silent.then_some(link.peer)
        };
        let silent: Vec<PeerId> = self.outbox.links.iter_mut().filter_map(fell_silent).collect();
        for peer in silent {
            // A walk over all groups, once for a peer that goes. Their order must not depend on the table.
            let mut shared: Vec<GroupId> = self
                .groups
                .iter()
                .filter(|(_, group)| group.others.contains(&peer))
                .map(|(id, _)| *id)
                .collect();
            shared.sort_unstable();
            for id in shared {
                if let Some(group) = self.groups.get_mut(&id) {
                    heartbeat::hear_silence(group, peer);
                    self.touch(id);
                }
            }
        }
    }

    /// The `Persist` of this ticket, and all of the group before it, is on stable storage. A group that is gone is ignored.
    ///
    /// # Panics
    ///
    /// If no such ticket was given out.
    pub fn persisted(&mut self, id: GroupId, ticket: Ticket) {
        assert!(
            ticket.0 <= self.outbox.ticket,
            "ticket {} of group {} confirmed, the last given out is {}",
            ticket.0,
            id.0,
            self.outbox.ticket
        );
        let Some(group) = self.groups.get_mut(&id) else { return };
        if group.persisted(ticket, &mut self.outbox) {
            self.mark(id);
        }
    }

    /// Drops the log of a group up to `index`, which a checkpoint covers. Going back is no change.
    ///
    /// # Panics
    ///
    /// If `index` was not yet handed out as committed.
    pub fn compact(&mut self, id: GroupId, index: u64) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.core.compact(index);
        }
    }

    /// The answer to [`Output::NeedEntries`]: persisted entries from `first` on, or none if they could not be read. False if they are not of
    /// this group's log, or there is no such group.
    pub fn supply_entries(&mut self, id: GroupId, first: u64, entries: Vec<Entry>) -> bool {
        let Some(group) = self.groups.get_mut(&id) else { return false };
        let taken = group.supply(first, entries);
        self.mark(id);
        taken
    }

    /// How a group stands.
    #[must_use]
    pub fn status(&self, id: GroupId) -> Option<Status> {
        self.groups.get(&id).map(|group| group.status())
    }

    /// The next thing to be done; none at the end of the turn. Batches for peers come last.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.outbox.outputs.pop_front() {
                return Some(output);
            }
            let Some(id) = self.dirty.pop_front() else {
                self.outbox.links.flush(self.now, &mut self.outbox.outputs);
                return self.outbox.outputs.pop_front();
            };
            let Some(group) = self.groups.get_mut(&id) else { continue };
            if !std::mem::take(&mut group.dirty) {
                continue;
            }
            if group.process(&self.config.limits, &mut self.outbox) {
                self.mark(id);
            }
        }
    }

    /// Has a group looked at in this turn.
    fn mark(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if !std::mem::replace(&mut group.dirty, true) {
            self.dirty.push_back(id);
        }
    }

    /// Something happened to a group: it is looked at, and ticked for a while.
    fn touch(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.quiet_ticks = 0;
        if !group.awake {
            group.awake = true;
            self.awake.push(id);
        }
        self.mark(id);
    }
}
