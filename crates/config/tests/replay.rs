//! Replays the fuzz corpus of the configuration language, and changed copies of its entries.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

#[path = "../../../testing/fuzz/checks/config_parse.rs"]
mod config_parse;
#[path = "../../../testing/fuzz/checks/mutate.rs"]
mod mutate;

#[test]
fn configurations_survive_their_corpus_and_changes_of_it() {
    mutate::replay(
        "config_parse",
        &[b"{", b"}", b"include ", b"$", b"[", b"\"", b"(", b"\n"],
        config_parse::check,
    );
}
