//! Mirrors and sources: streams that take messages from each other over a network that the test owns.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod model;
mod net;
mod unit;
