//! Replays the fuzz corpus of the subject language, and changed copies of its entries.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

#[path = "../../../testing/fuzz/checks/mutate.rs"]
mod mutate;
#[path = "../../../testing/fuzz/checks/subject_match.rs"]
mod subject_match;

#[test]
fn subjects_survive_their_corpus_and_changes_of_it() {
    mutate::replay(
        "subject_match",
        &[b".", b"*", b">", b"\n", b"a", b"..", b".>", b".*."],
        subject_match::check,
    );
}
