//! Bytes to operations and back: no I/O, no policy.
