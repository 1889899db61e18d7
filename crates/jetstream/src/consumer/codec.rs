//! A consumer as bytes, for checkpoints and snapshots.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use api::jetstream::consumer::ConsumerConfig;
use api::jetstream::decode::{DecodeError, Mode, decode};
use store::Timestamp;

use super::Consumer;
use super::command::{put_cause, read_cause};
use super::settings::Settings;
use super::state::{Chosen, Letters, Pending, Position, State};
use super::wire::{Put, Reader};

/// Format of states; another one is refused.
const VERSION: u8 = 1;
/// Format of states with dead letters, so that a server that does not know them says so.
const VERSION_LETTERS: u8 = 2;

/// The bytes are no consumer of this version.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Written by another version.
    #[error("consumer state of version {found}, this server reads versions up to {VERSION_LETTERS}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The bytes end early or make no sense.
    #[error("damaged consumer state of {size} bytes")]
    Damaged {
        /// Its length.
        size: usize,
    },
    /// The configuration in it cannot be read.
    #[error("consumer state with a damaged configuration: {0}")]
    Config(#[from] DecodeError),
}

/// Writes ascending numbers by their gaps.
fn put_ascending(out: &mut Vec<u8>, count: usize, numbers: impl Iterator<Item = u64>) {
    out.put_number(count as u64);
    let mut previous = 0;
    for number in numbers {
        out.put_number(number - previous);
        previous = number;
    }
}

fn ascending(reader: &mut Reader<'_>) -> Option<Vec<u64>> {
    let count = reader.count()?;
    let mut previous = 0u64;
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        previous = previous.checked_add(reader.number()?)?;
        numbers.push(previous);
    }
    Some(numbers)
}

fn letters(reader: &mut Reader<'_>) -> Option<Letters> {
    let stored = reader.number()?;
    let mut open = BTreeMap::new();
    for sequence in ascending(reader)? {
        open.insert(sequence, read_cause(reader)?);
    }
    Some(Letters { open, stored })
}

impl State {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self {
            delivered,
            pending,
            exhausted,
            parked,
            unapplied,
            applied,
            chosen,
            letters,
            generation,
            redelivered: _,
        } = self;
        for number in [delivered.consumer, delivered.stream, *applied, *generation] {
            out.put_number(number);
        }
        put_ascending(out, pending.len(), pending.keys().copied());
        let (mut last_position, mut last_at) = (0u64, 0i64);
        for pending in pending.values() {
            out.put_signed(pending.position.wrapping_sub(last_position) as i64);
            out.put_signed(pending.at.0.wrapping_sub(last_at));
            out.put_number(u64::from(pending.count));
            (last_position, last_at) = (pending.position, pending.at.0);
        }
        put_ascending(out, exhausted.len(), exhausted.keys().copied());
        exhausted.values().for_each(|count| out.put_number(u64::from(*count)));
        put_ascending(out, parked.len(), parked.iter().copied());
        put_ascending(out, unapplied.len(), unapplied.iter().copied());
        match chosen {
            Some(chosen) => {
                out.put_number(chosen.up_to);
                put_ascending(out, chosen.sequences.len(), chosen.sequences.iter().copied());
            }
            None => out.put_number(0),
        }
        if let Some(letters) = letters
            && self.version() == VERSION_LETTERS
        {
            out.put_number(letters.stored);
            put_ascending(out, letters.open.len(), letters.open.keys().copied());
            letters.open.values().for_each(|cause| put_cause(out, cause));
        }
    }

    fn version(&self) -> u8 {
        let used = |letters: &Letters| letters.stored > 0 || !letters.open.is_empty();
        if self.letters.as_deref().is_some_and(used) { VERSION_LETTERS } else { VERSION }
    }

    pub(super) fn decode(reader: &mut Reader<'_>, version: u8) -> Option<Self> {
        let delivered = Position { consumer: reader.number()?, stream: reader.number()? };
        let (applied, generation) = (reader.number()?, reader.number()?);
        let mut pending = BTreeMap::new();
        let (mut last_position, mut last_at) = (0u64, 0i64);
        for sequence in ascending(reader)? {
            last_position = last_position.wrapping_add(reader.signed()? as u64);
            last_at = last_at.wrapping_add(reader.signed()?);
            let count = u32::try_from(reader.number()?).ok()?;
            pending.insert(sequence, Pending { position: last_position, at: Timestamp(last_at), count });
        }
        let mut exhausted = BTreeMap::new();
        for sequence in ascending(reader)? {
            exhausted.insert(sequence, 0);
        }
        for count in exhausted.values_mut() {
            *count = u32::try_from(reader.number()?).ok()?;
        }
        let parked: BTreeSet<u64> = ascending(reader)?.into_iter().collect();
        let unapplied: BTreeSet<u64> = ascending(reader)?.into_iter().collect();
        let chosen = match reader.number()? {
            0 => None,
            up_to => Some(Box::new(Chosen { sequences: VecDeque::from(ascending(reader)?), up_to })),
        };
        let letters = if version == VERSION_LETTERS { Some(Box::new(letters(reader)?)) } else { None };
        let redelivered = pending.values().filter(|pending| pending.count > 1).count() as u64;
        let state = Self {
            delivered,
            pending,
            redelivered,
            exhausted,
            parked,
            unapplied,
            applied,
            chosen,
            letters,
            generation,
        };
        reader.is_empty().then_some(state)
    }
}

impl Consumer {
    /// Writes everything that a replica must know.
    pub fn encode_state(&self, out: &mut Vec<u8>) {
        let state = self.lasting_state();
        out.put_byte(state.version());
        out.put_string(self.name.as_bytes());
        out.put_signed(self.created.0);
        // A configuration consists of texts and numbers, which always have a JSON form.
        out.put_string(&api::json::to_vec(&*self.config).unwrap_or_default());
        state.encode(out);
    }

    /// Reads what `encode_state` wrote. The consumer does not lead.
    pub fn restore(bytes: &[u8]) -> Result<Self, StateError> {
        let damaged = || StateError::Damaged { size: bytes.len() };
        let mut reader = Reader(bytes);
        let version = match reader.byte().ok_or_else(damaged)? {
            known @ (VERSION | VERSION_LETTERS) => known,
            found => return Err(StateError::Version { found }),
        };
        let name = reader.string().ok_or_else(damaged)?;
        let name: Arc<str> = std::str::from_utf8(name).map_err(|_| damaged())?.into();
        let created = Timestamp(reader.signed().ok_or_else(damaged)?);
        let config = reader.string().ok_or_else(damaged)?;
        let config: ConsumerConfig = decode(config, Mode::Lenient)?;
        let state = State::decode(&mut reader, version).ok_or_else(damaged)?;
        let settings = Settings::new(&config);
        Ok(Self {
            name,
            created,
            config: Arc::new(config),
            settings,
            state,
            dirty: false,
            fresh: false,
            lead: None,
        })
    }
}
