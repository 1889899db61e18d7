//! Talking to servers: a small client, and the requests that the operator sends.

pub mod address;
pub mod client;
pub mod document;
pub mod link;
pub mod login;
pub mod session;
pub mod system;
pub mod trust;
