//! Target `config_parse`: see `checks/config_parse.rs` for what must hold.

#![no_main]

#[path = "../checks/config_parse.rs"]
mod config_parse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| config_parse::check(data));
