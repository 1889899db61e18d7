//! The header that tells where a sourced message comes from, and how far each source is because of it.
//!
//! Every replica notes what it stores, so a new leader goes on where the old one stopped, whatever has been removed meanwhile.

use std::collections::BTreeMap;

use api::jetstream::stream::SEQUENCE_MAX;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::delivery::decimal;

/// Name of the header.
pub(crate) const SOURCE: &[u8] = b"Nats-Stream-Source";

/// Version of the item in a checkpoint.
const VERSION: u8 = 1;

/// What the header says: `<stream> <sequence> <filters> <destinations> <subject> [<identity>]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark<'a> {
    /// Name of the origin, and what tells it from others of that name.
    pub(crate) origin: &'a [u8],
    /// Sequence there.
    pub(crate) sequence: u64,
    filters: &'a [u8],
    destinations: &'a [u8],
    /// Subject there. Older headers lack it.
    pub(crate) subject: Option<&'a [u8]>,
    /// Which of all streams of that name it was; empty if it is not known.
    identity: &'a [u8],
}

impl<'a> Mark<'a> {
    /// Reads the value of the header.
    pub(crate) fn parse(value: &'a [u8]) -> Option<Self> {
        let mut fields = value.split(|byte| *byte == b' ');
        Some(Self {
            origin: fields.next()?,
            sequence: decimal(fields.next()?).filter(|sequence| *sequence <= SEQUENCE_MAX)?,
            filters: fields.next()?,
            destinations: fields.next()?,
            subject: fields.next(),
            identity: fields.next().unwrap_or_default(),
        })
    }

    /// Is it of this source?
    pub(crate) fn is_of(&self, index: &str) -> bool {
        index.split(' ').map(str::as_bytes).eq([self.origin, self.filters, self.destinations])
    }
}

/// The value of the header for a message of a source with this index name.
pub(crate) fn value(index: &str, sequence: u64, subject: &[u8], identity: &str) -> Vec<u8> {
    let (origin, filters) = index.split_once(' ').unwrap_or((index, ""));
    let mut value = Vec::with_capacity(index.len() + subject.len() + identity.len() + 24);
    value.extend_from_slice(origin.as_bytes());
    value.push(b' ');
    value.extend_from_slice(itoa::Buffer::new().format(sequence).as_bytes());
    value.push(b' ');
    value.extend_from_slice(filters.as_bytes());
    value.push(b' ');
    value.extend_from_slice(subject);
    if !identity.is_empty() {
        value.push(b' ');
        value.extend_from_slice(identity.as_bytes());
    }
    value
}

/// How far a source is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Sequence in the origin of the last message taken; zero for none.
    pub(crate) sequence: u64,
    /// Which of all streams of that name it was.
    pub(crate) identity: Box<str>,
}

impl From<Mark<'_>> for Position {
    fn from(mark: Mark<'_>) -> Self {
        Self { sequence: mark.sequence, identity: String::from_utf8_lossy(mark.identity).into() }
    }
}

/// How far the sources of a stream are, by index name.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    known: BTreeMap<Box<str>, Position>,
    /// They changed since the last checkpoint.
    dirty: bool,
    scratch: Vec<u8>,
}

impl Positions {
    /// Does the stream have sources?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// How far a source is.
    pub(crate) fn get(&self, index: &str) -> Option<&Position> {
        self.known.get(index)
    }

    /// A message with this header block value was stored.
    pub(crate) fn note(&mut self, value: &[u8]) {
        let Some(mark) = Mark::parse(value) else { return };
        self.scratch.clear();
        for part in [mark.origin, b" ", mark.filters, b" ", mark.destinations] {
            self.scratch.extend_from_slice(part);
        }
        let Ok(index) = std::str::from_utf8(&self.scratch) else { return };
        let Some(position) = self.known.get_mut(index) else { return };
        position.sequence = mark.sequence;
        if position.identity.as_bytes() != mark.identity {
            position.identity = String::from_utf8_lossy(mark.identity).into();
        }
        self.dirty = true;
    }

    /// Keeps those that are configured. Returns the ones that are new.
    pub(crate) fn configure(&mut self, indexes: &[Box<str>]) -> Vec<Box<str>> {
        self.known.retain(|index, _| indexes.contains(index));
        let fresh: Vec<Box<str>> =
            indexes.iter().filter(|index| !self.known.contains_key(*index)).cloned().collect();
        self.known.extend(fresh.iter().map(|index| (index.clone(), Position::default())));
        self.dirty = true;
        fresh
    }

    /// What was found out about a new one.
    pub(crate) fn set(&mut self, index: &str, position: Position) {
        if let Some(known) = self.known.get_mut(index) {
            *known = position;
        }
    }

    /// The item for a checkpoint, if it changed. The inner `None` removes it.
    pub(crate) fn changes(&mut self) -> Option<Option<Bytes>> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        if self.known.is_empty() {
            return Some(None);
        }
        let mut item = BytesMut::new();
        item.put_u8(VERSION);
        item.put_u32_le(self.known.len() as u32);
        for (index, position) in &self.known {
            put_text(&mut item, index);
            item.put_u64_le(position.sequence);
            put_text(&mut item, &position.identity);
        }
        Some(Some(item.freeze()))
    }

    /// Reads the item of a checkpoint. False if it cannot be read.
    pub(crate) fn restore(&mut self, mut item: Bytes) -> bool {
        if item.len() < 5 || item.get_u8() != VERSION {
            return false;
        }
        for _ in 0..item.get_u32_le() {
            let Some(index) = take_text(&mut item) else { return false };
            if item.len() < 8 {
                return false;
            }
            let sequence = item.get_u64_le();
            let Some(identity) = take_text(&mut item) else { return false };
            self.known.insert(index, Position { sequence, identity });
        }
        true
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u32_le(text.len() as u32);
    out.put_slice(text.as_bytes());
}

fn take_text(item: &mut Bytes) -> Option<Box<str>> {
    if item.len() < 4 {
        return None;
    }
    let length = item.get_u32_le() as usize;
    if item.len() < length {
        return None;
    }
    let text = item.split_to(length);
    std::str::from_utf8(&text).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_that_of_the_reference_and_comes_back() {
        let text = value("O o.* >", 2, b"o.2", "4zXHBLdM");
        assert_eq!(text, b"O 2 o.* > o.2 4zXHBLdM");
        let mark = Mark::parse(&text).unwrap();
        assert!(mark.is_of("O o.* >") && !mark.is_of("O > >") && !mark.is_of("O"));
        assert_eq!((mark.sequence, mark.subject), (2, Some(&b"o.2"[..])));
        assert_eq!(value("O > >", 1, b"o", ""), b"O 1 > > o");
        for bad in ["", "O", "O x > >", "O 1 >", "O 9223372036854775808 > >"] {
            assert_eq!(Mark::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn positions_follow_what_is_stored_of_known_sources() {
        let mut positions = Positions::default();
        assert_eq!(positions.configure(&["O > >".into(), "P > >".into()]).len(), 2);
        positions.note(b"O 5 > > o id1");
        positions.note(b"Q 9 > > o");
        positions.note(b"O 3 > > o id2");
        assert_eq!(positions.get("O > >"), Some(&Position { sequence: 3, identity: "id2".into() }));
        let item = positions.changes().unwrap().unwrap();
        assert_eq!(positions.changes(), None);
        let mut restored = Positions::default();
        assert!(restored.restore(item.clone()));
        assert_eq!(restored.known, positions.known);
        for length in 0..item.len() {
            assert!(!Positions::default().restore(item.slice(..length)), "{length}");
        }
        assert_eq!(positions.configure(&["P > >".into(), "R > >".into()]), ["R > >".into()]);
        assert_eq!(positions.get("O > >"), None);
    }
}
