//! The configuration language and every option.
