//! The Kubernetes operator: watches `NatsCluster` objects and makes real what they say.
//!
//! A pass is observe, decide, apply, report. Decisions are pure functions over observed facts; everything that
//! changes the world goes through [`apply`]; long waits are states of the status, not sleeps.

pub mod apply;
pub mod autoscaler;
pub mod cluster;
pub mod context;
pub mod error;
pub mod events;
pub mod external_metrics;
pub mod jetstream;
pub mod leader;
pub mod metrics;
pub mod nats;
pub mod objects;
pub mod scope;
pub mod settings;
pub mod telemetry;
pub mod uninstall;
