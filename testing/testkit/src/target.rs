//! Which server binary a test starts.

use std::env;
use std::path::PathBuf;

/// Names the server under test: `myelin` (the default) or `reference`.
const TARGET_VARIABLE: &str = "MYELIN_TEST_TARGET";
/// Path of the reference server's binary.
const REFERENCE_VARIABLE: &str = "MYELIN_REFERENCE";

/// The two servers that a test can run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Our broker.
    Myelin,
    /// The server whose behaviour is the yardstick.
    Reference,
}

/// A server binary and what it is.
#[derive(Clone, Debug)]
pub struct Target {
    /// Ours or the reference.
    pub kind: Kind,
    /// The program to start.
    pub binary: PathBuf,
}

impl Target {
    /// The server that `MYELIN_TEST_TARGET` asks for; `myelin` is the path of our binary.
    pub fn from_env(myelin: &str) -> Self {
        match env::var(TARGET_VARIABLE).as_deref() {
            Err(_) | Ok("" | "myelin") => Self::myelin(myelin),
            Ok("reference") => match Self::reference() {
                Some(target) => target,
                None => panic!("{TARGET_VARIABLE}=reference needs {REFERENCE_VARIABLE} to name the binary"),
            },
            Ok(other) => panic!("{TARGET_VARIABLE}={other}: expected myelin or reference"),
        }
    }

    /// Our binary at this path.
    pub fn myelin(path: &str) -> Self {
        Self { kind: Kind::Myelin, binary: PathBuf::from(path) }
    }

    /// The reference server, if the environment names it.
    pub fn reference() -> Option<Self> {
        let path = env::var_os(REFERENCE_VARIABLE).filter(|path| !path.is_empty())?;
        let binary = PathBuf::from(path);
        assert!(binary.is_file(), "{REFERENCE_VARIABLE}={}: no such file", binary.display());
        Some(Self { kind: Kind::Reference, binary })
    }

    /// Whether this is our broker.
    pub fn is_myelin(&self) -> bool {
        self.kind == Kind::Myelin
    }
}
