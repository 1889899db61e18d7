//! The mounted file system, and the server on it: killed at random moments under load, with the power lost each time.
//!
//! This binary is its own harness, because only here it shows whether anything can be mounted: without `/dev/fuse` all tests count as
//! ignored. It takes parts of names as arguments and then runs only those. `MYELIN_LOSSY_ROUNDS` says how often the server is killed,
//! `MYELIN_LOSSY_SEED` repeats the choices of an earlier run, as far as they do not depend on time.

#![allow(clippy::unwrap_used, reason = "these are tests, although without the standard harness")]

mod files;
mod full;
mod loads;
mod server;

use std::io::{Write, stdout};
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use lossyfs::Mounted;

/// What a test needs of the kernel.
const DEVICE: &str = "/dev/fuse";

struct Test {
    name: &'static str,
    run: fn(),
}

/// All tests, in the order in which they run.
const TESTS: &[Test] = &[
    Test {
        name: "files_that_programs_make_are_seen_by_programs",
        run: files::what_programs_make_is_seen_by_programs,
    },
    Test { name: "what_is_not_synced_is_lost", run: files::what_is_not_synced_is_lost },
    Test { name: "a_full_disk_refuses_and_loses_nothing", run: full::a_full_disk_refuses_and_loses_nothing },
    Test { name: "nothing_acknowledged_is_lost_with_the_power", run: server::nothing_acknowledged_is_lost },
    Test { name: "a_server_that_syncs_once_an_hour_is_caught", run: server::a_weak_server_is_caught },
    Test { name: "a_disk_that_forgets_names_is_caught", run: server::a_disk_that_forgets_names_is_caught },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen: Vec<&Test> = TESTS
        .iter()
        .filter(|test| parts.is_empty() || parts.iter().any(|part| test.name.contains(part.as_str())))
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|test| say(&format!("{}: test", test.name)));
        return ExitCode::SUCCESS;
    }
    let started = Instant::now();
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    let absent = absence();
    say(&format!("\nrunning {} tests", chosen.len()));
    for test in &chosen {
        if let Some(reason) = &absent {
            say(&format!("test {} ... ignored, skipped: {reason}", test.name));
            ignored += 1;
        } else if catch_unwind(test.run).is_ok() {
            say(&format!("test {} ... ok", test.name));
            passed += 1;
        } else {
            say(&format!("test {} ... FAILED", test.name));
            failed += 1;
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let left_out = TESTS.len() - chosen.len();
    say(&format!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {left_out} filtered out; \
         finished in {:.2}s\n",
        started.elapsed().as_secs_f64()
    ));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Why nothing can be mounted here. Where there is a device, continuous integration has to be able to.
fn absence() -> Option<String> {
    if !Path::new(DEVICE).exists() {
        return Some(format!("no {DEVICE}"));
    }
    let error = Mounted::new(1 << 20).err()?;
    assert!(std::env::var_os("CI").is_none(), "{DEVICE} is there, but nothing can be mounted: {error}");
    Some(format!("nothing can be mounted: {error}"))
}

fn say(line: &str) {
    if let Err(error) = writeln!(stdout(), "{line}") {
        panic!("standard output: {error}");
    }
}
