//! Words: none that only make sense on one machine, and one spelling for each word of the domain.

use super::Finding;

/// Words that only mean something where the text was written. Each stands in two pieces, so that this file is clean.
const PLACE_WORDS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("arti", "factory"), concat!("session", " limit")];

/// Spellings of domain words that are not ours, with ours.
const SPELLINGS: &[(&str, &str)] = &[
    ("leaf node", "leafnode"),
    ("leaf-node", "leafnode"),
    ("lame-duck", "lame duck"),
    ("queue-group", "queue group"),
    ("queuegroup", "queue group"),
    ("meta-group", "meta group"),
    ("metagroup", "meta group"),
    ("ack-floor", "ack floor"),
    ("jet stream", "JetStream"),
    ("web socket", "websocket"),
    ("web-socket", "websocket"),
    ("name server", "nats-server or DNS server"),
];

/// No text of the project mentions a machine it was written on.
pub(crate) fn check_place_words(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let lower = line.to_ascii_lowercase();
        for word in PLACE_WORDS {
            if lower.match_indices(word).any(|(at, _)| !is_inside_path(&lower, at, word)) {
                let text = format!("`{word}` means nothing outside of one machine");
                findings.push(Finding::error(format!("{path}:{}", index + 1), text));
            }
        }
    }
    findings
}

/// Whether a folder is only a part of a longer path, which is somebody's own folder of that name.
fn is_inside_path(line: &str, at: usize, word: &str) -> bool {
    let before = line[..at].chars().next_back();
    word.starts_with('/') && before.is_some_and(|c| c.is_alphanumeric() || "._-}".contains(c))
}

/// Prose uses one spelling for each domain word. Code, quotations and other people's names are left alone.
pub(crate) fn check_domain_words(path: &str, text: &str) -> Vec<Finding> {
    let is_rust = path.ends_with(".rs");
    if !is_rust && !path.ends_with(".md") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if is_rust && !line.trim_start().starts_with("//") {
            continue;
        }
        let prose = without_quotations(line).to_ascii_lowercase();
        for (wrong, right) in SPELLINGS {
            if prose.contains(wrong) {
                let text = format!("\"{wrong}\" is spelled \"{right}\" here");
                findings.push(Finding::error(format!("{path}:{}", index + 1), text));
            }
        }
    }
    findings
}

/// The line without what stands between backticks or double quotes.
fn without_quotations(line: &str) -> String {
    let mut prose = String::with_capacity(line.len());
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == '`' || c == '"' => quote = Some(c),
            None => prose.push(c),
        }
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_machine_are_refused_everywhere() {
        for word in PLACE_WORDS {
            let text = format!("first\nsee {}x\n", word.to_ascii_uppercase());
            let found = check_place_words("deep/any.file", &text);
            assert_eq!(found.len(), 1, "{word}");
            assert_eq!(found[0].place, "deep/any.file:2");
        }
    }

    #[test]
    fn a_folder_inside_another_path_is_nobodys_machine() {
        let text = format!("testing{}a and $(pwd){}b\n", PLACE_WORDS[0], PLACE_WORDS[0]);
        assert_eq!(check_place_words("a", &text).len(), 1);
        assert_eq!(check_place_words("a", &format!("target{}a\n", PLACE_WORDS[0])), []);
    }

    #[test]
    fn other_spellings_are_refused_in_prose() {
        for (wrong, _) in SPELLINGS {
            assert_eq!(check_domain_words("a.rs", &format!("//! Of the {wrong}s.\n")).len(), 1, "{wrong}");
            assert_eq!(check_domain_words("a.md", &format!("The {wrong}.\n")).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn code_and_quotations_keep_their_spelling() {
        let text = "let port = \"attempted to connect to leaf node port\";\n// Says `leaf node` and \"lame-duck\".\n";
        assert_eq!(check_domain_words("a.rs", text), []);
        assert_eq!(check_domain_words("a.yaml", "leaf node\n"), []);
    }
}
