//! Why a text is not a point in time.

use crate::jetstream::quote;

/// The form of a point in time, as error texts show it.
const LAYOUT: &str = r#""2006-01-02T15:04:05Z07:00""#;

/// Why a text that [`crate::Time`] refused is not a point in time.
pub(super) fn error_text(text: &str) -> String {
    let quoted = quote::double(text.as_bytes());
    match check(text) {
        Err(Fault::Form(rest, element)) => format!(
            "parsing time {quoted} as {LAYOUT}: cannot parse {} as {}",
            quote::double(rest.as_bytes()),
            quote::double(element.as_bytes())
        ),
        Err(Fault::Range(what)) => format!("parsing time {quoted}: {what} out of range"),
        Err(Fault::Extra(rest)) => {
            format!("parsing time {quoted}: extra text: {}", quote::double(rest.as_bytes()))
        }
        // The text is in form and range, so what is left is a day that the month does not have.
        Ok(()) => format!("parsing time {quoted}: day out of range"),
    }
}

enum Fault<'a> {
    /// This rest of the text does not begin with that element.
    Form(&'a str, &'static str),
    /// An element is out of its range.
    Range(&'static str),
    /// Something stands after the zone.
    Extra(&'a str),
}

fn check(text: &str) -> Result<(), Fault<'_>> {
    let (_, rest) = number(text, 4, "2006")?;
    let rest = literal(rest, "-")?;
    let (month, rest) = number(rest, 2, "01")?;
    in_range(month, 1..=12, "month")?;
    let rest = literal(rest, "-")?;
    let (_, rest) = number(rest, 2, "02")?;
    let rest = literal(rest, "T")?;
    let (hour, rest) = hour(rest)?;
    in_range(hour, 0..=23, "hour")?;
    let rest = literal(rest, ":")?;
    let (minute, rest) = number(rest, 2, "04")?;
    in_range(minute, 0..=59, "minute")?;
    let rest = literal(rest, ":")?;
    let (second, rest) = number(rest, 2, "05")?;
    in_range(second, 0..=59, "second")?;
    let rest = zone(fraction(rest))?;
    if rest.is_empty() { Ok(()) } else { Err(Fault::Extra(rest)) }
}

fn number<'a>(text: &'a str, width: usize, element: &'static str) -> Result<(u32, &'a str), Fault<'a>> {
    match text.split_at_checked(width) {
        Some((digits, rest)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((digits.parse().unwrap_or(u32::MAX), rest))
        }
        _ => Err(Fault::Form(text, element)),
    }
}

/// An hour may have one digit.
fn hour(text: &str) -> Result<(u32, &str), Fault<'_>> {
    number(text, 2, "15").or_else(|_| number(text, 1, "15"))
}

fn literal<'a>(text: &'a str, element: &'static str) -> Result<&'a str, Fault<'a>> {
    text.strip_prefix(element).ok_or(Fault::Form(text, element))
}

fn in_range(
    value: u32,
    range: std::ops::RangeInclusive<u32>,
    what: &'static str,
) -> Result<(), Fault<'static>> {
    if range.contains(&value) { Ok(()) } else { Err(Fault::Range(what)) }
}

fn fraction(text: &str) -> &str {
    let Some(digits) = text.strip_prefix(['.', ',']) else { return text };
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == digits.len() { text } else { rest }
}

fn zone(text: &str) -> Result<&str, Fault<'_>> {
    const ELEMENT: &str = "Z07:00";
    if let Some(rest) = text.strip_prefix('Z') {
        return Ok(rest);
    }
    let digits = text.strip_prefix(['+', '-']).ok_or(Fault::Form(text, ELEMENT))?;
    let form = |_| Fault::Form(text, ELEMENT);
    let (hours, rest) = number(digits, 2, ELEMENT).map_err(form)?;
    let rest = literal(rest, ":").map_err(|_| Fault::Form(text, ELEMENT))?;
    let (minutes, rest) = number(rest, 2, ELEMENT).map_err(|_| Fault::Form(text, ELEMENT))?;
    in_range(hours, 0..=24, "time zone offset hour")?;
    in_range(minutes, 0..=60, "time zone offset minute")?;
    Ok(rest)
}
