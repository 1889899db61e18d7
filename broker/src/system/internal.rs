//! A subscription whose messages the server itself handles.

use tokio::sync::mpsc;

use crate::net::dispatch::Message;

/// A message handed to a task of the server, copied out of the publisher's buffer.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Subject it was published to.
    pub subject: Vec<u8>,
    /// Where the answer goes.
    pub reply: Option<Vec<u8>>,
    /// Length of the header block at the front of `payload`.
    pub header_len: usize,
    /// Headers and body.
    pub payload: Vec<u8>,
}

/// The receiving end of internal subscriptions: a bounded queue to one task. A full queue drops, like any slow consumer.
#[derive(Debug)]
pub struct Internal {
    /// Number among the connections.
    pub id: u64,
    queue: mpsc::Sender<Delivered>,
}

impl Internal {
    /// A receiver with room for `queue_max` messages, and the queue's other end.
    pub fn new(id: u64, queue_max: usize) -> (Self, mpsc::Receiver<Delivered>) {
        let (queue, receiver) = mpsc::channel(queue_max);
        (Self { id, queue }, receiver)
    }

    /// Copies the message into the queue. False if it is full or the task is gone.
    pub fn deliver(&self, message: &Message<'_>) -> bool {
        let delivered = Delivered {
            subject: message.subject.to_vec(),
            reply: message.reply.map(<[u8]>::to_vec),
            header_len: message.header_len,
            payload: message.payload.to_vec(),
        };
        self.queue.try_send(delivered).is_ok()
    }
}
