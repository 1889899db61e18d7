//! A message as bytes of a block.
//!
//! ```text
//! length u32 | checksum u32 | sequence u64 | timestamp i64 | subject length u32 | flags u8 | 0 u8
//! | headers length u32, if flagged | expiry i64, if flagged | subject | headers | payload
//! ```
//!
//! Numbers are little-endian. The length is that of the whole record. The fixed part is 30 bytes and the length of the headers takes four more, so
//! without its expiry a record is exactly as long as users are told the message is (jetstream-api, section 18): sizes come from positions alone.
//! The checksum covers what follows it and starts from the identity of the stream, so that a record of another stream is seen.

use bytes::{Buf, Bytes};

use crate::Timestamp;
use crate::record::Identity;
use crate::stream::{Append, Expiry, Message};

/// Length of the fixed part.
pub(super) const FIXED: usize = 30;
/// Length of an expiry inside a record, which users are not told of.
pub(super) const EXPIRY: usize = 8;

const HEADERS: u8 = 1;
const EXPIRES: u8 = 2;
const NEVER: u8 = 4;
const ERASED: u8 = 8;
/// Bytes before what the checksum covers.
const COVERED_FROM: usize = 8;

/// Half of the checksum over what it covers: with the identity it is one in four thousand million that damage goes unseen.
#[inline]
fn checksum(identity: Identity, record: &[u8]) -> u32 {
    crate::record::checksum(identity, 0, &record[COVERED_FROM..]) as u32
}

/// Length of the record of a message.
pub(super) fn length(message: &Append<'_>) -> usize {
    let headers = if message.headers.is_empty() { 0 } else { 4 + message.headers.len() };
    let expiry = if matches!(message.expiry, Expiry::At(_)) { EXPIRY } else { 0 };
    FIXED + headers + expiry + message.subject.len() + message.payload.len()
}

/// Appends the record of a message to `out`. The caller has made sure that its length fits 32 bits.
pub(super) fn encode(identity: Identity, message: &Append<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let length = length(message);
    out.reserve(length);
    let mut fixed = [0u8; FIXED];
    fixed[..4].copy_from_slice(&(length as u32).to_le_bytes());
    fixed[8..16].copy_from_slice(&message.sequence.to_le_bytes());
    fixed[16..24].copy_from_slice(&message.timestamp.0.to_le_bytes());
    fixed[24..28].copy_from_slice(&(message.subject.len() as u32).to_le_bytes());
    let headers = if message.headers.is_empty() { 0 } else { HEADERS };
    fixed[28] = headers
        | match message.expiry {
            Expiry::MaxAge => 0,
            Expiry::At(_) => EXPIRES,
            Expiry::Never => NEVER,
        };
    out.extend_from_slice(&fixed);
    if headers != 0 {
        out.extend_from_slice(&(message.headers.len() as u32).to_le_bytes());
    }
    if let Expiry::At(time) = message.expiry {
        out.extend_from_slice(&time.0.to_le_bytes());
    }
    out.extend_from_slice(message.subject);
    out.extend_from_slice(message.headers);
    out.extend_from_slice(message.payload);
    let sum = checksum(identity, &out[start..]);
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

/// A record of the same length and sequence as the one in `record`, without anything of the message.
pub(super) fn erase(identity: Identity, sequence: u64, record: &mut [u8]) {
    assert!(record.len() >= FIXED, "a record of {} bytes to erase", record.len());
    let length = record.len() as u32;
    record.fill(0);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    record[28] = ERASED;
    let sum = checksum(identity, record);
    record[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// What a checked record says, with positions of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    pub sequence: u64,
    pub timestamp: Timestamp,
    pub expiry: Expiry,
    /// Nothing is left of the message.
    pub erased: bool,
    /// Where the subject, the headers and the payload begin, and the record ends.
    pub subject: usize,
    pub headers: usize,
    pub payload: usize,
    pub end: usize,
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The time in the record at the start of `bytes`, without a look at the checksum.
pub(super) fn timestamp(bytes: &[u8]) -> Option<Timestamp> {
    u64_at(bytes, 16).map(|time| Timestamp(time.cast_signed()))
}

/// Length and sequence that the damaged record at the start of `bytes` gives itself, if the length can be one.
pub(super) fn claim(bytes: &[u8]) -> Option<(u32, u64)> {
    let (length, sequence) = (u32_at(bytes, 0)?, u64_at(bytes, 8)?);
    (FIXED..=bytes.len()).contains(&(length as usize)).then_some((length, sequence))
}

/// Reads and checks the record at the start of `bytes`; why it cannot be one, if it is not.
pub(super) fn parse(identity: Identity, bytes: &[u8]) -> Result<Parts, &'static str> {
    let length = u32_at(bytes, 0).ok_or("record cut short")? as usize;
    if length < FIXED || length > bytes.len() {
        return Err("impossible record length");
    }
    let record = &bytes[..length];
    if u32_at(record, 4) != Some(checksum(identity, record)) {
        return Err("record checksum differs");
    }
    layout(record).ok_or("record parts do not fit its length")
}

fn layout(record: &[u8]) -> Option<Parts> {
    let flags = record[28];
    let subject_length = u32_at(record, 24)? as usize;
    let mut at = FIXED;
    let mut headers_length = 0;
    if flags & HEADERS != 0 {
        headers_length = u32_at(record, at)? as usize;
        at += 4;
    }
    let mut expiry = if flags & NEVER != 0 { Expiry::Never } else { Expiry::MaxAge };
    if flags & EXPIRES != 0 {
        expiry = Expiry::At(Timestamp(u64_at(record, at)?.cast_signed()));
        at += EXPIRY;
    }
    let headers = at.checked_add(subject_length)?;
    let payload = headers.checked_add(headers_length)?;
    (payload <= record.len()).then_some(Parts {
        sequence: u64_at(record, 8)?,
        timestamp: timestamp(record)?,
        expiry,
        erased: flags & ERASED != 0,
        subject: at,
        headers,
        payload,
        end: record.len(),
    })
}

impl Parts {
    /// The message, as slices of its record.
    pub(super) fn message(&self, mut record: Bytes) -> Message {
        // The last slice is the handle itself: one count of references less to be kept.
        record.truncate(self.end);
        let subject = record.slice(self.subject..self.headers);
        let headers = if self.headers == self.payload {
            Bytes::new()
        } else {
            record.slice(self.headers..self.payload)
        };
        record.advance(self.payload);
        let (sequence, timestamp) = (self.sequence, self.timestamp);
        Message { sequence, timestamp, subject, headers, payload: record }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(expiry: Expiry, headers: &'static [u8]) -> Append<'static> {
        Append { sequence: 7, timestamp: Timestamp(-5), subject: b"a.b", headers, payload: b"body", expiry }
    }

    #[test]
    fn record_comes_back_and_is_as_long_as_users_are_told() {
        for (expiry, extra) in [(Expiry::MaxAge, 0), (Expiry::At(Timestamp(99)), EXPIRY), (Expiry::Never, 0)]
        {
            for headers in [&b""[..], b"NATS/1.0\r\n\r\n"] {
                let (message, mut out) = (sample(expiry, headers), Vec::new());
                encode(Identity::new(&[1]), &message, &mut out);
                let told = 30 + 3 + 4 + if headers.is_empty() { 0 } else { 4 + headers.len() };
                assert_eq!(out.len(), told + extra);
                let parts = parse(Identity::new(&[1]), &out).unwrap();
                assert_eq!((parts.expiry, parts.erased), (expiry, false));
                let back = parts.message(Bytes::from(out));
                assert_eq!((back.sequence, back.timestamp), (7, Timestamp(-5)));
                assert_eq!(
                    (&*back.subject, &*back.headers, &*back.payload),
                    (&b"a.b"[..], headers, &b"body"[..])
                );
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_other_stream_is_seen() {
        let mut out = Vec::new();
        encode(Identity::new(&[1]), &sample(Expiry::MaxAge, b"h"), &mut out);
        assert!(parse(Identity::new(&[2]), &out).is_err());
        for bit in 0..out.len() * 8 {
            let mut damaged = out.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(Identity::new(&[1]), &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn erased_record_keeps_length_and_sequence_only() {
        let mut out = Vec::new();
        encode(Identity::new(&[1]), &sample(Expiry::At(Timestamp(3)), b"h"), &mut out);
        let before = out.len();
        erase(Identity::new(&[1]), 7, &mut out);
        let parts = parse(Identity::new(&[1]), &out).unwrap();
        assert!(parts.erased && parts.sequence == 7 && parts.end == before);
        assert!(!out.windows(4).any(|window| window == b"body"));
    }
}
