//! What a machine may ask of the world while it works. Answers influence what a leader decides, never what `apply` does.

use store::Timestamp;

use crate::limits::Limits;

/// The world, as the shell shows it for one call.
pub trait Outside {
    /// Now, in wall time that never runs backwards within one process.
    fn now(&self) -> Timestamp;
    /// Does anybody subscribe to this literal subject in the stream's account?
    fn has_interest(&self, subject: &[u8]) -> bool;
    /// Does a member of this queue group subscribe to this literal subject in the stream's account?
    fn has_group_interest(&self, subject: &[u8], group: &[u8]) -> bool;
    /// The next number of a seeded generator: for names, ids and jitter.
    fn random(&mut self) -> u64;
    /// Limits of server and account in force.
    fn limits(&self) -> &Limits;
}
