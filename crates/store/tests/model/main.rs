//! Every kind of stream store against a plain model: random changes, and after each of them the same questions to both.
//!
//! A store is tested by a [`workload::Kind`], which opens it: for the first time, and again where it goes back to its last checkpoint.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of a test")]

mod compare;
mod file;
mod memory;
mod model;
mod speed;
mod workload;

/// A small generator of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below a limit above zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
