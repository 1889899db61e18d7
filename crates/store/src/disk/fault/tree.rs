//! Names of a simulated disk: what programs see, what is on stable storage, and changes of names that lie between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Loss;
use super::random::Random;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Directory,
    File(u64),
}

type Names = BTreeMap<PathBuf, Node>;

/// All names.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    live: Names,
    durable: Names,
    /// In the order in which they were made.
    pending: Vec<Change>,
}

/// Names that change together.
#[derive(Debug, Clone)]
struct Change {
    edits: Vec<(PathBuf, Option<Node>)>,
}

impl Tree {
    pub(super) fn get(&self, path: &Path) -> Option<Node> {
        if is_root(path) { Some(Node::Directory) } else { self.live.get(path).copied() }
    }

    /// Has the path a directory to stand in?
    pub(super) fn has_parent(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.get(parent) == Some(Node::Directory))
    }

    pub(super) fn children(&self, path: &Path) -> Vec<PathBuf> {
        self.live.keys().filter(|child| child.parent() == Some(path)).cloned().collect()
    }

    /// Everything below the path, the deepest last.
    pub(super) fn below(&self, path: &Path) -> Vec<PathBuf> {
        self.live.keys().filter(|other| other.starts_with(path) && *other != path).cloned().collect()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&PathBuf, u64)> {
        self.live.iter().filter_map(|(path, node)| match node {
            Node::File(id) => Some((path, *id)),
            Node::Directory => None,
        })
    }

    /// Changes names in one step, durable once the directory is synced.
    pub(super) fn change(&mut self, edits: Vec<(PathBuf, Option<Node>)>) {
        let change = Change { edits };
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    /// Makes durable what happened in the directory, and the earlier changes of the same names.
    pub(super) fn sync(&mut self, directory: &Path) {
        let mut wanted = BTreeSet::new();
        let mut synced = vec![false; self.pending.len()];
        for (at, change) in self.pending.iter().enumerate().rev() {
            let touches = |path: &Path| path.parent() == Some(directory) || wanted.contains(path);
            if change.edits.iter().any(|(path, _)| touches(path)) {
                synced[at] = true;
                wanted.extend(change.edits.iter().map(|(path, _)| path.clone()));
            }
        }
        for (change, synced) in std::mem::take(&mut self.pending).into_iter().zip(synced) {
            if synced {
                apply(&mut self.durable, &change);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// The power goes. A change survives only with the earlier ones of the same names.
    pub(super) fn crash(&mut self, loss: Loss, random: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        let choice = match loss {
            Loss::Nothing => 0,
            Loss::Everything => 1,
            Loss::Random => random.below(4),
        };
        let kept_max = if choice == 2 { random.below(pending.len() + 1) } else { pending.len() };
        let mut lost = BTreeSet::new();
        for (at, change) in pending.iter().enumerate() {
            let is_kept = match choice {
                0 => true,
                1 => false,
                2 => at < kept_max,
                _ => random.coin(),
            };
            if is_kept && !change.edits.iter().any(|(path, _)| lost.contains(path)) {
                apply(&mut self.durable, change);
            } else {
                lost.extend(change.edits.iter().map(|(path, _)| path.clone()));
            }
        }
        self.drop_orphans();
        self.live.clone_from(&self.durable);
    }

    /// A name goes without a trace.
    pub(super) fn vanish(&mut self, path: &Path) {
        self.live.remove(path);
        self.durable.remove(path);
        for change in &mut self.pending {
            change.edits.retain(|(other, _)| other != path);
        }
    }

    /// Names whose directory did not survive are gone with it. Parents come first in the order of paths.
    fn drop_orphans(&mut self) {
        let mut directories = BTreeSet::new();
        self.durable.retain(|path, node| {
            let keeps = path.parent().is_some_and(|parent| is_root(parent) || directories.contains(parent));
            if keeps && *node == Node::Directory {
                directories.insert(path.clone());
            }
            keeps
        });
    }
}

fn is_root(path: &Path) -> bool {
    path.parent().is_none()
}

fn apply(names: &mut Names, change: &Change) {
    for (path, node) in &change.edits {
        match node {
            Some(node) => {
                names.insert(path.clone(), *node);
            }
            None => {
                if names.remove(path) == Some(Node::Directory) {
                    names.retain(|other, _| !other.starts_with(path));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(tree: &mut Tree, path: &str, id: u64) {
        tree.change(vec![(path.into(), Some(Node::File(id)))]);
    }

    fn rename(tree: &mut Tree, from: &str, to: &str, id: u64) {
        tree.change(vec![(from.into(), None), (to.into(), Some(Node::File(id)))]);
    }

    fn names(tree: &Tree) -> Vec<String> {
        tree.live.iter().map(|(path, node)| format!("{}={node:?}", path.display())).collect()
    }

    #[test]
    fn names_survive_once_their_directory_is_synced() {
        for seed in 0..50 {
            let mut tree = Tree::default();
            tree.change(vec![("/d".into(), Some(Node::Directory))]);
            tree.sync(Path::new("/"));
            create(&mut tree, "/d/a", 1);
            rename(&mut tree, "/d/a", "/d/b", 1);
            tree.sync(Path::new("/d"));
            tree.crash(Loss::Random, &mut Random::new(seed));
            assert_eq!(names(&tree), ["/d=Directory", "/d/b=File(1)"]);
        }
    }

    #[test]
    fn unsynced_names_come_and_go_but_in_order_for_each_name() {
        let mut found: Vec<_> = (0..200)
            .map(|seed| {
                let mut tree = Tree::default();
                create(&mut tree, "/a", 1);
                create(&mut tree, "/b", 2);
                rename(&mut tree, "/a", "/c", 1);
                tree.crash(Loss::Random, &mut Random::new(seed));
                names(&tree)
            })
            .collect();
        found.sort();
        found.dedup();
        let expected: [&[&str]; 6] = [
            &[],
            &["/a=File(1)"],
            &["/a=File(1)", "/b=File(2)"],
            &["/b=File(2)"],
            &["/b=File(2)", "/c=File(1)"],
            &["/c=File(1)"],
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_goes_with_its_directory() {
        let mut tree = Tree::default();
        tree.change(vec![("/d".into(), Some(Node::Directory))]);
        create(&mut tree, "/d/a", 1);
        tree.sync(Path::new("/d"));
        tree.crash(Loss::Everything, &mut Random::new(0));
        assert_eq!(names(&tree), Vec::<String>::new());
    }
}
