//! What a subject is: validity, literals, wildcards, tokens.

/// Separates tokens.
pub(crate) const SEPARATOR: u8 = b'.';

/// The token that stands for exactly one token.
pub(crate) const ONE: &[u8] = b"*";

/// The last token that stands for one or more tokens.
pub(crate) const REST: &[u8] = b">";

/// The tokens of a subject, in order. An empty subject has one empty token.
#[inline]
pub fn tokens(subject: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    subject.split(|byte| *byte == SEPARATOR)
}

/// Number of tokens; 0 for an empty subject.
#[inline]
pub fn token_count(subject: &[u8]) -> usize {
    if subject.is_empty() { 0 } else { 1 + memchr::memchr_iter(SEPARATOR, subject).count() }
}

/// Whether `subject` may be subscribed to: no empty token, no white space, `>` only as the last token.
pub fn is_valid(subject: &[u8]) -> bool {
    check(subject).is_some()
}

/// Whether `subject` is valid and names exactly one subject, that is, has no wildcard token.
pub fn is_literal(subject: &[u8]) -> bool {
    check(subject) == Some(Form::Literal)
}

/// Whether any token of `subject` is `*` or `>`.
pub fn has_wildcard(subject: &[u8]) -> bool {
    // Most subjects hold neither byte at all, and this search is much faster than the walk over tokens.
    memchr::memchr2(b'*', b'>', subject).is_some()
        && tokens(subject).any(|token| token == ONE || token == REST)
}

/// Whether a token is empty. Such a subject matches nothing.
pub(crate) fn has_empty_token(subject: &[u8]) -> bool {
    let mut previous = SEPARATOR;
    for byte in subject {
        if *byte == SEPARATOR && previous == SEPARATOR {
            return true;
        }
        previous = *byte;
    }
    previous == SEPARATOR
}

#[derive(PartialEq, Eq)]
enum Form {
    Literal,
    Pattern,
}

/// One pass over the bytes: the form of a valid subject, `None` for an invalid one.
fn check(subject: &[u8]) -> Option<Form> {
    if subject.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'\x0c')) {
        return None;
    }
    let mut form = Form::Literal;
    let mut ended = false;
    for token in tokens(subject) {
        if token.is_empty() || ended {
            return None;
        }
        if token == REST {
            ended = true;
            form = Form::Pattern;
        } else if token == ONE {
            form = Form::Pattern;
        }
    }
    Some(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITERALS: &[&str] =
        &["a", "a.b", "foo.bar.baz", "a*", "*a.b", "a.b>", ">>", "**.x", "a.>b", "\u{e9}.x", "$SYS.A"];
    const PATTERNS: &[&str] = &["*", ">", "*.*", "a.*", "a.*.b", "a.>", "*.>", "a*.*", "x.b>.>"];
    const INVALID: &[&str] = &[
        "", ".", "a.", ".a", "a..b", "..", ">.a", "a.>.b", "a b", " a", "a ", "a\tb", "a\r", "a\n", "a\x0cb",
        "a.>.", ">.>", "*.", "*..a",
    ];

    #[test]
    fn valid_literal_and_wildcard_are_told_apart() {
        for subject in LITERALS {
            let subject = subject.as_bytes();
            assert!(is_valid(subject) && is_literal(subject) && !has_wildcard(subject), "{subject:?}");
        }
        for subject in PATTERNS {
            let subject = subject.as_bytes();
            assert!(is_valid(subject) && !is_literal(subject) && has_wildcard(subject), "{subject:?}");
        }
        for subject in INVALID {
            assert!(!is_valid(subject.as_bytes()) && !is_literal(subject.as_bytes()), "{subject:?}");
        }
    }

    #[test]
    fn bytes_outside_utf8_are_allowed() {
        assert!(is_literal(b"a.\xff\xfe.b"));
    }

    #[test]
    fn tokens_are_counted_as_they_are_split() {
        assert_eq!(token_count(b""), 0);
        for subject in LITERALS.iter().chain(PATTERNS) {
            assert_eq!(token_count(subject.as_bytes()), tokens(subject.as_bytes()).count(), "{subject}");
        }
        assert_eq!(tokens(b"a.bc.d").collect::<Vec<_>>(), [&b"a"[..], b"bc", b"d"]);
    }

    #[test]
    fn empty_tokens_are_found_at_every_place() {
        for subject in ["", ".", ".a", "a.", "a..b"] {
            assert!(has_empty_token(subject.as_bytes()), "{subject}");
        }
        for subject in ["a", "a.b", "*.>"] {
            assert!(!has_empty_token(subject.as_bytes()), "{subject}");
        }
    }
}
