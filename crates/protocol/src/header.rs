//! The header block of a message: `NATS/1.0[ status[ text]]`, lines `Name: value`, an empty line.
//!
//! Names are compared byte for byte, and only whole names at the start of a line count: `X-Nats-Msg-Id` is not
//! `Nats-Msg-Id`. A block that is broken off or not a block at all has no headers.

/// First line of a block, before the status.
const VERSION: &[u8] = b"NATS/1.0";

/// Lines of a block: the first is the version line.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split_inclusive(|byte| *byte == b'\n')
}

/// The line without its end.
fn text(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What follows `name` and its colon on this line.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = text(line).strip_prefix(name)?.strip_prefix(b":")?;
    let blanks = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    Some(&value[blanks..])
}

/// Value of the first header called exactly `name`.
pub fn find<'a>(block: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if !block.starts_with(VERSION) || name.is_empty() {
        return None;
    }
    // The empty line ends the block; what follows is not a header.
    lines(block).skip(1).take_while(|line| !text(line).is_empty()).find_map(|line| value(line, name))
}

/// The block without any header called exactly `name`; empty if neither header nor status remains.
pub fn strip(block: &[u8], name: &[u8]) -> Vec<u8> {
    if !block.starts_with(VERSION) || name.is_empty() {
        return block.to_vec();
    }
    let mut out = Vec::with_capacity(block.len());
    let mut ended = false;
    for (index, line) in lines(block).enumerate() {
        ended |= text(line).is_empty();
        if index == 0 || ended || value(line, name).is_none() {
            out.extend_from_slice(line);
        }
    }
    if out == [VERSION, b"\r\n\r\n"].concat() { Vec::new() } else { out }
}

/// The status on the version line: three digits.
pub fn status(block: &[u8]) -> Option<u16> {
    let first = lines(block).next()?;
    let status = text(first).strip_prefix(VERSION)?.strip_prefix(b" ")?;
    let digits = match status {
        [a, b, c] | [a, b, c, b' ', ..] => [a, b, c],
        _ => return None,
    };
    let mut value = 0;
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value = value * 10 + u16::from(digit);
    }
    Some(value)
}

/// The block that tells a requester that nobody listens on `subject`.
pub fn no_responders(subject: &[u8]) -> Vec<u8> {
    [VERSION, b" 503\r\nNats-Subject: ", subject, b"\r\n\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &[u8] = b"NATS/1.0\r\nX-Nats-Msg-Id: a\r\nNats-Msg-Id-X: c\r\nNats-Msg-Id: b\r\nEmpty:\r\n\
        Nats-Msg-Id: second\r\nOther:   Nats-Ttl: 5\r\n\r\nNats-Body: no\r\n";

    #[test]
    fn only_the_exact_name_at_the_start_of_a_line_is_found() {
        let table: &[(&str, Option<&str>)] = &[
            ("Nats-Msg-Id", Some("b")),
            ("X-Nats-Msg-Id", Some("a")),
            ("Msg-Id", None),
            ("Nats-Msg", None),
            ("nats-msg-id", None),
            ("Nats-Ttl", None),
            ("Other", Some("Nats-Ttl: 5")),
            ("Empty", Some("")),
            ("Nats-Body", None),
            ("NATS/1.0", None),
            ("", None),
        ];
        for (name, expected) in table {
            assert_eq!(find(BLOCK, name.as_bytes()), expected.map(str::as_bytes), "{name}");
        }
    }

    #[test]
    fn block_without_version_has_no_headers() {
        for block in [&b""[..], b"\r\n", b"HTTP/1.1\r\nA: b\r\n\r\n", b"A: b\r\n"] {
            assert_eq!(find(block, b"A"), None, "{block:?}");
            assert_eq!(status(block), None, "{block:?}");
            assert_eq!(strip(block, b"A"), block);
        }
    }

    #[test]
    fn broken_off_block_is_read_as_far_as_it_goes() {
        assert_eq!(find(b"NATS/1.0\r\nA: b", b"A"), Some(&b"b"[..]));
        assert_eq!(find(b"NATS/1.0\r\nA", b"A"), None);
        assert_eq!(find(b"NATS/1.0", b"A"), None);
    }

    #[test]
    fn strip_removes_every_occurrence_and_nothing_else() {
        let expected = String::from_utf8_lossy(BLOCK)
            .replace("\r\nNats-Msg-Id: b\r\n", "\r\n")
            .replace("\r\nNats-Msg-Id: second\r\n", "\r\n");
        assert_eq!(String::from_utf8_lossy(&strip(BLOCK, b"Nats-Msg-Id")), expected);
        assert_eq!(strip(BLOCK, b"Nats-Body"), BLOCK);
        assert_eq!(strip(b"NATS/1.0\r\nA: b\r\n\r\n", b"A"), b"");
        assert_eq!(strip(b"NATS/1.0 100\r\nA: b\r\n\r\n", b"A"), b"NATS/1.0 100\r\n\r\n");
    }

    #[test]
    fn status_is_three_digits() {
        let table: &[(&[u8], Option<u16>)] = &[
            (b"NATS/1.0 503\r\n\r\n", Some(503)),
            (b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", Some(100)),
            (b"NATS/1.0\r\n\r\n", None),
            (b"NATS/1.0 \r\n\r\n", None),
            (b"NATS/1.0 50\r\n\r\n", None),
            (b"NATS/1.0 5033\r\n\r\n", None),
            (b"NATS/1.0 5x3\r\n\r\n", None),
            (b"NATS/1.0 5 3\r\n\r\n", None),
            (b"NATS/1.0503\r\n\r\n", None),
        ];
        for (block, expected) in table {
            assert_eq!(status(block), *expected, "{block:?}");
        }
    }

    #[test]
    fn no_responders_has_the_length_clients_are_told() {
        let block = no_responders(b"foo.bar");
        assert_eq!(block, b"NATS/1.0 503\r\nNats-Subject: foo.bar\r\n\r\n");
        assert_eq!(block.len(), 32 + b"foo.bar".len());
        assert_eq!((status(&block), find(&block, b"Nats-Subject")), (Some(503), Some(&b"foo.bar"[..])));
    }
}
