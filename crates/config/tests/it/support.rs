//! A source over real files, and a small generator of random numbers.

use std::path::{Path, PathBuf};

use config::lang::Source;

/// Reads real files; knows no environment.
pub(crate) struct Files;

impl Source for Files {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| format!("open {path}: {error}"))
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }
}

/// A path of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Texts of the example configurations, with their paths.
pub(crate) fn examples() -> Vec<(PathBuf, String)> {
    let directory = repository("docs/examples/config");
    let mut examples: Vec<(PathBuf, String)> = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap_or_else(|error| panic!("{}: {error}", directory.display())).path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .map(|path| {
            let text =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, text)
        })
        .collect();
    examples.sort();
    assert!(examples.len() >= 4, "only {} examples in {}", examples.len(), directory.display());
    examples
}

/// A generator that gives the same numbers for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
