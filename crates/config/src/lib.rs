//! The configuration language and every option.
//!
//! Text becomes a [`lang::Value`] tree with positions ([`lang::parse`]), the tree becomes typed [`Options`]
//! ([`load`]). This crate touches no file and no environment: both come through [`lang::Source`].

mod diagnostic;
pub mod lang;
pub mod options;
pub mod secret;

pub use diagnostic::{Diagnostic, Position};
pub use options::Options;
pub use secret::Secret;
