//! What members of groups tell each other, and the batches that carry it.
//!
//! A batch holds everything that one node has for another at the end of a turn, of all groups. A batch without messages is a beat: it says
//! that the sender lives ([`crate::heartbeat`]).
//!
//! ```text
//! batch    version (1 byte, 1)  checksum (4 bytes, little endian, CRC-32 of all that follows)  message*
//! message  kind (1 byte, below)  fields (1 byte: which of the six numbers follow)  group  number*  [count  entry*]
//! entry    term  length  payload
//! ```
//! Numbers are in base 128, lowest first, the top bit saying that more follows. Entries are there for an append only; their indexes follow the
//! message's `index`. Top bit of the kind: rejected.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::start::{Entry, GroupId, PeerId};

/// The only version there is.
const VERSION: u8 = 1;
/// Version and checksum.
pub(crate) const HEADER_LEN: usize = 5;
const REJECT: u8 = 0x80;
/// Numbers above this are nobody's honest index or term; refusing them here lets the engine add to them.
const NUMBER_MAX: u64 = 1 << 62;
/// A payload of at least this part of its batch shares the batch's memory; a smaller one is copied, so that it does not keep the batch alive.
const SHARE_PART: usize = 4;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Append,
    AppendResponse,
    Vote,
    VoteResponse,
    PreVote,
    PreVoteResponse,
    Heartbeat,
    HeartbeatResponse,
    /// The leader of `term` sees all members at `commit`, with nothing to do: stop ticking.
    Hibernate,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Append,
        Self::AppendResponse,
        Self::Vote,
        Self::VoteResponse,
        Self::PreVote,
        Self::PreVoteResponse,
        Self::Heartbeat,
        Self::HeartbeatResponse,
        Self::Hibernate,
    ];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// One message of one group, from one member to another. What a number means depends on the kind, as in the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) group: GroupId,
    pub(crate) to: PeerId,
    pub(crate) kind: Kind,
    pub(crate) reject: bool,
    pub(crate) term: u64,
    pub(crate) log_term: u64,
    pub(crate) index: u64,
    pub(crate) commit: u64,
    pub(crate) commit_term: u64,
    pub(crate) reject_hint: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Message {
    pub(crate) fn new(group: GroupId, to: PeerId, kind: Kind) -> Self {
        Self {
            group,
            to,
            kind,
            reject: false,
            term: 0,
            log_term: 0,
            index: 0,
            commit: 0,
            commit_term: 0,
            reject_hint: 0,
            entries: Vec::new(),
        }
    }

    fn numbers(&self) -> [u64; 6] {
        [self.term, self.log_term, self.index, self.commit, self.commit_term, self.reject_hint]
    }

    /// Puts the message at the end of a batch begun with [`begin_batch`].
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        out.put_u8(self.kind.code() | if self.reject { REJECT } else { 0 });
        let numbers = self.numbers();
        let fields =
            numbers.iter().enumerate().fold(0, |fields, (at, number)| fields | u8::from(*number != 0) << at);
        out.put_u8(fields);
        put_number(out, self.group.0);
        for number in numbers.into_iter().filter(|number| *number != 0) {
            put_number(out, number);
        }
        if self.kind != Kind::Append {
            assert!(self.entries.is_empty(), "{:?} of group {} carries entries", self.kind, self.group.0);
            return;
        }
        put_number(out, self.entries.len() as u64);
        for (at, entry) in self.entries.iter().enumerate() {
            assert!(
                entry.index == self.index + 1 + at as u64,
                "append behind {} has entry {}",
                self.index,
                entry.index
            );
            put_number(out, entry.term);
            put_number(out, entry.payload.len() as u64);
            out.put_slice(&entry.payload);
        }
    }
}

/// Why bytes are no batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It ends too early.
    #[error("batch ends within a message, {missing} bytes or more are missing")]
    Short {
        /// The least that is missing.
        missing: usize,
    },
    /// Of another version.
    #[error("batch has version {version}, expected 1")]
    Version {
        /// The version it claims.
        version: u8,
    },
    /// Damaged.
    #[error("batch has checksum {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// What the batch says.
        found: u32,
        /// What its bytes give.
        expected: u32,
    },
    /// A message of a kind that this version does not know.
    #[error("message has unknown kind {code}")]
    Kind {
        /// The kind.
        code: u8,
    },
    /// A number that no honest member sends.
    #[error("number {number} is out of range")]
    Number {
        /// The number.
        number: u64,
    },
    /// Terms of an append that cannot be.
    #[error("entry {index} has term {term}, expected {floor} to {ceiling}")]
    Term {
        /// Index of the entry.
        index: u64,
        /// Its term.
        term: u64,
        /// The term before it.
        floor: u64,
        /// The term of the leader.
        ceiling: u64,
    },
}

/// Begins a batch: messages are encoded behind this.
pub(crate) fn begin_batch(out: &mut BytesMut) {
    out.put_u8(VERSION);
    out.put_u32_le(0);
}

/// Ends the batch that fills `out`, and takes it out.
pub(crate) fn end_batch(out: &mut BytesMut) -> Bytes {
    let checksum = crc32fast::hash(&out[HEADER_LEN..]);
    out[1..HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
    out.split().freeze()
}

/// Takes a batch apart. `to` is this node.
pub(crate) fn decode_batch(batch: Bytes, to: PeerId) -> Result<Vec<Message>, DecodeError> {
    let size = batch.len();
    if size < HEADER_LEN {
        return Err(DecodeError::Short { missing: HEADER_LEN - size });
    }
    let mut reader = Reader { rest: batch, batch_len: size };
    let version = reader.rest.get_u8();
    if version != VERSION {
        return Err(DecodeError::Version { version });
    }
    let found = reader.rest.get_u32_le();
    let expected = crc32fast::hash(&reader.rest);
    if found != expected {
        return Err(DecodeError::Checksum { found, expected });
    }
    let mut messages = Vec::new();
    while reader.rest.has_remaining() {
        messages.push(reader.message(to)?);
    }
    Ok(messages)
}

struct Reader {
    rest: Bytes,
    batch_len: usize,
}

impl Reader {
    fn message(&mut self, to: PeerId) -> Result<Message, DecodeError> {
        let head = self.byte()?;
        let code = head & !REJECT;
        let kind = Kind::from_code(code).ok_or(DecodeError::Kind { code })?;
        let fields = self.byte()?;
        let mut message = Message::new(GroupId(self.number(u64::MAX)?), to, kind);
        message.reject = head & REJECT != 0;
        let mut numbers = [0; 6];
        for (at, number) in numbers.iter_mut().enumerate() {
            if fields & (1 << at) != 0 {
                *number = self.number(NUMBER_MAX)?;
            }
        }
        [
            message.term,
            message.log_term,
            message.index,
            message.commit,
            message.commit_term,
            message.reject_hint,
        ] = numbers;
        // The engine takes a message without a term for one of its own.
        if message.term == 0 {
            return Err(DecodeError::Number { number: 0 });
        }
        if kind == Kind::Append {
            self.entries(&mut message)?;
        }
        Ok(message)
    }

    fn entries(&mut self, message: &mut Message) -> Result<(), DecodeError> {
        let count = self.number(NUMBER_MAX)?;
        // An entry takes two bytes at least, so this bounds what is allocated.
        if count > self.rest.len() as u64 / 2 {
            return Err(DecodeError::Short { missing: 1 });
        }
        message.entries.reserve_exact(count as usize);
        let mut floor = message.log_term.max(1);
        for at in 0..count {
            let index = message.index + 1 + at;
            let term = self.number(NUMBER_MAX)?;
            if term < floor || term > message.term {
                return Err(DecodeError::Term { index, term, floor, ceiling: message.term });
            }
            floor = term;
            message.entries.push(Entry { index, term, payload: self.payload()? });
        }
        Ok(())
    }

    fn payload(&mut self) -> Result<Bytes, DecodeError> {
        let len = self.number(u64::from(u32::MAX))? as usize;
        if len > self.rest.len() {
            return Err(DecodeError::Short { missing: len - self.rest.len() });
        }
        let shared = self.rest.split_to(len);
        Ok(if len * SHARE_PART >= self.batch_len { shared } else { Bytes::copy_from_slice(&shared) })
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        if self.rest.is_empty() {
            return Err(DecodeError::Short { missing: 1 });
        }
        Ok(self.rest.get_u8())
    }

    fn number(&mut self, max: u64) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(DecodeError::Number { number: u64::MAX });
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return if number > max { Err(DecodeError::Number { number }) } else { Ok(number) };
            }
        }
        Err(DecodeError::Number { number: u64::MAX })
    }
}

fn put_number(out: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: PeerId = PeerId(9);

    fn append() -> Message {
        let mut message = Message::new(GroupId(u64::MAX), OWN, Kind::Append);
        message.term = 300;
        message.log_term = 7;
        message.index = 127;
        message.commit = NUMBER_MAX;
        message.entries = vec![
            Entry { index: 128, term: 7, payload: Bytes::new() },
            Entry { index: 129, term: 300, payload: Bytes::from(vec![1; 200]) },
        ];
        message
    }

    fn refusal() -> Message {
        let mut message = Message::new(GroupId(0), OWN, Kind::AppendResponse);
        message.term = 1;
        message.index = 12;
        message.reject = true;
        message.reject_hint = 11;
        message.log_term = 1;
        message
    }

    fn batch(messages: &[Message]) -> Bytes {
        let mut out = BytesMut::new();
        begin_batch(&mut out);
        messages.iter().for_each(|message| message.encode(&mut out));
        end_batch(&mut out)
    }

    /// The bytes as a batch with a good checksum.
    fn sealed(body: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        begin_batch(&mut out);
        out.put_slice(body);
        end_batch(&mut out)
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let mut messages = vec![append(), refusal()];
        for kind in Kind::ALL {
            let mut message = Message::new(GroupId(5), OWN, kind);
            message.term = 2;
            message.commit_term = 1;
            messages.push(message);
        }
        assert_eq!(decode_batch(batch(&messages), OWN), Ok(messages));
        assert_eq!(decode_batch(batch(&[]), OWN), Ok(Vec::new()));
    }

    #[test]
    fn layout_of_version_one() {
        let sample = [1, 253, 138, 85, 26, 0x82, 0x27, 0, 1, 1, 12, 11];
        assert_eq!(batch(&[refusal()])[..], sample);
    }

    #[test]
    fn small_payloads_do_not_keep_a_large_batch() {
        let big = batch(&[append()]);
        let within = |payload: &Bytes| big.as_ptr_range().contains(&payload.as_ptr());
        assert!(within(&decode_batch(big.clone(), OWN).unwrap()[0].entries[1].payload));
        let mut small = append();
        small.entries[1].payload = Bytes::from_static(b"small");
        let big = batch(&[append(), small]);
        let within = |payload: &Bytes| big.as_ptr_range().contains(&payload.as_ptr());
        let messages = decode_batch(big.clone(), OWN).unwrap();
        assert!(within(&messages[0].entries[1].payload));
        assert!(!within(&messages[1].entries[1].payload));
    }

    #[test]
    fn every_damage_is_noticed() {
        let good = batch(&[append(), refusal()]);
        for at in 0..good.len() {
            let mut bad = BytesMut::from(&good[..]);
            bad[at] ^= 0x10;
            assert!(decode_batch(bad.freeze(), OWN).is_err(), "byte {at}");
            assert!(decode_batch(good.slice(..at), OWN).is_err(), "cut at {at}");
        }
        assert_eq!(decode_batch(good.slice(..3), OWN), Err(DecodeError::Short { missing: 2 }));
    }

    #[test]
    fn nonsense_with_a_good_checksum_is_refused() {
        let cases: [(&[u8], DecodeError); 8] = [
            (&[10, 0, 0], DecodeError::Kind { code: 10 }),
            (&[0, 0, 0], DecodeError::Kind { code: 0 }),
            // No term.
            (&[7, 0, 1], DecodeError::Number { number: 0 }),
            // A term above the bound.
            (
                &[7, 1, 1, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40],
                DecodeError::Number { number: NUMBER_MAX + 1 },
            ),
            (
                &[7, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
                DecodeError::Number { number: u64::MAX },
            ),
            // More entries than fit.
            (&[1, 1, 1, 1, 100, 1, 0], DecodeError::Short { missing: 1 }),
            // An entry of a later term than its leader's.
            (&[1, 1, 1, 1, 1, 2, 0], DecodeError::Term { index: 1, term: 2, floor: 1, ceiling: 1 }),
            // A payload that is not there.
            (&[1, 1, 1, 1, 1, 1, 9, 0], DecodeError::Short { missing: 8 }),
        ];
        for (body, error) in cases {
            assert_eq!(decode_batch(sealed(body), OWN), Err(error), "{body:?}");
        }
    }
}
