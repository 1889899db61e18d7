//! A subscription whose messages the server itself handles.

use api::json::OPTIONS_BYTES_MAX;
use tokio::sync::mpsc;

use crate::net::dispatch::Message;

/// A message handed to a task of the server, copied out of the publisher's buffer.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// Subject it was published to.
    pub subject: Vec<u8>,
    /// Where the answer goes.
    pub reply: Option<Vec<u8>>,
    /// What comes after the headers. Of a body that is too long for any request only so much that this shows.
    pub body: Vec<u8>,
    /// The client that published it, if it is one of this server's.
    pub publisher: Option<u64>,
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
    pub fn deliver(&self, message: &Message<'_>, publisher: Option<u64>) -> bool {
        let Ok(place) = self.queue.try_reserve() else { return false };
        let body = &message.payload[message.header_len..];
        place.send(Delivered {
            subject: message.subject.to_vec(),
            reply: message.reply.map(<[u8]>::to_vec),
            body: body[..body.len().min(OPTIONS_BYTES_MAX + 1)].to_vec(),
            publisher,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &[u8], header_len: usize) -> Message<'_> {
        Message { subject: b"s", reply: Some(b"r"), header_len, payload }
    }

    #[test]
    fn a_full_queue_drops() {
        let (internal, mut queue) = Internal::new(1, 1);
        assert!(internal.deliver(&message(b"one", 0), None));
        assert!(!internal.deliver(&message(b"two", 0), None));
        assert_eq!(queue.try_recv().unwrap().body, b"one");
        assert!(internal.deliver(&message(b"three", 0), Some(7)));
        assert_eq!(queue.try_recv().unwrap().publisher, Some(7));
    }

    #[test]
    fn headers_are_left_out_and_bodies_are_bounded() {
        let (internal, mut queue) = Internal::new(1, 2);
        internal.deliver(&message(b"NATS/1.0\r\n\r\nbody", 12), None);
        assert_eq!(queue.try_recv().unwrap().body, b"body");
        internal.deliver(&message(&vec![b' '; 4 * OPTIONS_BYTES_MAX], 0), None);
        assert_eq!(queue.try_recv().unwrap().body.len(), OPTIONS_BYTES_MAX + 1);
    }
}
