//! A stream made from an archive (jetstream-api, section 14), which comes in pieces, cut anywhere.
//!
//! The stream is nobody's while it is made: nothing of it is known outside, and whoever makes it hands it over when the archive has come to its
//! end, or has it cancelled. What it will hold counts as used from the beginning, so that others do not take the place meanwhile.

use std::ops::Range;

use api::ApiError;
use api::error::jetstream::ErrorCode;
use api::jetstream::consumer::{Admission, ConsumerAction};
use api::jetstream::decode::{self, DecodeError, Mode};
use api::jetstream::name;
use api::jetstream::stream::{SEQUENCE_MAX, Storage, StreamState};
use store::Timestamp;
use store::stream::{Append, Error as StoreError, Expiry, Filter};

use super::Stream;
use super::headers::Known;
use super::ttl::Ttl;
use crate::consumer::{Consumer, DocumentError};
use crate::effect::Effects;
use crate::outside::Outside;
use crate::snapshot::archive::{CONSUMER, Header, STATE};
use crate::snapshot::document::ConsumerDocument;
use crate::snapshot::{self, Entry, Reader, Unpacker};

/// Largest document of an archive: a consumer with a million messages pending needs this much.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;
/// Largest header block.
const HEADERS_MAX: usize = u16::MAX as usize;
/// Most bytes that a stream may be said to hold.
const BYTES_MAX: u64 = i64::MAX as u64 / 8;

/// Why a stream cannot be made from an archive.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Something that any request may be refused for.
    #[error("{}", .0.description)]
    Refused(ApiError),
    /// It is no archive.
    #[error(transparent)]
    Archive(#[from] snapshot::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It begins with something else than the state.
    #[error("expected state.json first")]
    StateFirst,
    /// The state cannot be read.
    #[error("error in state.json: {0}")]
    State(DecodeError),
    /// The state names sequences that no stream reaches.
    #[error("error in state.json: sequences {} to {} are no range", .0.start, .0.end)]
    Range(Range<u64>),
    /// A document that nothing needs to be so large for.
    #[error("entry of {size} bytes exceeds {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// Fewer consumers than the state says.
    #[error("expected consumer, found {found:?}")]
    ConsumerExpected {
        /// Name of the entry.
        found: String,
    },
    /// A consumer cannot be made.
    #[error("{what} consumer {name:?}: {reason}")]
    Consumer {
        /// What failed.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A consumer lacks a part.
    #[error("consumer {name:?} is missing {part}")]
    ConsumerPart {
        /// Its name.
        name: String,
        /// Which part.
        part: &'static str,
    },
    /// An entry that is no message.
    #[error("expected message sequence")]
    SequenceExpected,
    /// A message that cannot be there.
    #[error("message sequence {sequence} {problem}")]
    Message {
        /// Its sequence.
        sequence: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// The life that a message asks for cannot be read.
    #[error("failed to parse message TTL: {}", .0.description)]
    Ttl(ApiError),
    /// The archive ended early.
    #[error("EOF")]
    Truncated,
}

impl RestoreError {
    /// As the client gets it.
    pub fn answer(&self) -> ApiError {
        match self {
            Self::Refused(error) => error.clone(),
            other => ErrorCode::STREAM_RESTORE.because(other),
        }
    }
}

impl From<ErrorCode> for RestoreError {
    fn from(code: ErrorCode) -> Self {
        Self::Refused(code.into())
    }
}

/// What has to come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    State,
    /// This many consumers, then messages.
    Consumers(usize),
    Messages,
    Done,
}

/// A stream that is being made.
#[derive(Debug)]
pub struct Restore {
    stream: Stream,
    unpacker: Unpacker,
    /// Content of the latest block.
    content: Vec<u8>,
    reader: Reader,
    unpacked: u64,
    stage: Stage,
    /// As the archive says.
    state: StreamState,
    /// Newest sequence that was taken.
    last: u64,
    /// Bytes that count as used for what is still to come.
    held: u64,
    /// Largest headers and body of a message.
    payload_max: usize,
}

impl Restore {
    /// Begins with an empty stream. `payload_max` are the bytes of headers and body that the server lets clients publish.
    pub fn new(stream: Stream, payload_max: usize) -> Self {
        Self {
            stream,
            unpacker: Unpacker::default(),
            content: Vec::new(),
            reader: Reader::default(),
            unpacked: 0,
            stage: Stage::State,
            state: StreamState::default(),
            last: 0,
            held: 0,
            payload_max,
        }
    }

    /// Takes a piece of the archive. What follows its end is passed over.
    pub fn push(&mut self, piece: &[u8]) {
        if self.stage != Stage::Done {
            self.unpacker.push(piece);
        }
    }

    /// Stores what is in the next block of what was taken. False if there is no whole one.
    pub fn advance(&mut self, outside: &mut dyn Outside) -> Result<bool, RestoreError> {
        self.content.clear();
        if self.stage == Stage::Done || !self.unpacker.next(&mut self.content)? {
            return Ok(false);
        }
        self.reader.push(&self.content);
        self.unpacked += self.content.len() as u64;
        // Nobody knows the stream, so nobody is told anything.
        let mut effects = Effects::default();
        while self.stage != Stage::Done && self.take(outside, &mut effects)? {
            effects.queue.clear();
        }
        Ok(true)
    }

    /// Bytes of the archive, unpacked, that were stored.
    pub fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// The archive has come to its end.
    pub fn finish(&mut self, outside: &mut dyn Outside) -> Result<(), RestoreError> {
        if self.stage != Stage::Done {
            let within = !self.reader.is_empty() || !self.unpacker.is_empty();
            return Err(if within { snapshot::Error::Entry.into() } else { RestoreError::Truncated });
        }
        if self.last < self.state.last_seq {
            let time = timestamp(self.state.last_ts);
            self.stream.store.skip_to(self.state.last_seq, time)?;
        }
        self.stream.restore_ids(None)?;
        self.stream.begin();
        self.stream.settle(outside);
        self.hold(outside, 0);
        Ok(())
    }

    /// The stream, to be hosted. What it holds counts as used.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Gives back what counts as used. The store is left as it is.
    pub fn cancel(&mut self, outside: &mut dyn Outside) {
        self.hold(outside, 0);
        self.stream.delete(outside, &mut Effects::default());
    }

    /// The stream as it is.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Takes an entry. False if it has not come whole.
    fn take(&mut self, outside: &mut dyn Outside, effects: &mut Effects) -> Result<bool, RestoreError> {
        let Some(header) = self.reader.peek()? else { return Ok(false) };
        match self.stage {
            Stage::Messages => self.check_message(&header)?,
            Stage::State | Stage::Consumers(_) | Stage::Done => check_document(&header)?,
        }
        let Some(entry) = self.reader.take()? else { return Ok(false) };
        match self.stage {
            Stage::State => self.take_state(outside, &entry)?,
            Stage::Consumers(left) => {
                self.take_consumer(outside, &entry)?;
                self.stage = after_consumers(left - 1);
            }
            Stage::Messages if header.is_end() => self.stage = Stage::Done,
            Stage::Messages => self.take_message(outside, effects, &entry)?,
            Stage::Done => {}
        }
        Ok(true)
    }

    fn take_state(&mut self, outside: &mut dyn Outside, entry: &Entry) -> Result<(), RestoreError> {
        if entry.name != STATE {
            return Err(RestoreError::StateFirst);
        }
        self.state = decode::decode(&entry.payload, Mode::Lenient).map_err(RestoreError::State)?;
        let StreamState { first_seq, last_seq, bytes, consumer_count, .. } = self.state;
        if last_seq > SEQUENCE_MAX || first_seq > last_seq.saturating_add(1) {
            return Err(RestoreError::Range(first_seq..last_seq));
        }
        if bytes > BYTES_MAX {
            return Err(self.exceeded().into());
        }
        self.hold(outside, bytes);
        self.check_resources(outside)?;
        let below = first_seq.saturating_sub(1);
        if below > 0 {
            self.stream.store.purge(&Filter::All, below, &mut |_| {})?;
        }
        self.last = self.stream.store.state().last_sequence.max(below);
        self.stage = after_consumers(usize::try_from(consumer_count).unwrap_or(0));
        Ok(())
    }

    fn take_consumer(&mut self, outside: &mut dyn Outside, entry: &Entry) -> Result<(), RestoreError> {
        let named = entry.name.strip_prefix(CONSUMER).and_then(|name| std::str::from_utf8(name).ok());
        let Some(name) = named else {
            let found = String::from_utf8_lossy(&entry.name).into_owned();
            return Err(RestoreError::ConsumerExpected { found });
        };
        let failed = |what, reason: &dyn std::fmt::Display| RestoreError::Consumer {
            what,
            name: name.to_owned(),
            reason: reason.to_string(),
        };
        let document: ConsumerDocument = decode::decode(&entry.payload, Mode::Lenient)
            .map_err(|error| failed("failed to decode the state of", &error))?;
        let missing = |part| RestoreError::ConsumerPart { name: name.to_owned(), part };
        let mut config = document.config.ok_or_else(|| missing("config"))?;
        let state = document.state.ok_or_else(|| missing("state"))?;
        if config.effective_name().is_empty() {
            name.clone_into(&mut config.name);
        }
        if !name::is_valid(name) || config.effective_name() != name {
            return Err(failed("failed to add", &"its name is another one or not valid"));
        }
        let admitted = self.stream.admit_consumer(outside, (&config, ConsumerAction::Create, false));
        let mut config = match admitted.map_err(|error| failed("failed to add", &error.description))? {
            Admission::Create(config) => config,
            Admission::Update(_) => return Err(failed("failed to add", &"it is there twice")),
        };
        name.clone_into(&mut config.name);
        let range = (self.last + 1, self.state.last_seq);
        let consumer = Consumer::from_document(config, &state, range, outside.now())
            .map_err(|error: DocumentError| failed("failed to set the state of", &error))?;
        let id = self.stream.consumers.next_id();
        self.stream.consumers.insert_restored(id, consumer);
        self.stream.settle(outside);
        Ok(())
    }

    /// Refuses a message before its body is there.
    fn check_message(&self, header: &Header) -> Result<(), RestoreError> {
        let Header { sequence, headers, payload, .. } = *header;
        if sequence == 0 {
            return if header.is_end() { Ok(()) } else { Err(RestoreError::SequenceExpected) };
        }
        let refuse = |problem| Err(RestoreError::Message { sequence, problem });
        let size = headers.saturating_add(payload);
        if size > self.payload_max {
            return refuse("exceeds maximum payload size");
        }
        if size > self.stream.rules.message_size_max {
            return refuse("exceeds maximum message size");
        }
        if sequence <= self.last {
            return refuse("out of order");
        }
        if sequence > SEQUENCE_MAX {
            return refuse("is higher than any stream gets");
        }
        Ok(())
    }

    fn take_message(
        &mut self,
        outside: &mut dyn Outside,
        effects: &mut Effects,
        entry: &Entry,
    ) -> Result<(), RestoreError> {
        let Entry { name: subject, sequence, headers, payload, .. } = entry;
        let (sequence, timestamp) = (*sequence, Timestamp(entry.timestamp));
        let refuse = |problem| Err(RestoreError::Message { sequence, problem });
        if !subject::is_literal(subject) {
            return refuse("has a subject that is not valid");
        }
        if !is_block(headers) {
            return refuse("has headers that are not valid");
        }
        let size = self.stream.rules.stored_size(subject, headers, payload);
        if size > self.held {
            self.hold(outside, size);
            self.check_resources(outside)?;
        }
        let stream = &mut self.stream;
        let known = Known::parse(headers);
        let ttl = known.ttl.map(Ttl::parse).transpose().map_err(|code| RestoreError::Ttl(code.into()))?;
        let own = ttl.map_or(Expiry::MaxAge, |ttl| ttl.expiry(timestamp));
        self.last = sequence;
        // A source goes on behind what the archive has of it, whatever becomes of the message here.
        if !stream.positions.is_empty() {
            stream.note_source(headers);
        }
        if let Expiry::At(time) = own
            && time <= outside.now()
        {
            stream.store.skip_to(sequence, timestamp)?;
        } else {
            let expiry = if stream.facts.config.allow_msg_ttl { own } else { Expiry::MaxAge };
            stream.store.append(Append { sequence, timestamp, subject, headers, payload, expiry })?;
            if known.schedule.is_some() && stream.facts.config.allow_msg_schedules {
                stream.schedules.insert(subject, sequence, (headers, timestamp));
            }
            stream.enforce_limits(outside, effects, subject)?;
            stream.settle(outside);
        }
        self.hold(outside, self.held - size);
        Ok(())
    }

    /// Lets this many bytes count as used for what is still to come.
    fn hold(&mut self, outside: &dyn Outside, bytes: u64) {
        let limits = outside.limits();
        let (storage, replicas) = (self.stream.facts.config.storage, self.stream.replicas());
        let before = std::mem::replace(&mut self.held, bytes);
        let tier = limits.account_usage.tier(replicas);
        tier.used.replace(storage, before * replicas as u64, bytes * replicas as u64);
        limits.server_usage.used.replace(storage, before, bytes);
    }

    fn check_resources(&self, outside: &dyn Outside) -> Result<(), RestoreError> {
        let limits = outside.limits();
        let storage = self.stream.facts.config.storage;
        let exceeded =
            limits.account_exceeded(storage, self.stream.replicas(), 0) || limits.server_exceeded(storage, 0);
        if exceeded { Err(self.exceeded().into()) } else { Ok(()) }
    }

    fn exceeded(&self) -> ErrorCode {
        match self.stream.facts.config.storage {
            Storage::Memory => ErrorCode::MEMORY_RESOURCES_EXCEEDED,
            Storage::File => ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        }
    }
}

fn after_consumers(left: usize) -> Stage {
    if left == 0 { Stage::Messages } else { Stage::Consumers(left) }
}

fn check_document(header: &Header) -> Result<(), RestoreError> {
    let size = header.headers.saturating_add(header.payload);
    if size > DOCUMENT_BYTES_MAX { Err(RestoreError::TooLarge { size }) } else { Ok(()) }
}

/// Is it a header block, or nothing? Receivers take blocks apart by their lines.
fn is_block(headers: &[u8]) -> bool {
    let framed = headers.starts_with(b"NATS/1.0") && headers.ends_with(b"\r\n\r\n");
    headers.is_empty() || (framed && headers.len() <= HEADERS_MAX)
}

fn timestamp(time: api::Time) -> Timestamp {
    Timestamp(i64::try_from(time.unix_nanos()).unwrap_or(i64::MAX))
}
