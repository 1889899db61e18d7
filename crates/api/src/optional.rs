//! Helpers for the derive attributes: which values are left out, and how `null` is read.

use serde::{Deserialize, Deserializer};

/// Whether a value is its type's zero value and therefore left out of the document.
pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads `null` as the zero value: the reference writes `null` for some lists that were never made.
pub(crate) fn null_is_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
