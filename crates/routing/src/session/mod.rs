//! One machine per kind of connection: what it may do, what it holds, and what the peer is told.

pub mod client;
