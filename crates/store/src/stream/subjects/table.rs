//! The records of subjects by number, and a hash table that grows and shrinks by a few buckets at a time, so no insertion pays for many.

use super::SubjectState;

/// No subject.
pub(super) const NONE: u32 = u32::MAX;
/// Records and buckets are kept in pieces of this length: growing copies little.
const PIECE_BITS: u32 = 10;
const PIECE: usize = 1 << PIECE_BITS;

/// Buckets that are added together: what they split is waited for once.
const GROW: usize = 16;
/// Buckets that one removal takes away if there are far too many.
const SHRINK: usize = 8;

/// Mark in [`Entry::place`] of a subject whose counters are listed.
const LISTED: u32 = 1 << 31;
/// Numbers of prefixes are below this.
pub(super) const MAX_PREFIXES: u32 = LISTED - 1;

/// What is known of a subject. Most subjects of streams with very many have one message, so its sequence is all that there is room for; the
/// counters of the others are listed elsewhere.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Sequence of its one message, or the place of its counters in the list.
    value: u64,
    /// Number of the bytes that it starts with, and whether the counters are listed; `NONE` if the number is free.
    place: u32,
    /// Address of the bytes after that.
    tail: u32,
}

/// Where the bytes of a subject are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Number of the bytes that it starts with.
    pub(super) prefix: u32,
    /// Address of the bytes after that.
    pub(super) tail: u32,
}

impl Entry {
    #[inline]
    fn spelling(&self) -> Spelling {
        Spelling { prefix: self.place & !LISTED, tail: self.tail }
    }

    fn is_free(&self) -> bool {
        self.place == NONE
    }
}

/// The sequence, if it says all about a subject.
#[inline]
fn alone(state: &SubjectState) -> Option<u64> {
    (state.messages == 1 && state.first == state.last).then_some(state.first)
}

/// Counters of the subjects for which a sequence does not say all.
#[derive(Debug)]
struct Listed {
    states: Pieces<SubjectState>,
    /// First free place; each names the next by `first`.
    free: u64,
    used: usize,
}

impl Default for Listed {
    fn default() -> Self {
        Self { states: Pieces::default(), free: u64::MAX, used: 0 }
    }
}

impl Listed {
    #[inline]
    fn add(&mut self, state: SubjectState) -> u64 {
        self.used += 1;
        if self.free == u64::MAX {
            self.states.push(state);
            return self.states.len() as u64 - 1;
        }
        let place = self.free;
        self.free = std::mem::replace(self.states.get_mut(place as usize), state).first;
        place
    }

    #[inline]
    fn remove(&mut self, place: u64) {
        self.states.get_mut(place as usize).first = std::mem::replace(&mut self.free, place);
        self.used -= 1;
        // A subject whose messages take turns comes back at once: what it needs stays.
        if self.used == 0 && self.states.len() > PIECE {
            *self = Self::default();
        }
    }
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
    listed: Listed,
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
            listed: Listed::default(),
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

    /// Is the number that of a subject?
    #[inline]
    pub(super) fn is_used(&self, number: u32) -> bool {
        let number = number as usize;
        number < self.entries.len() && !self.entries.get(number).is_free()
    }

    /// Where the bytes of a subject are. Here and below, the number must be in use.
    #[inline]
    pub(super) fn spelling(&self, number: u32) -> Spelling {
        self.entries.get(number as usize).spelling()
    }

    /// The bytes after the prefix have moved.
    pub(super) fn set_tail(&mut self, number: u32, tail: u32) {
        self.entries.get_mut(number as usize).tail = tail;
    }

    /// The counters of a subject.
    #[inline]
    pub(super) fn state(&self, number: u32) -> SubjectState {
        self.state_of(self.entries.get(number as usize))
    }

    #[inline]
    fn state_of(&self, entry: &Entry) -> SubjectState {
        if entry.place & LISTED == 0 {
            return SubjectState { first: entry.value, last: entry.value, messages: 1 };
        }
        *self.listed.states.get(entry.value as usize)
    }

    /// Changes the counters of a subject.
    #[inline]
    pub(super) fn set_state(&mut self, number: u32, state: SubjectState) {
        let entry = self.entries.get_mut(number as usize);
        match (entry.place & LISTED != 0, alone(&state)) {
            (false, Some(sequence)) => entry.value = sequence,
            (false, None) => {
                entry.value = self.listed.add(state);
                entry.place |= LISTED;
            }
            (true, Some(sequence)) => {
                self.listed.remove(entry.value);
                entry.value = sequence;
                entry.place &= !LISTED;
            }
            (true, None) => *self.listed.states.get_mut(entry.value as usize) = state,
        }
    }

    #[inline]
    fn link(&self, number: u32) -> Link {
        *self.links.get(number as usize)
    }

    /// The number of the record with this hash that `same` agrees to.
    #[inline]
    pub(super) fn find(&self, hash: u32, same: impl Fn(Spelling) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut number = *self.buckets.get(bucket(hash, self.buckets.len()));
        while number != NONE {
            let link = self.link(number);
            if link.hash == hash && same(self.spelling(number)) {
                return Some(number);
            }
            number = link.next;
        }
        None
    }

    /// Reads what [`Table::find`] is about to, as far as it is known at once, and tells the number that it probably finds.
    #[inline]
    pub(super) fn touch(&self, hash: u32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut number = *self.buckets.get(bucket(hash, self.buckets.len()));
        while number != NONE {
            let link = self.link(number);
            if link.hash == hash {
                return Some(number);
            }
            number = link.next;
        }
        None
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
    pub(super) fn insert(&mut self, spelling: Spelling, state: SubjectState, hash: u32) {
        let number = self.next_number();
        assert!(number != NONE, "{NONE} subjects in one stream");
        if self.len >= self.buckets.len() {
            (0..self.len.clamp(1, GROW)).for_each(|_| self.grow());
        }
        let head = self.buckets.get_mut(bucket(hash, self.buckets.len()));
        let link = Link { hash, next: std::mem::replace(head, number) };
        let Spelling { prefix, tail } = spelling;
        let (value, place) = match alone(&state) {
            Some(sequence) => (sequence, prefix),
            None => (self.listed.add(state), prefix | LISTED),
        };
        let entry = Entry { value, place, tail };
        if self.free == NONE {
            self.entries.push(entry);
            self.links.push(link);
        } else {
            *self.entries.get_mut(number as usize) = entry;
            self.free = std::mem::replace(self.links.get_mut(number as usize), link).next;
        }
        self.len += 1;
    }

    /// Removes a record and tells what it was.
    pub(super) fn remove(&mut self, number: u32) -> (Spelling, SubjectState) {
        let entry = *self.entries.get(number as usize);
        let state = self.state_of(&entry);
        if entry.place & LISTED != 0 {
            self.listed.remove(entry.value);
        }
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
        self.entries.get_mut(number as usize).place = NONE;
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
        (entry.spelling(), state)
    }

    /// Calls `visit` with each number in use and its counters, by number, until it returns false.
    pub(super) fn for_each(&self, visit: &mut dyn FnMut(u32, SubjectState) -> bool) {
        let mut numbers = 0..;
        let mut used =
            self.entries.0.iter().flatten().zip(&mut numbers).filter(|(entry, _)| !entry.is_free());
        used.all(|(entry, number)| visit(number, self.state_of(entry)));
    }

    /// Bytes taken from the allocator.
    pub(super) fn memory(&self) -> usize {
        self.entries.memory() + self.links.memory() + self.listed.states.memory() + self.buckets.memory()
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
    use super::{NONE, PIECE, Spelling, Table};

    const ONE: SubjectState = SubjectState { first: 1, last: 1, messages: 1 };

    fn spelling(key: u32) -> Spelling {
        Spelling { prefix: key, tail: key }
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
            table.insert(spelling(key), ONE, hash(key));
            assert_eq!(find(&table, key), Some(number));
        }
        for key in (0..5000).filter(|key| key % 8 != 0) {
            let number = find(&table, key).unwrap();
            assert_eq!(table.remove(number), (spelling(key), ONE));
        }
        assert!(table.buckets.len() <= 4 * 625, "{} buckets", table.buckets.len());
        for key in 0..5000 {
            assert_eq!(find(&table, key).is_some(), key % 8 == 0, "{key}");
        }
        table.insert(spelling(5001), ONE, hash(5001));
        assert_eq!(table.entries.len(), 5000, "a free number is used again");
        for key in (0..5000).filter(|key| key % 8 == 0).chain([5001]) {
            table.remove(find(&table, key).unwrap());
        }
        assert_eq!((table.len(), table.entries.len(), table.free), (0, 0, NONE));
    }

    #[test]
    fn counters_are_what_was_set_whether_listed_or_not() {
        // One, several, and one of which neither first nor last is known exactly.
        let kinds = [(7, 7, 1), (7, 9, 2), (7, 9, 1), (u64::MAX, u64::MAX, 1), (0, u64::MAX, u64::MAX)];
        let kinds = kinds.map(|(first, last, messages)| SubjectState { first, last, messages });
        let mut table = Table::default();
        let state = |key: u32, round: u32| kinds[(key * 31 + round) as usize % kinds.len()];
        let keys = 0..4 * PIECE as u32;
        keys.clone().for_each(|key| table.insert(spelling(key), state(key, 0), hash(key)));
        for round in 0..10 {
            for key in keys.clone() {
                assert_eq!((table.state(key), table.spelling(key)), (state(key, round), spelling(key)));
                table.set_state(key, state(key, round + 1));
            }
        }
        for key in keys.clone() {
            table.set_state(key, if key == 0 { kinds[1] } else { ONE });
        }
        assert_eq!(table.listed.used, 1, "a place is free again once one sequence says all");
        assert!(table.listed.states.len() < keys.len(), "free places are used again");
        table.set_state(0, ONE);
        assert_eq!(table.listed.states.len(), 0, "and a long list that nobody needs is gone");
        table.set_state(1, kinds[1]);
        assert_eq!(table.remove(1), (spelling(1), kinds[1]));
        assert_eq!(table.listed.used, 0);
    }
}
