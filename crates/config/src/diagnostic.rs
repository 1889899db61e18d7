//! Errors and warnings with the place they are about.

use std::fmt;
use std::sync::Arc;

/// A place in a configuration file. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// File as it was named, or empty for a value that was built and not parsed.
    pub file: Arc<str>,
    /// Line; 0 for a value that was built and not parsed.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One error or warning about the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub struct Diagnostic {
    /// Where; `None` for a rule about options that have no single place.
    pub position: Option<Position>,
    /// What.
    pub message: String,
}

impl Diagnostic {
    /// About a place.
    pub fn at(position: &Position, message: impl Into<String>) -> Self {
        // A built value has no place worth printing.
        let position = (position.line > 0).then(|| position.clone());
        Self { position, message: message.into() }
    }

    /// About no place in particular.
    pub fn general(message: impl Into<String>) -> Self {
        Self { position: None, message: message.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.position {
            Some(position) => write!(formatter, "{position}: {}", self.message),
            None => formatter.write_str(&self.message),
        }
    }
}
