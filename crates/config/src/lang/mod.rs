//! The configuration language: text to a tree of values with positions, and back.
//!
//! A superset of JSON: bare and quoted strings, block strings, sizes, dates, comments, variables, includes.

mod digest;
mod lexer;
mod parser;
mod path;
mod render;
mod scalar;
mod value;

#[cfg(test)]
mod tests;

pub use digest::digest;
pub use parser::{parse, parse_file};
pub use render::render;
pub use value::{Entry, Kind, Map, Value};

/// Where the language finds files and the environment.
pub trait Source {
    /// The text of a file, or what went wrong in words.
    fn read(&self, path: &str) -> Result<String, String>;
    /// An environment variable.
    fn env(&self, name: &str) -> Option<String>;
}
