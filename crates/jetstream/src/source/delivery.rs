//! What comes over a source's subscription: stored messages with their place in the reply subject, heartbeats, flow control.

use api::jetstream::stream::SEQUENCE_MAX;
use store::Timestamp;

use crate::stream::headers;

const ACK: &[u8] = b"$JS.ACK.";
const STATUS: &[u8] = b"NATS/1.0 100 ";
const LAST_CONSUMER: &[u8] = b"Nats-Last-Consumer";
const STALLED: &[u8] = b"Nats-Consumer-Stalled";

/// Tokens that follow stream and consumer in a reply subject.
const NUMBERS: usize = 5;

/// The place of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery<'a> {
    /// Consumer that delivers it.
    pub(crate) consumer: &'a [u8],
    /// How often it was delivered.
    pub(crate) deliveries: u64,
    /// Its sequence in the origin.
    pub(crate) stream: u64,
    /// Number of the delivery.
    pub(crate) number: u64,
    /// When the origin stored it.
    pub(crate) timestamp: Timestamp,
    /// Messages after it.
    pub(crate) pending: u64,
}

impl<'a> Delivery<'a> {
    /// Reads a reply subject of either form. `None` if it is none, or names a place that no stream has.
    pub(crate) fn parse(reply: &'a [u8]) -> Option<Self> {
        let rest = reply.strip_prefix(ACK)?;
        // The longer form has domain and account in front, and perhaps more at the end.
        let skip = match subject::tokens(rest).count() {
            7 => 1,
            9.. => 3,
            _ => return None,
        };
        let mut tokens = subject::tokens(rest).skip(skip);
        let consumer = tokens.next()?;
        let mut numbers = [0u64; NUMBERS];
        for number in &mut numbers {
            *number = decimal(tokens.next()?)?;
        }
        let [deliveries, stream, number, timestamp, pending] = numbers;
        let timestamp = Timestamp(i64::try_from(timestamp).ok()?);
        if stream > SEQUENCE_MAX {
            return None;
        }
        Some(Self { consumer, deliveries, stream, number, timestamp, pending })
    }
}

/// A message of the consumer itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Control<'a> {
    /// Tell how far you are, to the reply subject.
    FlowControl,
    /// The consumer lives.
    Heartbeat {
        /// Number of the last delivery; zero if it does not say.
        last: u64,
        /// It waits for an answer to this subject.
        stalled: Option<&'a [u8]>,
    },
}

impl<'a> Control<'a> {
    /// Reads what came. `None` if it is a stored message.
    pub(crate) fn parse(block: &'a [u8], payload: &[u8], has_reply: bool) -> Option<Self> {
        if !payload.is_empty() || !block.starts_with(STATUS) {
            return None;
        }
        if has_reply {
            return Some(Self::FlowControl);
        }
        let last = headers::find(block, LAST_CONSUMER).and_then(decimal).unwrap_or(0);
        let stalled = headers::find(block, STALLED).filter(|subject| !subject.is_empty());
        Some(Self::Heartbeat { last, stalled })
    }
}

/// A number in decimal digits.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_reply_are_read() {
        let short = Delivery::parse(b"$JS.ACK.O.JS_MIRROR_x-y.1.22.3.1796209620109251284.2").unwrap();
        let expected = Delivery {
            consumer: b"JS_MIRROR_x-y",
            deliveries: 1,
            stream: 22,
            number: 3,
            timestamp: Timestamp(1_796_209_620_109_251_284),
            pending: 2,
        };
        assert_eq!(short, expected);
        for long in [
            "$JS.ACK._.h4sh.O.JS_MIRROR_x-y.1.22.3.1796209620109251284.2",
            "$JS.ACK.d.h.O.JS_MIRROR_x-y.1.22.3.1796209620109251284.2.more",
        ] {
            assert_eq!(Delivery::parse(long.as_bytes()), Some(expected), "{long}");
        }
        for bad in [
            "",
            "$JS.FC.O.c.1234",
            "$JS.ACK.O.c.1.2.3.4",
            "$JS.ACK.O.c.1.x.3.4.5",
            "$JS.ACK.O.c.1.9223372036854775808.3.4.5",
            "$JS.ACK.O.c.1.2.3.4.5.6",
        ] {
            assert_eq!(Delivery::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn control_messages_are_told_from_stored_ones() {
        let beat = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\nNats-Last-Stream: 9\r\n\r\n";
        assert_eq!(Control::parse(beat, b"", false), Some(Control::Heartbeat { last: 7, stalled: None }));
        assert_eq!(Control::parse(beat, b"x", false), None);
        let flow = b"NATS/1.0 100 FlowControl Request\r\n\r\n";
        assert_eq!(Control::parse(flow, b"", true), Some(Control::FlowControl));
        let stalled = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\nNats-Consumer-Stalled: $JS.FC.O.c.i\r\n\r\n";
        let expected = Control::Heartbeat { last: 7, stalled: Some(b"$JS.FC.O.c.i") };
        assert_eq!(Control::parse(stalled, b"", false), Some(expected));
        assert_eq!(Control::parse(b"NATS/1.0\r\nA: b\r\n\r\n", b"", false), None);
    }
}
