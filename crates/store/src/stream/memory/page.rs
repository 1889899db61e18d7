//! Messages with neighbouring sequences. Only those that are there cost memory, and after removals at least half of what is taken is in use.

use bytes::{Bytes, BytesMut};

use crate::Timestamp;
use crate::stream::{Message, SubjectId};

/// Bits of a sequence that tell the place in its page.
pub(super) const PAGE_BITS: u32 = 8;
/// Sequences that a page covers.
pub(super) const PAGE: usize = 1 << PAGE_BITS;
const WORDS: usize = PAGE / u64::BITS as usize;
/// A message longer than this has memory of its own; others share it with their neighbours.
pub(super) const SHARED_BYTES: usize = 4096;

/// When a message goes by itself; the time of an own TTL is kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    MaxAge,
    OwnAndMaxAge,
    Unlimited,
}

/// A message as it is kept.
#[derive(Debug)]
pub(super) struct Slot {
    /// Subject, headers and payload; empty once it is removed.
    pub(super) data: Bytes,
    pub(super) timestamp: Timestamp,
    pub(super) subject: SubjectId,
    pub(super) subject_len: u32,
    pub(super) headers_len: u32,
    pub(super) lifetime: Lifetime,
}

impl Slot {
    #[inline]
    pub(super) fn subject_bytes(&self) -> &[u8] {
        &self.data[..self.subject_len as usize]
    }

    #[inline]
    pub(super) fn subject(&self) -> Bytes {
        self.data.slice(..self.subject_len as usize)
    }

    pub(super) fn message(&self, sequence: u64) -> Message {
        let headers = self.subject_len as usize;
        let payload = headers + self.headers_len as usize;
        Message {
            sequence,
            timestamp: self.timestamp,
            subject: self.data.slice(..headers),
            headers: self.data.slice(headers..payload),
            payload: self.data.slice(payload..),
        }
    }

    /// Bytes of memory that it shares with others.
    fn shared(&self) -> usize {
        if self.data.len() > SHARED_BYTES { 0 } else { self.data.len() }
    }
}

/// One bit for each place of a page.
#[derive(Debug, Default, Clone, Copy)]
struct Bits([u64; WORDS]);

impl Bits {
    #[inline]
    fn get(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    #[inline]
    fn set(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    #[inline]
    fn clear(&mut self, place: usize) {
        self.0[place / 64] &= !(1 << (place % 64));
    }

    /// How many are set before a place, which may be one past the last.
    #[inline]
    fn before(&self, place: usize) -> usize {
        let whole: u32 = self.0[..place / 64].iter().map(|word| word.count_ones()).sum();
        let rest = self.0.get(place / 64).map_or(0, |word| (word & !(u64::MAX << (place % 64))).count_ones());
        (whole + rest) as usize
    }

    /// The first place at or after one that is set, or with `flip` that is not.
    #[inline]
    fn next(&self, place: usize, flip: bool) -> Option<usize> {
        let flip = if flip { u64::MAX } else { 0 };
        let mut word = place / 64;
        let mut bits = (*self.0.get(word)? ^ flip) & (u64::MAX << (place % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)? ^ flip;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The last place at or before one that is set.
    #[inline]
    fn previous(&self, place: usize) -> Option<usize> {
        let mut word = place / 64;
        let mut bits = self.0[word] & (u64::MAX >> (63 - place % 64));
        while bits == 0 {
            word = word.checked_sub(1)?;
            bits = self.0[word];
        }
        Some(word * 64 + 63 - bits.leading_zeros() as usize)
    }
}

/// The messages of a page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Places that are in use.
    live: Bits,
    /// Places that have a slot, in use or not.
    stored: Bits,
    /// By the number of stored places before.
    slots: Vec<Slot>,
    /// The first stored place, and whether no place is missing between it and the last.
    base: usize,
    gapless: bool,
    /// Bytes of shared memory that slots took, and that live ones still use.
    taken: usize,
    used: usize,
}

impl Page {
    /// With room for so many messages.
    pub(super) fn with_capacity(slots: usize) -> Self {
        Self { slots: Vec::with_capacity(slots), ..Self::default() }
    }

    /// Bytes of shared memory that its messages took.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Bytes of it and of its messages, large ones left out.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.slots.capacity() * size_of::<Slot>() + self.taken
    }

    /// Slots that it has.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Adds a message behind all others.
    #[inline]
    pub(super) fn push(&mut self, place: usize, slot: Slot) {
        if self.slots.is_empty() {
            (self.base, self.gapless) = (place, true);
        } else {
            self.gapless &= place == self.base + self.slots.len();
        }
        self.stored.set(place);
        self.live.set(place);
        self.taken += slot.shared();
        self.used += slot.shared();
        self.slots.push(slot);
    }

    /// The message at a place, if it is there.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&Slot> {
        if self.live.get(place) { self.slots.get(self.slot(place)) } else { None }
    }

    /// The first message at or after a place.
    #[inline]
    pub(super) fn next(&self, place: usize) -> Option<(usize, &Slot)> {
        let place = self.live.next(place, false)?;
        Some((place, self.slots.get(self.slot(place))?))
    }

    /// The last message at or before a place.
    #[inline]
    pub(super) fn previous(&self, place: usize) -> Option<(usize, &Slot)> {
        let place = self.live.previous(place)?;
        Some((place, self.slots.get(self.slot(place))?))
    }

    /// The first place at or after one without a message.
    pub(super) fn next_gap(&self, place: usize) -> Option<usize> {
        self.live.next(place, true)
    }

    /// How many messages are before a place, which may be one past the last.
    pub(super) fn count_before(&self, place: usize) -> usize {
        self.live.before(place)
    }

    /// Takes out the message at a place; the caller knows that it is there. `live` is how many are left, if it may be rewritten.
    pub(super) fn take(&mut self, place: usize, live: Option<usize>) -> Option<Slot> {
        let at = self.slot(place);
        let slot = self.slots.get_mut(at)?;
        self.live.clear(place);
        let empty = Slot { data: Bytes::new(), ..*slot };
        let slot = std::mem::replace(slot, empty);
        self.used -= slot.shared();
        if let Some(live) = live.filter(|live| *live > 0) {
            let few = live * 2 < self.slots.len();
            if few || (self.used * 2 < self.taken && self.taken > SHARED_BYTES) {
                self.rewrite();
            }
        }
        Some(slot)
    }

    #[inline]
    fn slot(&self, place: usize) -> usize {
        if self.gapless { place - self.base } else { self.stored.before(place) }
    }

    /// Copies what is left, so that the memory of what was removed is free once no reader holds it.
    fn rewrite(&mut self) {
        let mut data = BytesMut::with_capacity(self.used);
        let (live, stored, mut place) = (self.live, self.stored, 0);
        self.slots.retain_mut(|slot| {
            let Some(own) = stored.next(place, false) else { return false };
            place = own + 1;
            if !live.get(own) {
                return false;
            }
            if slot.shared() > 0 {
                data.extend_from_slice(&slot.data);
                slot.data = data.split().freeze();
            }
            true
        });
        self.slots.shrink_to_fit();
        self.stored = live;
        self.taken = self.used;
        let first = live.next(0, false).unwrap_or(0);
        self.base = first;
        self.gapless = live.next(first, true).unwrap_or(PAGE) == first + self.slots.len();
    }
}
