//! A cluster in one thread: servers with a disk that loses what was not synced, and a network that loses, delays, doubles and reorders.
//!
//! It checks while it runs: two leaders of one term, two payloads at one index, an index handed out twice or left out end the test.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use multiraft::{
    Entry, GroupId, HardState, Limits, Node, NodeConfig, Output, PeerId, Position, Role, Start, Ticket,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What the shared log of one server holds of one group, and the group's last checkpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    hard_state: HardState,
    snapshot: Position,
    entries: Vec<Entry>,
    pub(crate) checkpoint: u64,
}

impl Disk {
    fn append(&mut self, entries: &[Entry], hard_state: Option<HardState>) {
        for entry in entries {
            let keep = (entry.index - self.snapshot.index - 1) as usize;
            assert!(keep <= self.entries.len(), "hole in the log before {}", entry.index);
            self.entries.truncate(keep);
            self.entries.push(entry.clone());
        }
        self.hard_state = hard_state.unwrap_or(self.hard_state);
    }

    fn compact(&mut self, index: u64) {
        if index <= self.snapshot.index {
            return;
        }
        let drop = (index - self.snapshot.index) as usize;
        self.snapshot = Position { index, term: self.entries[drop - 1].term };
        self.entries.drain(..drop);
    }

    fn read(&self, first: u64, last: u64) -> Vec<Entry> {
        self.entries.iter().filter(|entry| (first..=last).contains(&entry.index)).cloned().collect()
    }
}

/// A write on its way to the disk.
struct Write {
    group: GroupId,
    ticket: Ticket,
    entries: Vec<Entry>,
    hard_state: Option<HardState>,
}

pub(crate) struct Server {
    pub(crate) node: Option<Node>,
    disks: BTreeMap<GroupId, Disk>,
    writes: VecDeque<Write>,
    /// Index up to which each group was handed out.
    pub(crate) through: BTreeMap<GroupId, u64>,
    pub(crate) leads: BTreeMap<GroupId, u64>,
}

struct Flight {
    due: u64,
    from: PeerId,
    to: PeerId,
    bytes: Bytes,
}

/// How bad the network is, in percent and steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) loss: u32,
    pub(crate) double: u32,
    pub(crate) delay: u64,
    /// How likely it is that nothing is synced in a step.
    pub(crate) slow_disk: u32,
}

pub(crate) struct Net {
    pub(crate) rng: StdRng,
    limits: Limits,
    pub(crate) servers: Vec<Server>,
    groups: Vec<GroupId>,
    flights: Vec<Flight>,
    cut: Vec<(PeerId, PeerId)>,
    pub(crate) weather: Weather,
    pub(crate) step: u64,
    /// What was committed, by group and index; none for an entry of Raft.
    pub(crate) chosen: BTreeMap<(GroupId, u64), Option<Bytes>>,
    leaders: BTreeMap<(GroupId, u64), PeerId>,
    pub(crate) sent: u64,
    pub(crate) asked: u64,
    pub(crate) snapshots_needed: Vec<(GroupId, PeerId)>,
    seed: u64,
}

impl Net {
    pub(crate) fn new(servers: u64, groups: u64, limits: Limits, seed: u64) -> Self {
        let groups: Vec<GroupId> = (1..=groups).map(GroupId).collect();
        let disks: BTreeMap<GroupId, Disk> = groups.iter().map(|group| (*group, Disk::default())).collect();
        let server = |_| Server {
            node: None,
            disks: disks.clone(),
            writes: VecDeque::new(),
            through: BTreeMap::new(),
            leads: BTreeMap::new(),
        };
        let mut net = Self {
            rng: StdRng::seed_from_u64(seed),
            limits,
            servers: (0..servers).map(server).collect(),
            groups,
            flights: Vec::new(),
            cut: Vec::new(),
            weather: Weather::default(),
            step: 0,
            chosen: BTreeMap::new(),
            leaders: BTreeMap::new(),
            sent: 0,
            asked: 0,
            snapshots_needed: Vec::new(),
            seed,
        };
        for peer in net.peers() {
            net.start(peer);
        }
        net
    }

    pub(crate) fn peers(&self) -> Vec<PeerId> {
        (1..=self.servers.len() as u64).map(PeerId).collect()
    }

    pub(crate) fn groups(&self) -> Vec<GroupId> {
        self.groups.clone()
    }

    pub(crate) fn server(&mut self, peer: PeerId) -> &mut Server {
        &mut self.servers[peer.0 as usize - 1]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    /// Starts a server from its disk.
    pub(crate) fn start(&mut self, peer: PeerId) {
        let mut config = NodeConfig::new(peer, self.seed);
        config.limits = self.limits;
        let peers = self.peers();
        let mut node = Node::new(config);
        let server = self.server(peer);
        for (group, disk) in &server.disks {
            let start = Start {
                peers: peers.clone(),
                hard_state: disk.hard_state,
                applied: disk.checkpoint,
                snapshot: disk.snapshot,
                entries: disk.entries.clone(),
            };
            node.add_group(*group, start).unwrap();
            server.through.insert(*group, disk.checkpoint);
        }
        server.node = Some(node);
    }

    /// Stops a server. Of what was on its way to the disk, the first `kept` writes made it.
    pub(crate) fn crash(&mut self, peer: PeerId, kept: usize) {
        let server = self.server(peer);
        server.node = None;
        server.leads.clear();
        for write in std::mem::take(&mut server.writes).into_iter().take(kept) {
            server.disks.get_mut(&write.group).unwrap().append(&write.entries, write.hard_state);
        }
    }

    pub(crate) fn writes(&mut self, peer: PeerId) -> usize {
        self.server(peer).writes.len()
    }

    /// Cuts every connection between the two sides.
    pub(crate) fn partition(&mut self, side: &[PeerId]) {
        self.cut.clear();
        for a in self.peers() {
            for b in self.peers() {
                if side.contains(&a) != side.contains(&b) {
                    self.cut.push((a, b));
                }
            }
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    /// Proposes at a server. True if it was taken.
    pub(crate) fn propose(&mut self, peer: PeerId, group: GroupId, payload: &str) -> bool {
        let Some(node) = &mut self.server(peer).node else { return false };
        node.propose(group, Bytes::copy_from_slice(payload.as_bytes())).is_ok()
    }

    /// The running server that was last told to lead, if it has the highest term of those.
    pub(crate) fn leader(&self, group: GroupId) -> Option<PeerId> {
        let leads = |(at, server): (usize, &Server)| {
            server.leads.get(&group).map(|term| (*term, PeerId(at as u64 + 1)))
        };
        self.servers.iter().enumerate().filter_map(leads).max_by_key(|(term, _)| *term).map(|(_, peer)| peer)
    }

    /// One moment: what is due arrives, disks sync, every tenth time clocks tick, and all servers do what is to be done.
    pub(crate) fn advance(&mut self) {
        self.step += 1;
        self.deliver();
        for peer in self.peers() {
            let ticks = self.step.is_multiple_of(10);
            if let Some(node) = self.server(peer).node.as_mut().filter(|_| ticks) {
                node.tick();
            }
            self.drain(peer);
            if !self.chance(self.weather.slow_disk) {
                let waiting = self.writes(peer);
                let some = self.rng.random_range(0..=waiting);
                self.sync(peer, some);
            }
            self.drain(peer);
        }
    }

    pub(crate) fn advance_by(&mut self, steps: u64) {
        for _ in 0..steps {
            self.advance();
        }
    }

    /// Goes on until the condition holds.
    pub(crate) fn advance_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..20_000 {
            if holds(self) {
                return;
            }
            self.advance();
        }
        panic!("seed {}: {what} does not come to pass: {}", self.seed, self.describe());
    }

    /// How every group stands on every server.
    fn describe(&self) -> String {
        let of = |(at, server): (usize, &Server)| match &server.node {
            Some(node) => self
                .groups
                .iter()
                .map(|group| format!("\n{} {group:?} {:?}", at + 1, node.status(*group)))
                .collect(),
            None => format!("\n{} is down", at + 1),
        };
        self.servers.iter().enumerate().map(of).collect()
    }

    fn deliver(&mut self) {
        let step = self.step;
        let (due, later) =
            std::mem::take(&mut self.flights).into_iter().partition(|flight| flight.due <= step);
        self.flights = later;
        for Flight { from, to, bytes, .. } in due {
            if self.cut.contains(&(from, to)) {
                continue;
            }
            if let Some(node) = &mut self.server(to).node {
                assert_eq!(node.step(from, bytes), Ok(0), "from {from:?} to {to:?}");
            }
        }
    }

    fn sync(&mut self, peer: PeerId, count: usize) {
        let server = self.server(peer);
        for write in server.writes.drain(..count) {
            server.disks.get_mut(&write.group).unwrap().append(&write.entries, write.hard_state);
            if let Some(node) = &mut server.node {
                node.persisted(write.group, write.ticket);
            }
        }
    }

    fn drain(&mut self, peer: PeerId) {
        while let Some(output) = self.server(peer).node.as_mut().and_then(Node::poll) {
            self.take(peer, output);
        }
    }

    fn take(&mut self, peer: PeerId, output: Output) {
        match output {
            Output::Persist { group, ticket, entries, hard_state } => {
                assert!(!entries.is_empty() || hard_state.is_some());
                self.server(peer).writes.push_back(Write { group, ticket, entries, hard_state });
            }
            Output::Send { peer: to, bytes } => self.send(peer, to, &bytes),
            Output::Committed { group, entries, through, .. } => self.apply(peer, group, &entries, through),
            Output::Role { group, role, term, leader } => {
                if role == Role::Leader {
                    assert_eq!(leader, Some(peer));
                    let first = *self.leaders.entry((group, term)).or_insert(peer);
                    assert_eq!(first, peer, "two leaders of {group:?} in term {term}");
                    self.server(peer).leads.insert(group, term);
                } else {
                    self.server(peer).leads.remove(&group);
                }
            }
            Output::NeedEntries { group, first, last, .. } => {
                self.asked += 1;
                let fails = self.chance(20);
                let count = self.rng.random_range(1..4);
                let server = self.server(peer);
                let mut entries = server.disks[&group].read(first, last);
                entries.truncate(if fails { 0 } else { count });
                assert!(server.node.as_mut().unwrap().supply_entries(group, first, entries));
            }
            Output::NeedSnapshot { group, peer } => self.snapshots_needed.push((group, peer)),
        }
    }

    fn send(&mut self, from: PeerId, to: PeerId, bytes: &Bytes) {
        self.sent += 1;
        let copies = if self.chance(self.weather.loss) {
            0
        } else {
            1 + usize::from(self.chance(self.weather.double))
        };
        for _ in 0..copies {
            let due = self.step + 1 + self.rng.random_range(0..=self.weather.delay);
            self.flights.push(Flight { due, from, to, bytes: bytes.clone() });
        }
    }

    fn apply(&mut self, peer: PeerId, group: GroupId, entries: &[Entry], through: u64) {
        let before = self.server(peer).through.insert(group, through).unwrap();
        assert!(through > before, "{group:?} of {peer:?} goes from {before} to {through}");
        let mut rest = entries;
        for index in before + 1..=through {
            let payload = match rest {
                [entry, others @ ..] if entry.index == index => {
                    rest = others;
                    Some(entry.payload.clone())
                }
                _ => None,
            };
            let chosen = self.chosen.entry((group, index)).or_insert_with(|| payload.clone());
            assert_eq!(*chosen, payload, "{group:?} at {index} on {peer:?}");
        }
        assert!(rest.is_empty(), "{group:?} of {peer:?}: {rest:?} is not within {before} to {through}");
    }

    /// Checkpoints a group of a server where it is now.
    pub(crate) fn checkpoint(&mut self, peer: PeerId, group: GroupId) {
        let server = self.server(peer);
        let through = server.through[&group];
        server.disks.get_mut(&group).unwrap().checkpoint = through;
    }

    /// Drops what all checkpoints of a group cover, on a server that runs.
    pub(crate) fn compact(&mut self, peer: PeerId, group: GroupId) {
        let index = self.servers.iter().map(|server| server.disks[&group].checkpoint).min().unwrap();
        self.compact_to(peer, group, index);
    }

    pub(crate) fn compact_to(&mut self, peer: PeerId, group: GroupId, index: u64) {
        let server = self.server(peer);
        let Some(node) = &mut server.node else { return };
        node.compact(group, index);
        server.disks.get_mut(&group).unwrap().compact(index);
    }

    /// Whether every server runs and has handed out all that any had.
    pub(crate) fn all_equal(&mut self) -> bool {
        let same = |group: &GroupId| {
            let last = self
                .chosen
                .range((*group, 0)..=(*group, u64::MAX))
                .next_back()
                .map_or(0, |((_, index), _)| *index);
            self.servers.iter().all(|server| server.node.is_some() && server.through[group] == last)
        };
        self.groups.iter().all(same)
    }

    /// Payloads that were committed in a group.
    pub(crate) fn payloads(&self, group: GroupId) -> Vec<String> {
        let range = self.chosen.range((group, 0)..=(group, u64::MAX));
        range
            .filter_map(|(_, payload)| payload.as_ref())
            .map(|payload| String::from_utf8(payload.to_vec()).unwrap())
            .collect()
    }
}
