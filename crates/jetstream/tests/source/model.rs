//! Random histories: publishing, deleting, purging, restarts, lost messages, held commits. At the end, when nothing is lost any more, a mirror is
//! what its origin is, and a source has every message once and in order.

use std::collections::BTreeSet;

use crate::net::{Net, SECOND, header};

const STEPS: usize = 300;

fn step(net: &mut Net, published: &mut u64) {
    match net.random() % 20 {
        0..=9 => {
            *published += 1;
            let subject = if net.random().is_multiple_of(3) { "o.b" } else { "o.a" };
            net.publish("O", subject, &[], &published.to_string());
        }
        10 => {
            let state = net.stream("O").state();
            if state.messages > 1 {
                let sequence =
                    state.first_sequence + net.random() % (state.last_sequence - state.first_sequence);
                if net.stream("O").store().load(sequence).unwrap().is_some() {
                    net.remove("O", sequence);
                }
            }
        }
        11 => net.restart("M"),
        12 => net.restart("S"),
        13 => net.loss = [0, 0, 20, 5][(net.random() % 4) as usize],
        14 => {
            let name = if net.random().is_multiple_of(2) { "M" } else { "S" };
            net.held.insert(name.to_owned());
        }
        15 => {
            net.held.clear();
            net.settle();
        }
        _ => {
            let nanos = net.random() % (4 * SECOND as u64);
            net.pass(nanos as i64);
        }
    }
}

fn run(seed: u64) {
    let mut net = Net::new(seed);
    net.create(r#"{"name":"O","subjects":["o.>"]}"#);
    net.create(r#"{"name":"M","mirror":{"name":"O"}}"#);
    net.create(
        r#"{"name":"S","sources":[{"name":"O","filter_subject":"o.a"},{"name":"O","filter_subject":"o.b"}]}"#,
    );
    let mut published = 0;
    for _ in 0..STEPS {
        step(&mut net, &mut published);
    }
    net.loss = 0;
    net.held.clear();
    net.settle();
    net.pass(240 * SECOND);
    // Deleted after it was mirrored: the mirror keeps it. Deleted before: the mirror never had it.
    let mirrored = net.messages("M");
    for message in net.messages("O") {
        assert!(mirrored.contains(&message), "seed {seed}: {} is missing", message.sequence);
    }
    assert_eq!(net.stream("M").state().last_sequence, net.stream("O").state().last_sequence, "seed {seed}");
    for filter in ["o.a", "o.b"] {
        let sourced: Vec<u64> = net
            .messages("S")
            .iter()
            .filter(|message| *message.subject == *filter.as_bytes())
            .map(|message| {
                let mark = header(&message.headers, "Nats-Stream-Source").unwrap();
                mark.split(' ').nth(1).unwrap().parse().unwrap()
            })
            .collect();
        assert!(sourced.is_sorted_by(|one, other| one < other), "seed {seed}: {sourced:?}");
        let sourced: BTreeSet<u64> = sourced.into_iter().collect();
        let left = net.messages("O");
        let left = left.iter().filter(|message| *message.subject == *filter.as_bytes());
        for message in left {
            assert!(sourced.contains(&message.sequence), "seed {seed}: {} is missing", message.sequence);
        }
    }
    let info = net.info("S");
    assert!(
        info.sources.iter().all(|source| source.lag == 0 && source.error.is_none()),
        "seed {seed}: {info:?}"
    );
    assert_eq!(net.mirror("M").lag, 0, "seed {seed}");
}

#[test]
fn everything_arrives_once_and_in_order() {
    for seed in 1..=40 {
        run(seed);
    }
}
