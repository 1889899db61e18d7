//! Durations as the reference server writes them: `300ms`, `1.5h`, `1h30m`.

use std::fmt::Write;
use std::time::Duration;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Reads a duration, with its sign.
pub(crate) fn parse(text: &str) -> Result<(bool, Duration), String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (is_negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if unsigned == "0" {
        return Ok((false, Duration::ZERO));
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let mut rest = unsigned;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // More digits than this are out of range, or below a nanosecond.
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 18 {
            return Err(invalid());
        }
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let scale =
            unit_nanos(unit).ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        let fraction = &fraction[..fraction.len().min(15)];
        let parsed = |digits: &str| digits.parse::<u128>().unwrap_or(0);
        nanos += parsed(whole) * scale + parsed(fraction) * scale / 10_u128.pow(fraction.len() as u32);
        rest = tail;
    }
    let range = i64::MAX as u128;
    if nanos > range {
        return Err(invalid());
    }
    Ok((is_negative && nanos > 0, Duration::from_nanos(nanos as u64)))
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// Writes a duration: `2m0s`, `1.5s`, `300ms`.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".into();
    }
    for (limit, scale, unit) in
        [(1_000, 1, "ns"), (1_000_000, 1_000, "µs"), (NANOS_PER_SECOND, 1_000_000, "ms")]
    {
        if nanos < limit {
            return format!("{}{unit}", decimal(nanos, scale));
        }
    }
    let total_seconds = nanos / NANOS_PER_SECOND;
    let (hours, minutes) = (total_seconds / 3600, total_seconds / 60 % 60);
    let mut text = String::new();
    // Writing to a string cannot fail.
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    let _ = write!(text, "{}s", decimal(nanos % (60 * NANOS_PER_SECOND), NANOS_PER_SECOND));
    text
}

/// `value / scale` without trailing zeros.
fn decimal(value: u128, scale: u128) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0_i64),
            ("300ms", 300_000_000),
            ("1.5h", 5_400_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("-5s", -5_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("2us3ns", 2_003),
            ("1µs", 1_000),
            ("0.0000000001s", 0),
        ] {
            let (is_negative, duration) = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (is_negative, duration),
                (nanos < 0, Duration::from_nanos(nanos.unsigned_abs())),
                "{text}"
            );
        }
    }

    #[test]
    fn what_go_refuses_is_refused_with_its_text() {
        for (text, expected) in [
            ("x", "time: invalid duration \"x\""),
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
            ("1.2.3s", "time: invalid duration \"1.2.3s\""),
            ("99999999999h", "time: invalid duration \"99999999999h\""),
            ("9999999999999999999999s", "time: invalid duration \"9999999999999999999999s\""),
        ] {
            assert_eq!(parse(text), Err(expected.into()));
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (text, expected) in [
            ("0", "0s"),
            ("120s", "2m0s"),
            ("1.5s", "1.5s"),
            ("300ms", "300ms"),
            ("1500us", "1.5ms"),
            ("1500ns", "1.5µs"),
            ("7ns", "7ns"),
            ("3600s", "1h0m0s"),
            ("61.25s", "1m1.25s"),
        ] {
            let (_, duration) = parse(text).unwrap();
            assert_eq!(format_duration(duration), expected);
        }
    }
}
