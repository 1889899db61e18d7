//! Target `peer_parser`: see `checks/peer_parser.rs` for what must hold.

#![no_main]

#[path = "../checks/peer_parser.rs"]
mod peer_parser;

libfuzzer_sys::fuzz_target!(|data: &[u8]| peer_parser::check(data));
