//! What is fixed when a copy of a stream begins: how far it goes, and where its consumers are. Messages are read while it is sent.

use api::jetstream::stream::{StreamConfig, StreamState};
use bytes::Bytes;
use store::stream::{Error as StoreError, Filter, Message};

use super::archive::{CONSUMER, Entry, STATE};
use crate::consumer::{Consumer, Position, StateError};
use crate::stream::Stream;

/// A stream at the beginning of its copy.
#[derive(Debug)]
pub struct Image {
    /// Its configuration.
    pub config: StreamConfig,
    /// Its state.
    pub state: StreamState,
    /// Where messages begin.
    pub first: u64,
    /// The last message that belongs to the copy.
    pub last: u64,
    /// Consumers in the compact form of checkpoints, with their floors.
    consumers: Vec<(Vec<u8>, Position)>,
}

/// Why a consumer cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Its state cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// It has no form as a document.
    #[error(transparent)]
    Document(#[from] serde_json::Error),
}

impl Image {
    /// Takes it of a stream.
    pub fn new(stream: &Stream, with_consumers: bool) -> Self {
        let state = stream.state();
        let consumers = stream.consumers().filter(|_| with_consumers).map(|consumer| {
            let mut bytes = Vec::new();
            consumer.encode_state(&mut bytes);
            (bytes, consumer.ack_floor())
        });
        Self {
            config: (**stream.config()).clone(),
            state: stream.api_state(),
            first: state.first_sequence,
            last: state.last_sequence,
            consumers: consumers.collect(),
        }
    }

    /// How many consumers it has.
    pub fn consumers(&self) -> usize {
        self.consumers.len()
    }

    /// The first entry.
    pub fn state_entry(&self, timestamp: i64) -> Result<Entry, WriteError> {
        let state = StreamState { consumer_count: self.consumers.len() as i64, ..self.state.clone() };
        let payload = serde_json::to_vec(&state)?.into();
        Ok(Entry { name: Bytes::from_static(STATE), timestamp, payload, ..Entry::default() })
    }

    /// The entry of a consumer, by number.
    pub fn consumer_entry(&self, number: usize, timestamp: i64) -> Result<Entry, WriteError> {
        let (bytes, floor) = &self.consumers[number];
        let consumer = Consumer::restore(bytes)?;
        let payload = serde_json::to_vec(&consumer.document(*floor, self.last))?.into();
        let name = [CONSUMER, consumer.name().as_bytes()].concat().into();
        Ok(Entry { name, timestamp, payload, ..Entry::default() })
    }

    /// Messages of the copy from a sequence on, as many as fit into `bytes`, but one at least. Those that were removed since are left out.
    pub fn messages(stream: &Stream, range: (u64, u64), bytes: usize) -> Result<Vec<Message>, StoreError> {
        let (mut next, last) = range;
        let mut left = bytes;
        let mut messages = Vec::new();
        while next <= last
            && left > 0
            && let Some(message) = stream.store().next(&Filter::All, next)?
            && message.sequence <= last
        {
            let size = message.subject.len() + message.headers.len() + message.payload.len();
            left = left.saturating_sub(size + MESSAGE_BYTES_MIN);
            next = message.sequence + 1;
            messages.push(message);
        }
        Ok(messages)
    }
}

/// What a message counts beside its bytes, so that empty ones are bounded too.
const MESSAGE_BYTES_MIN: usize = 64;

impl From<Message> for Entry {
    fn from(message: Message) -> Self {
        Self {
            name: message.subject,
            timestamp: message.timestamp.0,
            sequence: message.sequence,
            headers: message.headers,
            payload: message.payload,
        }
    }
}
