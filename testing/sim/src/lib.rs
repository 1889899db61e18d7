//! A deterministic simulation of one server's JetStream: the real cores on a disk that fails, under random work, with a checker.
//!
//! A seed decides everything: what clients do, when the log is written, when checkpoints run, when the power goes and what that does to the disk.
//! `shell` is the server without threads: it drives the cores as the broker does. `witness` applies the same log to streams in memory that never
//! crash, and compares. `history` knows only what clients were told, and holds the server to it. `plant` breaks the server on purpose, one rule at a
//! time, to prove that the checker can fail.

mod history;
mod plant;
mod random;
mod run;
mod shell;
mod witness;
mod world;

pub use history::{Rule, Violation};
pub use plant::Plant;
pub use run::{Outcome, run, run_planted};
