//! Black-box suite: one binary, a module per area, the raw protocol on the wire.
//!
//! The server under test is ours, or the reference with `MYELIN_TEST_TARGET=reference MYELIN_REFERENCE=<path>`. Every
//! test passes against both; where ours is meant to differ, the test asks `target().is_myelin()` and the table below
//! lists it.
//!
//! | Where | Reference | Ours |
//! |---|---|---|
//! | `auth::permissions`, allow `bar.*`, `SUB bar.>` | accepted, delivers `bar.a.b` | refused: no subset |
//! | `auth::permissions`, `allow: []` | no rule | nothing is allowed |
//! | `reload::failures`, a log file that cannot be opened | the server ends | the reload is refused |
//! | `cli::flags`, unknown flag | exit code 0 | exit code 2 |
//! | `cli`, missing option or unknown word | exit code 1 | exit code 2 |
//! | `cli`, name in messages | `nats-server` | `myelin` |
//! | text after PING beyond `max_control_line` (not tested) | skipped | ends the connection as any long line does |
//! | `tls::suites`, TLS 1.2 with ECDHE and block chaining | accepted | refused: not offered |
//! | `auth::imports_mappings`, no mappings after a reload | the old ones of `$G` stay | none |
//! | `auth::imports_streams`, `UNSUB` with a maximum | not counted | counted |
//! | `auth::imports_services`, `Nats-Request-Info` in another spelling | stays beside the real one | taken out |
//! | `monitor::metrics` | no such path | Prometheus text |
//! | `cli::config`, features that do not exist yet | accepted | refused by name |

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod auth;
mod cli;
mod cluster;
mod compare;
mod core_protocol;
mod jetstream;
mod keda;
mod monitor;
mod reload;
mod system;
mod tls;

use testkit::{Builder, Server, Target};

/// The server that this run is about.
fn target() -> Target {
    Target::from_env(env!("CARGO_BIN_EXE_myelin"))
}

/// A server with this configuration.
async fn server(config: &str) -> Server {
    Server::start(&target(), config).await
}

/// A server with this configuration and a monitoring port.
async fn monitored(config: &str) -> Server {
    Builder::new(&target()).config(config).monitoring().start().await
}

/// The reference server, for tests that need both. Absent only outside of the full run, where they then check nothing.
fn reference() -> Option<Target> {
    let reference = Target::reference();
    assert!(reference.is_some() || std::env::var_os("CI").is_none(), "the full run needs MYELIN_REFERENCE");
    reference
}
