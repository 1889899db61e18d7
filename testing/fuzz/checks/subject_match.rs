//! What must hold for any two subjects; the input holds one a line.

use subject::{InvalidSubject, Sublist, Visitor};

#[derive(Default)]
struct Count(usize);

impl<'a> Visitor<'a, usize> for Count {
    fn plain(&mut self, values: &'a [usize]) {
        self.0 += values.len();
    }

    fn queue(&mut self, name: &'a [u8], values: &'a [usize]) {
        assert_eq!(name, b"q");
        self.0 += values.len();
    }
}

/// Lines looked at; every pair is compared.
const LINES_MAX: usize = 12;

/// Compares every pair of lines, and the trie with the plain relations.
pub(crate) fn check(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(LINES_MAX).collect();
    for a in &lines {
        assert_eq!(subject::is_literal(a), subject::is_valid(a) && !subject::has_wildcard(a));
        for b in &lines {
            check_pair(a, b);
        }
    }
    check_list(&lines);
}

fn check_pair(a: &[u8], b: &[u8]) {
    assert_eq!(subject::overlaps(a, b), subject::overlaps(b, a));
    if !subject::is_valid(a) || !subject::is_valid(b) {
        return;
    }
    if subject::is_subset(a, b) {
        assert!(subject::overlaps(a, b));
    }
    if subject::is_literal(a) {
        let matched = subject::matches(a, b);
        assert_eq!(matched, subject::is_subset(a, b));
        assert_eq!(matched, subject::overlaps(a, b));
    }
}

fn check_list(lines: &[&[u8]]) {
    let mut list = Sublist::new();
    let mut held: Vec<&[u8]> = Vec::new();
    let queue = |index: usize| (index % 2 == 1).then_some(&b"q"[..]);
    for (index, line) in lines.iter().enumerate() {
        match list.insert(line, queue(index), index) {
            Ok(()) => held.push(line),
            Err(InvalidSubject) => {
                assert!(
                    !subject::is_valid(line) || subject::token_count(line) > subject::SUBSCRIPTION_TOKENS_MAX
                );
            }
        }
    }
    assert_eq!(list.len(), held.len());
    for line in lines {
        let mut count = Count::default();
        list.matching(line, &mut count);
        assert_eq!(count.0, held.iter().filter(|pattern| subject::matches(line, pattern)).count());
        assert_eq!(list.has_match(line), count.0 > 0);
    }
    for (index, line) in lines.iter().enumerate() {
        let removed = list.remove(line, queue(index), |value| *value == index);
        assert!(removed.is_none_or(|value| value == index));
    }
    assert!(list.is_empty());
    list.for_each(|subject, _, _| panic!("{subject:?} is left"));
}
