//! The digest of a configuration: SHA-256 over the tree as JSON.
//!
//! The JSON is written here byte for byte as the reference server writes it (sorted keys, HTML characters escaped, a
//! line end after it), so that both report the same digest for the same file.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::value::{Kind, Value};

/// `sha256:` and the hex digest of a tree.
pub fn digest(root: &Value) -> String {
    let mut json = String::new();
    write_json(root, &mut json);
    json.push('\n');
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(json.as_bytes()) {
        push(&mut text, format_args!("{byte:02x}"));
    }
    text
}

fn write_json(value: &Value, json: &mut String) {
    match &value.kind {
        Kind::Map(map) => {
            json.push('{');
            for (index, (key, entry)) in map.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_string(key, json);
                json.push(':');
                write_json(&entry.value, json);
            }
            json.push('}');
        }
        Kind::Array(values) => {
            json.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_json(value, json);
            }
            json.push(']');
        }
        Kind::String(text) | Kind::Datetime(text) => write_string(text, json),
        Kind::Integer(number) => push(json, format_args!("{number}")),
        Kind::Float(number) => write_float(*number, json),
        Kind::Bool(value) => push(json, format_args!("{value}")),
    }
}

fn write_string(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                push(json, format_args!("\\u{:04x}", character as u32));
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

fn write_float(number: f64, json: &mut String) {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let written = format!("{number:e}");
        match written.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                push(json, format_args!("{mantissa}e+{exponent}"));
            }
            _ => json.push_str(&written),
        }
    } else {
        push(json, format_args!("{number}"));
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}
