//! A file system for tests that forgets at a crash what was not synced.
//!
//! Everything is in the memory of the test's process, once as programs see it and once as it stands on stable storage. A sync of a file makes
//! its bytes and its length durable, a sync of a directory its names, and nothing else does: a new file that was synced is gone after a crash
//! if its directory was not. [`Mounted::crash`] is the loss of power; a seed says what of the unsynced survives.
//!
//! The kernel's page cache is left out (direct access), so that each write and each sync of a program arrives here as it was made. Mapped
//! memory and links are not offered.

mod content;
mod fuse;
mod model;
mod mount;
mod random;

pub use model::Crash;
pub use mount::Mounted;
