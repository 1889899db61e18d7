//! Target `header`: see `checks/header.rs` for what must hold.

#![no_main]

#[path = "../checks/header.rs"]
mod header;

libfuzzer_sys::fuzz_target!(|data: &[u8]| header::check(data));
