//! What is rendered is read back as an equal tree.

use config::lang::{Kind, Value, digest, parse, render};

use crate::support::{Files, Random, examples};

/// Characters that mean something to the language, and some that do not.
const CHARACTERS: &[char] = &[
    'a', 'Z', '0', '9', '_', '-', '.', '$', ' ', '\t', '\n', '\r', '"', '\'', '\\', '#', '/', ',', ';', ':',
    '=', '{', '}', '[', ']', '(', ')', '\0', '\u{7f}', 'é', '\u{2028}', '😀',
];

/// Words that would mean something without quotes.
const WORDS: &[&str] =
    &["true", "off", "include", "1h", "5", "1.5", "10kb", "2006-01-02T15:04:05Z", "$x", ""];

fn text(random: &mut Random) -> String {
    if random.below(4) == 0 {
        return WORDS[random.below(WORDS.len())].into();
    }
    (0..random.below(8)).map(|_| CHARACTERS[random.below(CHARACTERS.len())]).collect()
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 8 }) {
        0 => (random.next() as i64).into(),
        1 => (random.below(5) as i64 - 2).into(),
        2 => f64::from_bits(random.next()).clamp(-1e300, 1e300).max(-1e300).into(),
        3 => (random.below(2) == 0).into(),
        4 => Kind::Datetime("2006-01-02T15:04:05Z".into()).into(),
        5 => text(random).into(),
        6 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => map(random, depth - 1),
    }
}

fn map(random: &mut Random, depth: usize) -> Value {
    let mut map = Value::map();
    for _ in 0..random.below(5) {
        let key = text(random);
        map.insert(key, value(random, depth));
    }
    map
}

fn assert_round_trip(tree: &Value, name: &str) {
    let written = render(tree);
    let read = parse(&written, &Files).unwrap_or_else(|error| panic!("{name}: {error} in\n{written}"));
    assert_eq!(&read, tree, "{name}:\n{written}");
    assert_eq!(render(&read), written, "{name}");
    assert_eq!(digest(&read), digest(tree), "{name}");
}

#[test]
fn random_trees_are_read_back_as_written() {
    for seed in 0..4000 {
        assert_round_trip(&map(&mut Random::new(seed), 4), &format!("seed {seed}"));
    }
}

#[test]
fn examples_are_read_back_as_written() {
    for (path, text) in examples() {
        assert_round_trip(&parse(&text, &Files).unwrap(), &path.display().to_string());
    }
}

#[test]
fn every_float_is_read_back_as_written() {
    for number in [0.0, -0.5, 1.0, 1e300, -1e300, 1e-300, f64::MIN_POSITIVE, f64::MAX, 0.1] {
        assert_round_trip(&Value::from([("x", number)]), &number.to_string());
    }
}
