//! Target `subject_match`: see `checks/subject_match.rs` for what must hold.

#![no_main]

#[path = "../checks/subject_match.rs"]
mod subject_match;

libfuzzer_sys::fuzz_target!(|data: &[u8]| subject_match::check(data));
