//! A tree to text: sorted, stable, and read back as an equal tree.

use std::fmt::Write;

use super::value::{Kind, Map, Value};

/// Writes a tree as configuration text, one entry a line, keys sorted. The root must be a map; its entries are
/// written without braces.
///
/// # Panics
/// If the root is not a map: it is the caller's own code that built it.
pub fn render(root: &Value) -> String {
    let Kind::Map(map) = &root.kind else {
        panic!("a configuration is a map, not a {}", root.kind.name());
    };
    let mut text = String::new();
    entries(map, 0, &mut text);
    text
}

fn entries(map: &Map, level: usize, text: &mut String) {
    for (key, entry) in map {
        indent(level, text);
        write_key(key, text);
        text.push_str(": ");
        write_value(&entry.value, level, text);
        text.push('\n');
    }
}

fn write_value(value: &Value, level: usize, text: &mut String) {
    match &value.kind {
        Kind::Map(map) if map.is_empty() => text.push_str("{}"),
        Kind::Map(map) => {
            text.push_str("{\n");
            entries(map, level + 1, text);
            indent(level, text);
            text.push('}');
        }
        Kind::Array(values) if values.is_empty() => text.push_str("[]"),
        Kind::Array(values) => {
            text.push_str("[\n");
            for value in values {
                indent(level + 1, text);
                write_value(value, level + 1, text);
                text.push('\n');
            }
            indent(level, text);
            text.push(']');
        }
        Kind::String(string) => write_quoted(string, text),
        Kind::Integer(number) => push(text, format_args!("{number}")),
        Kind::Float(number) => {
            let written = number.to_string();
            text.push_str(&written);
            // Without a point it would be read as an integer.
            if !written.contains('.') {
                text.push_str(".0");
            }
        }
        Kind::Bool(value) => push(text, format_args!("{value}")),
        Kind::Datetime(written) => text.push_str(written),
    }
}

fn write_key(key: &str, text: &mut String) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
    let is_bare = !key.is_empty() && key.chars().all(is_plain) && !key.eq_ignore_ascii_case("include");
    if is_bare {
        text.push_str(key);
    } else if !key.contains('\'') {
        // Raw, so that readers without escapes in keys read the same.
        push(text, format_args!("'{key}'"));
    } else {
        write_quoted(key, text);
    }
}

fn write_quoted(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control.is_ascii_control() => push(text, format_args!("\\x{:02x}", control as u32)),
            other => text.push(other),
        }
    }
    text.push('"');
}

fn indent(level: usize, text: &mut String) {
    for _ in 0..level {
        text.push_str("  ");
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}
