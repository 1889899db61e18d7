//! Replays a corpus and changed copies of it: what the ordinary tests run in place of a fuzzer.

use std::path::Path;

/// Changed copies per test.
const MUTATIONS: usize = 20_000;

/// Longest input that a change makes.
const INPUT_MAX: usize = 8192;

/// A small generator of numbers (SplitMix64): the same inputs on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }
}

/// Reads the corpus of `target` and gives `check` each entry, then changed copies.
///
/// `words` are pieces of the language that a change puts in.
pub(crate) fn replay(target: &str, words: &[&[u8]], check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!corpus.is_empty(), "the corpus of {target} is empty");
    for entry in &corpus {
        check(entry);
    }
    let mut random = Random(0x6d79_656c_696e);
    for _ in 0..MUTATIONS {
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(4) {
            change(&mut input, &corpus, words, &mut random);
        }
        input.truncate(INPUT_MAX);
        check(&input);
    }
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&[u8]], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = at + random.below(input.len() - at + 1).min(32);
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.next().to_le_bytes()[0],
        2 => drop(input.drain(at..end)),
        3 => {
            let copy = input[at..end].to_vec();
            input.splice(at..at, copy);
        }
        4 => input.truncate(at),
        5 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            input.splice(at..end, other[from..].iter().copied());
        }
        _ => {
            let word = words[random.below(words.len())];
            input.splice(at..end, word.iter().copied());
        }
    }
}
