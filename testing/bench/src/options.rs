//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cases::{Case, Settings, all, find};

/// What is printed for `--help` and no arguments.
pub(crate) const HELP: &str = "\
Load generator for NATS servers.

  bench compare --ours PROGRAM --reference PROGRAM [--cases NAME,NAME] [--rounds 3] [options]
      Starts both servers alternately, a fresh process for each case and round, and prints the figures side by side.
  bench run --server ADDRESS:PORT [--pid PID] [options] [CASE ...]
      Runs cases against a server that is running; with its process id also CPU and memory.
  bench sync [--directory DIRECTORY] [--seconds N]
      What the disk can do: the cost of one synced write, and synced bytes per second.

Options:
  --seconds N         measured time of each case (default 3, fractions allowed, at most 60)
  --connections N     idle connections (default 10000)
  --subscriptions N   subscriptions of one connection (default 100000)
  --messages N        stored messages that are read, deleted, restarted on (default 1000000)
  --subjects N        subjects of one stream (default 1000000)
  --keys N            keys of a bucket (default 100000)
  --streams N         idle streams (default 10000)
  --consumers N       idle consumers of one stream (default 10000)
  --pin               server and generator on one core each
  --json              JSON instead of a Markdown table

Cases: core (publish-16 publish-128 publish-1024 deliver-16 deliver-128 deliver-1024 fan-out-5 request connections
subscriptions) and jetstream (js-publish-1 js-publish-256 js-publish-4000, the same with -synced, js-memory-4000 js-fetch
js-ordered js-ordered-pull js-push js-work-queue kv-put-1 kv-put-256 kv-get-1 kv-get-256 kv-watch js-last-per-subject
js-multi-last js-start js-start-killed js-start-streams js-start-streams-killed js-streams js-consumers js-ephemeral
js-subjects js-interior). Default: all; run leaves out those that restart their server. Stores are in the directory for temporary
files (TMPDIR), which should be on the disk that is meant.
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Compare { programs: [PathBuf; 2], rounds: usize },
    Run { server: SocketAddr, process: Option<u32> },
    Sync { directory: PathBuf },
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
const COUNT_MAX: u64 = 10_000_000;

const DEFAULTS: Settings = Settings {
    duration: Duration::from_secs(3),
    connections: 10_000,
    subscriptions: 100_000,
    messages: 1_000_000,
    subjects: 1_000_000,
    keys: 100_000,
    streams: 10_000,
    consumers: 10_000,
};

/// Reads the arguments after the program's name.
pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let (mut ours, mut reference, mut server, mut process, mut rounds) = (None, None, None, None, 3);
    let mut directory = std::env::temp_dir();
    let settings = DEFAULTS;
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
            "--messages" => options.settings.messages = count(&name, &value()?)?,
            "--subjects" => options.settings.subjects = count(&name, &value()?)?,
            "--keys" => options.settings.keys = count(&name, &value()?)?,
            "--streams" => options.settings.streams = count(&name, &value()?)?,
            "--consumers" => options.settings.consumers = count(&name, &value()?)?,
            "--directory" => directory = PathBuf::from(value()?),
            "--cases" => {
                for case in value()?.split(',') {
                    options.cases.extend(find(case)?);
                }
            }
            "--pin" => options.pin = true,
            "--json" => options.json = true,
            "--help" | "-h" => return Ok(options),
            case if !case.starts_with('-') && verb == "run" => options.cases.extend(find(case)?),
            _ => bail!("unknown argument {name}; see bench --help"),
        }
    }
    ensure!((1..=ROUNDS_MAX).contains(&rounds), "--rounds {rounds}: 1 to {ROUNDS_MAX} are possible");
    if options.cases.is_empty() {
        options.cases = all().filter(|(_, case)| verb != "run" || !case.restarts()).collect();
    }
    options.command = match verb.as_str() {
        "compare" => {
            let programs = [ours.context("--ours is missing")?, reference.context("--reference is missing")?];
            Command::Compare { programs, rounds }
        }
        "run" => Command::Run { server: server.context("--server is missing")?, process },
        "sync" => Command::Sync { directory },
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

/// A number of things of which there are some, and not more than names have digits for.
fn count(name: &str, text: &str) -> Result<u64> {
    let count = number(name, text)?;
    ensure!((2..=COUNT_MAX).contains(&count), "{name} {text}: 2 to {COUNT_MAX} are possible");
    Ok(count)
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
        assert_eq!(read("run --server 127.0.0.1:4222").unwrap().cases.len(), all().count() - 4);
        assert_eq!(read("compare --ours a --reference b").unwrap().cases.len(), all().count());
        assert!(matches!(read("sync --directory /x").unwrap().command, Command::Sync { .. }));
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
            ("run --server 127.0.0.1:1 --keys 1", "--keys 1: 2 to"),
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
        let named = |(name, _): &(&str, Case)| HELP.contains(name.strip_suffix("-synced").unwrap_or(name));
        assert!(all().all(|case| named(&case)));
    }
}
