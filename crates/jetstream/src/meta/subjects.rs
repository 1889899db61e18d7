//! The subjects of an account's streams as a tree of tokens, so that the question whether a new stream's subjects overlap with those of
//! others does not look at each of them.

use std::collections::{BTreeMap, BTreeSet};

/// Number of a node.
type Node = u32;

const ROOT: Node = 0;

/// Subjects, each with the group of the stream that stores it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Subjects {
    /// By node and token.
    edges: BTreeMap<(Node, Box<str>), Node>,
    /// Groups of the subjects that end at a node.
    ends: BTreeSet<(Node, u64)>,
    /// Highest number of a node so far, and lower ones that are free.
    highest: Node,
    free: Vec<Node>,
}

impl Subjects {
    /// Adds a subject of a stream.
    pub(super) fn insert(&mut self, subject: &str, group: u64) {
        let mut node = ROOT;
        for token in subject.split('.') {
            node = match self.edges.get(&(node, token.into())) {
                Some(next) => *next,
                None => {
                    let next = self.free.pop().unwrap_or(self.highest + 1);
                    self.highest = self.highest.max(next);
                    self.edges.insert((node, token.into()), next);
                    next
                }
            };
        }
        self.ends.insert((node, group));
    }

    /// Removes a subject of a stream.
    pub(super) fn remove(&mut self, subject: &str, group: u64) {
        let mut path = Vec::new();
        let mut node = ROOT;
        for token in subject.split('.') {
            let edge = (node, Box::from(token));
            let Some(next) = self.edges.get(&edge) else { return };
            node = *next;
            path.push((edge, node));
        }
        self.ends.remove(&(node, group));
        for (edge, node) in path.into_iter().rev() {
            if self.children(node).next().is_some() || self.ends_of(node).next().is_some() {
                return;
            }
            self.edges.remove(&edge);
            self.free.push(node);
        }
    }

    /// Is some subject matched by this pattern and by one of a stream other than `except`? Both are valid.
    pub(super) fn overlaps(&self, pattern: &str, except: Option<u64>) -> bool {
        let tokens: Vec<&str> = pattern.split('.').collect();
        let is_held = |node| self.ends_of(node).any(|group| Some(group) != except);
        let mut open = vec![(ROOT, 0)];
        while let Some((node, at)) = open.pop() {
            let Some(token) = tokens.get(at) else {
                if is_held(node) {
                    return true;
                }
                continue;
            };
            // Theirs matches whatever is left of ours, which is at least a token.
            if self.child(node, ">").is_some_and(is_held) {
                return true;
            }
            match *token {
                ">" => {
                    for child in self.children(node) {
                        if is_held(child) {
                            return true;
                        }
                        open.push((child, at));
                    }
                }
                "*" => open.extend(self.children(node).map(|child| (child, at + 1))),
                literal => {
                    let fitting = [self.child(node, literal), self.child(node, "*")];
                    open.extend(fitting.into_iter().flatten().map(|child| (child, at + 1)));
                }
            }
        }
        false
    }

    fn child(&self, node: Node, token: &str) -> Option<Node> {
        self.edges.get(&(node, token.into())).copied()
    }

    fn children(&self, node: Node) -> impl Iterator<Item = Node> {
        self.edges.range((node, Box::default())..(node + 1, Box::default())).map(|(_, child)| *child)
    }

    fn ends_of(&self, node: Node) -> impl Iterator<Item = u64> {
        self.ends.range((node, 0)..=(node, u64::MAX)).map(|(_, group)| *group)
    }
}

#[cfg(test)]
mod tests {
    use super::Subjects;

    /// All patterns of up to three tokens of these.
    fn patterns() -> Vec<String> {
        let mut patterns: Vec<String> = vec![String::new()];
        let mut all = Vec::new();
        for _ in 0..3 {
            patterns = patterns
                .iter()
                .filter(|start| !start.ends_with('>'))
                .flat_map(|start| ["a", "b", "*", ">"].map(|token| format!("{start}.{token}")))
                .collect();
            all.extend(patterns.iter().map(|pattern| pattern[1..].to_owned()));
        }
        all
    }

    #[test]
    fn any_two_patterns_overlap_as_the_subject_language_says() {
        for theirs in patterns() {
            let mut subjects = Subjects::default();
            subjects.insert(&theirs, 7);
            for own in patterns() {
                let expected = subject::overlaps(own.as_bytes(), theirs.as_bytes());
                assert_eq!(subjects.overlaps(&own, None), expected, "{own} and {theirs}");
                assert!(!subjects.overlaps(&own, Some(7)), "{own} and {theirs} of the same stream");
            }
        }
    }

    #[test]
    fn one_among_many_is_found_and_nothing_stays_of_what_was_removed() {
        let mut subjects = Subjects::default();
        let all = patterns();
        for (group, pattern) in (0..).zip(&all) {
            subjects.insert(pattern, group);
        }
        for (group, pattern) in (0..).zip(&all) {
            subjects.remove(pattern, group);
            let left = &all[group as usize + 1..];
            let expected = left.iter().any(|other| subject::overlaps(b"a.b", other.as_bytes()));
            assert_eq!(subjects.overlaps("a.b", None), expected, "without {pattern}");
        }
        assert!(subjects.edges.is_empty() && subjects.ends.is_empty());
        assert_eq!(subjects.free.len(), subjects.highest as usize);
    }
}
