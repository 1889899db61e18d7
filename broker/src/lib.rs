//! The message broker.
