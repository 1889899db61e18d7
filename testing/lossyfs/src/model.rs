//! The tree: nodes by number, names as programs see them, names on stable storage, and the changes of names between the two.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::time::SystemTime;

use rustix::io::Errno;

use crate::content::{Content, Fate, PAGE};
use crate::random::Random;

/// Number of the directory at the top.
pub(crate) const ROOT: u64 = 1;
/// Files and directories, those included that only a crash could bring back.
const NODES_MAX: usize = 1 << 16;
/// Changes of names that wait for a sync; when there are more, the oldest become durable, as they would in time.
const CHANGES_MAX: usize = 4096;
/// Names taken away after which nodes without any name are looked for.
const SWEEP_AFTER: usize = 64;

type Result<T> = std::result::Result<T, Errno>;
type Names = BTreeMap<OsString, u64>;

#[derive(Debug)]
enum Kind {
    File(Content),
    Directory { now: Names, durable: Names },
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    mode: u16,
    modified: SystemTime,
}

/// One operation on names: each of these directories has this name for this node, or for none, afterwards. It happens as a whole or not.
#[derive(Debug, Clone)]
struct Change {
    names: Vec<(u64, OsString, Option<u64>)>,
    /// The node that it is about.
    node: u64,
}

/// Names and nodes that some changes touch.
#[derive(Default)]
struct Touched {
    names: BTreeSet<(u64, OsString)>,
    nodes: BTreeSet<u64>,
}

/// An open file or directory.
#[derive(Debug)]
struct Handle {
    node: u64,
    /// What a directory held when it was opened.
    listing: Vec<Entry>,
}

/// One entry of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) node: u64,
    pub(crate) is_directory: bool,
}

/// What a program may know of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) node: u64,
    pub(crate) is_directory: bool,
    pub(crate) len: u64,
    pub(crate) pages: u64,
    pub(crate) mode: u16,
    pub(crate) modified: SystemTime,
}

/// What a crash did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crash {
    /// Unsynced changes of names that were lost.
    pub names_lost: usize,
    /// Unsynced changes of names that survived.
    pub names_kept: usize,
    /// Files that went back to their last sync.
    pub files_lost: usize,
    /// Files of whose unsynced bytes some survived.
    pub files_torn: usize,
    /// Files that survived as they were.
    pub files_kept: usize,
}

/// How a whole crash goes.
#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Nothing unsynced survives.
    LoseAll,
    /// All of it does, as when only the process dies.
    KeepAll,
    /// Names up to a point, as a journal keeps them, and files each in its own way.
    Journal,
    /// Names with these odds in percent, and files each in its own way.
    Odds(u64),
}

/// Everything that the file system holds.
#[derive(Debug)]
pub(crate) struct Model {
    nodes: HashMap<u64, Node>,
    next_node: u64,
    changes: Vec<Change>,
    handles: HashMap<u64, Handle>,
    next_handle: u64,
    pages_max: usize,
    taken_away: usize,
    /// A fault: syncs of directories are answered and do nothing.
    pub(crate) forgets_names: bool,
}

impl Model {
    /// An empty one that holds at most so many bytes.
    pub(crate) fn new(capacity: u64) -> Self {
        let nodes = HashMap::from([(ROOT, Node::directory(0o755))]);
        Self {
            nodes,
            next_node: ROOT + 1,
            changes: Vec::new(),
            handles: HashMap::new(),
            next_handle: 1,
            pages_max: usize::try_from(capacity / PAGE as u64).unwrap_or(usize::MAX),
            taken_away: 0,
            forgets_names: false,
        }
    }

    /// Pages that are taken and that there are.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let taken = self.nodes.values().map(|node| match &node.kind {
            Kind::File(content) => content.pages(),
            Kind::Directory { .. } => 0,
        });
        (taken.sum(), self.pages_max)
    }

    fn free(&self) -> usize {
        let (taken, total) = self.usage();
        total.saturating_sub(taken)
    }

    pub(crate) fn attributes(&self, number: u64) -> Result<Attributes> {
        let node = self.node(number)?;
        let (len, pages) = match &node.kind {
            Kind::File(content) => (content.len(), content.pages() as u64),
            Kind::Directory { .. } => (0, 0),
        };
        let is_directory = node.is_directory();
        Ok(Attributes { node: number, is_directory, len, pages, mode: node.mode, modified: node.modified })
    }

    pub(crate) fn lookup(&self, directory: u64, name: &OsStr) -> Result<u64> {
        self.names(directory)?.get(name).copied().ok_or(Errno::NOENT)
    }

    pub(crate) fn create(
        &mut self,
        directory: u64,
        name: &OsStr,
        mode: u16,
        is_directory: bool,
    ) -> Result<u64> {
        if self.names(directory)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(Errno::NOSPC);
        }
        let number = self.next_node;
        self.next_node += 1;
        let node = if is_directory { Node::directory(mode) } else { Node::file(mode) };
        self.nodes.insert(number, node);
        self.change(number, vec![(directory, name.to_owned(), Some(number))]);
        Ok(number)
    }

    /// Takes away the name of a file, or of an empty directory.
    pub(crate) fn remove(&mut self, directory: u64, name: &OsStr, is_directory: bool) -> Result<()> {
        let number = self.lookup(directory, name)?;
        self.check_replaceable(number, is_directory)?;
        self.change(number, vec![(directory, name.to_owned(), None)]);
        Ok(())
    }

    /// Renames, over what is there already.
    pub(crate) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Result<()> {
        let number = self.lookup(from.0, from.1)?;
        match self.lookup(to.0, to.1) {
            Ok(there) if there == number => return Ok(()),
            Ok(there) => self.check_replaceable(there, self.node(number)?.is_directory())?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let names = vec![(from.0, from.1.to_owned(), None), (to.0, to.1.to_owned(), Some(number))];
        self.change(number, names);
        Ok(())
    }

    pub(crate) fn set_mode(&mut self, number: u64, mode: u16) -> Result<()> {
        self.node_mut(number).map(|node| node.mode = mode)
    }

    /// Opens a node. An open one stays although its name is taken away.
    pub(crate) fn open(&mut self, number: u64) -> Result<u64> {
        let listing = match &self.node(number)?.kind {
            Kind::File(_) => Vec::new(),
            Kind::Directory { now, .. } => now
                .iter()
                .map(|(name, node)| Entry {
                    name: name.clone(),
                    node: *node,
                    is_directory: self.nodes.get(node).is_some_and(Node::is_directory),
                })
                .collect(),
        };
        let handle = self.next_handle;
        self.next_handle += 1;
        self.handles.insert(handle, Handle { node: number, listing });
        Ok(handle)
    }

    /// Closes. One that was opened before a crash is closed already.
    pub(crate) fn close(&mut self, handle: u64) {
        self.handles.remove(&handle);
    }

    /// What an open directory held when it was opened.
    pub(crate) fn listing(&self, handle: u64) -> Result<&[Entry]> {
        self.handles.get(&handle).map(|handle| handle.listing.as_slice()).ok_or(Errno::IO)
    }

    pub(crate) fn read(&self, handle: u64, offset: u64, size: usize) -> Result<Vec<u8>> {
        match &self.node(self.opened(handle)?)?.kind {
            Kind::File(content) => Ok(content.read(offset, size)),
            Kind::Directory { .. } => Err(Errno::ISDIR),
        }
    }

    pub(crate) fn write(&mut self, handle: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let number = self.opened(handle)?;
        let needed = bytes.len().div_ceil(PAGE) + 1;
        if needed > self.free() {
            // Files that nobody can reach may still be there.
            self.sweep();
            if needed > self.free() {
                return Err(Errno::NOSPC);
            }
        }
        self.content_mut(number)?.write(offset, bytes);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, number: u64, len: u64) -> Result<()> {
        self.content_mut(number).map(|content| content.set_len(len))
    }

    /// Makes the bytes of a file durable, or the names in a directory.
    pub(crate) fn sync(&mut self, handle: u64) -> Result<()> {
        let number = self.opened(handle)?;
        let forgets_names = self.forgets_names;
        match &mut self.node_mut(number)?.kind {
            Kind::File(content) => content.sync(),
            Kind::Directory { .. } if forgets_names => {}
            Kind::Directory { .. } => self.sync_names(number),
        }
        Ok(())
    }

    /// The loss of power. Whatever was open can be used no more.
    pub(crate) fn crash(&mut self, seed: u64) -> Crash {
        let mut random = Random::new(seed);
        let manner = match random.below(8) {
            0 | 1 => Manner::LoseAll,
            2 => Manner::KeepAll,
            3 | 4 => Manner::Journal,
            _ => Manner::Odds([10, 50, 90][random.below(3) as usize]),
        };
        self.handles.clear();
        let mut crash = Crash::default();
        self.crash_names(manner, &mut random, &mut crash);
        self.crash_files(manner, &mut random, &mut crash);
        self.sweep();
        crash
    }

    fn crash_names(&mut self, manner: Manner, random: &mut Random, crash: &mut Crash) {
        let changes = std::mem::take(&mut self.changes);
        let point = random.below(changes.len() as u64 + 1);
        let mut lost = Touched::default();
        for (place, change) in (0..).zip(changes) {
            let survives = match manner {
                Manner::LoseAll => false,
                Manner::KeepAll => true,
                Manner::Journal => place < point,
                Manner::Odds(percent) => random.chance(percent),
            };
            if survives && !lost.meets(&change) {
                crash.names_kept += 1;
                self.make_durable(change);
            } else {
                crash.names_lost += 1;
                lost.add(&change);
            }
        }
        for node in self.nodes.values_mut() {
            if let Kind::Directory { now, durable } = &mut node.kind {
                now.clone_from(durable);
            }
        }
    }

    fn crash_files(&mut self, manner: Manner, random: &mut Random, crash: &mut Crash) {
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(Node { kind: Kind::File(content), .. }) = self.nodes.get_mut(&number) else { continue };
            if !content.is_unsynced() {
                continue;
            }
            let fate = match (manner, random.below(4)) {
                (Manner::LoseAll, _) | (_, 0) => Fate::Lost,
                (Manner::KeepAll, _) | (_, 1) => Fate::Kept,
                _ => Fate::Torn,
            };
            match fate {
                Fate::Lost => crash.files_lost += 1,
                Fate::Kept => crash.files_kept += 1,
                Fate::Torn => crash.files_torn += 1,
            }
            content.crash(fate, random);
        }
    }

    /// Makes all changes of a directory durable, and what they build on.
    fn sync_names(&mut self, directory: u64) {
        let mut needed = Touched::default();
        let mut durable = Vec::new();
        for change in std::mem::take(&mut self.changes).into_iter().rev() {
            if change.names.iter().any(|(place, ..)| *place == directory) || needed.meets(&change) {
                needed.add(&change);
                durable.push(change);
            } else {
                self.changes.push(change);
            }
        }
        self.changes.reverse();
        for change in durable.into_iter().rev() {
            self.make_durable(change);
        }
    }

    fn make_durable(&mut self, change: Change) {
        for (directory, name, to) in change.names {
            if let Some(Node { kind: Kind::Directory { durable, .. }, .. }) = self.nodes.get_mut(&directory) {
                set(durable, name, to);
            }
        }
    }

    /// Makes a change that programs see at once.
    fn change(&mut self, node: u64, names: Vec<(u64, OsString, Option<u64>)>) {
        for (directory, name, to) in &names {
            self.taken_away += usize::from(to.is_none());
            if let Some(Node { kind: Kind::Directory { now, .. }, modified, .. }) =
                self.nodes.get_mut(directory)
            {
                *modified = SystemTime::now();
                set(now, name.clone(), *to);
            }
        }
        self.changes.push(Change { names, node });
        if self.changes.len() > CHANGES_MAX {
            let oldest = self.changes.remove(0);
            self.make_durable(oldest);
        }
        if self.taken_away >= SWEEP_AFTER {
            self.sweep();
        }
    }

    /// Forgets nodes that nobody can reach, not even after a crash.
    fn sweep(&mut self) {
        self.taken_away = 0;
        let mut found = BTreeSet::new();
        let mut open: Vec<u64> = vec![ROOT];
        open.extend(self.handles.values().map(|handle| handle.node));
        open.extend(self.changes.iter().map(|change| change.node));
        while let Some(number) = open.pop() {
            if !found.insert(number) {
                continue;
            }
            if let Some(Node { kind: Kind::Directory { now, durable }, .. }) = self.nodes.get(&number) {
                open.extend(now.values().chain(durable.values()));
            }
        }
        self.nodes.retain(|number, _| found.contains(number));
    }

    /// Whether a name of this node may be given to a file or directory, or taken away.
    fn check_replaceable(&self, number: u64, by_directory: bool) -> Result<()> {
        match &self.node(number)?.kind {
            Kind::File(_) if by_directory => Err(Errno::NOTDIR),
            Kind::Directory { .. } if !by_directory => Err(Errno::ISDIR),
            Kind::Directory { now, .. } if !now.is_empty() => Err(Errno::NOTEMPTY),
            _ => Ok(()),
        }
    }

    fn opened(&self, handle: u64) -> Result<u64> {
        self.handles.get(&handle).map(|handle| handle.node).ok_or(Errno::IO)
    }

    fn node(&self, number: u64) -> Result<&Node> {
        self.nodes.get(&number).ok_or(Errno::NOENT)
    }

    fn node_mut(&mut self, number: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&number).ok_or(Errno::NOENT)
    }

    fn names(&self, number: u64) -> Result<&Names> {
        match &self.node(number)?.kind {
            Kind::File(_) => Err(Errno::NOTDIR),
            Kind::Directory { now, .. } => Ok(now),
        }
    }

    fn content_mut(&mut self, number: u64) -> Result<&mut Content> {
        let node = self.node_mut(number)?;
        node.modified = SystemTime::now();
        match &mut node.kind {
            Kind::File(content) => Ok(content),
            Kind::Directory { .. } => Err(Errno::ISDIR),
        }
    }
}

impl Node {
    fn file(mode: u16) -> Self {
        Self { kind: Kind::File(Content::default()), mode, modified: SystemTime::now() }
    }

    fn directory(mode: u16) -> Self {
        let kind = Kind::Directory { now: Names::new(), durable: Names::new() };
        Self { kind, mode, modified: SystemTime::now() }
    }

    fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory { .. })
    }
}

impl Touched {
    fn add(&mut self, change: &Change) {
        self.nodes.insert(change.node);
        self.names.extend(change.names.iter().map(|(directory, name, _)| (*directory, name.clone())));
    }

    fn meets(&self, change: &Change) -> bool {
        self.nodes.contains(&change.node)
            || change
                .names
                .iter()
                .any(|(directory, name, _)| self.names.contains(&(*directory, name.clone())))
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { names_lost, names_kept, files_lost, files_torn, files_kept } = self;
        write!(
            f,
            "names {names_lost} lost {names_kept} kept, files {files_lost} lost {files_torn} torn {files_kept} kept"
        )
    }
}

fn set(names: &mut Names, name: OsString, to: Option<u64>) {
    match to {
        Some(node) => names.insert(name, node),
        None => names.remove(&name),
    };
}

#[cfg(test)]
mod tests;
