//! Writing and reading JSON in the reference's form.
//!
//! Two things differ from plain serde_json output: whole floats have no fraction (`2`, not `2.0`), and `<`, `>` and `&`
//! inside texts are escaped. Both matter to tools that compare documents as text.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Longest request body that is read as options; longer ones are refused before they are parsed.
pub const OPTIONS_BYTES_MAX: usize = 64 * 1024;

/// Floats at and above this bound are written with an exponent.
const PLAIN_FLOAT_BOUND: f64 = 1e21;

/// A request body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The body is longer than [`OPTIONS_BYTES_MAX`].
    #[error("request body of {size} bytes exceeds the limit of {OPTIONS_BYTES_MAX}")]
    TooLarge {
        /// Length of the body.
        size: usize,
    },
    /// The body is not JSON, or a field has the wrong type.
    #[error("json: {0}")]
    Json(#[from] serde_json::Error),
    /// The body is JSON, but not an object.
    #[error("json: request body is not an object")]
    NotAnObject,
}

/// One line, as responses and events are written.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    write(value, CompactFormatter)
}

/// Two spaces a level, as monitoring pages are written.
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    write(value, PrettyFormatter::new())
}

/// Reads the options in a request body: empty and `null` stand for the defaults, letter case of names and unknown
/// names do not matter, and a member that is `null` counts as absent.
pub fn decode_options<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, DecodeError> {
    Ok(serde_json::from_value(options_object(body)?)?)
}

/// The members of a request body with lower-case names, for decoding into one or more option types.
pub(crate) fn options_object(body: &[u8]) -> Result<Value, DecodeError> {
    if body.len() > OPTIONS_BYTES_MAX {
        return Err(DecodeError::TooLarge { size: body.len() });
    }
    if body.trim_ascii().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_slice(body)? {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(members) => {
            let present = members.into_iter().filter(|(_, value)| !value.is_null());
            Ok(Value::Object(present.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()))
        }
        _ => Err(DecodeError::NotAnObject),
    }
}

fn write<T: Serialize + ?Sized, F: Formatter>(value: &T, layout: F) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(1024);
    value.serialize(&mut Serializer::with_formatter(&mut out, Reference(layout)))?;
    Ok(out)
}

/// A layout with the reference's form of floats and texts.
struct Reference<F>(F);

/// Hands the structural parts of a document to the inner layout.
macro_rules! delegate {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W, $($arg: $type),*) -> io::Result<()> {
            self.0.$name(writer, $($arg),*)
        }
    )*};
}

impl<F: Formatter> Formatter for Reference<F> {
    delegate! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if value.fract() == 0.0 && value.abs() < PLAIN_FLOAT_BOUND {
            return write!(writer, "{value:.0}");
        }
        self.0.write_f64(writer, value)
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            let mut chars = special.chars();
            let escaped = chars.next().map_or(0, u32::from);
            write!(writer, "{plain}\\u{escaped:04x}")?;
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn compact(value: &Value) -> String {
        String::from_utf8(to_vec(value).unwrap()).unwrap()
    }

    #[test]
    fn whole_floats_have_no_fraction() {
        assert_eq!(
            compact(&json!([2.0, 0.0, -3.0, 0.5, 1e15, 0.925])),
            "[2,0,-3,0.5,1000000000000000,0.925]"
        );
    }

    #[test]
    fn subjects_with_a_full_wildcard_are_escaped() {
        assert_eq!(
            compact(&json!({"s": "a.> <&\" é\u{2028}"})),
            r#"{"s":"a.\u003e \u003c\u0026\" é\u2028"}"#
        );
    }

    #[test]
    fn pretty_form_indents_by_two_and_keeps_empty_collections_short() {
        let text = String::from_utf8(to_vec_pretty(&json!({"a": [], "b": {}, "c": [1]})).unwrap()).unwrap();
        assert_eq!(text, "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1\n  ]\n}");
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Options {
        limit: i64,
        name: String,
    }

    #[test]
    fn options_ignore_case_nulls_and_unknown_names() {
        let decode = |body: &str| decode_options::<Options>(body.as_bytes());
        assert_eq!(decode("").unwrap(), Options::default());
        assert_eq!(decode(" \r\n").unwrap(), Options::default());
        assert_eq!(decode("null").unwrap(), Options::default());
        assert_eq!(
            decode(r#"{"LIMIT":7,"other":[1],"name":null}"#).unwrap(),
            Options { limit: 7, name: String::new() }
        );
    }

    #[test]
    fn options_of_the_wrong_shape_are_refused() {
        for body in
            ["{bad", "[]", "3", r#"{"limit":"a"}"#, r#"{"limit":1.5}"#, r#"{"limit":99999999999999999999}"#]
        {
            assert!(decode_options::<Options>(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn options_are_refused_one_byte_beyond_the_limit() {
        let body = |size: usize| format!("{{}}{}", " ".repeat(size - 2));
        assert!(decode_options::<Options>(body(OPTIONS_BYTES_MAX).as_bytes()).is_ok());
        let error = decode_options::<Options>(body(OPTIONS_BYTES_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "request body of 65537 bytes exceeds the limit of 65536");
    }
}
