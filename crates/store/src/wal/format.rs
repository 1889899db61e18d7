//! Bytes of headers and bodies; the layouts are in the documentation of the log.

use crate::crypt::{ENVELOPE_BYTES, Envelope};
use crate::record::{self, Identity, u64_at};

use super::{GroupId, HardState, Record};

/// Offset of the first frame.
pub(super) const DATA_START: u64 = 4096;
/// Frames begin at multiples of this.
pub(super) const ALIGN: usize = 8;
/// Version that is written and the highest that is read.
pub(super) const VERSION: u16 = 2;
/// Length of the body of an entry without its payload.
pub(super) const ENTRY_FIXED: usize = 25;
/// Length of the bodies of marks, closes and floors.
pub(super) const NOTE_BYTES: usize = 9;

const MAGIC: &[u8; 8] = b"MYELNWAL";
pub(super) const HEADER_COPY: usize = 2048;
const HEADER_BYTES: usize = 136;
const ENVELOPE_AT: usize = 56;
const SEALED: u16 = 1;

const ENTRY: u8 = 1;
const HARD_STATE: u8 = 2;
const RELEASED: u8 = 3;
const REMOVED: u8 = 4;
const MARK: u8 = 5;
const CLOSED: u8 = 6;
const FLOOR: u8 = 7;

/// Start of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    pub(super) stamp: u64,
    pub(super) previous: u64,
    pub(super) previous_end: u64,
    pub(super) floor: u64,
    pub(super) envelope: Option<Envelope>,
}

/// Why a header cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Written by a later version.
    Version(u16),
    /// Not what was written.
    Damaged,
}

impl Header {
    /// Identity of the frames of the segment.
    pub(super) fn identity(&self) -> Identity {
        Identity::new(&[self.sequence, self.stamp])
    }

    /// All bytes before the first frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&if self.envelope.is_some() { SEALED } else { 0 }.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        for number in [self.sequence, self.stamp, self.previous, self.previous_end, self.floor] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.extend_from_slice(&self.envelope.unwrap_or([0; ENVELOPE_BYTES]));
        let sum = record::checksum(Identity::new(&[self.sequence]), 0, &header);
        header.extend_from_slice(&sum.to_le_bytes());
        let mut page = vec![0; DATA_START as usize];
        page[..HEADER_BYTES].copy_from_slice(&header);
        page[HEADER_COPY..HEADER_COPY + HEADER_BYTES].copy_from_slice(&header);
        page
    }

    /// From the bytes before the first frame of the segment with this sequence.
    pub(super) fn decode(page: &[u8], sequence: u64) -> Result<Self, HeaderFault> {
        match Self::decode_copy(page, sequence) {
            Err(HeaderFault::Damaged) => {
                Self::decode_copy(page.get(HEADER_COPY..).unwrap_or_default(), sequence)
            }
            result => result,
        }
    }

    fn decode_copy(bytes: &[u8], sequence: u64) -> Result<Self, HeaderFault> {
        let Some(bytes) = bytes.get(..HEADER_BYTES) else { return Err(HeaderFault::Damaged) };
        let (fields, sum) = bytes.split_at(HEADER_BYTES - 8);
        let version = u16::from_le_bytes([fields[8], fields[9]]);
        if !fields.starts_with(MAGIC) {
            return Err(HeaderFault::Damaged);
        }
        if u64_at(sum, 0) != record::checksum(Identity::new(&[sequence]), 0, fields) {
            return Err(HeaderFault::Damaged);
        }
        if version > VERSION {
            return Err(HeaderFault::Version(version));
        }
        let mut envelope = [0; ENVELOPE_BYTES];
        envelope.copy_from_slice(&fields[ENVELOPE_AT..]);
        let is_sealed = u16::from_le_bytes([fields[10], fields[11]]) & SEALED != 0;
        Ok(Self {
            sequence: u64_at(fields, 16),
            stamp: u64_at(fields, 24),
            previous: u64_at(fields, 32),
            previous_end: u64_at(fields, 40),
            floor: u64_at(fields, 48),
            envelope: is_sealed.then_some(envelope),
        })
    }
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// Something of the owner.
    Record(Record<'a>),
    /// This segment was synced up to here.
    Mark(u64),
    /// That segment follows.
    Closed(u64),
    /// No older segment need exist.
    Floor(u64),
}

impl<'a> Body<'a> {
    /// Bytes that it takes.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Record(Record::Entry { payload, .. }) => ENTRY_FIXED + payload.len(),
            Self::Record(Record::HardState { .. }) => 33,
            Self::Record(Record::Released { .. }) => 33,
            Self::Record(Record::Removed { .. }) => 9,
            Self::Mark(_) | Self::Closed(_) | Self::Floor(_) => NOTE_BYTES,
        }
    }

    /// Appends it to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |kind: u8, numbers: &[u64]| {
            out.push(kind);
            numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        };
        match *self {
            Self::Record(Record::Entry { group, index, term, payload }) => {
                put(ENTRY, &[group.0, index, term]);
                out.extend_from_slice(payload);
            }
            Self::Record(Record::HardState { group, state }) => {
                put(HARD_STATE, &[group.0, state.term, state.vote, state.commit]);
            }
            Self::Record(Record::Released { group, index, term, checkpoint }) => {
                put(RELEASED, &[group.0, index, term, checkpoint]);
            }
            Self::Record(Record::Removed { group }) => put(REMOVED, &[group.0]),
            Self::Mark(offset) => put(MARK, &[offset]),
            Self::Closed(next) => put(CLOSED, &[next]),
            Self::Floor(oldest) => put(FLOOR, &[oldest]),
        }
    }

    /// `None` if these are not the bytes of any.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let numbers = |count: usize| (rest.len() == count * 8).then_some(rest);
        Some(match *kind {
            ENTRY => {
                let (fields, payload) = rest.split_at_checked(ENTRY_FIXED - 1)?;
                let group = GroupId(u64_at(fields, 0));
                Self::Record(Record::Entry {
                    group,
                    index: u64_at(fields, 8),
                    term: u64_at(fields, 16),
                    payload,
                })
            }
            HARD_STATE => {
                let fields = numbers(4)?;
                let state = HardState {
                    term: u64_at(fields, 8),
                    vote: u64_at(fields, 16),
                    commit: u64_at(fields, 24),
                };
                Self::Record(Record::HardState { group: GroupId(u64_at(fields, 0)), state })
            }
            RELEASED => {
                // Segments of version 1 do not name the checkpoint.
                let (fields, checkpoint) = match numbers(4) {
                    Some(fields) => (fields, u64_at(fields, 24)),
                    None => (numbers(3)?, 0),
                };
                let (index, term) = (u64_at(fields, 8), u64_at(fields, 16));
                Self::Record(Record::Released { group: GroupId(u64_at(fields, 0)), index, term, checkpoint })
            }
            REMOVED => Self::Record(Record::Removed { group: GroupId(u64_at(numbers(1)?, 0)) }),
            MARK => Self::Mark(u64_at(numbers(1)?, 0)),
            CLOSED => Self::Closed(u64_at(numbers(1)?, 0)),
            FLOOR => Self::Floor(u64_at(numbers(1)?, 0)),
            _ => return None,
        })
    }
}

/// The next multiple of [`ALIGN`].
pub(super) fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_from_either_copy() {
        for envelope in [None, Some([7; ENVELOPE_BYTES])] {
            let header =
                Header { sequence: 9, stamp: 1, previous: 8, previous_end: 5000, floor: 3, envelope };
            let page = header.encode();
            for bit in 0..page.len() * 8 {
                let mut bad = page.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&bad, 9).as_ref(), Ok(&header), "bit {bit}");
            }
            let mut bad = page;
            bad[20] ^= 1;
            bad[HEADER_COPY + 20] ^= 1;
            assert_eq!(Header::decode(&bad, 9), Err(HeaderFault::Damaged));
        }
    }

    #[test]
    fn a_header_of_another_file_or_version_is_refused() {
        let header =
            Header { sequence: 9, stamp: 1, previous: 8, previous_end: 5000, floor: 3, envelope: None };
        assert_eq!(Header::decode(&header.encode(), 8), Err(HeaderFault::Damaged));
        assert_eq!(Header::decode(&header.encode()[..100], 9), Err(HeaderFault::Damaged));
        let mut later = header.encode();
        later[8] = VERSION as u8 + 1;
        let sum = record::checksum(Identity::new(&[9]), 0, &later[..HEADER_BYTES - 8]);
        later[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Header::decode(&later, 9), Err(HeaderFault::Version(VERSION + 1)));
    }

    #[test]
    fn bodies_come_back_and_nothing_else_does() {
        let group = GroupId(5);
        let bodies = [
            Body::Record(Record::Entry { group, index: 1, term: 2, payload: b"" }),
            Body::Record(Record::Entry { group, index: 1, term: 2, payload: b"payload" }),
            Body::Record(Record::HardState { group, state: HardState { term: 1, vote: 2, commit: 3 } }),
            Body::Record(Record::Released { group, index: 1, term: 2, checkpoint: 3 }),
            Body::Record(Record::Removed { group }),
            Body::Mark(1),
            Body::Closed(2),
            Body::Floor(3),
        ];
        for body in bodies {
            let mut bytes = Vec::new();
            body.encode(&mut bytes);
            assert_eq!(bytes.len(), body.length());
            assert_eq!(Body::decode(&bytes), Some(body));
            if !matches!(body, Body::Record(Record::Entry { .. })) {
                assert_eq!(Body::decode(&bytes[..bytes.len() - 1]), None);
            }
        }
        let released =
            [&[RELEASED][..], &[5, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0], &[2; 8]].concat();
        let term = u64::from_le_bytes([2; 8]);
        let first_version = Record::Released { group, index: 1, term, checkpoint: 0 };
        assert_eq!(Body::decode(&released), Some(Body::Record(first_version)));
        assert_eq!(Body::decode(&[0; 9]), None);
        assert_eq!(Body::decode(&[]), None);
        assert_eq!(Body::decode(&[ENTRY; 20]), None);
    }
}
