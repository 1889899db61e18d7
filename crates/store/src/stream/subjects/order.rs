//! Numbers of subjects in the order of the subjects' bytes: a list of leaves, each a sorted list of numbers.

use std::cmp::Ordering;

/// Most numbers in a leaf.
const LEAF: usize = 128;
/// A leaf that shrank to this length joins its neighbour if both fit into three quarters of a leaf.
const SPARSE: usize = LEAF / 4;

/// Where a number is, or belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    leaf: usize,
    slot: usize,
}

/// The leaves. None is empty.
#[derive(Debug, Default)]
pub(super) struct Order {
    leaves: Vec<Vec<u32>>,
}

impl Order {
    /// Looks up by a comparison of the subject with this number to the one looked for: its place, or the place where it belongs.
    pub(super) fn find(&self, compare: impl Fn(u32) -> Ordering) -> Result<Position, Position> {
        let after = self.leaves.partition_point(|leaf| compare(leaf[0]) != Ordering::Greater);
        let Some(leaf) = after.checked_sub(1) else { return Err(Position { leaf: 0, slot: 0 }) };
        match self.leaves[leaf].binary_search_by(|number| compare(*number)) {
            Ok(slot) => Ok(Position { leaf, slot }),
            Err(slot) => Err(Position { leaf, slot }),
        }
    }

    /// The number at a position and the position after it. A position behind the last number of a leaf stands for the first of the next.
    #[inline]
    pub(super) fn at(&self, position: Position) -> Option<(u32, Position)> {
        let Position { leaf, slot } = position;
        let numbers = self.leaves.get(leaf)?;
        if let Some(number) = numbers.get(slot) {
            return Some((*number, Position { leaf, slot: slot + 1 }));
        }
        let number = self.leaves.get(leaf + 1)?[0];
        Some((number, Position { leaf: leaf + 1, slot: 1 }))
    }

    /// The number before a position.
    pub(super) fn before(&self, position: Position) -> Option<u32> {
        let Position { leaf, slot } = position;
        match slot.checked_sub(1) {
            Some(slot) => self.leaves.get(leaf)?.get(slot).copied(),
            None => self.leaves.get(leaf.checked_sub(1)?)?.last().copied(),
        }
    }

    /// The numbers that are so many places before and after a position, if its leaf has them.
    pub(super) fn at_distance(&self, position: Position, distance: usize) -> [Option<u32>; 2] {
        let Some(leaf) = self.leaves.get(position.leaf) else { return [None; 2] };
        let before = position.slot.checked_sub(distance).and_then(|slot| leaf.get(slot));
        [before.copied(), leaf.get(position.slot + distance).copied()]
    }

    /// Bytes taken from the allocator.
    pub(super) fn memory(&self) -> usize {
        let leaves: usize = self.leaves.iter().map(|leaf| leaf.capacity() * size_of::<u32>()).sum();
        leaves + self.leaves.capacity() * size_of::<Vec<u32>>()
    }

    /// Where everything starts.
    pub(super) fn start() -> Position {
        Position { leaf: 0, slot: 0 }
    }

    /// Inserts a number where [`Order::find`] said that it belongs.
    pub(super) fn insert(&mut self, position: Position, number: u32) {
        let Position { leaf, slot } = position;
        if self.leaves.is_empty() {
            self.leaves.push(vec![number]);
            return;
        }
        if self.leaves[leaf].len() < LEAF {
            self.leaves[leaf].insert(slot, number);
            return;
        }
        // Subjects that come in order leave full leaves behind.
        let cut = if slot == LEAF && leaf + 1 == self.leaves.len() { LEAF } else { LEAF / 2 };
        let mut upper = Vec::with_capacity(LEAF);
        upper.extend_from_slice(&self.leaves[leaf][cut..]);
        self.leaves[leaf].truncate(cut);
        if slot >= cut && (slot > cut || cut == LEAF) {
            upper.insert(slot - cut, number);
        } else {
            self.leaves[leaf].insert(slot, number);
        }
        self.leaves.insert(leaf + 1, upper);
    }

    /// Removes the number at a position.
    pub(super) fn remove(&mut self, position: Position) {
        let Position { leaf, slot } = position;
        self.leaves[leaf].remove(slot);
        let length = self.leaves[leaf].len();
        if length == 0 {
            self.leaves.remove(leaf);
        } else if length <= SPARSE {
            self.join(leaf);
        }
    }

    fn join(&mut self, leaf: usize) {
        let length = self.leaves[leaf].len();
        let fits = |other: &Vec<u32>| other.len() + length <= LEAF - SPARSE;
        if leaf > 0 && fits(&self.leaves[leaf - 1]) {
            let upper = self.leaves.remove(leaf);
            self.leaves[leaf - 1].extend_from_slice(&upper);
        } else if self.leaves.get(leaf + 1).is_some_and(fits) {
            let upper = self.leaves.remove(leaf + 1);
            self.leaves[leaf].extend_from_slice(&upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Order, SPARSE};

    fn numbers(order: &Order) -> Vec<u32> {
        let mut found = Vec::new();
        let mut position = Order::start();
        while let Some((number, next)) = order.at(position) {
            found.push(number);
            position = next;
        }
        found
    }

    /// Every number below 65,536 once, scattered.
    fn scattered(number: u32) -> u32 {
        number.wrapping_mul(40_503) & 0xffff
    }

    #[test]
    fn insert_and_remove_keep_order() {
        let (mut order, mut model) = (Order::default(), BTreeSet::new());
        for number in (0..5000).map(scattered) {
            let Err(position) = order.find(|other| other.cmp(&number)) else { panic!("{number} was there") };
            assert_eq!(order.before(position), model.range(..number).next_back().copied());
            order.insert(position, number);
            model.insert(number);
        }
        assert_eq!(numbers(&order), model.iter().copied().collect::<Vec<_>>());
        for number in (0..5000).map(scattered).filter(|number| number % 16 != 0) {
            let Ok(position) = order.find(|other| other.cmp(&number)) else {
                panic!("{number} was not there")
            };
            order.remove(position);
            model.remove(&number);
        }
        assert_eq!(numbers(&order), model.iter().copied().collect::<Vec<_>>());
        assert!(order.leaves.len() <= model.len() / SPARSE + 1, "{} leaves", order.leaves.len());
    }

    #[test]
    fn ascending_numbers_fill_leaves() {
        let mut order = Order::default();
        for number in 0..1280 {
            let Err(position) = order.find(|other| other.cmp(&number)) else { panic!("{number} was there") };
            order.insert(position, number);
        }
        assert_eq!(order.leaves.len(), 10);
    }
}
