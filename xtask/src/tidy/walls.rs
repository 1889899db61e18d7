//! Import walls: which of our packages, and which kinds of foreign ones, a package may depend on.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Finding;

/// One row of the table in `docs/architecture.md`.
struct Room {
    name: &'static str,
    /// Our packages it may use.
    uses: &'static [&'static str],
    /// Our packages its tests may use on top.
    tests_use: &'static [&'static str],
}

/// The table. A package that is not in it may not exist.
const ROOMS: &[Room] = &[
    Room { name: "subject", uses: &[], tests_use: &[] },
    Room { name: "api", uses: &["subject"], tests_use: &[] },
    Room { name: "protocol", uses: &["subject"], tests_use: &[] },
    Room { name: "config", uses: &["subject", "api"], tests_use: &[] },
    Room { name: "routing", uses: &["subject", "protocol"], tests_use: &[] },
    Room { name: "store", uses: &["subject"], tests_use: &[] },
    Room { name: "multiraft", uses: &[], tests_use: &[] },
    Room { name: "jetstream", uses: &["subject", "api", "store"], tests_use: &[] },
    Room { name: "crd", uses: &["subject", "api"], tests_use: &[] },
    Room {
        name: "broker",
        uses: &["subject", "api", "protocol", "config", "store", "multiraft", "jetstream", "routing"],
        tests_use: &["testkit"],
    },
    Room { name: "operator", uses: &["subject", "api", "config", "crd"], tests_use: &["testkit"] },
    Room { name: "testkit", uses: &["api", "protocol"], tests_use: &[] },
    Room { name: "bench", uses: &["subject", "api", "protocol", "routing"], tests_use: &["testkit"] },
    Room { name: "sim", uses: &["subject", "api", "store", "multiraft", "jetstream"], tests_use: &[] },
    Room { name: "lossyfs", uses: &[], tests_use: &["testkit"] },
    Room { name: "xtask", uses: &["subject", "api", "config", "crd"], tests_use: &[] },
    Room { name: "e2e", uses: &["api", "crd", "testkit"], tests_use: &[] },
];

/// Packages that bring threads, sockets or clocks of their own. A core uses none of them, not even in tests.
const RUNTIMES: &[&str] = &[
    "tokio",
    "tokio-rustls",
    "tokio-util",
    "hyper",
    "hyper-util",
    "mio",
    "socket2",
    "async-std",
    "smol",
    "rustix",
];

/// Packages that speak to Kubernetes, and where they may appear.
const KUBERNETES: &[&str] = &["kube", "k8s-openapi", "kube-runtime", "kube-client", "kube-derive"];
const KUBERNETES_ROOMS: &[&str] = &["crd", "operator", "xtask", "e2e"];

/// One of our packages as its manifest describes it.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Path of the manifest from the top of the repository.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One dependency of a manifest.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether it lives in this repository.
    pub(crate) ours: bool,
    /// Whether only tests, examples and benches see it.
    pub(crate) for_tests: bool,
}

/// Asks Cargo for the packages of the workspace.
pub(crate) fn read_packages(root: &Path) -> Result<Vec<Package>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    packages.iter().map(|package| read_package(root, package)).collect()
}

fn read_package(root: &Path, package: &Value) -> Result<Package> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let manifest = text(&package["manifest_path"]).context("package without a manifest")?;
    let manifest = Path::new(&manifest).strip_prefix(root).context("manifest outside of the repository")?;
    let dependencies =
        package["dependencies"].as_array().context("package without a list of dependencies")?;
    let dependency = |value: &Value| {
        Some(Dependency {
            name: text(&value["name"])?,
            ours: value["path"].is_string(),
            for_tests: value["kind"].as_str() == Some("dev"),
        })
    };
    Ok(Package {
        name: text(&package["name"]).context("package without a name")?,
        manifest: manifest.to_string_lossy().into_owned(),
        dependencies: dependencies.iter().filter_map(dependency).collect(),
    })
}

/// Compares every manifest with the table.
pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let Some(room) = ROOMS.iter().find(|room| room.name == package.name) else {
        let text = format!("package {} has no row in the table of import walls", package.name);
        return vec![Finding::error(&package.manifest, text)];
    };
    let broken = package.dependencies.iter().filter_map(|dependency| {
        let reason = broken_wall(room, package, dependency)?;
        let text = format!("{} may not depend on {}: {reason}", package.name, dependency.name);
        Some(Finding::error(&package.manifest, text))
    });
    broken.collect()
}

fn broken_wall(room: &Room, package: &Package, dependency: &Dependency) -> Option<&'static str> {
    let name = dependency.name.as_str();
    if dependency.ours {
        let in_tests = dependency.for_tests && room.tests_use.contains(&name);
        let allowed = room.uses.contains(&name) || in_tests;
        return (!allowed).then_some("the table of import walls does not allow it");
    }
    if KUBERNETES.contains(&name) && !KUBERNETES_ROOMS.contains(&room.name) {
        return Some("Kubernetes belongs to crd and operator");
    }
    let is_core = package.manifest.starts_with("crates/");
    (is_core && RUNTIMES.contains(&name)).then_some("a core brings no runtime, socket or clock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(package: &str, manifest: &str, name: &str, ours: bool, for_tests: bool) -> Vec<Finding> {
        check(&[Package {
            name: package.to_owned(),
            manifest: manifest.to_owned(),
            dependencies: vec![Dependency { name: name.to_owned(), ours, for_tests }],
        }])
    }

    #[test]
    fn a_door_in_the_table_is_open() {
        assert_eq!(findings("routing", "crates/routing/Cargo.toml", "protocol", true, false), []);
        assert_eq!(findings("broker", "broker/Cargo.toml", "testkit", true, true), []);
        assert_eq!(findings("broker", "broker/Cargo.toml", "tokio", false, false), []);
        assert_eq!(findings("crd", "crates/crd/Cargo.toml", "kube", false, false), []);
    }

    #[test]
    fn a_door_not_in_the_table_is_shut() {
        let found = findings("routing", "crates/routing/Cargo.toml", "config", true, false);
        assert_eq!(
            found,
            [Finding::error(
                "crates/routing/Cargo.toml",
                "routing may not depend on config: the table of import walls does not allow it"
            )]
        );
    }

    #[test]
    fn tests_open_only_their_own_doors() {
        assert_eq!(findings("broker", "broker/Cargo.toml", "testkit", true, false).len(), 1);
        assert_eq!(findings("subject", "crates/subject/Cargo.toml", "broker", true, true).len(), 1);
    }

    #[test]
    fn a_core_has_no_runtime_even_in_tests() {
        assert_eq!(findings("config", "crates/config/Cargo.toml", "tokio", false, false).len(), 1);
        assert_eq!(findings("config", "crates/config/Cargo.toml", "tokio", false, true).len(), 1);
    }

    #[test]
    fn kubernetes_stays_with_crd_and_operator() {
        assert_eq!(findings("broker", "broker/Cargo.toml", "kube", false, false).len(), 1);
        assert_eq!(findings("testkit", "testing/testkit/Cargo.toml", "k8s-openapi", false, true).len(), 1);
    }

    #[test]
    fn a_package_without_a_row_is_refused() {
        assert_eq!(findings("utils", "crates/utils/Cargo.toml", "memchr", false, false).len(), 1);
    }

    #[test]
    fn the_table_has_no_circle_and_names_only_its_own_rows() {
        for room in ROOMS {
            for used in room.uses {
                let found = ROOMS.iter().find(|other| other.name == *used);
                assert!(
                    found.is_some_and(|other| !other.uses.contains(&room.name)),
                    "{} -> {used}",
                    room.name
                );
            }
        }
    }

    /// Rows of the table in the document: name, and what is marked for it with its mark.
    fn documented() -> Vec<(String, Vec<(String, String)>)> {
        let page = include_str!("../../../docs/architecture.md");
        let table = page.split("## Import walls").nth(1).unwrap();
        let cells = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let mut lines =
            table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        let columns = cells(lines.next().unwrap());
        let marked = |row: &[String]| {
            let marks = columns.iter().zip(row).skip(1).filter(|(_, mark)| !mark.is_empty());
            marks.map(|(column, mark)| (column.clone(), mark.clone())).collect()
        };
        lines.skip(1).map(cells).map(|row| (row[0].clone(), marked(&row))).collect()
    }

    #[test]
    fn the_document_shows_this_table() {
        let mut documented = documented();
        documented.sort();
        let marks = |names: &[&str], mark: &str| -> Vec<(String, String)> {
            names.iter().map(|name| ((*name).to_owned(), mark.to_owned())).collect()
        };
        let mut here: Vec<_> = ROOMS
            .iter()
            .map(|room| {
                (room.name.to_owned(), [marks(room.uses, "x"), marks(room.tests_use, "tests")].concat())
            })
            .collect();
        here.sort();
        assert_eq!(documented, here);
    }

    #[test]
    fn cargo_knows_this_package_and_its_dependencies() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let packages = read_packages(root).unwrap();
        let own = packages.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!(own.manifest, "xtask/Cargo.toml");
        let is = |name: &str, ours: bool| own.dependencies.iter().any(|d| d.name == name && d.ours == ours);
        assert!(is("crd", true) && is("anyhow", false));
    }
}
