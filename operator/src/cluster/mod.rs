//! The controller of `NatsCluster`: observe, decide, apply, report.

pub mod additional;
pub mod config_check;
pub mod controller;
pub mod credentials;
pub mod facts;
pub mod files;
pub mod jetstream;
pub mod material;
pub mod observe;
pub mod reconcile;
pub mod reload;
pub mod render;
pub mod rollout;
pub mod scale;
pub mod status;
pub mod storage;
pub mod tls;
pub mod verdict;
