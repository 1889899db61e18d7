//! Counters: messages that add to a number of any size, one for each subject (jetstream-api, section 6).

use std::collections::BTreeMap;

use api::error::jetstream::ErrorCode;
use bytes::Bytes;
use hashbrown::HashMap;
use num_bigint::BigInt;
use serde::{Deserialize, Serialize};

use super::headers::{self, Known};
use crate::source::mark::Mark;

/// Header of a message that tells what came from other streams.
pub(crate) const ORIGINS: &[u8] = b"Nats-Counter-Sources";
/// Header of a message that adds.
pub(crate) const INCREMENT: &[u8] = b"Nats-Incr";

/// Body of a stored counter.
#[derive(Debug, Serialize, Deserialize)]
struct Body {
    val: String,
}

/// What the counters of other streams were when they were added, by name of the stream and subject there.
type Origins = BTreeMap<String, BTreeMap<String, String>>;

/// What a counter is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) value: BigInt,
    /// Value of the header that tells what came from other streams.
    pub(crate) origins: Option<Bytes>,
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

impl Count {
    /// What a stored message holds.
    pub(crate) fn of(message: &store::stream::Message) -> Result<Self, ErrorCode> {
        let origins =
            headers::find(&message.headers, ORIGINS).map(|origins| message.headers.slice_ref(origins));
        Ok(Self { value: value(&message.payload)?, origins })
    }

    /// A counter of another stream stands at the value in `payload` now. Returns what that adds.
    pub(crate) fn follow(&mut self, mark: &Mark<'_>, payload: &[u8]) -> Result<BigInt, ErrorCode> {
        let broken = ErrorCode::MESSAGE_COUNTER_BROKEN;
        let mut origins: Origins = match &self.origins {
            Some(origins) => serde_json::from_slice(origins).map_err(|_| broken)?,
            None => Origins::new(),
        };
        let now = value(payload)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let of_stream = origins.entry(text(mark.origin)).or_default();
        let before = of_stream.insert(text(mark.subject.unwrap_or_default()), now.to_string());
        let before = before.and_then(|before| parse(before.as_bytes())).unwrap_or_default();
        let increment = now - before;
        self.value += &increment;
        self.origins = Some(serde_json::to_vec(&origins).map_err(|_| broken)?.into());
        Ok(increment)
    }
}

/// Values of counters whose newest message is in flight.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    ahead: HashMap<Box<[u8]>, (u64, Count)>,
}

impl Counters {
    /// The value in flight.
    pub(crate) fn ahead(&self, subject: &[u8]) -> Option<&Count> {
        self.ahead.get(subject).map(|(_, value)| value)
    }

    /// A message with this value was proposed.
    pub(crate) fn propose(&mut self, subject: &[u8], sequence: u64, value: Count) {
        self.ahead.insert(subject.into(), (sequence, value));
    }

    /// The message with this sequence is stored now.
    pub(crate) fn stored(&mut self, subject: &[u8], sequence: u64) {
        if self.ahead.get(subject).is_some_and(|(newest, _)| *newest == sequence) {
            self.ahead.remove(subject);
        }
    }
}

/// The increment that a message asks for. `None` if it has none, which only a stream that is no counter takes.
pub(crate) fn increment(
    known: &Known<'_>,
    allowed: bool,
    has_payload: bool,
) -> Result<Option<BigInt>, ErrorCode> {
    let Some(text) = known.increment else { return Ok(None) };
    let value = parse(text).ok_or(ErrorCode::MESSAGE_INCR_INVALID)?;
    if !allowed {
        return Err(ErrorCode::MESSAGE_INCR_DISABLED);
    }
    if has_payload {
        return Err(ErrorCode::MESSAGE_INCR_PAYLOAD);
    }
    let forbidden = known.rollup.is_some()
        || known.expected_stream.is_some()
        || known.expected_last.is_some()
        || known.expected_last_subject.is_some()
        || known.expected_last_subject_filter.is_some()
        || known.expected_last_id.is_some();
    if forbidden { Err(ErrorCode::MESSAGE_INCR_INVALID) } else { Ok(Some(value)) }
}

/// Reads a decimal number with an optional sign.
fn parse(text: &[u8]) -> Option<BigInt> {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = BigInt::parse_bytes(digits, 10)?;
    Some(if text.starts_with(b"-") { -value } else { value })
}

/// The value that a stored message holds.
pub(crate) fn value(payload: &[u8]) -> Result<BigInt, ErrorCode> {
    let body: Body = serde_json::from_slice(payload).map_err(|_| ErrorCode::MESSAGE_COUNTER_BROKEN)?;
    parse(body.val.as_bytes()).ok_or(ErrorCode::MESSAGE_COUNTER_BROKEN)
}

/// The body of a message that holds this value.
pub(crate) fn body(value: &BigInt) -> Vec<u8> {
    format!("{{\"val\":\"{value}\"}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_another_stream_adds_its_difference() {
        let mut count = Count { value: 5.into(), origins: None };
        let mark = Mark::parse(b"O 1 > > c.a id").unwrap();
        assert_eq!(count.follow(&mark, b"{\"val\":\"3\"}"), Ok(3.into()));
        assert_eq!(count.follow(&mark, b"{\"val\":\"-1\"}"), Ok((-4).into()));
        let other = Mark::parse(b"P 1 > > c.a id").unwrap();
        assert_eq!(count.follow(&other, b"{\"val\":\"10\"}"), Ok(10.into()));
        assert_eq!(count.to_string(), "14");
        assert_eq!(count.origins.as_deref(), Some(&b"{\"O\":{\"c.a\":\"-1\"},\"P\":{\"c.a\":\"10\"}}"[..]));
        assert_eq!(count.follow(&other, b"x"), Err(ErrorCode::MESSAGE_COUNTER_BROKEN));
        count.origins = Some(Bytes::from_static(b"x"));
        assert_eq!(count.follow(&other, b"{\"val\":\"10\"}"), Err(ErrorCode::MESSAGE_COUNTER_BROKEN));
    }

    #[test]
    fn numbers_of_any_size_and_both_signs_are_read() {
        for (text, value) in [("+7", "7"), ("-7", "-7"), ("007", "7"), ("-0", "0")] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), value);
        }
        let large = "9".repeat(100);
        assert_eq!(value(&body(&parse(large.as_bytes()).unwrap())).unwrap().to_string(), large);
        for text in ["", "-", "1_0", "0x1", " 1", "1.0"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(value(b"5"), Err(ErrorCode::MESSAGE_COUNTER_BROKEN));
        assert_eq!(value(b"{\"val\":\"x\"}"), Err(ErrorCode::MESSAGE_COUNTER_BROKEN));
    }
}
