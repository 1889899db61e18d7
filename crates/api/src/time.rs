//! Points in time on the wire: RFC 3339 with up to nine fraction digits, trailing zeros cut.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::go;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Days from the first day of year 1 to the first day of 1970.
const DAYS_TO_EPOCH: i64 = 719_162;

/// Days in 400 years of the Gregorian calendar, after which it repeats.
const DAYS_PER_ERA: i64 = 146_097;

/// A point in time, in nanoseconds since 1970. The default is [`Time::ZERO`], which documents use for "never".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i128);

/// The text is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid time {text:?}: {reason}")]
pub struct ParseTimeError {
    text: String,
    reason: &'static str,
}

impl Time {
    /// The first instant of year 1.
    pub const ZERO: Self = Self(-(DAYS_TO_EPOCH as i128) * SECONDS_PER_DAY as i128 * NANOS_PER_SECOND);

    /// The last nanosecond of year 9999, beyond which the text form has no digits.
    const LAST: Self = Self(253_402_300_800 * NANOS_PER_SECOND - 1);

    /// A time from nanoseconds since 1970, held between years 1 and 9999.
    pub fn from_unix_nanos(nanos: i128) -> Self {
        Self(nanos.clamp(Self::ZERO.0, Self::LAST.0))
    }

    /// Nanoseconds since 1970.
    pub fn unix_nanos(self) -> i128 {
        self.0
    }

    /// Whether this is the zero time.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Time passed since `earlier`, zero if it lies ahead.
    pub fn saturating_since(self, earlier: Self) -> std::time::Duration {
        let nanos = (self.0 - earlier.0).max(0);
        std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Default for Time {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since_zero = self.0 - Self::ZERO.0;
        // Both parts are within range because the constructor holds the time between years 1 and 9999.
        let seconds = (since_zero / NANOS_PER_SECOND) as i64;
        let nanos = (since_zero % NANOS_PER_SECOND) as u32;
        let (year, month, day) = date_of(seconds / SECONDS_PER_DAY);
        let of_day = seconds % SECONDS_PER_DAY;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if nanos > 0 {
            let digits = format!("{nanos:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        parse(text).map_err(|reason| ParseTimeError { text: text.chars().take(64).collect(), reason })
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: std::borrow::Cow<'de, str> = go::named(deserializer, go::TIME)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether a year has a 29 February.
fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from the first day of year 1 to the first day of `year`.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400
}

/// Year, month and day of a day counted from the first day of year 1.
fn date_of(day: i64) -> (i64, i64, i64) {
    // Dividing by the mean length of a year lands on the year or on one beside it.
    let mut year = day * 400 / DAYS_PER_ERA + 1;
    if days_before_year(year) > day {
        year -= 1;
    } else if days_before_year(year + 1) <= day {
        year += 1;
    }
    let mut rest = day - days_before_year(year);
    let mut month = 1;
    while rest >= days_in_month(year, month) {
        rest -= days_in_month(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

/// Takes `count` digits off the front.
fn digits(rest: &mut &[u8], count: usize) -> Result<i64, &'static str> {
    let Some((head, tail)) = rest.split_at_checked(count) else { return Err("too short") };
    if !head.iter().all(u8::is_ascii_digit) {
        return Err("digit expected");
    }
    *rest = tail;
    Ok(head.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// Takes one fixed byte off the front.
fn expect(rest: &mut &[u8], wanted: &[u8]) -> Result<u8, &'static str> {
    match rest.split_first() {
        Some((first, tail)) if wanted.contains(first) => {
            *rest = tail;
            Ok(*first)
        }
        _ => Err("separator expected"),
    }
}

fn parse(text: &str) -> Result<Time, &'static str> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    expect(&mut rest, b"-")?;
    let month = digits(&mut rest, 2)?;
    expect(&mut rest, b"-")?;
    let day = digits(&mut rest, 2)?;
    if year < 1 || !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return Err("no such day");
    }
    expect(&mut rest, b"Tt")?;
    // An hour of one digit and a comma before the fraction are no good form, but the reference takes them.
    let hour = digits(&mut rest, 2).or_else(|_| digits(&mut rest, 1))?;
    expect(&mut rest, b":")?;
    let minute = digits(&mut rest, 2)?;
    expect(&mut rest, b":")?;
    let second = digits(&mut rest, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return Err("no such time of day");
    }
    let nanos = parse_fraction(&mut rest)?;
    let offset = parse_offset(&mut rest)?;
    if !rest.is_empty() {
        return Err("text after the zone");
    }
    let days: i64 =
        days_before_year(year) + (1..month).map(|m| days_in_month(year, m)).sum::<i64>() + day - 1;
    let seconds = (days - DAYS_TO_EPOCH) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
    Ok(Time::from_unix_nanos(i128::from(seconds) * NANOS_PER_SECOND + i128::from(nanos)))
}

/// Nanoseconds of the fraction, zero without one. Digits after the ninth are read and dropped.
fn parse_fraction(rest: &mut &[u8]) -> Result<i64, &'static str> {
    if expect(rest, b".,").is_err() {
        return Ok(0);
    }
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err("digit expected");
    }
    let kept = count.min(9);
    let value = digits(rest, kept)?;
    *rest = &rest[count - kept..];
    Ok((kept..9).fold(value, |value, _| value * 10))
}

/// Seconds the zone is ahead of UTC.
fn parse_offset(rest: &mut &[u8]) -> Result<i64, &'static str> {
    let sign = match expect(rest, b"Zz+-")? {
        b'+' => 1,
        b'-' => -1,
        _ => return Ok(0),
    };
    let hours = digits(rest, 2)?;
    expect(rest, b":")?;
    let minutes = digits(rest, 2)?;
    if hours > 23 || minutes > 59 {
        return Err("no such zone");
    }
    Ok(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(nanos: i128) -> String {
        Time::from_unix_nanos(nanos).to_string()
    }

    #[test]
    fn fraction_has_no_trailing_zeros() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(1), "1970-01-01T00:00:00.000000001Z");
        assert_eq!(text(120_000_000), "1970-01-01T00:00:00.12Z");
        assert_eq!(text(1_796_193_861_293_441_594), "2026-12-02T06:44:21.293441594Z");
    }

    #[test]
    fn zero_time_is_the_first_instant_of_year_one() {
        assert_eq!(Time::default().to_string(), "0001-01-01T00:00:00Z");
        assert_eq!("0001-01-01T00:00:00Z".parse(), Ok(Time::ZERO));
        assert!(Time::ZERO.is_zero());
        assert!(!Time::from_unix_nanos(0).is_zero());
    }

    #[test]
    fn leap_days_and_ends_of_years_are_named_right() {
        for day in
            ["2000-02-29", "2024-02-29", "1999-12-31", "2100-02-28", "2100-03-01", "1969-12-31", "9999-12-31"]
        {
            let text = format!("{day}T23:59:59.999999999Z");
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert!("2100-02-29T00:00:00Z".parse::<Time>().is_err());
    }

    #[test]
    fn every_day_of_four_centuries_survives_a_round_trip() {
        let day_nanos = i128::from(SECONDS_PER_DAY) * NANOS_PER_SECOND;
        let mut previous = String::new();
        for day in 0..DAYS_PER_ERA {
            let time = Time::from_unix_nanos(i128::from(day) * day_nanos);
            let text = time.to_string();
            assert_eq!(text.parse(), Ok(time));
            assert!(text > previous, "{text} after {previous}");
            previous = text;
        }
    }

    #[test]
    fn zones_are_brought_to_utc() {
        let utc: Time = "2026-12-02T06:44:21.5Z".parse().unwrap();
        assert_eq!("2026-12-02T08:44:21.5+02:00".parse(), Ok(utc));
        assert_eq!("2026-12-01T23:14:21.500-07:30".parse(), Ok(utc));
    }

    #[test]
    fn times_outside_the_text_form_are_held_at_its_ends() {
        assert_eq!(text(i128::MIN), "0001-01-01T00:00:00Z");
        assert_eq!(text(i128::MAX), "9999-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn broken_texts_are_refused() {
        for text in [
            "",
            "2026",
            "2026-13-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00Zx",
            "2026-01-01T00:00:00+1:00",
            "0000-01-01T00:00:00Z",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }
}
