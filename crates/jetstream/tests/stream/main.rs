//! The stream machine as its shell sees it: scripts with the full expected trace, a model of restarts, a measurement.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod consumers;
mod harness;
mod model;
mod script;
mod speed;
