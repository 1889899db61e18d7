//! Commands that the replicas of a stream apply, and how they are written into an entry of the log.
//!
//! An entry is a row of commands, each with its length in front (u32, little endian), its kind (one byte) and its fields. Numbers that the hot
//! path writes have a fixed width. A kind is never given another meaning: a changed command is a new kind, and what a release can write the next
//! one can read.

use bytes::{BufMut, BytesMut};
use store::Timestamp;
use store::stream::Expiry;

/// Bytes of the length in front of each command.
const LENGTH: usize = 4;

const STORE: u8 = 1;
const SKIP: u8 = 2;
const REMOVE: u8 = 3;
const EXPIRE: u8 = 4;
const PURGE: u8 = 5;
const UPDATE: u8 = 6;
const CREATE_CONSUMER: u8 = 7;
const UPDATE_CONSUMER: u8 = 8;
const DELETE_CONSUMER: u8 = 9;
const CONSUMER: u8 = 10;
const RESET_CONSUMER: u8 = 11;

const EXPIRY_MAX_AGE: u8 = 0;
const EXPIRY_AT: u8 = 1;
const EXPIRY_NEVER: u8 = 2;

const FLAG_ID: u8 = 1;
const FLAG_ROLLUP_SUBJECT: u8 = 2;
const FLAG_ROLLUP_ALL: u8 = 4;
const FLAG_SCHEDULE: u8 = 8;
const FLAG_SCHEDULER: u8 = 16;

/// What goes when a message with a rollup header is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rollup {
    /// Nothing.
    #[default]
    None,
    /// All others of its subject.
    Subject,
    /// All others.
    All,
}

/// What the leader found out about a message, so that replicas need not look again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traits {
    /// It has a message id.
    pub id: bool,
    /// It removes others.
    pub rollup: Rollup,
    /// It is a schedule.
    pub schedule: bool,
    /// It was produced by a schedule, or stops one.
    pub scheduler: bool,
}

/// A message to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store<'a> {
    /// Its sequence.
    pub sequence: u64,
    /// Its time.
    pub timestamp: Timestamp,
    /// When it goes by itself.
    pub expiry: Expiry,
    /// What the leader found out.
    pub traits: Traits,
    /// Its subject.
    pub subject: &'a [u8],
    /// Its header block; empty for none.
    pub headers: &'a [u8],
    /// Its body.
    pub payload: &'a [u8],
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<'a> {
    /// Store a message.
    Store(Store<'a>),
    /// Take the sequences up to this one as used; mirrors do when their origin has gaps.
    Skip {
        /// The last of them.
        sequence: u64,
        /// When.
        timestamp: Timestamp,
    },
    /// Delete a message, as a client asked.
    Remove {
        /// Which.
        sequence: u64,
        /// Overwrite it on disk.
        erase: bool,
    },
    /// Remove messages whose time has come.
    Expire(Sequences<'a>),
    /// Purge, as a client asked.
    Purge {
        /// Subjects; empty for all.
        filter: &'a [u8],
        /// Below this sequence; zero for all.
        below: u64,
        /// All but this many; zero for none.
        keep: u64,
    },
    /// Change the configuration; it is a JSON document.
    Update {
        /// The new one.
        config: &'a [u8],
    },
    /// Make a consumer.
    CreateConsumer {
        /// Its number; never used again in this stream.
        id: u64,
        /// When.
        created: Timestamp,
        /// Its name.
        name: &'a str,
        /// Its configuration, a JSON document.
        config: &'a [u8],
    },
    /// Change the configuration of a consumer; it is a JSON document.
    UpdateConsumer {
        /// Which.
        id: u64,
        /// When.
        time: Timestamp,
        /// The new one.
        config: &'a [u8],
    },
    /// Delete a consumer.
    DeleteConsumer {
        /// Which.
        id: u64,
    },
    /// Set a consumer back.
    ResetConsumer {
        /// Which.
        id: u64,
        /// Where it goes on.
        sequence: u64,
    },
    /// A command of a consumer, in its own codec.
    Consumer {
        /// Which.
        id: u64,
        /// The command.
        bytes: &'a [u8],
    },
}

/// Sequences in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequences<'a>(&'a [u8]);

impl Sequences<'_> {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok().map(u64::from_le_bytes))
    }
}

/// An entry cannot be read. The log guards its bytes, so another release wrote it or ours is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It ends in the middle of a command.
    #[error("entry ends {missing} bytes too early")]
    Short {
        /// What is missing.
        missing: usize,
    },
    /// This release does not know the kind.
    #[error("unknown command of kind {0}")]
    UnknownKind(u8),
    /// A field has a value that it cannot have.
    #[error("command of kind {kind} with an invalid {field}")]
    Invalid {
        /// Kind of the command.
        kind: u8,
        /// Name of the field.
        field: &'static str,
    },
}

impl Command<'_> {
    /// Appends the command to an entry.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Store(store) => encode_store(store, out),
            other => {
                let start = begin(out);
                other.encode_body(out);
                finish(out, start);
            }
        }
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Store(_) => unreachable_store(),
            Self::Skip { sequence, timestamp } => {
                out.put_u8(SKIP);
                out.put_u64_le(*sequence);
                out.put_i64_le(timestamp.0);
            }
            Self::Remove { sequence, erase } => {
                out.put_u8(REMOVE);
                out.put_u64_le(*sequence);
                out.put_u8(u8::from(*erase));
            }
            Self::Expire(sequences) => {
                out.put_u8(EXPIRE);
                out.put_slice(sequences.0);
            }
            Self::Purge { filter, below, keep } => {
                out.put_u8(PURGE);
                out.put_u64_le(*below);
                out.put_u64_le(*keep);
                out.put_slice(filter);
            }
            Self::Update { config } => {
                out.put_u8(UPDATE);
                out.put_slice(config);
            }
            Self::CreateConsumer { id, created, name, config } => {
                out.put_u8(CREATE_CONSUMER);
                out.put_u64_le(*id);
                out.put_i64_le(created.0);
                out.put_u32_le(name.len() as u32);
                out.put_slice(name.as_bytes());
                out.put_slice(config);
            }
            Self::UpdateConsumer { id, time, config } => {
                out.put_u8(UPDATE_CONSUMER);
                out.put_u64_le(*id);
                out.put_i64_le(time.0);
                out.put_slice(config);
            }
            Self::DeleteConsumer { id } => {
                out.put_u8(DELETE_CONSUMER);
                out.put_u64_le(*id);
            }
            Self::ResetConsumer { id, sequence } => {
                out.put_u8(RESET_CONSUMER);
                out.put_u64_le(*id);
                out.put_u64_le(*sequence);
            }
            Self::Consumer { id, bytes } => {
                out.put_u8(CONSUMER);
                out.put_u64_le(*id);
                out.put_slice(bytes);
            }
        }
    }
}

/// Leaves room for the length of a command.
fn begin(out: &mut BytesMut) -> usize {
    let start = out.len();
    out.put_u32_le(0);
    start
}

/// Fills in the length of the command that `begin` began.
fn finish(out: &mut BytesMut, start: usize) {
    let length = out.len() - start - LENGTH;
    assert!(u32::try_from(length).is_ok(), "command of {length} bytes");
    out[start..start + LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
}

/// Appends a command of a consumer that `write` writes. Nothing is appended if it returns false.
pub fn encode_consumer(id: u64, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> bool) -> bool {
    let start = begin(out);
    out.put_u8(CONSUMER);
    out.put_u64_le(id);
    let written = write(out);
    if written {
        finish(out, start);
    } else {
        out.truncate(start);
    }
    written
}

fn unreachable_store() {
    unreachable!("a message to store has its own encoding");
}

/// Appends an `Expire` command.
pub fn encode_expire(sequences: &[u64], out: &mut BytesMut) {
    out.put_u32_le((1 + sequences.len() * 8) as u32);
    out.put_u8(EXPIRE);
    for sequence in sequences {
        out.put_u64_le(*sequence);
    }
}

/// Appends a `Store` command.
pub fn encode_store(store: &Store<'_>, out: &mut BytesMut) {
    let Store { sequence, timestamp, expiry, traits, subject, headers, payload } = store;
    let (expiry_kind, expires) = match expiry {
        Expiry::MaxAge => (EXPIRY_MAX_AGE, None),
        Expiry::At(time) => (EXPIRY_AT, Some(*time)),
        Expiry::Never => (EXPIRY_NEVER, None),
    };
    let fixed = 1 + 1 + 1 + 8 + 8 + expires.map_or(0, |_| 8) + 2 + 4;
    let length = fixed + subject.len() + headers.len() + payload.len();
    assert!(u32::try_from(length).is_ok(), "message of {length} bytes");
    assert!(u16::try_from(subject.len()).is_ok(), "subject of {} bytes", subject.len());
    out.reserve(LENGTH + length);
    // What has a fixed place is put together first: one copy instead of many small ones.
    let mut head = [0u8; 23];
    head[..4].copy_from_slice(&(length as u32).to_le_bytes());
    head[4..7].copy_from_slice(&[STORE, traits.bits(), expiry_kind]);
    head[7..15].copy_from_slice(&sequence.to_le_bytes());
    head[15..].copy_from_slice(&timestamp.0.to_le_bytes());
    out.put_slice(&head);
    if let Some(time) = expires {
        out.put_i64_le(time.0);
    }
    let mut lengths = [0u8; 6];
    lengths[..2].copy_from_slice(&(subject.len() as u16).to_le_bytes());
    lengths[2..].copy_from_slice(&(headers.len() as u32).to_le_bytes());
    out.put_slice(&lengths);
    out.put_slice(subject);
    out.put_slice(headers);
    out.put_slice(payload);
}

impl Traits {
    fn bits(self) -> u8 {
        let rollup = match self.rollup {
            Rollup::None => 0,
            Rollup::Subject => FLAG_ROLLUP_SUBJECT,
            Rollup::All => FLAG_ROLLUP_ALL,
        };
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        rollup
            | flag(self.id, FLAG_ID)
            | flag(self.schedule, FLAG_SCHEDULE)
            | flag(self.scheduler, FLAG_SCHEDULER)
    }

    fn from_bits(bits: u8) -> Self {
        let rollup = match bits & (FLAG_ROLLUP_SUBJECT | FLAG_ROLLUP_ALL) {
            0 => Rollup::None,
            FLAG_ROLLUP_SUBJECT => Rollup::Subject,
            _ => Rollup::All,
        };
        Self {
            id: bits & FLAG_ID != 0,
            rollup,
            schedule: bits & FLAG_SCHEDULE != 0,
            scheduler: bits & FLAG_SCHEDULER != 0,
        }
    }
}

/// The commands of an entry, in order. Ends after the first that cannot be read.
pub fn commands(entry: &[u8]) -> impl Iterator<Item = Result<Command<'_>, CommandError>> {
    let mut rest = entry;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut reader = Reader { rest, kind: 0 };
        let command = reader.u32().and_then(|length| reader.take(length as usize)).and_then(decode);
        rest = if command.is_ok() { reader.rest } else { &[] };
        Some(command)
    })
}

fn decode(bytes: &[u8]) -> Result<Command<'_>, CommandError> {
    let mut reader = Reader { rest: bytes, kind: 0 };
    reader.kind = reader.u8()?;
    Ok(match reader.kind {
        STORE => Command::Store(decode_store(&mut reader)?),
        SKIP => Command::Skip { sequence: reader.u64()?, timestamp: reader.time()? },
        REMOVE => Command::Remove { sequence: reader.u64()?, erase: reader.u8()? != 0 },
        EXPIRE if reader.rest.len().is_multiple_of(8) => Command::Expire(Sequences(reader.rest)),
        EXPIRE => return Err(reader.invalid("sequence")),
        PURGE => Command::Purge { below: reader.u64()?, keep: reader.u64()?, filter: reader.rest },
        UPDATE => Command::Update { config: reader.rest },
        CREATE_CONSUMER => {
            let (id, created) = (reader.u64()?, reader.time()?);
            let length = reader.u32()? as usize;
            let name = std::str::from_utf8(reader.take(length)?).map_err(|_| reader.invalid("name"))?;
            Command::CreateConsumer { id, created, name, config: reader.rest }
        }
        UPDATE_CONSUMER => {
            Command::UpdateConsumer { id: reader.u64()?, time: reader.time()?, config: reader.rest }
        }
        DELETE_CONSUMER => Command::DeleteConsumer { id: reader.u64()? },
        RESET_CONSUMER => Command::ResetConsumer { id: reader.u64()?, sequence: reader.u64()? },
        CONSUMER => Command::Consumer { id: reader.u64()?, bytes: reader.rest },
        kind => return Err(CommandError::UnknownKind(kind)),
    })
}

fn decode_store<'a>(reader: &mut Reader<'a>) -> Result<Store<'a>, CommandError> {
    let traits = Traits::from_bits(reader.u8()?);
    let expiry_kind = reader.u8()?;
    let (sequence, timestamp) = (reader.u64()?, reader.time()?);
    let expiry = match expiry_kind {
        EXPIRY_MAX_AGE => Expiry::MaxAge,
        EXPIRY_AT => Expiry::At(reader.time()?),
        EXPIRY_NEVER => Expiry::Never,
        _ => return Err(reader.invalid("expiry")),
    };
    let subject_length = usize::from(reader.u16()?);
    let headers_length = reader.u32()? as usize;
    let subject = reader.take(subject_length)?;
    let headers = reader.take(headers_length)?;
    Ok(Store { sequence, timestamp, expiry, traits, subject, headers, payload: reader.rest })
}

/// Takes fields off the front.
struct Reader<'a> {
    rest: &'a [u8],
    kind: u8,
}

impl<'a> Reader<'a> {
    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], CommandError> {
        let missing = length.saturating_sub(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CommandError::Short { missing })?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], CommandError> {
        let missing = N.saturating_sub(self.rest.len());
        self.take(N)?.try_into().map_err(|_| CommandError::Short { missing })
    }

    fn u8(&mut self) -> Result<u8, CommandError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, CommandError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, CommandError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, CommandError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn time(&mut self) -> Result<Timestamp, CommandError> {
        Ok(Timestamp(i64::from_le_bytes(self.array()?)))
    }

    fn invalid(&self, field: &'static str) -> CommandError {
        CommandError::Invalid { kind: self.kind, field }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Command<'static>> {
        let store = Store {
            sequence: 7,
            timestamp: Timestamp(-5),
            expiry: Expiry::At(Timestamp(99)),
            traits: Traits { id: true, rollup: Rollup::All, schedule: false, scheduler: true },
            subject: b"a.b",
            headers: b"NATS/1.0\r\nA: b\r\n\r\n",
            payload: b"body",
        };
        let plain =
            Store { expiry: Expiry::MaxAge, traits: Traits::default(), headers: b"", payload: b"", ..store };
        let never = Store { expiry: Expiry::Never, ..store };
        vec![
            Command::Store(store),
            Command::Store(plain),
            Command::Store(never),
            Command::Skip { sequence: 9, timestamp: Timestamp(3) },
            Command::Remove { sequence: 4, erase: true },
            Command::Purge { filter: b"x.*", below: 3, keep: 2 },
            Command::Update { config: b"{}" },
            Command::CreateConsumer { id: 1, created: Timestamp(5), name: "c", config: b"{}" },
            Command::UpdateConsumer { id: 1, time: Timestamp(5), config: b"{}" },
            Command::DeleteConsumer { id: 1 },
            Command::ResetConsumer { id: 1, sequence: 9 },
            Command::Consumer { id: 2, bytes: b"xyz" },
        ]
    }

    #[test]
    fn commands_come_back_as_they_were_written() {
        let mut entry = BytesMut::new();
        all().iter().for_each(|command| command.encode(&mut entry));
        encode_expire(&[3, 1 << 40], &mut entry);
        let read: Vec<_> = commands(&entry).map(Result::unwrap).collect();
        assert_eq!(read[..read.len() - 1], all());
        let Command::Expire(sequences) = &read[read.len() - 1] else { panic!("{read:?}") };
        assert_eq!(sequences.iter().collect::<Vec<_>>(), [3, 1 << 40]);
    }

    #[test]
    fn cut_and_unknown_entries_are_errors() {
        let mut entry = BytesMut::new();
        all()[0].encode(&mut entry);
        for length in 1..entry.len() {
            let read: Vec<_> = commands(&entry[..length]).collect();
            assert!(matches!(read[..], [Err(CommandError::Short { .. })]), "{length}: {read:?}");
        }
        let unknown = [1, 0, 0, 0, 200];
        assert_eq!(commands(&unknown).collect::<Vec<_>>(), [Err(CommandError::UnknownKind(200))]);
    }
}
