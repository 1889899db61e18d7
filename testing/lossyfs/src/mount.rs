//! Mounting, crashing and ending.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption};
use parking_lot::Mutex;
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::fuse::Served;
use crate::model::{Crash, Model};

/// Source of the mounts in the system's table; the process follows.
const SOURCE: &str = "lossyfs-";
/// Threads that answer the kernel.
const THREADS: usize = 2;

/// A mounted file system, in a temporary directory. It ends when dropped, although programs may still have files open.
#[derive(Debug)]
pub struct Mounted {
    model: Arc<Mutex<Model>>,
    session: Option<BackgroundSession>,
    directory: TempDir,
}

impl Mounted {
    /// Mounts an empty one that holds at most `capacity` bytes.
    ///
    /// # Errors
    /// What the kernel, or `fusermount` where the process may not mount, has against it.
    pub fn new(capacity: u64) -> io::Result<Self> {
        end_left_behind();
        let directory = tempfile::Builder::new().prefix("lossyfs-").tempdir()?;
        let model = Arc::new(Mutex::new(Model::new(capacity)));
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(format!("{SOURCE}{}", std::process::id())), MountOption::NoAtime];
        config.n_threads = Some(THREADS);
        let session = fuser::spawn_mount(Served(model.clone()), directory.path(), &config)?;
        Ok(Self { model, session: Some(session), directory })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Plants a fault: from now on syncs of directories are answered and do nothing.
    pub fn forget_names(&self) {
        self.model.lock().forgets_names = true;
    }

    /// The loss of power, at which nobody may use the file system: of what was not synced survives what `seed` says, and that is
    /// durable then. Files that are still open refuse everything.
    pub fn crash(&self, seed: u64) -> Crash {
        self.model.lock().crash(seed)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // At once, whoever has files open: a test that fails leaves its server running until that is dropped too.
        if let Err(error) = unmount(self.directory.path(), UnmountFlags::DETACH) {
            eprintln!("unmount {}: {error}", self.directory.path().display());
        }
        drop(self.session.take());
    }
}

/// Ends mounts of processes that were killed: whoever looks into one gets an error.
fn end_left_behind() {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in table.lines() {
        let mut fields = line.split(' ');
        let (Some(source), Some(place)) = (fields.next(), fields.next()) else { continue };
        let Some(process) = source.strip_prefix(SOURCE) else { continue };
        if Path::new("/proc").join(process).exists() {
            continue;
        }
        match unmount(place, UnmountFlags::DETACH) {
            Ok(()) => drop(fs::remove_dir(place)),
            Err(error) => eprintln!("unmount {place}, left behind: {error}"),
        }
    }
}
