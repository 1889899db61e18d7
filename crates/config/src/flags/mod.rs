//! The command line: flags in one or two dashes, laid over the configuration file.

mod overrides;
mod table;

#[cfg(test)]
mod tests;

pub use overrides::Overrides;
use table::{Flag, Setting};
pub use table::{help_tls, usage};

/// Exit status after a command line that could not be understood.
pub const USAGE_EXIT_CODE: i32 = 2;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandLine {
    /// What to do.
    pub action: Action,
    /// The configuration file.
    pub config_file: Option<String>,
    /// Options that win over the file, now and at every reload.
    pub overrides: Overrides,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run the server.
    Run,
    /// Print the version.
    Version,
    /// Print the usage.
    Help,
    /// Print help about TLS.
    HelpTls,
    /// Check the configuration file and print its digest.
    Test,
    /// Signal a running server.
    Signal {
        /// What it shall do.
        command: SignalCommand,
        /// A process id (with `*` at its end for several), or a file that holds one; `None` looks for the one server
        /// that runs.
        target: Option<String>,
    },
}

/// Signals by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalCommand {
    /// `stop`: SIGKILL.
    Stop,
    /// `quit`: SIGINT.
    Quit,
    /// `term`: SIGTERM.
    Term,
    /// `reopen`: SIGUSR1.
    Reopen,
    /// `reload`: SIGHUP.
    Reload,
    /// `ldm`: SIGUSR2.
    LameDuck,
}

/// A command line that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

/// Reads the arguments that follow the name of the program.
pub fn parse_args<S: AsRef<str>>(arguments: &[S]) -> Result<CommandLine, UsageError> {
    let mut reader = Reader::default();
    let mut rest = arguments.iter().map(AsRef::as_ref);
    while let Some(argument) = rest.next() {
        let Some(text) = flag_text(argument)? else {
            // The first word that is no flag ends the flags; `--` is not a word of its own.
            let words = (argument != "--").then_some(argument).into_iter().chain(rest);
            return reader.finish(words);
        };
        let (name, mut value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let Some(flag) = table::find(name) else {
            return Err(UsageError(format!("flag provided but not defined: -{name}")));
        };
        if value.is_none() && flag.takes_value() {
            value = rest.next();
            if value.is_none() {
                return Err(UsageError(format!("flag needs an argument: -{name}")));
            }
        }
        reader.take(flag, name, value)?;
    }
    reader.finish(std::iter::empty())
}

/// The text after the dashes, if the argument is a flag.
fn flag_text(argument: &str) -> Result<Option<&str>, UsageError> {
    let Some(text) = argument.strip_prefix('-').filter(|text| !text.is_empty() && *text != "-") else {
        return Ok(None);
    };
    let text = text.strip_prefix('-').unwrap_or(text);
    if text.is_empty() || text.starts_with(['-', '=']) {
        return Err(UsageError(format!("bad flag syntax: {argument}")));
    }
    Ok(Some(text))
}

/// Collects what flags say.
#[derive(Default)]
struct Reader {
    is_version: bool,
    is_help: bool,
    is_help_tls: bool,
    is_test: bool,
    signal: Option<(SignalCommand, Option<String>)>,
    config_file: Option<String>,
    overrides: Overrides,
}

impl Reader {
    fn take(&mut self, flag: &Flag, name: &str, value: Option<&str>) -> Result<(), UsageError> {
        match flag.setting {
            Setting::Absent(feature) => {
                // A switch that is told to stay off asks for nothing.
                if flag.takes_value() || boolean(name, value)? {
                    return Err(UsageError(format!(
                        "flag -{name}: {feature} is not supported in this version"
                    )));
                }
            }
            Setting::Switch(set) => set(&mut self.overrides, boolean(name, value)?),
            Setting::Text(set) => set(&mut self.overrides, value.unwrap_or_default().into()),
            Setting::Number(set) => {
                let text = value.unwrap_or_default();
                let number = text.parse().map_err(|_| {
                    UsageError(format!("invalid value {text:?} for flag -{name}: parse error"))
                })?;
                set(&mut self.overrides, number);
            }
            Setting::Checked(set) => {
                let text = value.unwrap_or_default();
                set(&mut self.overrides, text).map_err(|error| {
                    UsageError(format!("invalid value {text:?} for flag -{name}: {error}"))
                })?;
            }
            Setting::Version => self.is_version = boolean(name, value)?,
            Setting::Help => self.is_help = boolean(name, value)?,
            Setting::HelpTls => self.is_help_tls = boolean(name, value)?,
            Setting::Test => self.is_test = boolean(name, value)?,
            Setting::ConfigFile => self.config_file = value.filter(|path| !path.is_empty()).map(Into::into),
            Setting::Signal => self.signal = Some(signal(value.unwrap_or_default())?),
        }
        Ok(())
    }

    fn finish<'a>(mut self, words: impl Iterator<Item = &'a str>) -> Result<CommandLine, UsageError> {
        for word in words {
            match word.to_ascii_lowercase().as_str() {
                "version" => self.is_version = true,
                "help" => self.is_help = true,
                _ => return Err(UsageError(format!("unrecognized command: {word:?}"))),
            }
        }
        let action = if self.is_version {
            Action::Version
        } else if self.is_help {
            Action::Help
        } else if self.is_help_tls {
            Action::HelpTls
        } else if let Some((command, target)) = self.signal {
            Action::Signal { command, target }
        } else if self.is_test {
            if self.config_file.is_none() {
                let message = "must specify [-c, --config] option to check configuration file syntax";
                return Err(UsageError(message.into()));
            }
            Action::Test
        } else {
            Action::Run
        };
        Ok(CommandLine { action, config_file: self.config_file, overrides: self.overrides })
    }
}

fn boolean(name: &str, value: Option<&str>) -> Result<bool, UsageError> {
    match value {
        None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some(text) => Err(UsageError(format!("invalid boolean value {text:?} for -{name}: parse error"))),
    }
}

/// `command`, `command=pid` or `command=file`.
fn signal(text: &str) -> Result<(SignalCommand, Option<String>), UsageError> {
    let (command, target) = match text.split_once('=') {
        Some((command, target)) => (command, (!target.is_empty()).then(|| target.into())),
        None => (text, None),
    };
    let command = match command {
        "stop" => SignalCommand::Stop,
        "quit" => SignalCommand::Quit,
        "term" => SignalCommand::Term,
        "reopen" => SignalCommand::Reopen,
        "reload" => SignalCommand::Reload,
        "ldm" => SignalCommand::LameDuck,
        _ => return Err(UsageError(format!("unknown signal {command:?}"))),
    };
    Ok((command, target))
}
