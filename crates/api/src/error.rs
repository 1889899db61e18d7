//! The error object inside a response, and the tables its errors come from.

pub mod jetstream;

use serde::{Deserialize, Serialize};

use crate::optional::is_zero;

/// An error as a response carries it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(default)]
#[error("{description} (code {code})")]
pub struct ApiError {
    /// Class of the error, an HTTP status.
    pub code: u16,
    /// Exact error of the table of errors, where one is assigned.
    #[serde(skip_serializing_if = "is_zero")]
    pub err_code: u16,
    /// Text for people.
    #[serde(skip_serializing_if = "is_zero")]
    pub description: String,
}

impl ApiError {
    /// The request could not be read.
    pub fn bad_request(description: impl Into<String>) -> Self {
        Self { code: 400, err_code: 0, description: description.into() }
    }

    /// The request was read, but could not be served.
    pub fn internal(description: impl Into<String>) -> Self {
        Self { code: 500, err_code: 0, description: description.into() }
    }
}
