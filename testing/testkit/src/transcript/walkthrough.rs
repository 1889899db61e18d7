//! Command lines of the official tool and what it prints, kept as text.
//!
//! A file has the form of a transcript; every section has a server and a working directory of its own. A line with `<` is
//! one line of output, standard output before standard error, and last the exit code if it is not 0. Times, ids,
//! versions, addresses and the widths of tables are replaced ([`super::output`]), the rest is compared byte for byte.
//!
//! | Step | Meaning |
//! |---|---|
//! | `config LINE` | a line of the configuration, instead of the usual one |
//! | `$ COMMAND` | runs a command: `nats ...`, or `cat FILE`; words may stand in single quotes |
//! | `terminal $ COMMAND` | runs it as on a terminal, by `script` of util-linux: some commands refuse to run elsewhere |
//! | `only ~TEXT~ $ COMMAND` | shows only the lines with this text |
//! | `quiet $ COMMAND` | must succeed, and shows nothing |
//! | `until ~TEXT~ $ COMMAND` | runs it again until it succeeds with this text in its output |
//! | `watch COMMAND` | starts it in the background, and waits for its first line |
//! | `lines COUNT` | waits until what is in the background has printed so many lines |
//! | `end COUNT` | waits until what is in the background has printed so many lines, ends it, and shows them |
//! | `file NAME TEXT` | writes a file |
//!
//! `~` before `$`: the lines come in any order.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::output::Replacer;
use super::script::{Script, Step};
use super::{MISMATCHES_MAX, difference, is_recording, save};
use crate::server::{Builder, Server};
use crate::target::Target;
use crate::tools;
use crate::wait::{PATIENCE, eventually_ok, within};

/// Lines that a command may print.
const LINES_MAX: usize = 5_000;

/// Plays a section of a file with this tool against a server of this kind, and panics with the commands whose output
/// differs.
pub async fn walk(target: &Target, tool: &Path, file: &Path, section: &str) {
    let mut script = Script::read(file, section);
    let mut walk = Walk::start(target, tool, &script.config).await;
    if is_recording() {
        for step in &mut script.steps {
            step.expected = walk.step(step).await;
        }
        return save(&script, file);
    }
    let mut mismatches = Vec::new();
    for step in &script.steps {
        let seen = walk.step(step).await;
        if seen != step.expected {
            mismatches.push(difference(step, &seen));
        }
        if mismatches.len() == MISMATCHES_MAX {
            break;
        }
    }
    let count = mismatches.len();
    assert!(count == 0, "{section}: {count} steps differ\n{}", mismatches.join("\n"));
}

struct Walk {
    server: Server,
    tool: PathBuf,
    dir: PathBuf,
    replacer: Replacer,
    background: Option<Background>,
}

/// A command that prints until it is ended.
struct Background {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
}

/// What a command printed.
struct Printed {
    text: String,
    code: i32,
}

impl Walk {
    async fn start(target: &Target, tool: &Path, config: &str) -> Self {
        let server = Builder::new(target).config(config).start().await;
        let dir = server.dir().join("walk");
        if let Err(error) = std::fs::create_dir(&dir) {
            panic!("{}: {error}", dir.display());
        }
        let replacer = Replacer::new(&[
            (dir.display().to_string(), "<dir>"),
            (server.dir().display().to_string(), "<server-dir>"),
            (server.client_addr().to_string(), "<address>"),
        ]);
        Self { server, tool: tool.to_owned(), dir, replacer, background: None }
    }

    async fn step(&mut self, step: &Step) -> Vec<String> {
        let (verb, rest) = step.words();
        let mut lines = match verb {
            "$" => self.show(&self.run(rest).await),
            "terminal" => {
                let mut words = words(rest.trim_start_matches("$ "));
                if let Some(first) = words.first_mut().filter(|first| *first == "nats") {
                    *first = self.tool.display().to_string();
                }
                let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
                self.show(
                    &self
                        .output(rest, self.program("script", &["-qec", &quoted.join(" "), "/dev/null"]))
                        .await,
                )
            }
            "only" => {
                let (text, command) = condition(rest);
                let lines = self.show(&self.run(command).await);
                lines.into_iter().filter(|line| line.contains(text)).collect()
            }
            "quiet" => {
                let printed = self.run(rest.trim_start_matches("$ ")).await;
                if printed.code == 0 { Vec::new() } else { self.show(&printed) }
            }
            "until" => {
                let (text, command) = condition(rest);
                self.until(text, command).await
            }
            "watch" => {
                self.watch(rest).await;
                Vec::new()
            }
            "lines" => {
                self.lines(rest).await;
                Vec::new()
            }
            "end" => self.end(rest).await,
            "file" => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                if let Err(error) = std::fs::write(self.dir.join(name), text) {
                    panic!("{name}: {error}");
                }
                Vec::new()
            }
            _ => panic!("line {}: no such step: {verb:?}", step.line_number),
        };
        if step.unordered {
            lines.sort();
        }
        lines
    }

    fn command(&self, text: &str) -> Command {
        let words = words(text);
        let (first, rest) =
            words.split_first().map_or(("", &words[..]), |(first, rest)| (first.as_str(), rest));
        assert!(matches!(first, "nats" | "cat"), "not a command of walkthroughs: {text}");
        self.program(first, rest)
    }

    fn program(&self, name: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
        let program = if name == "nats" { &self.tool } else { Path::new(name) };
        let mut command = tools::clean_command(program, &self.dir);
        command
            .args(arguments)
            .current_dir(&self.dir)
            .env("NATS_URL", format!("nats://{}", self.server.client_addr()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        command
    }

    async fn run(&self, text: &str) -> Printed {
        self.output(text, self.command(text)).await
    }

    async fn output(&self, text: &str, mut command: Command) -> Printed {
        match within(PATIENCE, text, command.output()).await {
            Ok(output) => Printed {
                text: String::from_utf8_lossy(&output.stdout).into_owned()
                    + &String::from_utf8_lossy(&output.stderr),
                code: output.status.code().unwrap_or(-1),
            },
            Err(error) => panic!("{text}: {error}"),
        }
    }

    fn show(&self, printed: &Printed) -> Vec<String> {
        let mut lines: Vec<String> = printed.text.lines().map(|line| self.replacer.line(line)).collect();
        assert!(lines.len() <= LINES_MAX, "{} lines", lines.len());
        if printed.code != 0 {
            lines.push(format!("exit code {}", printed.code));
        }
        lines
    }

    async fn until(&self, text: &str, command: &str) -> Vec<String> {
        eventually_ok(command, async || {
            let printed = self.run(command).await;
            let shown = self.show(&printed);
            let holds = printed.code == 0 && shown.iter().any(|line| line.contains(text));
            if holds { Ok(shown) } else { Err(shown.join("\n")) }
        })
        .await
    }

    async fn watch(&mut self, text: &str) {
        assert!(self.background.is_none(), "one command in the background at a time: {text}");
        let mut child = match self.command(text).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => panic!("{text}: {error}"),
        };
        let Some(stdout) = child.stdout.take() else { panic!("{text}: no output") };
        let lines = BufReader::new(stdout).lines();
        let mut background = Background { child, lines, seen: Vec::new() };
        background.read(1).await;
        self.background = Some(background);
    }

    /// What is in the background, once it has printed so many lines.
    async fn lines(&mut self, count: &str) -> &mut Background {
        let (Some(background), Ok(count)) = (&mut self.background, count.parse()) else {
            panic!("a COUNT, after watch: {count:?}")
        };
        background.read(count).await;
        background
    }

    async fn end(&mut self, count: &str) -> Vec<String> {
        let background = self.lines(count).await;
        if let Err(error) = background.child.kill().await {
            panic!("end: {error}");
        }
        let seen = std::mem::take(&mut background.seen);
        self.background = None;
        seen.iter().map(|line| self.replacer.line(line)).collect()
    }
}

impl Background {
    /// Reads until so many lines have come that are not empty.
    async fn read(&mut self, count: usize) {
        while self.seen.len() < count {
            let what = format!("line {} of {:?}", self.seen.len() + 1, self.seen);
            match within(PATIENCE, &what, self.lines.next_line()).await {
                Ok(Some(line)) if line.trim().is_empty() => {}
                Ok(Some(line)) => self.seen.push(line),
                end => panic!("{what}: {end:?}"),
            }
        }
    }
}

/// `~TEXT~ $ COMMAND`.
fn condition(rest: &str) -> (&str, &str) {
    match rest.strip_prefix('~').and_then(|rest| rest.split_once("~ $ ")) {
        Some(parts) => parts,
        None => panic!("~TEXT~ $ COMMAND, not {rest:?}"),
    }
}

/// Words, of which some stand in single quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for letter in text.chars() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    assert!(!quoted, "a quote is open: {text}");
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn commands_are_cut_into_words() {
        assert_eq!(words("nats pub s.a 'two words' '' x"), ["nats", "pub", "s.a", "two words", "", "x"]);
        assert_eq!(words("nats  --header='A: b'"), ["nats", "--header=A: b"]);
    }
}
