//! Where options come from: a file, and a command line laid over it.

use config::flags::Overrides;
use config::lang::Source;
use config::{Diagnostic, Options};

/// Options with what is needed to read them again.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The options.
    pub options: Options,
    /// Digest of the file.
    pub digest: Option<String>,
    /// The file; a server without one cannot be reloaded.
    pub path: Option<String>,
    /// What the command line says over the file.
    pub overrides: Overrides,
}

impl Loaded {
    /// Reads and checks the file, if there is one, with the command line over it. Also gives what is allowed but suspicious.
    pub fn read(
        path: Option<String>,
        overrides: Overrides,
    ) -> Result<(Self, Vec<Diagnostic>), Vec<Diagnostic>> {
        let config::Loaded { options, warnings, digest } = config::load(&Files, path.as_deref(), &overrides)?;
        Ok((Self { options, digest, path, overrides }, warnings))
    }
}

/// File and overrides of a running server.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) path: Option<String>,
    pub(crate) overrides: Overrides,
}

/// The files and the environment of this process.
#[derive(Debug, Clone, Copy)]
pub struct Files;

impl Source for Files {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| format!("open {path}: {error}"))
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}
