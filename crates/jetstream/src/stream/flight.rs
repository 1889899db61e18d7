//! Commands that a leader has proposed and not yet applied, in the order of the log.
//!
//! A leader's checks must count them: sequences, the last message of a subject, numbers and bytes. Most streams never ask about subjects, so the
//! index of subjects is built at the first question and dropped when nothing is in flight.

use std::collections::VecDeque;

use bytes::Bytes;
use hashbrown::HashMap;

use super::batch::FastAck;
use crate::request::{Request, Token};

/// A proposed command, and what is due when it is applied.
#[derive(Debug)]
pub(crate) enum Flight {
    /// A message.
    Message(Message),
    /// Something that may remove messages: a purge, a deletion, an expiry, a change of the configuration.
    Removal(Option<Token>),
    /// A change of the set of consumers.
    Consumers(Option<Token>),
    /// A command of a consumer.
    Consumer,
    /// Sequences up to this one are passed over.
    Skip(u64),
    /// No command, but a request that sees what those before it have done.
    Request(Token, Box<Request>),
}

/// A message in flight.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) sequence: u64,
    pub(crate) subject: Bytes,
    /// What the store will count for it.
    pub(crate) size: u64,
    /// Others will be removed by it.
    pub(crate) removes: bool,
    pub(crate) ack: Ack,
}

/// What the publisher hears.
#[derive(Debug)]
pub(crate) enum Ack {
    /// Nothing.
    None,
    /// The sequence.
    Plain(Bytes),
    /// More than that.
    Detailed(Box<Detailed>),
    /// The group of a fast batch, if it is full.
    Fast(Box<FastAck>),
}

/// An acknowledgement of a counter or a batch.
#[derive(Debug)]
pub(crate) struct Detailed {
    pub(crate) reply: Bytes,
    /// Value of the counter.
    pub(crate) value: Option<String>,
    /// Identity of the batch and its number of messages.
    pub(crate) batch: Option<(Bytes, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Subject {
    last: u64,
    messages: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    queue: VecDeque<Flight>,
    last_sequence: u64,
    messages: u64,
    bytes: u64,
    removals: usize,
    consumers: usize,
    /// Commands of consumers.
    states: usize,
    requests: usize,
    subjects: Option<HashMap<Bytes, Subject>>,
}

impl Flights {
    /// Nothing is in flight; `last_sequence` is that of the store.
    pub(crate) fn new(last_sequence: u64) -> Self {
        Self { last_sequence, ..Self::default() }
    }

    /// The highest sequence given out.
    #[inline]
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Messages in flight.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Will something in flight remove messages? Then what the store says of a subject may not be what it will say.
    #[inline]
    pub(crate) fn has_removals(&self) -> bool {
        self.removals > 0
    }

    /// Will something in flight change the set of consumers?
    pub(crate) fn has_consumers(&self) -> bool {
        self.consumers > 0
    }

    /// Sequences up to this one are used up by something in flight.
    pub(crate) fn raise(&mut self, sequence: u64) {
        self.last_sequence = self.last_sequence.max(sequence);
    }

    /// Adds one at the end.
    pub(crate) fn push(&mut self, flight: Flight) {
        match &flight {
            Flight::Message(message) => {
                assert!(message.sequence > self.last_sequence, "sequence {} again", message.sequence);
                self.last_sequence = message.sequence;
                self.messages += 1;
                self.bytes += message.size;
                self.removals += usize::from(message.removes);
                if let Some(subjects) = &mut self.subjects {
                    index(subjects, message);
                }
            }
            Flight::Removal(_) => self.removals += 1,
            Flight::Consumers(_) => self.consumers += 1,
            Flight::Skip(sequence) => self.last_sequence = self.last_sequence.max(*sequence),
            Flight::Request(..) => self.requests += 1,
            Flight::Consumer => self.states += 1,
        }
        self.queue.push_back(flight);
    }

    /// Nothing is in flight.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Will something in flight change more than what a consumer knows of its messages?
    #[inline]
    pub(crate) fn has_changes(&self) -> bool {
        self.queue.len() > self.states + self.requests
    }

    /// Is there anything but what consumers know of their messages? Somebody waits for it.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.queue.len() > self.states
    }

    /// Requests that wait for commands before them.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Takes the oldest if it is a request: everything before it is applied.
    #[inline]
    pub(crate) fn pop_request(&mut self) -> Option<(Token, Request)> {
        if self.requests == 0 || !matches!(self.queue.front(), Some(Flight::Request(..))) {
            return None;
        }
        match self.pop() {
            Some(Flight::Request(token, request)) => Some((token, *request)),
            _ => None,
        }
    }

    /// Takes all requests out, for what is before them will not be applied any more.
    pub(crate) fn take_requests(&mut self) -> Vec<(Token, Request)> {
        let mut taken = Vec::with_capacity(std::mem::take(&mut self.requests));
        for flight in std::mem::take(&mut self.queue) {
            match flight {
                Flight::Request(token, request) => taken.push((token, *request)),
                command => self.queue.push_back(command),
            }
        }
        taken
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<Flight> {
        let flight = self.queue.pop_front()?;
        match &flight {
            Flight::Message(message) => {
                self.messages -= 1;
                self.bytes -= message.size;
                self.removals -= usize::from(message.removes);
                if let Some(subjects) = &mut self.subjects {
                    forget(subjects, message);
                }
            }
            Flight::Removal(_) => self.removals -= 1,
            Flight::Consumers(_) => self.consumers -= 1,
            Flight::Request(..) => self.requests -= 1,
            Flight::Consumer => self.states -= 1,
            Flight::Skip(_) => {}
        }
        if self.queue.is_empty() {
            self.subjects = None;
        }
        Some(flight)
    }

    /// Sequence of the newest message of a subject, and how many there are.
    pub(crate) fn subject(&mut self, literal: &[u8]) -> Option<(u64, u64)> {
        if self.messages == 0 {
            return None;
        }
        let queue = &self.queue;
        let subjects = self.subjects.get_or_insert_with(|| {
            let mut subjects = HashMap::new();
            for flight in queue {
                if let Flight::Message(message) = flight {
                    index(&mut subjects, message);
                }
            }
            subjects
        });
        subjects.get(literal).map(|subject| (subject.last, subject.messages))
    }

    /// Sequence of the newest message that matches a pattern.
    pub(crate) fn last_matching(&self, pattern: &[u8]) -> Option<u64> {
        self.queue.iter().rev().find_map(|flight| match flight {
            Flight::Message(message) if subject::matches(&message.subject, pattern) => Some(message.sequence),
            _ => None,
        })
    }
}

fn index(subjects: &mut HashMap<Bytes, Subject>, message: &Message) {
    if let Some(subject) = subjects.get_mut(&message.subject) {
        subject.last = message.sequence;
        subject.messages += 1;
    } else {
        subjects.insert(message.subject.clone(), Subject { last: message.sequence, messages: 1 });
    }
}

fn forget(subjects: &mut HashMap<Bytes, Subject>, message: &Message) {
    let Some(subject) = subjects.get_mut(&message.subject) else { return };
    subject.messages -= 1;
    if subject.messages == 0 {
        subjects.remove(&message.subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u64, subject: &'static str) -> Flight {
        let subject = Bytes::from_static(subject.as_bytes());
        Flight::Message(Message { sequence, subject, size: 10, removes: sequence == 3, ack: Ack::None })
    }

    #[test]
    fn counts_follow_what_is_in_flight() {
        let mut flights = Flights::new(0);
        flights.push(message(1, "a"));
        flights.push(message(2, "b"));
        assert_eq!((flights.subject(b"a"), flights.subject(b"c")), (Some((1, 1)), None));
        flights.push(message(3, "a"));
        assert_eq!(flights.subject(b"a"), Some((3, 2)));
        assert_eq!((flights.last_matching(b"*"), flights.last_matching(b"b")), (Some(3), Some(2)));
        assert!(flights.has_removals());
        flights.pop();
        assert_eq!(flights.subject(b"a"), Some((3, 1)));
        flights.push(Flight::Removal(None));
        flights.pop();
        flights.pop();
        assert!(flights.has_removals() && flights.messages() == 0 && flights.bytes() == 0);
        flights.pop();
        assert!(!flights.has_removals() && flights.pop().is_none());
        assert_eq!(flights.last_sequence(), 3);
    }
}
