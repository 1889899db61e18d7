//! Tests of the crate from outside: examples, round trips, damaged texts, the option reference.

mod examples;
mod mutation;
mod reference;
mod round_trip;
mod support;
