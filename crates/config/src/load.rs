//! From a file name and a command line to options.

use crate::decode::{Decoded, Places, Report, decode};
use crate::diagnostic::Diagnostic;
use crate::flags::Overrides;
use crate::lang::{self, Source, Value};
use crate::options::Options;
use crate::validate;

/// Options that may be used, and what came with them.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The options.
    pub options: Options,
    /// What is allowed but suspicious. The reference server refuses them when it only tests a file.
    pub warnings: Vec<Diagnostic>,
    /// Digest of the configuration file; `None` without a file.
    pub digest: Option<String>,
}

/// Reads and checks the file (none without a path), with the command line laid over it. Every error found is
/// returned, in the order of their places.
pub fn load(
    source: &dyn Source,
    path: Option<&str>,
    overrides: &Overrides,
) -> Result<Loaded, Vec<Diagnostic>> {
    match path {
        Some(path) => {
            let tree = lang::parse_file(path, source).map_err(|error| vec![error])?;
            load_tree(&tree, Some(path), overrides)
        }
        None => {
            let decoded =
                Decoded { options: Options::default(), places: Places::new(), report: Report::default() };
            finish(decoded, overrides, None)
        }
    }
}

/// As [`load`], for a tree that is already there, such as one that was built. `path` is the name of its file for
/// messages.
pub fn load_tree(tree: &Value, path: Option<&str>, overrides: &Overrides) -> Result<Loaded, Vec<Diagnostic>> {
    let mut decoded = decode(tree);
    if let (Some(path), Some(true)) = (path, tree.as_map().map(lang::Map::is_empty)) {
        let warning = Diagnostic::general(format!("{path}: config has no values or is empty"));
        decoded.report.warnings.push(warning);
    }
    finish(decoded, overrides, Some(lang::digest(tree)))
}

fn finish(
    decoded: Decoded,
    overrides: &Overrides,
    digest: Option<String>,
) -> Result<Loaded, Vec<Diagnostic>> {
    let Decoded { mut options, places, mut report } = decoded;
    overrides.apply(&mut options, &mut report.errors);
    // Rules that span sections would only repeat what is already wrong with a section.
    if report.errors.is_empty() {
        validate::check(&options, &places, &mut report);
    }
    if report.errors.is_empty() {
        return Ok(Loaded { options, warnings: report.warnings, digest });
    }
    report.errors.sort();
    Err(report.errors)
}
