//! Groups of one: they lead at once, commit what is persisted, and start again where they were.

use bytes::Bytes;
use multiraft::{
    Entry, GroupId, HardState, Limits, Node, NodeConfig, Output, PeerId, Position, ProposeError, Role, Start,
    StartError, Ticket,
};

const GROUP: GroupId = GroupId(7);
const OWN: PeerId = PeerId(1);

fn node() -> Node {
    Node::new(NodeConfig::new(OWN, 1))
}

fn poll_all(node: &mut Node) -> Vec<Output> {
    std::iter::from_fn(|| node.poll()).collect()
}

fn entry(index: u64, term: u64, payload: &'static str) -> Entry {
    Entry { index, term, payload: Bytes::from_static(payload.as_bytes()) }
}

/// Confirms every `Persist` until nothing happens any more. Gives all outputs.
fn run(node: &mut Node) -> Vec<Output> {
    let mut all = Vec::new();
    loop {
        let outputs = poll_all(node);
        if outputs.is_empty() {
            return all;
        }
        for output in &outputs {
            if let Output::Persist { group, ticket, .. } = output {
                node.persisted(*group, *ticket);
            }
        }
        all.extend(outputs);
    }
}

fn committed(outputs: &[Output]) -> Vec<Entry> {
    let of = |output: &Output| match output {
        Output::Committed { entries, .. } => entries.clone(),
        _ => Vec::new(),
    };
    outputs.iter().flat_map(of).collect()
}

fn through(outputs: &[Output]) -> Option<u64> {
    outputs.iter().rev().find_map(|output| match output {
        Output::Committed { through, .. } => Some(*through),
        _ => None,
    })
}

#[test]
fn new_group_leads_once_its_first_entry_is_persisted() {
    let mut node = node();
    node.add_group(GROUP, Start::new(vec![OWN])).unwrap();
    let outputs = poll_all(&mut node);
    let hard_state = Some(HardState { term: 1, vote: Some(OWN), commit: 0 });
    let expected = [
        Output::Persist { group: GROUP, ticket: Ticket(1), entries: vec![entry(1, 1, "")], hard_state },
        Output::Role { group: GROUP, role: Role::Candidate, term: 1, leader: None },
    ];
    assert_eq!(outputs, expected);
    assert_eq!(
        node.propose(GROUP, Bytes::from_static(b"early")),
        Err(ProposeError::NotLeader { leader: None })
    );
    node.persisted(GROUP, Ticket(1));
    let expected = [
        Output::Committed { group: GROUP, entries: Vec::new(), through: 1, term: 1 },
        Output::Role { group: GROUP, role: Role::Leader, term: 1, leader: Some(OWN) },
    ];
    assert_eq!(poll_all(&mut node), expected);
}

#[test]
fn payload_is_committed_when_its_own_persist_is_confirmed_and_not_before() {
    let mut node = node();
    node.add_group(GROUP, Start::new(vec![OWN])).unwrap();
    run(&mut node);
    let mut tickets = Vec::new();
    for payload in ["a", "b", "c"] {
        node.propose(GROUP, Bytes::from_static(payload.as_bytes())).unwrap();
        let outputs = poll_all(&mut node);
        let [Output::Persist { ticket, entries, hard_state: None, .. }] = &outputs[..] else {
            panic!("{outputs:?}")
        };
        assert_eq!(entries.len(), 1);
        tickets.push(*ticket);
    }
    node.persisted(GROUP, tickets[1]);
    let outputs = poll_all(&mut node);
    assert_eq!(
        outputs,
        [Output::Committed {
            group: GROUP,
            entries: vec![entry(2, 1, "a"), entry(3, 1, "b")],
            through: 3,
            term: 1
        }]
    );
    node.persisted(GROUP, tickets[0]);
    assert_eq!(poll_all(&mut node), []);
    node.persisted(GROUP, tickets[2]);
    assert_eq!(committed(&poll_all(&mut node)), [entry(4, 1, "c")]);
}

#[test]
fn restart_hands_out_what_is_behind_the_applied_index_once() {
    let mut node = node();
    let entries = vec![entry(5, 2, "five"), entry(6, 2, ""), entry(7, 3, "seven"), entry(8, 3, "eight")];
    let start = Start {
        peers: vec![OWN],
        hard_state: HardState { term: 3, vote: Some(OWN), commit: 5 },
        applied: 6,
        snapshot: Position { index: 4, term: 2 },
        entries,
    };
    node.add_group(GROUP, start).unwrap();
    let outputs = run(&mut node);
    assert_eq!(committed(&outputs), [entry(7, 3, "seven"), entry(8, 3, "eight")]);
    assert_eq!(through(&outputs), Some(9));
    let status = node.status(GROUP).unwrap();
    assert_eq!(
        (status.role, status.term, status.first, status.last, status.applied),
        (Role::Leader, 4, 5, 9, 9)
    );
    node.compact(GROUP, 8);
    node.compact(GROUP, 3);
    assert_eq!(node.status(GROUP).unwrap().first, 9);
    node.propose(GROUP, Bytes::from_static(b"ten")).unwrap();
    assert_eq!(committed(&run(&mut node)), [entry(10, 4, "ten")]);
}

#[test]
fn group_goes_on_when_all_of_its_log_is_compacted() {
    let mut node = node();
    let start = Start {
        hard_state: HardState { term: 3, vote: None, commit: 0 },
        applied: 12,
        snapshot: Position { index: 12, term: 3 },
        ..Start::new(vec![OWN])
    };
    node.add_group(GROUP, start).unwrap();
    assert_eq!(through(&run(&mut node)), Some(13));
    node.compact(GROUP, 13);
    let status = node.status(GROUP).unwrap();
    assert_eq!((status.first, status.last), (14, 13));
    node.propose(GROUP, Bytes::from_static(b"next")).unwrap();
    assert_eq!(committed(&run(&mut node)), [entry(14, 4, "next")]);
}

#[test]
fn bytes_in_flight_are_bounded_and_come_back() {
    let mut config = NodeConfig::new(OWN, 1);
    // Each of these payloads counts 100 bytes.
    config.limits = Limits { inflight_bytes_max: 300, ..Limits::default() };
    let mut node = Node::new(config);
    node.add_group(GROUP, Start::new(vec![OWN])).unwrap();
    run(&mut node);
    let payload = Bytes::from(vec![b'x'; 36]);
    for _ in 0..3 {
        node.propose(GROUP, payload.clone()).unwrap();
    }
    assert_eq!(
        node.propose(GROUP, payload.clone()),
        Err(ProposeError::Busy { inflight_bytes: 300, limit: 300 })
    );
    run(&mut node);
    assert_eq!(node.status(GROUP).unwrap().inflight_bytes, 0);
    node.propose(GROUP, Bytes::from(vec![b'x'; 1000])).unwrap();
    assert!(matches!(node.propose(GROUP, payload), Err(ProposeError::Busy { .. })));
    assert_eq!(committed(&run(&mut node)).len(), 1);
}

#[test]
fn removed_group_is_forgotten_and_late_confirmations_are_ignored() {
    let mut node = node();
    node.add_group(GROUP, Start::new(vec![OWN])).unwrap();
    run(&mut node);
    node.propose(GROUP, Bytes::from_static(b"lost")).unwrap();
    let outputs = poll_all(&mut node);
    let [Output::Persist { ticket, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    let old = *ticket;
    assert!(node.remove_group(GROUP));
    assert!(!node.remove_group(GROUP));
    node.persisted(GROUP, old);
    assert_eq!(poll_all(&mut node), []);
    assert_eq!(node.propose(GROUP, Bytes::from_static(b"x")), Err(ProposeError::UnknownGroup));

    // One with the same number does not take them for its own.
    node.add_group(GROUP, Start::new(vec![OWN])).unwrap();
    poll_all(&mut node);
    node.persisted(GROUP, old);
    assert_eq!(poll_all(&mut node), []);
    assert_eq!(node.status(GROUP).unwrap().commit, 0);
}

#[test]
fn idle_groups_do_nothing_on_ticks() {
    let mut node = node();
    for id in 1..=100 {
        node.add_group(GroupId(id), Start::new(vec![OWN])).unwrap();
    }
    run(&mut node);
    for _ in 0..100 {
        node.tick();
    }
    assert_eq!(poll_all(&mut node), []);
    assert!(node.status(GroupId(50)).unwrap().hibernates);
}

#[test]
fn start_that_contradicts_itself_is_refused() {
    let good = Start {
        peers: vec![OWN],
        hard_state: HardState { term: 3, vote: Some(OWN), commit: 6 },
        applied: 5,
        snapshot: Position { index: 4, term: 2 },
        entries: vec![entry(5, 2, "a"), entry(6, 3, "b")],
    };
    type Spoil = fn(&mut Start);
    let cases: [(Spoil, StartError); 9] = [
        (|s| s.peers = vec![PeerId(2)], StartError::NotMember { peer: OWN }),
        (|s| s.peers = vec![OWN, PeerId(0)], StartError::Member { peer: PeerId(0) }),
        (|s| s.peers = vec![OWN, OWN], StartError::Member { peer: OWN }),
        (|s| s.peers = (1..=16).map(PeerId).collect(), StartError::TooManyMembers { members: 16, limit: 15 }),
        (|s| s.entries[1].index = 7, StartError::Gap { before: 5, index: 7 }),
        (|s| s.entries[0].term = 1, StartError::Term { index: 5, term: 1, floor: 2 }),
        (|s| s.hard_state.term = 2, StartError::HardState { term: 2, last: 3 }),
        (|s| s.applied = 7, StartError::Applied { applied: 7, first: 4, last: 6 }),
        (|s| s.hard_state.commit = 7, StartError::Commit { commit: 7, last: 6 }),
    ];
    let mut node = node();
    for (spoil, error) in cases {
        let mut start = good.clone();
        spoil(&mut start);
        assert_eq!(node.add_group(GROUP, start), Err(error));
    }
    assert_eq!(poll_all(&mut node), []);
    node.add_group(GROUP, good.clone()).unwrap();
    assert_eq!(node.add_group(GROUP, good), Err(StartError::Exists { group: GROUP }));
}

#[test]
#[should_panic(expected = "ticket 9 of group 7 confirmed, the last given out is 1")]
fn confirming_what_was_never_asked_is_a_bug() {
    let mut node = node();
    node.add_group(GROUP, Start::new(vec![OWN])).unwrap();
    poll_all(&mut node);
    node.persisted(GROUP, Ticket(9));
}

#[test]
#[should_panic(expected = "group 7 is compacted to 2, but applied to 1")]
fn compacting_what_is_not_applied_is_a_bug() {
    let mut node = node();
    node.add_group(GROUP, Start::new(vec![OWN])).unwrap();
    run(&mut node);
    node.propose(GROUP, Bytes::from_static(b"a")).unwrap();
    poll_all(&mut node);
    node.compact(GROUP, 2);
}
