//! The program: flags, files that it writes, signals, exit codes and log lines.

mod config;
mod files;
mod flags;
mod log;
mod signals;

use testkit::{Builder, Finished};

use crate::target;

/// What the program calls itself in its messages.
fn program() -> &'static str {
    if target().is_myelin() { "myelin" } else { "nats-server" }
}

/// Exit code for a wrong use of the command line. The reference has no own one.
fn usage_error() -> i32 {
    if target().is_myelin() { 2 } else { 1 }
}

/// Runs the program with these arguments to its end.
async fn run(args: &[&str]) -> Finished {
    Builder::new(&target()).own_listen().args(args.iter().copied()).run().await
}
