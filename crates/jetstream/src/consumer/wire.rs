//! Numbers and byte strings of the formats of this room: base-128 numbers, lowest bits first; strings with their length in front.

use bytes::{BufMut, BytesMut};

/// Most bytes of an encoded number.
const VARINT_BYTES_MAX: u32 = 10;

/// Where encoded values go.
pub(super) trait Put {
    /// One byte.
    fn put_byte(&mut self, byte: u8);
    /// Bytes as they are.
    fn put_raw(&mut self, bytes: &[u8]);

    /// A number.
    fn put_number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_byte(value as u8);
    }

    /// A number that may be negative but is small mostly.
    fn put_signed(&mut self, value: i64) {
        self.put_number((value.wrapping_shl(1) ^ (value >> 63)) as u64);
    }

    /// A byte string.
    fn put_string(&mut self, bytes: &[u8]) {
        self.put_number(bytes.len() as u64);
        self.put_raw(bytes);
    }
}

impl Put for BytesMut {
    #[inline]
    fn put_byte(&mut self, byte: u8) {
        self.put_u8(byte);
    }

    fn put_raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Put for Vec<u8> {
    #[inline]
    fn put_byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn put_raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Reads what `Put` wrote. Every method gives `None` when the bytes end early or make no sense.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for position in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << (7 * position);
            if shifted >> (7 * position) != bits {
                return None;
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (string, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(string)
    }

    /// How many of something follow, each of at least one byte: a larger count is nonsense.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_a_round_trip() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            out.put_number(value);
            out.put_signed(value as i64);
            let mut reader = Reader(&out);
            assert_eq!(reader.number(), Some(value));
            assert_eq!(reader.signed(), Some(value as i64));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn broken_bytes_give_nothing() {
        assert_eq!(Reader(&[0x80]).number(), None);
        assert_eq!(Reader(&[0xff; 11]).number(), None);
        assert_eq!(Reader(&[3, b'a']).string(), None);
        assert_eq!(Reader(&[9, 0]).count(), None);
    }
}
