//! The client side of the protocol: what clients send, what they are sent.

pub mod encode;
mod parser;

pub use crate::error::ParseError;
pub use parser::{Limits, Op, Publish, Step, parse};
