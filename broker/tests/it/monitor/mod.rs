//! Monitoring over HTTP.

mod connz;
mod documents;
mod http;
mod metrics;
mod secrets;
mod subsz;
