//! One level of the trie: its children and the values that end there.
//!
//! Most nodes of a large trie hold one value and no child, so the empty forms cost a word each and a hash map
//! exists only from the second literal child on.

use hashbrown::HashMap;

/// Values subscribed at one place: plain ones and those of queue groups.
#[derive(Debug)]
pub(super) struct Leaf<V> {
    pub(super) plain: Vec<V>,
    /// Groups in order of creation; boxed as a whole because almost no node has one.
    #[expect(clippy::box_collection, reason = "8 bytes instead of 24 in every node")]
    groups: Option<Box<Vec<Group<V>>>>,
}

/// Members of one queue group.
#[derive(Debug)]
pub(super) struct Group<V> {
    pub(super) name: Box<[u8]>,
    pub(super) members: Vec<V>,
}

impl<V> Leaf<V> {
    const fn new() -> Self {
        Self { plain: Vec::new(), groups: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.groups.is_none()
    }

    pub(super) fn groups(&self) -> &[Group<V>] {
        match &self.groups {
            Some(groups) => groups,
            None => &[],
        }
    }

    pub(super) fn add(&mut self, queue: Option<&[u8]>, value: V) {
        let Some(name) = queue else { return push_tight(&mut self.plain, value) };
        let groups = self.groups.get_or_insert_default();
        match groups.iter_mut().find(|group| *group.name == *name) {
            Some(group) => push_tight(&mut group.members, value),
            None => push_tight(groups, Group { name: name.into(), members: vec![value] }),
        }
    }

    pub(super) fn take(&mut self, queue: Option<&[u8]>, pred: impl FnMut(&V) -> bool) -> Option<V> {
        let Some(name) = queue else { return take_first(&mut self.plain, pred) };
        let groups = self.groups.as_mut()?;
        let at = groups.iter().position(|group| *group.name == *name)?;
        let taken = take_first(&mut groups[at].members, pred)?;
        if groups[at].members.is_empty() {
            groups.remove(at);
            if groups.is_empty() {
                self.groups = None;
            }
        }
        Some(taken)
    }
}

/// Starts with room for one: a list that never gets a second entry is the common case by far.
fn push_tight<T>(list: &mut Vec<T>, value: T) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
    list.push(value);
}

/// Takes the first match out. The order of the rest has no meaning, so the last one fills the gap.
fn take_first<V>(list: &mut Vec<V>, pred: impl FnMut(&V) -> bool) -> Option<V> {
    let at = list.iter().position(pred)?;
    let taken = list.swap_remove(at);
    if list.len() * 4 <= list.capacity() {
        list.shrink_to(list.len() * 2);
    }
    Some(taken)
}

/// A node of the trie.
#[derive(Debug)]
pub(super) struct Node<V> {
    pub(super) leaf: Leaf<V>,
    pub(super) literals: Literals<V>,
    /// The child under `*`.
    pub(super) one: Option<Box<Self>>,
    /// What is subscribed under `>`; nothing can follow it.
    pub(super) rest: Option<Box<Leaf<V>>>,
}

impl<V> Node<V> {
    pub(super) const fn new() -> Self {
        Self { leaf: Leaf::new(), literals: Literals::None, one: None, rest: None }
    }

    /// Number of edges that leave this node, `>` included.
    pub(super) fn edges(&self) -> usize {
        self.literals.len() + usize::from(self.one.is_some()) + usize::from(self.rest.is_some())
    }

    /// The leaf under `>`, created when absent.
    pub(super) fn rest_or_new(&mut self) -> &mut Leaf<V> {
        self.rest.get_or_insert_with(|| Box::new(Leaf::new()))
    }

    /// Moves all child nodes to `out`, so that a deep trie is dropped without recursion.
    pub(super) fn dismantle(&mut self, out: &mut Vec<Self>) {
        out.extend(self.one.take().map(|node| *node));
        match std::mem::replace(&mut self.literals, Literals::None) {
            Literals::None => {}
            Literals::Single(entry) => out.push(entry.1),
            Literals::Map(map) => out.extend(map.into_values().map(|node| *node)),
        }
    }
}

/// Children under literal tokens.
#[derive(Debug)]
pub(super) enum Literals<V> {
    None,
    Single(Box<(Box<[u8]>, Node<V>)>),
    Map(Box<Map<V>>),
}

/// Nodes are boxed here: the free slots of a map would otherwise cost a whole node each.
type Map<V> = HashMap<Box<[u8]>, Box<Node<V>>>;

impl<V> Literals<V> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Single(_) => 1,
            Self::Map(map) => map.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, token: &[u8]) -> Option<&Node<V>> {
        match self {
            Self::None => None,
            Self::Single(entry) => (*entry.0 == *token).then_some(&entry.1),
            Self::Map(map) => map.get(token).map(|node| &**node),
        }
    }

    pub(super) fn get_mut(&mut self, token: &[u8]) -> Option<&mut Node<V>> {
        match self {
            Self::None => None,
            Self::Single(entry) => (*entry.0 == *token).then_some(&mut entry.1),
            Self::Map(map) => map.get_mut(token).map(|node| &mut **node),
        }
    }

    /// The child under `token`, created when absent.
    pub(super) fn get_or_new(&mut self, token: &[u8]) -> &mut Node<V> {
        if let Self::Single(entry) = self
            && *entry.0 != *token
        {
            self.widen();
        }
        match self {
            Self::Map(map) => map.entry_ref(token).or_insert_with(|| Box::new(Node::new())),
            Self::Single(entry) => &mut entry.1,
            Self::None => {
                *self = Self::Single(Box::new((token.into(), Node::new())));
                let Self::Single(entry) = self else { unreachable!("assigned on the line above") };
                &mut entry.1
            }
        }
    }

    /// Turns the single child into a map of one.
    fn widen(&mut self) {
        let mut map = HashMap::new();
        if let Self::Single(entry) = std::mem::replace(self, Self::None) {
            let (token, node) = *entry;
            map.insert(token, Box::new(node));
        }
        *self = Self::Map(Box::new(map));
    }

    /// Takes the child under `token` out, and narrows the form when few remain.
    pub(super) fn remove(&mut self, token: &[u8]) -> Option<Node<V>> {
        match self {
            Self::None => None,
            Self::Single(entry) if *entry.0 != *token => None,
            Self::Single(_) => match std::mem::replace(self, Self::None) {
                Self::Single(entry) => Some(entry.1),
                Self::None | Self::Map(_) => None,
            },
            Self::Map(map) => {
                let removed = map.remove(token);
                if map.is_empty() {
                    *self = Self::None;
                } else if map.len() * 8 <= map.capacity() {
                    map.shrink_to(map.len() * 2);
                }
                removed.map(|node| *node)
            }
        }
    }

    /// Children ordered by token.
    pub(super) fn sorted(&self) -> Vec<(&[u8], &Node<V>)> {
        match self {
            Self::None => Vec::new(),
            Self::Single(entry) => vec![(&*entry.0, &entry.1)],
            Self::Map(map) => {
                let mut children: Vec<_> = map.iter().map(|(token, node)| (&**token, &**node)).collect();
                children.sort_unstable_by_key(|(token, _)| *token);
                children
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_stays_small() {
        // 100 000 subscriptions to distinct subjects are 100 000 nodes.
        assert!(size_of::<Node<u64>>() <= 64, "{}", size_of::<Node<u64>>());
    }

    #[test]
    fn map_narrows_to_nothing_when_its_children_leave() {
        let mut literals = Literals::<u8>::None;
        for token in [b"a", b"b", b"c"] {
            literals.get_or_new(token);
        }
        assert_eq!(literals.len(), 3);
        for token in [b"b", b"a", b"c"] {
            assert!(literals.remove(token).is_some());
            assert!(literals.remove(token).is_none());
        }
        assert!(matches!(literals, Literals::None));
    }
}
