//! Subjects in the order of their bytes: groups of leaves of numbers. A search reads a few subjects at most, however many there are.

use super::keys::{Keys, Names};

/// Most subjects in a leaf, and leaves in a group.
const FULL: usize = 128;
/// What shrank to this length joins its neighbour if both fit into three quarters of what is full.
const SPARSE: usize = FULL / 4;

/// Where a subject is, or belongs. One behind the last of a leaf stands for the first of the next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    group: usize,
    leaf: usize,
    slot: usize,
}

/// Leaves next to each other.
#[derive(Debug)]
struct Group {
    /// The first subject of each leaf.
    firsts: Keys,
    leaves: Vec<Keys>,
}

/// The groups. Neither they nor their leaves are ever empty.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The first subject of each group.
    firsts: Keys,
    groups: Vec<Group>,
}

/// The list that a literal is in, if it is in one, by the first subject of each.
fn list_of(firsts: &Keys, literal: &[u8], names: &impl Names) -> usize {
    match firsts.find(literal, names) {
        Ok(at) => at,
        Err(after) => after.saturating_sub(1),
    }
}

impl Order {
    /// The place of a literal, or the place where it belongs.
    pub(super) fn find(&self, literal: &[u8], names: &impl Names) -> Result<Position, Position> {
        let group = list_of(&self.firsts, literal, names);
        let Some(found) = self.groups.get(group) else { return Err(Position::default()) };
        let leaf = list_of(&found.firsts, literal, names);
        let position = |slot| Position { group, leaf, slot };
        found.leaves[leaf].find(literal, names).map(position).map_err(position)
    }

    /// The subjects from a position to the end of their leaf, at least one, and the position after them.
    #[inline]
    pub(super) fn run(&self, position: Position) -> Option<(&[u32], Position)> {
        let Position { group, leaf, slot } = position;
        let found = self.groups.get(group)?;
        let next = if leaf + 1 < found.leaves.len() {
            Position { group, leaf: leaf + 1, slot: 0 }
        } else {
            Position { group: group + 1, leaf: 0, slot: 0 }
        };
        match &found.leaves[leaf].ids()[slot..] {
            [] => self.run(next),
            ids => Some((ids, next)),
        }
    }

    /// Where a subject behind all others belongs.
    pub(super) fn end(&self) -> Position {
        let Some(last) = self.groups.last() else { return Position::default() };
        let (group, leaf) = (self.groups.len() - 1, last.leaves.len() - 1);
        Position { group, leaf, slot: last.leaves[leaf].len() }
    }

    /// The subject at a position.
    pub(super) fn at(&self, position: Position) -> Option<u32> {
        self.run(position).map(|(ids, _)| ids[0])
    }

    /// The subject before a position.
    pub(super) fn before(&self, position: Position) -> Option<u32> {
        let Position { group, leaf, slot } = position;
        let ids = match (slot.checked_sub(1), leaf.checked_sub(1)) {
            (Some(slot), _) => return self.groups.get(group)?.leaves[leaf].ids().get(slot).copied(),
            (None, Some(leaf)) => self.groups.get(group)?.leaves[leaf].ids(),
            (None, None) => self.groups.get(group.checked_sub(1)?)?.leaves.last()?.ids(),
        };
        ids.last().copied()
    }

    /// The subjects that are so many places before and after a position, if its leaf has them.
    pub(super) fn at_distance(&self, position: Position, distance: usize) -> [Option<u32>; 2] {
        let Some(group) = self.groups.get(position.group) else { return [None; 2] };
        let ids = group.leaves[position.leaf].ids();
        let before = position.slot.checked_sub(distance).and_then(|slot| ids.get(slot));
        [before.copied(), ids.get(position.slot + distance).copied()]
    }

    /// The last subject.
    pub(super) fn last(&self) -> Option<u32> {
        self.groups.last()?.leaves.last()?.ids().last().copied()
    }

    /// Puts a subject where [`Order::find`] said that it belongs. Its name is known already.
    pub(super) fn insert(&mut self, position: Position, id: u32, literal: &[u8], names: &impl Names) {
        let Position { group, leaf, slot } = position;
        let Some(found) = self.groups.get_mut(group) else {
            let firsts = Keys::one(id, literal);
            self.groups.push(Group { firsts, leaves: vec![Keys::one(id, literal)] });
            self.firsts = Keys::one(id, literal);
            return;
        };
        found.leaves[leaf].insert(slot, id, literal);
        if slot == 0 {
            found.firsts.replace(leaf, id, names);
            self.firsts.replace(group, found.firsts.ids()[0], names);
        }
        if found.leaves[leaf].len() >= FULL {
            let last = group + 1 == self.groups.len();
            self.split_leaf(group, leaf, last && slot + 1 == FULL, names);
        }
    }

    /// Removes the subject at a position. Its name may be unknown already, those of the others may not.
    pub(super) fn remove(&mut self, position: Position, names: &impl Names) {
        let Position { group, leaf, slot } = position;
        let found = &mut self.groups[group];
        found.leaves[leaf].remove(slot);
        let length = found.leaves[leaf].len();
        if length == 0 {
            found.leaves.remove(leaf);
            found.firsts.remove(leaf);
        } else {
            if slot == 0 {
                found.firsts.replace(leaf, found.leaves[leaf].ids()[0], names);
            }
            if length <= SPARSE {
                found.join_leaf(leaf);
            }
        }
        if found.leaves.is_empty() {
            self.groups.remove(group);
            self.firsts.remove(group);
            return;
        }
        if slot == 0 && leaf == 0 {
            self.firsts.replace(group, self.groups[group].firsts.ids()[0], names);
        }
        if self.groups[group].leaves.len() <= SPARSE {
            self.join_group(group);
        }
    }

    /// Bytes taken from the allocator.
    pub(super) fn memory(&self) -> usize {
        let leaves = |group: &Group| {
            let lists: usize = group.leaves.iter().map(Keys::memory).sum();
            lists + group.leaves.capacity() * size_of::<Keys>() + group.firsts.memory()
        };
        let groups: usize = self.groups.iter().map(leaves).sum();
        groups + self.groups.capacity() * size_of::<Group>() + self.firsts.memory()
    }

    /// Splits a full leaf. Subjects that come `in_order` leave nearly full leaves behind.
    fn split_leaf(&mut self, group: usize, leaf: usize, in_order: bool, names: &impl Names) {
        let found = &mut self.groups[group];
        let in_order = in_order && leaf + 1 == found.leaves.len();
        let cut = if in_order { FULL - 1 } else { FULL / 2 };
        let lower = &mut found.leaves[leaf];
        let mut upper = lower.split_off(cut);
        lower.share_more(names);
        upper.share_more(names);
        let first = upper.ids()[0];
        found.leaves.insert(leaf + 1, upper);
        insert_by_number(&mut found.firsts, leaf + 1, first, names);
        if found.leaves.len() >= FULL {
            let cut = if in_order { FULL - 1 } else { FULL / 2 };
            let mut firsts = found.firsts.split_off(cut);
            found.firsts.share_more(names);
            firsts.share_more(names);
            let first = firsts.ids()[0];
            let mut leaves = Vec::with_capacity(FULL);
            leaves.extend(found.leaves.drain(cut..));
            self.groups.insert(group + 1, Group { firsts, leaves });
            insert_by_number(&mut self.firsts, group + 1, first, names);
        }
    }

    fn join_group(&mut self, group: usize) {
        let length = self.groups[group].leaves.len();
        let fits = |other: &Group| other.leaves.len() + length <= FULL - SPARSE;
        let upper = if group > 0 && fits(&self.groups[group - 1]) {
            group
        } else if self.groups.get(group + 1).is_some_and(fits) {
            group + 1
        } else {
            return;
        };
        let Group { firsts, mut leaves } = self.groups.remove(upper);
        self.firsts.remove(upper);
        let lower = &mut self.groups[upper - 1];
        lower.leaves.append(&mut leaves);
        lower.firsts.join(firsts);
    }
}

impl Group {
    fn join_leaf(&mut self, leaf: usize) {
        let length = self.leaves[leaf].len();
        let fits = |other: &Keys| other.len() + length <= FULL - SPARSE;
        let upper = if leaf > 0 && fits(&self.leaves[leaf - 1]) {
            leaf
        } else if self.leaves.get(leaf + 1).is_some_and(fits) {
            leaf + 1
        } else {
            return;
        };
        let joined = self.leaves.remove(upper);
        self.firsts.remove(upper);
        self.leaves[upper - 1].join(joined);
    }
}

fn insert_by_number(keys: &mut Keys, at: usize, id: u32, names: &impl Names) {
    let mut literal = Vec::new();
    names.name(id).append_to(&mut literal);
    keys.insert(at, id, &literal);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::keys::{Name, Names};
    use super::{FULL, Order, Position, SPARSE};

    struct Written(Vec<String>);

    impl Names for Written {
        fn name(&self, id: u32) -> Name<'_> {
            let (prefix, tail) = self.0[id as usize].as_bytes().split_at(3);
            Name { prefix, tail }
        }
    }

    fn numbers(order: &Order) -> Vec<u32> {
        let mut found = Vec::new();
        let mut position = Position::default();
        while let Some((ids, next)) = order.run(position) {
            assert_eq!(order.at(position), Some(ids[0]));
            assert_eq!(order.before(position), found.last().copied());
            found.extend_from_slice(ids);
            position = next;
        }
        assert_eq!(order.last(), found.last().copied());
        found
    }

    fn insert(order: &mut Order, number: u32, names: &Written) {
        let literal = names.0[number as usize].as_bytes();
        let position = order.find(literal, names).unwrap_err();
        order.insert(position, number, literal, names);
        assert!(order.find(literal, names).is_ok());
    }

    const COUNT: u32 = 40_000;

    #[test]
    fn insert_and_remove_keep_order() {
        // Numbers are in the order of their names.
        let names = Written((0..COUNT).map(|number| format!("key.{:06}.x", number * 7)).collect());
        let (mut order, mut model) = (Order::default(), BTreeSet::new());
        for number in (0..COUNT).map(|at| at * 7919 % COUNT) {
            insert(&mut order, number, &names);
            model.insert(number);
            if number % 1000 == 0 {
                assert!(numbers(&order).iter().eq(&model));
            }
        }
        assert!(order.groups.len() > 2, "{} groups", order.groups.len());
        for number in (0..COUNT).map(|at| at * 7907 % COUNT).filter(|number| number % 16 != 5) {
            let position = order.find(names.0[number as usize].as_bytes(), &names).unwrap();
            order.remove(position, &names);
            model.remove(&number);
            if number % 1000 == 0 {
                assert!(numbers(&order).iter().eq(&model));
            }
        }
        let leaves: usize = order.groups.iter().map(|group| group.leaves.len()).sum();
        assert!(leaves <= model.len() / SPARSE + 1, "{leaves} leaves");
        for number in model {
            let position = order.find(names.0[number as usize].as_bytes(), &names).unwrap();
            order.remove(position, &names);
        }
        assert!(order.groups.is_empty() && order.firsts.len() == 0);
    }

    #[test]
    fn ascending_subjects_fill_leaves() {
        let names = Written((0..COUNT).map(|number| format!("key.{number:05}.x")).collect());
        let mut order = Order::default();
        (0..COUNT).for_each(|number| insert(&mut order, number, &names));
        let leaves: usize = order.groups.iter().map(|group| group.leaves.len()).sum();
        assert!(leaves <= COUNT as usize / (FULL - 1) + 1, "{leaves} leaves");
    }
}
