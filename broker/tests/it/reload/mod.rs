//! Reload of the configuration while clients and routes are connected.

mod cluster;
mod failures;
mod jetstream;
mod options;
mod users;
