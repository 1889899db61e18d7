//! What the parsers share: names of operations, lines, arguments, sizes, payloads.

use crate::error::ParseError;

/// Longest number that is read: more digits are an error, so no size can overflow.
const DIGITS_MAX: usize = 9;

/// Result of looking at a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<O> {
    /// A whole operation; the next one starts after `consumed` bytes.
    Op {
        /// The operation.
        op: O,
        /// Bytes it took.
        consumed: usize,
    },
    /// Not a whole operation yet.
    NeedMore {
        /// Bytes the buffer must hold from its start for a whole operation; 0 while that is unknown.
        hint: usize,
    },
}

#[inline]
pub(crate) const fn is_blank(byte: u8) -> bool {
    // One comparison decides for almost every byte of a line.
    byte <= b' ' && (byte == b' ' || byte == b'\t')
}

/// What has to follow the name of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// A blank.
    Blank,
    /// Anything: it belongs to the arguments, or is skipped.
    Anything,
}

/// One row of a table of operations.
pub(crate) type Row<T> = (&'static [u8], After, T);

/// Finds the operation at the start of `buf`, whatever its case: its row and the length of its name.
///
/// An unknown name is refused at its first wrong byte, before a line end arrives.
pub(crate) fn operation<T: Copy>(buf: &[u8], table: &[Row<T>]) -> Result<Option<(T, usize)>, ParseError> {
    let mut partial = false;
    for (name, after, operation) in table {
        let seen = buf.len().min(name.len());
        if !buf[..seen].eq_ignore_ascii_case(&name[..seen]) {
            continue;
        }
        match (buf.get(name.len()), after) {
            (None, After::Blank) => partial = true,
            (None, After::Anything) if seen < name.len() => partial = true,
            (Some(byte), After::Blank) if !is_blank(*byte) => {}
            _ => return Ok(Some((*operation, name.len()))),
        }
    }
    if partial { Ok(None) } else { Err(ParseError::UnknownOperation) }
}

/// The arguments of a line without the blanks around them, and where the next line starts.
///
/// `from` is the end of the operation's name. `None` while the line end is missing. The limit counts what
/// follows the first blanks, as the reference server does; a run of first blanks has the same limit of its own.
#[inline]
pub(crate) fn line(buf: &[u8], from: usize, max: usize) -> Result<Option<(&[u8], usize)>, ParseError> {
    let rest = &buf[from..];
    let end = memchr::memchr(b'\n', rest);
    let text = match end {
        Some(end) => &rest[..end],
        None => rest,
    };
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    let args = &text[blanks..];
    if args.len() > max || blanks > max {
        return Err(ParseError::ControlLineExceeded);
    }
    Ok(end.map(|end| (trim_end(args), from + end + 1)))
}

#[inline]
fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    &text[blanks..]
}

#[inline]
fn trim_end(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|byte| is_blank(**byte)).count();
    &text[..text.len() - blanks]
}

/// Bytes before the first blank.
///
/// Eight at a time: subjects are the longest part of a line, and this is once per message.
#[inline]
fn word_len(text: &[u8]) -> usize {
    /// The top bit of every byte.
    const TOPS: u64 = 0x8080_8080_8080_8080;
    /// The first byte that is neither a blank nor below one, in every byte.
    const ABOVE_BLANK: u64 = 0x2121_2121_2121_2121;

    let mut start = 0;
    while let Some(chunk) = text.get(start..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*chunk);
        // The lowest bit set belongs to the first byte below ABOVE_BLANK; a borrow disturbs only bytes after it.
        let low = word.wrapping_sub(ABOVE_BLANK) & !word & TOPS;
        if low != 0 {
            start += low.trailing_zeros() as usize / 8;
            break;
        }
        start += chunk.len();
    }
    // The rest of a line, or a control byte that only looked like a blank.
    text[start..].iter().position(|byte| is_blank(*byte)).map_or(text.len(), |at| start + at)
}

/// The first word and what follows the one blank after it; `None` if there is no blank or no word before it.
#[inline]
pub(crate) fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = word_len(text);
    if len == 0 || len == text.len() {
        return None;
    }
    Some((&text[..len], &text[len + 1..]))
}

/// Arguments of a line, taken from both ends. Invariant: no blank at either end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Args<'a>(&'a [u8]);

impl<'a> Args<'a> {
    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self(trim_end(trim_start(line)))
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The first argument.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = word_len(self.0);
        let (argument, rest) = self.0.split_at(end);
        self.0 = trim_start(rest);
        Some(argument)
    }

    /// The last argument.
    #[inline]
    pub(crate) fn next_back(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let start = self.0.iter().rposition(|byte| is_blank(*byte)).map_or(0, |at| at + 1);
        let (rest, argument) = self.0.split_at(start);
        self.0 = trim_end(rest);
        Some(argument)
    }

    /// The argument that must be the only one left.
    #[inline]
    pub(crate) fn only(mut self) -> Option<&'a [u8]> {
        let argument = self.next()?;
        self.is_empty().then_some(argument)
    }
}

/// A number of one to nine digits and nothing else.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    let mut value = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    Some(value)
}

/// The last argument as a size.
#[inline]
pub(crate) fn size(args: &mut Args<'_>) -> Result<usize, ParseError> {
    let text = args.next_back().ok_or(ParseError::BadArguments("wrong number of arguments"))?;
    number(text).map(|size| size as usize).ok_or(ParseError::BadArguments("bad or missing size"))
}

/// The payload that starts at `start`, with CR LF after it, or the buffer length that it needs.
#[inline]
pub(crate) fn payload(buf: &[u8], start: usize, size: usize) -> Result<Result<&[u8], usize>, ParseError> {
    let total = start + size + 2;
    let Some(frame) = buf.get(start..total) else {
        // A wrong byte after the payload is known before the frame is whole.
        return match buf.get(start + size) {
            Some(byte) if *byte != b'\r' => Err(ParseError::BadPayloadEnd),
            _ => Ok(Err(total)),
        };
    };
    let (payload, end) = frame.split_at(size);
    if end == b"\r\n" { Ok(Ok(payload)) } else { Err(ParseError::BadPayloadEnd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_takes_one_to_nine_digits() {
        let table: &[(&[u8], Option<u32>)] = &[
            (b"", None),
            (b"0", Some(0)),
            (b"007", Some(7)),
            (b"99999999", Some(99_999_999)),
            (b"999999999", Some(999_999_999)),
            (b"1000000000", None),
            (b"0000000001", None),
            (b"-1", None),
            (b"+1", None),
            (b"1a", None),
            (b"1\r", None),
            (b" 1", None),
        ];
        for (text, expected) in table {
            assert_eq!(number(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn arguments_come_from_both_ends() {
        let mut args = Args::new(b" \ta  bc\td e ");
        assert_eq!(args.next(), Some(&b"a"[..]));
        assert_eq!(args.next_back(), Some(&b"e"[..]));
        assert_eq!(args.only(), None);
        assert_eq!(args.next_back(), Some(&b"d"[..]));
        assert_eq!(args.only(), Some(&b"bc"[..]));
        assert_eq!(args.next(), Some(&b"bc"[..]));
        assert!(args.is_empty());
        assert_eq!((args.next(), args.next_back(), args.only()), (None, None, None));
    }

    #[test]
    fn word_ends_at_the_first_blank_whatever_surrounds_it() {
        for length in 0..40 {
            for fill in [b'a', 0x00, 0x1f, b'!', 0x7f, 0x80, 0xa0, 0xff] {
                let mut text = vec![fill; length];
                assert_eq!(word_len(&text), length);
                text.push(b' ');
                text.extend([b'x'; 11]);
                assert_eq!(word_len(&text), length, "{fill} {length}");
                text[length] = b'\t';
                assert_eq!(word_len(&text), length, "{fill} {length}");
                text[length] = b'\r';
                assert_eq!(word_len(&text), text.len(), "{fill} {length}");
            }
        }
    }

    #[test]
    fn line_limit_is_exact_for_whole_and_partial_lines() {
        for (length, fits) in [(7, true), (8, true), (9, false)] {
            let args = vec![b'a'; length];
            for end in [&b""[..], b"\r", b"\n", b"\r\n"] {
                let buf = [b"OP  ", &args[..], end].concat();
                let result = line(&buf, 2, 8);
                assert_eq!(result.is_ok(), fits, "{length} {end:?}");
                if let Ok(Some((found, next))) = result {
                    assert_eq!((found, next), (&args[..], buf.len()));
                }
            }
            let blanks = vec![b' '; length];
            assert_eq!(line(&blanks, 0, 8).is_ok(), fits, "{length} blanks");
        }
    }
}
