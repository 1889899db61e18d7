//! The grammar of JSON: where a value ends, or where and how its text is broken.

use crate::jetstream::quote;

/// Deepest nesting of arrays and objects.
pub const DEPTH_MAX: usize = 10_000;

/// How a text is broken.
#[derive(Debug)]
pub(super) enum SyntaxError {
    /// It ends too early.
    End,
    /// Something stands where it must not; the offset is that after it.
    At { text: String, offset: usize },
}

impl SyntaxError {
    /// The text with its place, as strict reading tells it.
    pub(super) fn with_offset(self) -> String {
        match self {
            Self::End => "unexpected EOF".to_owned(),
            Self::At { text, offset } => format!("{text} at offset {offset}"),
        }
    }

    /// The text alone.
    pub(super) fn plain(self) -> String {
        match self {
            Self::End => "unexpected end of JSON input".to_owned(),
            Self::At { text, .. } => text,
        }
    }
}

/// What is expected next.
#[derive(Clone, Copy)]
enum Next {
    /// A value; in an array that has just begun, perhaps its end.
    Value { or_end: bool },
    /// A name; in an object that has just begun, perhaps its end.
    Name { or_end: bool },
    /// What comes after a value.
    After,
}

/// Offset of the first byte from `at` on that is no space.
pub(super) fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// Offset after the value that begins at or after `at`.
pub(super) fn value(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    // One byte for each array or object that is open: the one that closes it.
    let mut open: Vec<u8> = Vec::new();
    let mut next = Next::Value { or_end: false };
    let mut at = at;
    loop {
        at = skip_space(text, at);
        let byte = *text.get(at).ok_or(SyntaxError::End)?;
        match next {
            Next::Value { or_end: true } if byte == b']' => {
                open.pop();
                at += 1;
                next = Next::After;
            }
            Next::Name { or_end: true } if byte == b'}' => {
                open.pop();
                at += 1;
                next = Next::After;
            }
            Next::Name { .. } => {
                at = name(text, at)?;
                next = Next::Value { or_end: false };
            }
            Next::Value { .. } => (at, next) = begin(text, at, &mut open)?,
            Next::After => (at, next) = after(text, at, &mut open)?,
        }
        if open.is_empty() && matches!(next, Next::After) {
            return Ok(at);
        }
    }
}

/// Something stands after the only value.
pub(super) fn after_top_level(text: &[u8], at: usize) -> SyntaxError {
    unexpected(text, at, "after top-level value")
}

/// The beginning of a value, and all of it when it has no parts.
fn begin(text: &[u8], at: usize, open: &mut Vec<u8>) -> Result<(usize, Next), SyntaxError> {
    let (close, next) = match text[at] {
        b'{' => (b'}', Next::Name { or_end: true }),
        b'[' => (b']', Next::Value { or_end: true }),
        b'"' => return Ok((string(text, at)?, Next::After)),
        b't' => return Ok((literal(text, at, "true")?, Next::After)),
        b'f' => return Ok((literal(text, at, "false")?, Next::After)),
        b'n' => return Ok((literal(text, at, "null")?, Next::After)),
        b'-' | b'0'..=b'9' => return Ok((number(text, at)?, Next::After)),
        _ => return Err(unexpected(text, at, "looking for beginning of value")),
    };
    if open.len() == DEPTH_MAX {
        return Err(SyntaxError::At { text: "exceeded max depth".to_owned(), offset: at + 1 });
    }
    open.push(close);
    Ok((at + 1, next))
}

/// A name and the colon after it.
fn name(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    if text[at] != b'"' {
        return Err(unexpected(text, at, "looking for beginning of object key string"));
    }
    let at = skip_space(text, string(text, at)?);
    match text.get(at) {
        Some(b':') => Ok(at + 1),
        Some(_) => Err(unexpected(text, at, "after object key")),
        None => Err(SyntaxError::End),
    }
}

/// A comma or the end of what is open.
fn after(text: &[u8], at: usize, open: &mut Vec<u8>) -> Result<(usize, Next), SyntaxError> {
    let close = open.last().copied();
    match (text[at], close) {
        (b',', Some(b']')) => Ok((at + 1, Next::Value { or_end: false })),
        (b',', _) => Ok((at + 1, Next::Name { or_end: false })),
        (byte, Some(close)) if byte == close => {
            open.pop();
            Ok((at + 1, Next::After))
        }
        (_, Some(b']')) => Err(unexpected(text, at, "after array element")),
        _ => Err(unexpected(text, at, "after object key:value pair")),
    }
}

fn literal(text: &[u8], at: usize, word: &str) -> Result<usize, SyntaxError> {
    for (index, expected) in word.bytes().enumerate() {
        match text.get(at + index) {
            None => return Err(SyntaxError::End),
            Some(byte) if *byte != expected => {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(text, at + index, &context));
            }
            Some(_) => {}
        }
    }
    Ok(at + word.len())
}

fn number(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let mut at = at + usize::from(text[at] == b'-');
    at = if text.get(at) == Some(&b'0') { at + 1 } else { digits(text, at)? };
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        at = digits(text, at)?;
    }
    Ok(at)
}

/// At least one digit.
fn digits(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    match text.get(at) {
        None => return Err(SyntaxError::End),
        Some(byte) if !byte.is_ascii_digit() => return Err(unexpected(text, at, "in numeric literal")),
        Some(_) => {}
    }
    Ok(at + text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn string(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let mut at = at + 1;
    loop {
        match text.get(at) {
            None => return Err(SyntaxError::End),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape(text, at)?,
            Some(..0x20) => return Err(unexpected(text, at, "in string")),
            Some(_) => at += 1,
        }
    }
}

/// A backslash and what it stands before.
fn escape(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let length = match text.get(at + 1) {
        None => return Err(SyntaxError::End),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(at + 2),
        Some(b'u') => {
            let shown = &text[at..text.len().min(at + 6)];
            let is_hex = shown[2..].iter().all(u8::is_ascii_hexdigit);
            match (is_hex, shown.len()) {
                (true, 6) => return Ok(at + 6),
                (true, _) => return Err(SyntaxError::End),
                (false, length) => length,
            }
        }
        Some(_) => 2,
    };
    let offset = at + length;
    let shown = quote::back(&text[at..offset]);
    Err(SyntaxError::At { text: format!("invalid escape sequence {shown} in string"), offset })
}

fn unexpected(text: &[u8], at: usize, context: &str) -> SyntaxError {
    let (shown, length) = quote::first_char(&text[at..]);
    SyntaxError::At { text: format!("invalid character {shown} {context}"), offset: at + length }
}
