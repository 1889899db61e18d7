//! Repository chores: tidy checks and code generation.

fn main() {}
