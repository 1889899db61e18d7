//! Seeds that must pass: some hundred, and every one that ever failed.

use std::thread;

use sim::run;

/// Seeds of every run of the tests.
const SEEDS: u64 = 200;

fn failures(seeds: impl Iterator<Item = u64>) -> Vec<String> {
    let failed = |seed: u64| {
        let outcome = run(seed);
        let first = outcome.violations.first().map(|violation| format!("seed {seed}: {violation}"));
        (outcome, first)
    };
    seeds.filter_map(|seed| failed(seed).1).collect()
}

#[test]
fn a_server_keeps_what_it_said() {
    let halves =
        [0, 1].map(|half| thread::spawn(move || failures((0..SEEDS).filter(|seed| seed % 2 == half))));
    let failed: Vec<String> = halves.into_iter().flat_map(|half| half.join().unwrap()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Each line of the file is a seed and what it once showed.
#[test]
fn seeds_that_once_failed_pass() {
    let kept = include_str!("../seeds/kept.txt");
    let seeds = kept.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let seeds = seeds.map(|line| line.split_whitespace().next().unwrap().parse::<u64>().unwrap());
    let failed = failures(seeds);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let (first, second) = (run(7), run(7));
    assert_eq!(
        (first.acknowledged, first.lives, first.damages),
        (second.acknowledged, second.lives, second.damages)
    );
}
