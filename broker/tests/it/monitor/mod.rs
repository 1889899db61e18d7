//! Monitoring over HTTP.

mod accountz;
mod connz;
mod documents;
mod http;
mod jsz;
mod jsz_health;
mod jsz_metrics;
mod metrics;
mod secrets;
mod subsz;
