//! The controllers of `jetstream.nats.io`: streams, consumers and buckets on NATS servers, and logins to them.
//!
//! A pass resolves how to connect, compares what is there with what the spec asks for, takes one step, and reports.
//! [`plan`] decides and is pure.

pub mod compare;
pub mod desired;
pub mod owner;
pub mod plan;
