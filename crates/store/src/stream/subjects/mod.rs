//! The subjects of a stream: from a literal to its counters in about three reads of memory, and in order of the bytes for filters.
//!
//! A subject costs about 45 bytes beside its own: a record of 16 bytes and its link of eight, a bucket of four, a place in the order of
//! eight (plus what is empty), and the head of its bytes; and 24 more while it has several messages. Neighbours that start with the same tokens
//! share them.
//!
//! The index keeps what it is told and knows no messages. When a message goes, the store that uses the index finds the subject's
//! new `first` and `last` and writes them; it may do so when it needs them, and tells then by a mark of its own that they are old.

mod keys;
mod order;
mod select;
mod table;
mod tails;

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use self::keys::{Name, Names};
use self::order::{Order, Position};
use self::table::{MAX_PREFIXES, Spelling, Table};
use self::tails::{Tails, for_each_record};
use super::SubjectState;

/// Tokens become a prefix if that saves at least so many bytes over a prefix that is there.
const MIN_SHARED: usize = 8;
/// And if even the subject so many places away has them, so that they pay for themselves.
const DISTANCE: usize = 8;

/// An index of fewer subjects is in the processor's caches anyway.
const EXPECT_MIN: usize = 4096;

/// Bytes that several subjects start with.
#[derive(Debug, Default)]
struct Prefix {
    bytes: Box<[u8]>,
    users: u32,
}

/// The bytes of each subject.
struct Known<'a> {
    table: &'a Table,
    tails: &'a Tails,
    prefixes: &'a [Prefix],
}

impl Names for Known<'_> {
    #[inline]
    fn name(&self, id: SubjectId) -> Name<'_> {
        name_of(self.table.spelling(id), self.tails, self.prefixes)
    }
}

#[inline]
fn name_of<'a>(spelling: Spelling, tails: &'a Tails, prefixes: &'a [Prefix]) -> Name<'a> {
    Name { prefix: &prefixes[spelling.prefix as usize].bytes, tail: tails.get(spelling.tail) }
}

/// Number of a subject, from 0, small. It stays while the subject is in the index; afterwards another may get it.
pub type SubjectId = u32;

/// Subjects and the counters of each.
#[derive(Debug, Default)]
pub struct SubjectIndex {
    hasher: DefaultHashBuilder,
    table: Table,
    order: Order,
    tails: Tails,
    /// By number. Number 0 is empty and always there once something is.
    prefixes: Vec<Prefix>,
    free_prefixes: Vec<u32>,
}

impl SubjectIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many subjects it holds.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of a literal subject, if it is there.
    #[inline]
    pub fn id(&self, literal: &[u8]) -> Option<SubjectId> {
        self.find(self.hash(literal), literal)
    }

    /// The number of a literal subject, if that is the one behind another number, as it is of subjects that were added in order. Cheaper than
    /// [`Self::id`], and says nothing about a subject elsewhere.
    #[inline]
    pub fn id_behind(&self, id: SubjectId, literal: &[u8]) -> Option<SubjectId> {
        let next = id + 1;
        self.table
            .is_used(next)
            .then_some(next)
            .filter(|next| self.is_spelt(self.table.spelling(*next), literal))
    }

    /// The counters of a literal subject, if it is there.
    #[inline]
    pub fn get(&self, literal: &[u8]) -> Option<SubjectState> {
        self.id(literal).map(|id| self.table.state(id))
    }

    /// The counters of a subject by number. The number must be in use.
    #[inline]
    pub fn state(&self, id: SubjectId) -> SubjectState {
        self.table.state(id)
    }

    /// Changes the counters of a subject by number. The number must be in use.
    #[inline]
    pub fn set_state(&mut self, id: SubjectId, state: SubjectState) {
        self.table.set_state(id, state);
    }

    /// Calls `visit` with each subject, in no order that matters, until it returns false. Faster than in order.
    pub fn for_each_unordered(&self, visit: &mut dyn FnMut(SubjectId, SubjectState) -> bool) {
        self.table.for_each(visit);
    }

    /// Appends the bytes of a subject by number. The number must be in use.
    pub fn append_bytes(&self, id: SubjectId, to: &mut Vec<u8>) {
        self.name(id).append_to(to);
    }

    /// Counts one more message, newer than all others of its subject. Tells the number and what the counters were, if the subject was there.
    #[inline]
    pub fn append(&mut self, literal: &[u8], sequence: u64) -> (SubjectId, Option<SubjectState>) {
        let hash = self.hash(literal);
        let Some(id) = self.find(hash, literal) else {
            let state = SubjectState { first: sequence, last: sequence, messages: 1 };
            return (self.insert(hash, literal, state), None);
        };
        let before = self.table.state(id);
        let after = SubjectState { last: sequence, messages: before.messages + 1, ..before };
        self.table.set_state(id, after);
        (id, Some(before))
    }

    /// Reads what is needed to find subjects that are about to be asked for or added one by one: waiting for memory once for all is much faster
    /// than once for each. Useful for some tens of them.
    pub fn expect<'a>(&self, literals: impl Iterator<Item = &'a [u8]>) {
        if self.len() < EXPECT_MIN {
            return;
        }
        let mut new = 0;
        let found = literals.fold(0, |sum, literal| {
            let Some(id) = self.table.touch(self.hash(literal)) else {
                new += 1;
                return sum;
            };
            let tail = self.tails.touch(self.table.spelling(id).tail);
            sum ^ u64::from(tail) ^ self.table.state(id).messages
        });
        std::hint::black_box((found, self.table.touch_growth(new)));
    }

    /// Adds a subject that is behind all others in order of the bytes, and tells its number; nothing if it is not. Cheaper than [`Self::set`], and
    /// says nothing about a subject elsewhere.
    pub fn push(&mut self, literal: &[u8], state: SubjectState) -> Option<SubjectId> {
        let is_last = self.order.last().is_none_or(|last| self.name(last).compare(literal).is_lt());
        is_last.then(|| self.insert_at(self.order.end(), self.hash(literal), literal, state))
    }

    /// Sets the counters of a subject, which need not be there. Fastest if new subjects come in order of their bytes.
    pub fn set(&mut self, literal: &[u8], state: SubjectState) -> SubjectId {
        let hash = self.hash(literal);
        match self.find(hash, literal) {
            Some(id) => {
                self.table.set_state(id, state);
                id
            }
            None => self.insert(hash, literal, state),
        }
    }

    /// Forgets a literal subject and tells what its counters were.
    pub fn forget(&mut self, literal: &[u8]) -> Option<SubjectState> {
        let id = self.id(literal)?;
        Some(self.forget_known(id, literal))
    }

    /// Forgets a subject by number and tells what its counters were. The number must be in use.
    pub fn forget_id(&mut self, id: SubjectId) -> SubjectState {
        let mut literal = Vec::new();
        self.append_bytes(id, &mut literal);
        self.forget_known(id, &literal)
    }

    /// Forgets a subject whose number and bytes are known to belong together, and tells what its counters were.
    pub fn forget_known(&mut self, id: SubjectId, literal: &[u8]) -> SubjectState {
        let known = Known { table: &self.table, tails: &self.tails, prefixes: &self.prefixes };
        if let Ok(position) = self.order.find(literal, &known) {
            self.order.remove(position, &known);
        }
        let (spelling, state) = self.table.remove(id);
        self.tails.release(spelling.tail);
        self.leave_prefix(spelling.prefix);
        self.tidy_tails();
        state
    }

    #[inline]
    fn hash(&self, literal: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(literal);
        (hash ^ (hash >> 32)) as u32
    }

    #[inline]
    fn find(&self, hash: u32, literal: &[u8]) -> Option<SubjectId> {
        self.table.find(hash, |spelling| self.is_spelt(spelling, literal))
    }

    #[inline]
    fn is_spelt(&self, spelling: Spelling, literal: &[u8]) -> bool {
        let tail = literal.strip_prefix(&*self.prefixes[spelling.prefix as usize].bytes);
        tail.is_some_and(|tail| tail == self.tails.get(spelling.tail))
    }

    #[inline]
    fn name(&self, id: SubjectId) -> Name<'_> {
        name_of(self.table.spelling(id), &self.tails, &self.prefixes)
    }

    /// Where a literal is in order, or belongs.
    fn seek(&self, literal: &[u8]) -> Position {
        let known = Known { table: &self.table, tails: &self.tails, prefixes: &self.prefixes };
        match self.order.find(literal, &known) {
            Ok(position) | Err(position) => position,
        }
    }

    fn insert(&mut self, hash: u32, literal: &[u8], state: SubjectState) -> SubjectId {
        self.insert_at(self.seek(literal), hash, literal, state)
    }

    /// Adds a subject, whose place in order is known.
    fn insert_at(&mut self, position: Position, hash: u32, literal: &[u8], state: SubjectState) -> SubjectId {
        let prefix = self.choose_prefix(position, literal);
        let id = self.table.next_number();
        let start = self.prefixes[prefix as usize].bytes.len();
        self.prefixes[prefix as usize].users += 1;
        let tail = self.tails.store(id, &literal[start..]);
        self.table.insert(Spelling { prefix, tail }, state, hash);
        let known = Known { table: &self.table, tails: &self.tails, prefixes: &self.prefixes };
        self.order.insert(position, id, literal, &known);
        self.tidy_tails();
        id
    }

    /// The tokens that a new subject shares with its neighbours.
    fn choose_prefix(&mut self, position: Position, literal: &[u8]) -> u32 {
        if self.prefixes.is_empty() {
            self.prefixes.push(Prefix::default());
        }
        let (mut best, mut taken) = (0, 0);
        let neighbours = [self.order.before(position), self.order.at(position)];
        for id in neighbours.into_iter().flatten() {
            let number = self.table.spelling(id).prefix;
            let prefix = &*self.prefixes[number as usize].bytes;
            if prefix.len() > taken && literal.starts_with(prefix) {
                (best, taken) = (number, prefix.len());
            }
        }
        let further = self.order.at_distance(position, DISTANCE);
        let shared = further.into_iter().flatten().map(|id| self.shared_tokens(id, literal)).max();
        let shared = shared.unwrap_or(0);
        if shared < taken + MIN_SHARED {
            return best;
        }
        let prefix = Prefix { bytes: literal[..shared].into(), users: 0 };
        if let Some(number) = self.free_prefixes.pop() {
            self.prefixes[number as usize] = prefix;
            return number;
        }
        assert!(self.prefixes.len() < MAX_PREFIXES as usize, "{MAX_PREFIXES} prefixes in one stream");
        self.prefixes.push(prefix);
        (self.prefixes.len() - 1) as u32
    }

    /// Length of the whole tokens with their separators that a subject and a literal start with.
    fn shared_tokens(&self, id: SubjectId, literal: &[u8]) -> usize {
        let same = self.name(id).shared(literal);
        literal[..same].iter().rposition(|byte| *byte == b'.').map_or(0, |at| at + 1)
    }

    fn leave_prefix(&mut self, number: u32) {
        let prefix = &mut self.prefixes[number as usize];
        prefix.users -= 1;
        if prefix.users == 0 && number != 0 {
            prefix.bytes = Box::default();
            self.free_prefixes.push(number);
        }
    }

    /// Bytes of memory that it takes from the allocator.
    pub fn memory(&self) -> usize {
        let prefixes =
            self.prefixes.capacity() * size_of::<Prefix>() + self.free_prefixes.capacity() * size_of::<u32>();
        let shared: usize = self.prefixes.iter().map(|prefix| prefix.bytes.len()).sum();
        self.table.memory() + self.order.memory() + self.tails.memory() + prefixes + shared
    }

    fn tidy_tails(&mut self) {
        while let Some(old) = self.tails.take_sparse() {
            for_each_record(&old, |owner, tail| {
                self.table.set_tail(owner, self.tails.store(owner, tail));
            });
        }
    }
}

#[cfg(test)]
mod tests;
