//! A consumer as a document of a snapshot, which other servers read and write too (jetstream-api, section 14).
//!
//! The document knows less than a checkpoint: what was passed over because its subject was busy is written as pending, so that it is delivered
//! once more instead of never; and messages chosen at the beginning are gone, as they are after a restart of the reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::jetstream::consumer::{AckPolicy, ConsumerConfig};
use store::Timestamp;

use super::Consumer;
use super::settings::Settings;
use super::state::{Pending, Position, State};
use crate::snapshot::document::{ConsumerDocument, ConsumerState, Pair, PendingMessage};

/// A document contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// More is done than was delivered.
    #[error("bad ack floor for consumer")]
    Floor,
    /// A message waits that was never delivered, or is done.
    #[error("bad pending entry, sequence [{sequence}] out of range")]
    Pending {
        /// Its sequence.
        sequence: u64,
    },
}

impl Consumer {
    /// The consumer as if the stream ended at `last`. The floor is the one that people see, which its state need not tell.
    pub fn document(&self, floor: Position, last: u64) -> ConsumerDocument {
        let state = &self.state;
        let pair = |position: Position| Pair {
            consumer_seq: position.consumer,
            stream_seq: position.stream.min(last),
        };
        let waiting = state.pending.range(..=last).map(|(sequence, pending)| {
            (*sequence, PendingMessage { sequence: pending.position, timestamp: pending.at.0 })
        });
        let mut pending: BTreeMap<u64, PendingMessage> = waiting.collect();
        for sequence in state.parked.range(..=last) {
            let again = PendingMessage { sequence: state.delivered.consumer, timestamp: 0 };
            pending.entry(*sequence).or_insert(again);
        }
        let counts = state.pending.iter().map(|(sequence, pending)| (*sequence, pending.count));
        let given_up = state.exhausted.iter().map(|(sequence, count)| (*sequence, *count));
        let again = counts.chain(given_up).filter(|(sequence, count)| *sequence <= last && *count > 1);
        let redelivered = again.map(|(sequence, count)| (sequence, u64::from(count) - 1)).collect();
        let state =
            ConsumerState { delivered: pair(state.delivered), ack_floor: pair(floor), pending, redelivered };
        ConsumerDocument { config: Some((*self.config).clone()), state: Some(state) }
    }

    /// The consumer that a document tells of; its configuration is checked already, and so is what the stream holds: `first` to `last`.
    pub fn from_document(
        config: ConsumerConfig,
        document: &ConsumerState,
        (first, last): (u64, u64),
        created: Timestamp,
    ) -> Result<Self, DocumentError> {
        let ConsumerState { delivered, ack_floor, pending, redelivered } = document;
        if ack_floor.consumer_seq > delivered.consumer_seq || ack_floor.stream_seq > delivered.stream_seq {
            return Err(DocumentError::Floor);
        }
        let position = Position { consumer: delivered.consumer_seq, stream: delivered.stream_seq.min(last) };
        let mut state = State { delivered: position, applied: position.stream, ..State::default() };
        let deliveries = |sequence: &u64| {
            redelivered
                .get(sequence)
                .map_or(1, |again| u32::try_from(*again).unwrap_or(u32::MAX).saturating_add(1))
        };
        if config.ack_policy != AckPolicy::None {
            for (sequence, message) in pending.range(first..=last.max(first)) {
                if *sequence > position.stream || message.sequence > position.consumer {
                    return Err(DocumentError::Pending { sequence: *sequence });
                }
                let (at, count) = (Timestamp(message.timestamp), deliveries(sequence));
                state.redelivered += u64::from(count > 1);
                state.pending.insert(*sequence, Pending { position: message.sequence, at, count });
            }
        }
        let given_up = redelivered.keys().filter(|sequence| {
            (first..=position.stream).contains(*sequence) && !state.pending.contains_key(*sequence)
        });
        state.exhausted = given_up.map(|sequence| (*sequence, deliveries(sequence))).collect();
        Ok(Self {
            name: config.effective_name().into(),
            created,
            settings: Settings::new(&config),
            config: Arc::new(config),
            state,
            dirty: true,
            fresh: true,
            lead: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ConsumerConfig {
        ConsumerConfig {
            durable_name: "C".into(),
            name: "C".into(),
            ack_policy: AckPolicy::Explicit,
            max_deliver: 3,
            ..ConsumerConfig::default()
        }
    }

    fn consumer() -> Consumer {
        let document = ConsumerState {
            delivered: Pair { consumer_seq: 9, stream_seq: 20 },
            ack_floor: Pair { consumer_seq: 2, stream_seq: 11 },
            pending: [(12, 3, 100), (15, 5, 300)]
                .map(|(sequence, number, timestamp)| {
                    (sequence, PendingMessage { sequence: number, timestamp })
                })
                .into(),
            redelivered: [(15, 1), (13, 2), (3, 7)].into(),
        };
        Consumer::from_document(config(), &document, (10, 30), Timestamp(5)).unwrap()
    }

    #[test]
    fn a_document_comes_back() {
        let consumer = consumer();
        assert_eq!(consumer.ack_floor(), Position { consumer: 2, stream: 11 });
        assert_eq!((consumer.state.redelivered, consumer.state.exhausted.clone()), (1, [(13, 3)].into()));
        let document = consumer.document(consumer.ack_floor(), 30);
        let again =
            Consumer::from_document(config(), document.state.as_ref().unwrap(), (10, 30), Timestamp(5))
                .unwrap();
        assert_eq!((&again.state, again.name()), (&consumer.state, "C"));
        let json = serde_json::to_string(&document.state).unwrap();
        assert_eq!(
            json,
            r#"{"delivered":{"consumer_seq":9,"stream_seq":20},"ack_floor":{"consumer_seq":2,"stream_seq":11},"pending":{"12":{"Sequence":3,"Timestamp":100},"15":{"Sequence":5,"Timestamp":300}},"redelivered":{"13":2,"15":1}}"#
        );
    }

    #[test]
    fn what_lies_behind_the_copy_is_left_out() {
        let state = consumer().document(Position { consumer: 2, stream: 11 }, 13).state.unwrap();
        assert_eq!((state.delivered.stream_seq, state.pending.len()), (13, 1));
        assert_eq!(state.redelivered, [(13, 2)].into());
    }

    #[test]
    fn what_was_passed_over_is_delivered_again() {
        let mut consumer = consumer();
        consumer.state.park(21, true);
        let state = consumer.document(Position { consumer: 2, stream: 11 }, 30).state.unwrap();
        assert_eq!(state.pending[&21], PendingMessage { sequence: 9, timestamp: 0 });
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |change: fn(&mut ConsumerState)| {
            let mut document = consumer().document(Position { consumer: 2, stream: 11 }, 30).state.unwrap();
            change(&mut document);
            Consumer::from_document(config(), &document, (10, 30), Timestamp(5)).unwrap_err()
        };
        assert_eq!(refused(|state| state.ack_floor.stream_seq = 21), DocumentError::Floor);
        assert_eq!(refused(|state| state.ack_floor.consumer_seq = 10), DocumentError::Floor);
        fn put(state: &mut ConsumerState, sequence: u64, message: PendingMessage) {
            state.pending.insert(sequence, message);
        }
        assert_eq!(
            refused(|state| put(state, 14, PendingMessage { sequence: 10, timestamp: 0 })),
            DocumentError::Pending { sequence: 14 }
        );
        assert_eq!(
            refused(|state| put(state, 21, PendingMessage { sequence: 9, timestamp: 0 })),
            DocumentError::Pending { sequence: 21 }
        );
    }
}
