//! The text of a transcript: sections, steps and what each step expects.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::jetstream::CONFIG;

/// How long a recording looks for messages after a step that says nothing else.
const LOOK: Duration = Duration::from_millis(150);

/// One section of a file.
pub(super) struct Script {
    section: String,
    /// Configuration of its server.
    pub(super) config: String,
    pub(super) steps: Vec<Step>,
}

/// One thing to do, and the messages that it has to bring.
pub(super) struct Step {
    /// Counted from 1, in the file.
    pub(super) line_number: usize,
    /// The step as it stands in the file.
    pub(super) text: String,
    /// Which connection; empty for the first one.
    pub(super) client: String,
    /// Whether messages may come in any order.
    pub(super) unordered: bool,
    /// How long a recording looks for messages.
    pub(super) look: Duration,
    /// The words after the modifiers.
    pub(super) command: String,
    /// Names for parts of the last answer.
    pub(super) lets: Vec<(String, String)>,
    pub(super) expected: Vec<String>,
}

impl Script {
    /// Reads a section; panics when there is none of this name.
    pub(super) fn read(file: &Path, section: &str) -> Self {
        let text = load(file);
        let mut script = Self { section: section.to_owned(), config: String::new(), steps: Vec::new() };
        let mut inside = false;
        for (index, line) in text.lines().enumerate() {
            if let Some(name) = line.strip_prefix("=== ") {
                inside = name == section;
            } else if inside {
                script.take_line(index + 1, line);
            }
        }
        assert!(!script.steps.is_empty(), "{}: no section {section}, or an empty one", file.display());
        if script.config.is_empty() {
            CONFIG.clone_into(&mut script.config);
        }
        script
    }

    fn take_line(&mut self, line_number: usize, line: &str) {
        if line.trim().is_empty() || line.starts_with('#') {
            return;
        }
        if let Some(config) = line.strip_prefix("config ") {
            self.config.push_str(config);
            self.config.push('\n');
            return;
        }
        if !line.starts_with('<') && !line.starts_with("let ") {
            self.steps.push(Step::parse(line_number, line));
            return;
        }
        let Some(step) = self.steps.last_mut() else { panic!("line {line_number}: no step before {line:?}") };
        if let Some(expected) = line.strip_prefix('<') {
            step.expected.push(expected.strip_prefix(' ').unwrap_or(expected).to_owned());
        } else if let ["let", name, pointer] = line.split(' ').collect::<Vec<_>>()[..] {
            step.lets.push((name.to_owned(), pointer.to_owned()));
        } else {
            panic!("line {line_number}: let NAME POINTER, not {line:?}");
        }
    }

    /// Puts what the steps expect into the file; everything else in it stays.
    pub(super) fn write(&self, file: &Path) {
        let text = load(file);
        let mut out = String::new();
        let mut inside = false;
        let mut steps = self.steps.iter();
        let mut waiting: Option<&Step> = None;
        for line in text.lines() {
            let is_let = line.starts_with("let ");
            if inside && line.starts_with('<') {
                continue;
            }
            if !is_let {
                write_expected(&mut out, waiting.take());
            }
            out.push_str(line);
            out.push('\n');
            if let Some(name) = line.strip_prefix("=== ") {
                inside = name == self.section;
            } else if inside && !is_let && !is_remark(line) {
                waiting = steps.next();
            }
        }
        write_expected(&mut out, waiting);
        if let Err(error) = fs::write(file, out) {
            panic!("write {}: {error}", file.display());
        }
    }
}

impl Step {
    fn parse(line_number: usize, text: &str) -> Self {
        let mut step = Self {
            line_number,
            text: text.to_owned(),
            client: String::new(),
            unordered: false,
            look: LOOK,
            command: text.to_owned(),
            lets: Vec::new(),
            expected: Vec::new(),
        };
        while let Some((word, rest)) = modifier(&step.command) {
            match word.as_bytes()[0] {
                b'@' => word[1..].clone_into(&mut step.client),
                b'~' => step.unordered = true,
                _ => step.look = milliseconds(&word),
            }
            step.command = rest;
        }
        step
    }

    /// First word of the command, and what follows it.
    pub(super) fn words(&self) -> (&str, &str) {
        self.command.split_once(' ').unwrap_or((&self.command, ""))
    }
}

/// Names of all sections.
pub(super) fn section_names(file: &Path) -> Vec<String> {
    load(file).lines().filter_map(|line| line.strip_prefix("=== ")).map(str::to_owned).collect()
}

fn modifier(command: &str) -> Option<(String, String)> {
    if !command.starts_with(['@', '~', '+']) {
        return None;
    }
    let (word, rest) = command.split_once(' ')?;
    Some((word.to_owned(), rest.to_owned()))
}

fn milliseconds(word: &str) -> Duration {
    match word.strip_prefix('+').and_then(|word| word.strip_suffix("ms")).map(str::parse) {
        Some(Ok(milliseconds)) => Duration::from_millis(milliseconds),
        _ => panic!("{word:?}: expected a time such as +900ms"),
    }
}

fn is_remark(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#') || line.starts_with("config ")
}

fn write_expected(out: &mut String, step: Option<&Step>) {
    for line in step.into_iter().flat_map(|step| &step.expected) {
        // An empty answer leaves no blank at the end of the line.
        out.push_str(format!("< {line}").trim_end());
        out.push('\n');
    }
}

fn load(file: &Path) -> String {
    match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => panic!("read {}: {error}", file.display()),
    }
}
