//! The write side of a connection: a buffer that any task may append to, and whoever flushes writes it to the socket.
//!
//! **Invariants.** At most one flush writes at a time (`State::writing`), so bytes leave in the order in which they were appended.
//! The lock is held for a copy, never for a system call. A socket that would block, and every TLS connection, is handed to a
//! writer task that lives only until the buffer is empty, so an idle connection owns neither buffer nor task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use protocol::error::CloseReason;
use tokio::time::{Instant, timeout_at};

use super::stream::WriteHalf;

/// A written buffer is kept for reuse between these sizes: below, a new one is cheap and an idle connection keeps nothing; above,
/// a burst's memory goes back.
const SPARE_MIN: usize = 1024;
const SPARE_MAX: usize = 256 * 1024;
/// Rounds of "write all that is there" that a flush makes before it leaves the rest to a writer task, so that a publisher's read
/// loop is not captured by one busy receiver.
const FLUSH_ROUNDS_MAX: usize = 4;
/// Share of the pending limit from which publishers are slowed down, in percent (core-protocol, section 6).
const STALL_PERCENT: usize = 75;

/// What becomes of a connection that does not take its bytes within the write deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteTimeout {
    /// The deadline is for all that was waiting when the write began: the policy for clients.
    Close,
    /// The deadline starts again with every byte that goes: the policy for routes.
    Retry,
}

/// Limits of the write side.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that may wait.
    pub pending_max: usize,
    /// Time for one write to make progress.
    pub write_deadline: Duration,
    /// Policy at the deadline.
    pub write_timeout: WriteTimeout,
}

/// Write side of one connection. Shared by everybody who sends to it.
pub struct Outbound {
    state: Mutex<State>,
    stream: WriteHalf,
    limits: Limits,
    /// Bytes taken from the buffer and not yet written.
    in_flight: AtomicUsize,
    dirty: AtomicBool,
    closing: AtomicBool,
}

#[derive(Default)]
struct State {
    buffer: Vec<u8>,
    spare: Vec<u8>,
    writing: bool,
    /// No more appends; what is buffered still goes out.
    sealed: bool,
    reason: Option<CloseReason>,
    sent: Sent,
}

/// Messages and payload bytes appended since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages.
    pub messages: u64,
    /// Bytes of headers and payloads.
    pub bytes: u64,
}

/// What an append found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// Taken.
    Ok,
    /// Taken, but the receiver is slow: the publisher should pause.
    Stall,
    /// Not taken: the connection is closing.
    Closed,
    /// The pending limit was passed: the connection is now closing.
    Overflow,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl Outbound {
    /// The write side of `stream`.
    pub fn new(stream: WriteHalf, limits: Limits) -> Self {
        Self {
            state: Mutex::default(),
            stream,
            limits,
            in_flight: AtomicUsize::new(0),
            dirty: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }
    }

    /// Appends one message, written by `write`; `size` is what monitoring counts for it.
    #[inline]
    pub fn append_message(&self, size: usize, write: impl FnOnce(&mut Vec<u8>)) -> Appended {
        let mut state = self.state.lock();
        if state.sealed {
            return Appended::Closed;
        }
        write(&mut state.buffer);
        state.sent.messages += 1;
        state.sent.bytes += size as u64;
        let pending = self.in_flight.load(Ordering::Relaxed) + state.buffer.len();
        if pending > self.limits.pending_max {
            drop(state);
            self.abort(CloseReason::SlowConsumerPendingBytes);
            return Appended::Overflow;
        }
        if pending > self.limits.pending_max / 100 * STALL_PERCENT { Appended::Stall } else { Appended::Ok }
    }

    /// Appends protocol bytes that are not a message.
    pub fn append(&self, bytes: &[u8]) -> Appended {
        let mut state = self.state.lock();
        if state.sealed {
            return Appended::Closed;
        }
        state.buffer.extend_from_slice(bytes);
        if self.in_flight.load(Ordering::Relaxed) + state.buffer.len() > self.limits.pending_max {
            drop(state);
            self.abort(CloseReason::SlowConsumerPendingBytes);
            return Appended::Overflow;
        }
        Appended::Ok
    }

    /// Marks it as waiting for a flush. True for the one who marked it: he owes the flush.
    #[inline]
    pub fn mark_dirty(&self) -> bool {
        !self.dirty.load(Ordering::Relaxed) && !self.dirty.swap(true, Ordering::AcqRel)
    }

    /// Writes what is buffered, as far as the socket takes it at once; the rest is left to a writer task.
    pub fn flush(self: &Arc<Self>) {
        self.dirty.store(false, Ordering::Release);
        let Some(mut batch) = self.take_batch() else { return };
        if self.stream.is_tls() {
            tokio::spawn(Arc::clone(self).drain(batch, 0));
            return;
        }
        for _ in 0..FLUSH_ROUNDS_MAX {
            match self.stream.write_now(&batch) {
                Ok(written) if written < batch.len() => {
                    self.in_flight.fetch_sub(written, Ordering::Relaxed);
                    tokio::spawn(Arc::clone(self).drain(batch, written));
                    return;
                }
                Ok(written) => {
                    self.in_flight.fetch_sub(written, Ordering::Relaxed);
                }
                Err(_) => return self.abort(CloseReason::WriteError),
            }
            match self.next_batch(batch) {
                Some(next) => batch = next,
                None => return,
            }
        }
        tokio::spawn(Arc::clone(self).drain(batch, 0));
    }

    /// Says goodbye: appends `last`, takes nothing more, and closes once all is written.
    pub fn finish(self: &Arc<Self>, last: &[u8], reason: CloseReason) {
        let idle = {
            let mut state = self.state.lock();
            if state.sealed {
                return;
            }
            state.buffer.extend_from_slice(last);
            state.sealed = true;
            state.reason.get_or_insert(reason);
            self.closing.store(true, Ordering::Release);
            !state.writing && state.buffer.is_empty()
        };
        if idle {
            self.stream.shutdown();
        } else {
            self.flush();
        }
    }

    /// Closes at once; what is buffered is lost.
    pub fn abort(&self, reason: CloseReason) {
        {
            let mut state = self.state.lock();
            state.sealed = true;
            state.reason.get_or_insert(reason);
            state.buffer = Vec::new();
            state.spare = Vec::new();
            self.closing.store(true, Ordering::Release);
        }
        self.stream.shutdown();
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Is the connection on its way out?
    #[inline]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Why it closes; the first reason given stands.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.state.lock().reason
    }

    /// Is so much waiting that publishers should be slowed down?
    pub fn is_slow(&self) -> bool {
        self.pending() > self.limits.pending_max / 100 * STALL_PERCENT
    }

    /// Bytes waiting to be written.
    pub fn pending(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed) + self.state.lock().buffer.len()
    }

    /// What was sent so far.
    pub fn sent(&self) -> Sent {
        self.state.lock().sent
    }

    /// Takes the buffer for writing, unless somebody is writing already: he will take what was added meanwhile.
    fn take_batch(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        if state.writing || state.buffer.is_empty() {
            return None;
        }
        state.writing = true;
        Some(self.swap_buffer(&mut state))
    }

    /// Gives the written buffer back and takes what was added meanwhile.
    fn next_batch(&self, mut written: Vec<u8>) -> Option<Vec<u8>> {
        let keep = written.len() >= SPARE_MIN && written.capacity() <= SPARE_MAX;
        written.clear();
        let mut state = self.state.lock();
        if !state.buffer.is_empty() {
            let batch = self.swap_buffer(&mut state);
            if keep {
                state.spare = written;
            }
            return Some(batch);
        }
        if keep && state.buffer.capacity() == 0 {
            state.buffer = written;
        }
        state.writing = false;
        if state.sealed {
            drop(state);
            self.stream.shutdown();
        }
        None
    }

    fn swap_buffer(&self, state: &mut State) -> Vec<u8> {
        let spare = std::mem::take(&mut state.spare);
        let batch = std::mem::replace(&mut state.buffer, spare);
        self.in_flight.fetch_add(batch.len(), Ordering::Relaxed);
        batch
    }

    /// Writes until nothing is left. Runs as a task of its own.
    async fn drain(self: Arc<Self>, mut batch: Vec<u8>, mut from: usize) {
        loop {
            let mut until = Instant::now() + self.limits.write_deadline;
            while from < batch.len() {
                match timeout_at(until, self.stream.write(&batch[from..])).await {
                    Ok(Ok(written)) if written > 0 => {
                        from += written;
                        self.in_flight.fetch_sub(written, Ordering::Relaxed);
                    }
                    Ok(_) => return self.abort(CloseReason::WriteError),
                    Err(_) => return self.abort(CloseReason::SlowConsumerWriteDeadline),
                }
                if self.limits.write_timeout == WriteTimeout::Retry {
                    until = Instant::now() + self.limits.write_deadline;
                }
            }
            if !matches!(timeout_at(until, self.stream.flush()).await, Ok(Ok(()))) {
                return self.abort(CloseReason::WriteError);
            }
            match self.next_batch(batch) {
                Some(next) => (batch, from) = (next, 0),
                None => return,
            }
        }
    }
}
