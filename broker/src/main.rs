//! The message broker.

fn main() {}
