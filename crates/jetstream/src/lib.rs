//! Streams, consumers and the catalogue of both as state machines without clocks, sockets and files.
//!
//! A leader decides: it checks what comes in against its view, writes time, sequence and verdict into a command and proposes it. `apply` obeys
//! and gives the same result on every replica.

pub mod command;
pub mod consumer;
mod duration;
pub mod effect;
pub mod limits;
pub mod meta;
pub mod outside;
pub mod request;
pub mod snapshot;
pub mod source;
pub mod stream;
mod waiting;

pub use outside::Outside;
pub use request::{Request, Response, Token};
pub use stream::{Publish, Stream};
