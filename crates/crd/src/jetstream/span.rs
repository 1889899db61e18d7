//! Numbers and durations in the forms that manifests for these kinds have always had.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::common::{DurationError, PointStyle, sum_of_units};

/// What the API server lets through.
const PATTERN: &str = r"^$|^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w))+)$";

/// A span of time as Go writes it, with days and weeks; empty for unset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub String);

impl Span {
    /// Whether nothing was written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nanoseconds; zero when nothing was written.
    ///
    /// # Errors
    /// When the text is no duration, or exceeds 292 years.
    pub fn nanos(&self) -> Result<i64, DurationError> {
        if self.is_empty() {
            return Ok(0);
        }
        parse(&self.0).ok_or_else(|| DurationError { text: self.0.chars().take(64).collect() })
    }
}

impl From<&str> for Span {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

fn parse(text: &str) -> Option<i64> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // Microseconds are written with either of two letters, or with the one that stands for them.
    let plain = rest.replace(['\u{b5}', '\u{3bc}'], "u");
    let total = if plain == "0" { 0 } else { sum_of_units(&plain, PointStyle::Anywhere)? };
    let total = i64::try_from(total).ok()?;
    Some(if negative { -total } else { total })
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN })
    }
}

/// A span of time that older manifests write as a number of nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NanosOrSpan {
    /// Nanoseconds.
    Nanos(i64),
    /// A duration.
    Span(Span),
}

impl NanosOrSpan {
    /// Nanoseconds.
    ///
    /// # Errors
    /// When the text is no duration.
    pub fn nanos(&self) -> Result<i64, DurationError> {
        match self {
            Self::Nanos(nanos) => Ok(*nanos),
            Self::Span(span) => span.nanos(),
        }
    }
}

impl JsonSchema for NanosOrSpan {
    fn schema_name() -> Cow<'static, str> {
        "NanosOrSpan".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

/// A sequence, which the schema calls a number: large ones may come with an exponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl<'de> Deserialize<'de> for Sequence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Sequence;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Sequence, E> {
                Ok(Sequence(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Sequence, E> {
                Ok(Sequence(u64::try_from(value).unwrap_or(0)))
            }

            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the cast holds the value within the range, which is what is wanted"
            )]
            fn visit_f64<E: Error>(self, value: f64) -> Result<Sequence, E> {
                Ok(Sequence(value as u64))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

impl JsonSchema for Sequence {
    fn schema_name() -> Cow<'static, str> {
        "Sequence".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them_and_in_days() {
        for (text, expected) in [
            ("", Some(0)),
            ("0", Some(0)),
            ("1ns", Some(1)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("-1s", Some(-1_000_000_000)),
            ("+1s", Some(1_000_000_000)),
            ("3µs", Some(3_000)),
            ("2d", Some(172_800_000_000_000)),
            ("1d12h", Some(129_600_000_000_000)),
            ("5", None),
            ("s", None),
            (".s", None),
            ("1y", None),
            ("1s ", None),
            ("99999999w", None),
            ("-", None),
        ] {
            assert_eq!(Span::from(text).nanos().ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn sequences_may_have_an_exponent() {
        for (text, expected) in
            [("7", 7), ("7.0", 7), ("1e3", 1000), ("18446744073709551615", u64::MAX), ("-1", 0)]
        {
            assert_eq!(serde_json::from_str::<Sequence>(text).unwrap(), Sequence(expected), "{text}");
        }
    }

    #[test]
    fn nanoseconds_may_be_a_duration() {
        let nanos = |text: &str| serde_json::from_str::<NanosOrSpan>(text).unwrap().nanos();
        assert_eq!(nanos("5"), Ok(5));
        assert_eq!(nanos("\"1m\""), Ok(60_000_000_000));
        assert!(nanos("\"soon\"").is_err());
    }
}
