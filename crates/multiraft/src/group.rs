//! One group of a node: what is on its way to the log and to commitment, and what the owner was told.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::core::{GroupCore, Ready, Stand, View};
use crate::link::Links;
use crate::log::ENTRY_OVERHEAD;
use crate::message::Message;
use crate::node::ProposeError;
use crate::output::{Output, Role, Status, Ticket};
use crate::start::{Entry, GroupId, Limits, MEMBERS_MAX, PeerId};

/// Where groups of a node put what they want done.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) links: Links,
    /// The last ticket given out.
    pub(crate) ticket: u64,
}

impl Outbox {
    fn send(&mut self, messages: &[Message]) {
        messages.iter().for_each(|message| self.links.push(message, &mut self.outputs));
    }
}

/// Work that the log was asked to persist.
#[derive(Debug)]
struct Outstanding {
    ticket: u64,
    /// The core's number for it, or for later work that needed no persisting of its own.
    number: u64,
    /// To be sent then.
    messages: Vec<Message>,
}

/// What the owner was told of role, term and leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    role: Role,
    term: u64,
    leader: Option<PeerId>,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Group<C> {
    id: GroupId,
    pub(crate) core: C,
    /// The other members.
    pub(crate) others: SmallVec<[PeerId; 2]>,
    /// Whether it waits in the node's list of groups to look at.
    pub(crate) dirty: bool,
    /// Whether it is in the node's list of groups to tick.
    pub(crate) awake: bool,
    /// Ticks since something last happened.
    pub(crate) quiet_ticks: u32,
    told: Told,
    inflight_bytes: u64,
    outstanding: VecDeque<Outstanding>,
    /// First indexes of entries that the owner was asked for.
    asked: SmallVec<[u64; 2]>,
    /// Members that the owner was told to need a snapshot, and the beginning of the log then.
    lagging: SmallVec<[(PeerId, u64); 2]>,
}

impl<C: GroupCore> Group<C> {
    pub(crate) fn new(id: GroupId, core: C, others: SmallVec<[PeerId; 2]>) -> Self {
        let told = Told { role: Role::Follower, term: core.view().term, leader: None };
        Self {
            id,
            core,
            others,
            dirty: false,
            awake: false,
            quiet_ticks: 0,
            told,
            inflight_bytes: 0,
            outstanding: VecDeque::new(),
            asked: SmallVec::new(),
            lagging: SmallVec::new(),
        }
    }

    pub(crate) fn propose(&mut self, payload: Bytes, inflight_bytes_max: u64) -> Result<(), ProposeError> {
        let now = self.standing(&self.core.view());
        // A role that the owner has not been told of yet does not count in its favour.
        if self.told.role != Role::Leader || now != self.told {
            return Err(ProposeError::NotLeader {
                leader: now.leader.filter(|_| now.role == Role::Follower),
            });
        }
        let cost = payload.len() as u64 + ENTRY_OVERHEAD;
        if self.inflight_bytes > 0 && self.inflight_bytes + cost > inflight_bytes_max {
            return Err(ProposeError::Busy {
                inflight_bytes: self.inflight_bytes,
                limit: inflight_bytes_max,
            });
        }
        self.inflight_bytes += cost;
        self.core.propose(payload);
        Ok(())
    }

    /// The work of `ticket` and all before it is on stable storage.
    pub(crate) fn persisted(&mut self, ticket: Ticket, outbox: &mut Outbox) -> bool {
        let mut number = None;
        while self.outstanding.front().is_some_and(|work| work.ticket <= ticket.0) {
            let Some(work) = self.outstanding.pop_front() else { break };
            outbox.send(&work.messages);
            number = Some(work.number);
        }
        let Some(number) = number else { return false };
        self.core.persisted(number);
        true
    }

    /// Takes one piece of work out of the core and says what is to be done for it. True if there is more.
    pub(crate) fn process(&mut self, limits: &Limits, outbox: &mut Outbox) -> bool {
        let ready = self.core.ready();
        let now = self.standing(&self.core.view());
        // Who loses the lead hears of it before anything of the next leader.
        if self.told.role == Role::Leader {
            self.tell(now, outbox);
        }
        if let Some(ready) = ready {
            self.take(ready, outbox);
        }
        self.tell(now, outbox);
        self.ask(limits, outbox);
        self.core.has_ready()
    }

    fn take(&mut self, mut ready: Ready, outbox: &mut Outbox) {
        outbox.send(&ready.messages);
        if ready.entries.is_empty() && ready.hard_state.is_none() {
            match self.outstanding.back_mut() {
                // It may count on what is still on its way to the log.
                Some(before) => {
                    before.number = ready.number;
                    before.messages.append(&mut ready.messages_after);
                }
                None => {
                    outbox.send(&ready.messages_after);
                    self.core.persisted(ready.number);
                }
            }
        } else {
            outbox.ticket += 1;
            let ticket = outbox.ticket;
            self.outstanding.push_back(Outstanding {
                ticket,
                number: ready.number,
                messages: ready.messages_after,
            });
            outbox.outputs.push_back(Output::Persist {
                group: self.id,
                ticket: Ticket(ticket),
                entries: ready.entries,
                hard_state: ready.hard_state,
            });
        }
        if let Some(through) = ready.through {
            self.settle(&ready.committed);
            outbox.outputs.push_back(Output::Committed {
                group: self.id,
                entries: ready.committed,
                through: through.index,
                term: through.term,
            });
        }
    }

    /// Takes committed payloads of this leader off what is in flight.
    fn settle(&mut self, committed: &[Entry]) {
        if self.inflight_bytes == 0 {
            return;
        }
        let own = committed.iter().filter(|entry| entry.term == self.told.term);
        let bytes: u64 = own.map(|entry| entry.payload.len() as u64 + ENTRY_OVERHEAD).sum();
        self.inflight_bytes = self.inflight_bytes.saturating_sub(bytes);
    }

    /// Role as the owner is to see it: it leads only after all that was committed before its term has been handed out.
    fn standing(&self, view: &View) -> Told {
        let role = match view.stand {
            Stand::Follower => Role::Follower,
            Stand::Leader if view.applied.term == view.term => Role::Leader,
            Stand::Candidate | Stand::Leader => Role::Candidate,
        };
        let leader = if role == Role::Candidate { None } else { view.leader };
        Told { role, term: view.term, leader }
    }

    fn tell(&mut self, now: Told, outbox: &mut Outbox) {
        if now == self.told {
            return;
        }
        if self.told.role == Role::Leader {
            self.inflight_bytes = 0;
        }
        self.told = now;
        outbox.outputs.push_back(Output::Role {
            group: self.id,
            role: now.role,
            term: now.term,
            leader: now.leader,
        });
    }

    /// Asks the owner for what the core did not find in memory.
    fn ask(&mut self, limits: &Limits, outbox: &mut Outbox) {
        let Some(wanted) = self.core.take_wanted() else { return };
        let last = self.core.below_tail();
        for first in wanted.entries {
            // A member has one place where it is; more questions than members are stale ones. They are asked again with the next heartbeat.
            if first > last || self.asked.contains(&first) || self.asked.len() >= MEMBERS_MAX {
                continue;
            }
            self.asked.push(first);
            outbox.outputs.push_back(Output::NeedEntries {
                group: self.id,
                first,
                last,
                bytes_max: limits.append_bytes_max,
            });
        }
        let start = self.core.view().start.index;
        for peer in wanted.snapshots {
            if self.lagging.contains(&(peer, start)) {
                continue;
            }
            self.lagging.retain(|(known, _)| *known != peer);
            self.lagging.push((peer, start));
            outbox.outputs.push_back(Output::NeedSnapshot { group: self.id, peer });
        }
    }

    /// The answer to [`Output::NeedEntries`]. False if the entries are not of this log.
    pub(crate) fn supply(&mut self, first: u64, entries: Vec<Entry>) -> bool {
        self.asked.retain(|asked| *asked != first);
        self.core.supply(entries)
    }

    /// Stops being ticked until something happens.
    pub(crate) fn hibernate(&mut self) {
        self.awake = false;
        self.outstanding.shrink_to_fit();
        self.core.hibernate();
    }

    /// Whether nothing waits for the log or for commitment here.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.outstanding.is_empty() && self.asked.is_empty() && !self.core.has_ready()
    }

    pub(crate) fn status(&self) -> Status {
        let view = self.core.view();
        let told = self.standing(&view);
        Status {
            role: told.role,
            term: told.term,
            leader: told.leader,
            first: view.start.index + 1,
            last: view.last,
            commit: view.commit,
            applied: view.applied.index,
            inflight_bytes: self.inflight_bytes,
            hibernates: !self.awake,
        }
    }
}
