//! The configuration language and every option.
//!
//! Text becomes a [`lang::Value`] tree with positions ([`lang::parse`]), the tree becomes typed [`Options`]
//! ([`load`]). This crate touches no file and no environment: both come through [`lang::Source`].

mod decode;
mod diagnostic;
mod diff;
mod duration;
pub mod flags;
pub mod lang;
mod load;
pub mod options;
mod reload_class;
pub mod schema;
mod secret;
mod validate;

pub use decode::strip_variables;
pub use diagnostic::{Diagnostic, Position};
pub use diff::{Change, diff};
pub use duration::format_duration;
pub use load::{Loaded, load, load_tree};
pub use options::Options;
pub use reload_class::{ReloadClass, reload_class};
pub use secret::Secret;
pub use validate::validate;
