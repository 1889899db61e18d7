//! Black-box harness: starts servers, speaks the raw protocol, and makes faults.
//!
//! Everything here is for tests, so a broken expectation is a panic whose text shows what was expected and what came.
//! Nothing waits for a time: each wait is for a condition, and has a bound after which it is a failure.
//!
//! The same test runs against our server or against the reference one; [`Target`] says which binary to start.

pub mod certs;
mod client;
mod cluster;
mod frame;
pub mod history;
pub mod http;
pub mod jetstream;
pub mod load;
mod proxy;
mod schema;
mod server;
mod target;
pub mod tools;
pub mod transcript;
mod wait;
mod wire;

pub use client::{Client, Io};
pub use cluster::{Cluster, Member};
pub use frame::{Frame, Message};
pub use proxy::Proxy;
pub use rustix::process::Signal;
pub use server::{Builder, Finished, Server};
pub use target::{Kind, Target};
pub use wait::{PATIENCE, eventually, eventually_ok, within};
pub use wire::Wire;
