//! A deserializer over text whose grammar was checked.
//!
//! It knows what a type asks for and what the text holds, so a mismatch is told with the names of both.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Display};

use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::parts::{Elements, Entries, Members, NoElements};
use super::type_name::TypeOfElement;
use super::{DecodeError, scan, time};
use crate::go;
use crate::jetstream::quote;

/// Type that a request for a stream has on the wire.
const STREAM_REQUEST: &str = "StreamConfigRequest";

impl serde::de::Error for DecodeError {
    fn custom<T: Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// How a body is read.
pub(super) struct Context<'c> {
    /// Members that the type does not have are an error.
    pub(super) unknown_refused: bool,
    /// Where the member beside the configuration goes, for a request for a stream.
    pub(super) pedantic: Option<&'c Cell<bool>>,
}

/// Where in the body a value stands.
pub(super) enum Path<'p> {
    /// At the top, in a value of this type.
    Top(&'static str),
    /// In a member.
    Member(&'p Self, &'p str),
    /// In an array.
    Index(&'p Self, usize),
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top(name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}.{index}"),
        }
    }
}

/// The values of a body.
pub(super) struct Root<'t> {
    text: &'t [u8],
    starts: Vec<usize>,
    context: &'t Context<'t>,
}

impl<'t> Root<'t> {
    /// The values that begin at these offsets, each of which was checked.
    pub(super) fn new(text: &'t [u8], starts: Vec<usize>, context: &'t Context<'t>) -> Self {
        Self { text, starts, context }
    }

    /// Reads all values over one another.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, DecodeError> {
        T::deserialize(self)
    }
}

impl<'de> Deserializer<'de> for Root<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, DecodeError> {
        Err(DecodeError("a request is read into a structure".to_owned()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let name = if self.context.pedantic.is_some() { STREAM_REQUEST } else { name };
        let path = Path::Top(name);
        let mut members = Members::new(fields, self.context, &path);
        for start in self.starts {
            let value = Node { text: self.text, at: start, context: self.context, path: &path };
            match value.kind() {
                Kind::Null => {}
                Kind::Object => members.add(value)?,
                kind => {
                    let what = kind.name();
                    return Err(DecodeError(format!(
                        "json: cannot unmarshal {what} into Go value of type server.{name}"
                    )));
                }
            }
        }
        members.read(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// One value within a body.
#[derive(Clone, Copy)]
pub(super) struct Node<'t> {
    pub(super) text: &'t [u8],
    /// Offset of its first byte.
    pub(super) at: usize,
    pub(super) context: &'t Context<'t>,
    pub(super) path: &'t Path<'t>,
}

impl<'t> Node<'t> {
    pub(super) fn kind(self) -> Kind {
        match self.text.get(self.at) {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Offset after it.
    pub(super) fn end(self) -> Result<usize, DecodeError> {
        scan::value(self.text, self.at).map_err(|error| DecodeError(error.plain()))
    }

    fn raw(self) -> Result<&'t [u8], DecodeError> {
        Ok(&self.text[self.at..self.end()?])
    }

    pub(super) fn string(self) -> Result<Cow<'t, str>, DecodeError> {
        Ok(unescape(self.raw()?))
    }

    /// The value has another type than its place.
    pub(super) fn mismatch(self, expected: &str) -> DecodeError {
        self.refused(self.kind().name(), expected)
    }

    fn refused(self, what: &str, expected: &str) -> DecodeError {
        let place = if let Path::Index(..) = self.path { "" } else { "Go struct field " };
        DecodeError(format!("json: cannot unmarshal {what} into {place}{} of type {expected}", self.path))
    }

    /// A whole number that the type can hold.
    fn integer<T: std::str::FromStr + Default>(self, expected: &str) -> Result<T, DecodeError> {
        match self.kind() {
            Kind::Null => Ok(T::default()),
            Kind::Number => {
                let text = String::from_utf8_lossy(self.raw()?);
                text.parse().map_err(|_| self.refused(&format!("number {text}"), expected))
            }
            _ => Err(self.mismatch(expected)),
        }
    }
}

/// Text and bytes of a string with its quotes, escapes resolved; what is not UTF-8 becomes the replacement character.
fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains(&b'\\') {
        return String::from_utf8_lossy(inner);
    }
    let text = String::from_utf8_lossy(inner);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => out.push(unescape_unit(&mut chars)),
            Some(other) => out.push(other),
            None => {}
        }
    }
    Cow::Owned(out)
}

/// The character of four digits, or of twice four when they are the halves of one.
fn unescape_unit(chars: &mut std::str::Chars<'_>) -> char {
    let unit = |chars: &mut std::str::Chars<'_>| {
        chars.by_ref().take(4).fold(0, |unit, c| unit << 4 | c.to_digit(16).unwrap_or(0))
    };
    let first = unit(chars);
    if let Some(c) = char::from_u32(first) {
        return c;
    }
    let mut ahead = chars.clone();
    if first < 0xdc00 && ahead.next() == Some('\\') && ahead.next() == Some('u') {
        let second = unit(&mut ahead);
        if (0xdc00..0xe000).contains(&second) {
            *chars = ahead;
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
    }
    char::REPLACEMENT_CHARACTER
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.kind() {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool => self.deserialize_bool(visitor),
            Kind::Number => self.deserialize_i64(visitor),
            Kind::String => self.deserialize_string(visitor),
            Kind::Array => self.deserialize_seq(visitor),
            Kind::Object => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.kind() {
            Kind::Null => visitor.visit_bool(false),
            Kind::Bool => visitor.visit_bool(self.text[self.at] == b't'),
            _ => Err(self.mismatch("bool")),
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_i32(self.integer("int32")?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_i64(self.integer("int64")?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_u64(self.integer("uint64")?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.kind() {
            Kind::Null => visitor.visit_str(""),
            Kind::String => visitor.visit_string(self.string()?.into_owned()),
            _ => Err(self.mismatch("string")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.kind() == Kind::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match (name, self.kind()) {
            (go::TIME, Kind::String) => {
                let text = self.string()?;
                if text.parse::<crate::Time>().is_err() {
                    return Err(DecodeError(time::error_text(&text)));
                }
                visitor.visit_newtype_struct(self)
            }
            (go::TIME, Kind::Null) => {
                let zero: serde::de::value::StringDeserializer<DecodeError> =
                    serde::de::IntoDeserializer::into_deserializer(crate::Time::ZERO.to_string());
                visitor.visit_newtype_struct(zero)
            }
            (go::TIME, _) => Err(self.mismatch(name)),
            (go::INT | go::DURATION, _) => {
                self.integer::<i64>(name)?;
                visitor.visit_newtype_struct(self)
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.kind() {
            Kind::Array => visitor.visit_seq(Elements::new(self)),
            Kind::Null => visitor.visit_seq(NoElements),
            _ => {
                // The visitor says what its elements are when it asks for one.
                let element = match visitor.visit_seq(TypeOfElement) {
                    Err(DecodeError(name)) => name,
                    Ok(_) => String::new(),
                };
                Err(self.mismatch(&format!("[]{element}")))
            }
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.kind() == Kind::Object {
            return visitor.visit_map(Entries::new(self));
        }
        if self.kind() == Kind::Null {
            return visitor.visit_map(NoElements);
        }
        let value = match visitor.visit_map(TypeOfElement) {
            Err(DecodeError(name)) => name,
            Ok(_) => String::new(),
        };
        Err(self.mismatch(&format!("map[string]{value}")))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let mut members = Members::new(fields, self.context, self.path);
        match self.kind() {
            Kind::Object => members.add(self)?,
            Kind::Null => {}
            _ => return Err(self.mismatch(&format!("server.{name}"))),
        }
        members.read(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let raw = self.raw()?;
        let refused = || DecodeError(policy_error(name, raw));
        if self.kind() != Kind::String {
            return Err(if name == COMPRESSION && self.kind() != Kind::Null {
                DecodeError(format!(
                    "json: cannot unmarshal {} into Go value of type string",
                    self.kind().name()
                ))
            } else {
                refused()
            });
        }
        let text = self.string()?;
        let text = if name == DISCARD { text.to_lowercase() } else { text.into_owned() };
        let text: serde::de::value::StringDeserializer<DecodeError> =
            serde::de::IntoDeserializer::into_deserializer(text);
        visitor.visit_enum(text).map_err(|_| refused())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 u8 u16 u32 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

/// The policy whose texts are read without regard to case.
const DISCARD: &str = "server.DiscardPolicy";
/// The policy that has its own words for an unknown text.
const COMPRESSION: &str = "server.StoreCompression";

/// What is said of a text that a policy does not have.
fn policy_error(name: &str, raw: &[u8]) -> String {
    match name {
        COMPRESSION => "unknown compression algorithm".to_owned(),
        "server.PriorityPolicy" => format!("unknown priority policy: {}", String::from_utf8_lossy(raw)),
        "server.ConsumerAction" => format!("unknown consumer action: {}", String::from_utf8_lossy(raw)),
        _ => format!("can not unmarshal {}", quote::double(raw)),
    }
}
