//! Ascending sequences of one subject, in chunks, so that removing from the middle of many moves few.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Most sequences in a chunk.
const CHUNK: usize = 512;
/// A chunk that shrank to this length joins its neighbour if both fit into half a chunk.
const SPARSE: usize = CHUNK / 8;

/// Ascending sequences. No chunk is empty.
#[derive(Debug)]
pub(super) struct Sequences {
    chunks: Vec<VecDeque<u64>>,
}

impl Sequences {
    /// Of ascending sequences, at least one.
    pub(super) fn new(sequences: &[u64]) -> Self {
        Self { chunks: vec![sequences.iter().copied().collect()] }
    }

    /// Adds one above all others.
    #[inline]
    pub(super) fn push(&mut self, sequence: u64) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push_back(sequence),
            _ => self.chunks.push(VecDeque::from([sequence])),
        }
    }

    /// Removes one; the least and the greatest take no search.
    pub(super) fn remove(&mut self, sequence: u64) {
        let at = self.chunk_of(sequence);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        if chunk.front() == Some(&sequence) {
            chunk.pop_front();
        } else if chunk.back() == Some(&sequence) {
            chunk.pop_back();
        } else if let Ok(slot) = chunk.binary_search(&sequence) {
            chunk.remove(slot);
        }
        let length = chunk.len();
        if length == 0 {
            self.chunks.remove(at);
        } else if length <= SPARSE {
            self.join(at);
        }
    }

    /// The least.
    pub(super) fn first(&self) -> Option<u64> {
        self.chunks.first()?.front().copied()
    }

    /// The greatest.
    pub(super) fn last(&self) -> Option<u64> {
        self.chunks.last()?.back().copied()
    }

    /// The least at or after `from`.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let chunk = self.chunks.get(self.chunk_of(from))?;
        chunk.get(chunk.partition_point(|sequence| *sequence < from)).copied()
    }

    /// The greatest at or before `up_to`.
    pub(super) fn previous(&self, up_to: u64) -> Option<u64> {
        let at = self.chunks.partition_point(|chunk| chunk.front().is_some_and(|first| *first <= up_to));
        let chunk = self.chunks.get(at.checked_sub(1)?)?;
        chunk.get(chunk.partition_point(|sequence| *sequence <= up_to).checked_sub(1)?).copied()
    }

    /// How many lie in a range.
    pub(super) fn count(&self, range: RangeInclusive<u64>) -> u64 {
        let first = self.chunk_of(*range.start());
        let mut count = 0;
        for chunk in self.chunks.iter().skip(first) {
            let (Some(low), Some(high)) = (chunk.front(), chunk.back()) else { continue };
            if low > range.end() {
                break;
            }
            count += if range.contains(low) && range.contains(high) {
                chunk.len()
            } else {
                chunk.partition_point(|sequence| sequence <= range.end())
                    - chunk.partition_point(|sequence| sequence < range.start())
            };
        }
        count as u64
    }

    /// Those at or before `up_to`.
    pub(super) fn up_to(&self, up_to: u64) -> impl Iterator<Item = u64> {
        self.chunks.iter().flatten().copied().take_while(move |sequence| *sequence <= up_to)
    }

    /// The first chunk that ends at or after a sequence.
    #[inline]
    fn chunk_of(&self, sequence: u64) -> usize {
        if self.chunks.first().is_some_and(|first| first.back().is_some_and(|last| *last >= sequence)) {
            return 0;
        }
        self.chunks.partition_point(|chunk| chunk.back().is_some_and(|last| *last < sequence))
    }

    fn join(&mut self, at: usize) {
        let length = self.chunks[at].len();
        let fits = |other: &VecDeque<u64>| other.len() + length <= CHUNK / 2;
        if at > 0 && fits(&self.chunks[at - 1]) {
            let upper = self.chunks.remove(at);
            self.chunks[at - 1].extend(upper);
        } else if self.chunks.get(at + 1).is_some_and(fits) {
            let upper = self.chunks.remove(at + 1);
            self.chunks[at].extend(upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{SPARSE, Sequences};

    fn check(sequences: &Sequences, model: &BTreeSet<u64>) {
        assert_eq!(sequences.first(), model.first().copied());
        assert_eq!(sequences.last(), model.last().copied());
        for at in (0..20_000).step_by(37) {
            assert_eq!(sequences.next(at), model.range(at..).next().copied(), "next {at}");
            assert_eq!(sequences.previous(at), model.range(..=at).next_back().copied(), "previous {at}");
            let range = at / 2..=at;
            assert_eq!(sequences.count(range.clone()), model.range(range).count() as u64, "count to {at}");
        }
        assert!(sequences.up_to(9000).eq(model.range(..=9000).copied()));
    }

    #[test]
    fn the_same_as_an_ordered_set() {
        let mut model: BTreeSet<u64> = (1..6000).map(|at| at * 3).collect();
        let mut sequences = Sequences::new(&[3]);
        model.iter().skip(1).for_each(|sequence| sequences.push(*sequence));
        check(&sequences, &model);
        for step in 0..5990u64 {
            let sequence = match step % 3 {
                0 => *model.first().unwrap(),
                1 => *model.last().unwrap(),
                _ => model
                    .range(step * 7919 % 18_000..)
                    .next()
                    .copied()
                    .unwrap_or_else(|| *model.first().unwrap()),
            };
            sequences.remove(sequence);
            model.remove(&sequence);
            if step % 500 == 0 || step > 5900 {
                check(&sequences, &model);
            }
            assert!(sequences.chunks.len() <= model.len() / SPARSE + 1, "{} chunks", sequences.chunks.len());
        }
    }
}
