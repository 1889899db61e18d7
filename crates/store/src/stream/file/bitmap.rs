//! A set of small numbers as bits, for the deleted slots of a block.

use std::ops::Range;

/// Bits that are all zero until set; takes no memory before the first one is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    pub(super) fn is_clear(&self) -> bool {
        self.words.is_empty()
    }

    #[inline]
    pub(super) fn contains(&self, at: u32) -> bool {
        self.words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Sets a bit; was it clear?
    pub(super) fn insert(&mut self, at: u32) -> bool {
        let index = at as usize / 64;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (at % 64);
        let was_clear = self.words[index] & bit == 0;
        self.words[index] |= bit;
        was_clear
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// Number of bits set in a range.
    pub(super) fn count(&self, range: Range<u32>) -> u32 {
        let end = range.end.min(self.bits());
        if range.start >= end {
            return 0;
        }
        let (first, last) = (range.start as usize / 64, (end as usize - 1) / 64);
        (first..=last)
            .map(|index| {
                let mut word = self.word(index);
                if index == first {
                    word &= u64::MAX << (range.start % 64);
                }
                if index == last {
                    word &= u64::MAX >> (63 - (end - 1) % 64);
                }
                word.count_ones()
            })
            .sum()
    }

    fn bits(&self) -> u32 {
        u32::try_from(self.words.len() * 64).unwrap_or(u32::MAX)
    }

    /// The first clear bit at or after `from`.
    pub(super) fn next_clear(&self, from: u32) -> u32 {
        let mut index = from as usize / 64;
        let mut mask = u64::MAX << (from % 64);
        while index < self.words.len() {
            let free = !self.words[index] & mask;
            if free != 0 {
                return (index * 64) as u32 + free.trailing_zeros();
            }
            mask = u64::MAX;
            index += 1;
        }
        from.max(self.bits())
    }

    /// The last clear bit at or before `from`.
    pub(super) fn previous_clear(&self, from: u32) -> Option<u32> {
        let mut index = from as usize / 64;
        let mut mask = u64::MAX >> (63 - from % 64);
        loop {
            let free = !self.word(index) & mask;
            if free != 0 {
                return Some((index * 64) as u32 + 63 - free.leading_zeros());
            }
            index = index.checked_sub(1)?;
            mask = u64::MAX;
        }
    }

    /// The first set bit at or after `from`.
    pub(super) fn next_set(&self, from: u32) -> Option<u32> {
        let mut index = from as usize / 64;
        let mut mask = u64::MAX << (from % 64);
        while index < self.words.len() {
            let set = self.words[index] & mask;
            if set != 0 {
                return Some((index * 64) as u32 + set.trailing_zeros());
            }
            mask = u64::MAX;
            index += 1;
        }
        None
    }

    /// Ranges of set bits, ascending.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = self.next_set(from)?;
            from = self.next_clear(start);
            Some(start..from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_agree_with_a_plain_set() {
        let mut bitmap = Bitmap::default();
        let mut plain = [false; 400];
        for at in (0..300u32).filter(|at| at * at % 7 < 3 || (64..192).contains(at)) {
            assert!(bitmap.insert(at) && !bitmap.insert(at));
            plain[at as usize] = true;
        }
        for from in 0..390u32 {
            assert_eq!(bitmap.contains(from), plain[from as usize]);
            let clear = (from..).find(|at| !plain.get(*at as usize).copied().unwrap_or(false));
            assert_eq!(Some(bitmap.next_clear(from)), clear, "from {from}");
            assert_eq!(bitmap.previous_clear(from), (0..=from).rev().find(|at| !plain[*at as usize]));
            assert_eq!(bitmap.next_set(from), (from..400).find(|at| plain[*at as usize]));
            for to in from..390 {
                let expected = (from..to).filter(|at| plain[*at as usize]).count();
                assert_eq!(bitmap.count(from..to) as usize, expected, "{from}..{to}");
            }
        }
        assert_eq!(
            bitmap.runs().map(|run| run.len()).sum::<usize>(),
            plain.iter().filter(|set| **set).count()
        );
    }
}
