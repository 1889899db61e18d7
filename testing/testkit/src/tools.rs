//! Programs of others that tests run, where the environment has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::target::Target;

/// Path of the command line tool.
const NATS_VARIABLE: &str = "MYELIN_NATS";
/// Directory that `testing/tools/build.sh` prints.
const TOOLS_VARIABLE: &str = "MYELIN_TOOLS";

/// The official command line tool: named by `MYELIN_NATS`, in the directory `MYELIN_TOOLS`, beside the reference server,
/// or in the newest directory that `testing/tools/build.sh` has filled. A full run must have it.
pub fn nats() -> Option<PathBuf> {
    let own = || std::env::var_os(NATS_VARIABLE).map(PathBuf::from);
    let in_tools = || std::env::var_os(TOOLS_VARIABLE).map(|dir| Path::new(&dir).join("nats"));
    let beside_reference = || Some(Target::reference()?.binary.parent()?.join("nats"));
    let path =
        [own(), in_tools(), beside_reference(), built()].into_iter().flatten().find(|path| path.is_file());
    assert!(path.is_some() || std::env::var_os("CI").is_none(), "the full run needs {TOOLS_VARIABLE}");
    path
}

/// The tool as the build script left it; nothing is built here.
fn built() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let entries = std::fs::read_dir(cache.join("myelin/tools")).ok()?;
    let made = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    entries.flatten().map(|entry| entry.path().join("nats")).filter(|path| path.is_file()).max_by_key(made)
}

/// A command of the tool that reads no settings of the user who runs the tests.
pub fn nats_command(tool: &Path, home: &Path) -> Command {
    let mut command = clean_command(tool, home);
    command.arg("--no-context");
    command
}

/// A command that knows nothing of the environment of the tests.
pub(crate) fn clean_command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).env("TZ", "UTC").env("PATH", "/usr/bin:/bin");
    command
}
