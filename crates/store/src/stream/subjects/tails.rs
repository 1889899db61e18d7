//! Bytes of subjects, packed into segments. What sparse segments still hold moves on, so at least half of what is taken is in use.
//!
//! A record is its owner (four bytes, little endian), the length of its bytes (seven bits a byte, lowest first), the bytes, and zeros up to a
//! multiple of [`UNIT`]. An address counts units: [`SEGMENT_BITS`] bits of offset, the number of the segment above.

/// Addresses count in these many bytes.
const UNIT: usize = 4;
/// Bits of an address that tell the place in the segment.
const SEGMENT_BITS: u32 = 14;
/// A segment starts no record beyond this length.
const SEGMENT_BYTES: usize = UNIT << SEGMENT_BITS;
/// Segments that an address can tell apart.
const MAX_SEGMENTS: usize = 1 << (u32::BITS - SEGMENT_BITS);
/// Owner of a record that was released.
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Segment {
    bytes: Vec<u8>,
    /// Bytes of records that have an owner.
    live: usize,
}

/// The segments.
#[derive(Debug, Default)]
pub(super) struct Tails {
    segments: Vec<Segment>,
    /// Numbers of segments without bytes.
    free: Vec<u32>,
    /// The segment that takes new records.
    current: Option<u32>,
    /// Segments that were found sparse and wait for [`Tails::take_sparse`].
    sparse: Vec<u32>,
}

impl Tails {
    /// Stores bytes for an owner and tells their address.
    pub(super) fn store(&mut self, owner: u32, tail: &[u8]) -> u32 {
        let number = self.segment_for(tail.len());
        let segment = &mut self.segments[number as usize];
        let start = segment.bytes.len();
        segment.bytes.extend_from_slice(&owner.to_le_bytes());
        put_length(&mut segment.bytes, tail.len());
        segment.bytes.extend_from_slice(tail);
        segment.bytes.resize(segment.bytes.len().next_multiple_of(UNIT), 0);
        segment.live += segment.bytes.len() - start;
        (number << SEGMENT_BITS) | (start / UNIT) as u32
    }

    /// The bytes at an address.
    pub(super) fn get(&self, address: u32) -> &[u8] {
        let (number, start) = split(address);
        let record = &self.segments[number].bytes[start + size_of::<u32>()..];
        let (length, at) = take_length(record);
        &record[at..at + length]
    }

    /// Some byte at an address.
    #[inline]
    pub(super) fn touch(&self, address: u32) -> u8 {
        let (number, start) = split(address);
        self.segments[number].bytes[start]
    }

    /// Lets go of the bytes at an address.
    pub(super) fn release(&mut self, address: u32) {
        let (number, start) = split(address);
        let size = record_size(&self.segments[number].bytes[start..]);
        let segment = &mut self.segments[number];
        segment.bytes[start..start + size_of::<u32>()].copy_from_slice(&NOBODY.to_le_bytes());
        segment.live -= size;
        if self.current != Some(number as u32) {
            self.check_sparse(number as u32);
        } else if segment.live == 0 {
            segment.bytes.clear();
        }
    }

    /// Takes a sparse segment out, if there is one; the records in it have to be stored again.
    pub(super) fn take_sparse(&mut self) -> Option<Vec<u8>> {
        let number = self.sparse.pop()?;
        self.free.push(number);
        Some(std::mem::take(&mut self.segments[number as usize]).bytes)
    }

    /// Bytes taken from the allocator.
    pub(super) fn memory(&self) -> usize {
        let bytes: usize = self.segments.iter().map(|segment| segment.bytes.capacity()).sum();
        let lists = self.free.capacity() + self.sparse.capacity();
        bytes + self.segments.capacity() * size_of::<Segment>() + lists * size_of::<u32>()
    }

    fn segment_for(&mut self, tail: usize) -> u32 {
        // Owner, length of five bytes at most, and padding.
        let most = tail + 12;
        if let Some(current) = self.current {
            let segment = &self.segments[current as usize];
            if segment.bytes.is_empty() || segment.bytes.len() + most <= SEGMENT_BYTES {
                return current;
            }
            self.current = None;
            self.check_sparse(current);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            assert!(self.segments.len() < MAX_SEGMENTS, "{MAX_SEGMENTS} segments of subjects are full");
            self.segments.push(Segment::default());
            (self.segments.len() - 1) as u32
        });
        if self.segments.len() > 1 {
            self.segments[number as usize].bytes.reserve_exact(SEGMENT_BYTES.max(most));
        }
        self.current = Some(number);
        number
    }

    fn check_sparse(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        if segment.live == 0 {
            *segment = Segment::default();
            if let Some(at) = self.sparse.iter().position(|waiting| *waiting == number) {
                self.sparse.swap_remove(at);
            }
            self.free.push(number);
        } else if segment.live * 2 < segment.bytes.len() && !self.sparse.contains(&number) {
            self.sparse.push(number);
        }
    }
}

/// Calls `visit` with owner and bytes of each record of a segment that has an owner.
pub(super) fn for_each_record(segment: &[u8], mut visit: impl FnMut(u32, &[u8])) {
    let mut rest = segment;
    while let Some((owner, record)) = rest.split_first_chunk() {
        let (length, at) = take_length(record);
        let owner = u32::from_le_bytes(*owner);
        if owner != NOBODY {
            visit(owner, &record[at..at + length]);
        }
        rest = &rest[record_size(rest)..];
    }
}

fn split(address: u32) -> (usize, usize) {
    ((address >> SEGMENT_BITS) as usize, (address & ((1 << SEGMENT_BITS) - 1)) as usize * UNIT)
}

fn record_size(record: &[u8]) -> usize {
    let (length, at) = take_length(&record[size_of::<u32>()..]);
    (size_of::<u32>() + at + length).next_multiple_of(UNIT)
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// The length and where the bytes start.
#[inline]
fn take_length(record: &[u8]) -> (usize, usize) {
    let mut length = 0;
    for (at, byte) in record.iter().enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return (length, at + 1);
        }
    }
    (length, record.len())
}

#[cfg(test)]
mod tests {
    use super::{SEGMENT_BYTES, Tails, for_each_record};

    #[test]
    fn lengths_and_addresses() {
        let mut tails = Tails::default();
        let lengths = [0, 1, 2, 3, 127, 128, 129, 16_383, 16_384, 65_535, 65_536, 3, 200_000, 5];
        let addresses: Vec<u32> = lengths
            .iter()
            .enumerate()
            .map(|(owner, length)| tails.store(owner as u32, &vec![owner as u8; *length]))
            .collect();
        for (owner, length) in lengths.iter().enumerate() {
            assert_eq!(tails.get(addresses[owner]), vec![owner as u8; *length], "length {length}");
        }
    }

    #[test]
    fn few_survivors_do_not_hold_many_segments() {
        let mut tails = Tails::default();
        let mut survivors = std::collections::BTreeMap::new();
        for owner in 0..200_000u32 {
            let address = tails.store(owner, b"about twenty bytes..");
            if owner % 1000 == 0 {
                survivors.insert(owner, address);
            } else {
                tails.release(address);
            }
            while let Some(old) = tails.take_sparse() {
                for_each_record(&old, |owner, tail| {
                    survivors.insert(owner, tails.store(owner, tail));
                });
            }
        }
        let taken: usize = tails.segments.iter().map(|segment| segment.bytes.len()).sum();
        assert!(taken <= 2 * SEGMENT_BYTES, "{taken}");
        assert_eq!(survivors.len(), 200);
        for address in survivors.values() {
            assert_eq!(tails.get(*address), b"about twenty bytes..");
        }
    }
}
