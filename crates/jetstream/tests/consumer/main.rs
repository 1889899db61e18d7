//! Tests of the consumer machine over a memory store: scripts, a model, and the agreement of replicas.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod harness;
mod model;
mod replicas;
mod script;
mod unit;
