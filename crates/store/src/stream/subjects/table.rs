//! The records of subjects by number, and a hash table that grows and shrinks by one bucket at a time, so no insertion pays for many.

use super::SubjectState;

/// No subject.
pub(super) const NONE: u32 = u32::MAX;
/// Records and buckets are kept in pieces of this length: growing copies little.
const PIECE_BITS: u32 = 10;
const PIECE: usize = 1 << PIECE_BITS;

/// Buckets that one removal takes away if there are far too many.
const SHRINK: usize = 8;

/// What is known of a subject.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Its messages.
    pub(super) state: SubjectState,
    /// Number of the bytes that it starts with; `NONE` if the number is free.
    pub(super) prefix: u32,
    /// Address of the bytes after that.
    pub(super) tail: u32,
}

/// How a record is found. Apart from the records, so that many of them fit into a processor's caches: a search that ends without a record,
/// and a bucket that is split, read nothing else.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// Hash of the subject's bytes.
    hash: u32,
    /// The next in the same bucket, or the next free number.
    next: u32,
}

/// A list in pieces.
#[derive(Debug)]
struct Pieces<T>(Vec<Vec<T>>);

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pieces<T> {
    fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * PIECE + last.len())
    }

    #[inline]
    fn get(&self, at: usize) -> &T {
        &self.0[at >> PIECE_BITS][at & (PIECE - 1)]
    }

    #[inline]
    fn get_mut(&mut self, at: usize) -> &mut T {
        &mut self.0[at >> PIECE_BITS][at & (PIECE - 1)]
    }

    fn push(&mut self, value: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < PIECE => last.push(value),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(value);
                self.0.push(piece);
            }
            None => self.0.push(vec![value]),
        }
    }

    fn memory(&self) -> usize {
        let pieces: usize = self.0.iter().map(|piece| piece.capacity() * size_of::<T>()).sum();
        pieces + self.0.capacity() * size_of::<Vec<T>>()
    }

    fn pop(&mut self) -> Option<T> {
        let value = self.0.last_mut()?.pop();
        if self.0.last().is_some_and(Vec::is_empty) {
            self.0.pop();
        }
        value
    }
}

/// Records by number and by hash. A number stays with its subject and is used again when the subject is gone.
#[derive(Debug)]
pub(super) struct Table {
    entries: Pieces<Entry>,
    /// By number, as the records.
    links: Pieces<Link>,
    /// First free number.
    free: u32,
    len: usize,
    /// First number of each bucket; as many buckets as subjects, about.
    buckets: Pieces<u32>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: Pieces::default(),
            links: Pieces::default(),
            free: NONE,
            len: 0,
            buckets: Pieces::default(),
        }
    }
}

impl Table {
    /// How many subjects there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The record with a number that is in use.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Entry {
        self.entries.get(number as usize)
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Entry {
        self.entries.get_mut(number as usize)
    }

    #[inline]
    fn link(&self, number: u32) -> Link {
        *self.links.get(number as usize)
    }

    /// The number of the record with this hash that `same` agrees to.
    #[inline]
    pub(super) fn find(&self, hash: u32, same: impl Fn(&Entry) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut number = *self.buckets.get(bucket(hash, self.buckets.len()));
        while number != NONE {
            let link = self.link(number);
            if link.hash == hash && same(self.get(number)) {
                return Some(number);
            }
            number = link.next;
        }
        None
    }

    /// Reads what [`Table::find`] is about to, as far as it is known at once, and tells the tail of the record that it probably finds.
    #[inline]
    pub(super) fn touch(&self, hash: u32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let number = *self.buckets.get(bucket(hash, self.buckets.len()));
        (number != NONE && self.link(number).hash == hash).then(|| self.get(number).tail)
    }

    /// Reads what so many insertions are about to split.
    pub(super) fn touch_growth(&self, insertions: usize) -> u32 {
        let count = self.buckets.len();
        let Some(first) = count.checked_ilog2().map(|bits| count - (1 << bits)) else { return 0 };
        let heads = (first..count.min(first + insertions)).map(|at| *self.buckets.get(at));
        heads.filter(|number| *number != NONE).fold(0, |sum, number| sum ^ self.link(number).hash)
    }

    /// The number that [`Table::insert`] will give.
    pub(super) fn next_number(&self) -> u32 {
        if self.free == NONE { self.entries.len() as u32 } else { self.free }
    }

    /// Adds a record of a subject with this hash.
    pub(super) fn insert(&mut self, entry: Entry, hash: u32) {
        let number = self.next_number();
        assert!(number != NONE, "{NONE} subjects in one stream");
        if self.len >= self.buckets.len() {
            self.grow();
        }
        let head = self.buckets.get_mut(bucket(hash, self.buckets.len()));
        let link = Link { hash, next: std::mem::replace(head, number) };
        if self.free == NONE {
            self.entries.push(entry);
            self.links.push(link);
        } else {
            *self.entries.get_mut(number as usize) = entry;
            self.free = std::mem::replace(self.links.get_mut(number as usize), link).next;
        }
        self.len += 1;
    }

    /// Removes the record with a number that is in use.
    pub(super) fn remove(&mut self, number: u32) -> Entry {
        let entry = *self.get(number);
        let link = self.link(number);
        let at = bucket(link.hash, self.buckets.len());
        let mut before = *self.buckets.get(at);
        if before == number {
            *self.buckets.get_mut(at) = link.next;
        } else {
            while self.link(before).next != number {
                before = self.link(before).next;
            }
            self.links.get_mut(before as usize).next = link.next;
        }
        let next = std::mem::replace(&mut self.free, number);
        self.get_mut(number).prefix = NONE;
        self.links.get_mut(number as usize).next = next;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        }
        for _ in 0..SHRINK {
            if self.len * 4 < self.buckets.len() {
                self.shrink();
            }
        }
        entry
    }

    /// Calls `visit` with each number in use and its counters, by number, until it returns false.
    pub(super) fn for_each(&self, visit: &mut dyn FnMut(u32, SubjectState) -> bool) {
        let mut numbers = 0..;
        let used = |(entry, number): (&Entry, u32)| (entry.prefix != NONE).then_some((number, entry.state));
        let mut entries = self.entries.0.iter().flatten().zip(&mut numbers).filter_map(used);
        entries.all(|(number, state)| visit(number, state));
    }

    /// Bytes taken from the allocator.
    pub(super) fn memory(&self) -> usize {
        self.entries.memory() + self.links.memory() + self.buckets.memory()
    }

    /// Adds a bucket and moves what belongs there from the one bucket that it splits.
    fn grow(&mut self) {
        let new = self.buckets.len();
        self.buckets.push(NONE);
        if new == 0 {
            return;
        }
        let old = new - (1 << new.ilog2());
        let mut number = std::mem::replace(self.buckets.get_mut(old), NONE);
        while number != NONE {
            let Link { hash, next } = self.link(number);
            let head = std::mem::replace(self.buckets.get_mut(bucket(hash, new + 1)), number);
            self.links.get_mut(number as usize).next = head;
            number = next;
        }
    }

    /// Takes the last bucket away and moves what it holds to the one that it had split.
    fn shrink(&mut self) {
        let Some(mut number) = self.buckets.pop() else { return };
        let count = self.buckets.len();
        while number != NONE {
            let Link { hash, next } = self.link(number);
            let head = std::mem::replace(self.buckets.get_mut(bucket(hash, count)), number);
            self.links.get_mut(number as usize).next = head;
            number = next;
        }
    }
}

/// Which of `count` buckets a hash belongs to: as many low bits as give a bucket that exists.
#[inline]
fn bucket(hash: u32, count: usize) -> usize {
    let bits = count.ilog2();
    let wide = hash as usize & ((2 << bits) - 1);
    if wide < count { wide } else { hash as usize & ((1 << bits) - 1) }
}

#[cfg(test)]
mod tests {
    use super::super::SubjectState;
    use super::{Entry, NONE, Table};

    fn entry(key: u32) -> Entry {
        Entry { state: SubjectState { first: 1, last: 1, messages: 1 }, prefix: key, tail: key }
    }

    /// Few bits differ, so that chains are long.
    fn hash(key: u32) -> u32 {
        key.wrapping_mul(0x9e37_79b9) >> 22
    }

    fn find(table: &Table, key: u32) -> Option<u32> {
        table.find(hash(key), |found| found.prefix == key)
    }

    #[test]
    fn every_subject_is_found_while_it_grows_and_shrinks() {
        let mut table = Table::default();
        for key in 0..5000 {
            assert_eq!(find(&table, key), None);
            let number = table.next_number();
            table.insert(entry(key), hash(key));
            assert_eq!(find(&table, key), Some(number));
        }
        for key in (0..5000).filter(|key| key % 8 != 0) {
            let number = find(&table, key).unwrap();
            assert_eq!(table.remove(number).prefix, key);
        }
        assert!(table.buckets.len() <= 4 * 625, "{} buckets", table.buckets.len());
        for key in 0..5000 {
            assert_eq!(find(&table, key).is_some(), key % 8 == 0, "{key}");
        }
        table.insert(entry(5001), hash(5001));
        assert_eq!(table.entries.len(), 5000, "a free number is used again");
        for key in (0..5000).filter(|key| key % 8 == 0).chain([5001]) {
            table.remove(find(&table, key).unwrap());
        }
        assert_eq!((table.len(), table.entries.len(), table.free), (0, 0, NONE));
    }
}
