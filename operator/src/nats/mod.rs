//! Talking to servers: a small client, and the requests that the operator sends.

pub mod client;
pub mod system;
pub mod trust;
