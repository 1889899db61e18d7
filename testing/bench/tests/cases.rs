//! Runs the program as a person does, with all cases cut short, the reference on both sides.

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

fn bench(arguments: &[&str]) -> Output {
    match Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).env_remove("RUST_BACKTRACE").output() {
        Ok(output) => output,
        Err(error) => panic!("cannot run bench: {error}"),
    }
}

#[test]
fn compare_measures_every_case() {
    let reference = reference();
    let reference = reference.to_str().unwrap();
    let output = bench(&[
        "compare",
        "--ours",
        reference,
        "--reference",
        reference,
        "--rounds",
        "1",
        "--seconds",
        "0.2",
        "--connections",
        "200",
        "--subscriptions",
        "2000",
        "--json",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = document["results"].as_array().unwrap();
    let figure = |case: &str, figure: &str| {
        let row = results.iter().find(|row| row["case"] == case && row["figure"] == figure);
        row.unwrap_or_else(|| panic!("no {figure} of {case} in {document:#}"))
    };
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
            let row = figure(case, name);
            assert!(row["ours"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["ratio"].as_f64().unwrap() > 0.0, "{row}");
        }
        assert!(figure(case, "CPU each")["ours"].is_number());
    }
    let latency = |name| figure("request", name)["ours"].as_f64().unwrap();
    assert!(latency("latency p50") <= latency("latency p99"));
    assert!(figure("connections", "RSS per connection")["ours"].as_f64().unwrap() > 0.0);
    assert!(figure("subscriptions", "subscribe rate")["ours"].as_f64().unwrap() > 0.0);
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
