//! What is on disk: the shared log, stream blocks and their index, the state of consumers, and how all of it is recovered.
//!
//! Synchronous and without clocks: whoever calls decides on which thread, and hands in the time. Only `disk::os` touches files.
//!
//! The order of trust: the log is synced before anything is acknowledged; a stream's checkpoint says up to which log index its
//! blocks are synced and what they held then; opening a stream goes back to its last checkpoint, and the log is replayed on top.

pub mod crypt;
pub mod disk;
pub mod record;
pub mod state_file;
pub mod stream;
mod time;
pub mod wal;

pub use time::Timestamp;
