//! What groups of one cost. Run with `cargo test --release -p multiraft --test cost -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant;

use bytes::Bytes;
use multiraft::{GroupId, Node, NodeConfig, Output, PeerId, Start};

const OWN: PeerId = PeerId(1);

fn with_groups(count: u64, members: u64) -> Node {
    let mut node = Node::new(NodeConfig::new(OWN, 1));
    for id in 1..=count {
        node.add_group(GroupId(id), Start::new((1..=members).map(PeerId).collect())).unwrap();
        confirm(&mut node);
        if id % 1000 == 0 {
            // Those that are there fall asleep, so that what they give back can be used.
            (0..20).for_each(|_| node.tick());
        }
    }
    node
}

/// Confirms all there is to persist. Gives the number of committed payloads.
fn confirm(node: &mut Node) -> usize {
    let mut committed = 0;
    while let Some(output) = node.poll() {
        match output {
            Output::Persist { group, ticket, .. } => node.persisted(group, ticket),
            Output::Committed { entries, .. } => committed += entries.len(),
            _ => {}
        }
    }
    committed
}

/// Bytes of memory in use, by pages.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
#[ignore = "a measurement"]
fn cost_of_groups_of_one() {
    let before = resident();
    let count = 50_000;
    let start = Instant::now();
    let mut node = with_groups(count, 1);
    println!("start: {} ns per group", start.elapsed().as_nanos() / u128::from(count));
    for _ in 0..20 {
        node.tick();
    }
    println!("idle: {} bytes per group", (resident() - before) / count as usize);
    let start = Instant::now();
    for _ in 0..1000 {
        node.tick();
        assert!(node.poll().is_none());
    }
    println!("tick of {count} idle groups: {} ns", start.elapsed().as_nanos() / 1000);

    let payload = Bytes::from(vec![b'x'; 128]);
    for (name, groups, batch) in [
        ("one group, one proposal a turn", 1, 1),
        ("one group, ten a turn", 1, 10),
        ("1000 groups in turn", 1000, 1),
    ] {
        let turns = 200_000 / batch;
        let start = Instant::now();
        for turn in 0..turns {
            for _ in 0..batch {
                node.propose(GroupId(1 + turn % groups), payload.clone()).unwrap();
            }
            assert_eq!(confirm(&mut node), batch as usize);
        }
        println!("{name}: {} ns per proposal", start.elapsed().as_nanos() / u128::from(turns * batch));
    }
}

#[test]
#[ignore = "a measurement"]
fn memory_of_groups_of_three() {
    let before = resident();
    let node = with_groups(50_000, 3);
    println!("follower of three: {} bytes per group", (resident() - before) / node.len());
}
