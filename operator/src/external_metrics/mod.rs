//! `external.metrics.k8s.io`: what waits at the servers, for a HorizontalPodAutoscaler.
//!
//! The API server passes requests on, shows a certificate that says so, and names the caller in headers. Who comes without it is refused, and
//! every caller is asked about at the API server again before a value is read. Values are read when they are asked for; nothing is kept but
//! what a rate needs.

pub mod answer;
pub mod front;
pub mod keys;
pub mod query;
pub mod server;

pub use server::start;
