//! What messages cost, and the cheap ways that only many messages take.

use super::MemoryStore;
use crate::Timestamp;
use crate::stream::{Append, Expiry, Filter, StreamStore};

fn append(store: &mut MemoryStore, sequence: u64, subject: &str, payload: usize) {
    let append = Append {
        sequence,
        timestamp: Timestamp(sequence as i64),
        subject: subject.as_bytes(),
        headers: b"",
        payload: &vec![sequence as u8; payload],
        expiry: Expiry::MaxAge,
    };
    store.append(append).unwrap();
}

fn filter(pattern: &str) -> Filter {
    Filter::Any(vec![pattern.as_bytes().into()])
}

/// Checks that what is left is what was stored, and tells how much memory the pages have taken.
fn check(store: &MemoryStore, payload: usize) -> usize {
    let mut from = 0;
    while let Some(message) = store.next(&Filter::All, from).unwrap() {
        from = message.sequence + 1;
        assert_eq!(message.payload, vec![message.sequence as u8; payload]);
    }
    store.pages.memory()
}

#[test]
fn scattered_survivors_keep_little_alive() {
    let mut store = MemoryStore::new();
    for sequence in 1..=100_000 {
        append(&mut store, sequence, "a", 100);
    }
    let full = check(&store, 100);
    assert!(full < 100_000 * 200, "{full} bytes");
    for sequence in (1..=100_000).filter(|sequence| sequence % 100 != 0) {
        store.remove(sequence, false).unwrap();
    }
    assert_eq!(store.state().messages, 1000);
    let left = check(&store, 100);
    assert!(left < full / 20, "{left} of {full} bytes");
    assert_eq!(store.deleted(0, usize::MAX).len(), 999);
}

#[test]
fn small_survivors_do_not_keep_large_neighbours_alive() {
    let mut store = MemoryStore::new();
    for sequence in 1..=10_000 {
        append(&mut store, sequence, "a", if sequence % 2 == 0 { 4000 } else { 1 });
    }
    let full = store.pages.memory();
    for sequence in (1..=10_000).step_by(2) {
        store.remove(sequence + 1, false).unwrap();
    }
    let left = store.pages.memory();
    assert!(left < 5000 * 200, "{left} of {full} bytes");
}

#[test]
fn sequences_far_apart_cost_no_more_than_a_page_each() {
    let mut store = MemoryStore::new();
    for at in 1..=1000 {
        append(&mut store, at << 40, "a", 100);
    }
    let taken = check(&store, 100);
    assert!(taken < 1000 * 600, "{taken} bytes");
    let last = store.state().last_sequence;
    assert_eq!(store.state().deleted, last - (1 << 40) + 1 - 1000);
    assert_eq!(store.deleted(5 << 40, 1), [(5 << 40) + 1..=(6 << 40) - 1]);
}

#[test]
fn a_stream_of_few_messages_is_small() {
    let mut store = MemoryStore::new();
    append(&mut store, 1, "a", 10);
    let taken = store.pages.memory() + store.subjects.index().memory();
    assert!(taken < 2048, "{taken} bytes");
}

#[test]
fn keys_with_history_stay_within_twice_what_they_hold() {
    let mut store = MemoryStore::new();
    for sequence in 1..=200_000u64 {
        let subject = format!("key.{}", sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52);
        append(&mut store, sequence, &subject, 100);
        let state = store.subject_state(subject.as_bytes()).unwrap();
        if state.messages > 3 {
            assert_eq!(
                store.remove(state.first, false).unwrap().map(|removed| removed.sequence),
                Some(state.first)
            );
        }
    }
    let messages = store.state().messages;
    assert_eq!(messages, 3 * store.state().subjects);
    let taken = check(&store, 100);
    assert!(taken as u64 <= messages * 2 * 200, "{taken} bytes for {messages} messages");
}

#[test]
fn filters_that_match_little_or_much() {
    let mut store = MemoryStore::new();
    for sequence in 1..=20_000 {
        let subject = match sequence {
            15_000 => "rare.one.x".to_owned(),
            _ => format!("often.{}.{}", sequence % 7, sequence % 2000),
        };
        append(&mut store, sequence, &subject, 0);
    }
    let next = |pattern, from| store.next(&filter(pattern), from).unwrap().map(|message| message.sequence);
    let last = |pattern, up_to| store.last(&filter(pattern), up_to).unwrap();
    let count = |pattern, range| store.count(&filter(pattern), range).unwrap();
    assert_eq!(
        (next("rare.*.x", 1), next("rare.*.x", 15_001), next("none.*", 1)),
        (Some(15_000), None, None)
    );
    assert_eq!((last("rare.*.x", 20_000), last("rare.*.x", 14_999)), (Some(15_000), None));
    assert_eq!((next("*.*.1999", 1), next("*.*.1999", 18_000)), (Some(1999), Some(19_999)));
    assert_eq!((last("*.*.0", 19_999), last("*.*.0", 1999)), (Some(18_000), None));
    assert_eq!((next("often.>", 15_000), last("often.>", 15_000)), (Some(15_001), Some(14_999)));
    assert_eq!((count("often.>", 1..=20_000), count("often.>", 14_999..=15_001)), (19_999, 2));
    assert_eq!((count("*.*.x", 1..=20_000), count("*.*.5", 1..=4005)), (1, 3));
    assert_eq!((count(">", 10_001..=20_000), count(">", 1..=10)), (10_000, 10));
}
