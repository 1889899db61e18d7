//! Groups of three on a simulated network: elections, replication, faults, hibernation.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

mod net;

use multiraft::{GroupId, HardState, Limits, Node, NodeConfig, Output, PeerId, Start};
use net::{Net, Weather};
use rand::Rng;

const GROUP: GroupId = GroupId(1);

fn limits() -> Limits {
    // So small that members which lag a little are served from the log.
    Limits { tail_bytes_max: 300, append_bytes_max: 400, appends_max: 3, ..Limits::default() }
}

fn led(groups: u64, seed: u64) -> Net {
    let mut net = Net::new(3, groups, limits(), seed);
    net.advance_until("an election", |net| net.groups().iter().all(|group| net.leader(*group).is_some()));
    net
}

fn others(net: &Net, peer: PeerId) -> Vec<PeerId> {
    net.peers().into_iter().filter(|other| *other != peer).collect()
}

#[test]
fn payloads_reach_all_members_in_order() {
    let mut net = led(1, 1);
    let leader = net.leader(GROUP).unwrap();
    for at in 0..50 {
        assert!(net.propose(leader, GROUP, &format!("p{at}")));
        net.advance();
    }
    net.advance_until("equal logs", |net| net.payloads(GROUP).len() == 50 && net.all_equal());
    let expected: Vec<String> = (0..50).map(|at| format!("p{at}")).collect();
    assert_eq!(net.payloads(GROUP), expected);
    let follower = others(&net, leader)[0];
    assert!(!net.propose(follower, GROUP, "no"));
}

#[test]
fn entries_that_were_committed_outlive_their_leader() {
    for seed in 0..20 {
        let mut net = led(1, seed);
        let old = net.leader(GROUP).unwrap();
        for at in 0..10 {
            assert!(net.propose(old, GROUP, &format!("p{at}")));
        }
        net.advance_until("commitment", |net| net.payloads(GROUP).len() == 10);
        net.crash(old, 0);
        net.advance_until("another leader", |net| net.leader(GROUP).is_some_and(|leader| leader != old));
        let new = net.leader(GROUP).unwrap();
        assert!(net.propose(new, GROUP, "after"));
        net.advance_until("commitment by two", |net| net.payloads(GROUP).len() == 11);
        net.start(old);
        net.advance_until("equal logs", Net::all_equal);
        assert_eq!(net.payloads(GROUP)[10], "after");
    }
}

#[test]
fn leader_without_majority_commits_nothing_and_steps_down() {
    let mut net = led(1, 5);
    let old = net.leader(GROUP).unwrap();
    net.partition(&[old]);
    assert!(net.propose(old, GROUP, "lost"));
    net.advance_until("another leader", |net| net.leader(GROUP).is_some_and(|leader| leader != old));
    net.advance_until("the old leader gives up", |net| !net.server(old).leads.contains_key(&GROUP));
    let new = net.leader(GROUP).unwrap();
    assert!(net.propose(new, GROUP, "kept"));
    net.advance_until("commitment", |net| !net.payloads(GROUP).is_empty());
    net.heal();
    net.advance_until("equal logs", Net::all_equal);
    assert_eq!(net.payloads(GROUP), ["kept"]);
}

#[test]
fn member_that_lags_is_served_from_the_log() {
    let mut net = led(1, 3);
    let leader = net.leader(GROUP).unwrap();
    let behind = others(&net, leader)[0];
    net.crash(behind, 0);
    for at in 0..100 {
        assert!(net.propose(leader, GROUP, &format!("payload number {at}")));
        net.advance_by(3);
    }
    net.advance_until("commitment", |net| net.payloads(GROUP).len() == 100);
    assert_eq!(net.asked, 0);
    net.start(behind);
    net.advance_until("equal logs", Net::all_equal);
    assert!(net.asked > 10, "asked {} times", net.asked);
}

#[test]
fn member_behind_the_beginning_of_the_log_is_told_once() {
    let mut net = led(1, 4);
    let leader = net.leader(GROUP).unwrap();
    let behind = others(&net, leader)[0];
    net.crash(behind, 0);
    for at in 0..20 {
        assert!(net.propose(leader, GROUP, &format!("p{at}")));
    }
    net.advance_until("commitment", |net| net.payloads(GROUP).len() == 20);
    net.checkpoint(leader, GROUP);
    let through = net.server(leader).through[&GROUP];
    net.compact_to(leader, GROUP, through);
    net.start(behind);
    net.advance_by(3000);
    assert_eq!(net.snapshots_needed, [(GROUP, behind)]);
    // The two others are not held up.
    assert!(net.propose(leader, GROUP, "more"));
    net.advance_until("commitment", |net| net.payloads(GROUP).len() == 21);
}

/// Takes everything out of a node: what is to be persisted, and the batches for others.
fn drain(node: &mut Node) -> (Vec<Output>, Vec<bytes::Bytes>) {
    let (mut persist, mut batches) = (Vec::new(), Vec::new());
    while let Some(output) = node.poll() {
        match output {
            Output::Send { bytes, .. } => batches.push(bytes),
            Output::Persist { .. } => persist.push(output),
            _ => {}
        }
    }
    (persist, batches)
}

/// The vote in the only hard state that is to be persisted. Confirms it.
fn confirm_vote(node: &mut Node, persist: &[Output]) -> HardState {
    let [Output::Persist { group, ticket, hard_state: Some(state), .. }] = persist else {
        panic!("{persist:?}")
    };
    node.persisted(*group, *ticket);
    *state
}

#[test]
fn votes_are_told_only_when_they_are_on_disk() {
    let (one, two) = (PeerId(1), PeerId(2));
    let start = |peer| {
        let mut node = Node::new(NodeConfig::new(peer, 3));
        node.add_group(GROUP, Start::new(vec![one, two])).unwrap();
        node
    };
    let (mut candidate, mut voter) = (start(one), start(two));
    drain(&mut voter);
    let own = HardState { term: 1, vote: Some(one), commit: 0 };
    let mut batches = Vec::new();
    // A beat is no question.
    while batches.iter().all(|batch: &bytes::Bytes| batch.len() <= 5) {
        candidate.tick();
        batches = drain(&mut candidate).1;
    }
    // May I? The answer binds nobody.
    voter.step(one, batches.remove(0)).unwrap();
    let (persist, mut batches) = drain(&mut voter);
    assert_eq!(persist, []);
    candidate.step(two, batches.remove(0)).unwrap();
    let (persist, batches) = drain(&mut candidate);
    assert_eq!(batches.len(), 0);
    assert_eq!(confirm_vote(&mut candidate, &persist), own);
    let mut batches = drain(&mut candidate).1;
    voter.step(one, batches.remove(0)).unwrap();
    let (persist, batches) = drain(&mut voter);
    assert_eq!(batches.len(), 0);
    assert_eq!(confirm_vote(&mut voter, &persist), own);
    assert_eq!(drain(&mut voter).1.len(), 1);
}

#[test]
fn quiet_groups_cost_one_beat_per_peer_and_wake_for_a_proposal() {
    let mut net = led(50, 6);
    net.advance_until("hibernation", all_hibernate);
    net.advance_by(100);
    let before = net.sent;
    net.advance_by(1000);
    // 100 ticks, a beat every second one, from each of three to each of two.
    assert_eq!(net.sent - before, 300);
    assert!(all_hibernate(&mut net));
    let group = GroupId(17);
    let leader = net.leader(group).unwrap();
    assert!(net.propose(leader, group, "wake"));
    net.advance_until("equal logs", |net| !net.payloads(group).is_empty() && net.all_equal());
    net.advance_until("hibernation", all_hibernate);
}

fn all_hibernate(net: &mut Net) -> bool {
    let groups = net.groups();
    let sleeps = |node: &Node| groups.iter().all(|group| node.status(*group).unwrap().hibernates);
    net.servers.iter().all(|server| server.node.as_ref().is_some_and(sleeps))
}

#[test]
fn sleeping_groups_notice_that_their_leader_is_gone() {
    let mut net = led(30, 7);
    net.advance_until("hibernation", all_hibernate);
    let gone = net.leader(GROUP).unwrap();
    net.crash(gone, 0);
    let start = net.step;
    net.advance_until("leaders", |net| {
        net.groups().iter().all(|group| net.leader(*group).is_some_and(|leader| leader != gone))
    });
    // 10 ticks of silence, 10 more for the draw, and some for split votes.
    assert!(net.step - start < 600, "{} steps", net.step - start);
    net.start(gone);
    net.advance_until("equal logs", Net::all_equal);
    net.advance_until("hibernation", all_hibernate);
}

#[test]
fn sleeping_groups_take_back_a_member_that_restarted_at_once() {
    let mut net = led(10, 8);
    net.advance_until("hibernation", all_hibernate);
    for peer in net.peers() {
        net.crash(peer, 0);
        net.start(peer);
        net.advance_until("leaders", |net| net.groups().iter().all(|group| net.leader(*group).is_some()));
        net.advance_until("hibernation", all_hibernate);
    }
    assert!(net.all_equal());
}

/// A run with every fault. Gives something that depends on all that happened.
fn storm(seed: u64) -> (u64, Vec<Vec<String>>) {
    let mut net = Net::new(3, 3, limits(), seed);
    let mut acked = 0_u32;
    for round in 0..60 {
        net.weather = Weather {
            loss: net.rng.random_range(0..30),
            double: net.rng.random_range(0..20),
            delay: net.rng.random_range(0..30),
            slow_disk: net.rng.random_range(0..90),
        };
        strike(&mut net);
        for step in 0..net.rng.random_range(20..200) {
            for group in net.groups() {
                // To whoever believes to lead, of an old term too.
                for peer in net.peers() {
                    if net.rng.random_range(0..3) == 0 {
                        acked += u32::from(net.propose(peer, group, &format!("{round}-{step}-{}", peer.0)));
                    }
                }
            }
            net.advance();
        }
    }
    net.weather = Weather::default();
    net.heal();
    for peer in net.peers() {
        if net.server(peer).node.is_none() {
            net.start(peer);
        }
    }
    net.advance_until("leaders", |net| net.groups().iter().all(|group| net.leader(*group).is_some()));
    net.advance_until("equal logs", Net::all_equal);
    net.advance_until("hibernation", all_hibernate);
    assert!(net.all_equal());
    assert_eq!(net.snapshots_needed, []);
    let payloads: Vec<Vec<String>> = net.groups().into_iter().map(|group| net.payloads(group)).collect();
    for payloads in &payloads {
        assert!(payloads.len() > 50, "seed {seed}: {} of {acked} were committed", payloads.len());
    }
    (net.sent, payloads)
}

/// One change for the worse or the better.
fn strike(net: &mut Net) {
    let peer = PeerId(net.rng.random_range(1..=3));
    let down = net.servers.iter().filter(|server| server.node.is_none()).count();
    match net.rng.random_range(0..7) {
        0 => net.partition(&[peer]),
        1 => net.heal(),
        2 if down == 0 => {
            let kept = net.writes(peer);
            let kept = net.rng.random_range(0..=kept);
            net.crash(peer, kept);
        }
        2 | 3 => {
            for peer in net.peers() {
                if net.server(peer).node.is_none() {
                    net.start(peer);
                }
            }
        }
        4 if net.server(peer).node.is_some() => {
            for group in net.groups() {
                net.checkpoint(peer, group);
                net.compact(peer, group);
            }
        }
        5 => power_cut(net),
        _ => {}
    }
}

/// All that run stop and start again.
fn power_cut(net: &mut Net) {
    for peer in net.peers() {
        if net.server(peer).node.is_some() {
            let kept = net.writes(peer);
            let kept = net.rng.random_range(0..=kept);
            net.crash(peer, kept);
            net.start(peer);
        }
    }
}

#[test]
fn nothing_committed_is_lost_or_different_in_any_storm() {
    // More with STORMS=1000, in a release build.
    let more: u64 = std::env::var("STORMS").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let fresh = u64::from(rand::random::<u32>());
    for seed in (100..100 + more).chain([fresh]) {
        println!("seed {seed}");
        storm(seed);
    }
}

#[test]
fn same_seed_gives_the_same_run() {
    let (first, again) = (storm(99), storm(99));
    assert_eq!(first, again);
    assert_ne!(first, storm(98));
}
