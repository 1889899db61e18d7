//! Programs of others that tests need. None of the tests is skipped when one of them is not there.

use std::path::PathBuf;

/// Oldest version of Kubernetes that the charts are for. What Helm takes a cluster for when it does not install depends on how it was built.
pub(crate) const KUBERNETES: &str = "1.29.0";

/// The reference server.
pub(crate) fn reference() -> PathBuf {
    find("MYELIN_REFERENCE", "nats-server")
}

/// Helm.
pub(crate) fn helm() -> PathBuf {
    find("MYELIN_HELM", "helm")
}

/// A program that is named by a variable, or in the directory `MYELIN_TOOLS`.
fn find(variable: &str, name: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let beside = || std::env::var_os("MYELIN_TOOLS").map(|tools| PathBuf::from(tools).join(name));
    let Some(path) = named.or_else(beside) else {
        panic!(
            "{name} is not known: `make test` names it; by hand, set MYELIN_TOOLS=$(testing/tools/build.sh)"
        );
    };
    assert!(path.is_file(), "{}: no such file", path.display());
    path
}
