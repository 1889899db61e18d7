//! Tests of the operator against a real API server, with the real StatefulSet controller and garbage collector, a
//! small stand-in for the kubelet, and real servers.
//!
//! `MYELIN_KUBENODE` names the one-node Kubernetes (`make kubernetes` prints it), `MYELIN_BROKER` the server binary;
//! without the second the one that `cargo build -p broker` left is used. `make test` sets both.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod autoscaler;
mod autoscaler_groups;
mod autoscaler_idle;
mod autoscaler_lists;
mod autoscaler_slow;
mod autoscaler_targets;
mod chart;
mod crd;
mod external_metrics;
mod faults;
mod golden;
mod jetstream;
mod lifecycle;
mod security;
mod storage;
mod support;
