//! Pure builders of the child objects of a cluster: the same cluster and facts always give the same object.

pub mod identity;
pub mod policies;
pub mod secrets;
pub mod services;
pub mod stateful_set;
pub mod storage;
