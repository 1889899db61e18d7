//! Tests of the operator against a real API server.
fn main() {}
