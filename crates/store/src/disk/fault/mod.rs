//! A disk in memory that does what disks do at their worst, decided by a seed.
//!
//! **Loss of power.** [`FaultDisk::crash`] ends one life of the disk; [`FaultDisk::crash_at`] lets the n-th change from now fail and everything after it,
//! until `crash` is called. Of each file, what was not synced is then kept, lost, kept up to a point, or kept in part and in any order, and one
//! write may survive as its beginning or as some of its sectors; or the length grew and the bytes did not follow. Names that were created, renamed or removed
//! without a sync of their directory survive or not, independently of each other unless they are the same names. Files opened before refuse
//! everything.
//!
//! **A killed process** needs no call: whoever opens files again sees what was written, synced or not.
//!
//! **Failed sync.** As on Linux: an unknown part of what it should have written is on stable storage, the rest never gets there, although
//! it is still read, and the next sync succeeds.
//!
//! **Injected faults.** [`Rule`]s let operations fail, lie, do a part or hit the wrong place; a capacity makes the disk full; it can become read-only.
//! [`FaultDisk::flip_bit`], [`FaultDisk::truncate`] and [`FaultDisk::vanish`] change files behind everybody's back.
//!
//! The same seed and the same operations give the same outcome. Clones of a `FaultDisk` are the same disk; [`FaultDisk::fork`] makes another with
//! the same content.

mod content;
mod random;
mod rule;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use content::Content;
use random::Random;
use tree::{Node, Tree};

pub use rule::{EIO, ENOSPC, EROFS, Effect, Operation, Rule};

use super::{Disk, Error, File, Open, Result};

/// What a loss of power does to what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing is lost: all had reached the disk just before.
    Nothing,
    /// All is lost.
    Everything,
    /// As the seed decides, for each file and name.
    Random,
}

/// The simulated disk. See the module.
#[derive(Debug, Clone)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone)]
struct State {
    random: Random,
    tree: Tree,
    contents: BTreeMap<u64, Content>,
    next_file: u64,
    /// Counts the crashes; files of an earlier life are dead.
    life: u64,
    /// Changes so far.
    changes: u64,
    /// Change at which the power goes.
    crash_at: Option<u64>,
    has_power: bool,
    is_read_only: bool,
    capacity: Option<u64>,
    rules: Vec<Rule>,
}

/// How an operation goes on after it was looked at.
struct Verdict {
    effect: Option<Effect>,
    /// The power goes during it.
    crashes: bool,
}

impl FaultDisk {
    /// An empty disk whose choices follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: Random::new(seed),
            tree: Tree::default(),
            contents: BTreeMap::new(),
            next_file: 1,
            life: 0,
            changes: 0,
            crash_at: None,
            has_power: true,
            is_read_only: false,
            capacity: None,
            rules: Vec::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Another disk with the same content, synced and unsynced, and choices of its own. Files that are open stay with this one.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let mut state = self.lock().clone();
        state.random = Random::new(seed);
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Changes so far: writes, syncs, creations, renames, removals, also those that failed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// The power goes during the `n`-th change from now, from 1. That change may survive, in part too.
    pub fn crash_at(&self, n: u64) {
        assert!(n > 0, "the change before the next one is over");
        let mut state = self.lock();
        state.crash_at = Some(state.changes + n);
    }

    /// Whether the power went at the change given to [`Self::crash_at`], and `crash` was not called since.
    #[must_use]
    pub fn is_down(&self) -> bool {
        !self.lock().has_power
    }

    /// The power goes and comes back. Rules and the capacity stay; a planned crash is forgotten.
    pub fn crash(&self, loss: Loss) {
        let state = &mut *self.lock();
        state.tree.crash(loss, &mut state.random);
        let reachable: std::collections::BTreeSet<u64> = state.tree.files().map(|(_, id)| id).collect();
        state.contents.retain(|id, _| reachable.contains(id));
        for content in state.contents.values_mut() {
            content.crash(loss, &mut state.random);
        }
        state.life += 1;
        state.crash_at = None;
        state.has_power = true;
    }

    /// Adds a fault.
    pub fn inject(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// Takes all injected faults back.
    pub fn clear_rules(&self) {
        self.lock().rules.clear();
    }

    /// Bytes that all files together may have, or no limit.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.lock().capacity = capacity;
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// Lets every change fail with [`EROFS`], or no more.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.lock().is_read_only = is_read_only;
    }

    /// Inverts one bit of a file. Like the other changes behind everybody's back it takes what is unsynced in the file for synced.
    /// False if there is no such file or bit.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> bool {
        let Some(len) = self.read(path).map(|bytes| bytes.len() as u64) else { return false };
        let is_inside = bit / 8 < len;
        is_inside && self.alter(path, |bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8))
    }

    /// Cuts a file. False if there is no such file.
    pub fn truncate(&self, path: &Path, len: u64) -> bool {
        self.alter(path, |bytes| bytes.truncate(len as usize))
    }

    /// Replaces the bytes of a file by what `change` makes of them. False if there is no such file.
    pub fn alter(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut state = self.lock();
        let Some(Node::File(id)) = state.tree.get(path) else { return false };
        let Some(content) = state.contents.get_mut(&id) else { return false };
        content.alter(change);
        true
    }

    /// Lets a file disappear without a trace. False if there is no such file.
    pub fn vanish(&self, path: &Path) -> bool {
        let mut state = self.lock();
        let is_file = matches!(state.tree.get(path), Some(Node::File(_)));
        if is_file {
            state.tree.vanish(path);
        }
        is_file
    }

    /// What a program would read in a file.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        let Some(Node::File(id)) = state.tree.get(path) else { return None };
        state.contents.get(&id).map(|content| content.bytes().to_vec())
    }

    /// All files, sorted by path.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.lock().tree.files().map(|(path, _)| path.clone()).collect()
    }

    /// A panic elsewhere leaves the state as it was between two operations or shows in the test anyway.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn used(&self) -> u64 {
        let lens = self.tree.files().filter_map(|(_, id)| self.contents.get(&id)).map(Content::len);
        lens.sum::<usize>() as u64
    }

    /// Counts an operation and says how it goes on.
    fn enter(&mut self, operation: Operation, path: &Path) -> io::Result<Verdict> {
        if !self.has_power {
            return Err(no_power());
        }
        let mut crashes = false;
        if operation.is_change() {
            self.changes += 1;
            crashes = self.crash_at == Some(self.changes);
            self.has_power = !crashes;
            if self.is_read_only {
                return Err(io::Error::from_raw_os_error(EROFS));
            }
        }
        let effect = self.rules.iter_mut().find_map(|rule| rule.hit(operation, path));
        Ok(Verdict { effect, crashes })
    }

    /// The same for operations on names, which happen or not.
    fn enter_name(&mut self, operation: Operation, path: &Path) -> io::Result<(bool, Verdict)> {
        let verdict = self.enter(operation, path)?;
        match verdict.effect {
            Some(Effect::Fail(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Effect::Partial) => Err(io::Error::from_raw_os_error(EIO)),
            Some(Effect::Ignore) => Ok((false, verdict)),
            Some(Effect::Misdirect(_)) | None => Ok((true, verdict)),
        }
    }

    fn open(&mut self, path: &Path, how: Open) -> io::Result<u64> {
        let operation = if how == Open::Create { Operation::Create } else { Operation::Open };
        let (_, verdict) = self.enter_name(operation, path)?;
        let found = self.tree.get(path);
        let id = match (how, found) {
            (_, Some(Node::Directory)) => return Err(io::ErrorKind::IsADirectory.into()),
            (Open::Create, Some(Node::File(_))) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Open::Create, None) if !self.tree.has_parent(path) => return Err(io::ErrorKind::NotFound.into()),
            (Open::Create, None) => {
                let id = self.next_file;
                self.next_file += 1;
                self.contents.insert(id, Content::default());
                self.tree.change(vec![(path.to_owned(), Some(Node::File(id)))]);
                id
            }
            (Open::Read | Open::Write, Some(Node::File(id))) => id,
            (Open::Read | Open::Write, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        verdict.end(id)
    }

    fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let (happens, verdict) = self.enter_name(Operation::CreateDirectory, path)?;
        let mut missing: Vec<&Path> = Vec::new();
        for ancestor in path.ancestors() {
            match self.tree.get(ancestor) {
                None => missing.push(ancestor),
                Some(Node::Directory) => break,
                Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            }
        }
        if happens {
            for directory in missing.into_iter().rev() {
                self.tree.change(vec![(directory.to_owned(), Some(Node::Directory))]);
            }
        }
        verdict.end(())
    }

    fn list(&mut self, path: &Path) -> io::Result<Vec<String>> {
        self.enter_name(Operation::List, path)?;
        if self.tree.get(path) != Some(Node::Directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let children = self.tree.children(path);
        let names = children.iter().filter_map(|child| child.file_name());
        Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (happens, verdict) = self.enter_name(Operation::Rename, from)?;
        let Some(node) = self.tree.get(from) else { return Err(io::ErrorKind::NotFound.into()) };
        if !self.tree.has_parent(to) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match self.tree.get(to) {
            Some(Node::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(_)) if node == Node::Directory => return Err(io::ErrorKind::NotADirectory.into()),
            _ => {}
        }
        if happens && from != to {
            let mut edits = vec![(from.to_owned(), None), (to.to_owned(), Some(node))];
            for path in self.tree.below(from) {
                let Ok(rest) = path.strip_prefix(from) else { continue };
                edits.push((to.join(rest), self.tree.get(&path)));
                edits.push((path, None));
            }
            self.tree.change(edits);
        }
        verdict.end(())
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let (happens, verdict) = self.enter_name(Operation::Remove, path)?;
        match self.tree.get(path) {
            Some(Node::File(_)) => {}
            Some(Node::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        if happens {
            self.tree.change(vec![(path.to_owned(), None)]);
        }
        verdict.end(())
    }

    /// Each name goes by itself, the deepest first, so a crash can leave any of them.
    fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let (happens, verdict) = self.enter_name(Operation::Remove, path)?;
        if happens && self.tree.get(path).is_some() {
            for inner in self.tree.below(path).into_iter().rev() {
                self.tree.change(vec![(inner, None)]);
            }
            self.tree.change(vec![(path.to_owned(), None)]);
        }
        verdict.end(())
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let (happens, verdict) = self.enter_name(Operation::SyncDirectory, path)?;
        if self.tree.get(path) != Some(Node::Directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // A crash comes before or behind it.
        if happens && (!verdict.crashes || self.random.coin()) {
            self.tree.sync(path);
        }
        verdict.end(())
    }

    fn content(&mut self, file: &FaultFile) -> io::Result<&mut Content> {
        let is_alive = file.life == self.life;
        let content = self.contents.get_mut(&file.id).filter(|_| is_alive);
        content.ok_or_else(|| io::Error::other("the file was opened before the power went"))
    }

    fn read_at(&mut self, file: &FaultFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let verdict = self.enter(Operation::Read, &file.path)?;
        let bytes = self.content(file)?.bytes();
        let start = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let mut count = buffer.len().min(bytes.len() - start);
        match verdict.effect {
            Some(Effect::Fail(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(Effect::Partial) => count /= 2,
            _ => {}
        }
        buffer[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn write_at(&mut self, file: &FaultFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        let verdict = self.enter_write(file)?;
        let room = self.capacity.map(|capacity| capacity.saturating_sub(self.used()));
        let content = self.content(file)?;
        let mut offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut kept = bytes.len();
        match verdict.effect {
            Some(Effect::Fail(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(Effect::Ignore) => return verdict.end(()),
            Some(Effect::Misdirect(distance)) => offset += distance as usize,
            Some(Effect::Partial) => kept /= 2,
            None => {}
        }
        let grows = (offset + kept).saturating_sub(content.len()) as u64;
        let missing = room.map_or(0, |room| grows.saturating_sub(room)) as usize;
        kept = kept.saturating_sub(missing);
        if kept > 0 {
            content.write(offset, &bytes[..kept]);
        }
        if missing > 0 {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        if verdict.effect == Some(Effect::Partial) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        verdict.end(())
    }

    fn set_len(&mut self, file: &FaultFile, len: u64) -> io::Result<()> {
        let verdict = self.enter_write(file)?;
        let content = self.content(file)?;
        match verdict.effect {
            Some(Effect::Fail(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(Effect::Partial) => return Err(io::Error::from_raw_os_error(EIO)),
            Some(Effect::Ignore) => {}
            Some(Effect::Misdirect(_)) | None => {
                content.set_len(usize::try_from(len).map_err(io::Error::other)?)
            }
        }
        verdict.end(())
    }

    fn enter_write(&mut self, file: &FaultFile) -> io::Result<Verdict> {
        if !file.is_writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.enter(Operation::Write, &file.path)
    }

    fn sync(&mut self, file: &FaultFile) -> io::Result<()> {
        let verdict = self.enter(Operation::Sync, &file.path)?;
        let mut random = self.random.clone();
        let content = self.content(file)?;
        let result = match verdict.effect {
            Some(Effect::Fail(number)) => {
                content.fail_sync(&mut random);
                Err(io::Error::from_raw_os_error(number))
            }
            Some(Effect::Partial) => {
                content.fail_sync(&mut random);
                Err(io::Error::from_raw_os_error(EIO))
            }
            Some(Effect::Ignore) => Ok(()),
            // A crash comes before or behind it.
            Some(Effect::Misdirect(_)) | None => {
                if !verdict.crashes || random.coin() {
                    content.sync();
                }
                Ok(())
            }
        };
        self.random = random;
        result.and_then(|()| verdict.end(()))
    }
}

impl Verdict {
    /// The result of an operation that has happened, unless the power went during it.
    fn end<T>(self, result: T) -> io::Result<T> {
        if self.crashes { Err(no_power()) } else { Ok(result) }
    }
}

fn no_power() -> io::Error {
    io::Error::other("the power is off")
}

impl Disk for FaultDisk {
    fn open(&self, path: &Path, how: Open) -> Result<Arc<dyn File>> {
        let mut state = self.lock();
        let id = state.open(path, how).map_err(|source| Error::new("open", path, source))?;
        let (life, is_writable) = (state.life, how != Open::Read);
        Ok(Arc::new(FaultFile { disk: self.clone(), id, life, is_writable, path: path.to_owned() }))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.lock().create_dir_all(path).map_err(|source| Error::new("create directory", path, source))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        self.lock().list(path).map_err(|source| Error::new("list", path, source))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.lock().rename(from, to).map_err(|source| Error::new("rename", from, source))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.lock().remove_file(path).map_err(|source| Error::new("remove", path, source))
    }

    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.lock().remove_dir_all(path).map_err(|source| Error::new("remove directory", path, source))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.lock().sync_dir(path).map_err(|source| Error::new("sync directory", path, source))
    }

    fn free_space(&self, _: &Path) -> Result<Option<u64>> {
        let state = self.lock();
        Ok(state.capacity.map(|capacity| capacity.saturating_sub(state.used())))
    }
}

#[derive(Debug)]
struct FaultFile {
    disk: FaultDisk,
    id: u64,
    life: u64,
    is_writable: bool,
    path: PathBuf,
}

impl FaultFile {
    fn error(&self, operation: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::new(operation, &self.path, source)
    }
}

impl File for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.disk.lock().read_at(self, buffer, offset).map_err(self.error("read"))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.disk.lock().write_at(self, bytes, offset).map_err(self.error("write"))
    }

    fn sync(&self) -> Result<()> {
        self.disk.lock().sync(self).map_err(self.error("sync"))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.disk.lock().set_len(self, len).map_err(self.error("set length of"))
    }

    /// There is nothing to reserve in memory.
    fn allocate(&self, _: u64) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        let mut state = self.disk.lock();
        state.content(self).map(|content| content.len() as u64).map_err(self.error("measure"))
    }
}

#[cfg(test)]
mod tests;
