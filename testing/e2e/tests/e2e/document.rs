//! Commands in a document and what they print, kept true.
//!
//! Blocks that are marked `console` hold command lines, which begin with `$ `, each with its output below it. What differs
//! from run to run (ages, times, ids, widths of columns) is the same for the comparison. With `MYELIN_TRANSCRIPTS=write`
//! a run writes into the document what it saw instead of comparing.
//!
//! Commands that only read are repeated until their output is as written, within a limit. A command with `--watch` runs
//! beside the others to the end of its section. It is over when it shows again what it showed first; compared are its
//! first line, the first of the highest number of its column, and its last.

mod normal;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::NatsCluster;
use crate::command::{self, Background};
use crate::kubernetes::{CALL_LIMIT, ROOT};
use crate::wait;
use normal::{all, normal};

/// Asks for recording.
const WRITE_VARIABLE: &str = "MYELIN_TRANSCRIPTS";
/// How long a command that reads may print something else.
const READ_LIMIT: Duration = Duration::from_secs(120);
/// How long a watch may take to come back to where it began.
const WATCH_LIMIT: Duration = Duration::from_secs(240);
/// What a watch goes by: the first of these columns that it has.
const WATCHED: [&str; 2] = ["REPLICAS", "AVAILABLE"];

/// A document with commands.
pub(crate) struct Document {
    path: PathBuf,
    parts: Vec<Part>,
}

/// A piece of a document.
enum Part {
    /// A line that is nothing but text.
    Line(String),
    Command(Step),
}

/// A command and what it prints.
struct Step {
    command: String,
    output: Vec<String>,
}

/// A command that runs beside the others.
struct Watch {
    at: usize,
    background: Background,
}

impl Document {
    /// Reads a document; the path begins at the root of the repository.
    pub(crate) fn read(path: &str) -> Result<Self> {
        let path = PathBuf::from(ROOT).join(path);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { parts: parse(&text), path })
    }

    /// Runs every command as the user of a cluster, in its namespace, and compares or writes.
    pub(crate) fn play(mut self, cluster: &NatsCluster<'_>) -> Result<()> {
        let writing = std::env::var_os(WRITE_VARIABLE).is_some_and(|value| value == "write");
        let mut watches: Vec<Watch> = Vec::new();
        for at in 0..self.parts.len() {
            match &mut self.parts[at] {
                Part::Line(line) if line.starts_with("## ") => {
                    self.conclude(&mut watches, cluster, writing)?
                }
                Part::Line(_) => {}
                Part::Command(step) if step.command.contains("--watch") => {
                    watches.push(Watch { at, background: watch(&step.command, cluster)? });
                }
                Part::Command(step) => {
                    let seen = step.play(cluster, writing)?;
                    if writing {
                        step.output = seen;
                    }
                }
            }
        }
        self.conclude(&mut watches, cluster, writing)?;
        if writing {
            fs::write(&self.path, self.text())
                .with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(())
    }

    /// Waits for the end of what runs beside, and compares or keeps it.
    fn conclude(&mut self, watches: &mut Vec<Watch>, cluster: &NatsCluster<'_>, writing: bool) -> Result<()> {
        for mut watch in watches.drain(..) {
            let Part::Command(step) = &mut self.parts[watch.at] else { bail!("a watch is a command") };
            let seen = wait::until(&step.command, WATCH_LIMIT, || {
                watch.background.check_running()?;
                let lines = shown(&watch.background.lines().join("\n"), cluster);
                ensure!(is_over(&lines), "it has printed\n{}", lines.join("\n"));
                Ok(lines)
            })?;
            if writing {
                step.output = seen;
                continue;
            }
            let (expected, seen) = (milestones(&step.output)?, milestones(&seen)?);
            check(&step.command, &expected, &seen)?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let (first, rest) = match part {
                Part::Line(line) => (line.clone(), &[][..]),
                Part::Command(step) => (format!("$ {}", step.command), &step.output[..]),
            };
            for line in std::iter::once(&first).chain(rest) {
                text += line;
                text.push('\n');
            }
        }
        text
    }
}

impl Step {
    /// Runs the command. What it printed is as written, unless it is to be written.
    fn play(&self, cluster: &NatsCluster<'_>, writing: bool) -> Result<Vec<String>> {
        let once = || {
            let mut command = command(&self.command, cluster)?;
            let text = command::run(&mut command, "", CALL_LIMIT)?.whole_success()?;
            let lines = shown(&text, cluster);
            if !writing {
                check(&self.command, &self.output, &lines)?;
            }
            Ok(lines)
        };
        if self.only_reads() { wait::until(&self.command, READ_LIMIT, once) } else { once() }
    }

    fn only_reads(&self) -> bool {
        ["kubectl get ", "kubectl describe ", "kubectl wait ", "nats stream info ", "nats stream get "]
            .iter()
            .any(|start| self.command.starts_with(start))
    }
}

fn parse(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            parts.push(Part::Line(line.to_owned()));
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            parts.push(Part::Command(Step { command: command.to_owned(), output: Vec::new() }));
        } else if inside && let Some(Part::Command(step)) = parts.last_mut() {
            step.output.push(line.to_owned());
        } else {
            parts.push(Part::Line(line.to_owned()));
        }
    }
    parts
}

/// The program of a command line, with what a reader has in its environment.
fn command(line: &str, cluster: &NatsCluster<'_>) -> Result<std::process::Command> {
    let words = words(line);
    let (program, arguments) = words.split_first().context("an empty command")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match program.as_str() {
        "kubectl" => {
            let mut command = cluster.kubernetes.kubectl_command();
            command.args(["--namespace", cluster.namespace]).args(arguments);
            Ok(command)
        }
        "nats" => Ok(cluster.nats_at(&cluster.service(), &arguments)),
        other => bail!("no command of a document: {other}"),
    }
}

/// The words of a command line; those with blanks stand in single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (number, piece) in line.split('\'').enumerate() {
        if number % 2 == 1 {
            // An odd piece stood between quotes.
            if let Some(word) = words.last_mut() {
                word.push_str(piece);
            }
            continue;
        }
        for (at, plain) in piece.split(' ').enumerate() {
            if at > 0 {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push_str(plain);
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Starts a watch, and waits until it shows what there is.
fn watch(line: &str, cluster: &NatsCluster<'_>) -> Result<Background> {
    let mut background = Background::start(&mut command(line, cluster)?)?;
    wait::until(line, READ_LIMIT, || {
        background.check_running()?;
        let lines = background.lines();
        ensure!(lines.len() >= 2, "it has printed {lines:?}");
        Ok(())
    })?;
    Ok(background)
}

/// The lines of an output as a document shows them: a reader works in the default namespace.
fn shown(output: &str, cluster: &NatsCluster<'_>) -> Vec<String> {
    let text = output.replace(cluster.namespace, "default");
    text.trim_matches('\n').lines().map(|line| line.trim_end().to_owned()).collect()
}

fn is_over(lines: &[String]) -> bool {
    let rows: Vec<String> = lines.iter().skip(1).map(|line| normal(line)).collect();
    rows.first() == rows.last() && rows.iter().any(|row| Some(row) != rows.first())
}

/// The lines of a watch that are the same in every run.
fn milestones(lines: &[String]) -> Result<Vec<String>> {
    let (header, rows) = lines.split_first().context("a watch that prints nothing")?;
    let column = WATCHED.iter().find_map(|name| header.split_whitespace().position(|word| word == *name));
    let column = column.with_context(|| format!("a watch without any column of {WATCHED:?}: {header}"))?;
    let value = |row: &String| {
        let word = row.split_whitespace().nth(column);
        word.and_then(|word| word.parse::<i64>().ok()).unwrap_or_default()
    };
    let peak = rows.iter().map(value).max().unwrap_or_default();
    let highest = rows.iter().find(|row| value(row) == peak);
    Ok([Some(header), rows.first(), highest, rows.last()].into_iter().flatten().cloned().collect())
}

fn check(command: &str, expected: &[String], seen: &[String]) -> Result<()> {
    let (wanted, came) = (all(expected), all(seen));
    ensure!(
        wanted == came,
        "`{command}` is documented with\n{}\nand prints\n{}",
        wanted.join("\n"),
        came.join("\n")
    );
    Ok(())
}
