//! Life of a message by its `Nats-TTL` header.

use std::time::Duration;

use api::error::jetstream::ErrorCode;
use store::Timestamp;
use store::stream::Expiry;

use crate::duration;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// What the header asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// It stays, whatever the stream's maximum age.
    Never,
    /// Whole seconds, at least one.
    Seconds(i64),
}

impl Ttl {
    /// Reads a value: seconds, a duration of at least one second, or `never`.
    pub(crate) fn parse(value: &[u8]) -> Result<Self, ErrorCode> {
        if value.eq_ignore_ascii_case(b"never") {
            return Ok(Self::Never);
        }
        let seconds = match duration::parse(value) {
            Some(nanos) => Some(nanos / NANOS_PER_SECOND),
            None if value.iter().all(u8::is_ascii_digit) => {
                std::str::from_utf8(value).ok().and_then(|text| text.parse().ok())
            }
            None => None,
        };
        seconds.filter(|seconds| *seconds > 0).map(Self::Seconds).ok_or(ErrorCode::MESSAGE_TTL_INVALID)
    }

    /// No shorter than this.
    pub(crate) fn at_least(self, minimum: Duration) -> Self {
        let minimum = i64::try_from(minimum.as_secs()).unwrap_or(i64::MAX);
        match self {
            Self::Seconds(seconds) if seconds < minimum => Self::Seconds(minimum),
            other => other,
        }
    }

    /// When a message stored at this time goes.
    pub(crate) fn expiry(self, stored: Timestamp) -> Expiry {
        match self {
            Self::Never => Expiry::Never,
            Self::Seconds(seconds) => {
                Expiry::At(Timestamp(stored.0.saturating_add(seconds.saturating_mul(NANOS_PER_SECOND))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_the_reference_are_read() {
        for (text, ttl) in [
            ("1", Ttl::Seconds(1)),
            ("1s", Ttl::Seconds(1)),
            ("1.9s", Ttl::Seconds(1)),
            ("1h", Ttl::Seconds(3600)),
            ("NEVER", Ttl::Never),
            ("9223372036854775807", Ttl::Seconds(i64::MAX)),
        ] {
            assert_eq!(Ttl::parse(text.as_bytes()), Ok(ttl), "{text}");
        }
        for text in ["0", "0s", "-1", "-5s", "+5", "5 ", "1ms", "999ms", "x", "99999999999999999999"] {
            assert_eq!(Ttl::parse(text.as_bytes()), Err(ErrorCode::MESSAGE_TTL_INVALID), "{text}");
        }
    }

    #[test]
    fn expiry_does_not_wrap() {
        assert_eq!(Ttl::Seconds(i64::MAX).expiry(Timestamp(5)), Expiry::At(Timestamp(i64::MAX)));
        assert_eq!(Ttl::Seconds(2).at_least(Duration::from_secs(3)), Ttl::Seconds(3));
        assert_eq!(Ttl::Never.at_least(Duration::from_secs(3)), Ttl::Never);
    }
}
