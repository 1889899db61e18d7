//! Names of types on the wire.
//!
//! The texts of decode errors name types that Rust does not have. A field that needs such a name is read as a newtype of
//! that name; ordinary deserializers look through it, the decoder of requests puts it into its texts.

use std::fmt;
use std::marker::PhantomData;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

/// A signed integer of the width of a pointer.
pub(crate) const INT: &str = "int";
/// A count of nanoseconds.
pub(crate) const DURATION: &str = "time.Duration";
/// A point in time.
pub(crate) const TIME: &str = "time.Time";

/// Reads an integer whose type is called `int`.
pub(crate) fn int<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    named(deserializer, INT)
}

/// Reads a value whose type has a name of its own.
pub(crate) fn named<'de, D, T>(deserializer: D, name: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_newtype_struct(name, Named(PhantomData))
}

struct Named<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Named<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }
}
