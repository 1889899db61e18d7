//! A deserializer over text whose grammar was checked.
//!
//! It knows what a type asks for and what the text holds, so a mismatch is told with the names of both.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Display};

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::type_name::TypeOfElement;
use super::{DecodeError, scan, time};
use crate::go;
use crate::jetstream::quote;

/// Name of the member that a request for a stream has beside the configuration.
const PEDANTIC: &str = "pedantic";

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
    /// Where [`PEDANTIC`] goes, for a request for a stream.
    pub(super) pedantic: Option<&'c Cell<bool>>,
}

/// Where in the body a value stands.
enum Path<'p> {
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
enum Kind {
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
struct Node<'t> {
    text: &'t [u8],
    /// Offset of its first byte.
    at: usize,
    context: &'t Context<'t>,
    path: &'t Path<'t>,
}

impl<'t> Node<'t> {
    fn kind(self) -> Kind {
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
    fn end(self) -> Result<usize, DecodeError> {
        scan::value(self.text, self.at).map_err(|error| DecodeError(error.plain()))
    }

    fn raw(self) -> Result<&'t [u8], DecodeError> {
        Ok(&self.text[self.at..self.end()?])
    }

    fn string(self) -> Result<Cow<'t, str>, DecodeError> {
        Ok(unescape(self.raw()?))
    }

    /// The value has another type than its place.
    fn mismatch(self, expected: &str) -> DecodeError {
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
            Kind::Array => visitor.visit_seq(Elements { array: self, at: self.at + 1, index: 0 }),
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
            return visitor.visit_map(Entries { object: self, at: self.at + 1, name: Cow::Borrowed("") });
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

/// The members of one object, or of several that are read over one another.
struct Members<'t> {
    fields: &'static [&'static str],
    context: &'t Context<'t>,
    path: &'t Path<'t>,
    /// Members in the order of the text; of those with one name only the last.
    present: Vec<(&'static str, Cow<'t, str>, Node<'t>)>,
    /// The first member that the type does not have, by the number of members before it.
    unknown: Option<(usize, DecodeError)>,
}

impl<'t> Members<'t> {
    fn new(fields: &'static [&'static str], context: &'t Context<'t>, path: &'t Path<'t>) -> Self {
        Self { fields, context, path, present: Vec::new(), unknown: None }
    }

    /// Adds the members of an object.
    fn add(&mut self, object: Node<'t>) -> Result<(), DecodeError> {
        let mut entries = Entries { object, at: object.at + 1, name: Cow::Borrowed("") };
        while let Some(value) = entries.next_entry()? {
            let name = std::mem::take(&mut entries.name);
            if self.take_pedantic(&name, value)? {
                continue;
            }
            let exact = self.fields.iter().find(|field| **field == name);
            match exact.or_else(|| self.fields.iter().find(|field| field.eq_ignore_ascii_case(&name))) {
                // What was read before stays as it is.
                Some(field)
                    if value.kind() == Kind::Null
                        && self.present.iter().any(|(present, ..)| present == field) => {}
                Some(field) => {
                    self.present.retain(|(present, ..)| present != field);
                    self.present.push((field, name, value));
                }
                None if self.context.unknown_refused && self.unknown.is_none() => {
                    let quoted = quote::double(name.as_bytes());
                    let error = DecodeError(format!("json: unknown field {quoted}"));
                    self.unknown = Some((self.present.len(), error));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Whether the member stands beside the configuration of a request for a stream; if so, it is read.
    fn take_pedantic(&self, name: &str, value: Node<'t>) -> Result<bool, DecodeError> {
        let (Some(pedantic), Path::Top(_)) = (self.context.pedantic, self.path) else { return Ok(false) };
        if !name.eq_ignore_ascii_case(PEDANTIC) {
            return Ok(false);
        }
        let path = Path::Member(self.path, name);
        let value = Node { path: &path, ..value };
        match value.kind() {
            Kind::Null => {}
            Kind::Bool => pedantic.set(value.text[value.at] == b't'),
            _ => return Err(value.mismatch("bool")),
        }
        Ok(true)
    }

    fn read<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_map(MemberAccess { members: self, at: 0 })
    }
}

struct MemberAccess<'t> {
    members: Members<'t>,
    at: usize,
}

impl<'de> MapAccess<'de> for MemberAccess<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        // A member that the type does not have is told when those before it have been read.
        if self.members.unknown.as_ref().is_some_and(|(before, _)| *before <= self.at) {
            return match self.members.unknown.take() {
                Some((_, error)) => Err(error),
                None => Ok(None),
            };
        }
        let Some((field, ..)) = self.members.present.get(self.at) else { return Ok(None) };
        let name: serde::de::value::StrDeserializer<'_, DecodeError> =
            serde::de::IntoDeserializer::into_deserializer(*field);
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let Some((_, name, value)) = self.members.present.get(self.at) else {
            return Err(DecodeError("no member is left".to_owned()));
        };
        self.at += 1;
        seed.deserialize(Node { path: &Path::Member(self.members.path, name), ..*value })
    }
}

/// The members of an object one by one.
struct Entries<'t> {
    object: Node<'t>,
    at: usize,
    /// Name of the member found last.
    name: Cow<'t, str>,
}

impl<'t> Entries<'t> {
    /// The value of the next member, whose name is kept.
    fn next_entry(&mut self) -> Result<Option<Node<'t>>, DecodeError> {
        let text = self.object.text;
        let mut at = scan::skip_space(text, self.at);
        if text.get(at) == Some(&b',') {
            at = scan::skip_space(text, at + 1);
        }
        if text.get(at) != Some(&b'"') {
            return Ok(None);
        }
        let name = Node { at, ..self.object };
        self.name = name.string()?;
        let colon = scan::skip_space(text, name.end()?);
        let value = Node { at: scan::skip_space(text, colon + 1), ..self.object };
        self.at = value.end()?;
        Ok(Some(value))
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let before = self.at;
        if self.next_entry()?.is_none() {
            return Ok(None);
        }
        // The value is found again when it is asked for.
        self.at = before;
        let name: serde::de::value::StrDeserializer<'_, DecodeError> =
            serde::de::IntoDeserializer::into_deserializer(self.name.as_ref());
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let Some(value) = self.next_entry()? else {
            return Err(DecodeError("no member is left".to_owned()));
        };
        seed.deserialize(Node { path: &Path::Member(self.object.path, &self.name), ..value })
    }
}

/// The elements of an array.
struct Elements<'t> {
    array: Node<'t>,
    at: usize,
    index: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let text = self.array.text;
        let mut at = scan::skip_space(text, self.at);
        match text.get(at) {
            Some(b']') | None => return Ok(None),
            Some(b',') => at = scan::skip_space(text, at + 1),
            Some(_) => {}
        }
        let path = Path::Index(self.array.path, self.index);
        let element = Node { at, path: &path, ..self.array };
        self.at = element.end()?;
        self.index += 1;
        seed.deserialize(element).map(Some)
    }
}

/// The elements of no array and the members of no object.
struct NoElements;

impl<'de> SeqAccess<'de> for NoElements {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, _: T) -> Result<Option<T::Value>, DecodeError> {
        Ok(None)
    }
}

impl<'de> MapAccess<'de> for NoElements {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, DecodeError> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, DecodeError> {
        Err(DecodeError("no member is left".to_owned()))
    }
}
