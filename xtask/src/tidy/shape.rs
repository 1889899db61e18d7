//! Shape of single files: module docs, lints, no sleeping in tests, and one common part of the two clippy files.

use super::{Files, Finding};

/// Rules of the shells, and those of the cores, which must repeat them.
const CLIPPY_SHELLS: &str = "clippy.toml";
const CLIPPY_CORES: &str = "crates/clippy.toml";

/// Every module says what it is.
pub(crate) fn check_module_doc(path: &str, text: &str) -> Option<Finding> {
    if !path.ends_with(".rs") || text.trim_start().starts_with("//!") {
        return None;
    }
    Some(Finding::error(path, "the file does not start with a `//!` line that says what it is"))
}

/// A test waits for a condition, never for a time.
pub(crate) fn check_sleep_in_tests(path: &str, text: &str) -> Vec<Finding> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let all_tests = path.contains("/tests/") || path.ends_with("/tests.rs");
    let mut in_tests = all_tests;
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Inline tests stand at the end of a file, so what follows the attribute is theirs.
        in_tests |= line.starts_with("#[cfg(test)]");
        let code = line.split("//").next().unwrap_or_default();
        if in_tests && code.contains(SLEEP_CALL) {
            let text = "a test sleeps: wait for a condition, or for the absence of an event with a deadline";
            findings.push(Finding::error(format!("{path}:{}", index + 1), text));
        }
    }
    findings
}

/// The call as it is written, in two pieces so that this file does not contain it.
const SLEEP_CALL: &str = concat!("sl", "eep(");

/// Every package takes the lints of the workspace.
pub(crate) fn check_lints(path: &str, text: &str) -> Option<Finding> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    if lines.next() == Some("workspace = true") {
        return None;
    }
    Some(Finding::error(path, "the manifest does not take the lints of the workspace"))
}

/// The file for the cores replaces the one at the top, so it must repeat all of it.
pub(crate) fn check_clippy_files(files: &Files) -> Vec<Finding> {
    let Some(common) = files.get(CLIPPY_SHELLS) else { return Vec::new() };
    let cores = files.get(CLIPPY_CORES).map_or("", String::as_str);
    let rules = common.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let missing = rules.filter(|rule| !cores.lines().any(|line| line.trim() == *rule));
    let finding =
        |rule| Finding::error(CLIPPY_CORES, format!("the common part lacks `{rule}` of {CLIPPY_SHELLS}"));
    missing.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_doc_is_refused() {
        assert!(check_module_doc("a.rs", "use std::fmt;\n").is_some());
        assert!(check_module_doc("a.rs", "").is_some());
        assert_eq!(check_module_doc("a.rs", "\n//! What it is.\n"), None);
        assert_eq!(check_module_doc("a.go", "package a\n"), None);
    }

    #[test]
    fn sleeping_is_refused_in_tests_only() {
        let call = format!("//! Doc.\nfn a() {{ std::thread::{SLEEP_CALL}x) }}\n");
        assert_eq!(check_sleep_in_tests("a/tests/it/a.rs", &call).len(), 1);
        assert_eq!(check_sleep_in_tests("a/src/tests.rs", &call).len(), 1);
        assert_eq!(check_sleep_in_tests("a/src/a.rs", &call), []);
        assert_eq!(check_sleep_in_tests("a/src/a.rs", &format!("#[cfg(test)]\n{call}")).len(), 1);
        assert_eq!(check_sleep_in_tests("a/tests/a.rs", &format!("// no {SLEEP_CALL})\n")), []);
    }

    #[test]
    fn a_manifest_without_lints_is_refused() {
        assert_eq!(check_lints("a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"), None);
        assert!(check_lints("a/Cargo.toml", "[package]\nname = \"a\"\n").is_some());
        assert!(check_lints("a/Cargo.toml", "[lints]\nworkspace = false\n").is_some());
    }

    #[test]
    fn clippy_files_have_one_common_part() {
        let files = |cores: &str| {
            let shells = "# Shells.\na = 1\nb = 2\n".to_owned();
            Files::from([(CLIPPY_SHELLS.to_owned(), shells), (CLIPPY_CORES.to_owned(), cores.to_owned())])
        };
        assert_eq!(check_clippy_files(&files("# Cores.\na = 1\nb = 2\nc = 3\n")), []);
        assert_eq!(
            check_clippy_files(&files("a = 1\nb = 3\n")),
            [Finding::error(CLIPPY_CORES, "the common part lacks `b = 2` of clippy.toml")]
        );
    }
}
