//! How two subjects stand to each other: match, subset, overlap.

use crate::subject::{ONE, REST, SEPARATOR, has_empty_token, tokens};

/// Whether `pattern` matches `literal`.
///
/// Wildcard tokens in `literal` are ordinary tokens here: a message published to `a.*` reaches the
/// subscriptions `a.*` and `a.>`, not `a.b`. A literal with an empty token matches nothing.
pub fn matches(literal: &[u8], pattern: &[u8]) -> bool {
    if has_empty_token(literal) {
        return false;
    }
    let mut literal = tokens(literal);
    for token in tokens(pattern) {
        let Some(published) = literal.next() else { return false };
        if token == REST {
            return true;
        }
        if token != ONE && token != published {
            return false;
        }
    }
    literal.next().is_none()
}

/// Whether every subject that `subset` matches is matched by `superset` too. Both may hold wildcards.
pub fn is_subset(subset: &[u8], superset: &[u8]) -> bool {
    let mut subset = tokens(subset);
    for outer in tokens(superset) {
        let Some(inner) = subset.next() else { return false };
        if outer == REST {
            return true;
        }
        // `>` reaches further than any other token; `*` is covered by `*` and `>` only.
        if inner == REST || (outer != ONE && outer != inner) {
            return false;
        }
    }
    subset.next().is_none()
}

/// Whether some literal subject is matched by both `left` and `right`. Both may hold wildcards.
pub fn overlaps(left: &[u8], right: &[u8]) -> bool {
    let (mut left, mut right) = (tokens(left), tokens(right));
    loop {
        match (left.next(), right.next()) {
            (Some(a), Some(b)) if a == REST || b == REST => return true,
            (Some(a), Some(b)) if a == b || a == ONE || b == ONE => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// The pattern of exactly the subjects that both `left` and `right` match; `None` if there is none.
pub fn intersection(left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let mut push = |token: &[u8]| {
        if !out.is_empty() {
            out.push(SEPARATOR);
        }
        out.extend_from_slice(token);
    };
    let (mut left, mut right) = (tokens(left), tokens(right));
    loop {
        let (a, b) = match (left.next(), right.next()) {
            (Some(a), Some(b)) => (a, b),
            (None, None) => return Some(out),
            _ => return None,
        };
        let (narrow, mut rest) = match (a == REST, b == REST) {
            (true, _) => (b, right),
            (_, true) => (a, left),
            _ if a == ONE || a == b => {
                push(b);
                continue;
            }
            _ if b == ONE => {
                push(a);
                continue;
            }
            _ => return None,
        };
        push(narrow);
        rest.by_ref().for_each(&mut push);
        return Some(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_follows_the_table() {
        let table: &[(&str, &str, bool)] = &[
            ("a", "a", true),
            ("a", "A", false),
            ("a.b", "a", false),
            ("a", "a.b", false),
            ("a.b", "a.*", true),
            ("a.b", "*.*", true),
            ("a.b", "*", false),
            ("a.b.c", "a.*", false),
            ("a.b.c", "a.>", true),
            ("a", "a.>", false),
            ("a", ">", true),
            ("a.b.c", ">", true),
            ("a.b.c", "*.b.*", true),
            ("a.b.c", "*.x.*", false),
            ("a.*", "a.*", true),
            ("a.*", "a.b", false),
            ("a.>", "a.>", true),
            ("a.b*", "a.b*", true),
            ("a.bc", "a.b*", false),
            ("a..b", ">", false),
            ("a.", "a.*", false),
            (".a", "*.a", false),
            ("", ">", false),
        ];
        for (literal, pattern, expected) in table {
            assert_eq!(matches(literal.as_bytes(), pattern.as_bytes()), *expected, "{literal} ~ {pattern}");
        }
    }

    #[test]
    fn subset_follows_the_table() {
        let table: &[(&str, &str, bool)] = &[
            ("a", "a", true),
            ("a", "*", true),
            ("*", "a", false),
            ("*", "*", true),
            ("*", ">", true),
            (">", "*", false),
            (">", ">", true),
            ("a.>", "a.>", true),
            ("a.b.>", "a.>", true),
            ("a.>", "a.b.>", false),
            ("a.>", "a.*", false),
            ("a.*", "a.>", true),
            ("a", "a.>", false),
            ("a.*.c", "a.*.*", true),
            ("a.*.*", "a.*.c", false),
            ("*.>", ">", true),
            (">", "*.>", false),
            ("a.b", "a", false),
        ];
        for (subset, superset, expected) in table {
            let (inner, outer) = (subset.as_bytes(), superset.as_bytes());
            assert_eq!(is_subset(inner, outer), *expected, "{subset} in {superset}");
        }
    }

    #[test]
    fn intersection_follows_the_table_both_ways() {
        let table: &[(&str, &str, Option<&str>)] = &[
            ("a.b", "a.b", Some("a.b")),
            ("a.*", "*.b", Some("a.b")),
            ("a.*.c", "a.b.*", Some("a.b.c")),
            ("a.>", "a.b.*", Some("a.b.*")),
            ("a.>", "*.>", Some("a.>")),
            (">", "a.>", Some("a.>")),
            ("a.*.>", "*.b.c", Some("a.b.c")),
            ("a.>", "a", None),
            ("a.*", "b.*", None),
            ("*", "*.*", None),
            ("*", "*", Some("*")),
        ];
        for (left, right, expected) in table {
            let (left, right) = (left.as_bytes(), right.as_bytes());
            assert_eq!(intersection(left, right).as_deref(), expected.map(str::as_bytes), "{table:?}");
            assert_eq!(intersection(right, left).as_deref(), expected.map(str::as_bytes));
        }
    }

    #[test]
    fn overlap_follows_the_table_both_ways() {
        let table: &[(&str, &str, bool)] = &[
            ("a", "a", true),
            ("a", "b", false),
            ("a.*", "*.b", true),
            ("a.*", "b.*", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a.>", "*.*.c", true),
            ("*", "*.*", false),
            (">", "a.b", true),
            ("a.*.c", "a.b.*", true),
            ("a.*.c", "a.b.d", false),
        ];
        for (left, right, expected) in table {
            assert_eq!(overlaps(left.as_bytes(), right.as_bytes()), *expected, "{left} and {right}");
            assert_eq!(overlaps(right.as_bytes(), left.as_bytes()), *expected, "{right} and {left}");
        }
    }
}
