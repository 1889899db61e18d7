//! Cases for the trie that a random model would meet too rarely.

use super::*;

/// Collects what a match shows, merged and sorted.
#[derive(Default)]
struct Seen {
    plain: Vec<u32>,
    queues: Vec<(Vec<u8>, u32)>,
}

impl<'a> Visitor<'a, u32> for Seen {
    fn plain(&mut self, values: &'a [u32]) {
        assert!(!values.is_empty());
        self.plain.extend(values);
    }

    fn queue(&mut self, name: &'a [u8], values: &'a [u32]) {
        assert!(!values.is_empty());
        self.queues.extend(values.iter().map(|value| (name.to_vec(), *value)));
    }
}

fn plain(list: &Sublist<u32>, literal: &str) -> Vec<u32> {
    let mut seen = Seen::default();
    list.matching(literal.as_bytes(), &mut seen);
    seen.plain.sort_unstable();
    seen.plain
}

fn list(patterns: &[&str]) -> Sublist<u32> {
    let mut list = Sublist::new();
    for (value, pattern) in patterns.iter().enumerate() {
        list.insert(pattern.as_bytes(), None, u32::try_from(value).unwrap()).unwrap();
    }
    list
}

#[test]
fn every_matching_pattern_is_shown_once() {
    let list = list(&["a.b", "a.*", "*.b", "*.*", "a.>", ">", "a", "a.b.c", "b.*"]);
    assert_eq!(plain(&list, "a.b"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(plain(&list, "a"), [5, 6]);
    assert_eq!(plain(&list, "a.b.c"), [4, 5, 7]);
    assert_eq!(plain(&list, "x"), [5]);
    assert!(list.has_match(b"anything.at.all"));
}

#[test]
fn wildcards_in_a_published_subject_are_ordinary_tokens() {
    let list = list(&["a.b", "a.*", "a.>"]);
    assert_eq!(plain(&list, "a.*"), [1, 2]);
    assert_eq!(plain(&list, "a.>"), [1, 2]);
}

#[test]
fn subject_with_an_empty_token_matches_nothing() {
    let list = list(&[">", "*", "*.*", "a.>"]);
    for subject in ["", ".", "a.", ".a", "a..b"] {
        assert_eq!(plain(&list, subject), [] as [u32; 0], "{subject}");
        assert!(!list.has_match(subject.as_bytes()), "{subject}");
    }
}

#[test]
fn invalid_subject_is_refused_and_changes_nothing() {
    let mut list = list(&["a"]);
    let before = list.stats();
    for subject in ["", "a..b", "a.>.b", "a b"] {
        assert_eq!(list.insert(subject.as_bytes(), None, 9), Err(InvalidSubject), "{subject}");
        assert_eq!(list.remove(subject.as_bytes(), None, |_| true), None, "{subject}");
    }
    assert_eq!(list.stats(), before);
}

#[test]
fn token_bound_is_exact() {
    let mut list = Sublist::new();
    for (count, fits) in [(-1, true), (0, true), (1, false)] {
        let tokens = SUBSCRIPTION_TOKENS_MAX.checked_add_signed(count).unwrap();
        let subject = vec!["*"; tokens].join(".");
        assert_eq!(list.insert(subject.as_bytes(), None, 0).is_ok(), fits, "{tokens} tokens");
    }
}

#[test]
fn queue_groups_are_kept_by_name_and_pattern() {
    let mut list = Sublist::new();
    list.insert(b"a.b", Some(b"q"), 1).unwrap();
    list.insert(b"a.*", Some(b"q"), 2).unwrap();
    list.insert(b"a.b", Some(b"r"), 3).unwrap();
    list.insert(b"a.b", None, 4).unwrap();
    let mut seen = Seen::default();
    list.matching(b"a.b", &mut seen);
    seen.queues.sort();
    assert_eq!(seen.queues, [(b"q".to_vec(), 1), (b"q".to_vec(), 2), (b"r".to_vec(), 3)]);
    assert_eq!(seen.plain, [4]);
    // A remove names the group: the plain one and the other group are not touched.
    assert_eq!(list.remove(b"a.b", Some(b"x"), |_| true), None);
    assert_eq!(list.remove(b"a.b", Some(b"q"), |value| *value == 2), None);
    assert_eq!(list.remove(b"a.b", Some(b"q"), |_| true), Some(1));
    assert_eq!(list.len(), 3);
}

#[test]
fn remove_cuts_only_what_leads_nowhere() {
    let mut list = list(&["a.b.c.d", "a.b", "a.b.x.>", "a.*.c"]);
    assert_eq!(list.remove(b"a.b.c.d", None, |_| true), Some(0));
    assert_eq!(list.remove(b"a.b.c.d", None, |_| true), None);
    assert_eq!(list.remove(b"a.b.x.>", None, |_| true), Some(2));
    assert_eq!(plain(&list, "a.b"), [1]);
    assert_eq!(plain(&list, "a.b.c"), [3]);
    assert_eq!(list.remove(b"a.*.c", None, |_| true), Some(3));
    assert_eq!(list.remove(b"a.b", None, |_| true), Some(1));
    assert_eq!(list.root.edges(), 0);
    assert!(list.is_empty());
}

#[test]
fn generation_moves_with_changes_only() {
    let mut list = list(&["a"]);
    let before = list.generation();
    assert_eq!(list.remove(b"b", None, |_| true), None);
    assert_eq!(list.generation(), before);
    assert_eq!(list.remove(b"a", None, |_| true), Some(0));
    assert_eq!(list.generation(), before + 1);
    assert_eq!(list.stats(), Stats { inserts: 1, removes: 1, len: 0 });
}

#[test]
fn for_each_is_ordered() {
    let mut list = list(&["b", ">", "a.*", "a.>", "*", "a.b", "a"]);
    list.insert(b"a", Some(b"q"), 7).unwrap();
    let mut seen = Vec::new();
    list.for_each(|subject, queue, value| {
        seen.push((String::from_utf8(subject.to_vec()).unwrap(), queue.map(<[u8]>::len), *value));
    });
    let expected = [
        ("a", None, 6),
        ("a", Some(1), 7),
        ("a.b", None, 5),
        ("a.*", None, 2),
        ("a.>", None, 3),
        ("b", None, 0),
        ("*", None, 4),
        (">", None, 1),
    ];
    assert_eq!(seen, expected.map(|(subject, queue, value)| (subject.to_owned(), queue, value)));
}

#[test]
fn deepest_subject_matches_and_drops_on_a_small_stack() {
    // Literal and `*` child at every level: the worst case for the recursion of a match.
    let depth = SUBSCRIPTION_TOKENS_MAX;
    let mut list = Sublist::new();
    let stars = vec!["*"; depth].join(".");
    list.insert(stars.as_bytes(), None, 0).unwrap();
    for level in (1..depth).step_by(16) {
        let mut subject = vec!["*"; depth];
        subject[level] = "a";
        list.insert(subject.join(".").as_bytes(), None, 1).unwrap();
    }
    let literal = vec!["a"; depth].join(".");
    assert_eq!(plain(&list, &literal).len(), list.len());
    drop(list);
}
