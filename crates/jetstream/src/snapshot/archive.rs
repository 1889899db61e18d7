//! The archive: eight bytes that name it, then entries, each with numbers, a name and a body in two parts.
//!
//! The first entry is the state of the stream, then come consumers, then messages in the order of their sequences; an entry of nothing but zeros
//! is the end.

use bytes::{Buf, Bytes, BytesMut};

use super::Error;

/// First bytes of an archive.
pub const MAGIC: &[u8; 8] = b"NATSARC1";
/// Name of the first entry.
pub const STATE: &[u8] = b"state.json";
/// In front of the name of a consumer.
pub const CONSUMER: &[u8] = b"consumers/";
/// Longest name: of a subject that a server could take.
pub const NAME_BYTES_MAX: usize = 64 << 10;

/// Bytes of the longest number.
const NUMBER_BYTES_MAX: usize = 10;

/// An entry, whose body may not have come yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Time in nanoseconds since 1970.
    pub timestamp: i64,
    /// Sequence of a message; zero for what is none.
    pub sequence: u64,
    /// Bytes of the body's first part, the header block of a message.
    pub headers: usize,
    /// Bytes of the body's second part.
    pub payload: usize,
    /// Bytes of the name.
    pub name: usize,
}

impl Header {
    /// Is it the end of the archive?
    pub fn is_end(&self) -> bool {
        *self == Self::default()
    }
}

/// A whole entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Name: of a part of the archive, or the subject of a message.
    pub name: Bytes,
    /// Time in nanoseconds since 1970.
    pub timestamp: i64,
    /// Sequence of a message; zero for what is none.
    pub sequence: u64,
    /// First part of the body.
    pub headers: Bytes,
    /// Second part of the body.
    pub payload: Bytes,
}

impl Entry {
    /// Appends it. The first entry of an archive needs `MAGIC` in front.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        put_number(out, self.name.len() as u64);
        put_number(out, (self.timestamp.wrapping_shl(1) ^ (self.timestamp >> 63)) as u64);
        put_number(out, self.sequence);
        put_number(out, self.headers.len() as u64);
        put_number(out, self.payload.len() as u64);
        out.extend_from_slice(&self.name);
    }
}

fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads entries from bytes, cut anywhere.
#[derive(Debug, Default)]
pub struct Reader {
    input: BytesMut,
    begun: bool,
    header: Option<Header>,
}

impl Reader {
    /// Takes bytes. They wait until the entry that they belong to is taken.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Does it hold nothing that was not taken?
    pub fn is_empty(&self) -> bool {
        self.input.is_empty() && self.header.is_none()
    }

    /// The next entry without its name and body, so that one that is too large is refused before it is there. `None` if more bytes are needed.
    pub fn peek(&mut self) -> Result<Option<Header>, Error> {
        if !self.begun {
            let there = self.input.len().min(MAGIC.len());
            if self.input[..there] != MAGIC[..there] {
                return Err(Error::Format);
            }
            if there < MAGIC.len() {
                return Ok(None);
            }
            self.input.advance(MAGIC.len());
            self.begun = true;
        }
        if self.header.is_none() {
            self.header = self.read_header()?;
        }
        Ok(self.header)
    }

    fn read_header(&mut self) -> Result<Option<Header>, Error> {
        let mut numbers = [0u64; 5];
        let mut rest = &self.input[..];
        for number in &mut numbers {
            match read_number(rest)? {
                Some((value, length)) => {
                    *number = value;
                    rest = &rest[length..];
                }
                None => return Ok(None),
            }
        }
        let used = self.input.len() - rest.len();
        self.input.advance(used);
        let [name, timestamp, sequence, headers, payload] = numbers;
        let size = |number: u64| usize::try_from(i64::try_from(number).ok()?).ok();
        let (Some(name), Some(headers), Some(payload)) = (size(name), size(headers), size(payload)) else {
            return Err(Error::Entry);
        };
        if name > NAME_BYTES_MAX
            || headers.checked_add(payload).and_then(|body| body.checked_add(name)).is_none()
        {
            return Err(Error::Entry);
        }
        let timestamp = (timestamp >> 1) as i64 ^ -((timestamp & 1) as i64);
        Ok(Some(Header { timestamp, sequence, headers, payload, name }))
    }

    /// The next entry. `None` if more bytes are needed.
    pub fn take(&mut self) -> Result<Option<Entry>, Error> {
        let Some(header) = self.peek()? else { return Ok(None) };
        let Header { timestamp, sequence, headers, payload, name } = header;
        if self.input.len() < name + headers + payload {
            return Ok(None);
        }
        self.header = None;
        let mut body = self.input.split_to(name + headers + payload).freeze();
        let name = body.split_to(name);
        let headers = body.split_to(headers);
        Ok(Some(Entry { name, timestamp, sequence, headers, payload: body }))
    }
}

/// A number and its length.
fn read_number(bytes: &[u8]) -> Result<Option<(u64, usize)>, Error> {
    let mut value = 0u64;
    for (position, byte) in bytes.iter().take(NUMBER_BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * position);
        if shifted >> (7 * position) != bits {
            return Err(Error::Entry);
        }
        value |= shifted;
        if byte & 0x80 == 0 {
            return Ok(Some((value, position + 1)));
        }
    }
    if bytes.len() >= NUMBER_BYTES_MAX { Err(Error::Entry) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(entries: &[Entry]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for entry in entries {
            entry.encode_head(&mut out);
            out.extend_from_slice(&entry.headers);
            out.extend_from_slice(&entry.payload);
        }
        out
    }

    fn decode(bytes: &[u8], cut: usize) -> Result<Vec<Entry>, Error> {
        let (mut reader, mut entries) = (Reader::default(), Vec::new());
        for part in bytes.chunks(cut) {
            reader.push(part);
            while let Some(entry) = reader.take()? {
                entries.push(entry);
            }
        }
        assert!(reader.is_empty());
        Ok(entries)
    }

    #[test]
    fn entries_come_back_whatever_the_cuts() {
        let entries = [
            Entry {
                name: STATE.into(),
                timestamp: i64::MAX,
                payload: b"{}".as_slice().into(),
                ..Entry::default()
            },
            Entry {
                name: b"a.b".as_slice().into(),
                timestamp: i64::MIN,
                sequence: u64::MAX,
                headers: b"NATS/1.0\r\n\r\n".as_slice().into(),
                payload: vec![1; 500].into(),
            },
            Entry::default(),
        ];
        let bytes = encode(&entries);
        assert_eq!(&bytes[bytes.len() - 5..], [0; 5]);
        for cut in [1, 3, 50, bytes.len()] {
            assert_eq!(decode(&bytes, cut).unwrap(), entries, "{cut}");
        }
    }

    #[test]
    fn bytes_of_the_reference() {
        // Head of an entry that nats-server wrote.
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(b"\x0a\xd8\xab\x96\x8f\xad\xf5\xb5\xed\x31\x00\x00\x02state.json{}");
        let entries = decode(&bytes, 7).unwrap();
        assert_eq!((&entries[0].name[..], entries[0].timestamp), (STATE, 1_796_210_390_723_644_140));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(decode(b"meta.inf", 1), Err(Error::Format));
        assert_eq!(decode(b"NATSARC2", 100), Err(Error::Format));
        let said = |head: &[u8]| decode(&[MAGIC, head].concat(), 100).unwrap_err();
        assert_eq!(said(&[0xff; 11]), Error::Entry);
        assert_eq!(said(&[0x81, 0x80, 0x04, 0, 0, 0, 0]), Error::Entry);
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(said(&[&[0, 0, 1, 0][..], &huge].concat()), Error::Entry);
        let half = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        let mut reader = Reader::default();
        reader.push(&[&MAGIC[..], &[0, 0, 1, 0], &half].concat());
        let header = reader.peek().unwrap().unwrap();
        assert_eq!((header.payload, header.is_end()), (i64::MAX as usize, false));
        assert_eq!(reader.take(), Ok(None));
    }
}
