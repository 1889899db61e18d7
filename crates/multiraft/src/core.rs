//! One group's consensus behind a trait, and the engine that we use for it.
//!
//! The engine is the `raft` crate, driven through its asynchronous interface: what is to be persisted is taken out at once, and confirmed by
//! number later. Only this module and [`crate::log`] name it.
//!
//! - Its log lines are discarded: the role changes that we report say the same once per transition.
//! - It draws election timeouts from the thread's generator and has no seed. After every call the drawn one is replaced with our own, a
//!   function of seed, member, group and term, before anything can depend on it.
//! - It can join what it sends to a member in a turn (`batch_append`), but puts entries into an empty append of another index when it does.
//!   That stays off; proposals of a turn are told to the members together instead.
//! - It panics on messages that contradict what this member persisted. Those are refused before they reach it.

use bytes::Bytes;
use raft::eraftpb::{self, MessageType};
use raft::{Config, ProgressState, RawNode, StateRole};
use slog::Logger;
use smallvec::SmallVec;

use crate::log::{ENTRY_OVERHEAD, Log, Wanted, from_engine, to_engine};
use crate::message::{Kind, Message};
use crate::start::{Entry, GroupId, HardState, NodeConfig, PeerId, Position, Start};

/// Work taken out of a core.
#[derive(Debug)]
pub(crate) struct Ready {
    /// What to confirm it with. Grows.
    pub(crate) number: u64,
    /// To be persisted.
    pub(crate) entries: Vec<Entry>,
    /// To be persisted, if term or vote changed.
    pub(crate) hard_state: Option<HardState>,
    /// To be sent at once.
    pub(crate) messages: Vec<Message>,
    /// To be sent once this and all work before it is persisted.
    pub(crate) messages_after: Vec<Message>,
    /// Committed payloads, to be applied.
    pub(crate) committed: Vec<Entry>,
    /// Where committed entries of this work end, those without payload included.
    pub(crate) through: Option<Position>,
}

/// What a core says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    Follower,
    Candidate,
    Leader,
}

/// State of a core at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) stand: Stand,
    pub(crate) term: u64,
    pub(crate) leader: Option<PeerId>,
    pub(crate) start: Position,
    pub(crate) last: u64,
    pub(crate) commit: u64,
    pub(crate) applied: Position,
}

/// Consensus of one group.
pub(crate) trait GroupCore {
    /// Stands for election now. Alone in the group, it leads at once.
    fn campaign(&mut self);
    /// Appends a payload. Only while it leads.
    fn propose(&mut self, payload: Bytes);
    /// Takes a message of a member. False if it was refused.
    fn step(&mut self, from: PeerId, message: Message) -> bool;
    /// A tick passed.
    fn tick(&mut self);
    /// Nothing was heard of the leader for the time after which an election may begin.
    fn leader_is_silent(&mut self);
    /// The work of this number and all before it is persisted.
    fn persisted(&mut self, number: u64);
    /// Takes out work; none if there is none.
    fn ready(&mut self) -> Option<Ready>;
    /// Whether [`Self::ready`] would give work.
    fn has_ready(&self) -> bool;
    /// State at this moment.
    fn view(&self) -> View;
    /// Whether this member leads and knows all members to be at its last entry, which is committed and handed out.
    fn all_caught_up(&self) -> bool;
    /// Whether this member is at `message.commit` as its leader says, with nothing left to do.
    fn agrees_to_hibernate(&self, from: PeerId, message: &Message) -> bool;
    /// No tick will come for a while: room that only work needs is given back.
    fn hibernate(&mut self);
    /// Drops the log up to an applied index.
    fn compact(&mut self, index: u64);
    /// Asked for and not in memory, since the last call.
    fn take_wanted(&mut self) -> Option<Wanted>;
    /// Index of the last entry that is not in memory.
    fn below_tail(&self) -> u64;
    /// Entries below the tail, for the members that wait for them. False if they are not of this log.
    fn supply(&mut self, entries: Vec<Entry>) -> bool;
}

/// [`GroupCore`] by the `raft` crate.
pub(crate) struct Engine {
    raw: RawNode<Log>,
    group: GroupId,
    own: PeerId,
    alone: bool,
    /// Proposals were appended and the members not told.
    untold: bool,
    /// Members that were sought at the beginning of the log, that beginning, and the term in which this member leads.
    probed: SmallVec<[(u64, Position, u64); 2]>,
    /// Term and vote as last taken out to be persisted.
    written: (u64, u64),
    pace: Pace,
}

/// Draws election timeouts.
#[derive(Debug, Clone, Copy)]
struct Pace {
    seed: u64,
    election_ticks: u32,
    /// Term of `timeout`.
    term: u64,
    timeout: usize,
}

impl Pace {
    fn new(config: &NodeConfig, group: GroupId) -> Self {
        let seed = mix(config.seed ^ mix(config.peer.0 ^ mix(group.0)));
        Self { seed, election_ticks: config.election_ticks, term: u64::MAX, timeout: 0 }
    }

    /// Election timeout of a term: from `election_ticks` up to twice that.
    fn timeout(&mut self, term: u64) -> usize {
        if self.term != term {
            self.term = term;
            let extra = mix(self.seed ^ mix(term)) % u64::from(self.election_ticks);
            self.timeout = self.election_ticks as usize + extra as usize;
        }
        self.timeout
    }
}

/// Spreads the bits of a number (the finalizer of splitmix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Engine {
    /// An engine for a validated start.
    pub(crate) fn new(config: &NodeConfig, group: GroupId, start: Start, logger: &Logger) -> Self {
        let alone = start.peers.len() == 1;
        let limits = &config.limits;
        let settings = Config {
            id: config.peer.0,
            election_tick: config.election_ticks as usize,
            heartbeat_tick: config.heartbeat_ticks as usize,
            applied: start.applied,
            max_size_per_msg: limits.append_bytes_max,
            // The engine allocates this many places for each member.
            max_inflight_msgs: if alone { 1 } else { limits.appends_max },
            check_quorum: !alone,
            pre_vote: !alone,
            max_committed_size_per_ready: limits.committed_bytes_max,
            ..Config::default()
        };
        let written = (start.hard_state.term, start.hard_state.vote.map_or(0, |peer| peer.0));
        let log = Log::new(start, if alone { 0 } else { limits.tail_bytes_max });
        let mut raw = match RawNode::new(&settings, log, logger) {
            Ok(raw) => raw,
            // Node and start were validated before.
            Err(error) => panic!("engine of group {} does not start: {error}", group.0),
        };
        raw.mut_store().started();
        let pace = Pace::new(config, group);
        let mut engine = Self {
            raw,
            group,
            own: config.peer,
            alone,
            untold: false,
            probed: SmallVec::new(),
            written,
            pace,
        };
        engine.set_pace();
        engine
    }

    /// Replaces an election timeout that the engine drew with ours.
    fn set_pace(&mut self) {
        if self.alone {
            return;
        }
        let timeout = self.pace.timeout(self.raw.raft.term);
        if self.raw.raft.randomized_election_timeout() != timeout {
            self.raw.raft.set_randomized_election_timeout(timeout);
        }
    }

    fn leads(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// Whether a message contradicts what this member has: then either it or the sender lost something it had promised to keep. Messages of
    /// earlier terms are not looked at: the engine ignores them, and a leader that stopped may have lost what it had only sent.
    fn contradicts(&self, message: &Message) -> bool {
        let last = self.raw.raft.raft_log.last_index();
        match message.kind {
            Kind::Heartbeat => message.term >= self.raw.raft.term && message.commit > last,
            Kind::AppendResponse => {
                self.leads() && message.term == self.raw.raft.term && !message.reject && message.index > last
            }
            _ => false,
        }
    }

    /// Asks a member whether it has what the log begins behind. The engine believes it to need a snapshot as soon as what it knows for sure of
    /// the member is older than that, though the member may have more. False if that was asked before, and the belief was right.
    fn probe_at_start(&mut self, peer: u64) -> bool {
        let (start, term) = (self.raw.store().start(), self.raw.raft.term);
        if !self.leads() || self.probed.contains(&(peer, start, term)) {
            return false;
        }
        let Some(progress) = self.raw.raft.mut_prs().get_mut(peer) else { return false };
        progress.become_probe();
        progress.next_idx = start.index + 1;
        self.probed.retain(|(known, ..)| *known != peer);
        self.probed.push((peer, start, term));
        self.raw.raft.send_append(peer);
        true
    }

    fn new_hard_state(&mut self) -> Option<HardState> {
        let state = self.raw.raft.hard_state();
        if (state.term, state.vote) == self.written {
            return None;
        }
        self.written = (state.term, state.vote);
        let vote = (state.vote != 0).then_some(PeerId(state.vote));
        Some(HardState { term: state.term, vote, commit: state.commit })
    }
}

impl GroupCore for Engine {
    fn campaign(&mut self) {
        // Refused only while entries that change the membership wait to be applied, and there are none of those.
        let _ = self.raw.campaign();
        self.set_pace();
    }

    fn propose(&mut self, payload: Bytes) {
        assert!(self.leads(), "proposal to group {}, which is not led here", self.group.0);
        let appended = self.raw.raft.append_entry(&mut [to_engine(0, 0, payload)]);
        assert!(appended, "engine of group {} has no bound of its own, and refused a proposal", self.group.0);
        self.untold = !self.alone;
    }

    fn step(&mut self, from: PeerId, message: Message) -> bool {
        if self.contradicts(&message) {
            return false;
        }
        let taken = self.raw.step(message_to_engine(from, message)).is_ok();
        self.set_pace();
        taken
    }

    fn tick(&mut self) {
        // Alone, there is nobody to remind or to miss.
        if self.alone {
            return;
        }
        self.raw.tick();
        self.set_pace();
    }

    fn leader_is_silent(&mut self) {
        if !self.leads() {
            self.raw.raft.election_elapsed = self.raw.raft.election_timeout();
        }
    }

    fn persisted(&mut self, number: u64) {
        self.raw.on_persist_ready(number);
    }

    fn ready(&mut self) -> Option<Ready> {
        if std::mem::take(&mut self.untold) && self.leads() {
            self.raw.raft.bcast_append();
        }
        if !self.raw.has_ready() {
            return None;
        }
        let mut ready = self.raw.ready();
        let number = ready.number();
        let entries: Vec<Entry> = ready.take_entries().into_iter().map(from_engine).collect();
        let (group, own) = (self.group, self.own);
        let convert = |messages: Vec<eraftpb::Message>| {
            messages.into_iter().filter_map(|m| message_from_engine(group, own, m)).collect()
        };
        let messages = convert(ready.take_messages());
        let messages_after = convert(ready.take_persisted_messages());
        let committed = ready.take_committed_entries();
        let through = committed.last().map(|entry| Position { index: entry.index, term: entry.term });
        let committed =
            committed.into_iter().filter(|entry| !entry.data.is_empty()).map(from_engine).collect();
        // The engine reads these from the log from now on, persisted or not.
        self.raw.mut_store().append(entries.iter().cloned());
        self.raw.advance_append_async(ready);
        if let Some(through) = through {
            self.raw.advance_apply_to(through.index);
            self.raw.mut_store().trim(through.index);
        }
        let hard_state = self.new_hard_state();
        Some(Ready { number, entries, hard_state, messages, messages_after, committed, through })
    }

    fn has_ready(&self) -> bool {
        self.untold || self.raw.has_ready()
    }

    fn view(&self) -> View {
        let raft = &self.raw.raft;
        let applied = raft.raft_log.applied;
        View {
            stand: match raft.state {
                StateRole::Follower => Stand::Follower,
                StateRole::Candidate | StateRole::PreCandidate => Stand::Candidate,
                StateRole::Leader => Stand::Leader,
            },
            term: raft.term,
            leader: (raft.leader_id != 0).then_some(PeerId(raft.leader_id)),
            start: raft.store().start(),
            last: raft.raft_log.last_index(),
            commit: raft.raft_log.committed,
            applied: Position { index: applied, term: raft.store().term_at(applied).unwrap_or(0) },
        }
    }

    fn all_caught_up(&self) -> bool {
        let raft = &self.raw.raft;
        let last = raft.raft_log.last_index();
        let here = raft.raft_log.applied == last && raft.raft_log.persisted == last;
        let there = |(id, progress): (&u64, &raft::Progress)| {
            *id == self.own.0
                || (progress.state == ProgressState::Replicate
                    && progress.matched == last
                    && progress.committed_index == last)
        };
        self.leads() && here && raft.prs().iter().all(there)
    }

    fn agrees_to_hibernate(&self, from: PeerId, message: &Message) -> bool {
        let raft = &self.raw.raft;
        let log = &raft.raft_log;
        let at_end = log.last_index() == message.commit
            && log.applied == message.commit
            && log.persisted == message.commit;
        raft.state == StateRole::Follower && raft.leader_id == from.0 && raft.term == message.term && at_end
    }

    fn hibernate(&mut self) {
        self.raw.raft.election_elapsed = 0;
        self.raw.raft.maybe_free_inflight_buffers();
        self.raw.raft.r.raft_log.unstable.entries.shrink_to_fit();
        self.raw.mut_store().shrink();
    }

    fn compact(&mut self, index: u64) {
        let applied = self.raw.raft.raft_log.applied;
        assert!(index <= applied, "group {} is compacted to {index}, but applied to {applied}", self.group.0);
        self.raw.mut_store().compact(index);
    }

    fn take_wanted(&mut self) -> Option<Wanted> {
        if !self.raw.store().has_wanted() {
            return None;
        }
        let mut wanted = self.raw.mut_store().take_wanted();
        wanted.snapshots.retain(|peer| !self.probe_at_start(peer.0));
        Some(wanted)
    }

    fn below_tail(&self) -> u64 {
        self.raw.store().below_tail()
    }

    fn supply(&mut self, entries: Vec<Entry>) -> bool {
        let (Some(first), Some(last)) =
            (entries.first().map(|entry| entry.index), entries.last().map(|entry| entry.index))
        else {
            return true;
        };
        if !self.raw.mut_store().supply(entries) {
            return false;
        }
        if self.leads() {
            let behind = |(id, progress): (&u64, &raft::Progress)| {
                (*id != self.own.0 && (first..=last).contains(&progress.next_idx)).then_some(*id)
            };
            let waiting: Vec<u64> = self.raw.raft.prs().iter().filter_map(behind).collect();
            waiting.into_iter().for_each(|id| self.raw.raft.send_append(id));
        }
        self.raw.mut_store().withdraw();
        true
    }
}

fn kind_to_engine(kind: Kind) -> MessageType {
    match kind {
        Kind::Append => MessageType::MsgAppend,
        Kind::AppendResponse => MessageType::MsgAppendResponse,
        Kind::Vote => MessageType::MsgRequestVote,
        Kind::VoteResponse => MessageType::MsgRequestVoteResponse,
        Kind::PreVote => MessageType::MsgRequestPreVote,
        Kind::PreVoteResponse => MessageType::MsgRequestPreVoteResponse,
        Kind::Heartbeat => MessageType::MsgHeartbeat,
        Kind::HeartbeatResponse => MessageType::MsgHeartbeatResponse,
        Kind::Hibernate => unreachable!("the engine does not know hibernation"),
    }
}

fn kind_from_engine(kind: MessageType) -> Option<Kind> {
    Some(match kind {
        MessageType::MsgAppend => Kind::Append,
        MessageType::MsgAppendResponse => Kind::AppendResponse,
        MessageType::MsgRequestVote => Kind::Vote,
        MessageType::MsgRequestVoteResponse => Kind::VoteResponse,
        MessageType::MsgRequestPreVote => Kind::PreVote,
        MessageType::MsgRequestPreVoteResponse => Kind::PreVoteResponse,
        MessageType::MsgHeartbeat => Kind::Heartbeat,
        MessageType::MsgHeartbeatResponse => Kind::HeartbeatResponse,
        _ => return None,
    })
}

fn message_to_engine(from: PeerId, message: Message) -> eraftpb::Message {
    let mut out = eraftpb::Message {
        to: message.to.0,
        from: from.0,
        term: message.term,
        log_term: message.log_term,
        index: message.index,
        commit: message.commit,
        commit_term: message.commit_term,
        reject: message.reject,
        reject_hint: message.reject_hint,
        ..eraftpb::Message::default()
    };
    out.set_msg_type(kind_to_engine(message.kind));
    let entries: Vec<eraftpb::Entry> =
        message.entries.into_iter().map(|entry| to_engine(entry.index, entry.term, entry.payload)).collect();
    out.set_entries(entries.into());
    out
}

/// None for what a member has no use for: the engine answers itself in some corners, and the answer to nobody is dropped.
fn message_from_engine(group: GroupId, own: PeerId, message: eraftpb::Message) -> Option<Message> {
    if message.to == own.0 || message.to == 0 {
        return None;
    }
    let kind = kind_from_engine(message.get_msg_type());
    let Some(kind) = kind else {
        panic!("engine of group {} sends {:?}, which no member takes", group.0, message.get_msg_type())
    };
    let mut out = Message::new(group, PeerId(message.to), kind);
    out.reject = message.reject;
    out.term = message.term;
    out.log_term = message.log_term;
    out.index = message.index;
    out.commit = message.commit;
    out.commit_term = message.commit_term;
    out.reject_hint = message.reject_hint;
    out.entries = message.entries.into_iter().map(from_engine).collect();
    Some(out)
}

const _: () = assert!(ENTRY_OVERHEAD >= size_of::<Entry>() as u64, "an entry costs less than it takes");
