//! The bounded hand-over into a shard: connections, the log thread and the API put in, the shard takes all at once.
//!
//! Messages of clients count against a bound in number and bytes (`max_buffered_msgs`, `max_buffered_size`); what the server itself puts in is
//! bounded by what it has outstanding and always goes in, so that a full inbox can be emptied.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use jetstream::consumer::AckTokens;
use parking_lot::{Condvar, Mutex};

use super::shard::Input;

/// Refusals that may wait to be told to their publishers. Beyond it they are not told: a client that ignores refusals gets no more of them.
const REFUSALS_MAX: usize = 4096;
/// Messages and requests of clients that a shard takes in one turn: what the server itself asks, and what consumers deliver, comes between.
pub const TURN_MESSAGES: usize = 2048;

/// A message copied out of a connection's buffer, in one allocation.
#[derive(Debug, Clone)]
pub struct Inbound {
    /// Subject it was published to.
    pub subject: Bytes,
    /// Where an answer goes.
    pub reply: Option<Bytes>,
    /// Header block; empty for none.
    pub headers: Bytes,
    /// Body.
    pub payload: Bytes,
    /// The client of this server that published it.
    pub publisher: Option<u64>,
}

impl Inbound {
    /// Copies a message.
    pub fn copy(message: &crate::net::dispatch::Message<'_>, publisher: Option<u64>) -> Self {
        let reply = message.reply.unwrap_or_default();
        let mut buffer = Vec::with_capacity(message.subject.len() + reply.len() + message.payload.len());
        buffer.extend_from_slice(message.subject);
        buffer.extend_from_slice(reply);
        buffer.extend_from_slice(message.payload);
        let mut rest = Bytes::from(buffer);
        let subject = rest.split_to(message.subject.len());
        let reply_bytes = rest.split_to(reply.len());
        let headers = rest.split_to(message.header_len);
        Self { subject, reply: message.reply.map(|_| reply_bytes), headers, payload: rest, publisher }
    }

    /// Bytes that a copy of a message occupies.
    pub fn size_of(message: &crate::net::dispatch::Message<'_>) -> usize {
        message.subject.len() + message.reply.map_or(0, <[u8]>::len) + message.payload.len()
    }

    /// Bytes it occupies.
    pub fn size(&self) -> usize {
        self.subject.len()
            + self.reply.as_ref().map_or(0, Bytes::len)
            + self.headers.len()
            + self.payload.len()
    }
}

/// An acknowledgement, read on the thread of the connection it came by.
#[derive(Debug)]
pub struct Ack {
    /// Number of its consumer.
    pub consumer: u64,
    /// The delivery.
    pub tokens: AckTokens,
    /// Where the confirmation goes.
    pub reply: Option<Bytes>,
    /// What the client says.
    pub body: Bytes,
}

impl Ack {
    /// Copies what the message says beside the delivery. Most say nothing that needs a copy.
    pub fn copy(consumer: u64, tokens: AckTokens, message: &crate::net::dispatch::Message<'_>) -> Self {
        let body = match &message.payload[message.header_len..] {
            b"" => Bytes::new(),
            b"+ACK" => Bytes::from_static(b"+ACK"),
            body => Bytes::copy_from_slice(body),
        };
        Self { consumer, tokens, reply: message.reply.map(Bytes::copy_from_slice), body }
    }

    /// Bytes it occupies.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.reply.as_ref().map_or(0, Bytes::len) + self.body.len()
    }
}

/// Bounds of what clients may have waiting.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// A shard's inbox: one lane for clients, one for the server itself.
#[derive(Debug)]
pub struct Inbox {
    bounds: Bounds,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    control: VecDeque<Input>,
    messages: VecDeque<Input>,
    bytes: usize,
    refusals: usize,
    waiting: bool,
    /// The shard waits for the control lane only.
    control_only: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.control.is_empty() && (self.control_only || self.messages.is_empty())
    }
}

impl Inbox {
    /// An empty one.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, queue: Mutex::default(), arrived: Condvar::new() }
    }

    /// Puts in what the server itself has to say.
    pub fn push(&self, input: Input) {
        let mut queue = self.queue.lock();
        queue.control.push_back(input);
        self.wake(queue);
    }

    /// Puts in a client's request behind the messages that came before it. Requests are bounded where they are read. Where messages find no room
    /// it goes past them: those that come now are refused, so there is nothing to be behind of.
    pub fn push_request(&self, input: Input) {
        let mut queue = self.queue.lock();
        if queue.messages.len() < self.bounds.messages {
            queue.messages.push_back(input);
        } else {
            queue.control.push_back(input);
        }
        self.wake(queue);
    }

    /// Puts in a client's message of `size` bytes, as [`Input::size`] will say. If there is no room, `refuse` is put in instead, if it is given.
    /// False if it was refused.
    pub fn push_message(&self, size: usize, input: impl FnOnce() -> Input, refuse: Option<Input>) -> bool {
        let mut queue = self.queue.lock();
        let fits = queue.messages.len() < self.bounds.messages && queue.bytes + size <= self.bounds.bytes;
        if fits {
            queue.bytes += size;
            queue.messages.push_back(input());
        } else if let Some(refuse) = refuse
            && queue.refusals < REFUSALS_MAX
        {
            queue.refusals += 1;
            queue.control.push_back(refuse);
        }
        self.wake(queue);
        fits
    }

    fn wake(&self, mut queue: parking_lot::MutexGuard<'_, Queue>) {
        let wake = queue.waiting && !queue.is_empty();
        if wake {
            queue.waiting = false;
        }
        drop(queue);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// Moves what waits into `inputs`, which is empty: all of the server's own first, then [`TURN_MESSAGES`] of clients. Waits for something until
    /// `deadline`, for ever if there is none. With `control_only` clients' messages stay where they are: that is how a shard holds them back.
    pub fn take(&self, inputs: &mut VecDeque<Input>, deadline: Option<Instant>, control_only: bool) {
        let mut queue = self.queue.lock();
        queue.control_only = control_only;
        while queue.is_empty() {
            queue.waiting = true;
            let Some(deadline) = deadline else {
                self.arrived.wait(&mut queue);
                continue;
            };
            if self.arrived.wait_until(&mut queue, deadline).timed_out() {
                break;
            }
        }
        queue.waiting = false;
        std::mem::swap(&mut queue.control, inputs);
        queue.refusals = 0;
        if control_only {
            return;
        }
        if queue.messages.len() <= TURN_MESSAGES {
            inputs.append(&mut queue.messages);
            queue.bytes = 0;
            return;
        }
        let taken = queue.messages.drain(..TURN_MESSAGES);
        let before = inputs.len();
        inputs.extend(taken);
        let bytes: usize = inputs.range(before..).map(Input::size).sum();
        queue.bytes -= bytes;
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }

    /// Messages of clients that wait now, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        let queue = self.queue.lock();
        (queue.messages.len(), queue.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(size: usize) -> Input {
        let empty = Bytes::new();
        let message = Inbound {
            subject: empty.clone(),
            reply: None,
            headers: empty,
            payload: vec![0; size].into(),
            publisher: None,
        };
        Input::Publish { group: 1, message }
    }

    fn refuse() -> Option<Input> {
        Some(Input::Refuse { group: 1, reply: Bytes::new() })
    }

    #[test]
    fn messages_are_bounded_by_number_and_bytes_and_refusals_too() {
        let inbox = Inbox::new(Bounds { messages: 2, bytes: 100 });
        assert!(inbox.push_message(50, || publish(50), refuse()));
        assert!(!inbox.push_message(51, || publish(51), refuse()));
        assert!(inbox.push_message(50, || publish(50), refuse()));
        assert!(!inbox.push_message(0, || publish(0), None));
        let mut inputs = VecDeque::new();
        inbox.take(&mut inputs, None, false);
        assert_eq!(inputs.len(), 3);
        assert!(matches!(inputs[0], Input::Refuse { .. }));
        for _ in 0..2 * REFUSALS_MAX {
            inbox.push_message(101, || publish(101), refuse());
        }
        inputs.clear();
        inbox.take(&mut inputs, None, false);
        assert_eq!(inputs.len(), REFUSALS_MAX);
    }

    #[test]
    fn a_shard_that_holds_clients_back_still_hears_the_server() {
        let inbox = Inbox::new(Bounds { messages: 2, bytes: 100 });
        inbox.push_message(1, || publish(1), None);
        inbox.push(Input::Checkpoint { group: 1 });
        let mut inputs = VecDeque::new();
        inbox.take(&mut inputs, None, true);
        assert!(matches!(inputs.pop_front(), Some(Input::Checkpoint { .. })) && inputs.is_empty());
        inbox.take(&mut inputs, None, false);
        assert!(matches!(inputs.pop_front(), Some(Input::Publish { .. })));
    }

    #[test]
    fn a_turn_takes_only_so_many_messages_and_gives_their_room_back() {
        let inbox = Inbox::new(Bounds { messages: 3 * TURN_MESSAGES, bytes: 10 * TURN_MESSAGES });
        for _ in 0..TURN_MESSAGES + 5 {
            assert!(inbox.push_message(9, || publish(9), None));
        }
        inbox.push(Input::Checkpoint { group: 1 });
        let mut inputs = VecDeque::new();
        inbox.take(&mut inputs, None, false);
        assert!(matches!(inputs.pop_front(), Some(Input::Checkpoint { .. })));
        assert_eq!((inputs.len(), inbox.waiting()), (TURN_MESSAGES, (5, 45)));
        inputs.clear();
        inbox.take(&mut inputs, None, false);
        assert_eq!((inputs.len(), inbox.waiting()), (5, (0, 0)));
    }

    #[test]
    fn a_request_comes_behind_the_messages_before_it_unless_they_find_no_room() {
        let inbox = Inbox::new(Bounds { messages: 2, bytes: 100 });
        inbox.push_message(1, || publish(1), None);
        inbox.push_request(Input::Checkpoint { group: 1 });
        inbox.push_request(Input::Checkpoint { group: 2 });
        let mut inputs = VecDeque::new();
        inbox.take(&mut inputs, None, false);
        assert!(matches!(inputs.pop_front(), Some(Input::Checkpoint { group: 2 })));
        assert!(matches!(inputs.pop_front(), Some(Input::Publish { .. })));
        assert!(matches!(inputs.pop_front(), Some(Input::Checkpoint { group: 1 })));
    }
}
