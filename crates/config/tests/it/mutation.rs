//! Damaged texts give errors with places in the text, never a panic.

use config::flags::{Overrides, parse_args};
use config::lang::{Source, parse};
use config::load_tree;

use crate::support::{Random, examples};

/// Texts beside the examples, with the parts of the language that those do not use.
const TEXTS: &[&str] = &[
    "a: (\nblock\n)\ninclude 'x.conf'\nb = $a; c [1, 2.5, -3k, 2006-01-02T15:04:05Z] // end\n",
    "{\"a\": {\"b\": [{\"c\": \"\\x41\\t\"}, []]}, 'd': {}}",
    "debug: off, tls { cert_file: a, key_file: b, pinned_certs: [], handshake_first: 300ms, timeout: 0.5 }",
    "cluster { listen: \"h:-1\", compression { mode: accept }, pool_size: -1, permissions { import: [a, b] } }",
    "authorization { users: [{user: a, password: $2a$11$x, permissions: { sub: 'a b', allow_responses: {max: 5} } }] }",
    "max_payload: 1kb, ping_interval: \"1h30m\", port: -1, http: 8222, jetstream: disabled, leafnodes {}",
];

/// Pieces to put in.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\n)",
    "\"",
    "'",
    "\\",
    "\\x",
    "$",
    "$a",
    "#",
    "//",
    ",",
    ";",
    ":",
    "=",
    "\n",
    "\r",
    "-",
    ".",
    "include ",
    "include x\n",
    "9223372036854775808",
    "99999999h",
    "1e",
    "true",
    "\u{feff}",
    "é",
    "\0",
    "a: ",
];

/// Every file includes a little; every environment variable is a little text.
struct Little;

impl Source for Little {
    fn read(&self, path: &str) -> Result<String, String> {
        match path.len() % 3 {
            0 => Err(format!("open {path}: no such file")),
            1 => Ok("v: [1".into()),
            _ => Ok("v: $w, w: 3".into()),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        (name.len() == 1).then(|| "[x, $y]".into())
    }
}

fn mutate(text: &str, random: &mut Random) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(characters.len() + 1);
        match random.below(4) {
            0 => {
                let end = (at + random.below(12)).min(characters.len());
                characters.drain(at..end);
            }
            1 => {
                let piece = PIECES[random.below(PIECES.len())];
                characters.splice(at..at, piece.chars());
            }
            2 if at < characters.len() => characters[at] = char::from(random.below(128) as u8),
            _ => {
                let end = (at + random.below(40)).min(characters.len());
                let copy: Vec<char> = characters[at..end].to_vec();
                let to = random.below(characters.len() + 1);
                characters.splice(to..to, copy);
            }
        }
    }
    characters.into_iter().collect()
}

/// Reads and decodes; the errors must lie inside the text.
fn read(text: &str) -> bool {
    let lines = text.split('\n').count() as u32;
    let errors = match parse(text, &Little) {
        Err(error) => vec![error],
        Ok(tree) => match load_tree(&tree, None, &Overrides::default()) {
            Err(errors) => errors,
            Ok(_) => return true,
        },
    };
    assert!(!errors.is_empty(), "{text:?} failed without a reason");
    for error in errors {
        let Some(position) = error.position else { continue };
        // Places in included files are places of another text.
        if position.file.is_empty() {
            assert!((1..=lines).contains(&position.line) && position.column >= 1, "{position} in {text:?}");
        }
    }
    false
}

#[test]
fn damaged_texts_do_no_harm() {
    let examples = examples();
    let texts: Vec<&str> =
        examples.iter().map(|(_, text)| text.as_str()).chain(TEXTS.iter().copied()).collect();
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..10_000 {
        let mut random = Random::new(seed);
        let text = mutate(texts[random.below(texts.len())], &mut random);
        if read(&text) {
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    // Both ways must have been taken, or the damage is too small or too large to test anything.
    assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
}

#[test]
fn every_beginning_of_a_text_does_no_harm() {
    for (_, text) in examples() {
        for (end, _) in text.char_indices() {
            read(&text[..end]);
        }
    }
}

#[test]
fn damaged_command_lines_do_no_harm() {
    let words = [
        "-p",
        "--port=",
        "-D",
        "=",
        "--",
        "-",
        "---",
        "-c",
        "x",
        "--signal",
        "ldm=",
        "--routes",
        "nats://a:1",
        "é",
    ];
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let line: Vec<&str> = (0..random.below(5)).map(|_| words[random.below(words.len())]).collect();
        if let Err(error) = parse_args(&line) {
            assert!(!error.to_string().is_empty(), "{line:?}");
        }
    }
}
