//! Patterns of schedules: one time, a fixed interval, or fields of a calendar in a time zone (jetstream-api, section 8).

use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp as Instant, ToSpan};
use store::Timestamp;

use crate::duration;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// How far the next time is looked for.
const HORIZON_YEARS: i64 = 5;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Why a pattern was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternError {
    Pattern,
    TimeZone,
}

/// When a schedule is due.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// Once.
    At(Timestamp),
    /// Again and again after so many seconds.
    Every(i64),
    /// Whenever the calendar fits.
    Calendar(Box<Calendar>),
}

/// Fields of a calendar as sets of bits, and the zone they are meant in.
#[derive(Debug, Clone)]
pub(crate) struct Calendar {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Either days or weekdays are not restricted: then both must fit, else one of them is enough.
    any_day: bool,
    zone: TimeZone,
}

impl Pattern {
    /// Reads a pattern and the time zone beside it, if one was named.
    pub(crate) fn parse(text: &[u8], zone: Option<&[u8]>) -> Result<Self, PatternError> {
        let text = std::str::from_utf8(text).map_err(|_| PatternError::Pattern)?;
        let zone = zone.map(find_zone).transpose()?;
        if let Some(time) = text.strip_prefix("@at ") {
            let time: api::Time = time.parse().map_err(|_| PatternError::Pattern)?;
            let nanos = time.unix_nanos().clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            return if zone.is_some() { Err(PatternError::Pattern) } else { Ok(Self::At(Timestamp(nanos))) };
        }
        if let Some(interval) = text.strip_prefix("@every ") {
            let nanos = duration::parse(interval.as_bytes()).ok_or(PatternError::Pattern)?;
            if zone.is_some() || nanos < NANOS_PER_SECOND {
                return Err(PatternError::Pattern);
            }
            return Ok(Self::Every(nanos / NANOS_PER_SECOND));
        }
        let fields = match text {
            "@yearly" | "@annually" => "0 0 0 1 1 *",
            "@monthly" => "0 0 0 1 * *",
            "@weekly" => "0 0 0 * * 0",
            "@daily" | "@midnight" => "0 0 0 * * *",
            "@hourly" => "0 0 * * * *",
            other => other,
        };
        let calendar = Calendar::parse(fields, zone.unwrap_or(TimeZone::UTC)).ok_or(PatternError::Pattern)?;
        Ok(Self::Calendar(Box::new(calendar)))
    }

    /// The first time after `after`; `None` if there is none.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::At(time) => (*time > after).then_some(*time),
            Self::Every(seconds) => {
                // Whole seconds, so that a schedule made late within a second does not drift through it.
                let start = after.0 - after.0.rem_euclid(NANOS_PER_SECOND);
                Some(Timestamp(start.saturating_add(seconds.saturating_mul(NANOS_PER_SECOND))))
            }
            Self::Calendar(calendar) => calendar.next(after),
        }
    }

    /// Does it come again?
    pub(crate) fn repeats(&self) -> bool {
        !matches!(self, Self::At(_))
    }
}

/// A zone of the database that comes with the program, so that every replica knows the same.
fn find_zone(name: &[u8]) -> Result<TimeZone, PatternError> {
    let name = std::str::from_utf8(name).map_err(|_| PatternError::TimeZone)?;
    if name.is_empty() {
        return Err(PatternError::TimeZone);
    }
    TimeZoneDatabase::bundled().get(name).map_err(|_| PatternError::TimeZone)
}

impl Calendar {
    fn parse(text: &str, zone: TimeZone) -> Option<Self> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [seconds, minutes, hours, days, months, weekdays] = fields[..] else { return None };
        let (days, days_any) = field(days, 1, 31, &[])?;
        let (weekdays, weekdays_any) = field(weekdays, 0, 6, &WEEKDAYS)?;
        let calendar = Self {
            seconds: field(seconds, 0, 59, &[])?.0,
            minutes: field(minutes, 0, 59, &[])?.0,
            hours: field(hours, 0, 23, &[])?.0,
            days,
            months: field(months, 1, 12, &MONTHS)?.0,
            weekdays,
            any_day: days_any || weekdays_any,
            zone,
        };
        Some(calendar)
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = Instant::from_nanosecond(i128::from(after.0)).ok()?;
        let local = start.to_zoned(self.zone.clone()).datetime();
        let mut candidate = without_fraction(local)?.checked_add(1.second()).ok()?;
        let horizon = local.checked_add(HORIZON_YEARS.years()).ok()?;
        while candidate < horizon {
            let found = self.at_or_after(candidate, horizon)?;
            // A time that the zone skips counts as the one that clocks show then; of one that comes twice the first counts.
            let zoned = self.zone.to_ambiguous_zoned(found).compatible().ok()?;
            let instant = zoned.timestamp();
            if instant > start {
                return i64::try_from(instant.as_nanosecond()).ok().map(Timestamp);
            }
            candidate = found.checked_add(1.second()).ok()?;
        }
        None
    }

    /// The first local time that fits.
    fn at_or_after(&self, from: DateTime, horizon: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut time = Some(from);
        while date <= horizon.date() {
            if self.fits_day(date)
                && let Some((hour, minute, second)) = self.time_from(time)
            {
                return Some(date.at(hour, minute, second, 0));
            }
            date = if has(self.months, date.month()) {
                date.tomorrow().ok()?
            } else {
                date.first_of_month().checked_add(1.month()).ok()?
            };
            time = None;
        }
        None
    }

    fn fits_day(&self, date: Date) -> bool {
        if !has(self.months, date.month()) {
            return false;
        }
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.any_day { day && weekday } else { day || weekday }
    }

    /// The first time of a day that fits, not before `from` if that is given.
    fn time_from(&self, from: Option<DateTime>) -> Option<(i8, i8, i8)> {
        let (hour, minute, second) =
            from.map_or((0, 0, 0), |from| (from.hour(), from.minute(), from.second()));
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first_from(self.seconds, second)
            {
                return Some((hour, minute, second));
            }
            if let Some(minute) = first_from(self.minutes, minute + 1) {
                return Some((hour, minute, first_from(self.seconds, 0)?));
            }
        }
        let hour = first_from(self.hours, hour + 1)?;
        Some((hour, first_from(self.minutes, 0)?, first_from(self.seconds, 0)?))
    }
}

fn without_fraction(time: DateTime) -> Option<DateTime> {
    time.with().subsec_nanosecond(0).build().ok()
}

fn has(set: u64, value: i8) -> bool {
    set & (1 << value) != 0
}

/// The smallest member of a set that is not below `value`.
fn first_from(set: u64, value: i8) -> Option<i8> {
    let rest = set & (u64::MAX << value);
    (rest != 0).then(|| rest.trailing_zeros() as i8)
}

/// A field: a list of ranges. Returns the set and whether a star stands in it.
fn field(text: &str, min: u64, max: u64, names: &[&str]) -> Option<(u64, bool)> {
    let (mut set, mut star) = (0, false);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (bits, any) = range(part, min, max, names)?;
        set |= bits;
        star |= any;
    }
    Some((set, star))
}

/// One range: `*`, `N`, `N-M`, each perhaps with `/step`.
fn range(text: &str, min: u64, max: u64, names: &[&str]) -> Option<(u64, bool)> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(number(step)?)),
        None => (text, None),
    };
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (low, Some(high)),
        None => (range, None),
    };
    let star = low == "*" || low == "?";
    let (start, end) = if star {
        (min, max)
    } else {
        let start = value(low, min, names)?;
        match high {
            Some(high) => (start, value(high, min, names)?),
            None if step.is_some() => (start, max),
            None => (start, start),
        }
    };
    let step_size = step.unwrap_or(1);
    if start < min || end > max || start > end || step_size == 0 {
        return None;
    }
    let mut bits = 0;
    let mut position = start;
    while position <= end {
        bits |= 1 << position;
        position = position.saturating_add(step_size);
    }
    Some((bits, star && step_size == 1))
}

/// A number, or a name that stands for one.
fn value(text: &str, min: u64, names: &[&str]) -> Option<u64> {
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |index| Some(index as u64 + min))
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let time: api::Time = text.parse().unwrap();
        Timestamp(i64::try_from(time.unix_nanos()).unwrap())
    }

    fn next(pattern: &str, zone: Option<&str>, after: &str) -> Option<String> {
        let pattern = Pattern::parse(pattern.as_bytes(), zone.map(str::as_bytes)).unwrap();
        let next = pattern.next(at(after))?;
        Some(api::Time::from_unix_nanos(i128::from(next.0)).to_string())
    }

    #[test]
    fn what_the_reference_takes_is_taken() {
        for text in [
            "@yearly",
            "@annually",
            "@monthly",
            "@weekly",
            "@daily",
            "@midnight",
            "@hourly",
            "@every 1s",
            "@every 1h1m",
            "* * * * * *",
            "0 0 0 1 jan SUN",
            "0 0 0 ? * MON-FRI",
            "5/10 * * * * *",
            "  0  0 0 * * *",
            "1-3,5-7/2 * * * * *",
            "*-5 * * * * *",
            "+1 * * * * *",
            "0 0 0 1-5,* * *",
            "@at 2030-01-01T00:00:00+02:00",
        ] {
            assert!(Pattern::parse(text.as_bytes(), None).is_ok(), "{text}");
        }
        for text in [
            "@every 0.5s",
            "@at 2030-01-01",
            "@at x",
            "@At 2030-01-01T00:00:00Z",
            "@every",
            "*/5 0-10/2 1,2,3 L * *",
            "60 * * * * *",
            "0 0 24 * * *",
            "0 0 0 0 * *",
            "0 0 0 32 * *",
            "0 0 0 * 13 *",
            "0 0 0 * * 7",
            "10-5 * * * * *",
            "*/0 * * * * *",
            "0 0 0 * JANUARY *",
            "@daily ",
            "TZ=UTC 0 0 0 * * *",
            "1-* * * * * *",
            "@every -5s",
            "@every 24h 1s",
            "0 0 * * *",
        ] {
            assert_eq!(Pattern::parse(text.as_bytes(), None).err(), Some(PatternError::Pattern), "{text}");
        }
        let zones = [("", PatternError::TimeZone), ("Mars", PatternError::TimeZone)];
        for (zone, error) in zones {
            assert_eq!(Pattern::parse(b"@daily", Some(zone.as_bytes())).err(), Some(error));
        }
        assert_eq!(Pattern::parse(b"@every 1h", Some(b"UTC")).err(), Some(PatternError::Pattern));
        assert_eq!(Pattern::parse(b"@every 1h", Some(b"Mars")).err(), Some(PatternError::TimeZone));
    }

    #[test]
    fn calendars_find_their_next_time() {
        let after = "2026-12-02T10:33:27.5Z";
        for (pattern, expected) in [
            ("* * * * * *", "2026-12-02T10:33:28Z"),
            ("@hourly", "2026-12-02T11:00:00Z"),
            ("@daily", "2026-12-03T00:00:00Z"),
            ("@weekly", "2026-12-06T00:00:00Z"),
            ("@monthly", "2027-01-01T00:00:00Z"),
            ("0 0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("30 33 10 * * *", "2026-12-02T10:33:30Z"),
            ("20 33 10 * * *", "2026-12-03T10:33:20Z"),
            ("0 0 0 1 * MON", "2026-12-07T00:00:00Z"),
            ("0 0 12 */1 * MON", "2026-12-07T12:00:00Z"),
            ("@every 90s", "2026-12-02T10:34:57Z"),
        ] {
            assert_eq!(next(pattern, None, after).as_deref(), Some(expected), "{pattern}");
        }
        assert_eq!(next("0 0 0 30 2 *", None, after), None);
        assert_eq!(next("@at 2020-01-01T00:00:00Z", None, after), None);
    }

    #[test]
    fn zones_shift_and_skip() {
        let berlin = Some("Europe/Berlin");
        let winter = next("0 0 0 * * *", berlin, "2026-12-02T10:00:00Z");
        assert_eq!(winter.as_deref(), Some("2026-12-02T23:00:00Z"));
        let summer = next("0 0 0 * * *", berlin, "2026-07-02T10:00:00Z");
        assert_eq!(summer.as_deref(), Some("2026-07-02T22:00:00Z"));
        let gap = next("0 30 2 * * *", berlin, "2026-03-29T00:00:00Z");
        assert_eq!(gap.as_deref(), Some("2026-03-29T01:30:00Z"));
        let fold = next("0 30 2 25 10 *", berlin, "2026-10-25T00:00:00Z");
        assert_eq!(fold.as_deref(), Some("2026-10-25T00:30:00Z"));
    }
}
