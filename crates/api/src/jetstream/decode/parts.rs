//! Parts of a value: the members of objects and the elements of arrays.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::value::{Context, Kind, Node, Path};
use super::{DecodeError, scan};
use crate::jetstream::quote;

/// Name of the member that a request for a stream has beside the configuration.
const PEDANTIC: &str = "pedantic";

/// The members of one object, or of several that are read over one another.
pub(super) struct Members<'t> {
    fields: &'static [&'static str],
    context: &'t Context<'t>,
    path: &'t Path<'t>,
    /// Members in the order of the text; of those with one name only the last.
    present: Vec<(&'static str, Cow<'t, str>, Node<'t>)>,
    /// The first member that the type does not have, by the number of members before it.
    unknown: Option<(usize, DecodeError)>,
}

impl<'t> Members<'t> {
    pub(super) fn new(fields: &'static [&'static str], context: &'t Context<'t>, path: &'t Path<'t>) -> Self {
        Self { fields, context, path, present: Vec::new(), unknown: None }
    }

    /// Adds the members of an object.
    pub(super) fn add(&mut self, object: Node<'t>) -> Result<(), DecodeError> {
        let mut entries = Entries::new(object);
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

    /// Reads them, and tells the first fault in the order of the text.
    pub(super) fn read<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
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
pub(super) struct Entries<'t> {
    object: Node<'t>,
    at: usize,
    /// Name of the member found last.
    name: Cow<'t, str>,
}

impl<'t> Entries<'t> {
    /// The members of this object.
    pub(super) fn new(object: Node<'t>) -> Self {
        Self { object, at: object.at + 1, name: Cow::Borrowed("") }
    }

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
pub(super) struct Elements<'t> {
    array: Node<'t>,
    at: usize,
    index: usize,
}

impl<'t> Elements<'t> {
    /// The elements of this array.
    pub(super) fn new(array: Node<'t>) -> Self {
        Self { array, at: array.at + 1, index: 0 }
    }
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
pub(super) struct NoElements;

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
