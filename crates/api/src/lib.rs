//! The JSON documents that clients, tools and the operator see: plain data, one definition for writer and reader.
//!
//! The broker writes these types, the operator and the tests read them. Names, order and omission of fields are part
//! of the contract and are held by golden files in `tests/testdata`. The crate has no clock, no socket and no policy.

mod binary;
pub mod duration;
pub mod error;
pub mod event;
mod go;
pub mod jetstream;
pub mod json;
pub mod monitor;
mod optional;
pub mod query;
mod time;

pub use error::ApiError;
pub use time::{ParseTimeError, Time};
