//! The rules of the house, checked: import walls, sizes, words, module docs, links in the docs.
//!
//! Each rule is a function from facts (the manifests, or a path and its text) to findings, and has a failing example
//! among its tests. This file gathers the facts and prints.

mod docs;
mod shape;
mod sizes;
mod walls;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Tolerated sizes, relative to the top of the repository.
const RATCHET: &str = "xtask/ratchet.txt";

/// Files larger than this are listed as unchecked: no text of ours comes near it.
const READ_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What a rule has to say about one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File, with a line where there is one.
    place: String,
    /// What is wrong and what to do.
    text: String,
    /// Whether it only deserves attention.
    warning: bool,
}

impl Finding {
    fn error(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into(), warning: false }
    }

    fn warning(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into(), warning: true }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.warning { "warning" } else { "error" };
        write!(f, "{level}: {}: {}", self.place, self.text)
    }
}

/// Texts of the repository by path.
type Files = BTreeMap<String, String>;

/// Checks everything and fails on the first run of findings that are errors. With `shrink`, tolerated sizes are first
/// lowered to what they are now.
///
/// # Errors
/// When a rule is broken, or the facts cannot be gathered.
pub(crate) fn run(shrink: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
    let files = read_files(root)?;
    let packages = walls::read_packages(root)?;
    let mut ratchet = sizes::Ratchet::parse(files.get(RATCHET).map_or("", String::as_str))?;
    if shrink {
        ratchet.shrink(&files);
        fs::write(root.join(RATCHET), ratchet.to_string()).with_context(|| format!("write {RATCHET}"))?;
    }
    let findings = check(&files, &packages, &ratchet);
    let errors = findings.iter().filter(|finding| !finding.warning).count();
    for finding in &findings {
        eprintln!("{finding}");
    }
    if errors > 0 {
        bail!("tidy: {errors} errors in {} files", files.len());
    }
    eprintln!("tidy: {} files, {} packages, {} warnings", files.len(), packages.len(), findings.len());
    Ok(())
}

fn check(files: &Files, packages: &[walls::Package], ratchet: &sizes::Ratchet) -> Vec<Finding> {
    let mut findings = walls::check(packages);
    findings.extend(shape::check_clippy_files(files));
    findings.extend(docs::check_links(files));
    findings.extend(ratchet.check(files));
    for (path, text) in files {
        findings.extend(shape::check_module_doc(path, text));
        findings.extend(shape::check_sleep_in_tests(path, text));
        findings.extend(words::check_place_words(path, text));
        findings.extend(words::check_domain_words(path, text));
    }
    for package in packages {
        let text = files.get(&package.manifest).map_or("", String::as_str);
        findings.extend(shape::check_lints(&package.manifest, text));
    }
    findings.sort();
    findings
}

/// Reads every text that is in the repository or about to be added to it.
fn read_files(root: &Path) -> Result<Files> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("run git ls-files")?;
    if !listed.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let mut files = Files::new();
    for path in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let full = root.join(path);
        // A file that was removed but not yet committed is still listed; links are not followed.
        let Ok(metadata) = fs::symlink_metadata(&full) else { continue };
        if !metadata.is_file() || metadata.len() > READ_BYTES_MAX {
            continue;
        }
        let bytes = fs::read(&full).with_context(|| format!("read {path}"))?;
        // Binary files have no words and no lines, but links may point at them.
        files.insert(path.to_owned(), String::from_utf8(bytes).unwrap_or_default());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        run(false).unwrap();
    }

    #[test]
    fn a_finding_names_level_place_and_text() {
        assert_eq!(Finding::error("a.rs:3", "no").to_string(), "error: a.rs:3: no");
        assert_eq!(Finding::warning("a.rs", "hm").to_string(), "warning: a.rs: hm");
    }

    #[test]
    fn every_rule_is_asked() {
        let texts = [
            ("crates/a/src/lib.rs", "fn a() {}\n"),
            ("crates/a/tests/a.rs", "//! A.\nfn a() { sleep(1) }\n"),
            ("crates/a/src/b.rs", "//! Of leaf nodes.\n"),
            ("crates/a/src/c.rs", concat!("//! In /wo", "rk/x.\n")),
            ("clippy.toml", "a = 1\n"),
            ("README.md", "[x](gone.md)\n"),
        ];
        let files: Files = texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into_iter().collect();
        let long = format!("//! Long.\n{}", "\n".repeat(sizes::FILE_LINES_MAX));
        let files = Files::from_iter(files.into_iter().chain([("crates/a/src/long.rs".to_owned(), long)]));
        let package = walls::Package {
            name: "stranger".to_owned(),
            manifest: "crates/a/Cargo.toml".to_owned(),
            dependencies: Vec::new(),
        };
        let ratchet = sizes::Ratchet::parse("").unwrap();
        let places: Vec<String> =
            check(&files, &[package], &ratchet).into_iter().map(|finding| finding.place).collect();
        for place in [
            "README.md:1",
            "crates/a/Cargo.toml",
            "crates/a/src/b.rs:1",
            "crates/a/src/c.rs:1",
            "crates/a/src/lib.rs",
            "crates/a/src/long.rs",
            "crates/a/tests/a.rs:2",
            "crates/clippy.toml",
        ] {
            assert!(places.iter().any(|found| found == place), "{place} is not in {places:?}");
        }
    }
}
