//! Durations as clients write them into headers and bodies: numbers with units.

/// Nanoseconds of a text such as `1h30m`, `1.5s`, `-20ms` or `0`; `None` if it is none or does not fit.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let (negative, mut rest) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if rest == b"0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = component(rest)?;
        total = total.checked_add(nanos)?;
        rest = after;
    }
    Some(if negative { -total } else { total })
}

/// One number with its unit.
fn component(text: &[u8]) -> Option<(i64, &[u8])> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.split_first() {
        Some((b'.', rest)) => digits(rest),
        _ => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let letters = rest.iter().take_while(|byte| **byte != b'.' && !byte.is_ascii_digit()).count();
    let (unit, rest) = rest.split_at(letters);
    let unit: i64 = match unit {
        b"ns" => 1,
        b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1_000,
        b"ms" => 1_000_000,
        b"s" => 1_000_000_000,
        b"m" => 60_000_000_000,
        b"h" => 3_600_000_000_000,
        _ => return None,
    };
    let mut nanos = 0i64;
    for digit in whole {
        nanos = nanos.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
    }
    nanos = nanos.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction {
        place /= 10;
        // The product of a digit and a tenth of the unit is below the unit.
        nanos = nanos.checked_add(place * i64::from(digit - b'0'))?;
    }
    Some((nanos, rest))
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_with_units_add_up() {
        let cases: [(&str, i64); 9] = [
            ("0", 0),
            ("5ns", 5),
            ("1.5s", 1_500_000_000),
            ("1h30m", 5_400_000_000_000),
            ("-20ms", -20_000_000),
            ("+.5us", 500),
            ("1.s", 1_000_000_000),
            ("2562047h", 9_223_369_200_000_000_000),
            ("1\u{b5}s", 1_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text.as_bytes()), Some(nanos), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", "-", "5", "s", ".s", "1x", "1s5", " 1s", "1s ", "9999999h", "1..s"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
