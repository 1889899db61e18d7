//! What an unquoted word means: a truth value, a number, a size, a date or text.

use super::value::Kind;

/// Words for true, in any case.
const TRUE_WORDS: [&str; 3] = ["true", "yes", "on"];
/// Words for false, in any case.
const FALSE_WORDS: [&str; 3] = ["false", "no", "off"];

/// The meaning of an unquoted word.
pub(super) fn classify(word: &str) -> Result<Kind, String> {
    if is_one_of(&TRUE_WORDS, word) {
        return Ok(Kind::Bool(true));
    }
    if is_one_of(&FALSE_WORDS, word) {
        return Ok(Kind::Bool(false));
    }
    let mut chars = word.chars();
    match (chars.next(), chars.next()) {
        (Some('-'), Some(next)) if next.is_ascii_digit() => {}
        (Some('-'), Some(next)) => return Err(format!("expected a digit after '-' but got '{next}'")),
        (Some('-'), None) => return Err("expected a digit after '-'".into()),
        (Some('.'), Some(next)) if next.is_ascii_digit() => {
            return Err("floats must start with a digit".into());
        }
        (Some(first), _) if first.is_ascii_digit() => {}
        _ => return Ok(Kind::String(word.into())),
    }
    if is_datetime(word) {
        return Ok(Kind::Datetime(word.into()));
    }
    match float(word) {
        Some(number) => Ok(Kind::Float(number)),
        None => Ok(integer(word)?.map_or_else(|| Kind::String(word.into()), Kind::Integer)),
    }
}

fn is_one_of(words: &[&str], word: &str) -> bool {
    words.iter().any(|candidate| candidate.eq_ignore_ascii_case(word))
}

/// A whole number with an optional size suffix; `None` if it is text that begins with a digit.
fn integer(word: &str) -> Result<Option<i64>, String> {
    let digits_end = word
        .char_indices()
        .find(|(index, character)| !(character.is_ascii_digit() || (*index == 0 && *character == '-')))
        .map_or(word.len(), |(index, _)| index);
    let (digits, suffix) = word.split_at(digits_end);
    let Some(factor) = size_factor(suffix) else {
        return Ok(None);
    };
    digits
        .parse::<i64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .map(Some)
        .ok_or_else(|| format!("integer '{word}' is out of the range"))
}

/// `k` is a thousand, `kb`, `ki` and `kib` are 1024, and so on for m, g, t, p and e.
fn size_factor(suffix: &str) -> Option<i64> {
    let lower = suffix.to_ascii_lowercase();
    let mut chars = lower.chars();
    let Some(unit) = chars.next() else {
        return Some(1);
    };
    let power = "kmgtpe".find(unit)? as u32 + 1;
    match chars.as_str() {
        "" => Some(1000_i64.pow(power)),
        "b" | "i" | "ib" => Some(1024_i64.pow(power)),
        _ => None,
    }
}

/// Digits, a point, digits.
fn float(word: &str) -> Option<f64> {
    let (whole, fraction) = word.strip_prefix('-').unwrap_or(word).split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    word.parse().ok().filter(|number: &f64| number.is_finite())
}

/// `2006-01-02T15:04:05Z` with every part in its range.
fn is_datetime(word: &str) -> bool {
    let shape = b"dddd-dd-ddTdd:dd:ddZ";
    let bytes = word.as_bytes();
    if bytes.len() != shape.len() {
        return false;
    }
    let fits = shape.iter().zip(bytes).all(|(form, byte)| match form {
        b'd' => byte.is_ascii_digit(),
        other => other == byte,
    });
    if !fits {
        return false;
    }
    let part = |from: usize, to: usize| word[from..to].parse::<u32>().unwrap_or(u32::MAX);
    let (year, month, day) = (part(0, 4), part(5, 7), part(8, 10));
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day) && part(11, 13) < 24 && part(14, 16) < 60 && part(17, 19) < 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_look_like() {
        for (word, expected) in [
            ("true", Kind::Bool(true)),
            ("yEs", Kind::Bool(true)),
            ("OFF", Kind::Bool(false)),
            ("truex", Kind::String("truex".into())),
            ("0", Kind::Integer(0)),
            ("08", Kind::Integer(8)),
            ("-5", Kind::Integer(-5)),
            ("-5k", Kind::Integer(-5000)),
            ("3k", Kind::Integer(3000)),
            ("3KB", Kind::Integer(3072)),
            ("3Ki", Kind::Integer(3072)),
            ("3kIb", Kind::Integer(3072)),
            ("2m", Kind::Integer(2_000_000)),
            ("1gb", Kind::Integer(1 << 30)),
            ("1T", Kind::Integer(1_000_000_000_000)),
            ("1pib", Kind::Integer(1 << 50)),
            ("7ei", Kind::Integer(7 << 60)),
            ("9223372036854775807", Kind::Integer(i64::MAX)),
            ("-9223372036854775808", Kind::Integer(i64::MIN)),
            ("1.5", Kind::Float(1.5)),
            ("-0.25", Kind::Float(-0.25)),
            ("2006-01-02T15:04:05Z", Kind::Datetime("2006-01-02T15:04:05Z".into())),
        ] {
            assert_eq!(classify(word), Ok(expected), "{word}");
        }
    }

    #[test]
    fn a_digit_does_not_make_a_number() {
        for word in [
            "1h",
            "30s",
            "10.0.0.1:4222",
            "3b",
            "3kk",
            "3kbx",
            "0x10",
            "1e5",
            "1.",
            "5.5.5",
            "5.5x",
            "1_000",
            "2024-a",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-01-01T24:00:00Z",
            "./file",
            "a",
        ] {
            assert_eq!(classify(word), Ok(Kind::String(word.into())));
        }
    }

    #[test]
    fn numbers_out_of_range_and_lone_signs_are_errors() {
        for word in ["9223372036854775808", "8ei", "20e", "-", "-a", ".5"] {
            assert!(classify(word).is_err(), "{word} was accepted");
        }
    }
}
