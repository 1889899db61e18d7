//! The table of JetStream errors.
//!
//! The data is `data/jetstream-errors.tsv`; constants are generated from it. Texts are part of the contract.

#[rustfmt::skip]
mod table;

use std::fmt::{Display, Write as _};

use crate::ApiError;

pub use table::ALL;

/// One error of the table. Its text may hold places for values, which [`ErrorCode::with`] fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode {
    err_code: u16,
    code: u16,
    text: &'static str,
}

impl ErrorCode {
    /// Number of the error.
    pub const fn err_code(self) -> u16 {
        self.err_code
    }

    /// Class of the error, an HTTP status.
    pub const fn code(self) -> u16 {
        self.code
    }

    /// Text with its places unfilled.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// The error with this number.
    pub fn find(err_code: u16) -> Option<Self> {
        let at = ALL.binary_search_by_key(&err_code, |error| error.err_code).ok()?;
        Some(ALL[at])
    }

    /// The error with the places of its text filled in their order.
    ///
    /// # Panics
    /// When there are more or fewer values than places.
    pub fn with(self, values: &[&dyn Display]) -> ApiError {
        let mut description = String::with_capacity(self.text.len() + 32);
        let mut rest = self.text;
        let mut values = values.iter();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((_, after)) = after.split_once('}') else { break };
            let value = values.next();
            assert!(value.is_some(), "error {} lacks a value", self.err_code);
            description.push_str(before);
            if let Some(value) = value {
                // Writing to a String cannot fail.
                let _ = write!(description, "{value}");
            }
            rest = after;
        }
        assert!(values.next().is_none(), "error {} has a value too many", self.err_code);
        description.push_str(rest);
        ApiError { code: self.code, err_code: self.err_code, description }
    }

    /// The error with its one place filled.
    ///
    /// # Panics
    /// When its text has no place or more than one.
    pub fn because(self, value: impl Display) -> ApiError {
        self.with(&[&value])
    }

    /// Whether an error of a response is this one.
    pub fn is(self, error: &ApiError) -> bool {
        error.err_code == self.err_code
    }
}

impl From<ErrorCode> for ApiError {
    /// # Panics
    /// When the text has places.
    fn from(error: ErrorCode) -> Self {
        error.with(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_found_by_number() {
        assert_eq!(ErrorCode::find(10_059), Some(ErrorCode::STREAM_NOT_FOUND));
        assert_eq!(ErrorCode::find(10_001), None);
        assert!(ALL.is_sorted_by_key(|error| error.err_code));
        for error in ALL {
            assert_eq!(ErrorCode::find(error.err_code), Some(error));
        }
    }

    #[test]
    fn values_fill_the_places_of_a_text_in_order() {
        let error = ErrorCode::STREAM_EXTERNAL_API_OVERLAP.with(&[&"$JS.{a}", &7]);
        assert_eq!(
            error,
            ApiError {
                code: 400,
                err_code: 10_021,
                description: "stream external api prefix $JS.{a} must not overlap with 7".to_owned()
            }
        );
        assert_eq!(ErrorCode::STREAM_INVALID_CONFIG.because("x").description, "x");
        let error = ApiError::from(ErrorCode::STREAM_NOT_FOUND);
        assert_eq!((error.code, error.description.as_str()), (404, "stream not found"));
        assert!(ErrorCode::STREAM_NOT_FOUND.is(&error));
    }

    #[test]
    #[should_panic(expected = "lacks a value")]
    fn a_place_without_a_value_is_a_bug() {
        let _ = ApiError::from(ErrorCode::STREAM_INVALID_CONFIG);
    }

    #[test]
    #[should_panic(expected = "value too many")]
    fn a_value_without_a_place_is_a_bug() {
        let _ = ErrorCode::STREAM_NOT_FOUND.because("x");
    }
}
