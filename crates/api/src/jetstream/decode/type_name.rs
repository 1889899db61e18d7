//! What the elements of an array or object are, asked of the type they are read into.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::DecodeError;

/// Answers whatever is asked of it with the name of what was asked for.
pub(super) struct TypeOfElement;

impl<'de> SeqAccess<'de> for TypeOfElement {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        seed.deserialize(Self).map(Some)
    }
}

impl<'de> MapAccess<'de> for TypeOfElement {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let name: serde::de::value::StrDeserializer<'_, DecodeError> =
            serde::de::IntoDeserializer::into_deserializer("");
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        seed.deserialize(Self)
    }
}

/// Names the type that one method stands for.
macro_rules! names {
    ($($method:ident $name:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, DecodeError> {
            Err(DecodeError($name.to_owned()))
        }
    )*};
}

impl<'de> Deserializer<'de> for TypeOfElement {
    type Error = DecodeError;

    names! {
        deserialize_any "interface {}";
        deserialize_bool "bool";
        deserialize_i32 "int32";
        deserialize_i64 "int64";
        deserialize_u64 "uint64";
        deserialize_str "string";
        deserialize_string "string";
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: V,
    ) -> Result<V::Value, DecodeError> {
        Err(DecodeError(name.to_owned()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, DecodeError> {
        // Sources are the one list whose elements are held by pointer.
        let pointer = if name == "StreamSource" { "*" } else { "" };
        Err(DecodeError(format!("{pointer}server.{name}")))
    }

    forward_to_deserialize_any! {
        i8 i16 u8 u16 u32 f32 f64 char bytes byte_buf option unit unit_struct seq tuple tuple_struct map enum
        identifier ignored_any
    }
}
