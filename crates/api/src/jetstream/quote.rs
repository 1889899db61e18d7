//! Texts in quotes, as error texts show them.

use std::fmt::Write as _;

/// Bytes in double quotes.
pub(crate) fn double(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_char(&mut out, c, '"'));
        chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte));
    }
    out.push('"');
    out
}

/// Bytes in back quotes where they can stand there, else in double quotes.
pub(crate) fn back(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c == '`' || c == '\u{feff}' || (c.is_control() && c != '\t')) => {
            format!("`{text}`")
        }
        _ => double(bytes),
    }
}

/// The first character of the bytes in single quotes, and its length.
pub(crate) fn first_char(bytes: &[u8]) -> (String, usize) {
    let head = &bytes[..bytes.len().min(4)];
    let first = head.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    let mut out = String::from('\'');
    let length = match first {
        Some(c) => {
            push_char(&mut out, c, '\'');
            c.len_utf8()
        }
        None => {
            push_byte(&mut out, head.first().copied().unwrap_or_default());
            1
        }
    };
    out.push('\'');
    (out, length)
}

fn push_byte(out: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\x{byte:02x}");
}

fn push_char(out: &mut String, c: char, quote: char) {
    let escaped = match c {
        '\\' => '\\',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{b}' => 'v',
        c if c == quote => quote,
        c if c.is_ascii_control() => return push_byte(out, c as u8),
        c if is_shown(c) => return out.push(c),
        c if u32::from(c) < 0x1_0000 => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
            return;
        }
        c => {
            let _ = write!(out, "\\U{:08x}", u32::from(c));
            return;
        }
    };
    out.push('\\');
    out.push(escaped);
}

/// Whether a character shows itself; others are written by number.
fn is_shown(c: char) -> bool {
    if c.is_ascii() {
        return true;
    }
    let mut debug = c.escape_debug();
    !c.is_whitespace() && debug.next() == Some(c)
}
