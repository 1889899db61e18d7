//! The index against an ordered map, and what it costs.

use std::collections::BTreeMap;

use super::SubjectIndex;
use crate::stream::{Filter, SubjectState};

type Model = BTreeMap<Vec<u8>, SubjectState>;

/// A small generator of numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn token(&mut self) -> &'static str {
        const TOKENS: [&str; 12] =
            ["a", "b", "ab", "a-b", "a/b", "long-token-to-be-shared", "0", "z", "*a", "-", "~", "é"];
        TOKENS[self.below(TOKENS.len() as u64) as usize]
    }

    fn subject(&mut self) -> Vec<u8> {
        let tokens: Vec<&str> = (0..=self.below(4)).map(|_| self.token()).collect();
        tokens.join(".").into_bytes()
    }

    fn pattern(&mut self) -> Box<[u8]> {
        let mut tokens: Vec<&str> =
            (0..=self.below(4)).map(|_| if self.below(3) == 0 { "*" } else { self.token() }).collect();
        if self.below(4) == 0 {
            tokens.push(">");
        }
        tokens.join(".").into_bytes().into()
    }
}

fn selected(index: &SubjectIndex, filter: &Filter) -> Vec<(Vec<u8>, SubjectState)> {
    let mut found = Vec::new();
    index.for_each(filter, &mut |id, bytes, state| {
        assert_eq!(index.id(bytes), Some(id));
        found.push((bytes.to_vec(), state));
        true
    });
    found
}

fn check(index: &SubjectIndex, model: &Model, filter: &Filter) {
    let expected: Vec<_> = model
        .iter()
        .filter(|(subject, _)| filter.matches(subject))
        .map(|(subject, state)| (subject.clone(), *state))
        .collect();
    assert_eq!(selected(index, filter), expected, "{filter:?}");
    let (mut left, mut seen) = (expected.len() / 2, 0);
    index.for_each_id(filter, &mut |_, state| {
        assert_eq!(state, expected[seen].1);
        seen += 1;
        left = left.saturating_sub(1);
        left > 0
    });
    if *filter == Filter::All {
        let mut numbers = Vec::new();
        index.for_each_unordered(&mut |id, state| {
            assert_eq!(index.state(id), state);
            numbers.push(id);
            true
        });
        numbers.dedup();
        assert_eq!(numbers.len(), model.len());
        assert!(!index.for_each_id_within(filter, model.len() - 1, &mut |_, _| true), "the budget ends it");
        assert!(index.for_each_id_within(filter, model.len(), &mut |_, _| true));
    }
    assert_eq!(seen, (expected.len() / 2).max(1).min(expected.len()), "stops when told");
}

fn step(index: &mut SubjectIndex, model: &mut Model, numbers: &mut Numbers, sequence: u64) {
    let subject = numbers.subject();
    assert_eq!(index.get(&subject), model.get(&subject).copied());
    match numbers.below(6) {
        0 => assert_eq!(index.forget(&subject), model.remove(&subject)),
        1 => {
            let state = SubjectState { first: 1, last: sequence, messages: 2 };
            let id = index.set(&subject, state);
            assert_eq!(index.state(id), state);
            model.insert(subject, state);
        }
        2 => {
            let last = model.keys().next_back().cloned().unwrap_or_default();
            let behind = [&last, b"~".as_slice()].concat();
            let subject = if last.len() < 40 && numbers.below(2) == 0 { behind } else { subject };
            let state = SubjectState { first: 1, last: sequence, messages: 2 };
            let id = index.push(&subject, state);
            assert_eq!(id.is_some(), model.is_empty() || subject > last);
            if let Some(id) = id {
                assert_eq!((index.id(&subject), index.state(id)), (Some(id), state));
                model.insert(subject, state);
            }
        }
        _ => {
            let (id, before) = index.append(&subject, sequence);
            assert_eq!(before, model.get(&subject).copied());
            let state =
                model.entry(subject).or_insert(SubjectState { first: sequence, last: 0, messages: 0 });
            *state = SubjectState { last: sequence, messages: state.messages + 1, ..*state };
            assert_eq!(index.state(id), *state);
        }
    }
    assert_eq!(index.len(), model.len());
}

#[test]
fn the_same_as_an_ordered_map() {
    for seed in 0..4 {
        let (mut index, mut model, mut numbers) = (SubjectIndex::new(), Model::new(), Numbers(seed));
        for sequence in 1..10_000 {
            step(&mut index, &mut model, &mut numbers, sequence);
            if sequence % 100 == 0 {
                let patterns = (0..=numbers.below(3)).map(|_| numbers.pattern()).collect();
                check(&index, &model, &Filter::Any(patterns));
            }
        }
        check(&index, &model, &Filter::All);
        for subject in model.keys() {
            assert!(index.forget(subject).is_some());
        }
        assert!(index.is_empty() && selected(&index, &Filter::All).is_empty());
    }
}

/// Subjects of the kinds that streams have, `count` of them in an order that is not theirs.
fn shapes(count: u64) -> [(&'static str, Vec<String>); 4] {
    let scattered = move |at: u64| at.wrapping_mul(0x9e37_79b1) % count;
    [
        ("keys in order", (0..count).map(|at| format!("$KV.bucket.key-{at:08}")).collect()),
        ("keys scattered", (0..count).map(|at| format!("$KV.bucket.key-{:08}", scattered(at))).collect()),
        ("random keys", (0..count).map(|at| format!("$KV.bucket.{:032x}", Numbers(at).next())).collect()),
        (
            "three per order",
            (0..count)
                .map(|at| {
                    format!(
                        "orders.{:016x}.{}",
                        Numbers(at / 3).next(),
                        ["new", "paid", "sent"][(at % 3) as usize]
                    )
                })
                .collect(),
        ),
    ]
}

fn filled(subjects: &[String]) -> SubjectIndex {
    let mut index = SubjectIndex::new();
    for (at, subject) in subjects.iter().enumerate() {
        index.append(subject.as_bytes(), at as u64 + 1);
    }
    index
}

#[test]
fn a_subject_costs_about_forty_bytes_beside_its_own() {
    for (shape, subjects) in shapes(100_000) {
        let mut index = filled(&subjects);
        let own: usize = subjects.iter().map(String::len).sum();
        let cost = |index: &SubjectIndex| index.memory().saturating_sub(own) as f64 / index.len() as f64;
        let one = cost(&index);
        assert!(one <= 46.0, "{shape}: {one} bytes per subject");
        for (at, subject) in subjects.iter().enumerate() {
            index.append(subject.as_bytes(), (subjects.len() + at) as u64 + 1);
        }
        let several = cost(&index);
        assert!(several <= one + 26.0, "{shape}: {several} bytes per subject with several messages");
    }
}

#[test]
fn an_index_of_one_subject_is_small() {
    let index = filled(&["events.one".to_owned()]);
    assert!(index.memory() <= 1088, "{} bytes", index.memory());
}

#[test]
fn churn_of_subjects_does_not_add_up() {
    let mut index = SubjectIndex::new();
    let name = |at: u64| format!("jobs.queue.{:016x}.run", Numbers(at).next()).into_bytes();
    for at in 0..300_000 {
        index.append(&name(at), at + 1);
        if at >= 1000 && at % 1000 != 0 {
            assert!(index.forget(&name(at - 1000)).is_some() || at % 1000 == 0, "{at}");
        }
    }
    assert!(index.len() <= 1300, "{}", index.len());
    assert!(index.memory() <= 1300 * 250, "{} bytes", index.memory());
}

/// Time that this thread had a processor, in nanoseconds: others may run meanwhile.
fn ran() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap()
}

/// Prints nanoseconds and bytes for a million subjects: `cargo test -p store --release -- --ignored --nocapture speed_of_the_index`.
#[test]
#[ignore = "a measurement"]
fn speed_of_the_index() {
    const COUNT: u64 = 1_000_000;
    for (shape, subjects) in shapes(COUNT) {
        let time = |what: &str, count: usize, work: &mut dyn FnMut()| {
            let start = ran();
            work();
            println!("{shape:16} {what:20} {:6.0} ns", (ran() - start) as f64 / count as f64);
        };
        let mut index = SubjectIndex::new();
        let insert = &mut |index: &mut SubjectIndex| {
            for (at, subject) in subjects.iter().enumerate() {
                index.append(subject.as_bytes(), at as u64 + 1);
            }
        };
        time("insert", subjects.len(), &mut || insert(&mut index));
        time("update", subjects.len(), &mut || insert(&mut index));
        let mut sorted: Vec<&[u8]> = subjects.iter().map(String::as_bytes).collect();
        sorted.sort_unstable();
        let state = SubjectState { first: 1, last: 1, messages: 1 };
        for (what, ahead) in [("set in order", false), ("set, expected", true)] {
            let mut restored = SubjectIndex::new();
            time(what, sorted.len(), &mut || {
                for literals in sorted.chunks(32) {
                    if ahead {
                        restored.expect(literals.iter().copied());
                    }
                    for literal in literals {
                        restored.set(literal, state);
                    }
                }
            });
            assert_eq!(restored.len(), index.len());
        }
        let mut numbers = Numbers(1);
        time("get at random", subjects.len(), &mut || {
            for _ in 0..COUNT {
                let at = numbers.below(COUNT) as usize;
                assert!(index.get(subjects[at].as_bytes()).is_some());
            }
        });
        time("iterate", index.len(), &mut || index.for_each_id(&Filter::All, &mut |_, _| true));
        let pattern = Filter::Any(vec![b"*.*.*5".to_vec().into(), b"*.*.paid".to_vec().into()]);
        time("iterate pattern", index.len(), &mut || index.for_each_id(&pattern, &mut |_, _| true));
        let own: usize = subjects.iter().map(String::len).sum();
        println!("{shape:16} {} subjects, own bytes {own}, memory {}", index.len(), index.memory());
        time("forget", index.len(), &mut || {
            for subject in &subjects {
                index.forget(subject.as_bytes());
            }
        });
    }
}
