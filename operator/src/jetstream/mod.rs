//! The controllers of `jetstream.nats.io`: streams, consumers and buckets on NATS servers, and logins to them.
//!
//! A pass resolves how to connect ([`connection`]), looks through a shared connection ([`pool`]), compares what is there with what the spec
//! asks for, takes one step ([`act`]), and reports. [`plan`] decides and is pure. What may wake a pass is in [`controller`] and [`index`].

pub mod accounts;
pub mod act;
pub mod api;
pub mod asset;
pub mod compare;
pub mod connection;
pub mod controller;
pub mod desired;
pub mod files;
pub mod index;
pub mod owner;
pub mod pass;
pub mod plan;
pub mod pool;
pub mod problem;
pub mod removal;
pub mod report;
pub mod state;
pub mod versions;
