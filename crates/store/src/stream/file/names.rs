//! The different subjects of one block, numbered.
//!
//! While a block grows they are numbered as they come and found by hash; in an index that was read from disk they are numbered in the order of
//! their bytes and found by halving.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Slots of one subject in a block, whether or not they are deleted by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub first: u32,
    pub last: u32,
    pub count: u32,
}

#[derive(Debug, Clone)]
enum Lookup {
    Hash(HashTable<u32>, DefaultHashBuilder),
    Sorted,
}

/// Names and where they occur.
#[derive(Debug, Clone)]
pub(super) struct Names {
    bytes: Vec<u8>,
    /// Where each name ends.
    ends: Vec<u32>,
    spans: Vec<Span>,
    lookup: Lookup,
}

fn name_at<'a>(bytes: &'a [u8], ends: &[u32], id: u32) -> &'a [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &bytes[start..ends[id] as usize]
}

/// From names in ascending order, without their spans.
impl<'a> FromIterator<&'a [u8]> for Names {
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(names: T) -> Self {
        let mut all = Self { bytes: Vec::new(), ends: Vec::new(), spans: Vec::new(), lookup: Lookup::Sorted };
        for name in names {
            all.push(name);
        }
        all
    }
}

impl Names {
    /// None yet; more will come.
    pub(super) fn growing() -> Self {
        let lookup = Lookup::Hash(HashTable::new(), DefaultHashBuilder::default());
        Self { bytes: Vec::new(), ends: Vec::new(), spans: Vec::new(), lookup }
    }

    fn push(&mut self, name: &[u8]) -> u32 {
        let id = self.ends.len() as u32;
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len() as u32);
        self.spans.push(Span { first: u32::MAX, last: 0, count: 0 });
        id
    }

    pub(super) fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Are numbers in the order of the names?
    pub(super) fn is_sorted(&self) -> bool {
        matches!(self.lookup, Lookup::Sorted)
    }

    pub(super) fn get(&self, id: u32) -> &[u8] {
        name_at(&self.bytes, &self.ends, id)
    }

    pub(super) fn span(&self, id: u32) -> Span {
        self.spans[id as usize]
    }

    /// Notes that a slot above all earlier ones has this name.
    #[inline]
    pub(super) fn occur(&mut self, id: u32, slot: u32) {
        let span = &mut self.spans[id as usize];
        span.first = span.first.min(slot);
        span.last = slot;
        span.count += 1;
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        match &self.lookup {
            Lookup::Hash(table, hasher) => {
                table.find(hasher.hash_one(name), |id| self.get(*id) == name).copied()
            }
            Lookup::Sorted => {
                let id = self.lower_bound(name);
                (id < self.len() && self.get(id) == name).then_some(id)
            }
        }
    }

    /// Number of a name, a new one if need be.
    pub(super) fn intern(&mut self, name: &[u8]) -> u32 {
        assert!(matches!(self.lookup, Lookup::Hash(..)), "a name for an index that is complete");
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.push(name);
        let Self { bytes, ends, lookup, .. } = self;
        if let Lookup::Hash(table, hasher) = lookup {
            let rehash = |id: &u32| hasher.hash_one(name_at(bytes, ends, *id));
            table.insert_unique(hasher.hash_one(name), id, rehash);
        }
        id
    }

    /// The first of the sorted names that is not below `name`.
    fn lower_bound(&self, name: &[u8]) -> u32 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < name { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Numbers among which every name that starts with `prefix` is. All of them if they are not sorted.
    pub(super) fn starting_with(&self, prefix: &[u8]) -> Range<u32> {
        if matches!(self.lookup, Lookup::Hash(..)) || prefix.is_empty() {
            return 0..self.len();
        }
        let low = self.lower_bound(prefix);
        let (mut end, mut high) = (low, self.len());
        while end < high {
            let middle = end + (high - end) / 2;
            if self.get(middle).starts_with(prefix) { end = middle + 1 } else { high = middle }
        }
        low..end
    }

    /// Numbers in the order of their names.
    pub(super) fn in_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len()).collect();
        if matches!(self.lookup, Lookup::Hash(..)) {
            order.sort_unstable_by(|a, b| self.get(*a).cmp(self.get(*b)));
        }
        order
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        let table = match &self.lookup {
            Lookup::Hash(table, _) => table.capacity() * 5,
            Lookup::Sorted => 0,
        };
        self.bytes.capacity() + self.ends.capacity() * 4 + self.spans.capacity() * size_of::<Span>() + table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_both_forms() {
        let words: Vec<String> = (0..500).map(|number| format!("a{}.b{number}", number % 7)).collect();
        let mut growing = Names::growing();
        for (slot, word) in words.iter().chain(&words).enumerate() {
            let id = growing.intern(word.as_bytes());
            assert_eq!(id as usize, slot % 500);
            growing.occur(id, slot as u32);
        }
        assert_eq!(growing.span(3), Span { first: 3, last: 503, count: 2 });
        let order = growing.in_order();
        let sorted: Names = order.iter().map(|id| growing.get(*id)).collect();
        for word in &words {
            assert_eq!(sorted.find(word.as_bytes()).map(|id| sorted.get(id)), Some(word.as_bytes()));
        }
        assert_eq!((growing.find(b"a"), sorted.find(b"a"), sorted.find(b"z")), (None, None, None));
        for prefix in ["", "a", "a3", "a3.", "b", "A"] {
            let expected = words.iter().filter(|word| word.starts_with(prefix)).count();
            let range = sorted.starting_with(prefix.as_bytes());
            assert_eq!(range.len(), expected, "{prefix}");
            assert!(range.into_iter().all(|id| sorted.get(id).starts_with(prefix.as_bytes())));
        }
    }
}
