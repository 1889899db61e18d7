//! The program: flags, files that it writes, signals, exit codes and log lines.

mod config;
mod files;
mod flags;
mod log;
mod signals;

use testkit::{Builder, Finished};

use crate::target;

/// Runs the program with these arguments to its end.
async fn run(args: &[&str]) -> Finished {
    Builder::new(&target()).own_listen().args(args.iter().copied()).run().await
}
