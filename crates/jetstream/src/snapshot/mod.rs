//! Copies of streams as clients keep them (jetstream-api, section 14): archives of entries in S2 frames.
//!
//! Writing goes from entries (`archive`) through frames (`frame`) to bytes, which the shell cuts into chunks; reading goes the other way, with
//! whatever cuts the chunks have. Nothing here holds more than one entry and one block at a time.
//!
//! Older servers sent tar archives of their files. Those are told from these by their first bytes and refused.

pub mod archive;
mod block;
mod crc;
pub mod document;
pub mod frame;
pub mod image;

pub use archive::{Entry, Reader};
pub use frame::{Packer, Unpacker};
pub use image::Image;

/// Why an archive cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A frame has a length, a kind or an order that it cannot have.
    #[error("damaged S2 stream: {reason}")]
    Frame {
        /// What was found, with values.
        reason: String,
    },
    /// The content of a block is not what was written.
    #[error("damaged S2 block of {size} bytes: {reason}")]
    Block {
        /// Its size as stored.
        size: usize,
        /// What was found.
        reason: &'static str,
    },
    /// It is no archive of entries.
    #[error("snapshots in the tar format of older servers can not be restored")]
    Format,
    /// An entry announces lengths that no entry has.
    #[error("archive: invalid archive stream")]
    Entry,
}
