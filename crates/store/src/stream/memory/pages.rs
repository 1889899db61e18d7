//! The messages of a stream by sequence: a list of pages. Sequences without messages cost nothing.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::page::{Lifetime, PAGE, PAGE_BITS, Page, SHARED_BYTES, Slot};
use crate::Timestamp;

/// Least and most memory that neighbouring messages share.
const MIN_CHUNK: usize = 512;
const MAX_CHUNK: usize = 64 << 10;
/// Empty places in the list of pages that are always allowed.
const FREE_HOLES: usize = 64;

/// A place in the list of pages.
#[derive(Debug)]
struct Leaf {
    /// Sequences of the page, without their low bits.
    number: u64,
    /// Messages in it; without any there is no page.
    live: usize,
    page: Box<Page>,
    /// No message of it is younger.
    newest: Timestamp,
    /// No message of it that maximum age applies to is older. Drawn tighter when somebody looked.
    oldest: Cell<Timestamp>,
}

/// The pages, by number. The first and the last have messages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    leaves: VecDeque<Leaf>,
    holes: usize,
    messages: u64,
    /// What the next messages are written to.
    chunk: BytesMut,
    /// Of the page before the last: bytes that its messages took, and their number.
    usual: (usize, usize),
}

#[inline]
fn split(sequence: u64) -> (u64, usize) {
    (sequence >> PAGE_BITS, sequence as usize & (PAGE - 1))
}

impl Pages {
    /// How many messages there are.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Copies the parts of a message to where its neighbours are.
    #[inline]
    pub(super) fn copy(&mut self, sequence: u64, parts: [&[u8]; 3]) -> Bytes {
        let length = parts.iter().map(|part| part.len()).sum();
        let mut own;
        let chunk = if length > SHARED_BYTES {
            own = BytesMut::with_capacity(length);
            &mut own
        } else {
            // Memory that pages share is free when both have moved on, so that happens only where pages hold little.
            let own_chunk = self.usual.0 > SHARED_BYTES && self.starts_page(sequence);
            if self.chunk.capacity() < length || own_chunk {
                self.new_chunk(sequence, length);
            }
            &mut self.chunk
        };
        for part in parts {
            chunk.extend_from_slice(part);
        }
        chunk.split().freeze()
    }

    /// Adds a message with a sequence above all others.
    #[inline]
    pub(super) fn push(&mut self, sequence: u64, slot: Slot) {
        let (number, place) = split(sequence);
        if self.starts_page(sequence) {
            self.new_page(number);
        }
        let Some(leaf) = self.leaves.back_mut() else { return };
        leaf.newest = leaf.newest.max(slot.timestamp);
        if slot.lifetime != Lifetime::Unlimited {
            leaf.oldest.set(leaf.oldest.get().min(slot.timestamp));
        }
        leaf.page.push(place, slot);
        leaf.live += 1;
        self.messages += 1;
    }

    /// The message with a sequence.
    #[inline]
    pub(super) fn get(&self, sequence: u64) -> Option<&Slot> {
        let (number, place) = split(sequence);
        let at = self.find(number).ok()?;
        self.leaves[at].page.get(place)
    }

    /// Takes out the message with a sequence.
    pub(super) fn take(&mut self, sequence: u64) -> Option<Slot> {
        let (number, place) = split(sequence);
        let at = self.find(number).ok()?;
        let leaf = &mut self.leaves[at];
        leaf.page.get(place)?;
        leaf.live -= 1;
        // The first page is likely to be gone soon, without being rewritten before.
        let slot = leaf.page.take(place, if at == 0 { None } else { Some(leaf.live) });
        self.messages -= 1;
        if leaf.live == 0 {
            *leaf.page = Page::default();
            self.holes += 1;
            self.trim();
        }
        slot
    }

    /// The messages in a range, ascending.
    pub(super) fn scan(&self, range: RangeInclusive<u64>) -> Scan<'_> {
        let (number, place) = split(*range.start());
        match self.find(number) {
            Ok(at) => Scan { pages: self, at, place, end: *range.end() },
            Err(at) => Scan { pages: self, at, place: 0, end: *range.end() },
        }
    }

    /// The messages from `from` down to `down_to`, descending.
    pub(super) fn scan_back(&self, from: u64, down_to: u64) -> ScanBack<'_> {
        let (number, place) = split(from);
        match self.find(number) {
            Ok(at) => ScanBack { pages: self, at: Some(at), place, end: down_to },
            Err(at) => ScanBack { pages: self, at: at.checked_sub(1), place: PAGE - 1, end: down_to },
        }
    }

    /// How many messages there are in a range.
    pub(super) fn count(&self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) =
            (self.before(*range.start()), range.end().checked_add(1).map(|end| self.before(end)));
        let (low_pages, low_rest) = low;
        let (high_pages, high_rest) = high.unwrap_or((self.leaves.len(), 0));
        let between: usize = self.leaves.range(low_pages..high_pages).map(|leaf| leaf.live).sum();
        (between + high_rest).saturating_sub(low_rest) as u64
    }

    /// The first sequence at or after one without a message.
    pub(super) fn next_gap(&self, sequence: u64) -> u64 {
        let (number, mut place) = split(sequence);
        let Ok(start) = self.find(number) else { return sequence };
        let mut expected = number;
        for leaf in self.leaves.range(start..) {
            if leaf.number != expected {
                break;
            }
            if let Some(gap) = leaf.page.next_gap(place) {
                return (leaf.number << PAGE_BITS) + gap as u64;
            }
            (expected, place) = (expected + 1, 0);
        }
        expected << PAGE_BITS
    }

    /// The first message, in order of sequences, stored at or after a time.
    pub(super) fn at_time(&self, time: Timestamp) -> Option<u64> {
        let leaves = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.live > 0 && leaf.newest >= time);
        for (at, leaf) in leaves {
            let found = self.scan_page(at).find(|(_, slot)| slot.timestamp >= time);
            if let Some((place, _)) = found {
                return Some((leaf.number << PAGE_BITS) + place as u64);
            }
        }
        None
    }

    /// Calls `visit` with the messages that maximum age applies to and that were stored at or before a time, ascending, until it returns false.
    pub(super) fn for_each_aged(&self, before: Timestamp, visit: &mut dyn FnMut(u64) -> bool) {
        let leaves =
            self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.live > 0 && leaf.oldest.get() <= before);
        for (at, leaf) in leaves {
            let mut oldest = Timestamp(i64::MAX);
            for (place, slot) in self.scan_page(at).filter(|(_, slot)| slot.lifetime != Lifetime::Unlimited) {
                oldest = oldest.min(slot.timestamp);
                if slot.timestamp <= before && !visit((leaf.number << PAGE_BITS) + place as u64) {
                    return;
                }
            }
            leaf.oldest.set(oldest);
        }
    }

    /// Bytes of pages and of the messages in them, and what is left of the chunk.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let pages: usize = self.leaves.iter().map(|leaf| leaf.page.memory()).sum();
        self.leaves.capacity() * size_of::<Leaf>() + pages + self.chunk.capacity()
    }

    fn scan_page(&self, at: usize) -> impl Iterator<Item = (usize, &Slot)> {
        let page = &self.leaves[at].page;
        let mut place = 0;
        std::iter::from_fn(move || {
            let (found, slot) = page.next(place)?;
            place = found + 1;
            Some((found, slot))
        })
    }

    /// The index of the leaf that a sequence belongs to, and how many messages of that leaf are before it.
    fn before(&self, sequence: u64) -> (usize, usize) {
        let (number, place) = split(sequence);
        match self.find(number) {
            Ok(at) => (at, self.leaves[at].page.count_before(place)),
            Err(at) => (at, 0),
        }
    }

    /// The index of the leaf with a number, or of the first with a greater one.
    #[inline]
    fn find(&self, number: u64) -> Result<usize, usize> {
        let Some(first) = self.leaves.front() else { return Err(0) };
        let Some(guess) = number.checked_sub(first.number) else { return Err(0) };
        // Without gaps in the numbers this is where it is.
        if let Ok(guess) = usize::try_from(guess)
            && self.leaves.get(guess).is_some_and(|leaf| leaf.number == number)
        {
            return Ok(guess);
        }
        self.leaves.binary_search_by_key(&number, |leaf| leaf.number)
    }

    #[inline]
    fn starts_page(&self, sequence: u64) -> bool {
        self.leaves.back().is_none_or(|leaf| leaf.number != sequence >> PAGE_BITS)
    }

    fn new_page(&mut self, number: u64) {
        if let Some(last) = self.leaves.back() {
            self.usual = (last.page.taken(), last.page.slots());
        }
        let page = Box::new(Page::with_capacity(self.usual.1));
        let (newest, oldest) = (Timestamp(i64::MIN), Cell::new(Timestamp(i64::MAX)));
        self.leaves.push_back(Leaf { number, live: 0, page, newest, oldest });
    }

    /// Makes room for a message and for what is likely to follow it in its page.
    fn new_chunk(&mut self, sequence: u64, length: usize) {
        let mut room = self.usual.0;
        if let Some(last) = self.leaves.back().filter(|_| !self.starts_page(sequence)) {
            let (_, place) = split(sequence);
            room = last.page.taken() * (PAGE - place) / place.max(1);
            if self.leaves.len() == 1 {
                // A stream may end after a few messages: grow with it.
                room = room.min(last.page.taken());
            }
        }
        self.chunk = BytesMut::with_capacity(room.clamp(MIN_CHUNK, MAX_CHUNK).max(length));
    }

    /// Keeps the ends without holes, and the holes between few.
    fn trim(&mut self) {
        while self.leaves.front().is_some_and(|leaf| leaf.live == 0) {
            self.leaves.pop_front();
            self.holes -= 1;
        }
        while self.leaves.back().is_some_and(|leaf| leaf.live == 0) {
            self.leaves.pop_back();
            self.holes -= 1;
        }
        if self.holes > FREE_HOLES + self.leaves.len() / 2 {
            self.leaves.retain(|leaf| leaf.live > 0);
            self.holes = 0;
        }
        if self.leaves.is_empty() {
            *self = Self { usual: self.usual, ..Self::default() };
        }
    }
}

/// Ascending messages.
pub(super) struct Scan<'a> {
    pages: &'a Pages,
    at: usize,
    place: usize,
    end: u64,
}

impl<'a> Iterator for Scan<'a> {
    type Item = (u64, &'a Slot);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let leaf = self.pages.leaves.get(self.at)?;
            if let Some((place, slot)) = leaf.page.next(self.place) {
                self.place = place + 1;
                let sequence = (leaf.number << PAGE_BITS) + place as u64;
                return (sequence <= self.end).then_some((sequence, slot));
            }
            (self.at, self.place) = (self.at + 1, 0);
        }
    }
}

/// Descending messages.
pub(super) struct ScanBack<'a> {
    pages: &'a Pages,
    at: Option<usize>,
    place: usize,
    end: u64,
}

impl<'a> Iterator for ScanBack<'a> {
    type Item = (u64, &'a Slot);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at?;
            let leaf = self.pages.leaves.get(at)?;
            let found = leaf.page.previous(self.place);
            if let Some((place, _)) = found.filter(|(place, _)| *place > 0) {
                self.place = place - 1;
            } else {
                (self.at, self.place) = (at.checked_sub(1), PAGE - 1);
            }
            if let Some((place, slot)) = found {
                let sequence = (leaf.number << PAGE_BITS) + place as u64;
                return (sequence >= self.end).then_some((sequence, slot));
            }
        }
    }
}
