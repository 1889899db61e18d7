//! The whole chain in a real Kubernetes: Helm installs the operator, kubectl creates a cluster, the official client
//! sends messages through it, and everything is changed, broken and removed in between.
//!
//! All scenarios share one cluster, which is started here and ended here, so this binary is its own harness. It takes
//! parts of names as arguments and then runs only those; the programs come by environment variables (`make e2e`).

mod client;
mod cluster;
mod command;
mod document;
mod kubernetes;
mod load;
mod scenarios;
mod wait;

use std::cell::OnceCell;
use std::io::{Write, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};

use kubernetes::{Kubernetes, Programs};
use scenarios::{INSTALL, SCENARIOS, Scenario, World};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chosen scenarios. False when one of them failed.
fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|scenario| parts.is_empty() || parts.iter().any(|part| scenario.name.contains(part.as_str())))
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for scenario in chosen {
            writeln!(stdout(), "{}: test", scenario.name)?;
        }
        return Ok(true);
    }
    ensure!(!chosen.is_empty(), "no scenario has a name with any of {parts:?}");

    let started = Instant::now();
    let programs = Programs::find()?;
    writeln!(stdout(), "\nstarting a one-node Kubernetes")?;
    let world = World { kubernetes: Kubernetes::start(programs)?, before: OnceCell::new() };
    let mut failed = usize::from(!passes(&INSTALL, &world)?);
    let mut passed = 1 - failed;
    if failed == 0 {
        for scenario in &chosen {
            match passes(scenario, &world)? {
                true => passed += 1,
                false => failed += 1,
            }
        }
    }
    world.kubernetes.stop()?;
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let left_out = SCENARIOS.len() + 1 - passed - failed;
    writeln!(
        stdout(),
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out; \
         finished in {:.2}s\n",
        started.elapsed().as_secs_f64()
    )?;
    Ok(failed == 0)
}

/// Runs one scenario and prints how it went.
fn passes(scenario: &Scenario, world: &World) -> Result<bool> {
    let started = Instant::now();
    write!(stdout(), "test {} ... ", scenario.name)?;
    stdout().flush()?;
    let result = catch_unwind(AssertUnwindSafe(|| (scenario.run)(world)))
        .unwrap_or_else(|_| Err(anyhow!("it panicked")));
    let seconds = started.elapsed().as_secs_f64();
    let Err(error) = result else {
        writeln!(stdout(), "ok ({seconds:.1} s)")?;
        return Ok(true);
    };
    writeln!(stdout(), "FAILED ({seconds:.1} s)")?;
    eprintln!("--- {} failed: {error:#}", scenario.name);
    world.kubernetes.explain();
    Ok(false)
}
