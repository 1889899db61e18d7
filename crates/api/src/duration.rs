//! Durations on the wire: integer nanoseconds in documents, and the two text forms that monitoring shows.

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::go;

/// Uptime and idle time in whole units, largest first: `1d2h3m4s`. Units before the first one present are left out.
pub fn uptime_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days, years) =
        (seconds / 60, seconds / 3600, seconds / 86_400, seconds / 86_400 / 365);
    let mut text = String::new();
    let mut unit = |shown: bool, value: u64, name: char| {
        if shown {
            // Writing to a String cannot fail.
            let _ = write!(text, "{value}{name}");
        }
    };
    unit(years > 0, years, 'y');
    unit(days > 0, days % 365, 'd');
    unit(hours > 0, hours % 24, 'h');
    unit(minutes > 0, minutes % 60, 'm');
    unit(true, seconds % 60, 's');
    text
}

/// A duration in the form that round trip times have: `1h2m3.5s`, `1.234ms`, `279µs`, `17ns`, `0s`.
pub fn short_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => with_fraction(nanos, 1_000) + "µs",
        1_000_000..1_000_000_000 => with_fraction(nanos, 1_000_000) + "ms",
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = with_fraction(nanos % 60_000_000_000, 1_000_000_000) + "s";
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

/// `nanos / unit` as a decimal without trailing zeros.
fn with_fraction(nanos: u128, unit: u128) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// A count of nanoseconds as documents carry it, which a request may make negative.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// So many seconds; what exceeds the count is the largest one.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// So many milliseconds; what exceeds the count is the largest one.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The duration, zero for a negative count.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Whether the count is zero.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl From<Duration> for Nanos {
    /// What exceeds a signed 64-bit count is the largest one.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        f.write_str(&short_text(Duration::from_nanos(self.0.unsigned_abs())))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        go::named(deserializer, go::DURATION).map(Self)
    }
}

/// Serde form of a duration as an integer count of nanoseconds, for `#[serde(with = "..")]`.
pub mod nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole nanoseconds; what exceeds a signed 64-bit count is written as the largest one.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Reads whole nanoseconds; a negative count is an error.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let nanos = i64::deserialize(deserializer)?;
        u64::try_from(nanos)
            .map(Duration::from_nanos)
            .map_err(|_| serde::de::Error::custom(format_args!("negative duration of {nanos} ns")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_shows_every_unit_below_the_first() {
        let text = |seconds| uptime_text(Duration::from_secs(seconds));
        assert_eq!(text(0), "0s");
        assert_eq!(text(59), "59s");
        assert_eq!(text(60), "1m0s");
        assert_eq!(text(3600), "1h0m0s");
        assert_eq!(text(86_400 + 2 * 3600 + 3 * 60 + 4), "1d2h3m4s");
        assert_eq!(text(366 * 86_400 + 1), "1y1d0h0m1s");
        assert_eq!(uptime_text(Duration::from_millis(1_999)), "1s");
    }

    #[test]
    fn short_form_picks_the_unit_by_size() {
        let text = |nanos| short_text(Duration::from_nanos(nanos));
        assert_eq!(text(0), "0s");
        assert_eq!(text(17), "17ns");
        assert_eq!(text(999), "999ns");
        assert_eq!(text(1_000), "1µs");
        assert_eq!(text(279_000), "279µs");
        assert_eq!(text(1_100), "1.1µs");
        assert_eq!(text(1_234_000), "1.234ms");
        assert_eq!(text(1_000_001), "1.000001ms");
        assert_eq!(text(1_500_000_000), "1.5s");
        assert_eq!(text(60_000_000_000), "1m0s");
        assert_eq!(text(3_723_500_000_000), "1h2m3.5s");
    }

    #[test]
    fn nanosecond_form_refuses_a_negative_count() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Holder(#[serde(with = "nanos")] Duration);
        assert_eq!(serde_json::to_string(&Holder(Duration::from_secs(10))).unwrap(), "10000000000");
        assert_eq!(serde_json::to_string(&Holder(Duration::MAX)).unwrap(), i64::MAX.to_string());
        assert!(serde_json::from_str::<Holder>("-1").is_err());
    }
}
