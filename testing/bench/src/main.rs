//! Load generator: measures a server, or ours and the reference alternately in one run on the same cores.
//!
//! It shares the machine with the server, so it does as little as possible: plain blocking threads, frames built
//! beforehand, large writes and reads.

mod cases;
mod client;
mod frames;
mod measure;
mod options;
mod report;
mod script;
mod server;
mod session;
mod sync;

use std::io::{Write, stderr, stdout};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;

use crate::cases::Case;
use crate::measure::{Measure, Target};
use crate::options::{Command, Options};
use crate::report::Comparison;
use crate::server::{Pinning, Server};

/// Descriptors besides those of the idle connections; a server needs some more than we do.
const DESCRIPTORS_SPARE: u64 = 256;

fn main() -> Result<()> {
    let options = options::parse(std::env::args().skip(1))?;
    let output = match &options.command {
        Command::Help => options::HELP.to_owned(),
        Command::Version => concat!("bench ", env!("CARGO_PKG_VERSION"), "\n").to_owned(),
        Command::Compare { programs, rounds } => compare(&options, programs, *rounds)?,
        Command::Sync { directory } => {
            report::markdown_single(&[("sync", sync::run(directory, options.settings.duration)?)])
        }
        Command::Run { server, process } => run(&options, Target { address: *server, process: *process })?,
    };
    Ok(stdout().write_all(output.as_bytes())?)
}

fn compare(options: &Options, programs: &[PathBuf; 2], rounds: usize) -> Result<String> {
    prepare(options)?;
    let pinning = options.pin.then(Pinning::choose).transpose()?;
    let setup = setup(options, pinning);
    let versions = [server::version(&programs[0])?, server::version(&programs[1])?];
    let mut rows = Vec::new();
    for (name, case) in &options.cases {
        let mut comparison = Comparison { case: name, rounds: Vec::new() };
        for round in 0..rounds {
            progress(&format!("{name}, round {} of {rounds}", round + 1))?;
            comparison.rounds.push(one_round(options, programs, pinning, (name, *case), round)?);
        }
        rows.extend(comparison.rows());
    }
    if options.json {
        let document = json!({
            "ours": versions[0], "reference": versions[1], "setup": setup, "rounds": rounds,
            "results": report::json(&rows),
        });
        return Ok(format!("{document:#}\n"));
    }
    let table = report::markdown(&rows);
    let [ours, reference] = versions;
    Ok(format!("Ours: {ours}. Reference: {reference}.\n{setup}, {rounds} rounds.\n\n{table}"))
}

/// Both servers once. Who is first changes from round to round, so that a drift of the machine favours neither.
fn one_round(
    options: &Options,
    programs: &[PathBuf; 2],
    pinning: Option<Pinning>,
    (name, case): (&str, Case),
    round: usize,
) -> Result<[Vec<Measure>; 2]> {
    let mut figures = [Vec::new(), Vec::new()];
    for turn in 0..2 {
        let side = (round + turn) % 2;
        let program = &programs[side];
        let mut server = Server::start(program, case.setup(), pinning)?;
        figures[side] = case.run_own(&mut server, &options.settings).with_context(|| {
            format!("case {name} with {}; the server's log: {}", program.display(), server.log_tail())
        })?;
    }
    Ok(figures)
}

fn run(options: &Options, target: Target) -> Result<String> {
    prepare(options)?;
    let pinning = options.pin.then(Pinning::choose).transpose()?;
    if let Some(pinning) = pinning {
        Pinning::bind(pinning.generator)?;
    }
    let mut results = Vec::new();
    for (name, case) in &options.cases {
        progress(name)?;
        results.push((*name, case.run(target, &options.settings).with_context(|| format!("case {name}"))?));
    }
    Ok(if options.json {
        format!("{:#}\n", report::json_single(&results))
    } else {
        report::markdown_single(&results)
    })
}

/// Servers inherit the limit of open files, so it is raised before the first is started.
fn prepare(options: &Options) -> Result<()> {
    if options.cases.iter().any(|(_, case)| *case == Case::Connections) {
        raise_descriptors(options.settings.connections as u64 + DESCRIPTORS_SPARE)?;
    }
    Ok(())
}

/// Raises the soft limit of open descriptors to the hard one; fails when that is not enough.
fn raise_descriptors(needed: u64) -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).context("cannot raise the limit of open files")?;
    }
    let current = limit.current.unwrap_or(u64::MAX);
    ensure!(current >= needed, "{needed} open files needed, the hard limit is {current} (ulimit -Hn)");
    Ok(())
}

fn progress(text: &str) -> Result<()> {
    Ok(writeln!(stderr(), "bench: {text}")?)
}

/// How the figures are taken, in one line. To be asked before the first binding, which hides the other cores.
fn setup(options: &Options, pinning: Option<Pinning>) -> String {
    let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu_info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let pinned = pinning.map_or_else(
        || "not pinned".to_owned(),
        |pinning| format!("server on core {}, generator on core {}", pinning.server, pinning.generator),
    );
    format!("{model}, {cores} cores, {pinned}, {} s per case", options.settings.duration.as_secs_f64())
}
