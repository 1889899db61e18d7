//! Changes of a consumer, gathered over one turn into one command.
//!
//! A command is a version, the generation of the consumer, a time, and operations. Consecutive messages share one operation. Replicas
//! that get it do what the leader did.

use bytes::{Bytes, BytesMut};
use store::Timestamp;

use super::state::Cause;
use super::wire::{Put, Reader};

/// Format of commands; another one is refused.
const VERSION: u8 = 1;
/// Format of commands that are about dead letters too, so that a server that does not know them says so.
const VERSION_LETTERS: u8 = 2;

/// Bytes that are kept for the next command.
const CAPACITY_KEPT: usize = 256;

const DELIVERED: u8 = 1;
const REDELIVERED: u8 = 2;
const ACKED: u8 = 3;
const ACKED_UP_TO: u8 = 4;
const MOVED: u8 = 5;
const EXHAUSTED: u8 = 6;
const PARKED: u8 = 7;
const GIVEN_UP: u8 = 8;
const BURIED: u8 = 9;

/// How `GIVEN_UP` tells why.
const MAX_DELIVER: u8 = 0;
const TERMINATED: u8 = 1;

/// The bytes are no command of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Written by another version.
    #[error("consumer command of version {found}, this server reads versions up to {VERSION_LETTERS}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The bytes end early or make no sense.
    #[error("damaged consumer command of {size} bytes")]
    Damaged {
        /// Its length.
        size: usize,
    },
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Messages `first`, `first + 1`, .. were delivered for the first time, as deliveries `position`, `position + 1`, ..
    Delivered { first: u64, count: u64, position: u64 },
    /// A message was delivered again.
    Redelivered { sequence: u64, position: u64, deliveries: u32 },
    /// Messages `first`, `first + 1`, .. were acknowledged or terminated.
    Acked { first: u64, count: u64 },
    /// All messages up to this one were.
    AckedUpTo { sequence: u64 },
    /// The wait for the acknowledgement starts again as if at this time.
    Moved { sequence: u64, at: Timestamp },
    /// A message was delivered as often as allowed.
    Exhausted { sequence: u64 },
    /// A message was passed over.
    Parked { sequence: u64 },
    /// A pending message is not delivered any more and becomes a dead letter. Why is what `Operations::cause` says.
    GivenUp { sequence: u64 },
    /// A dead letter is stored.
    Buried { sequence: u64 },
}

/// The command of the current turn, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Operations written out.
    bytes: BytesMut,
    /// Time of the operations; all of one turn share it.
    at: Timestamp,
    /// The newest operation, which the next message may extend.
    open: Option<Operation>,
    /// Something is about dead letters.
    letters: bool,
    /// Who waits for the operations to last.
    pub(super) replies: Vec<Bytes>,
}

impl Batch {
    /// Adds an operation of this turn.
    pub(super) fn push(&mut self, operation: Operation, at: Timestamp) {
        if self.is_empty() {
            self.at = at;
        }
        match (&mut self.open, operation) {
            (
                Some(Operation::Delivered { first, count, position }),
                Operation::Delivered { first: next, count: 1, position: at },
            ) if *first + *count == next && *position + *count == at => *count += 1,
            (Some(Operation::Acked { first, count }), Operation::Acked { first: next, count: 1 })
                if *first + *count == next =>
            {
                *count += 1;
            }
            _ => {
                self.close();
                self.open = Some(operation);
            }
        }
    }

    /// Adds that a message was given up.
    pub(super) fn push_given_up(&mut self, sequence: u64, cause: &Cause, at: Timestamp) {
        if self.is_empty() {
            self.at = at;
        }
        self.close();
        self.letters = true;
        self.bytes.put_byte(GIVEN_UP);
        self.bytes.put_number(sequence);
        put_cause(&mut self.bytes, cause);
    }

    /// Whether there is nothing to propose.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.bytes.is_empty()
    }

    /// Time that replicas will take for the operations. Commands of a turn that comes while one is open share it.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        if self.is_empty() { now } else { self.at }
    }

    /// Moves the command to `out` and gives back who waits for it.
    pub(super) fn take(&mut self, generation: u64, out: &mut BytesMut) -> Vec<Bytes> {
        self.close();
        let letters = std::mem::take(&mut self.letters);
        out.put_byte(if letters { VERSION_LETTERS } else { VERSION });
        out.put_number(generation);
        out.put_signed(self.at.0);
        out.extend_from_slice(&self.bytes);
        self.bytes.clear();
        if self.bytes.capacity() > CAPACITY_KEPT {
            self.bytes = BytesMut::new();
        }
        std::mem::take(&mut self.replies)
    }

    /// Drops the operations, but not who waits for them.
    pub(super) fn forget_operations(&mut self) {
        self.open = None;
        self.letters = false;
        self.bytes.clear();
    }

    fn close(&mut self) {
        let Some(operation) = self.open.take() else { return };
        self.letters |= matches!(operation, Operation::Buried { .. });
        encode(&operation, &mut self.bytes);
    }
}

/// Writes why a message was given up.
pub(super) fn put_cause(out: &mut impl Put, cause: &Cause) {
    match cause {
        Cause::MaxDeliver => out.put_byte(MAX_DELIVER),
        Cause::Terminated(reason) => {
            out.put_byte(TERMINATED);
            out.put_string(reason.as_bytes());
        }
    }
}

/// Reads what `put_cause` wrote.
pub(super) fn read_cause(reader: &mut Reader<'_>) -> Option<Cause> {
    match reader.byte()? {
        MAX_DELIVER => Some(Cause::MaxDeliver),
        TERMINATED => Some(Cause::Terminated(std::str::from_utf8(reader.string()?).ok()?.into())),
        _ => None,
    }
}

fn put_numbers(out: &mut BytesMut, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.put_number(*number));
}

fn encode(operation: &Operation, out: &mut BytesMut) {
    match *operation {
        Operation::Delivered { first, count, position } => {
            out.put_byte(DELIVERED);
            put_numbers(out, &[first, count, position]);
        }
        Operation::Redelivered { sequence, position, deliveries } => {
            out.put_byte(REDELIVERED);
            put_numbers(out, &[sequence, position, u64::from(deliveries)]);
        }
        Operation::Acked { first, count } => {
            out.put_byte(ACKED);
            put_numbers(out, &[first, count]);
        }
        Operation::AckedUpTo { sequence } => {
            out.put_byte(ACKED_UP_TO);
            out.put_number(sequence);
        }
        Operation::Moved { sequence, at } => {
            out.put_byte(MOVED);
            out.put_number(sequence);
            out.put_signed(at.0);
        }
        Operation::Exhausted { sequence } => {
            out.put_byte(EXHAUSTED);
            out.put_number(sequence);
        }
        Operation::Parked { sequence } => {
            out.put_byte(PARKED);
            out.put_number(sequence);
        }
        Operation::GivenUp { sequence } => {
            out.put_byte(GIVEN_UP);
            out.put_number(sequence);
            put_cause(out, &Cause::MaxDeliver);
        }
        Operation::Buried { sequence } => {
            out.put_byte(BURIED);
            out.put_number(sequence);
        }
    }
}

/// A command that is being read.
#[derive(Debug)]
pub(super) struct Operations<'a> {
    /// Generation of the consumer that wrote it.
    pub(super) generation: u64,
    /// Time of its operations.
    pub(super) at: Timestamp,
    /// Why the message of the newest `GivenUp` was given up.
    pub(super) cause: Option<Cause>,
    reader: Reader<'a>,
    size: usize,
}

impl<'a> Operations<'a> {
    pub(super) fn read(command: &'a [u8]) -> Result<Self, CommandError> {
        let size = command.len();
        let damaged = CommandError::Damaged { size };
        let mut reader = Reader(command);
        match reader.byte().ok_or(damaged)? {
            VERSION | VERSION_LETTERS => {}
            found => return Err(CommandError::Version { found }),
        }
        let generation = reader.number().ok_or(damaged)?;
        let at = Timestamp(reader.signed().ok_or(damaged)?);
        Ok(Self { generation, at, cause: None, reader, size })
    }

    fn operation(&mut self) -> Option<Operation> {
        let reader = &mut self.reader;
        let operation = match reader.byte()? {
            DELIVERED => Operation::Delivered {
                first: reader.number()?,
                count: reader.number()?,
                position: reader.number()?,
            },
            REDELIVERED => Operation::Redelivered {
                sequence: reader.number()?,
                position: reader.number()?,
                deliveries: u32::try_from(reader.number()?).ok()?,
            },
            ACKED => Operation::Acked { first: reader.number()?, count: reader.number()? },
            ACKED_UP_TO => Operation::AckedUpTo { sequence: reader.number()? },
            MOVED => Operation::Moved { sequence: reader.number()?, at: Timestamp(reader.signed()?) },
            EXHAUSTED => Operation::Exhausted { sequence: reader.number()? },
            PARKED => Operation::Parked { sequence: reader.number()? },
            GIVEN_UP => {
                let sequence = reader.number()?;
                self.cause = Some(read_cause(reader)?);
                Operation::GivenUp { sequence }
            }
            BURIED => Operation::Buried { sequence: reader.number()? },
            _ => return None,
        };
        let sound = match operation {
            Operation::Delivered { first, count, position } => {
                count > 0 && first.checked_add(count).is_some() && position.checked_add(count).is_some()
            }
            Operation::Acked { first, count } => count > 0 && first.checked_add(count).is_some(),
            _ => true,
        };
        sound.then_some(operation)
    }
}

impl Iterator for Operations<'_> {
    type Item = Result<Operation, CommandError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let operation = self.operation();
        if operation.is_none() {
            self.reader = Reader(&[]);
        }
        Some(operation.ok_or(CommandError::Damaged { size: self.size }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &[u8]) -> Result<Vec<Operation>, CommandError> {
        Operations::read(command)?.collect()
    }

    #[test]
    fn neighbours_share_an_operation() {
        let mut batch = Batch::default();
        for (sequence, position) in [(4, 1), (5, 2), (6, 3), (8, 4)] {
            batch.push(Operation::Delivered { first: sequence, count: 1, position }, Timestamp(9));
        }
        for first in [6, 7, 4] {
            batch.push(Operation::Acked { first, count: 1 }, Timestamp(10));
        }
        let rest = [
            Operation::Redelivered { sequence: 8, position: 5, deliveries: 2 },
            Operation::AckedUpTo { sequence: 300 },
            Operation::Moved { sequence: 8, at: Timestamp(-1) },
            Operation::Exhausted { sequence: 8 },
            Operation::Parked { sequence: u64::MAX },
        ];
        for operation in rest {
            batch.push(operation, Timestamp(10));
        }
        let mut command = BytesMut::new();
        batch.take(3, &mut command);
        let mut expected = vec![
            Operation::Delivered { first: 4, count: 3, position: 1 },
            Operation::Delivered { first: 8, count: 1, position: 4 },
            Operation::Acked { first: 6, count: 2 },
            Operation::Acked { first: 4, count: 1 },
        ];
        expected.extend(rest);
        assert_eq!(read(&command), Ok(expected));
        let operations = Operations::read(&command).unwrap();
        assert_eq!((operations.generation, operations.at), (3, Timestamp(9)));
        assert!(batch.is_empty());
    }

    #[test]
    fn commands_about_dead_letters_have_a_version_of_their_own() {
        let mut batch = Batch::default();
        batch.push(Operation::Acked { first: 1, count: 1 }, Timestamp(9));
        batch.push_given_up(2, &Cause::Terminated("no".into()), Timestamp(9));
        batch.push(Operation::Acked { first: 3, count: 1 }, Timestamp(9));
        batch.push(Operation::Buried { sequence: 2 }, Timestamp(9));
        let mut command = BytesMut::new();
        batch.take(0, &mut command);
        assert_eq!(command[0], VERSION_LETTERS);
        let mut operations = Operations::read(&command).unwrap();
        assert_eq!(operations.next(), Some(Ok(Operation::Acked { first: 1, count: 1 })));
        assert_eq!(operations.next(), Some(Ok(Operation::GivenUp { sequence: 2 })));
        assert_eq!(operations.cause, Some(Cause::Terminated("no".into())));
        assert_eq!(operations.next(), Some(Ok(Operation::Acked { first: 3, count: 1 })));
        assert_eq!(operations.next(), Some(Ok(Operation::Buried { sequence: 2 })));
        for length in 4..command.len() {
            let cut = read(&command[..length]).is_err();
            // Only between operations a cut cannot be seen; the log has lengths of its own.
            assert_eq!(cut, ![6, 12, 15].contains(&length), "cut at {length}");
        }
        command.clear();
        batch.push(Operation::Acked { first: 4, count: 1 }, Timestamp(9));
        batch.take(0, &mut command);
        assert_eq!(command[0], VERSION);
    }

    #[test]
    fn broken_commands_are_refused() {
        assert_eq!(read(&[]), Err(CommandError::Damaged { size: 0 }));
        assert_eq!(read(&[9, 0, 0]), Err(CommandError::Version { found: 9 }));
        assert_eq!(read(&[VERSION, 0, 0, 77]), Err(CommandError::Damaged { size: 4 }));
        assert_eq!(read(&[VERSION, 0, 0, ACKED, 1, 0]), Err(CommandError::Damaged { size: 6 }));
    }
}
