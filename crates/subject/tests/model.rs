//! Model test: random operations on the trie against a plain list searched with `subject::matches`.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use subject::{Sublist, Visitor};

const OPERATIONS: usize = 3_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    subject: Vec<u8>,
    queue: Option<Vec<u8>>,
    value: u32,
}

#[derive(Default)]
struct Seen {
    found: Vec<(Option<Vec<u8>>, u32)>,
}

impl<'a> Visitor<'a, u32> for Seen {
    fn plain(&mut self, values: &'a [u32]) {
        self.found.extend(values.iter().map(|value| (None, *value)));
    }

    fn queue(&mut self, name: &'a [u8], values: &'a [u32]) {
        self.found.extend(values.iter().map(|value| (Some(name.to_vec()), *value)));
    }
}

/// Few tokens and few levels, so that patterns meet often; one level of many, so that maps grow.
fn token(random: &mut StdRng) -> String {
    match random.random_range(0..10) {
        0 => format!("n{}", random.random_range(0..40)),
        1 => "x*".to_owned(),
        _ => ["a", "b", "c"].choose(random).unwrap().to_string(),
    }
}

fn literal(random: &mut StdRng) -> Vec<u8> {
    let count = random.random_range(1..=5);
    (0..count).map(|_| token(random)).collect::<Vec<_>>().join(".").into_bytes()
}

fn pattern(random: &mut StdRng) -> Vec<u8> {
    let count = random.random_range(1..=5);
    let mut tokens: Vec<String> =
        (0..count).map(|_| if random.random_bool(0.3) { "*".to_owned() } else { token(random) }).collect();
    if random.random_bool(0.2) {
        *tokens.last_mut().unwrap() = ">".to_owned();
    }
    tokens.join(".").into_bytes()
}

fn queue(random: &mut StdRng) -> Option<Vec<u8>> {
    random.random_bool(0.4).then(|| vec![*b"qrs".choose(random).unwrap()])
}

fn check_match(list: &Sublist<u32>, model: &[Entry], literal: &[u8]) {
    let mut seen = Seen::default();
    list.matching(literal, &mut seen);
    seen.found.sort();
    let mut expected: Vec<_> = model
        .iter()
        .filter(|entry| subject::matches(literal, &entry.subject))
        .map(|entry| (entry.queue.clone(), entry.value))
        .collect();
    expected.sort();
    assert_eq!(seen.found, expected, "{}", String::from_utf8_lossy(literal));
    assert_eq!(list.has_match(literal), !expected.is_empty());
}

fn check_all(list: &Sublist<u32>, model: &[Entry]) {
    let mut seen = Vec::new();
    list.for_each(|subject, queue, value| {
        seen.push(Entry { subject: subject.to_vec(), queue: queue.map(<[u8]>::to_vec), value: *value });
    });
    seen.sort();
    let mut expected = model.to_vec();
    expected.sort();
    assert_eq!(seen, expected);
}

fn run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut list = Sublist::new();
    let mut model: Vec<Entry> = Vec::new();
    for step in 0..OPERATIONS {
        let generation = list.generation();
        // Phases of growth and of decline, down to the empty trie.
        let growing = (step / 500) % 2 == 0;
        if random.random_bool(if growing { 0.7 } else { 0.2 }) {
            let value = u32::try_from(step).unwrap();
            let entry = Entry { subject: pattern(&mut random), queue: queue(&mut random), value };
            list.insert(&entry.subject, entry.queue.as_deref(), value).unwrap();
            model.push(entry);
            assert_ne!(list.generation(), generation);
        } else if !model.is_empty() && random.random_bool(0.9) {
            let entry = model.swap_remove(random.random_range(0..model.len()));
            let removed = list.remove(&entry.subject, entry.queue.as_deref(), |value| *value == entry.value);
            assert_eq!(removed, Some(entry.value), "seed {seed}");
            assert_ne!(list.generation(), generation);
        } else {
            let (subject, queue) = (pattern(&mut random), queue(&mut random));
            assert_eq!(list.remove(&subject, queue.as_deref(), |_| false), None);
            assert_eq!(list.generation(), generation);
        }
        assert_eq!(list.len(), model.len());
        check_match(&list, &model, &literal(&mut random));
        if step % 500 == 499 {
            check_all(&list, &model);
        }
    }
    for entry in model.drain(..) {
        assert!(list.remove(&entry.subject, entry.queue.as_deref(), |value| *value == entry.value).is_some());
    }
    assert!(list.is_empty() && !list.has_match(b"a"));
    check_all(&list, &[]);
}

#[test]
fn trie_agrees_with_brute_force_on_fixed_seeds() {
    for seed in 1..=4 {
        run(seed);
    }
}

#[test]
fn trie_agrees_with_brute_force_on_a_fresh_seed() {
    let seed = rand::random();
    println!("seed {seed}");
    run(seed);
}

/// Wildcard relations against their definition over all short literals of a small alphabet.
#[test]
fn subset_and_overlap_agree_with_matches() {
    let mut random = StdRng::seed_from_u64(7);
    let alphabet = ["a", "b", "z"];
    let mut literals: Vec<String> = alphabet.iter().map(|token| (*token).to_owned()).collect();
    let mut from = 0;
    for _ in 1..4 {
        let until = literals.len();
        for at in from..until {
            literals.extend(alphabet.map(|token| format!("{}.{token}", literals[at])));
        }
        from = until;
    }
    let small = |random: &mut StdRng| {
        let count = random.random_range(1..=3);
        let mut tokens: Vec<&str> = (0..count).map(|_| *["a", "b", "*"].choose(random).unwrap()).collect();
        if random.random_bool(0.3) {
            *tokens.last_mut().unwrap() = ">";
        }
        tokens.join(".").into_bytes()
    };
    for _ in 0..2_000 {
        let (left, right) = (small(&mut random), small(&mut random));
        let by = |pattern: &[u8]| -> Vec<bool> {
            literals.iter().map(|literal| subject::matches(literal.as_bytes(), pattern)).collect()
        };
        let (in_left, in_right) = (by(&left), by(&right));
        let both = in_left.iter().zip(&in_right).any(|(l, r)| *l && *r);
        let subset = in_left.iter().zip(&in_right).all(|(l, r)| !*l || *r);
        let shown = format!("{} {}", String::from_utf8_lossy(&left), String::from_utf8_lossy(&right));
        assert_eq!(subject::overlaps(&left, &right), both, "{shown}");
        assert_eq!(subject::is_subset(&left, &right), subset, "{shown}");
    }
}
