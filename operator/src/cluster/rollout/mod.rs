//! Replacing pods one at a time.

pub mod gate;
pub mod plan;
