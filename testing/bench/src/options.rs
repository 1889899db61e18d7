//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cases::{ALL, Case, Settings, find};

/// What is printed for `--help` and no arguments.
pub(crate) const HELP: &str = "\
Load generator for NATS servers.

  bench compare --ours PROGRAM --reference PROGRAM [--cases NAME,NAME] [--rounds 3] [options]
      Starts both servers alternately, a fresh process for each case and round, and prints the figures side by side.
  bench run --server ADDRESS:PORT [--pid PID] [options] [CASE ...]
      Runs cases against a server that is running; with its process id also CPU and memory.

Options:
  --seconds N         measured time of each case (default 3, fractions allowed, at most 60)
  --connections N     idle connections (default 10000)
  --subscriptions N   subscriptions of one connection (default 100000)
  --pin               server and generator on one core each
  --json              JSON instead of a Markdown table

Cases: publish-16 publish-128 publish-1024 deliver-16 deliver-128 deliver-1024 fan-out-5 request connections
subscriptions. Default: all.
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Compare { programs: [PathBuf; 2], rounds: usize },
    Run { server: SocketAddr, process: Option<u32> },
}

/// The whole command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) command: Command,
    pub(crate) cases: Vec<(&'static str, Case)>,
    pub(crate) settings: Settings,
    pub(crate) pin: bool,
    pub(crate) json: bool,
}

const SECONDS_MAX: f64 = 60.0;
const ROUNDS_MAX: usize = 100;

/// Reads the arguments after the program's name.
pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let (mut ours, mut reference, mut server, mut process, mut rounds) = (None, None, None, None, 3);
    let settings = Settings { duration: Duration::from_secs(3), connections: 10_000, subscriptions: 100_000 };
    let mut options =
        Options { command: Command::Help, cases: Vec::new(), settings, pin: false, json: false };
    let verb = arguments.next().unwrap_or_else(|| "--help".into());
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{name} needs a value"));
        match name.as_str() {
            "--ours" => ours = Some(PathBuf::from(value()?)),
            "--reference" => reference = Some(PathBuf::from(value()?)),
            "--server" => server = Some(number(&name, &value()?)?),
            "--pid" => process = Some(number(&name, &value()?)?),
            "--rounds" => rounds = number(&name, &value()?)?,
            "--seconds" => options.settings.duration = seconds(&value()?)?,
            "--connections" => options.settings.connections = number(&name, &value()?)?,
            "--subscriptions" => options.settings.subscriptions = number(&name, &value()?)?,
            "--cases" => {
                for case in value()?.split(',') {
                    options.cases.push(find(case)?);
                }
            }
            "--pin" => options.pin = true,
            "--json" => options.json = true,
            "--help" | "-h" => return Ok(options),
            case if !case.starts_with('-') && verb == "run" => options.cases.push(find(case)?),
            _ => bail!("unknown argument {name}; see bench --help"),
        }
    }
    ensure!((1..=ROUNDS_MAX).contains(&rounds), "--rounds {rounds}: 1 to {ROUNDS_MAX} are possible");
    if options.cases.is_empty() {
        options.cases = ALL.to_vec();
    }
    options.command = match verb.as_str() {
        "compare" => {
            let programs = [ours.context("--ours is missing")?, reference.context("--reference is missing")?];
            Command::Compare { programs, rounds }
        }
        "run" => Command::Run { server: server.context("--server is missing")?, process },
        "--help" | "-h" | "help" => Command::Help,
        "--version" => Command::Version,
        _ => bail!("unknown command {verb}; see bench --help"),
    };
    Ok(options)
}

fn number<T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    name: &str,
    text: &str,
) -> Result<T> {
    text.parse().with_context(|| format!("{name} {text}"))
}

fn seconds(text: &str) -> Result<Duration> {
    let seconds: f64 = number("--seconds", text)?;
    ensure!(seconds > 0.0 && seconds <= SECONDS_MAX, "--seconds {text}: more than 0, at most {SECONDS_MAX}");
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options> {
        parse(line.split_ascii_whitespace().map(str::to_owned))
    }

    #[test]
    fn compare_takes_programs_cases_and_bounds() {
        let options =
            read("compare --ours a --reference b --cases request,fan-out-5 --seconds 0.5 --rounds 2")
                .unwrap();
        assert_eq!(options.cases.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["request", "fan-out-5"]);
        assert_eq!(options.settings.duration, Duration::from_millis(500));
        assert!(matches!(options.command, Command::Compare { rounds: 2, .. }));
    }

    #[test]
    fn run_takes_cases_as_words_and_all_by_default() {
        let options = read("run --server 127.0.0.1:4222 publish-16 --pin").unwrap();
        assert_eq!(options.cases.len(), 1);
        assert!(options.pin);
        assert_eq!(read("run --server 127.0.0.1:4222").unwrap().cases.len(), ALL.len());
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (line, part) in [
            ("compare --ours a", "--reference is missing"),
            ("run --server x", "--server x"),
            ("run --server 127.0.0.1:1 nothing", "unknown case nothing"),
            ("run --server 127.0.0.1:1 --seconds 61", "at most 60"),
            ("run --server 127.0.0.1:1 --seconds NaN", "at most 60"),
            ("compare --ours a --reference b --rounds 0", "--rounds 0"),
            ("compare --ours", "--ours needs a value"),
            ("compare word", "unknown argument word"),
            ("fly", "unknown command fly"),
        ] {
            let error = format!("{:#}", read(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn help_lists_every_case() {
        assert!(matches!(read("").unwrap().command, Command::Help));
        assert!(ALL.iter().all(|(name, _)| HELP.contains(name)));
    }
}
