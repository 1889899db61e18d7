//! Runs the program as a person does, with all cases cut short.
//!
//! The reference stands on both sides unless `MYELIN_BROKER` names a program of ours.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn reference() -> PathBuf {
    let path = std::env::var_os("MYELIN_REFERENCE").map(PathBuf::from).unwrap_or_default();
    assert!(
        path.is_file(),
        "MYELIN_REFERENCE must name the program of the reference server (make test sets it), it is {path:?}"
    );
    path
}

/// Our server where a run of all tests has built it, else the reference a second time.
fn ours() -> PathBuf {
    let path = std::env::var_os("MYELIN_BROKER").map(PathBuf::from);
    let path = path.unwrap_or_else(reference);
    assert!(path.is_file(), "MYELIN_BROKER must name a program, it is {path:?}");
    path
}

/// Compares with everything as small as it may be and returns the rows.
fn compare(cases: &str) -> Vec<Value> {
    let (ours, reference) = (ours(), reference());
    let (ours, reference) = (ours.to_str().unwrap(), reference.to_str().unwrap());
    let mut arguments = vec!["compare", "--ours", ours, "--reference", reference, "--json", "--cases", cases];
    for [name, value] in [
        ["--rounds", "1"],
        ["--seconds", "0.2"],
        ["--connections", "200"],
        ["--subscriptions", "2000"],
        ["--messages", "3000"],
        ["--subjects", "1500"],
        ["--keys", "300"],
        ["--streams", "12"],
        ["--consumers", "12"],
    ] {
        arguments.extend([name, value]);
    }
    let output = bench(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["results"].as_array().unwrap().clone()
}

/// What ours has for this figure.
fn figure(results: &[Value], case: &str, name: &str) -> f64 {
    let row = results.iter().find(|row| row["case"] == case && row["figure"] == name);
    let row = row.unwrap_or_else(|| panic!("no {name} of {case} in {results:#?}"));
    assert!(row["reference"].is_number(), "{row}");
    row["ours"].as_f64().unwrap()
}

fn bench(arguments: &[&str]) -> Output {
    match Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).env_remove("RUST_BACKTRACE").output() {
        Ok(output) => output,
        Err(error) => panic!("cannot run bench: {error}"),
    }
}

#[test]
fn compare_measures_every_case_without_streams() {
    let results = compare("core");
    let cases = [
        "publish-16",
        "publish-128",
        "publish-1024",
        "deliver-16",
        "deliver-128",
        "deliver-1024",
        "fan-out-5",
        "request",
        "connections",
        "subscriptions",
    ];
    for case in cases {
        for name in ["rate", "RSS", "PSS"] {
            assert!(figure(&results, case, name) > 0.0, "{name} of {case}");
        }
        figure(&results, case, "CPU each");
    }
    assert!(figure(&results, "request", "latency p50") <= figure(&results, "request", "latency p99"));
    assert!(figure(&results, "connections", "RSS per connection") > 0.0);
    assert!(figure(&results, "subscriptions", "subscribe rate") > 0.0);
}

#[test]
fn compare_measures_every_case_with_streams() {
    let results = compare("jetstream");
    let rates = [
        ("js-publish-1", "latency p50"),
        ("js-publish-1", "written each"),
        ("js-publish-256", "rate"),
        ("js-publish-4000", "rate"),
        ("js-publish-1-synced", "latency p99"),
        ("js-publish-256-synced", "rate"),
        ("js-publish-4000-synced", "rate"),
        ("js-memory-4000", "rate"),
        ("js-fetch", "rate"),
        ("js-ordered", "rate"),
        ("js-ordered-pull", "rate"),
        ("js-push", "rate"),
        ("js-work-queue", "rate"),
        ("kv-put-1", "latency p50"),
        ("kv-put-256", "rate"),
        ("kv-get-1", "latency p50"),
        ("kv-get-256", "rate"),
        ("kv-watch", "rate"),
        ("js-last-per-subject", "rate"),
        ("js-multi-last", "rate"),
        ("js-start", "start"),
        ("js-start-killed", "start"),
        ("js-start-streams", "start"),
        ("js-start-streams-killed", "start"),
        ("js-streams", "create rate"),
        ("js-streams", "rate with many"),
        ("js-consumers", "rate with 1"),
        ("js-consumers", "fetch rate with many"),
        ("js-ephemeral", "rate"),
        ("js-ephemeral", "reap rate"),
        ("js-ephemeral", "create p99 again"),
        ("js-subjects", "rate"),
        ("js-interior", "delete rate"),
        ("js-interior", "rate"),
    ];
    for (case, name) in rates {
        assert!(figure(&results, case, name) > 0.0, "{name} of {case}");
        assert!(figure(&results, case, "RSS") > 0.0, "RSS of {case}");
    }
    // So little is done here that it may take no tick of the CPU's clock, and no page.
    for (case, name) in [
        ("js-streams", "last create CPU each"),
        ("js-streams", "RSS per stream"),
        ("js-consumers", "RSS per consumer"),
        ("js-ephemeral", "RSS that stays of each"),
        ("js-subjects", "RSS per subject"),
    ] {
        figure(&results, case, name);
    }
}

#[test]
fn sync_measures_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(&["sync", "--directory", directory.path().to_str().unwrap(), "--seconds", "0.2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.lines().count() == 8, "{output:?}");
    assert!(
        text.contains("| sync | 4 KiB: sync p50 | ") && text.contains("| sync | 1 MiB: bytes per second | "),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn a_case_that_restarts_its_server_needs_one_of_its_own() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = bench(&["run", "--server", &free, "js-start"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("restarts its server, which only compare can"),
        "{errors}"
    );
}

#[test]
fn a_program_that_is_no_server_is_reported_with_its_words() {
    let itself = env!("CARGO_BIN_EXE_bench");
    let output = bench(&["compare", "--ours", itself, "--reference", itself, "--cases", "publish-16"]);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(&format!("cannot start {itself}")), "{errors}");
    assert!(errors.contains("ended with exit status: 1; its log: Error: unknown argument"), "{errors}");
}

#[test]
fn run_against_nobody_says_so() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = bench(&["run", "--server", &free, "publish-16"]);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(&format!("cannot connect to {free}")), "{errors}");
}
