//! Target `client_parser`: see `checks/client_parser.rs` for what must hold.

#![no_main]

#[path = "../checks/client_parser.rs"]
mod client_parser;

libfuzzer_sys::fuzz_target!(|data: &[u8]| client_parser::check(data));
