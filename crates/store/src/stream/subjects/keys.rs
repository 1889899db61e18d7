//! A short sorted list of subjects. It knows what all of them start with and the four bytes of each that follow, so a search in it seldom
//! has to read a subject.

use std::cmp::Ordering;

/// Bytes of a subject that a hint holds.
const HINT: usize = size_of::<u32>();

/// Room is made for so many more.
const GROWTH: usize = 24;

/// The bytes of a subject, in two parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a> {
    pub(super) prefix: &'a [u8],
    pub(super) tail: &'a [u8],
}

impl Name<'_> {
    /// Compares it to a literal.
    pub(super) fn compare(&self, literal: &[u8]) -> Ordering {
        let shared = self.prefix.len().min(literal.len());
        self.prefix[..shared].cmp(&literal[..shared]).then_with(|| {
            if self.prefix.len() > literal.len() {
                return Ordering::Greater;
            }
            self.tail.cmp(&literal[shared..])
        })
    }

    /// Does it start with these bytes?
    pub(super) fn starts_with(&self, start: &[u8]) -> bool {
        match start.strip_prefix(self.prefix) {
            Some(rest) => self.tail.starts_with(rest),
            None => self.prefix.starts_with(start),
        }
    }

    /// How many bytes it and a literal start with.
    pub(super) fn shared(&self, literal: &[u8]) -> usize {
        let shared = shared(self.prefix, literal);
        if shared < self.prefix.len() { shared } else { shared + self::shared(self.tail, &literal[shared..]) }
    }

    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.prefix);
        bytes.extend_from_slice(self.tail);
    }

    fn hint(&self, at: usize) -> u32 {
        match at.checked_sub(self.prefix.len()) {
            Some(at) => hint(&self.tail[at.min(self.tail.len())..]),
            None => {
                let bytes = self.prefix[at..].iter().chain(self.tail).chain(&[0; HINT]);
                bytes.take(HINT).fold(0, |hint, byte| (hint << 8) | u32::from(*byte))
            }
        }
    }
}

/// Who knows the bytes of each subject.
pub(super) trait Names {
    /// The bytes of a subject by number.
    fn name(&self, id: u32) -> Name<'_>;
}

/// The list. Its order is that of the subjects' bytes.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// All of them start with these bytes, and maybe with more.
    shared: Box<[u8]>,
    /// Of each: the bytes that follow, as a number, with zeros behind the last.
    hints: Vec<u32>,
    ids: Vec<u32>,
}

impl Keys {
    /// Of one subject.
    pub(super) fn one(id: u32, literal: &[u8]) -> Self {
        Self { shared: literal.into(), hints: vec![0], ids: vec![id] }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Where a literal is, or belongs.
    pub(super) fn find(&self, literal: &[u8], names: &impl Names) -> Result<usize, usize> {
        let Some(rest) = literal.strip_prefix(&*self.shared) else {
            return Err(if *literal < *self.shared { 0 } else { self.len() });
        };
        let hint = hint(rest);
        let low = self.hints.partition_point(|other| *other < hint);
        let same = self.hints[low..].partition_point(|other| *other == hint);
        let found = self.ids[low..low + same].binary_search_by(|id| names.name(*id).compare(literal));
        found.map(|at| low + at).map_err(|at| low + at)
    }

    /// Puts a subject where [`Keys::find`] said that it belongs.
    pub(super) fn insert(&mut self, at: usize, id: u32, literal: &[u8]) {
        self.share_less(shared(&self.shared, literal));
        if self.ids.len() == self.ids.capacity() {
            self.hints.reserve_exact(GROWTH);
            self.ids.reserve_exact(GROWTH);
        }
        self.hints.insert(at, hint(&literal[self.shared.len()..]));
        self.ids.insert(at, id);
    }

    /// Puts another subject in the place of one; the order must stay.
    pub(super) fn replace(&mut self, at: usize, id: u32, names: &impl Names) {
        let name = names.name(id);
        self.share_less(name.shared(&self.shared));
        self.hints[at] = name.hint(self.shared.len());
        self.ids[at] = id;
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.hints.remove(at);
        self.ids.remove(at);
    }

    /// Cuts off what starts at a place.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let room = self.len() - at + GROWTH;
        let (mut hints, mut ids) = (Vec::with_capacity(room), Vec::with_capacity(room));
        hints.extend(self.hints.drain(at..));
        ids.extend(self.ids.drain(at..));
        self.hints.shrink_to(at + 1);
        self.ids.shrink_to(at + 1);
        Self { shared: self.shared.clone(), hints, ids }
    }

    /// Appends a list of subjects that are all greater.
    pub(super) fn join(&mut self, mut upper: Self) {
        let shared = shared(&self.shared, &upper.shared);
        self.share_less(shared);
        upper.share_less(shared);
        self.hints.append(&mut upper.hints);
        self.ids.append(&mut upper.ids);
    }

    /// Finds out anew what all start with, which may be more than is known, and draws the hints from there.
    pub(super) fn share_more(&mut self, names: &impl Names) {
        let [first, .., last] = self.ids.as_slice() else { return };
        let mut bytes = Vec::new();
        names.name(*first).append_to(&mut bytes);
        let shared = names.name(*last).shared(&bytes);
        if shared > self.shared.len() {
            bytes.truncate(shared);
            self.shared = bytes.into();
            for (hint, id) in self.hints.iter_mut().zip(&self.ids) {
                *hint = names.name(*id).hint(shared);
            }
        }
    }

    /// Bytes taken from the allocator.
    pub(super) fn memory(&self) -> usize {
        self.shared.len() + (self.hints.capacity() + self.ids.capacity()) * size_of::<u32>()
    }

    /// Forgets part of what all start with. The hints take over what fits.
    fn share_less(&mut self, length: usize) {
        if length == self.shared.len() {
            return;
        }
        let cut = &self.shared[length..];
        let (start, shift) = (hint(cut), 8 * cut.len() as u32);
        for hint in &mut self.hints {
            *hint = start | hint.checked_shr(shift).unwrap_or(0);
        }
        self.shared = self.shared[..length].into();
    }
}

#[inline]
fn hint(bytes: &[u8]) -> u32 {
    match bytes.first_chunk() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            bytes.iter().chain(&[0; HINT]).take(HINT).fold(0, |hint, byte| (hint << 8) | u32::from(*byte))
        }
    }
}

fn shared(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::{Keys, Name, Names};

    struct List(Vec<&'static str>);

    impl Names for List {
        fn name(&self, id: u32) -> Name<'_> {
            let (prefix, tail) = self.0[id as usize].as_bytes().split_at(self.0[id as usize].len() / 3);
            Name { prefix, tail }
        }
    }

    #[test]
    fn hints_stay_true_when_less_or_more_is_shared() {
        let names = List(vec![
            "abcdefgh",
            "abcdefgi",
            "abcde",
            "abcdf",
            "abc",
            "abd\u{1}",
            "b",
            "a",
            "abcdefghi",
            "abcdefg",
        ]);
        let mut keys = Keys::one(0, b"abcdefgh");
        for (id, literal) in names.0.iter().enumerate().skip(1) {
            let at = keys.find(literal.as_bytes(), &names).unwrap_err();
            keys.insert(at, id as u32, literal.as_bytes());
            for (id, hint) in keys.ids.iter().zip(&keys.hints) {
                assert_eq!(*hint, names.name(*id).hint(keys.shared.len()), "{literal}");
            }
        }
        let sorted: Vec<&str> = keys.ids.iter().map(|id| names.0[*id as usize]).collect();
        assert!(sorted.is_sorted(), "{sorted:?}");
        for (at, literal) in sorted.iter().enumerate() {
            assert_eq!(keys.find(literal.as_bytes(), &names), Ok(at));
        }
        let mut upper = keys.split_off(2);
        upper.ids.truncate(6);
        upper.hints.truncate(6);
        upper.share_more(&names);
        assert_eq!(&*upper.shared, b"abcd");
        keys.join(upper);
        assert_eq!(keys.find(b"abcde", &names), Ok(2));
        assert_eq!(keys.find(b"abcdefgi", &names), Ok(6));
    }
}
