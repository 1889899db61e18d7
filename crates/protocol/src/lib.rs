//! Bytes to operations and back: no I/O, no policy.
//!
//! Parsers take what a buffer holds and answer with one operation made of slices of it, or with the number of
//! bytes that are missing. Encoders append to a buffer.

pub mod client;
pub mod error;
pub mod header;
pub mod info;
pub mod peer;
mod scan;

pub use scan::Step;
