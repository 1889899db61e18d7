//! Reading request bodies, with the error texts that clients know.
//!
//! Names of members match without regard to case, `null` leaves a member as it is, and of members with one name
//! the last counts. A body may hold several values, which are read over one another. In strict mode a member that the
//! request does not have is an error. The first error in the order of the text is told.
//!
//! The length of a body is bounded by the largest message a server takes; nesting is bounded by [`DEPTH_MAX`], and only
//! members that the request has are read recursively.

mod parts;
mod scan;
mod time;
mod type_name;
mod value;

use std::cell::Cell;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::request::StreamRequest;
use super::stream::StreamConfig;
use crate::ApiError;
use crate::error::jetstream::ErrorCode;
use value::{Context, Root};

pub use scan::DEPTH_MAX;

/// Why a body was refused: the text without the words before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl From<DecodeError> for ApiError {
    fn from(error: DecodeError) -> Self {
        ErrorCode::INVALID_JSON.because(error.0)
    }
}

/// How strictly bodies are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Unknown members are refused.
    Strict,
    /// Unknown members are passed over.
    Lenient,
}

/// Reads the body of a request. An empty body stands for the defaults.
///
/// # Errors
/// When the body is not JSON, has members of the wrong type, or in strict mode members that the request does not have.
pub fn decode<T: DeserializeOwned + Default>(body: &[u8], mode: Mode) -> Result<T, DecodeError> {
    read(body, mode, None)
}

/// Reads a body that must be one value, and may have members that the request does not have.
///
/// # Errors
/// When the body is empty or not JSON, has members of the wrong type, or anything behind the value.
pub fn decode_one<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    one_value(body, &Context { unknown_refused: false, pedantic: None })
}

/// Reads the body of a request to create or update a stream.
///
/// # Errors
/// As those of [`decode`].
pub fn stream_request(body: &[u8], mode: Mode) -> Result<StreamRequest, DecodeError> {
    let pedantic = Cell::new(false);
    let config: StreamConfig = read(body, mode, Some(&pedantic))?;
    // What can be read as a configuration can be read as less.
    let storage_given = read::<Named>(body, Mode::Lenient, None).is_ok_and(|named| named.storage.is_some());
    Ok(StreamRequest { config, pedantic: pedantic.get(), storage_given })
}

/// Members whose presence counts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    storage: Option<IgnoredAny>,
}

/// Whether a body looks like an object or array; several endpoints pass over bodies that do not.
pub fn is_object_or_array(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Whether a body says nothing, as endpoints without options require: it is empty or an object without members.
pub fn is_empty_request(body: &[u8]) -> bool {
    if body.is_empty() {
        return true;
    }
    let Ok(end) = scan::value(body, 0) else { return false };
    let (value, rest) = body.split_at(end);
    let Some(members) = value.trim_ascii().strip_prefix(b"{").and_then(|value| value.strip_suffix(b"}"))
    else {
        return false;
    };
    members.trim_ascii().is_empty() && rest.trim_ascii().is_empty()
}

fn read<T>(body: &[u8], mode: Mode, pedantic: Option<&Cell<bool>>) -> Result<T, DecodeError>
where
    T: DeserializeOwned + Default,
{
    let strict = all_values(body, &Context { unknown_refused: true, pedantic });
    match (mode, strict) {
        (Mode::Lenient, Err(_)) => one_value(body, &Context { unknown_refused: false, pedantic }),
        (_, result) => result,
    }
}

/// Reads all values of a body over one another, and tells where the text is broken.
fn all_values<T>(body: &[u8], context: &Context<'_>) -> Result<T, DecodeError>
where
    T: DeserializeOwned + Default,
{
    let mut starts = Vec::new();
    let mut at = 0;
    let broken = loop {
        at = scan::skip_space(body, at);
        if at == body.len() {
            break None;
        }
        match scan::value(body, at) {
            Ok(end) => {
                starts.push(at);
                at = end;
            }
            Err(error) => break Some(error),
        }
    };
    let value = if starts.is_empty() { T::default() } else { Root::new(body, starts, context).read()? };
    match broken {
        None => Ok(value),
        Some(error) => Err(DecodeError(error.with_offset())),
    }
}

/// Reads the only value of a body.
fn one_value<T: DeserializeOwned>(body: &[u8], context: &Context<'_>) -> Result<T, DecodeError> {
    let start = scan::skip_space(body, 0);
    let end = scan::value(body, start).map_err(|error| DecodeError(error.plain()))?;
    let after = scan::skip_space(body, end);
    if after < body.len() {
        return Err(DecodeError(scan::after_top_level(body, after).plain()));
    }
    Root::new(body, vec![start], context).read()
}

#[cfg(test)]
mod tests;
