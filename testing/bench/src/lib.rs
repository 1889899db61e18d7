//! Load generator and comparison with the reference.
