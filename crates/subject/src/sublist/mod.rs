//! The subscription trie: which values are subscribed to a subject.
//!
//! One level per token; literal children in a map, `*` and `>` beside it. Invariants: every node but the root
//! leads to at least one value, and `len` is the number of values.

mod node;
#[cfg(test)]
mod tests;

use crate::subject::{ONE, REST, SEPARATOR, has_empty_token, is_valid, token_count, tokens};
use node::{Leaf, Node};

/// Most tokens of a subscribed subject. Default control lines hold fewer, and the bound keeps the recursion
/// of a match, which is as deep as the trie at worst, within a small stack.
pub const SUBSCRIPTION_TOKENS_MAX: usize = 2048;

/// The subject cannot be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid subject")]
pub struct InvalidSubject;

/// Receives what a subject matches.
pub trait Visitor<'a, V> {
    /// Plain values of one pattern.
    fn plain(&mut self, values: &'a [V]);
    /// Members of the queue group `name` of one pattern. The same name comes again from another pattern.
    fn queue(&mut self, name: &'a [u8], values: &'a [V]);
}

/// Counters since creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Values inserted.
    pub inserts: u64,
    /// Values removed.
    pub removes: u64,
    /// Values held now.
    pub len: usize,
}

/// Values by the pattern they are subscribed to.
#[derive(Debug)]
pub struct Sublist<V> {
    root: Node<V>,
    stats: Stats,
}

impl<V> Default for Sublist<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> Sublist<V> {
    /// An empty list.
    pub const fn new() -> Self {
        Self { root: Node::new(), stats: Stats { inserts: 0, removes: 0, len: 0 } }
    }

    /// Values held.
    pub const fn len(&self) -> usize {
        self.stats.len
    }

    /// Whether no value is held.
    pub const fn is_empty(&self) -> bool {
        self.stats.len == 0
    }

    /// Changes with every insert and remove: what was matched under another generation may be stale.
    pub const fn generation(&self) -> u64 {
        self.stats.inserts + self.stats.removes
    }

    /// Counters since creation.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Adds `value` under `subject`, in the queue group `queue` if there is one. Equal values are kept apart.
    pub fn insert(&mut self, subject: &[u8], queue: Option<&[u8]>, value: V) -> Result<(), InvalidSubject> {
        if !is_valid(subject) || token_count(subject) > SUBSCRIPTION_TOKENS_MAX {
            return Err(InvalidSubject);
        }
        let mut node = &mut self.root;
        let mut rest = false;
        for token in tokens(subject) {
            if token == REST {
                rest = true;
            } else if token == ONE {
                node = node.one.get_or_insert_with(|| Box::new(Node::new()));
            } else {
                node = node.literals.get_or_new(token);
            }
        }
        let leaf = if rest { node.rest_or_new() } else { &mut node.leaf };
        leaf.add(queue, value);
        self.stats.inserts += 1;
        self.stats.len += 1;
        Ok(())
    }

    /// Takes out the first value under exactly this `subject` and `queue` for which `pred` holds.
    pub fn remove(
        &mut self,
        subject: &[u8],
        queue: Option<&[u8]>,
        pred: impl FnMut(&V) -> bool,
    ) -> Option<V> {
        if !is_valid(subject) {
            return None;
        }
        let mut node = &mut self.root;
        // Depth of the last node on the way that leads elsewhere too: an emptied path is cut below it.
        let mut cut = 0;
        let mut rest = false;
        for (depth, token) in tokens(subject).enumerate() {
            if node.edges() > 1 || !node.leaf.is_empty() {
                cut = depth;
            }
            if token == REST {
                rest = true;
            } else {
                node = if token == ONE { node.one.as_mut()? } else { node.literals.get_mut(token)? };
            }
        }
        let leaf = if rest { node.rest.as_mut()? } else { &mut node.leaf };
        let taken = leaf.take(queue, pred)?;
        if leaf.is_empty() && (rest || node.edges() == 0) {
            self.prune(subject, cut);
        }
        self.stats.removes += 1;
        self.stats.len -= 1;
        Some(taken)
    }

    /// Removes the edge that leaves the node at depth `cut` on the path of `subject`.
    fn prune(&mut self, subject: &[u8], cut: usize) {
        let mut node = &mut self.root;
        let mut removed = None;
        for (depth, token) in tokens(subject).enumerate() {
            if depth == cut {
                if token == REST {
                    node.rest = None;
                } else if token == ONE {
                    removed = node.one.take().map(|child| *child);
                } else {
                    removed = node.literals.remove(token);
                }
                break;
            }
            let next = if token == ONE { node.one.as_deref_mut() } else { node.literals.get_mut(token) };
            let Some(next) = next else { return };
            node = next;
        }
        if let Some(removed) = removed {
            drop_flat(removed);
        }
    }

    /// Shows `visitor` everything that `literal` matches. Wildcard tokens in it are ordinary tokens.
    pub fn matching<'a>(&'a self, literal: &[u8], visitor: &mut impl Visitor<'a, V>) {
        if self.is_empty() || has_empty_token(literal) {
            return;
        }
        walk(&self.root, literal, &mut |leaf| {
            if !leaf.plain.is_empty() {
                visitor.plain(&leaf.plain);
            }
            for group in leaf.groups() {
                visitor.queue(&group.name, &group.members);
            }
            false
        });
    }

    /// Whether `literal` matches anything.
    pub fn has_match(&self, literal: &[u8]) -> bool {
        !self.is_empty() && !has_empty_token(literal) && walk(&self.root, literal, &mut |_| true)
    }

    /// Shows every value with its subject and queue group: literal tokens in byte order, then `*`, then `>`.
    pub fn for_each(&self, mut f: impl FnMut(&[u8], Option<&[u8]>, &V)) {
        let mut subject = Vec::new();
        // A step is a node, the length of the path above it, and its own token.
        let mut steps: Vec<(Step<'_, V>, usize, &[u8])> = vec![(Step::Node(&self.root), 0, b"")];
        while let Some((step, above, token)) = steps.pop() {
            subject.truncate(above);
            if !token.is_empty() {
                if above > 0 {
                    subject.push(SEPARATOR);
                }
                subject.extend_from_slice(token);
            }
            let node = match step {
                Step::Rest(leaf) => {
                    show(leaf, &subject, &mut f);
                    continue;
                }
                Step::Node(node) => node,
            };
            show(&node.leaf, &subject, &mut f);
            let above = subject.len();
            // The stack is read from its end, hence the reverse order.
            steps.extend(node.rest.as_deref().map(|leaf| (Step::Rest(leaf), above, REST)));
            steps.extend(node.one.as_deref().map(|child| (Step::Node(child), above, ONE)));
            steps.extend(
                node.literals
                    .sorted()
                    .into_iter()
                    .rev()
                    .map(|(token, child)| (Step::Node(child), above, token)),
            );
        }
    }
}

impl<V> Drop for Sublist<V> {
    fn drop(&mut self) {
        drop_flat(std::mem::replace(&mut self.root, Node::new()));
    }
}

enum Step<'a, V> {
    Node(&'a Node<V>),
    Rest(&'a Leaf<V>),
}

/// Shows every value of one leaf.
fn show<V>(leaf: &Leaf<V>, subject: &[u8], f: &mut impl FnMut(&[u8], Option<&[u8]>, &V)) {
    for value in &leaf.plain {
        f(subject, None, value);
    }
    for group in leaf.groups() {
        for value in &group.members {
            f(subject, Some(&group.name), value);
        }
    }
}

/// Drops a subtree with a list instead of the stack, whatever its depth.
fn drop_flat<V>(node: Node<V>) {
    let mut nodes = vec![node];
    while let Some(mut node) = nodes.pop() {
        node.dismantle(&mut nodes);
    }
}

/// Calls `found` with every non-empty leaf that `literal` reaches until it answers true; says whether it did.
///
/// Only a node that has both a fitting literal child and a `*` child costs a level of recursion.
fn walk<'a, V>(
    mut node: &'a Node<V>,
    mut literal: &[u8],
    found: &mut impl FnMut(&'a Leaf<V>) -> bool,
) -> bool {
    loop {
        if let Some(rest) = &node.rest
            && found(rest)
        {
            return true;
        }
        let (token, remaining) = match memchr::memchr(SEPARATOR, literal) {
            Some(at) => (&literal[..at], Some(&literal[at + 1..])),
            None => (literal, None),
        };
        let (exact, one) = (node.literals.get(token), node.one.as_deref());
        let Some(remaining) = remaining else {
            return [exact, one].into_iter().flatten().any(|end| !end.leaf.is_empty() && found(&end.leaf));
        };
        node = match (exact, one) {
            (None, None) => return false,
            (Some(next), None) | (None, Some(next)) => next,
            (Some(exact), Some(one)) => {
                if walk(one, remaining, found) {
                    return true;
                }
                exact
            }
        };
        literal = remaining;
    }
}
